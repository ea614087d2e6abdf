/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/session.h"

#define LOOK_EVERY_US (1 * CLOCK_US_PER_S)
#define ANSWER_US (5 * CLOCK_US_PER_S) /* a store that was silent for so long is not ready */
#define PROBLEM_MAX ((size_t)512)

void health_watch(void *argument)
{
    struct admin *admin = argument;
    admin->watcher = fiber_parker();
    while (!admin->stopping) {
        struct store_op op = {.kind = STORE_LOOK}; /* no key has this hash */
        store_run(admin->config.store, &op, fiber_parker(),
                  clock_after(clock_boot_us(), ANSWER_US));
        outcome_unref(op.found);
        if (op.status == STORE_DONE)
            admin->answered_at = clock_boot_us();
        if (!admin->stopping)
            fiber_wait(NULL, 0, clock_after(clock_boot_us(), LOOK_EVERY_US));
    }
    admin->watcher = NULL;
}

void health_live(struct session *session, struct reply *reply)
{
    (void)session;
    buf_add_str(&reply->body, "alive\n");
}

void health_ready(struct session *session, struct reply *reply)
{
    const struct admin *admin = session->admin;
    const char *why = admin->config.unready(admin->config.argument);
    BUF_AUTO struct buf problem = buf_make(PROBLEM_MAX);
    if (why) {
        reply_problem(reply, 503, "%s", why);
    } else if (!store_is_up(admin->config.store)) {
        store_problem(admin->config.store, &problem);
        reply_problem(reply, 503, "the store takes no new operations: %.*s",
                      SLICE_ARG(buf_slice(&problem)));
    } else if (clock_after(admin->answered_at, ANSWER_US) < clock_boot_us()) {
        reply_problem(reply, 503, "the store has not answered for %d seconds",
                      (int)(ANSWER_US / CLOCK_US_PER_S));
    } else {
        buf_add_str(&reply->body, "ready\n");
    }
}
