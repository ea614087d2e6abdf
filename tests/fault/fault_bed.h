/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One story of a store, told again and again while ever another call beneath it fails; and what
 * must hold of the file afterwards. One thread steps the store by hand under a clock of its own, so
 * that the n-th call is the same in every run.
 */
#ifndef PAWL_TESTS_FAULT_BED_H
#define PAWL_TESTS_FAULT_BED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/store.h"
#include "store/tables/tasks.h"

#define SECOND CLOCK_US_PER_S
#define LEASE (30 * SECOND)
#define TTL (3600 * SECOND)
#define SHORT_TTL (60 * SECOND)
#define KEYS 24
#define FIRST_TASK 10 /* the first of the keys with a task */
#define TASKS 4

/* What this side knows of a key: only what it was told, and what it asked without an answer. */
struct known {
    int64_t token;    /* of the claim told last; 0: none */
    bool claimed;     /* told to proceed, and nothing that ends it was asked for */
    bool told;        /* an outcome was acknowledged */
    bool may_be_done; /* an outcome was asked for */
    bool may_proceed; /* released, forgotten, expired, or asked to be */
};

struct fault_bed {
    char dir[64];
    char path[96];
    int64_t now;
    struct store_config config;
    struct store *store; /* NULL: closed, or not to be opened */
    struct parker parker;
    bool dead; /* fail-stop */
    char why[256];
    struct known known[KEYS];
    size_t audits_told;  /* acts by hand that were acknowledged */
    size_t audits_asked; /* and that were asked for */
    struct store_task
        tasks[TASKS]; /* that come with the claims of some keys, and with their ends */
    struct store_attempt attempt;
    struct table_change changes[2];
};

void fault_bed_init(struct fault_bed *bed);
/* Disarmed faults, please. Removes the directory. */
void fault_bed_fini(struct fault_bed *bed);

/* False: it said why not. */
bool fault_bed_open(struct fault_bed *bed);
void fault_bed_close(struct fault_bed *bed);

/* Until the operation has ended, the clock going on where the store has nothing to do. */
void fault_bed_run(struct fault_bed *bed, struct store_op *op);

/* The story: opens, claims, outcomes small and large, releases, doubts, forgets, a heartbeat, a
 * sweep, tasks beside records, checkpoints, a close. Ends early when the store stopped. */
void fault_bed_story(struct fault_bed *bed);

/* Opens the file again, without faults: it is whole, everything acknowledged is there, and nothing
 * that was claimed is claimed twice. Then the file takes new work. */
void fault_bed_check(struct fault_bed *bed);

#endif
