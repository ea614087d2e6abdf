/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/exchange/exchange.h"

#include "base/check.h"
#include "base/mem.h"
#include "gateway/headers_out.h"

/* Bytes that hold what is usual; more comes from malloc. */
#define KEY_FIRST ((size_t)128)
#define FIELDS_FIRST ((size_t)512)
#define BODY_FIRST ((size_t)1024)
#define HELD_US (INT64_C(1) * CLOCK_US_PER_MS) /* between two checks whether the reload is done */
#define RESPONSE_FIELDS_MAX ((size_t)64 * 1024)
#define DETAIL_MAX ((size_t)8 * 1024)
#define TIMEOUT_MS_MAX UINT64_C(86400000)

/* ---- steps ---- */

#define TO(step) (1U << EXCHANGE_##step)

void exchange_move(struct exchange *x, enum exchange_step next)
{
    static const unsigned moves[] = {
#define X(name, next) next,
        EXCHANGE_STEPS(X)
#undef X
    };
    CHECK(x->step < sizeof moves / sizeof *moves);
    CHECK(moves[x->step] & (1U << next));
    x->before = x->step;
    x->step = next;
}

/* ---- making and ending an exchange ---- */

void exchange_work(const struct exchange *x, bool takes_long, void (*work)(void *), void *argument)
{
    if (!takes_long || !fiber_offload(x->server->config->workers, work, argument))
        work(argument);
}

struct buf exchange_buf(struct exchange *x, size_t size, size_t max)
{
    return buf_on(arena_alloc(x->arena, size), size, max);
}

static void upstream_response_fini(struct upstream_response *response)
{
    buf_fini(&response->coded);
    buf_fini(&response->body);
    buf_fini(&response->kept);
    buf_fini(&response->fields);
}

/* X-Request-Timeout: how long this client waits, in milliseconds. Two lines say nothing. */
static int64_t read_client_deadline(const struct exchange *x)
{
    uint64_t ms = 0;
    struct slice name = SLICE("X-Request-Timeout");
    const struct header *line = headers_find(&x->request->headers, name);
    bool given = line && headers_count(&x->request->headers, name) == 1 &&
                 slice_to_u64(line->value, TIMEOUT_MS_MAX, &ms);
    return given ? clock_after(x->started, (int64_t)ms * CLOCK_US_PER_MS) : CLOCK_NEVER;
}

static void gather_facts(struct exchange *x)
{
    struct template_facts *facts = &x->found.facts;
    facts->query = x->request->query;
    facts->headers = &x->request->headers;
    facts->key_syntax = x->rule->key_syntax;
    facts->key_format = x->rule->key_format;
    facts->zones = x->plan->settings.rules->zones;
    facts->now_us = clock_wall_us();
}

static void take_found_rule(struct exchange *x, const struct rule_found *found)
{
    upstream_response_fini(&x->response);
    upstream_response_fini(&x->failed);
    x->found = *found;
    x->rule = found->rule;
    x->client->rule = found->rule->name;
    gather_facts(x);
    x->response.fields = exchange_buf(x, FIELDS_FIRST, RESPONSE_FIELDS_MAX);
    x->response.kept = exchange_buf(x, FIELDS_FIRST, RESPONSE_FIELDS_MAX);
    x->response.body = exchange_buf(x, BODY_FIRST, x->rule->max_response_body);
    x->failed.fields = buf_make(RESPONSE_FIELDS_MAX);
    x->failed.kept = buf_make(RESPONSE_FIELDS_MAX);
    x->failed.body = buf_make(x->rule->max_response_body);
}

/* A body of known and usual size has its room at once. */
static struct buf body_make(struct exchange *x)
{
    const struct http_request *request = x->request;
    bool small = request->framing == HTTP_FRAMING_LENGTH && request->content_length <= BODY_FIRST;
    size_t max = x->rule->max_request_body;
    return small ? exchange_buf(x, request->content_length + 1, max) : buf_make(max);
}

struct exchange *exchange_new(struct client *client, const struct http_request *request,
                              const struct rule_found *found)
{
    CHECK(client->plan && client->session.request == request && found->rule->protect);
    struct exchange *x = arena_alloc(client->arena, sizeof *x);
    if (!x)
        return NULL;
    memset(x, 0, offsetof(struct exchange, call) + HTTP_CALL_ZEROED);
    x->server = client->server;
    x->client = client;
    x->request = request;
    x->plan = plan_ref(client->plan);
    x->arena = client->arena;
    take_found_rule(x, found);
    x->body = body_make(x);
    x->tenant = exchange_buf(x, KEY_FIRST, HTTP_HEADERS_SIZE_MAX);
    x->key = exchange_buf(x, KEY_FIRST, HTTP_HEADERS_SIZE_MAX);
    x->once = buf_make(HTTP_HEADERS_SIZE_MAX);
    x->shown_key = buf_make(HTTP_HEADERS_SIZE_MAX);
    x->sent_key = exchange_buf(x, KEY_FIRST, HTTP_HEADERS_SIZE_MAX);
    x->detail = buf_make(DETAIL_MAX);
    x->started = client->session.began_us;
    x->client_deadline = read_client_deadline(x);
    x->keep_alive = request->keep_alive;
    return x;
}

void exchange_free(struct exchange *x)
{
    CHECK(x->step == EXCHANGE_DONE || x->step == EXCHANGE_BYPASS);
    CHECK(x->call.state == HTTP_CALL_CLOSED);
    CHECK(!x->flight.taken && x->held == 0 && !x->attempt.result.found);
    upstream_response_fini(&x->failed);
    upstream_response_fini(&x->response);
    buf_fini(&x->detail);
    buf_fini(&x->headers);
    buf_fini(&x->sent_key);
    buf_fini(&x->shown_key);
    buf_fini(&x->once);
    buf_fini(&x->key);
    buf_fini(&x->tenant);
    buf_fini(&x->body);
    arena_fini(&x->payload_arena);
    plan_unref(x->plan);
    mem_free(x->holder_key);
}

/* ---- after a reload ---- */

/* Takes the rule of the present plan; false: it has none for this request. */
static bool take_present_rule(struct exchange *x)
{
    struct plan *plan = x->server->plan;
    struct rule_request wanted = {x->request->method, x->request->path, &x->request->headers};
    struct rule_found found;
    if (rule_find_request(plan->settings.rules, &wanted, x->arena, &found) != RULE_FOUND ||
        !found.rule->protect)
        return false;
    plan_replace(&x->plan, plan);
    take_found_rule(x, &found);
    x->client_key = slice_of(NULL);
    buf_clear(&x->tenant);
    buf_clear(&x->key);
    buf_clear(&x->once);
    x->keyless = false;
    x->authorize_us = 0;
    x->attempt = (struct attempt){0};
    x->decisions = 0;
    return true;
}

enum exchange_step exchange_judge_anew(struct exchange *x)
{
    CHECK(x->flight.taken && x->attempt.token == 0 && !x->met);
    while (x->server->reload.held)
        fiber_sleep_until(clock_boot_us() + HELD_US);
    if (x->plan != x->server->plan && take_present_rule(x))
        return EXCHANGE_IDENTIFY;
    return EXCHANGE_DECIDE;
}

/* ---- its key ---- */

static struct slice with_window(struct exchange *x, struct slice key)
{
    if (!x->attempt.begin.window)
        return key;
    CHECK(x->attempt.result.record.created_at > 0);
    buf_clear(&x->shown_key);
    if (key.len > 0) {
        buf_add_slice(&x->shown_key, key);
        buf_add_char(&x->shown_key, ':');
    }
    buf_add_i64(&x->shown_key, x->attempt.result.record.created_at);
    return buf_slice(&x->shown_key);
}

struct slice operation_key(struct exchange *x)
{
    return with_window(x, buf_slice(&x->key));
}

struct slice holder_key(struct exchange *x)
{
    if (x->no_key.len > 0)
        return x->no_key;
    return x->holder_key ? with_window(x, slice_of(x->holder_key)) : operation_key(x);
}

struct slice upstream_key(struct exchange *x)
{
    bool as_sent = !x->holder_key && x->no_key.len == 0;
    if (payload_recipe_is_old(x->attempt.recipe) && as_sent)
        return x->client_key.at ? x->client_key : operation_key(x);
    buf_clear(&x->sent_key);
    key_value_write_as(holder_key(x), x->spelling, x->rule->forward_key, x->rule->key_syntax,
                       &x->sent_key);
    return buf_slice(&x->sent_key);
}
