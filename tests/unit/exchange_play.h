/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One exchange at one step, asked directly: what the engine says is a script, what it is asked and
 * what the client gets are written down. Nothing is sent: the upstream's response is as the step
 * before left it. The calls of the engine and of the client's session are replaced at link time
 * (EXCHANGE_WRAPS in meson.build); the store, of which only secret and terms are asked, is a toy.
 */
#ifndef PAWL_TESTS_UNIT_EXCHANGE_PLAY_H
#define PAWL_TESTS_UNIT_EXCHANGE_PLAY_H

#include "base/mem.h"
#include "gateway/exchange/bodies.h"
#include "gateway/exchange/reply.h"
#include "gateway/exchange/steps.h"
#include "toy/toy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define WALL (INT64_C(1700000000) * CLOCK_US_PER_S)
#define BOOT (INT64_C(1000) * CLOCK_US_PER_S)
#define S(n) (INT64_C(n) * CLOCK_US_PER_S)
#define ACTS_MAX 4
#define TOKEN 7
#define ROOM ((size_t)8 * 1024 * 1024)

/* The engine, by a script. */
struct engine_script {
    enum engine_verdict verdict;
    struct store_result begun; /* of the begin; `found` is the exchange's to give back */
    bool interrupts;           /* the client leaves while it waits for it */
    enum engine_written written[ACTS_MAX]; /* of each act */
    struct store_result settled;           /* of each; `kept` as the act kept something */
    int waits;                             /* so often the deadline passes before the act ends */
    enum store_status learned;
    /* what it was asked: */
    int n_begun;
    int n_acts;
    struct engine_act acts[ACTS_MAX];
    char kept[256]; /* the body of the last outcome */
};

struct exchange_play {
    struct engine_script engine;
    bool drains;     /* the gateway */
    char sent[8192]; /* to the client */
    int n_responses;
    int n_events;
    struct http_request request;
    struct rule rule;
    struct rule_set rules; /* that one, with */
    atomic_bool moved;
    atomic_int trial;
    struct plan plan;
    struct gateway_config config;
    struct gateway_shared shared;
    struct server server;
    struct client client;
    struct arena arena;
    struct parker parker;
    struct exchange *x;
    struct gateway gateway; /* last: it has loops behind it */
};

static struct exchange_play *play; /* the one that is on */

/* ---- what is replaced ---- */

enum engine_verdict __wrap_engine_begin(struct engine *engine, struct attempt *attempt,
                                        struct parker *parker, int64_t deadline_us);
void __wrap_engine_write(struct engine *engine, struct attempt *attempt,
                         const struct engine_act *act, struct parker *parker);
bool __wrap_engine_wait(struct attempt *attempt, struct parker *parker, int64_t deadline_us);
enum engine_written __wrap_engine_written(struct engine *engine, struct attempt *attempt);
enum store_status __wrap_identities_learn(struct store *store, struct rule_set *set,
                                          struct parker *parker);
bool __wrap_http_session_write(struct http_session *session, const struct buf *headers,
                               struct slice body);
bool __wrap_http_session_is_draining(const struct http_session *session);
bool __wrap_http_session_may_go_on(const struct http_session *session);
struct parker *__wrap_fiber_parker(void);

enum engine_verdict __wrap_engine_begin(struct engine *engine, struct attempt *attempt,
                                        struct parker *parker, int64_t deadline_us)
{
    (void)engine;
    assert_true(deadline_us > clock_boot_us());
    play->engine.n_begun++;
    parker->interrupted = play->engine.interrupts;
    attempt->result = play->engine.begun;
    attempt->result.found = NULL;
    if (play->engine.begun.found)
        (void)attempt_replace_found(attempt, play->engine.begun.found);
    enum verdict_class class = engine_class_of(play->engine.verdict);
    attempt->token = class == VERDICT_PROCEED || class == VERDICT_PROBE ? TOKEN : 0;
    return play->engine.verdict;
}

void __wrap_engine_write(struct engine *engine, struct attempt *attempt,
                         const struct engine_act *act, struct parker *parker)
{
    struct engine_script *script = &play->engine;
    (void)engine;
    assert_true(attempt->token == TOKEN && parker == &play->parker && script->n_acts < ACTS_MAX);
    script->acts[script->n_acts++] = *act;
    script->settled.kept = act->outcome != NULL;
    if (act->outcome)
        snprintf(script->kept, sizeof script->kept, "%.*s", SLICE_ARG(act->outcome->body));
}

bool __wrap_engine_wait(struct attempt *attempt, struct parker *parker, int64_t deadline_us)
{
    assert_true(attempt->token == TOKEN && parker == &play->parker);
    if (play->engine.waits == 0)
        return true;
    assert_true(deadline_us < CLOCK_NEVER);
    play->engine.waits--;
    clock_test_set(WALL + deadline_us - BOOT, deadline_us);
    return false;
}

enum engine_written __wrap_engine_written(struct engine *engine, struct attempt *attempt)
{
    (void)engine;
    attempt->result = play->engine.settled;
    return play->engine.written[play->engine.n_acts - 1];
}

enum store_status __wrap_identities_learn(struct store *store, struct rule_set *set,
                                          struct parker *parker)
{
    assert_true(store == play->config.store && set == &play->rules && parker == &play->parker);
    return play->engine.learned;
}

bool __wrap_http_session_write(struct http_session *session, const struct buf *headers,
                               struct slice body)
{
    assert_true(session == &play->client.session && buf_ok(headers));
    snprintf(play->sent, sizeof play->sent, "%.*s%.*s", (int)headers->len, headers->at,
             SLICE_ARG(body));
    play->n_responses++;
    return true;
}

bool __wrap_http_session_is_draining(const struct http_session *session)
{
    assert_true(session == &play->client.session);
    return play->drains;
}

bool __wrap_http_session_may_go_on(const struct http_session *session)
{
    assert_true(session == &play->client.session);
    return !play->drains;
}

struct parker *__wrap_fiber_parker(void)
{
    return &play->parker;
}

static inline void count_event(void *argument)
{
    ((struct exchange_play *)argument)->n_events++;
}

/* ---- the stage ---- */

static inline void open_toy(void)
{
    struct store_config config = store_config_default();
    char *problem = NULL;
    config.no_thread = true;
    assert_int_equal(store_open_over(&config, toy_open(NULL), &play->config.store, &problem),
                     STORE_OPENED);
}

static inline void fill_rule(struct rule *rule)
{
    struct slice problem;
    *rule = (struct rule){.name = SLICE("pay"),
                          .protect = true,
                          .tenant_none = true,
                          .recipe = SLICE("2 all"),
                          .mismatch_status = 409,
                          .ack_status = 204,
                          .max_request_body = 4096,
                          .max_response_body = 4096,
                          .timeout_us = S(30),
                          .lease_us = S(60),
                          .ttl_us = S(86400)};
    if (!rule_match_compile(SLICE("POST /payments"), &play->arena, &rule->match, &problem))
        fail_msg("%.*s", SLICE_ARG(problem));
}

/* What ends every exchange, whatever step it was asked at. */
static inline void strike_exchange(void)
{
    struct exchange *x = play->x;
    if (!x)
        return;
    attempt_fini(&x->attempt);
    flight_give_back(x);
    bodies_release(x);
    x->step = EXCHANGE_DONE;
    exchange_free(x);
    play->x = NULL;
    assert_true(atomic_load(&play->shared.buffered) == 0);
    assert_true(atomic_load(&play->shared.in_flight) == 0);
}

/* A request whose body was read, and whose key is k1, at that step, by the rule as it is now; the
 * one before it is struck, and the script is empty. */
static inline struct exchange *stage_exchange(enum exchange_step before, enum exchange_step step)
{
    const struct rule_found found = {.rule = &play->rule};
    strike_exchange();
    play->engine = (struct engine_script){0};
    play->n_responses = play->n_events = 0;
    play->sent[0] = '\0';
    clock_test_set(WALL, BOOT);
    struct exchange *x = play->x = exchange_new(&play->client, &play->request, &found);
    assert_non_null(x);
    buf_add_str(&x->key, "k1");
    buf_add_str(&x->body, "{\"amount\":7}");
    x->has_body = true;
    x->attempt.rule = play->rule.name;
    x->attempt.key = buf_slice(&x->key);
    x->attempt.recipe = play->rule.recipe;
    x->attempt.room = (struct store_room){&play->shared.buffered, ROOM};
    x->attempt.begin.unknown = play->rule.unknown;
    x->before = before;
    x->step = step;
    return x;
}

/* Before and behind each test. */
static inline int set_stage(void **state)
{
    play = *state = mem_zalloc(1, sizeof *play);
    assert_non_null(play);
    play->arena = arena_make(ROOM);
    open_toy();
    play->config.metrics = metrics_new();
    assert_non_null(play->config.metrics);
    play->config.has_events = count_event;
    play->config.argument = play;
    play->request = (struct http_request){.method = SLICE("POST"),
                                          .target = SLICE("/payments"),
                                          .path = SLICE("/payments"),
                                          .keep_alive = true};
    fill_rule(&play->rule);
    play->rules = (struct rule_set){
        .refs = 1, .n = 1, .rules = &play->rule, .moved = &play->moved, .trials = &play->trial};
    play->plan = (struct plan){.refs = 1,
                               .settings = {.rules = &play->rules,
                                            .max_in_flight = 8,
                                            .max_buffered = ROOM,
                                            .connect_timeout_us = S(1),
                                            .retry_after_us = S(3)}};
    play->server = (struct server){.gateway = &play->gateway,
                                   .config = &play->config,
                                   .shared = &play->shared,
                                   .plan = &play->plan};
    play->client.server = &play->server;
    play->client.plan = &play->plan;
    play->client.arena = &play->arena;
    play->client.session.request = &play->request;
    play->client.session.began_us = BOOT;
    return 0;
}

static inline int clear_stage(void **state)
{
    strike_exchange();
    assert_true(play->plan.refs == 1);
    metrics_free(play->config.metrics);
    store_close(play->config.store);
    arena_fini(&play->arena);
    clock_test_set(0, 0);
    mem_free(*state);
    return 0;
}

#define STEP_TEST(name) cmocka_unit_test_setup_teardown(name, set_stage, clear_stage)

/* The upstream's response, as FORWARD or PROBE left it. */
static inline void give_response(int status, const char *fields, const char *body)
{
    struct upstream_response *response = &play->x->response;
    response->status = status;
    response->whole = body != NULL;
    buf_add_str(&response->fields, fields);
    buf_add_str(&response->kept, fields);
    buf_add_str(&response->body, body ? body : "");
    bodies_count(play->x, 0);
}

/* An outcome that a begin finds. */
static inline struct outcome *make_found(int status, bool failed)
{
    struct outcome *outcome =
        outcome_new(status, failed, SLICE("Location: /payments/1\r\n"), SLICE("first"));
    assert_non_null(outcome);
    return outcome;
}

#endif
