/* SPDX-License-Identifier: Apache-2.0 */
#include "prober/probe.h"
#include "base/mem.h"
#include "core/web/origin.h"

#define HEAD_MAX ((size_t)96 * 1024)
#define ARENA_MAX ((size_t)1024 * 1024)
#define FIELDS_MAX ((size_t)64 * 1024)

void probe_fill(struct probe *probe)
{
    const struct store_row *row = probe->row;
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

/* ---- the request ---- */

/* As it was spelled when it was sent, else as the gateway does it today. A record from before keys
 * had one spelling was sent as its client wrote it, which is not kept: bare is the likeliest. */
static void add_probe_key(const struct probe *probe, struct slice key, struct buf *head)
{
    bool old = payload_recipe_is_old(probe->row->recipe);
    key_value_write_as(key, origin_spelling(probe->row->origin),
                       old ? KEY_FORWARD_BARE : probe->rule->forward_key,
                       old ? KEY_SYNTAX_LENIENT : probe->rule->key_syntax, head);
}

/* The target by what is kept with the record. */
static enum template_result add_probe_target(const struct probe *probe, struct slice key,
                                             struct buf *target)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    char hex[DIGEST_HEX_SIZE + 1];
    static const struct headers none;
    struct slice missing = {0};
    hex_encode(probe->row->record.payload_hash.bytes, DIGEST_SIZE, hex);
    struct template_facts facts = {.method = rule_match_method(&probe->rule->match),
                                   .route = probe->rule->name,
                                   .headers = &none,
                                   .payload_hex = slice_of(hex),
                                   .tenant = probe->row->tenant,
                                   .key = key};
    struct template_output output = {.arena = &arena, .buf = target};
    return template_probe(&probe->rule->probe, &facts, &output, &missing);
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

bool probe_has_target(const struct probe *probe)
{
    BUF_AUTO struct buf target = buf_make(HEAD_MAX), key = key_of(probe->row);
    return add_probe_target(probe, buf_slice(&key), &target) != TEMPLATE_FORMAT;
}

static bool has_host(struct slice lines)
{
    struct slice name, value;
    while (fields_next(&lines, &name, &value))
        if (slice_eq_nocase(name, SLICE("Host")))
            return true;
    return false;
}

static void add_probe_lines(const struct probe *probe, struct buf *head)
{
    const struct url_authority *to = probe->upstream;
    bool bracketed = slice_find(to->host, ':') >= 0;
    if (!has_host(probe->lines))
        buf_printf(head, "Host: %s%.*s%s:%u\r\n", bracketed ? "[" : "", SLICE_ARG(to->host),
                   bracketed ? "]" : "", (unsigned)to->port);
    buf_add_slice(head, probe->lines);
}

static bool write_head(const struct probe *probe, struct buf *head)
{
    BUF_AUTO struct buf target = buf_make(HEAD_MAX), key = key_of(probe->row);
    if (!buf_ok(&key) || add_probe_target(probe, buf_slice(&key), &target) != TEMPLATE_OK)
        return false;
    buf_printf(head, "GET %.*s HTTP/1.1\r\n", SLICE_ARG(buf_slice(&target)));
    add_probe_lines(probe, head);
    buf_add_str(head, "Accept-Encoding: identity\r\nIdempotency-Key: ");
    add_probe_key(probe, buf_slice(&key), head);
    buf_printf(head, "\r\nIdempotency-Token: %lld\r\nConnection: close\r\n\r\n",
               (long long)probe->attempt.token);
    return buf_ok(head);
}

/* ---- the exchange ---- */

static void run_probe_call(struct probe *probe)
{
    struct http_call *call = &probe->call;
    const struct http_response *response = &call->response;
    int64_t now = clock_boot_us();
    struct http_call_limits limits = {.connect_by = clock_after(now, probe->connect_timeout_us),
                                      .until = clock_after(now, probe->rule->timeout_us),
                                      .max_body = probe->rule->max_response_body};
    enum http_call_result result = http_call_run(call, &limits, &probe->body);
    bool responded = call->state == HTTP_CALL_RESPONDED;
    bool stale = responded && disposition_token_is_stale(response->status, &response->headers);
    if (responded)
        outcome_keep_fields(&response->headers,
                            probe->rule->replay_cookies ? OUTCOME_KEEPS_COOKIES : 0,
                            &probe->fields);
    probe->whole = result == HTTP_CALL_DONE && buf_ok(&probe->fields) && buf_ok(&probe->body);
    probe->end = http_call_end(call, result, stale);
    struct slice body = probe->whole ? buf_slice(&probe->body) : SLICE("");
    enum response_says says = SAYS_NOTHING;
    if (responded)
        says = rule_probe_says(probe->rule, response->status, &response->headers, body);
    probe->not_found = says == SAYS_NOT_DONE;
    if (says == SAYS_IN_DOUBT) /* it is as if nothing had been sent */
        probe->end = EXCHANGE_NOT_SENT;
    http_call_close(call);
}

void probe_send(struct probe *probe, struct http_pool *pool)
{
    BUF_AUTO struct buf head = buf_make(HEAD_MAX);
    probe->end = EXCHANGE_NOT_SENT;
    probe->fields = buf_make(FIELDS_MAX);
    probe->body = buf_make(SIZE_MAX);
    if (!write_head(probe, &head))
        return;
    probe->call.pool = pool;
    probe->call.method = SLICE("GET");
    probe->call.headers = buf_slice(&head);
    probe->call.first_by = probe->attempt.send_by;
    run_probe_call(probe);
}

/* ---- what it found ---- */

enum disposition_write probe_end(const struct probe *probe)
{
    enum disposition_write write =
        disposition_of_probe(probe->end, probe->call.response.status, probe->not_found).write;
    return write == WRITE_COMPLETE && !probe->whole ? WRITE_DOUBT : write;
}

struct outcome *probe_outcome(const struct probe *probe, int *ret_status)
{
    int status =
        probe->rule->probe_status != 0 ? probe->rule->probe_status : probe->call.response.status;
    struct outcome *outcome =
        outcome_new(status, false, buf_slice(&probe->fields), buf_slice(&probe->body));
    *ret_status = status;
    if (outcome) {
        COMPRESS_AUTO struct compress compress = {0};
        outcome_pack(outcome, &compress);
    }
    return outcome;
}

void probe_fini(struct probe *probe)
{
    buf_fini(&probe->fields);
    buf_fini(&probe->body);
}
