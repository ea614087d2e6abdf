/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reload: a new plan for every loop, in two steps, so that no two loops begin operations by
 * different rules at one moment (a rule renamed with `formerly:` would have an operation twice):
 *
 *      hold    every loop holds requests back that are about to begin; main waits for all of them
 *      switch  every loop takes its new plan and lets them go on, each judged anew
 */
#ifndef PAWL_GATEWAY_RELOAD_H
#define PAWL_GATEWAY_RELOAD_H

#include "fiber/fiber.h"
#include "gateway/plan.h"
#include <stdatomic.h>

/* A loop's part. */
struct reload {
    struct loop_post hold;
    struct loop_post change;
    struct plan *next; /* prepared; main's until `change` is posted, then the loop's */
    atomic_bool done;  /* the last post was called */
    bool held;         /* the loop's */
};

struct server;

/* Sets up the posts of a loop. */
void reload_init(struct server *server);

/* Parks the running fiber while its loop holds requests back. */
void reload_wait(const struct server *server);

#endif
