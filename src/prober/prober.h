/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prober: settles records in doubt in the background (contract section 10), for rules that want it:
 * probes them (rule->probes_alone), or ends their hold (prober/hold_end.h). One thread with a
 * loop of its own; once a second it looks at one slice of what is unknown, and of what a dead owner
 * left behind, and probes what is due by probe_due, a few at a time: as one ends the next begins,
 * and each rule has its share of them, by their number and by the memory that its responses may
 * take. So a probe that hangs delays none of another rule. A probe is an acquisition of the token
 * that was found, so of several processes on one store one probes. What a killed one was at is due
 * again.
 */
#ifndef PAWL_PROBER_PROBER_H
#define PAWL_PROBER_PROBER_H

#include "base/log.h"
#include "base/text/url.h"
#include "core/request/rule.h"
#include "engine/engine.h"
#include "fiber/service.h"
#include "http/call/pool.h"
#include "observe/metrics.h"

/* Outlives the prober. */
struct prober_config {
    struct store *store;
    struct engine *engine;
    struct log *log;         /* NULL: no log */
    struct metrics *metrics; /* where probes are counted */
};

/* What a reload may change: the prober takes references and copies. */
struct prober_settings {
    struct rule_set *rules;
    struct http_upstream upstream;
    struct url_authority host; /* of the upstream */
    int64_t connect_timeout_us;
    bool log_keys_hashed;
};

/* Whether some rule wants probes. Without one the upstream is not looked at. */
bool prober_is_wanted(const struct rule_set *rules);

/* A service that has started. To drain it cuts what was begun, whose records are in doubt again at
 * once: it has ended at the latest after `connect_timeout_us` of a probe that was not yet
 * connected. NULL: no memory or descriptors. */
struct service *prober_start(const struct prober_config *config,
                             const struct prober_settings *settings);

/* The plan by other settings, for a reload. False: no memory. */
bool prober_prepare(struct service *prober, const struct prober_settings *settings);

#endif
