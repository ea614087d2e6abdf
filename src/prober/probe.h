/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe: one probe of a record without its request, by what is kept with it: for `pawl keys resolve
 * --probe` and for probes in the background. As in the gateway a probe is an acquisition: it has a
 * token of its own, and what it finds counts only while nobody has acquired since.
 *
 *      probe_fill -> engine_begin(&probe->attempt) -> ENGINE_PROBE -> probe_send -> probe_end,
 *      probe_outcome -> what the caller stores -> probe_fini
 *
 * The struct is the caller's memory, zeroed, and too large for a stack. `row`, `rule` and the texts
 * must outlive it.
 */
#ifndef PAWL_PROBER_PROBE_H
#define PAWL_PROBER_PROBE_H

#include "base/text/url.h"
#include "core/request/rule.h"
#include "core/retry/disposition.h"
#include "engine/engine.h"
#include "http/call/call.h"

struct probe {
    const struct rule *rule;
    const struct store_row *row;
    const struct url_authority *upstream; /* the Host that is sent, where `lines` has none */
    struct slice lines;                   /* headers, each with its line's end */
    int64_t connect_timeout_us;
    struct attempt attempt;
    struct http_call call;
    /* what came of it */
    enum exchange_end end;
    bool whole;        /* the body did not pass max_response_body */
    bool not_found;    /* by the rule, this response says that there is no such operation */
    struct buf fields; /* as an outcome keeps them */
    struct buf body;
};

/* The attempt, by row and rule. */
void probe_fill(struct probe *probe);

/* Whether the target can hold the record's key and tenant: not where servers would read them in
 * different ways. */
bool probe_has_target(const struct probe *probe);

/* In a fiber: sends it on a connection of `pool` and reads the response, within the rule's timeout.
 * Without memory, or a target, nothing is sent. */
void probe_send(struct probe *probe, struct http_pool *pool);

/* What its end means: WRITE_COMPLETE, WRITE_RELEASE, or nothing is known. */
enum disposition_write probe_end(const struct probe *probe);

/* The outcome that a 2xx is, packed; `*ret_status`: the one it is stored with. NULL: no memory. */
struct outcome *probe_outcome(const struct probe *probe, int *ret_status);

void probe_fini(struct probe *probe);

#endif
