/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/exchange/exchange.h"

#include "base/check.h"
#include "base/crash.h"
#include "base/mem.h"
#include "gateway/exchange/log.h"
#include "gateway/pass/pass.h"

#define BEGIN_SLACK_US (INT64_C(1) * CLOCK_US_PER_S)    /* a begin's time beyond its wait */
#define BEGIN_GRACE_US (INT64_C(250) * CLOCK_US_PER_MS) /* at most, of a healthy store */

/* Bytes that hold what is usual; more comes from malloc. */
#define KEY_FIRST ((size_t)128)
#define FIELDS_FIRST ((size_t)512)
#define BODY_FIRST ((size_t)1024)

/* ---- the parker of a begin ---- */

/* The begin is being applied, the client's time is over, and when the disk answers nobody knows. A
 * client that named its own time has only left early; any other is told that nothing was done, and
 * so it will be. */
static void tell_undecided(struct exchange *x)
{
    if (clock_boot_us() >= x->patience) {
        x->goes_on = true;
        answer_result(x, ERROR_UPSTREAM_TIMEOUT, SLICE("X-Request-Timeout passed"), RESULT_UNKNOWN);
        return;
    }
    x->withdrawn = true;
    answer_error(x, ERROR_STORE_UNAVAILABLE, SLICE("the record store did not decide in time"));
}

/* The store wakes it when it begins to wait: a duplicate that waits is not in flight. Without a
 * deadline it parks for a begin that can no longer be withdrawn. */
static bool client_park(struct parker *parker, int64_t deadline_us)
{
    struct exchange *x = ((struct client_parker *)parker)->exchange;
    struct fiber_source source = {&x->client->session.conn.io, FIBER_HANGUP};
    if (engine_waits(&x->attempt))
        flight_give_back(x);
    if (deadline_us == CLOCK_NEVER && clock_boot_us() >= x->parker.tell_at && !x->answered)
        tell_undecided(x);
    else if (deadline_us == CLOCK_NEVER && !x->answered)
        deadline_us = x->parker.tell_at;
    size_t n = parker->interrupted ? 0 : 1;
    enum fiber_wake wake = fiber_wait(&source, n, deadline_us);
    if (wake == FIBER_READY)
        parker->interrupted = true;
    return wake == FIBER_WOKEN;
}

static void client_parker_init(struct client_parker *parker, struct exchange *x)
{
    *parker = (struct client_parker){
        .parker = {.park = client_park, .waker = fiber_parker()},
        .exchange = x,
    };
}

/* ---- one request ---- */

static void take_holder_key(struct exchange *x)
{
    char *key MEM_AUTO = x->attempt.result.found_key;
    x->attempt.result.found_key = NULL;
    x->holder_key = key ? arena_copy(x->arena, slice_of(key)) : slice_of(NULL);
    x->holder_lost = key && !x->holder_key.at;
}

static enum engine_verdict decide(struct exchange *x)
{
    struct client *client = x->client;
    int64_t boot = clock_boot_us();
    int64_t limit = clock_after(boot, x->attempt.wait_us + BEGIN_SLACK_US +
                                          x->plan->settings.connect_timeout_us);
    int64_t until = limit < x->patience ? limit : x->patience;
    client_parker_init(&x->parker, x);
    x->parker.tell_at = clock_after(until, BEGIN_GRACE_US);
    if (http_session_is_draining(&x->client->session))
        x->attempt.wait_us = 0; /* who waits was told so before: it would not be woken */
    client->session.waiting = &x->parker.parker;
    CRASH_POINT(before_begin);
    x->at_store = true;
    enum engine_verdict verdict =
        engine_begin(x->server->config->engine, &x->attempt, &x->parker.parker, until);
    x->at_store = false;
    client->session.waiting = NULL;
    exchange_note_state(x, verdict);
    return bodies_hold_found(x, verdict);
}

static enum step own(struct exchange *x, enum step (*ask_upstream)(struct exchange *))
{
    x->owned = true;
    flight_take_beyond(x);
    return ask_upstream(x);
}

/* `store_down: pass`. Not once this exchange has met a record, its own or another's: what was sent
 * then may have happened, and would happen again. Who lacks memory may just have met one. */
static bool passes_by(const struct exchange *x, enum engine_verdict verdict)
{
    bool in_time = !x->parker.parker.interrupted && clock_boot_us() < x->patience;
    bool undecided = verdict == ENGINE_STORE_DOWN || (verdict == ENGINE_GONE && in_time);
    const struct attempt_result *result = &x->attempt.result;
    bool met = x->owned || x->rehashed || result->may_have_met;
    bool open = !x->answered && !http_session_is_draining(&x->client->session);
    return undecided && x->rule->store_down_pass && !met && open;
}

static enum step act(struct exchange *x, enum engine_verdict verdict)
{
    if (passes_by(x, verdict))
        return own(x, forward_unprotected);
    switch (verdict) {
    case ENGINE_PROCEED:
        CRASH_POINT(after_claim_commit);
        take_holder_key(x);
        return own(x, x->withdrawn ? forward_give_back : forward_run);
    case ENGINE_PROBE:
        take_holder_key(x);
        return own(x, probe_run);
    case ENGINE_OTHER_RECIPE: {
        char *recipe MEM_AUTO = x->attempt.result.found_recipe;
        x->rehashed = true;
        return identify_again(x, slice_of(recipe)) ? STEP_DECIDE : STEP_DONE;
    }
    default:
        flight_give_back(x);
        answer_verdict(x, verdict);
        return STEP_DONE;
    }
}

static void decide_until_done(struct exchange *x)
{
    exchange_note_origin(x);
    enum step step = STEP_DECIDE;
    for (int turn = 0; step == STEP_PROBE || (step == STEP_DECIDE && turn < EXCHANGE_TURNS); turn++)
        step = step == STEP_PROBE ? own(x, probe_run) : act(x, decide(x));
    if (step == STEP_DONE)
        return;
    if (!x->answered)
        answer_error(x, ERROR_IN_PROGRESS, SLICE("the record changed hands too often"));
}

struct buf exchange_buf(struct exchange *x, size_t size, size_t max)
{
    return buf_on(arena_alloc(x->arena, size), size, max);
}

static void answer_fini(struct answer *answer)
{
    buf_fini(&answer->body);
    buf_fini(&answer->kept);
    buf_fini(&answer->fields);
}

static void make_answers(struct exchange *x)
{
    answer_fini(&x->answer);
    answer_fini(&x->failed);
    x->answer.fields = exchange_buf(x, FIELDS_FIRST, ANSWER_FIELDS_MAX);
    x->answer.kept = exchange_buf(x, FIELDS_FIRST, ANSWER_FIELDS_MAX);
    x->answer.body = exchange_buf(x, BODY_FIRST, x->rule->max_response_body);
    x->failed.fields = buf_make(ANSWER_FIELDS_MAX);
    x->failed.kept = buf_make(ANSWER_FIELDS_MAX);
    x->failed.body = buf_make(x->rule->max_response_body);
}

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
    x->found = found;
    x->rule = found.rule;
    x->client->rule = found.rule->name;
    x->client_key = slice_of(NULL);
    buf_clear(&x->tenant);
    buf_clear(&x->key);
    buf_clear(&x->once);
    x->keyless = false;
    x->attempt = (struct attempt){0};
    make_answers(x);
    return true;
}

/* A reload came while the request was read: nothing has begun, so it is judged by the rules of now.
 * A request that has no rule any more ends under the one it came with. False: answered. */
static bool judge_anew(struct exchange *x)
{
    reload_wait(x->server);
    while (x->plan != x->server->plan && take_present_rule(x)) {
        bool bypass = false;
        if (!identify(x, &bypass)) {
            if (bypass)
                answer_error(x, ERROR_LIMITED, SLICE("the config changed meanwhile"));
            return false;
        }
        if (!authorize(x))
            return false;
        reload_wait(x->server);
    }
    return true;
}

static void run(struct exchange *x, bool *ret_bypass)
{
    if (identify(x, ret_bypass) && flight_take(x) && authorize(x) && judge_anew(x))
        decide_until_done(x);
}

/* A body of known and usual size has its room at once. */
static struct buf body_make(struct exchange *x)
{
    const struct http_request *request = x->request;
    bool small = request->framing == HTTP_FRAMING_LENGTH && request->content_length <= BODY_FIRST;
    size_t max = x->rule->max_request_body;
    return small ? exchange_buf(x, request->content_length + 1, max) : buf_make(max);
}

/* With all that most requests need, in one arena. */
static struct exchange *exchange_new(struct client *client, const struct http_request *request,
                                     const struct rule_found *found)
{
    struct exchange *x = arena_alloc(client->arena, sizeof *x);
    if (!x)
        return NULL;
    memset(x, 0, offsetof(struct exchange, call) + HTTP_CALL_ZEROED);
    x->server = client->server;
    x->client = client;
    x->request = request;
    x->plan = plan_ref(client->plan);
    x->found = *found;
    x->rule = found->rule;
    x->arena = client->arena;
    x->payload_arena = arena_make(PAYLOAD_ARENA_MAX);
    x->body = body_make(x);
    x->tenant = exchange_buf(x, KEY_FIRST, HTTP_HEAD_MAX);
    x->key = exchange_buf(x, KEY_FIRST, HTTP_HEAD_MAX);
    x->once = buf_make(HTTP_HEAD_MAX);
    x->shown_key = buf_make(HTTP_HEAD_MAX);
    x->sent_key = exchange_buf(x, KEY_FIRST, HTTP_HEAD_MAX);
    make_answers(x);
    x->started = clock_boot_us();
    x->keep_alive = request->keep_alive;
    return x;
}

static void exchange_free(struct exchange *x)
{
    CHECK(x->call.state == HTTP_CALL_CLOSED);
    flight_give_back(x);
    bodies_release(x);
    answer_fini(&x->failed);
    answer_fini(&x->answer);
    buf_fini(&x->sent_key);
    buf_fini(&x->shown_key);
    buf_fini(&x->once);
    buf_fini(&x->key);
    buf_fini(&x->tenant);
    buf_fini(&x->body);
    arena_fini(&x->payload_arena);
    plan_unref(x->plan);
}

bool exchange_run(struct client *client, const struct http_request *request,
                  const struct rule_found *found)
{
    struct exchange *x = exchange_new(client, request, found);
    client->rule = found->rule->name;
    if (!x)
        return false;
    bool bypass = false;
    run(x, &bypass);
    bool keep = x->keep_alive;
    if (bypass) {
        keep = pass_run(client, request);
    } else
        exchange_log(x);
    exchange_free(x);
    return keep;
}
