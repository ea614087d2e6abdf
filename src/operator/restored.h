/* SPDX-License-Identifier: Apache-2.0 */
/*
 * restored: an operator says that a store lacks what it had acknowledged since some time: a backup
 * was put in its place, or it went back (store/tables/terms.h). That opens a store that is closed
 * since it went back, and is kept in its terms: restored_since, restored_at, restored_until.
 */
#ifndef PAWL_OPERATOR_RESTORED_H
#define PAWL_OPERATOR_RESTORED_H

#include "store/store.h"
#include "store/tables/acts.h"

struct restored_mark {
    int64_t since; /* store time; 0: the mark is taken back */
    int64_t until; /* when the mark ends; 0: nobody said */
    int64_t above; /* tokens that are drawn from now on are above it; 0: as they are */
};

/* Sets it, and writes who did so into the audit. STORE_DONE with `*ret_changed` false: to take the
 * mark back would open a store that went back. */
enum store_status restored_set(struct store *store, const struct store_actor *actor,
                               const struct restored_mark *mark, struct parker *parker,
                               bool *ret_changed);

#endif
