/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/session.h"

#define ANSWER_US (5 * CLOCK_US_PER_S) /* a store that was silent for so long is not ready */
#define PROBLEM_MAX ((size_t)512)

void health_live(struct session *session, struct reply *reply)
{
    (void)session;
    buf_add_str(&reply->body, "alive\n");
}

bool admin_store_is_ready(struct store *store, struct buf *why)
{
    bool answers = clock_after(store_counts(store).last_ok_at, ANSWER_US) >= clock_boot_us();
    if (store_is_up(store) && answers)
        return true;
    if (!why)
        return false;
    if (store_is_up(store))
        buf_printf(why, "the store has not answered for %d seconds",
                   (int)(ANSWER_US / CLOCK_US_PER_S));
    else
        store_problem(store, why);
    return false;
}

void health_ready(struct session *session, struct reply *reply)
{
    const struct admin *admin = session->admin;
    const char *why = admin->config.unready(admin->config.argument);
    BUF_AUTO struct buf problem = buf_make(PROBLEM_MAX);
    if (why)
        reply_problem(reply, 503, "%s", why);
    else if (!admin_store_is_ready(admin->config.store, &problem))
        reply_problem(reply, 503, "the store takes no new operations: %.*s",
                      SLICE_ARG(buf_slice(&problem)));
    else
        buf_add_str(&reply->body, "ready\n");
}
