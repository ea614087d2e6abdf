/* SPDX-License-Identifier: Apache-2.0 */
/* What a store may take, as the config says it: values only. */
#ifndef PAWL_STORE_SETTINGS_H
#define PAWL_STORE_SETTINGS_H

#include <stddef.h>
#include <stdint.h>

/* These may change while a store is open. */
struct store_limits {
    size_t max_waiting;         /* begins that wait for another attempt */
    size_t max_waiting_per_key; /* of them, for one record */
    int64_t timeout_us;         /* a batch that takes longer makes the store count as down */
    uint64_t disk_reserve;      /* bytes to stay free; 0: the smaller of 64 MiB and 10 % */
};

#endif
