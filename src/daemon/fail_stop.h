/* SPDX-License-Identifier: Apache-2.0 */
/* fail_stop: how `serve` ends when its store fails for good (contract section 2, invariant 8). */
#ifndef PAWL_DAEMON_FAIL_STOP_H
#define PAWL_DAEMON_FAIL_STOP_H

#include "base/log.h"

/* For store_config.fail_stop, with a `struct log **`: writes what the log holds, says `what` on
 * stderr, and ends the process with EXIT_FAIL_STOP. A reader that has stopped delays it no longer
 * than LOG_FLUSH_US. */
void fail_stop(void *log, const char *what);

#endif
