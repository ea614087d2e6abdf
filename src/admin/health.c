/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/admin_priv.h"

#define PROBLEM_MAX ((size_t)512)

void health_live(struct session *session, struct reply *reply)
{
    (void)session;
    buf_add_str(&reply->body, "alive\n");
}

void health_ready(struct session *session, struct reply *reply)
{
    const struct admin_config *config = &session->admin->config;
    BUF_AUTO struct buf why = buf_make(PROBLEM_MAX);
    if (config->is_ready(config->argument, &why))
        buf_add_str(&reply->body, "ready\n");
    else
        reply_problem(reply, 503, "%.*s", SLICE_ARG(buf_slice(&why)));
}
