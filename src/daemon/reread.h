/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reread: SIGHUP. Reads the config file again and, when all of it is good, lets the gateway serve
 * by it; a bad one is refused as a whole, and the old one goes on. Either is told in the log, by
 * lines `config_reloaded`, `config_warning`, `config_needs_restart` (an option that counts only at
 * a start was changed) and `config_refused` (one a complaint, with file, line and column).
 */
#ifndef PAWL_DAEMON_REREAD_H
#define PAWL_DAEMON_REREAD_H

#include "base/log.h"
#include "config/config.h"
#include "gateway/gateway.h"

struct reread {
    const char *path;             /* of the config */
    const struct config *started; /* what this process was started with */
    int signals;                  /* readable once a signal came: a look-up of names gives way */
    struct store *store;
    struct engine *engine;
    struct gateway *gateway;
    struct log *log;
};

/* The config that is in force from now on (config_free), or NULL: it was refused. */
struct config *reread_config(const struct reread *reread);

#endif
