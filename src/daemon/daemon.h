/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon: wires store, engine and gateway together as the config says, and runs them until a
 * signal ends them. The main thread does nothing else: start, reload, drain, stop.
 *
 *      start ---> serving --- SIGTERM, SIGINT ---> leaving --- drain_delay ---> draining ---> end
 *                  |   ^                           serves on,                   exchanges end, for
 *                  '---'                           not ready                    `drain` at most
 *                 SIGHUP
 */
#ifndef PAWL_DAEMON_DAEMON_H
#define PAWL_DAEMON_DAEMON_H

#include "config/config.h"

struct daemon_options {
    const char *config_path; /* read again on SIGHUP */
    const struct config *config;
    const char *store_path;
};

/* Serves until SIGTERM or SIGINT, drains, and returns an exit code (core/errors.h). A second one of
 * these ends it at once. Complaints are lines on stderr, the log is JSON lines there. */
int daemon_run(const struct daemon_options *options);

/* Writes the notes on a config to stderr, as daemon_run does once it is ready. */
void daemon_say_notes(const struct config *config);

#endif
