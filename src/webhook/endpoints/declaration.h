/* SPDX-License-Identifier: Apache-2.0 */
/*
 * declaration: what this process serves, in the store's roster (store/tables/roster.h): written
 * before the config is in force, and in force from one commit on. It lives DECLARATION_LIVES_US
 * behind its last beat; where it was swept meanwhile, or a commit ended unsure, it is written anew.
 * For fibers.
 */
#ifndef PAWL_WEBHOOK_DECLARATION_H
#define PAWL_WEBHOOK_DECLARATION_H

#include "webhook/endpoints/census.h"
#include "webhook/plan.h"

#define DECLARATION_BEATS_US (INT64_C(60) * CLOCK_US_PER_S)
#define DECLARATION_LIVES_US (INT64_C(180) * CLOCK_US_PER_S)

struct declaration {
    struct store *store;
    struct store_process process; /* row.id 0: there is none, as nothing is declared */
    struct store_process half;    /* row.id 0: none; what the last one that failed has written */
    int64_t beat_at;              /* boot time of the next one */
};

/* What the plan's config has is declared from now on, in place of what this process declared. */
enum store_status declaration_make(struct declaration *declaration,
                                   const struct webhook_plan *plan);

/* The process lives. STORE_CONFLICT: it is to be made anew. */
enum store_status declaration_beat(struct declaration *declaration);

/* What `old` had and `plan` has not, and no other living process has, gets no more events. */
enum store_status declaration_retire(struct declaration *declaration,
                                     const struct webhook_plan *old,
                                     const struct webhook_plan *plan);

/* The process ends. */
void declaration_end(struct declaration *declaration);

#endif
