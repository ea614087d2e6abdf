/* SPDX-License-Identifier: Apache-2.0 */
/* The admin listener as the config wants it, and what it is told of the running daemon. */
#ifndef PAWL_DAEMON_OPERATOR_H
#define PAWL_DAEMON_OPERATOR_H

#include "admin/admin.h"
#include "config/config.h"
#include "gateway/gateway.h"
#include <stdatomic.h>

/* What the listener looks at; it outlives the listener. */
struct operator_view {
    struct store *store;
    struct gateway *gateway;
    struct metrics *metrics;
    struct log *log;
    atomic_bool leaving; /* a signal to end came: no new traffic should */
};

/* Starts the listener; `*ret_admin` is NULL where the config wants none. False: `*ret_problem`
 * (mem_free) is one line that says why. */
bool operator_listen(const struct config *config, struct operator_view *view,
                     struct admin **ret_admin, char **ret_problem);

#endif
