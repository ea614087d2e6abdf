/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon: wires store, engine and gateway together as the config says, and runs them until a
 * signal ends them. The main thread does nothing else: start, drain, stop.
 */
#ifndef PAWL_DAEMON_DAEMON_H
#define PAWL_DAEMON_DAEMON_H

#include "config/config.h"

/* Serves until SIGTERM or SIGINT, drains, and returns an exit code (core/errors.h). A second signal
 * while draining ends it at once. Complaints are lines on stderr, the log is JSON lines there. */
int daemon_run(const struct config *config, const char *store_path);

#endif
