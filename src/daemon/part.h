/* SPDX-License-Identifier: Apache-2.0 */
/*
 * part: what the process is made of. A part is a file that defines `NAME_part` and a row of a table
 * (parts/parts.h has the product's); the process does the same with each, in the table's order:
 *
 *      check    `serve -t`: each, in order, says whether it could start
 *      start    each, in order; where one cannot, those before it stop, and the process ends
 *      serving  SIGHUP: all prepare; if all could, all reload, else those that could forget it, and
 *               nothing has changed
 *               every second: watch; at any time, from the admin listener's thread: ready, metrics
 *      draining SIGTERM, SIGINT: `drain_delay` later all begin to drain, in reverse order, each
 *               until its descriptor is readable, all of them under one deadline; then, or at a
 *               second signal, what still runs is left behind by the process's end
 *      stopped  in reverse order: of its own accord a part calls nobody and wakes nobody any more
 *      freed    in reverse order, once all have stopped: the committer and the workers may wake
 *               fibers until they end, so that no loop is freed before
 *
 * So a part relies on those of the rows above its own, from its start to its end. The admin
 * listener shows all others, and comes last.
 *
 * All but `name` and `start` may be NULL: there is nothing to do. A part that the config of the
 * start does not want is not there. All are called on the main thread, but for `ready` and
 * `metrics`. What a part says in `ret_problem` (mem_free; NULL: out of memory) is one line.
 */
#ifndef PAWL_DAEMON_PART_H
#define PAWL_DAEMON_PART_H

#include "base/log.h"
#include "config/config.h"
#include "engine/engine.h"
#include "fiber/offload.h"
#include "fiber/service.h"
#include "observe/page.h"

#define PARTS_MAX CONFIG_SECTIONS_MAX

struct daemon;

struct part {
    const char *name;
    const struct option *section; /* of the config (options.h); NULL: it brings none of its own */
    size_t size; /* of what it keeps, `self`: the process's memory, zeroed; 0: `start` makes it */
    /* Whether there is something for it to do. NULL: always. */
    bool (*is_wanted)(const struct config *config);
    /* Whether it could start by `config`; makes nothing. Asked by `serve -t`, without a process. */
    bool (*check)(const struct config *config, char **ret_problem);
    /* False: it could not start, and left nothing behind. */
    bool (*start)(void **self, struct daemon *daemon, char **ret_problem);
    /* Makes what it needs to serve by `config`, and changes nothing yet. False: it cannot. */
    bool (*prepare)(void *self, const struct daemon *daemon, const struct config *config,
                    char **ret_problem);
    /* Serves by what was prepared; with NULL forgets it. */
    void (*reload)(void *self, const struct config *config);
    void (*watch)(void *self);
    /* Whether more work should come. False: `why` says why not. Never blocks. */
    bool (*ready)(void *self, struct buf *why);
    /* Writes its series. Never blocks. */
    void (*metrics)(void *self, struct buf *page);
    /* Takes no new work, lets what runs end: a descriptor of the part's, readable once it has. */
    int (*drain)(void *self);
    void (*stop)(void *self);
    void (*free)(void *self);
};

/* What a part does that is a service (fiber/service.h): its `start` makes it, and service_drain,
 * service_stop and service_free end it. */
void part_reload_service(void *self, const struct config *config);

static inline bool part_is_wanted(const struct part *part, const struct config *config)
{
    return !part->is_wanted || part->is_wanted(config);
}

/* The sections of a table of parts, by which a config is read for them. */
struct config_sections part_sections(const struct part *const *parts);

struct daemon_options {
    const struct part *const *parts; /* in the order in which they start; NULL behind the last */
    const char *config_path;         /* read again on SIGHUP */
    const struct config *config;
    const char *store_path;
};

/* One that has started. */
struct daemon_part {
    const struct part *part;
    void *self;
};

/* The process, as its parts see it. */
struct daemon {
    const struct daemon_options *options;
    const struct config *config; /* in force */
    int signals;                 /* signalfd: readable when a signal waits */
    struct log *log;
    struct metrics *metrics;
    struct workers *workers;
    struct store *store; /* the store's part opens both */
    struct engine *engine;
    _Atomic(struct service *) webhooks; /* their part starts it */
    /* daemon.c's own */
    struct config *reloaded; /* `config`, when it is not the one of the start */
    atomic_bool leaving;     /* a signal to end came: no new work should */
    atomic_size_t n_started;
    struct daemon_part started[PARTS_MAX];
};

#endif
