/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pawl keys resolve --probe`: queries the upstream by the rule's probe for what became of an
 * operation. As in the gateway a probe is an acquisition: it has a token of its own, and what it
 * finds counts only while nobody has acquired since.
 */
#include "base/check.h"
#include "base/mem.h"
#include "cli/command/command.h"
#include "cli/keys/keys.h"
#include "cli/lib/print.h"
#include "config/config.h"
#include "daemon/parts/parts.h"
#include "daemon/resolve.h"
#include "prober/probe.h"

#define LINES_MAX ((size_t)64 * 1024)

struct query {
    const struct keys_settle_options *options;
    const struct config *config;
    const struct keys_row *row;
    struct keys_session *session;
    struct http_upstream upstream;
    struct http_pool *pool;
    struct buf lines; /* of --header */
    struct probe probe;
};

/* ---- whether there is something to probe ---- */

/* A line that a probe has of its own, or that is about the connection. NULL: there is none. */
static const struct header *not_theirs(const struct headers *given)
{
    for (size_t i = 0; i < given->n; i++)
        if (probe_owns_header(given->at[i].name) || headers_is_hop_by_hop(given, given->at[i].name))
            return &given->at[i];
    return NULL;
}

static int judge_rule(const struct query *query)
{
    const char *command = query->options->keys.command;
    const struct slice name = query->row->store.rule;
    if (!query->probe.rule)
        return command_misused(command, "the config has no rule `%.*s`", SLICE_ARG(name));
    if (query->probe.rule->unknown != RECORD_UNKNOWN_PROBE)
        return command_misused(command, "the rule `%.*s` has no probe", SLICE_ARG(name));
    const struct header *line = not_theirs(&query->options->headers);
    if (line)
        return command_misused(command, "a probe cannot carry --header %.*s",
                               SLICE_ARG(line->name));
    const struct template_part *part = template_not_kept(&query->probe.rule->probe);
    if (part)
        return command_misused(command,
                               "the probe of `%.*s` needs {%.*s} of the request, which is not "
                               "kept with the record; query the service yourself, then use "
                               "--status or --released",
                               SLICE_ARG(name), SLICE_ARG(part->written));
    return EXIT_DONE;
}

static int settled_already(const struct query *query, const struct record *record)
{
    char what[128];
    snprintf(what, sizeof what, "is %s already, with HTTP status %d; there is nothing to probe",
             record_status_name(record->status), record->http_status);
    return keys_say(query->session, query->row, KEYS_SAME, what);
}

/* Whether the record waits for an outcome under the token that was given. False: said why not. */
static bool is_open(const struct query *query, int *ret_code)
{
    const struct record *record = &query->row->store.record;
    if (record_is_final(record->status))
        *ret_code = settled_already(query, record);
    else if (record_is_released(record) && !record->doubt)
        *ret_code = keys_say(query->session, query->row, KEYS_SAME,
                             "is released; the next attempt will run the operation");
    else if (record->token != query->options->token)
        *ret_code = keys_say(query->session, query->row, KEYS_STALE,
                             "the token is stale; run `pawl keys show` again; nothing was changed");
    else
        return true;
    return false;
}

static int judge_queried_key(const struct query *query)
{
    if (probe_has_target(&query->probe))
        return EXIT_DONE;
    return command_misused(query->options->keys.command,
                           "the probe's path cannot hold this record's key or tenant, which "
                           "servers would read in different ways; query the service yourself, "
                           "then use --status or --released");
}

/* ---- acquiring ---- */

/* It was released since it was loaded: release it again. */
static int give_back_query(struct query *query, struct engine *engine)
{
    struct engine_act act = {.kind = STORE_RELEASE};
    struct parker *parker = &query->session->parker.parker;
    engine_write(engine, &query->probe.attempt, &act, parker);
    if (!engine_wait(&query->probe.attempt, parker, clock_after(clock_boot_us(), KEYS_TIMEOUT_US)))
        return command_failed(query->options->keys.command, EXIT_UNAVAILABLE,
                              "the store did not respond in time");
    return keys_say(query->session, query->row, KEYS_SAME,
                    "is released; the next attempt will run the operation");
}

static int acquire_for_query(struct query *query, struct engine *engine, bool *ret_acquired)
{
    struct attempt *attempt = &query->probe.attempt;
    enum store_status closed;
    probe_fill(&query->probe);
    enum engine_verdict verdict = engine_begin(engine, attempt, &query->session->parker.parker,
                                               clock_after(clock_boot_us(), KEYS_TIMEOUT_US));
    attempt_fini(attempt);
    switch (engine_class_of(verdict)) {
    case VERDICT_PROBE:
        *ret_acquired = true;
        return EXIT_DONE;
    case VERDICT_PROCEED:
        return give_back_query(query, engine);
    case VERDICT_WAIT:
        return keys_say(query->session, query->row, KEYS_LIVE,
                        "the record is in use; wait until its lease ends");
    case VERDICT_DONE:
        return settled_already(query, &attempt->result.record);
    case VERDICT_DOWN:
        closed = store_closed_by(&attempt->result);
        return keys_complain(query->session, closed != STORE_DONE ? closed : STORE_DOWN);
    case VERDICT_MISMATCH:
    case VERDICT_HELD:
    case VERDICT_REFUSED:
        break;
    }
    return keys_say(query->session, query->row, KEYS_STALE,
                    "the record has changed; run `pawl keys show` again; nothing was changed");
}

/* ---- the exchange ---- */

static void write_lines(struct query *query)
{
    const struct headers *given = &query->options->headers;
    query->lines = buf_make(LINES_MAX);
    for (size_t i = 0; i < given->n; i++)
        fields_add(&query->lines, given->at[i].name, given->at[i].value);
    query->probe.lines = buf_slice(&query->lines);
}

static void send_in_fiber(void *argument)
{
    struct query *query = argument;
    probe_send(&query->probe, query->pool);
}

/* Without memory nothing is sent. */
static void send_on_own_loop(struct query *query)
{
    struct loop *loop = loop_new(1);
    query->probe.end = EXCHANGE_NOT_SENT;
    query->pool = http_pool_new(&query->upstream, 0, 0);
    write_lines(query);
    if (query->pool && loop && buf_ok(&query->lines) &&
        fiber_spawn(loop, "probe", send_in_fiber, query)) {
        loop_stop(loop);
        loop_run(loop);
    }
    http_pool_unref(query->pool);
    loop_free(loop);
}

/* ---- settling ---- */

/* The message of an inconclusive probe. */
static void describe_end(const struct query *query, char *what, size_t size)
{
    static const char *const ends[] = {
        [EXCHANGE_MALFORMED] = "the response of the service is malformed",
        [EXCHANGE_NOT_SENT] = "the service could not be reached",
        [EXCHANGE_BROKE] = "the service broke off its response",
        [EXCHANGE_TIMED_OUT] = "the service did not respond in time",
        [EXCHANGE_TOKEN_STALE] = "the service knows of a later attempt",
    };
    if (query->probe.end == EXCHANGE_RESPONDED && query->probe.call.response.status / 100 == 2)
        snprintf(what, size,
                 "it happened, but its response is larger than max_response_body; use --status "
                 "CODE");
    else if (query->probe.end == EXCHANGE_RESPONDED)
        snprintf(what, size,
                 "the service responded with HTTP status %d, which is inconclusive; the outcome "
                 "is still unknown",
                 query->probe.call.response.status);
    else
        snprintf(what, size, "%s%s%s; the outcome is still unknown", ends[query->probe.end],
                 query->probe.call.malformed[0] != '\0' ? ": " : "", query->probe.call.malformed);
}

/* Ends the lease and leaves the record unknown, as it was. */
static int store_doubt(struct query *query)
{
    KEYS_ACT_AUTO struct keys_act act = {
        .row = query->row, .kind = KEYS_DOUBT, .token = query->probe.attempt.token};
    struct keys_session *session = query->session;
    return keys_complain(session, keys_act(session->store, &act, &session->parker.parker));
}

static int stays_unknown(struct query *query)
{
    char what[160 + HTTP_MALFORMED_SIZE];
    describe_end(query, what, sizeof what);
    int code = store_doubt(query);
    return code == EXIT_DONE ? keys_say(query->session, query->row, KEYS_OPEN, what) : code;
}

static int store_happened(struct query *query)
{
    int status;
    struct outcome *outcome = probe_outcome(&query->probe, &status);
    if (!outcome) {
        (void)store_doubt(query);
        return command_failed(query->options->keys.command, EXIT_UNAVAILABLE,
                              "out of memory; the outcome is still unknown");
    }
    struct keys_act act = {.kind = KEYS_FINISH,
                           .token = query->probe.attempt.token,
                           .http_status = status,
                           .outcome = outcome};
    int code = keys_settle(query->session, query->row, act);
    outcome_unref(outcome);
    return code;
}

static int did_not_happen(struct query *query)
{
    struct keys_act act = {.kind = KEYS_RELEASE,
                           .token = query->probe.attempt.token,
                           .looked_at = query->probe.attempt.asked_at};
    int code = keys_settle(query->session, query->row, act);
    if (code != EXIT_TRY_AGAIN)
        return code;
    int failed = store_doubt(query);
    return failed == EXIT_DONE ? code : failed;
}

static int probe_and_settle(struct query *query)
{
    send_on_own_loop(query);
    enum disposition_write write = probe_end(&query->probe);
    int code = write == WRITE_COMPLETE  ? store_happened(query)
               : write == WRITE_RELEASE ? did_not_happen(query)
                                        : stays_unknown(query);
    probe_fini(&query->probe);
    buf_fini(&query->lines);
    return code;
}

static int run_query(struct query *query)
{
    char *problem MEM_AUTO = NULL;
    bool acquired = false;
    int code;
    if (!is_open(query, &code))
        return code;
    code = judge_rule(query);
    if (code == EXIT_DONE)
        code = judge_queried_key(query);
    if (code != EXIT_DONE)
        return code;
    if (!resolve_upstream(query->config, -1, &query->upstream, &problem))
        return command_failed(query->options->keys.command, EXIT_UNAVAILABLE, "%s",
                              problem ? problem : "out of memory");
    struct engine *engine = engine_new(query->session->store, 0);
    code = engine ? acquire_for_query(query, engine, &acquired)
                  : command_failed(query->options->keys.command, EXIT_UNAVAILABLE, "out of memory");
    if (acquired)
        code = probe_and_settle(query);
    engine_free(engine);
    return code;
}

static int run_on(const struct keys_settle_options *options, const struct config *config)
{
    KEYS_SESSION_AUTO struct keys_session session = {0};
    KEYS_FOUND_AUTO struct keys_found found = {0};
    struct keys_row *row = NULL;
    int code = keys_open_one(&session, &options->keys, &found, &row);
    if (code != EXIT_DONE)
        return code;
    struct query *query MEM_AUTO = mem_zalloc(1, sizeof *query); /* too large for a stack */
    if (!query)
        return EXIT_UNAVAILABLE;
    query->options = options;
    query->config = config;
    query->row = row;
    query->session = &session;
    query->probe.rule = rule_set_named(config->gateway.rules, row->store.rule);
    query->probe.row = &row->store;
    query->probe.upstream = &config->upstream;
    query->probe.connect_timeout_us = config->gateway.connect_timeout_us;
    code = run_query(query);
    http_upstream_drop(&query->upstream);
    return code;
}

int keys_probe(const struct keys_settle_options *options)
{
    CHECK(options->config && options->probe && !options->unknown && options->token > 0);
    char *complaints MEM_AUTO = NULL;
    struct keys_settle_options *with_store MEM_AUTO = mem_alloc(sizeof *with_store);
    struct config_sections sections = part_sections(product_parts);
    struct config *config = config_read(options->config, &sections, &complaints);
    if (!config || !with_store) {
        fputs(!config && complaints ? complaints : "out of memory\n", stderr);
        config_free(config);
        return config ? EXIT_UNAVAILABLE : EXIT_USAGE;
    }
    char *path MEM_AUTO = mem_copy(config->store.at, config->store.len);
    *with_store = *options;
    if (!options->keys.store && config->store.len > 0)
        with_store->keys.store = path;
    int code = run_on(with_store, config);
    config_free(config);
    return code;
}
