/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pawl keys resolve --probe`: queries the upstream by the rule's probe for what became of an
 * operation. As in the gateway a probe is an acquisition: it has a token of its own, and what it
 * finds counts only while nobody has acquired since.
 */
#include "base/mem.h"
#include "cli/command.h"
#include "cli/keys.h"
#include "cli/print.h"
#include "config/config.h"
#include "daemon/parts/parts.h"
#include "daemon/resolve.h"
#include "http/call.h"

#define HEAD_MAX ((size_t)96 * 1024)
#define ARENA_MAX ((size_t)1024 * 1024)
#define FIELDS_MAX ((size_t)64 * 1024)

struct probe {
    const struct keys_options *options;
    const struct config *config;
    const struct rule *rule;
    const struct keys_row *row;
    struct keys_session *session;
    struct attempt attempt;
    struct http_upstream upstream;
    struct http_call call;
    /* what came of it */
    enum exchange_end end;
    bool whole;        /* the body did not pass max_response_body */
    struct buf fields; /* as an outcome keeps them */
    struct buf body;
};

/* ---- whether there is something to probe ---- */

static const struct rule *find_rule(const struct config *config, struct slice name)
{
    for (size_t i = 0; i < config->gateway.rules->n; i++) {
        const struct rule *rule = &config->gateway.rules->rules[i];
        if (slice_eq(rule->name, name) || slice_is_among(name, rule->formerly, rule->n_formerly))
            return rule;
    }
    return NULL;
}

/* The first part of the template that reads what is not kept with a record; NULL: none does. */
static const struct template_part *not_kept(const struct template *template)
{
    for (size_t i = 0; i < template->n; i++) {
        enum template_source source = template->parts[i].source;
        if (source == TEMPLATE_HEADER || source == TEMPLATE_BODY || source == TEMPLATE_FORM ||
            source == TEMPLATE_PATH || source == TEMPLATE_QUERY)
            return &template->parts[i];
    }
    return NULL;
}

/* A line that a probe has of its own, or that is about the connection. NULL: there is none. */
static const struct header *not_theirs(const struct headers *given)
{
    static const struct slice own[] = {{"Accept-Encoding", 15},
                                       {"Content-Length", 14},
                                       {"Idempotency-Key", 15},
                                       {"Idempotency-Token", 17}};
    for (size_t i = 0; i < given->n; i++)
        if (SLICE_AMONG(given->at[i].name, own) || headers_is_hop_by_hop(given, given->at[i].name))
            return &given->at[i];
    return NULL;
}

static int judge_rule(const struct probe *probe)
{
    const char *command = probe->options->command;
    const struct slice name = probe->row->store.rule;
    if (!probe->rule)
        return command_misused(command, "the config has no rule `%.*s`", SLICE_ARG(name));
    if (probe->rule->unknown != RECORD_UNKNOWN_PROBE)
        return command_misused(command, "the rule `%.*s` has no probe", SLICE_ARG(name));
    const struct header *line = not_theirs(&probe->options->headers);
    if (line)
        return command_misused(command, "a probe cannot carry --header %.*s",
                               SLICE_ARG(line->name));
    const struct template_part *part = not_kept(&probe->rule->probe);
    if (part)
        return command_misused(command,
                               "the probe of `%.*s` needs {%.*s} of the request, which is not "
                               "kept with the record; query the service yourself, then use "
                               "--status or --released",
                               SLICE_ARG(name), SLICE_ARG(part->written));
    return EXIT_DONE;
}

static int settled_already(const struct probe *probe, const struct record *record)
{
    char what[128];
    snprintf(what, sizeof what, "is %s already, with HTTP status %d; there is nothing to probe",
             record_status_name(record->status), record->http_status);
    return keys_say(probe->session, probe->row, KEYS_SAME, what);
}

/* Whether the record waits for an outcome under the token that was given. False: said why not. */
static bool is_open(const struct probe *probe, int *ret_code)
{
    const struct record *record = &probe->row->store.record;
    if (record_is_final(record->status))
        *ret_code = settled_already(probe, record);
    else if (record_is_released(record) && !record->doubt)
        *ret_code = keys_say(probe->session, probe->row, KEYS_SAME,
                             "is released; the next attempt will run the operation");
    else if (record->token != probe->options->token)
        *ret_code = keys_say(probe->session, probe->row, KEYS_STALE,
                             "the token is stale; run `pawl keys show` again; nothing was changed");
    else
        return true;
    return false;
}

/* ---- the request ---- */

/* As the gateway spells it. A record from before keys had one spelling was sent as its client wrote
 * it, which is not kept: bare is the likeliest. */
static void add_key(const struct probe *probe, struct slice key, struct buf *head)
{
    bool old = payload_recipe_is_old(probe->row->store.recipe);
    key_value_write(key, old ? KEY_FORWARD_BARE : probe->rule->forward_key,
                    old ? KEY_SYNTAX_LENIENT : probe->rule->key_syntax, head);
}

/* The target by what is kept with the record. */
static enum template_result add_target(const struct probe *probe, struct slice key,
                                       struct buf *target)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    char hex[DIGEST_HEX_SIZE + 1];
    static const struct headers none;
    struct slice missing = {0};
    hex_encode(probe->row->store.record.payload_hash.bytes, DIGEST_SIZE, hex);
    struct template_facts facts = {.method = rule_match_method(&probe->rule->match),
                                   .route = probe->rule->name,
                                   .headers = &none,
                                   .payload_hex = slice_of(hex),
                                   .tenant = probe->row->store.tenant,
                                   .key = key};
    return template_probe(&probe->rule->probe, &facts, &arena, target, &missing);
}

/* Each window is an operation of its own, and was forwarded under its beginning. */
static struct buf key_of(const struct store_row *row)
{
    struct buf key = buf_make(HEAD_MAX);
    buf_add_slice(&key, row->key);
    if (row->record.window)
        buf_printf(&key, "%s%lld", row->key.len > 0 ? ":" : "", (long long)row->record.created_at);
    return key;
}

static int judge_key(const struct probe *probe)
{
    BUF_AUTO struct buf target = buf_make(HEAD_MAX), key = key_of(&probe->row->store);
    if (add_target(probe, buf_slice(&key), &target) != TEMPLATE_FORMAT)
        return EXIT_DONE;
    return command_misused(probe->options->command,
                           "the probe's path cannot hold this record's key or tenant, which "
                           "servers would read in different ways; query the service yourself, "
                           "then use --status or --released");
}

static void add_headers(const struct probe *probe, struct buf *head)
{
    const struct headers *given = &probe->options->headers;
    const struct url_authority *to = &probe->config->upstream;
    bool bracketed = slice_find(to->host, ':') >= 0;
    if (!headers_find(given, SLICE("Host")))
        buf_printf(head, "Host: %s%.*s%s:%u\r\n", bracketed ? "[" : "", SLICE_ARG(to->host),
                   bracketed ? "]" : "", (unsigned)to->port);
    for (size_t i = 0; i < given->n; i++)
        buf_printf(head, "%.*s: %.*s\r\n", SLICE_ARG(given->at[i].name),
                   SLICE_ARG(given->at[i].value));
}

static bool write_head(const struct probe *probe, struct buf *head)
{
    BUF_AUTO struct buf target = buf_make(HEAD_MAX), key = key_of(&probe->row->store);
    if (!buf_ok(&key) || add_target(probe, buf_slice(&key), &target) != TEMPLATE_OK)
        return false;
    buf_printf(head, "GET %.*s HTTP/1.1\r\n", SLICE_ARG(buf_slice(&target)));
    add_headers(probe, head);
    buf_add_str(head, "Accept-Encoding: identity\r\nIdempotency-Key: ");
    add_key(probe, buf_slice(&key), head);
    buf_printf(head, "\r\nIdempotency-Token: %lld\r\nConnection: close\r\n\r\n",
               (long long)probe->attempt.token);
    return buf_ok(head);
}

/* ---- acquiring ---- */

static void fill_attempt(struct probe *probe)
{
    const struct store_row *row = &probe->row->store;
    const struct rule *rule = probe->rule;
    probe->attempt = (struct attempt){
        .key_hash = row->key_hash,
        .tenant = row->tenant,
        .rule = row->rule,
        .key = row->key,
        .recipe = row->recipe,
        .begin = {.payload_hash = row->record.payload_hash,
                  .target_hash = row->record.target_hash,
                  .lease_us = rule->lease_us,
                  .ttl_us = row->record.ttl_us,
                  .least_us = row->record.least_us,
                  .doubted_us = row->record.doubted_us,
                  .tombstone_us = row->record.tombstone_us,
                  .settle_us = rule->settle_us,
                  .window = row->record.window,
                  .unknown = RECORD_UNKNOWN_PROBE},
    };
}

/* It was released since it was loaded: release it again. */
static int give_back(struct probe *probe, struct engine *engine)
{
    struct engine_act act = {.kind = ENGINE_RELEASE};
    struct parker *parker = &probe->session->parker.parker;
    engine_write(engine, &probe->attempt, &act, parker);
    if (!engine_wait(&probe->attempt, parker, clock_after(clock_boot_us(), KEYS_TIMEOUT_US)))
        return command_failed(probe->options->command, EXIT_UNAVAILABLE,
                              "the store did not respond in time");
    return keys_say(probe->session, probe->row, KEYS_SAME,
                    "is released; the next attempt will run the operation");
}

static int acquire(struct probe *probe, struct engine *engine, bool *ret_acquired)
{
    struct attempt *attempt = &probe->attempt;
    fill_attempt(probe);
    enum engine_verdict verdict = engine_begin(engine, attempt, &probe->session->parker.parker,
                                               clock_after(clock_boot_us(), KEYS_TIMEOUT_US));
    switch (verdict) {
    case ENGINE_PROBE:
        *ret_acquired = true;
        return EXIT_DONE;
    case ENGINE_PROCEED:
        return give_back(probe, engine);
    case ENGINE_IN_PROGRESS:
        return keys_say(probe->session, probe->row, KEYS_LIVE,
                        "the record is in use; wait until its lease ends");
    case ENGINE_REPLAY:
        outcome_unref(attempt->result.found);
        return settled_already(probe, &attempt->result.record);
    case ENGINE_RESULT_EXPIRED:
    case ENGINE_RESULT_NOT_KEPT:
        return settled_already(probe, &attempt->result.record);
    case ENGINE_OTHER_RECIPE:
        mem_free(attempt->result.found_recipe);
        break;
    case ENGINE_MISMATCH:
    case ENGINE_OUTCOME_UNKNOWN:
    case ENGINE_DUPLICATE:
        break;
    case ENGINE_NO_ROOM:
    case ENGINE_TOO_LARGE:
    case ENGINE_LIMITED:
    case ENGINE_STORE_DOWN:
    case ENGINE_GONE:
        return command_failed(probe->options->command, EXIT_UNAVAILABLE,
                              "the store did not respond in time; nothing was changed");
    }
    return keys_say(probe->session, probe->row, KEYS_STALE,
                    "the record has changed; run `pawl keys show` again; nothing was changed");
}

/* ---- the exchange ---- */

static void exchange(void *argument)
{
    struct probe *probe = argument;
    struct http_call *call = &probe->call;
    const struct http_response *response = &call->response;
    int64_t now = clock_boot_us();
    struct http_call_limits limits = {
        .connect_by = clock_after(now, probe->config->gateway.connect_timeout_us),
        .until = clock_after(now, probe->rule->timeout_us),
        .max_body = probe->rule->max_response_body};
    enum http_call_result result = http_call_run(call, &limits, &probe->body);
    bool responded = call->state == HTTP_CALL_RESPONDED;
    bool stale = responded && disposition_token_is_stale(response->status, &response->headers);
    if (responded)
        outcome_keep_fields(&response->headers, probe->rule->replay_cookies, &probe->fields);
    probe->whole = result == HTTP_CALL_DONE && buf_ok(&probe->fields) && buf_ok(&probe->body);
    probe->end = http_call_end(call, result, stale);
    http_call_close(call);
}

/* Without memory nothing is sent. */
static void send_probe(struct probe *probe, struct slice head)
{
    struct loop *loop = loop_new(1);
    probe->call.pool = http_pool_new(&probe->upstream, 0, 0);
    probe->call.method = SLICE("GET");
    probe->call.headers = head;
    probe->call.first_by = probe->attempt.send_by;
    if (probe->call.pool && loop && fiber_spawn(loop, "probe", exchange, probe)) {
        loop_stop(loop);
        loop_run(loop);
    }
    http_pool_unref(probe->call.pool);
    loop_free(loop);
}

/* ---- settling ---- */

/* The message of an inconclusive probe. */
static void describe_end(const struct probe *probe, char *what, size_t size)
{
    static const char *const ends[] = {
        [EXCHANGE_NOT_SENT] = "the service could not be reached",
        [EXCHANGE_BROKE] = "the service broke off its response",
        [EXCHANGE_TIMED_OUT] = "the service did not respond in time",
        [EXCHANGE_TOKEN_STALE] = "the service knows of a later attempt",
    };
    if (probe->end == EXCHANGE_RESPONDED && probe->call.response.status / 100 == 2)
        snprintf(what, size,
                 "it happened, but its response is larger than max_response_body; use --status "
                 "CODE");
    else if (probe->end == EXCHANGE_RESPONDED)
        snprintf(what, size,
                 "the service responded with HTTP status %d, which is inconclusive; the outcome "
                 "is still unknown",
                 probe->call.response.status);
    else
        snprintf(what, size, "%s; the outcome is still unknown", ends[probe->end]);
}

/* Ends the lease and leaves the record unknown, as it was. */
static int doubt(struct probe *probe)
{
    KEYS_ACT_AUTO struct keys_act act = {
        .row = probe->row, .kind = KEYS_DOUBT, .token = probe->attempt.token};
    struct keys_session *session = probe->session;
    return keys_complain(session, keys_act(session->store, &act, &session->parker.parker));
}

static int stays_unknown(struct probe *probe)
{
    char what[160];
    describe_end(probe, what, sizeof what);
    int code = doubt(probe);
    return code == EXIT_DONE ? keys_say(probe->session, probe->row, KEYS_OPEN, what) : code;
}

static int happened(struct probe *probe)
{
    int status =
        probe->rule->probe_status != 0 ? probe->rule->probe_status : probe->call.response.status;
    struct outcome *outcome =
        outcome_new(status, false, buf_slice(&probe->fields), buf_slice(&probe->body));
    if (!outcome) {
        (void)doubt(probe);
        return command_failed(probe->options->command, EXIT_UNAVAILABLE,
                              "out of memory; the outcome is still unknown");
    }
    COMPRESS_AUTO struct compress compress = {0};
    outcome_pack(outcome, &compress);
    struct keys_act act = {.kind = KEYS_FINISH,
                           .token = probe->attempt.token,
                           .http_status = status,
                           .outcome = outcome};
    int code = keys_settle(probe->session, probe->row, act);
    outcome_unref(outcome);
    return code;
}

static int did_not_happen(struct probe *probe)
{
    struct keys_act act = {
        .kind = KEYS_RELEASE, .token = probe->attempt.token, .looked_at = probe->attempt.asked_at};
    int code = keys_settle(probe->session, probe->row, act);
    if (code != EXIT_TRY_AGAIN)
        return code;
    int failed = doubt(probe);
    return failed == EXIT_DONE ? code : failed;
}

static int settle_by_response(struct probe *probe)
{
    enum disposition_write write =
        disposition_of_probe(probe->end, probe->call.response.status).write;
    if (write == WRITE_COMPLETE && probe->whole)
        return happened(probe);
    return write == WRITE_RELEASE ? did_not_happen(probe) : stays_unknown(probe);
}

static int probe_and_settle(struct probe *probe)
{
    BUF_AUTO struct buf head = buf_make(HEAD_MAX);
    probe->end = EXCHANGE_NOT_SENT;
    probe->fields = buf_make(FIELDS_MAX);
    probe->body = buf_make(SIZE_MAX);
    if (write_head(probe, &head))
        send_probe(probe, buf_slice(&head));
    int code = settle_by_response(probe);
    buf_fini(&probe->fields);
    buf_fini(&probe->body);
    return code;
}

static int run(struct probe *probe)
{
    char *problem MEM_AUTO = NULL;
    bool acquired = false;
    int code;
    if (!is_open(probe, &code))
        return code;
    code = judge_rule(probe);
    if (code == EXIT_DONE)
        code = judge_key(probe);
    if (code != EXIT_DONE)
        return code;
    if (!resolve_upstream(probe->config, -1, &probe->upstream, &problem))
        return command_failed(probe->options->command, EXIT_UNAVAILABLE, "%s",
                              problem ? problem : "out of memory");
    struct engine *engine = engine_new(probe->session->store, 0);
    code = engine ? acquire(probe, engine, &acquired)
                  : command_failed(probe->options->command, EXIT_UNAVAILABLE, "out of memory");
    if (acquired)
        code = probe_and_settle(probe);
    engine_free(engine);
    return code;
}

static int run_on(const struct keys_options *options, const struct config *config)
{
    KEYS_SESSION_AUTO struct keys_session session = {0};
    KEYS_FOUND_AUTO struct keys_found found = {0};
    struct keys_row *row = NULL;
    int code = keys_open_one(&session, options, &found, &row);
    if (code != EXIT_DONE)
        return code;
    struct probe *probe MEM_AUTO = mem_zalloc(1, sizeof *probe); /* too large for a stack */
    if (!probe)
        return EXIT_UNAVAILABLE;
    probe->options = options;
    probe->config = config;
    probe->rule = find_rule(config, row->store.rule);
    probe->row = row;
    probe->session = &session;
    code = run(probe);
    http_upstream_drop(&probe->upstream);
    return code;
}

int keys_probe(const struct keys_options *options)
{
    char *complaints MEM_AUTO = NULL;
    struct keys_options *with_store MEM_AUTO = mem_alloc(sizeof *with_store);
    struct config_sections sections = part_sections(product_parts);
    struct config *config = config_read(options->config, &sections, &complaints);
    if (!config || !with_store) {
        fputs(!config && complaints ? complaints : "out of memory\n", stderr);
        config_free(config);
        return config ? EXIT_UNAVAILABLE : EXIT_USAGE;
    }
    char *path MEM_AUTO = mem_copy(config->store.at, config->store.len);
    *with_store = *options;
    if (!options->store && config->store.len > 0)
        with_store->store = path;
    int code = run_on(with_store, config);
    config_free(config);
    return code;
}
