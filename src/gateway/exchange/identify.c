/* SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"
#include "base/crash.h"
#include "core/tenant.h"
#include "gateway/exchange/bodies.h"
#include "gateway/exchange/reply.h"
#include "gateway/exchange/steps.h"
#include "gateway/response.h"
#include <inttypes.h>

#define PAYLOAD_ARENA_MAX                                                                          \
    ((size_t)256 * 1024 * 1024) /* understood JSON takes up to 32 times its text */

/* ---- why it does not go on: x->reply says so ---- */

static bool refuse_unidentified(struct exchange *x, enum error error, const char *detail)
{
    (void)reply_error(x, error, detail);
    return false;
}

static bool refuse_without_memory(struct exchange *x)
{
    return refuse_unidentified(x, ERROR_LIMITED, "out of memory for this request");
}

static bool too_many_bodies(struct exchange *x)
{
    (void)reply_no_room(x);
    return false;
}

static bool no_slot(struct exchange *x)
{
    limit_count(x->server, METRICS_LIMIT_CONNECTIONS);
    return refuse_unidentified(x, ERROR_LIMITED, RESPONSE_FULL);
}

static bool refuse_large(struct exchange *x, const char *what)
{
    buf_printf(&x->detail, "%s exceeds the %" PRIu64 " bytes that this route accepts", what,
               x->rule->max_request_body);
    return refuse_unidentified(x, ERROR_BODY_TOO_LARGE, NULL);
}

static bool client_left(struct exchange *x)
{
    (void)reply_nothing(x);
    return false;
}

/* ---- the client and its tenant ---- */

/* A credential is never stored as it is: only its keyed hash (contract section 3). */
static void hide_credential(struct exchange *x)
{
    const struct digest_key *key = store_digest_key(x->server->config->store);
    struct slice shown = buf_slice(&x->tenant);
    struct digest digest = digest_keyed(key, &shown, 1);
    char hex[DIGEST_HEX_SIZE + 1];
    hex_encode(digest.bytes, DIGEST_SIZE, hex);
    buf_clear(&x->tenant);
    buf_add_str(&x->tenant, TENANT_HIDDEN);
    buf_add_str(&x->tenant, hex);
}

/* What the sender can mend: the body's syntax, its type, or its content. */
static const char *what_lacks(const struct exchange *x, struct slice source)
{
    const struct payload *payload = &x->payload;
    bool in_json = slice_starts(source, SLICE("body:")) || slice_starts(source, SLICE("date:")) ||
                   slice_starts(source, SLICE("hour:"));
    bool in_form = slice_starts(source, SLICE("form:"));
    if (in_json && payload->problem != JSON_OK)
        return "the body is not valid JSON";
    if (in_json && payload->kind != PAYLOAD_IS_JSON)
        return "Content-Type does not say that the body is JSON";
    if (in_form && payload->malformed_form)
        return "the form has a '%' that begins no escape";
    if (in_form && payload->kind != PAYLOAD_IS_FORM)
        return "Content-Type does not say that the body is a form";
    return "this request has no value";
}

/* Decides on the result of a template; `source` is the one without a valid value. */
static bool judge_result(struct exchange *x, const struct template *template,
                         enum template_result result, struct slice source)
{
    bool of_tenant = template == &x->rule->tenant, of_once = template == &x->rule->once.key;
    switch (result) {
    case TEMPLATE_OK:
        return true;
    case TEMPLATE_NO_MEMORY:
        return refuse_without_memory(x);
    case TEMPLATE_FORMAT:
        template_describe_format(template, source, x->rule->key_format, &x->detail);
        (void)reply_error(x, ERROR_KEY_MALFORMED, NULL);
        break;
    case TEMPLATE_MISSING:
        buf_printf(&x->detail, "%s; the %s is read from %.*s",
                   of_tenant ? "this request has no value" : what_lacks(x, source),
                   of_tenant ? "tenant"
                   : of_once ? "once value"
                             : "key",
                   SLICE_ARG(source));
        template_explain_missing(template, &x->found.facts, source, &x->detail);
        (void)reply_error(x, of_tenant ? ERROR_TENANT_MISSING : ERROR_KEY_SOURCE_MISSING, NULL);
        break;
    }
    x->reply.of_once = of_once;
    return false;
}

static bool read_tenant(struct exchange *x)
{
    if (x->rule->tenant_none)
        return true;
    struct slice missing = {0};
    enum template_result result =
        template_tenant(&x->rule->tenant, &x->found.facts, x->arena, &x->tenant, &missing);
    if (!judge_result(x, &x->rule->tenant, result, missing))
        return false;
    if (rule_hides_tenant(x->rule))
        hide_credential(x);
    else if (tenant_is_reserved(buf_slice(&x->tenant)))
        return refuse_unidentified(x, ERROR_TENANT_MISSING,
                                   "a tenant cannot begin with '" TENANT_HIDDEN
                                   "', which marks one that is stored as a hash");
    x->found.facts.tenant = buf_slice(&x->tenant);
    return buf_ok(&x->tenant) || refuse_without_memory(x);
}

/* ---- the key ---- */

static bool refuse_key(struct exchange *x, struct slice name, enum key_header read)
{
    const struct header *line = headers_find(&x->request->headers, name);
    buf_printf(&x->detail, "%.*s: %s", SLICE_ARG(name), key_header_text(read));
    if (read == KEY_HEADER_MALFORMED && line)
        key_value_explain(line->value, x->rule->key_syntax, &x->detail);
    return refuse_unidentified(x, ERROR_KEY_MALFORMED, NULL);
}

static bool judge_request_key(struct exchange *x, const struct template_part *part,
                              struct slice key)
{
    enum template_result result =
        template_judge_key(&x->rule->key, &x->found.facts, x->arena, &key);
    if (result == TEMPLATE_MISSING)
        result = TEMPLATE_FORMAT; /* it is there, and no good */
    if (!judge_result(x, &x->rule->key, result, part->written))
        return false;
    if (!template_is_plain_header(&x->rule->key))
        return true;
    buf_add_slice(&x->key, key);
    x->client_key = headers_find(&x->request->headers, part->text)->value;
    return buf_ok(&x->key) || refuse_without_memory(x);
}

static void note_key_time(struct exchange *x, struct slice key)
{
    struct record_begin *begin = &x->attempt.begin;
    begin->key_max_age_us = x->rule->key_max_age_us;
    begin->key_at = x->rule->key_format_kind == KEY_FORMAT_UUID7 ? key_made_at(key) : 0;
}

/* The client's own key, or its part of one: judged before the body is read. What is composed later
 * takes other headers than Idempotency-Key as they are. */
static bool read_header_key(struct exchange *x, const struct template_part *part, bool *ret_bypass)
{
    bool is_item = template_is_plain_header(&x->rule->key) ||
                   slice_eq_nocase(part->text, SLICE("Idempotency-Key"));
    struct slice key = {0};
    enum key_header read =
        key_header_read(&x->request->headers, part->text, x->rule->key_syntax, x->arena, &key);
    switch (read) {
    case KEY_HEADER_OK:
        note_key_time(x, key);
        return !is_item || judge_request_key(x, part, key);
    case KEY_HEADER_ABSENT:
        x->keyless = !x->rule->require && x->rule->once.on;
        if (x->keyless)
            return true;
        *ret_bypass = !x->rule->require;
        if (*ret_bypass)
            return false;
        buf_printf(&x->detail, "this route requires %.*s", SLICE_ARG(part->text));
        return refuse_unidentified(x, ERROR_KEY_MISSING, NULL);
    case KEY_HEADER_NO_MEMORY:
        return refuse_without_memory(x);
    default:
        return !is_item || refuse_key(x, part->text, read);
    }
}

/* What is announced is judged before it is asked for, but takes no room before it comes. */
static bool judge_announced(struct exchange *x)
{
    uint64_t announced = x->request->content_length;
    if (announced > x->rule->max_request_body)
        return refuse_large(x, "Content-Length");
    return bodies_would_fit(x, announced) || too_many_bodies(x);
}

static bool read_request_body(struct exchange *x)
{
    CHECK(!x->flight.taken && !x->met);
    CRASH_POINT(request_headers_read);
    int64_t deadline = clock_after(x->started, x->plan->settings.limits.body_us);
    struct http_session *session = &x->client->session;
    if (!http_session_send_continue(session))
        return client_left(x);
    bool fits = true;
    http_session_await_body(session, false);
    enum http_read read = bodies_read_request(x, deadline, &fits);
    http_session_had_body(session);
    if (read != HTTP_READ_OK && http_session_makes_room(session))
        return no_slot(x);
    switch (read) {
    case HTTP_READ_OK:
        if (!fits)
            return too_many_bodies(x);
        CRASH_POINT(request_body_read);
        x->has_body = true;
        return true;
    case HTTP_READ_TOO_LARGE:
        return refuse_large(x, "the body");
    case HTTP_READ_REFUSED:
        return refuse_unidentified(x, ERROR_REQUEST_MALFORMED,
                                   http_refusal_text(session->conn.refusal));
    case HTTP_READ_TIMEOUT:
        return refuse_unidentified(x, ERROR_REQUEST_TIMEOUT, "the body did not arrive in time");
    case HTTP_READ_NO_MEMORY:
        return refuse_without_memory(x);
    case HTTP_READ_CLOSED:
    case HTTP_READ_BROKEN:
        return client_left(x);
    }
    UNREACHABLE();
}

/* After a reload it is there, and was read under another limit. */
static bool take_body(struct exchange *x)
{
    if (!x->has_body)
        return judge_announced(x) && read_request_body(x);
    return x->body.len <= x->rule->max_request_body || refuse_large(x, "the body");
}

bool identify_read_request(struct exchange *x)
{
    CHECK(x->step == EXCHANGE_IDENTIFY && x->client_state == CLIENT_WAITS);
    /* Of two lines it is not known which one the upstream decodes by. */
    if (headers_count(&x->request->headers, SLICE("Content-Encoding")) > 1)
        return refuse_unidentified(x, ERROR_REQUEST_MALFORMED,
                                   "more than one line of Content-Encoding");
    return read_tenant(x) && take_body(x);
}

static struct slice header_value(const struct exchange *x, struct slice name)
{
    const struct header *line = headers_find(&x->request->headers, name);
    return line ? line->value : slice_of(NULL);
}

enum payload_error identify_open_payload(struct exchange *x, bool as_json)
{
    CHECK(x->has_body);
    if (x->found.facts.payload)
        return PAYLOAD_OK;
    struct payload_input input = {
        .body = buf_slice(&x->body),
        .content_type = header_value(x, SLICE("Content-Type")),
        .content_encoding = header_value(x, SLICE("Content-Encoding")),
        .as_json = as_json,
        .max_decoded = x->rule->max_request_body,
    };
    uint64_t most = x->plan->settings.max_buffered;
    x->payload_arena = arena_make_counted(most < PAYLOAD_ARENA_MAX ? most : PAYLOAD_ARENA_MAX,
                                          &x->server->shared->buffered, most);
    enum payload_error error = payload_read(&x->payload_arena, &input, &x->payload);
    if (error == PAYLOAD_OK)
        x->found.facts.payload = &x->payload;
    return error;
}

void identify_close_payload(struct exchange *x)
{
    x->found.facts.payload = NULL;
    arena_fini(&x->payload_arena);
}

/* Runs on a worker for large bodies: touches the exchange alone. */
struct hashing {
    struct exchange *x;
    const struct payload_selection *selection;
    bool marks; /* the fingerprint is written, too */
    enum payload_error error;
    bool hashed;
};

static struct fingerprint_of fingerprint_of(const struct exchange *x,
                                            const struct payload_selection *selection)
{
    return (struct fingerprint_of){.secret = store_secret(x->server->config->store),
                                   .rule = x->rule,
                                   .facts = &x->found.facts,
                                   .path = x->found.path,
                                   .selection = selection};
}

/* Of two Content-Type lines it is not known which one the upstream reads the parts by. */
static unsigned labels_of(const struct exchange *x, const struct payload_selection *selection)
{
    bool twice = headers_count(&x->request->headers, SLICE("Content-Type")) > 1;
    unsigned labels = payload_labels(&x->payload, selection);
    return twice && selection->version != 1 ? labels | PAYLOAD_LABEL_TYPE : labels;
}

static void write_fingerprint(struct exchange *x, const struct payload_selection *selection)
{
    struct fingerprint_of of = fingerprint_of(x, selection);
    fingerprint_write(&of, &x->fingerprint);
}

static void hash_request_body(void *argument)
{
    struct hashing *h = argument;
    struct exchange *x = h->x;
    h->error = identify_open_payload(x, h->selection->as_json);
    if (h->error == PAYLOAD_OK)
        h->hashed = payload_hash(&x->payload, h->selection, &x->attempt.begin.payload_hash);
    if (!h->hashed)
        return;
    x->found.facts.labels = labels_of(x, h->selection);
    if (h->marks)
        write_fingerprint(x, h->selection);
}

/* A body of a few KiB may be large once it is decoded: a worker finds out. */
bool identify_takes_long(const struct exchange *x)
{
    struct slice coding = header_value(x, SLICE("Content-Encoding"));
    bool coded = coding.len > 0 && !slice_eq_nocase(coding, SLICE("identity"));
    return x->body.len >= OFFLOAD_LEAST || (coded && x->body.len > 0);
}

/* Parsing a body takes up to 32 times its size: 429 if other requests hold the memory that it
 * needs, 413 if it would take (nearly) all there is. `tried`: what the attempt to parse it took. */
static bool refuse_costly(struct exchange *x, const struct arena *tried)
{
    uint64_t most = x->plan->settings.max_buffered;
    bool alone = x->held + tried->held > most - most / 8;
    if (tried->crowded && !alone)
        return too_many_bodies(x);
    if (!tried->too_large && !tried->crowded)
        return refuse_without_memory(x);
    return refuse_unidentified(x, ERROR_BODY_TOO_LARGE,
                               "parsing this body needs more memory than one body may use");
}

static bool hash_payload(struct exchange *x, const struct payload_selection *selection, bool marks)
{
    struct hashing h = {.x = x, .selection = selection, .marks = marks};
    exchange_work(x, identify_takes_long(x), hash_request_body, &h);
    struct arena tried = x->payload_arena; /* for its figures alone */
    if (h.error != PAYLOAD_OK || !h.hashed)
        identify_close_payload(x);
    switch (h.error) {
    case PAYLOAD_OK:
        break;
    case PAYLOAD_TOO_LARGE:
        return refuse_large(x, "the decoded body");
    case PAYLOAD_BAD_CODING:
        return refuse_unidentified(x, ERROR_REQUEST_MALFORMED,
                                   "the body does not match its Content-Encoding");
    case PAYLOAD_NO_MEMORY:
        return refuse_costly(x, &tried);
    }
    if (!h.hashed)
        return refuse_without_memory(x);
    hex_encode(x->attempt.begin.payload_hash.bytes, DIGEST_SIZE, x->payload_hex);
    return rule_target_hash(x->rule, &x->found.facts, x->found.path, x->arena,
                            &x->attempt.begin.target_hash) ||
           refuse_without_memory(x);
}

static bool selects_inside(const struct payload_selection *selection)
{
    return selection->mode == PAYLOAD_INCLUDE || selection->mode == PAYLOAD_EXCLUDE;
}

bool identify_read_payload(struct exchange *x)
{
    CHECK(x->has_body && !x->found.facts.payload);
    if (!hash_payload(x, &x->rule->payload, identify_takes_long(x)))
        return false;
    bool looks_inside = template_needs_body(&x->rule->key) || selects_inside(&x->rule->payload) ||
                        template_needs_body(&x->rule->probe) ||
                        template_needs_body(&x->rule->once.key);
    if (x->payload.coding_unknown && looks_inside) {
        struct slice coding = header_value(x, SLICE("Content-Encoding"));
        buf_printf(&x->detail, "Content-Encoding is %.*s", SLICE_ARG(coding));
        return refuse_unidentified(x, ERROR_CODING_UNSUPPORTED, NULL);
    }
    x->found.facts.payload_hex = slice_make(x->payload_hex, DIGEST_HEX_SIZE);
    return true;
}

bool identify_read_key(struct exchange *x)
{
    CHECK(x->found.facts.payload && x->key.len == 0);
    struct buf text BUF_AUTO = buf_make(HTTP_HEADERS_SIZE_MAX);
    struct slice missing = {0};
    enum template_result result =
        template_key(&x->rule->key, &x->found.facts, x->arena, &text, &missing);
    if (!judge_result(x, &x->rule->key, result, missing))
        return false;
    buf_add_slice(&x->key, buf_slice(&text));
    return buf_ok(&x->key) || refuse_without_memory(x);
}

static bool read_once(struct exchange *x)
{
    const struct template *template = &x->rule->once.key;
    struct template_text text = {.buf = &x->once};
    struct slice missing = {0};
    enum template_result result =
        template_value(template, &x->found.facts, x->arena, &text, &missing);
    x->attempt.once.clocks = text.clocks;
    return judge_result(x, template, result, missing) &&
           (buf_ok(&x->once) || refuse_without_memory(x));
}

static void name_by_once(struct exchange *x)
{
    CHECK(x->rule->once.on && x->key.len == 0);
    buf_add_str(&x->key, "once:");
    buf_add_slice(&x->key, buf_slice(&x->once));
}

/* How long a client may have to wait before it comes again: the record lasts till then. Where an
 * outcome is in doubt core keeps it until `quiet_at`, by which such clients get Retry-After. */
static int64_t longest_wait(const struct exchange *x)
{
    int64_t longest = x->rule->timeout_us;
    if (x->rule->in_progress_wait_us > longest)
        longest = x->rule->in_progress_wait_us;
    if (x->plan->settings.retry_after_us > longest)
        longest = x->plan->settings.retry_after_us;
    bool probes = x->rule->unknown == RECORD_UNKNOWN_PROBE;
    return probes && longest < RECORD_PROBE_APART_US ? RECORD_PROBE_APART_US : longest;
}

static bool fill_request_attempt(struct exchange *x)
{
    CHECK(x->has_body && x->attempt.token == 0);
    const struct rule *rule = x->rule;
    struct attempt *attempt = &x->attempt;
    int64_t window = template_window_us(&rule->key);
    attempt->tenant = buf_slice(&x->tenant);
    attempt->rule = rule->name;
    attempt->key = buf_slice(&x->key);
    attempt->recipe = rule->recipe;
    attempt->fingerprint = &x->fingerprint;
    attempt->found_fingerprint = &x->found_fingerprint;
    attempt->room =
        (struct store_room){&x->server->shared->buffered, x->plan->settings.max_buffered};
    attempt->wait_us = rule->in_progress_wait_us;
    attempt->begin.lease_us = rule->lease_us;
    attempt->begin.ttl_us = window > 0 ? window : rule->ttl_us;
    attempt->begin.window = window > 0;
    attempt->begin.least_us = longest_wait(x);
    attempt->begin.doubted_us = rule->ttl_us;
    attempt->begin.tombstone_us = rule->tombstone_us;
    attempt->begin.settle_us = rule->settle_us;
    attempt->begin.unknown = rule->unknown;
    attempt->begin.hold_us = rule->hold_us;
    attempt->begin.first = rule->first;
    attempt->begin.paced = rule->probes_alone;
    return identify_name(x) || refuse_without_memory(x);
}

static bool identify_operation(struct exchange *x, bool *ret_bypass)
{
    const struct template_part *header = template_key_header(&x->rule->key);
    if (header && !read_header_key(x, header, ret_bypass))
        return false;
    if (!identify_read_request(x) || !identify_read_payload(x))
        return false;
    if (x->rule->once.on && !read_once(x))
        return false;
    if (!x->keyless && !template_is_plain_header(&x->rule->key) && !identify_read_key(x))
        return false;
    if (x->keyless)
        name_by_once(x);
    x->found.facts.key = buf_slice(&x->key);
    if (!fill_request_attempt(x))
        return false;
    /* Only a new record keeps it: a response in the cache is replayed without. */
    if (!identify_takes_long(x) && !engine_look_for_copy(x->server->config->engine, &x->attempt))
        write_fingerprint(x, &x->rule->payload);
    return true;
}

enum exchange_step identify_request(struct exchange *x)
{
    CHECK(x->client_state == CLIENT_WAITS && x->attempt.token == 0 && !x->rule->inbox);
    bool bypass = false;
    bool identified = identify_operation(x, &bypass);
    identify_close_payload(x);
    CHECK(!identified || (x->has_body && x->attempt.rule.at));
    if (bypass)
        return x->has_body ? reply_error(x, ERROR_LIMITED,
                                         "the config was reloaded while this request arrived")
                           : EXCHANGE_BYPASS;
    return identified ? EXCHANGE_ADMIT : EXCHANGE_RESPOND;
}

static bool hash_again(struct exchange *x, struct slice recipe)
{
    struct payload_selection selection;
    if (!recipe.at)
        return refuse_without_memory(x);
    if (!payload_recipe_read(recipe, x->arena, &selection))
        return refuse_unidentified(x, ERROR_PAYLOAD_MISMATCH,
                                   "the first request was hashed by a newer version of pawl");
    x->attempt.recipe = recipe;
    return hash_payload(x, &selection, true);
}

enum exchange_step identify_again(struct exchange *x)
{
    const char *recipe = x->attempt.result.found_recipe;
    CHECK(recipe && x->has_body);
    bool hashed = hash_again(x, arena_copy(x->arena, slice_of(recipe)));
    identify_close_payload(x);
    return hashed ? EXCHANGE_DECIDE : EXCHANGE_RESPOND;
}

/* A body that took long to understand is not understood again for a sentence. */
void identify_difference(struct exchange *x, bool target, struct buf *buf)
{
    struct payload_selection selection;
    const struct fingerprint *first = &x->found_fingerprint;
    struct slice stored = slice_make(first->text, first->len);
    if (!payload_recipe_read(x->attempt.recipe, x->arena, &selection))
        return;
    struct fingerprint_of of = fingerprint_of(x, &selection);
    if (target) {
        fingerprint_explain_target(&of, stored, buf);
        return;
    }
    if (!identify_takes_long(x) && identify_open_payload(x, selection.as_json) == PAYLOAD_OK)
        fingerprint_explain_body(&of, stored, buf);
    identify_close_payload(x);
}
