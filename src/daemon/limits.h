/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limits: whether what the config allows fits what this machine gives, looked at when it starts,
 * and before a reload.
 *
 * Descriptors (RLIMIT_NOFILE): one a client, one a ruled exchange with the upstream, the kept
 * upstream connections, and what loops, store, log and admin listener hold. Unruled requests at the
 * upstream are not counted: where all is used up they get 503, and no more is accepted.
 * Memory mappings (vm.max_map_count): two for each fiber's stack.
 */
#ifndef PAWL_DAEMON_LIMITS_H
#define PAWL_DAEMON_LIMITS_H

#include "config/config.h"

/* Raises the soft limit of descriptors to the hard one, and checks both. False: `*ret_problem`
 * (mem_free) is one line that says what does not fit, and what to change. */
bool limits_fit(const struct config *config, char **ret_problem);

#endif
