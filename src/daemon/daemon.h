/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon: runs parts (part.h) as the config says until a signal ends them. The main thread does
 * nothing else: start, reload, drain, stop. Signals come here alone, and only by next_signal.
 *
 *      start ---> serving --- SIGTERM, SIGINT ---> leaving --- drain_delay ---> draining ---> end
 *                  |   ^                           serves on,                   exchanges end, for
 *                  '---'                           not ready                    `drain` at most
 *                 SIGHUP
 *
 * SIGHUP reads the config again, and with `reload:` so does another file under its path. When all
 * parts can serve by it, they do; a bad one is refused as a whole, and the old one stays in force.
 * The log says either, by lines `config_reloaded`, `config_warning`, `config_needs_restart` (an
 * option that counts only at a start was changed) and `config_refused` (one a complaint, with file,
 * line and column).
 */
#ifndef PAWL_DAEMON_DAEMON_H
#define PAWL_DAEMON_DAEMON_H

#include "daemon/part.h"

/* Serves until SIGTERM or SIGINT, drains, and returns an exit code (core/errors.h). A second one of
 * these ends it at once. Complaints are lines on stderr, the log is JSON lines there. */
int daemon_run(const struct daemon_options *options);

/* For check_rules_known: writes the line to stderr. */
void daemon_say_warning(void *argument, struct slice line);

/* Writes the notes on a config to stderr, as daemon_run does once it is ready. */
void daemon_say_notes(const struct config *config);

/* Whether work should come to the process: all parts are ready, and it is not about to end. False:
 * `why` says why not. From any thread. */
bool daemon_is_ready(const struct daemon *daemon, struct buf *why);

/* Writes the page of metrics: the process's, and each part's. From any thread. */
void daemon_write_metrics(struct daemon *daemon, struct buf *page);

#endif
