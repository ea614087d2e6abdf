/* SPDX-License-Identifier: Apache-2.0 */
/*
 * container: what this process may use of its machine, as far as affinity (sched_getaffinity) and
 * control groups say: cpu.max and memory.max of version 2, cpu.cfs_* and memory.limit_in_bytes of
 * version 1. The limit of each group around the process counts, so the lowest does. What cannot be
 * read is no limit.
 */
#ifndef PAWL_BASE_CONTAINER_H
#define PAWL_BASE_CONTAINER_H

#include <stddef.h>
#include <stdint.h>

struct container {
    size_t processors; /* to run on, by affinity and quota; at least 1 */
    size_t affine;     /* by affinity alone */
    size_t online;     /* of the machine */
    double quota;      /* processors' worth of time; 0: no limit */
    uint64_t memory;   /* bytes; 0: no limit below the machine's memory */
};

/* Builds with hooks find /proc and /sys under $PAWL_TEST_ROOT. */
struct container container_read(void);

#endif
