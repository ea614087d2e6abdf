/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/engine.h"

#include "base/check.h"
#include "base/crash.h"
#include "base/crypto/random.h"
#include "base/mem.h"
#include "engine/cache.h"

#define CACHE_TRUST_US (INT64_C(100) * 1000) /* how old the look at other processes may be */
#define MARGIN_MOST_US CLOCK_US_PER_S        /* of a lease, kept back by the send check */

struct engine {
    struct store *store;
    struct cache *cache;
};

struct engine *engine_new(struct store *store, uint64_t cache_bytes)
{
    struct engine *engine = mem_zalloc(1, sizeof *engine);
    if (!engine)
        return NULL;
    engine->store = store;
    engine->cache = cache_new(cache_bytes);
    if (!engine->cache) {
        mem_free(engine);
        return NULL;
    }
    return engine;
}

void engine_free(struct engine *engine)
{
    if (!engine)
        return;
    cache_free(engine->cache);
    mem_free(engine);
}

void engine_set_cache(struct engine *engine, uint64_t cache_bytes)
{
    cache_limit(engine->cache, cache_bytes);
}

struct digest engine_key_hash(const struct engine *engine, struct slice tenant, struct slice space,
                              struct slice key)
{
    return store_key_hash(engine->store, tenant, space, key);
}

struct digest engine_value_hash(const struct engine *engine, struct slice tenant, struct slice rule,
                                struct slice text)
{
    const struct slice parts[] = {SLICE("value"), tenant, rule, text};
    return digest_keyed(store_digest_key(engine->store), parts, 4);
}

void engine_name_once(const struct engine *engine, const struct attempt *attempt, struct slice text,
                      const struct slice *former, struct store_once *once)
{
    const struct digest_key *key = store_digest_key(engine->store);
    struct slice tenant = attempt->tenant;
    once->text = text;
    once->hash = store_once_hash(key, tenant, attempt->rule, text);
    once->as_key = engine_key_hash(engine, tenant, attempt->rule, text);
    once->n_former = attempt->n_former;
    for (size_t i = 0; i < once->n_former; i++) {
        struct slice made = once->former_values ? once->former_values[i].text : text;
        once->former[i] = store_once_hash(key, tenant, former[i], made);
        once->former_as_key[i] = engine_key_hash(engine, tenant, former[i], made);
    }
}

static struct cache_key cache_key_of(const struct attempt *attempt, struct digest key_hash)
{
    return (struct cache_key){.key_hash = key_hash,
                              .payload_hash = attempt->begin.payload_hash,
                              .target_hash = attempt->begin.target_hash,
                              .recipe = attempt->recipe};
}

/* Only under its own name: what a former one leads to is the store's to say, and so is a once
 * value. */
static bool get_copy(struct engine *engine, const struct attempt *attempt, int64_t *ret_now,
                     struct cached *ret_cached)
{
    int64_t seen_at = 0;
    if (attempt->has_once)
        return false;
    int64_t forgets = store_forgets(engine->store, &seen_at);
    int64_t boot = clock_boot_us();
    if (boot - seen_at > CACHE_TRUST_US)
        return false;
    int64_t now = *ret_now = store_now_at(engine->store, boot);
    struct cache_key key = cache_key_of(attempt, attempt->key_hash);
    return cache_get(engine->cache, &key, now, forgets, ret_cached);
}

bool engine_look_for_copy(struct engine *engine, const struct attempt *attempt)
{
    struct cached cached;
    int64_t now = 0;
    bool found = get_copy(engine, attempt, &now, &cached);
    if (found)
        outcome_unref(cached.outcome);
    return found;
}

/* Fills in what the store would say, as far as a copy can know. */
static void fill_copy(struct attempt *attempt, int64_t now, const struct cached *cached)
{
    attempt_fini(attempt);
    attempt->op = (struct store_op){0};
    attempt->result = (struct store_result){
        .row = cached->row,
        .store_now = now,
        .record = {.status = cached->outcome->failed ? RECORD_FAILED : RECORD_COMPLETE,
                   .attempts = cached->attempts,
                   .created_at = cached->created_at,
                   .completed_at = cached->completed_at,
                   .expires_at = cached->expires_at,
                   .gone_at = cached->gone_at,
                   .kept = true,
                   .http_status = cached->outcome->status}};
}

static void keep_in_cache(struct engine *engine, const struct attempt *attempt,
                          struct outcome *outcome)
{
    if (attempt->uncached)
        return;
    outcome_drop_packed(outcome);
    struct cache_key key = cache_key_of(attempt, attempt->record_hash);
    const struct record *record = &attempt->result.record;
    struct cached cached = {.outcome = outcome,
                            .row = attempt->result.row,
                            .attempts = record->attempts,
                            .created_at = record->created_at,
                            .completed_at = record->completed_at,
                            .expires_at = record->expires_at,
                            .gone_at = record->gone_at};
    cache_put(engine->cache, &key, &cached, attempt->result.forgets);
}

static void fill_op(struct attempt *attempt, enum store_op_kind kind)
{
    int64_t row = attempt->result.row;
    attempt_fini(attempt);
    attempt->op = (struct store_op){
        .kind = kind,
        .key_hash = attempt->record_hash,
        .row_hint = row,
        .brings = attempt->brings,
        .n_brings = attempt->n_brings,
    };
}

/* Once it has ended. What it found is the attempt's own from then on. */
static void take_attempt_result(struct attempt *attempt)
{
    CHECK(store_op_ended(&attempt->op) && !attempt->result.found);
    attempt->result = attempt->op.result;
    attempt->op.result = (struct store_result){0};
}

void attempt_fini(struct attempt *attempt)
{
    store_result_fini(&attempt->result, &attempt->room);
}

bool attempt_replace_found(struct attempt *attempt, struct outcome *outcome)
{
    const struct store_room *room = &attempt->room;
    bool first = room->held && outcome_hold(outcome, room->held);
    struct store_result found = {.found = attempt->result.found, .holds = attempt->result.holds};
    store_result_fini(&found, room);
    attempt->result.found = outcome;
    attempt->result.holds = room->held;
    return !first || atomic_load(room->held) <= room->most;
}

struct outcome *attempt_take_found(struct attempt *attempt)
{
    struct outcome *found = attempt->result.found;
    CHECK(!attempt->result.holds);
    attempt->result.found = NULL;
    return found;
}

char *attempt_take_key(struct attempt *attempt)
{
    char *key = attempt->result.found_key;
    attempt->result.found_key = NULL;
    return key;
}

bool attempt_may_have_met(const struct attempt *attempt)
{
    return attempt->op.own.waits || attempt->result.status == STORE_NO_MEMORY;
}

static void fill_begin(struct attempt *attempt, int64_t boot, int64_t deadline_us)
{
    attempt->record_hash = attempt->key_hash;
    fill_op(attempt, STORE_BEGIN);
    attempt->result = (struct store_result){0};
    random_bytes(attempt->begin.attempt_id, RECORD_ATTEMPT_ID_SIZE);
    attempt->op.row_hint = 0;
    attempt->op.begin = attempt->begin;
    attempt->op.room = attempt->room;
    int64_t wait_until = clock_first(clock_after(boot, attempt->wait_us), deadline_us);
    attempt->op.arrival = (struct store_arrival){
        .former = attempt->former,
        .n_former = attempt->n_former,
        .once = attempt->has_once ? &attempt->once : NULL,
        .tenant = attempt->tenant,
        .rule = attempt->rule,
        .key = attempt->key,
        .recipe = attempt->recipe,
        .fingerprint = attempt->fingerprint,
        .found_fingerprint = attempt->found_fingerprint,
        .origin = attempt->origin,
        .has_epoch = attempt->has_epoch,
        .epoch = attempt->epoch,
        .wait_until = attempt->wait_us > 0 ? wait_until : 0,
    };
}

/* A switch, as the compiler finds the verdict of the record that has no row there. */
static enum engine_verdict verdict_decided(enum record_verdict verdict)
{
    switch (verdict) {
#define X(name, class)                                                                             \
    case RECORD_##name:                                                                            \
        return ENGINE_##name;
        ENGINE_DECIDED(X)
#undef X
    }
    UNREACHABLE();
}

enum verdict_class engine_class_of(enum engine_verdict verdict)
{
    static const enum verdict_class classes[] = {
#define X(name, class) [ENGINE_##name] = VERDICT_##class,
        ENGINE_DECIDED(X) ENGINE_UNDECIDED(X)
#undef X
    };
    return classes[verdict];
}

/* What the cache has; the caller holds it as it would what the store found. */
static enum engine_verdict replay_copy(struct attempt *attempt, int64_t now,
                                       const struct cached *cached)
{
    fill_copy(attempt, now, cached);
    if (attempt_replace_found(attempt, cached->outcome))
        return ENGINE_REPLAY;
    attempt_fini(attempt);
    return ENGINE_NO_ROOM;
}

static enum engine_verdict verdict_undecided(const struct attempt *attempt,
                                             const struct parker *parker)
{
    bool own_time_over = attempt->op.own.waits && !parker->interrupted;
    switch (attempt->result.status) {
    case STORE_LIMITED:
        return ENGINE_LIMITED;
    case STORE_NO_ROOM:
        return ENGINE_NO_ROOM;
    case STORE_TOO_LARGE:
        return ENGINE_TOO_LARGE;
    case STORE_MOVED:
        return ENGINE_MOVED;
    case STORE_WITHDRAWN:
        return own_time_over ? ENGINE_IN_PROGRESS : ENGINE_GONE;
    default:
        return ENGINE_STORE_DOWN;
    }
}

/* The attempt's own clock starts before the decision, and not before the wait for it: after a
 * long wait for a first attempt there is a whole lease all the same. What its process said of
 * itself since allows no send: a begin that is applied again has what is left of its own lease. */
static void hold_record(struct attempt *attempt)
{
    const struct store_result *result = &attempt->result;
    const struct record *record = &result->record;
    CHECK(record->token > 0 && result->status == STORE_DONE);
    int64_t lease = clock_after(record->started_at, record->lease_us) - result->store_now;
    if (lease < 0)
        lease = 0;
    int64_t margin = lease / 10 < MARGIN_MOST_US ? lease / 10 : MARGIN_MOST_US;
    attempt->token = record->token;
    attempt->asked_at = result->store_now;
    attempt->send_by = clock_after(result->decided_at, lease - margin);
}

enum engine_verdict engine_begin(struct engine *engine, struct attempt *attempt,
                                 struct parker *parker, int64_t deadline_us)
{
    CHECK(attempt->rule.len > 0 && attempt->recipe.len > 0);
    struct cached cached;
    int64_t boot = clock_boot_us(), now = 0;
    attempt->token = 0;
    if (get_copy(engine, attempt, &now, &cached))
        return replay_copy(attempt, now, &cached);

    fill_begin(attempt, boot, deadline_us);
    store_run(engine->store, &attempt->op, parker, deadline_us);
    take_attempt_result(attempt);
    const struct store_result *result = &attempt->result;
    if (result->status != STORE_DONE)
        return verdict_undecided(attempt, parker);

    attempt->record_hash = attempt->op.key_hash;
    attempt->uncached = attempt->has_once || result->by_bound;
    enum engine_verdict verdict = verdict_decided(result->verdict);
    if (record_verdict_acquires(result->verdict))
        hold_record(attempt);
    if (verdict == ENGINE_REPLAY)
        keep_in_cache(engine, attempt, result->found);
    return verdict;
}

bool engine_waits(const struct attempt *attempt)
{
    return store_op_waits(&attempt->op);
}

bool engine_may_send(const struct attempt *attempt)
{
    CHECK(attempt->token > 0);
    return clock_boot_us() < attempt->send_by;
}

struct engine_act engine_act_of(enum disposition_write write, bool is_probe)
{
    static const struct engine_act acts[] = {
        [WRITE_COMPLETE] = {.kind = STORE_FINISH, .final = RECORD_COMPLETE},
        [WRITE_FAIL] = {.kind = STORE_FINISH, .final = RECORD_FAILED},
        [WRITE_RELEASE] = {.kind = STORE_RELEASE},
        [WRITE_TURN] = {.kind = STORE_TURN},
        [WRITE_DROP] = {.kind = STORE_DROP},
        [WRITE_DOUBT] = {.kind = STORE_DOUBT},
        [WRITE_NOTHING] = {.kind = STORE_DOUBT},
    };
    struct engine_act act = acts[write];
    if (is_probe && act.kind == STORE_RELEASE)
        act.kind = STORE_RELEASE_SETTLED;
    return act;
}

static void reach_crash_point(enum store_op_kind kind)
{
    if (kind == STORE_FINISH)
        CRASH_POINT(before_outcome_commit);
    else if (kind == STORE_DOUBT || kind == STORE_ASK)
        CRASH_POINT(before_doubt_commit);
    else
        CRASH_POINT(before_release_commit);
}

void engine_write(struct engine *engine, struct attempt *attempt, const struct engine_act *act,
                  struct parker *parker)
{
    CHECK(attempt->token > 0 && act->kind >= STORE_FINISH && act->kind <= STORE_ASK);
    CHECK(!act->outcome || act->kind == STORE_FINISH);
    fill_op(attempt, act->kind);
    if (act->kind == STORE_ASK) {
        random_bytes(attempt->begin.attempt_id, RECORD_ATTEMPT_ID_SIZE);
        attempt->op.begin = attempt->begin;
    }
    attempt->op.writing = (struct store_writing){
        .token = attempt->token,
        .outcome = act->outcome,
        .claim = &attempt->result,
        .final = act->final,
        .http_status = act->http_status,
        .event_data = act->event_data,
        .keeps = act->outcome,
        .cause = act->cause,
        .looked_at = attempt->asked_at,
    };
    attempt->op.parker = parker;
    reach_crash_point(act->kind);
    store_submit(engine->store, &attempt->op);
}

bool engine_wait(struct attempt *attempt, struct parker *parker, int64_t deadline_us)
{
    while (!store_op_ended(&attempt->op)) {
        parker->park(parker, deadline_us);
        if (!store_op_ended(&attempt->op) && clock_boot_us() >= deadline_us)
            return false;
    }
    return true;
}

/* Whether the doubt left the record unknown, and this attempt at it. */
static enum engine_written asked_result(struct attempt *attempt)
{
    const struct record *record = &attempt->result.record;
    if (!record_is_probing(record, &attempt->begin))
        return record_is_final(record->status) ? ENGINE_STALE : ENGINE_STORED;
    hold_record(attempt);
    return ENGINE_ASKS;
}

/* Whether its owner may send now. Released, its lease had lapsed: it is decided again. */
static enum engine_written turned_result(struct attempt *attempt)
{
    const struct record *record = &attempt->result.record;
    if (attempt->result.write == RECORD_EARLY)
        return ENGINE_EARLY;
    if (record->status != RECORD_PENDING || record->lease_until == 0 || record_is_asking(record))
        return ENGINE_STALE;
    hold_record(attempt);
    return ENGINE_STORED;
}

/* "Already" is our own write whose result was lost, or somebody else's: the record says which. */
static enum engine_written already_result(struct attempt *attempt)
{
    const struct store_op *op = &attempt->op;
    const struct store_result *result = &attempt->result;
    const struct record *record = &result->record;
    if (op->kind != STORE_FINISH)
        return record_is_final(record->status) ? ENGINE_STALE : ENGINE_STORED;
    bool same = record->http_status == op->writing.http_status && record->kept == result->kept;
    if (same && result->kept)
        same = result->found && outcome_eq(result->found, op->writing.outcome);
    attempt_fini(attempt);
    return same ? ENGINE_STORED : ENGINE_STALE;
}

enum engine_written engine_written(struct engine *engine, struct attempt *attempt)
{
    const struct store_op *op = &attempt->op;
    CHECK(op->kind != STORE_BEGIN);
    CRASH_POINT(after_outcome_commit);
    take_attempt_result(attempt);
    const struct store_result *result = &attempt->result;
    if (result->status != STORE_DONE)
        return ENGINE_LOST;
    if (op->kind == STORE_ASK && result->write != RECORD_STALE)
        return asked_result(attempt);
    if (op->kind == STORE_TURN && result->write != RECORD_STALE)
        return turned_result(attempt);
    switch (result->write) {
    case RECORD_WRITTEN:
        if (op->kind == STORE_FINISH && result->kept)
            keep_in_cache(engine, attempt, op->writing.outcome);
        return ENGINE_STORED;
    case RECORD_ALREADY:
        return already_result(attempt);
    case RECORD_EARLY:
        return ENGINE_EARLY;
    case RECORD_STALE:
    case RECORD_LIVE:
        return ENGINE_STALE;
    }
    UNREACHABLE();
}

enum engine_written engine_store(struct engine *engine, struct attempt *attempt,
                                 const struct engine_act *act, struct parker *parker)
{
    engine_write(engine, attempt, act, parker);
    bool ended = engine_wait(attempt, parker, CLOCK_NEVER);
    CHECK(ended);
    return engine_written(engine, attempt);
}
