/* SPDX-License-Identifier: Apache-2.0 */
/* The decision table and the writes of contract section 2, state by state. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "core/record.h"

#define NOW (INT64_C(1000) * CLOCK_US_PER_S)
#define SECOND CLOCK_US_PER_S
#define LEASE (30 * SECOND)
#define TTL (3600 * SECOND)
#define SETTLE (20 * SECOND)
#define TOKEN 500
#define NEXT 501
#define SELF 7
#define OTHER 8

enum state {
    ABSENT,
    RELEASED,
    LIVE,       /* of another process */
    OWN,        /* of this process, its lease long past by the clock */
    LAPSED,     /* of another process */
    UNKNOWN,
    COMPLETE,
    FAILED,
    NOT_KEPT,
    TOMBSTONE,
    GONE_FINAL,
    GONE_RELEASED,
    OWN_PROBE,
    LAPSED_PROBE,
    STATES,
};

static const char *const state_names[STATES] = {
    "absent", "released", "live",      "own",        "lapsed",        "unknown",   "complete",
    "failed", "not kept", "tombstone", "gone final", "gone released", "own probe", "lapsed probe",
};

static struct record_world world_now(int64_t now)
{
    return (struct record_world){.now = now, .self = SELF};
}

static struct digest hash_of(unsigned char byte)
{
    struct digest digest;
    memset(digest.bytes, byte, sizeof digest.bytes);
    return digest;
}

static struct record_begin a_begin(enum record_unknown unknown)
{
    struct record_begin begin = {.payload_hash = hash_of(1),
                                 .target_hash = hash_of(2),
                                 .lease_us = LEASE,
                                 .ttl_us = TTL,
                                 .unknown = unknown};
    memset(begin.attempt_id, 0x22, sizeof begin.attempt_id);
    return begin;
}

static void make_pending(struct record *record, int64_t owner, int64_t lease_until)
{
    record->status = RECORD_PENDING;
    record->owner = owner;
    record->lease_until = lease_until;
}

static void make_final(struct record *record, enum record_status status, int64_t expires_at,
                       int64_t gone_at)
{
    record->status = status;
    record->kept = true;
    record->http_status = status == RECORD_FAILED ? 422 : 201;
    record->expires_at = expires_at;
    record->gone_at = gone_at;
}

static void make_settled(struct record *record, enum state state)
{
    switch (state) {
    case COMPLETE:
    case NOT_KEPT:
        make_final(record, RECORD_COMPLETE, NOW + 1, NOW + 1);
        record->kept = state == COMPLETE;
        return;
    case FAILED:
        make_final(record, RECORD_FAILED, NOW + 1, NOW + 1);
        return;
    case TOMBSTONE:
        make_final(record, RECORD_COMPLETE, NOW, NOW + 1);
        return;
    case GONE_FINAL:
        make_final(record, RECORD_COMPLETE, NOW - 1, NOW);
        return;
    case RELEASED:
    case GONE_RELEASED:
        make_pending(record, SELF, 0);
        record->expires_at = state == RELEASED ? NOW + 1 : NOW;
        return;
    default:
        fail();
    }
}

static struct record make(enum state state, enum record_unknown unknown)
{
    struct record record = {0};
    record.payload_hash = hash_of(1);
    record.target_hash = hash_of(2);
    record.token = TOKEN;
    memset(record.attempt_id, 0x11, sizeof record.attempt_id);
    record.attempts = 3;
    record.created_at = NOW - 50 * SECOND;
    record.started_at = NOW - 40 * SECOND;
    record.lease_us = LEASE;
    record.unknown = unknown;
    record.ttl_us = TTL;
    record.probing = state == OWN_PROBE || state == LAPSED_PROBE;
    switch (state) {
    case ABSENT:
        return (struct record){.status = RECORD_ABSENT};
    case LIVE:
        make_pending(&record, OTHER, NOW + 1);
        break;
    case OWN:
    case OWN_PROBE:
        make_pending(&record, SELF, NOW - 5 * SECOND);
        break;
    case LAPSED:
    case LAPSED_PROBE:
        make_pending(&record, OTHER, NOW);
        break;
    case UNKNOWN:
        record.status = RECORD_UNKNOWN;
        break;
    default:
        make_settled(&record, state);
    }
    return record;
}

static bool same_bytes(const struct record *a, const struct record *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* ---- the decision table ---- */

enum hashes { SAME, OTHER_PAYLOAD, OTHER_TARGET, RECIPE };

struct decision {
    enum record_verdict verdict;
    bool changed;
};

/* What depends on neither policy. */
static const struct decision fixed[STATES] = {
    [ABSENT] = {RECORD_PROCEED, true},       [RELEASED] = {RECORD_PROCEED, true},
    [LIVE] = {RECORD_IN_PROGRESS, false},    [OWN] = {RECORD_IN_PROGRESS, false},
    [COMPLETE] = {RECORD_REPLAY, false},     [FAILED] = {RECORD_REPLAY, false},
    [NOT_KEPT] = {RECORD_RESULT_NOT_KEPT, false},
    [TOMBSTONE] = {RECORD_RESULT_EXPIRED, false},
    [GONE_FINAL] = {RECORD_PROCEED, true},   [GONE_RELEASED] = {RECORD_PROCEED, true},
    [OWN_PROBE] = {RECORD_IN_PROGRESS, false},
};

/* A lapsed record, by the record's own policy (row) and the rule's of today (column). */
static const enum record_verdict lapsed[3][3] = {
    [RECORD_UNKNOWN_HOLD] = {RECORD_OUTCOME_UNKNOWN, RECORD_OUTCOME_UNKNOWN, RECORD_ASK},
    [RECORD_UNKNOWN_RETRY] = {RECORD_OUTCOME_UNKNOWN, RECORD_PROCEED, RECORD_ASK},
    [RECORD_UNKNOWN_PROBE] = {RECORD_OUTCOME_UNKNOWN, RECORD_OUTCOME_UNKNOWN, RECORD_ASK},
};

static struct decision expected(enum state state, enum hashes hashes, enum record_unknown mine,
                                enum record_unknown today)
{
    bool lives = state != ABSENT && state != GONE_FINAL && state != GONE_RELEASED;
    if (lives && hashes == RECIPE)
        return (struct decision){RECORD_OTHER_RECIPE, false};
    if (lives && hashes != SAME)
        return (struct decision){RECORD_MISMATCH, false};
    if (state == LAPSED || state == LAPSED_PROBE)
        return (struct decision){lapsed[mine][today], true};
    if (state == UNKNOWN && today == RECORD_UNKNOWN_PROBE)
        return (struct decision){RECORD_ASK, true};
    if (state == UNKNOWN)
        return (struct decision){RECORD_OUTCOME_UNKNOWN, false};
    return fixed[state];
}

static void decide_one(enum state state, enum hashes hashes, enum record_unknown mine,
                       enum record_unknown today)
{
    struct record record = make(state, mine);
    struct record before = record;
    struct record_begin begin = a_begin(today);
    if (hashes == OTHER_PAYLOAD)
        begin.payload_hash = hash_of(9);
    if (hashes == OTHER_TARGET)
        begin.target_hash = hash_of(9);
    begin.recipe_differs = hashes == RECIPE;
    struct record_world world = world_now(NOW);
    struct decision want = expected(state, hashes, mine, today);
    bool changed = !want.changed;
    enum record_verdict verdict = record_begin(&record, &begin, &world, NEXT, &changed);
    if (verdict != want.verdict || changed != want.changed)
        fail_msg("%s, hashes %d, policy %d, today %d: %s", state_names[state], (int)hashes,
                 (int)mine, (int)today, record_verdict_name(verdict));
    record_check(&record);
    bool acquired = verdict == RECORD_PROCEED || verdict == RECORD_ASK;
    if (acquired)
        assert_int_equal(record.token, NEXT);
    else if (state != ABSENT)
        assert_int_equal(record.token, TOKEN);
    assert_int_equal(record.probing, verdict == RECORD_ASK || (!changed && before.probing));
    if (!changed)
        assert_true(same_bytes(&record, &before));
}

static void every_cell_of_the_decision_table_decides_as_written(void **unused)
{
    (void)unused;
    for (int state = 0; state < STATES; state++)
        for (int hashes = SAME; hashes <= RECIPE; hashes++)
            for (int mine = 0; mine < 3; mine++)
                for (int today = 0; today < 3; today++)
                    if (state != UNKNOWN || mine != RECORD_UNKNOWN_RETRY)
                        decide_one((enum state)state, (enum hashes)hashes,
                                   (enum record_unknown)mine, (enum record_unknown)today);
}

static void the_same_attempt_gets_the_same_token_again(void **unused)
{
    (void)unused;
    struct record_world world = world_now(NOW);
    const enum state held[] = {LIVE, OWN, LAPSED, OWN_PROBE, LAPSED_PROBE};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++) {
        struct record record = make(held[i], RECORD_UNKNOWN_HOLD);
        struct record_begin begin = a_begin(RECORD_UNKNOWN_HOLD);
        memcpy(begin.attempt_id, record.attempt_id, sizeof begin.attempt_id);
        bool changed = true;
        enum record_verdict verdict = record_begin(&record, &begin, &world, NEXT, &changed);
        assert_int_equal(verdict, record.probing ? RECORD_ASK : RECORD_PROCEED);
        assert_false(changed);
        assert_int_equal(record.token, TOKEN);
    }
}

static void a_new_life_remembers_nothing_of_the_old_one(void **unused)
{
    (void)unused;
    struct record record = make(GONE_RELEASED, RECORD_UNKNOWN_PROBE);
    record.quiet_at = NOW + TTL;
    struct record_begin begin = a_begin(RECORD_UNKNOWN_HOLD);
    begin.payload_hash = hash_of(5);
    begin.tombstone_us = 9;
    struct record_world world = world_now(NOW);
    bool changed = false;
    assert_int_equal(record_begin(&record, &begin, &world, NEXT, &changed), RECORD_PROCEED);
    assert_int_equal(record.attempts, 1);
    assert_int_equal(record.created_at, NOW);
    assert_int_equal(record.quiet_at, 0);
    assert_int_equal(record.expires_at, 0);
    assert_int_equal(record.lease_until, NOW + LEASE);
    assert_int_equal(record.tombstone_us, 9);
    assert_true(digest_eq(&record.payload_hash, &begin.payload_hash));
}

/* ---- writes ---- */

enum write { FINISH, RELEASE, DOUBT, EXTEND, SETTLED, RESOLVE, FORGET, WRITES };

static enum record_write do_write(enum write write, struct record *record, int64_t token,
                                  bool force, const struct record_world *world)
{
    switch (write) {
    case FINISH:
        return record_finish(record, token, RECORD_COMPLETE, 200, true, world->now);
    case RELEASE:
        return record_release(record, token, world->now);
    case DOUBT:
        return record_doubt(record, token, world->now);
    case EXTEND:
        return record_extend(record, token, world->now);
    case SETTLED:
        return record_release_settled(record, token, force, world);
    case RESOLVE:
        return record_resolve(record, token, 200, force, world);
    case FORGET:
        return record_forget(record, token, force, world);
    default:
        fail();
        return RECORD_STALE;
    }
}

/* W written, A already, S stale, L live; columns in the order of enum state. */
static const char writes[WRITES][STATES + 1] = {
    [FINISH] = "SWWWWWAAAASSWW",
    [RELEASE] = "SAWWWWAAAASSWW",
    [DOUBT] = "SAWWWAAAAASSWW",
    [EXTEND] = "SAWWWAAAAASSWW",
    [SETTLED] = "SALLWWAAAASSWW",
    [RESOLVE] = "SWLLWWAAAASSLW",
    [FORGET] = "SWLLWWWWWWSSLW",
};

static void every_write_in_every_state_answers_as_written(void **unused)
{
    (void)unused;
    struct record_world world = world_now(NOW);
    for (int write = 0; write < WRITES; write++) {
        for (int state = 0; state < STATES; state++) {
            struct record record = make((enum state)state, RECORD_UNKNOWN_HOLD);
            struct record before = record;
            char got = "WSAEL"[do_write((enum write)write, &record, TOKEN, false, &world)];
            if (got != writes[write][state])
                fail_msg("write %d on %s: %c", write, state_names[state], got);
            record_check(&record);
            if (got != 'W')
                assert_true(same_bytes(&record, &before));
            assert_int_equal(record.token, before.token);
        }
    }
}

static void a_stale_token_changes_nothing_by_any_write_in_any_state(void **unused)
{
    (void)unused;
    struct record_world world = world_now(NOW);
    for (int i = 0; i < WRITES * STATES * 4; i++) {
        enum write write = (enum write)(i % WRITES);
        enum state state = (enum state)(i / WRITES % STATES);
        int64_t token = i / (WRITES * STATES) % 2 ? TOKEN - 1 : TOKEN + 1;
        struct record record = make(state, RECORD_UNKNOWN_PROBE);
        struct record before = record;
        bool force = i / (WRITES * STATES * 2);
        assert_int_equal(do_write(write, &record, token, force, &world), RECORD_STALE);
        assert_true(same_bytes(&record, &before));
    }
}

static void force_lets_an_operator_act_on_a_live_lease(void **unused)
{
    (void)unused;
    struct record_world world = world_now(NOW);
    const enum write acts[] = {SETTLED, RESOLVE, FORGET};
    for (size_t i = 0; i < 3; i++) {
        struct record record = make(LIVE, RECORD_UNKNOWN_HOLD);
        record.quiet_at = NOW + TTL;
        assert_int_equal(do_write(acts[i], &record, TOKEN, true, &world), RECORD_WRITTEN);
        record_check(&record);
    }
}

static void forget_without_a_token_takes_any_record_that_lives(void **unused)
{
    (void)unused;
    struct record_world world = world_now(NOW);
    struct record record = make(COMPLETE, RECORD_UNKNOWN_HOLD);
    assert_int_equal(record_forget(&record, 0, false, &world), RECORD_WRITTEN);
    record = make(GONE_FINAL, RECORD_UNKNOWN_HOLD);
    assert_int_equal(record_forget(&record, 0, true, &world), RECORD_STALE);
}

static void a_write_repeated_reports_what_is_stored(void **unused)
{
    (void)unused;
    struct record_world world = world_now(NOW);
    const enum write acts[] = {FINISH, RELEASE, DOUBT, RESOLVE};
    for (size_t i = 0; i < 4; i++) {
        struct record record = make(LAPSED, RECORD_UNKNOWN_HOLD);
        assert_int_equal(do_write(acts[i], &record, TOKEN, false, &world), RECORD_WRITTEN);
        struct record before = record;
        assert_int_equal(do_write(acts[i], &record, TOKEN, false, &world), RECORD_ALREADY);
        assert_true(same_bytes(&record, &before));
    }
}

static void doubt_is_unknown_under_hold_and_probe_and_released_under_retry(void **unused)
{
    (void)unused;
    struct record record = make(LIVE, RECORD_UNKNOWN_RETRY);
    assert_int_equal(record_doubt(&record, TOKEN, NOW), RECORD_WRITTEN);
    assert_int_equal(record.status, RECORD_PENDING);
    assert_int_equal(record.lease_until, 0);
    assert_int_equal(record.expires_at, NOW + TTL);
    record = make(LIVE, RECORD_UNKNOWN_PROBE);
    assert_int_equal(record_doubt(&record, TOKEN, NOW), RECORD_WRITTEN);
    assert_int_equal(record.status, RECORD_UNKNOWN);
}

static void an_operators_status_says_whether_it_failed(void **unused)
{
    (void)unused;
    struct record_world world = world_now(NOW);
    const int statuses[] = {200, 303, 400, 499, 500};
    for (size_t i = 0; i < 5; i++) {
        struct record record = make(UNKNOWN, RECORD_UNKNOWN_HOLD);
        assert_int_equal(record_resolve(&record, TOKEN, statuses[i], false, &world),
                         RECORD_WRITTEN);
        bool failed = statuses[i] == 400 || statuses[i] == 499;
        assert_int_equal(record.status, failed ? RECORD_FAILED : RECORD_COMPLETE);
    }
}

static void extend_never_shortens_a_lease_and_renews_a_lapsed_one(void **unused)
{
    (void)unused;
    struct record record = make(LIVE, RECORD_UNKNOWN_HOLD);
    record.lease_until = NOW + 2 * LEASE;
    assert_int_equal(record_extend(&record, TOKEN, NOW), RECORD_WRITTEN);
    assert_int_equal(record.lease_until, NOW + 2 * LEASE);
    record = make(LAPSED, RECORD_UNKNOWN_HOLD);
    assert_int_equal(record_extend(&record, TOKEN, NOW), RECORD_WRITTEN);
    assert_int_equal(record.lease_until, NOW + LEASE);
}

/* ---- expiry ---- */

static struct record finished(int64_t ttl, int64_t tombstone, bool window, int64_t at)
{
    struct record record = make(OWN, RECORD_UNKNOWN_HOLD);
    record.ttl_us = ttl;
    record.tombstone_us = tombstone;
    record.window = window;
    assert_int_equal(record_finish(&record, TOKEN, RECORD_COMPLETE, 200, true, at),
                     RECORD_WRITTEN);
    return record;
}

static void ttl_counts_from_completion_and_a_window_from_the_first_begin(void **unused)
{
    (void)unused;
    struct record record = finished(TTL, 0, false, NOW);
    assert_int_equal(record.expires_at, NOW + TTL);
    record = finished(TTL, 0, true, NOW);
    assert_int_equal(record.expires_at, record.created_at + TTL);
}

static void a_record_is_gone_from_the_moment_it_expired(void **unused)
{
    (void)unused;
    struct record record = finished(TTL, 0, false, NOW);
    assert_false(record_is_gone(&record, NOW + TTL - 1));
    assert_true(record_is_gone(&record, NOW + TTL));
}

static void a_tombstone_answers_between_expiry_and_its_end(void **unused)
{
    (void)unused;
    struct record record = finished(TTL, 50, false, NOW);
    struct record_begin begin = a_begin(RECORD_UNKNOWN_HOLD);
    bool changed = false;
    struct record_world world = world_now(NOW + TTL - 1);
    assert_int_equal(record_begin(&record, &begin, &world, NEXT, &changed), RECORD_REPLAY);
    world.now = NOW + TTL;
    assert_int_equal(record_begin(&record, &begin, &world, NEXT, &changed),
                     RECORD_RESULT_EXPIRED);
    world.now = NOW + TTL + 50;
    assert_int_equal(record_begin(&record, &begin, &world, NEXT, &changed), RECORD_PROCEED);
}

static void forever_never_expires_and_leased_or_unknown_records_neither(void **unused)
{
    (void)unused;
    struct record record = finished(CLOCK_NEVER, 50, false, NOW);
    assert_false(record_is_gone(&record, CLOCK_NEVER - 1));
    const enum state lasting[] = {LIVE, OWN, LAPSED, UNKNOWN, OWN_PROBE, LAPSED_PROBE};
    for (size_t i = 0; i < sizeof lasting / sizeof *lasting; i++) {
        record = make(lasting[i], RECORD_UNKNOWN_HOLD);
        assert_false(record_is_gone(&record, CLOCK_NEVER));
    }
}

static void a_released_record_expires_ttl_after_its_release(void **unused)
{
    (void)unused;
    struct record record = make(OWN, RECORD_UNKNOWN_HOLD);
    record_release(&record, TOKEN, NOW);
    assert_false(record_is_gone(&record, NOW + TTL - 1));
    assert_true(record_is_gone(&record, NOW + TTL));
    assert_int_equal(record_finish(&record, TOKEN, RECORD_COMPLETE, 200, true, NOW + TTL),
                     RECORD_STALE);
}

/* ---- quiet_at ---- */

static struct record in_doubt(int64_t at)
{
    struct record record = make(OWN, RECORD_UNKNOWN_PROBE);
    record.settle_us = SETTLE;
    assert_int_equal(record_doubt(&record, TOKEN, at), RECORD_WRITTEN);
    return record;
}

static enum record_verdict ask_at(struct record *record, int64_t now)
{
    struct record_begin begin = a_begin(RECORD_UNKNOWN_PROBE);
    struct record_world world = world_now(now);
    bool changed = false;
    return record_begin(record, &begin, &world, record->token + 1, &changed);
}

static enum record_write settle_at(struct record *record, int64_t now)
{
    struct record_world world = world_now(now);
    return record_release_settled(record, record->token, false, &world);
}

static void doubt_is_believed_not_to_have_happened_only_after_settle(void **unused)
{
    (void)unused;
    struct record record = in_doubt(NOW);
    assert_int_equal(record.quiet_at, NOW + SETTLE);
    assert_int_equal(settle_at(&record, NOW + SETTLE - 1), RECORD_EARLY);
    assert_int_equal(record.status, RECORD_UNKNOWN);
    assert_int_equal(settle_at(&record, NOW + SETTLE), RECORD_WRITTEN);
    assert_int_equal(record.lease_until, 0);
    assert_int_equal(record.status, RECORD_PENDING);
}

static void a_lapse_counts_from_the_end_of_the_lease(void **unused)
{
    (void)unused;
    struct record record = make(LAPSED, RECORD_UNKNOWN_PROBE);
    record.settle_us = SETTLE;
    assert_int_equal(settle_at(&record, NOW + SECOND), RECORD_EARLY);
    assert_int_equal(record.quiet_at, NOW + SETTLE);
    assert_int_equal(settle_at(&record, NOW + SETTLE), RECORD_WRITTEN);
}

static void a_probe_neither_moves_nor_forgets_quiet_at(void **unused)
{
    (void)unused;
    struct record record = in_doubt(NOW);
    assert_int_equal(ask_at(&record, NOW + SECOND), RECORD_ASK);
    assert_int_equal(record.quiet_at, NOW + SETTLE);
    assert_int_equal(record_doubt(&record, record.token, NOW + 5 * SECOND), RECORD_WRITTEN);
    assert_int_equal(record.status, RECORD_UNKNOWN);
    assert_int_equal(record.quiet_at, NOW + SETTLE);
    record.settle_us = SETTLE * 2;
    assert_int_equal(ask_at(&record, NOW + 6 * SECOND), RECORD_ASK);
    record.owner = OTHER;
    assert_int_equal(ask_at(&record, NOW + 6 * SECOND + LEASE), RECORD_ASK);
    assert_int_equal(record.quiet_at, NOW + SETTLE);
}

static void a_probe_that_looked_too_early_is_not_believed_later(void **unused)
{
    (void)unused;
    struct record record = in_doubt(NOW);
    assert_int_equal(ask_at(&record, NOW + SETTLE - 1), RECORD_ASK);
    assert_int_equal(settle_at(&record, NOW + SETTLE + SECOND), RECORD_EARLY);
    assert_int_equal(record_doubt(&record, record.token, NOW + SETTLE + SECOND), RECORD_WRITTEN);
    assert_int_equal(ask_at(&record, NOW + SETTLE + SECOND), RECORD_ASK);
    assert_int_equal(settle_at(&record, NOW + SETTLE + SECOND), RECORD_WRITTEN);
}

static void a_prober_cannot_say_that_the_operation_was_surely_not_done(void **unused)
{
    (void)unused;
    struct record record = in_doubt(NOW);
    assert_int_equal(ask_at(&record, NOW + SETTLE), RECORD_ASK);
    assert_int_equal(record_release(&record, record.token, NOW + SETTLE), RECORD_WRITTEN);
    assert_int_equal(record.status, RECORD_UNKNOWN);
}

static void quiet_at_is_never_shortened(void **unused)
{
    (void)unused;
    struct record record = make(OWN, RECORD_UNKNOWN_PROBE);
    record.quiet_at = NOW + TTL;
    record.settle_us = SETTLE;
    record_doubt(&record, TOKEN, NOW);
    assert_int_equal(record.quiet_at, NOW + TTL);
    record.settle_us = SETTLE;
    struct record_begin begin = a_begin(RECORD_UNKNOWN_PROBE);
    begin.settle_us = 1;
    struct record_world world = world_now(NOW);
    bool changed = false;
    assert_int_equal(record_begin(&record, &begin, &world, NEXT, &changed), RECORD_ASK);
    assert_int_equal(record.settle_us, SETTLE);
    assert_int_equal(record.quiet_at, NOW + TTL);
}

static void quiet_at_outlives_a_release_and_a_new_owner(void **unused)
{
    (void)unused;
    struct record record = in_doubt(NOW);
    assert_int_equal(settle_at(&record, NOW + SETTLE), RECORD_WRITTEN);
    assert_int_equal(ask_at(&record, NOW + SETTLE), RECORD_PROCEED);
    assert_int_equal(record.quiet_at, NOW + SETTLE);
    assert_int_equal(record_doubt(&record, record.token, NOW + 2 * SETTLE), RECORD_WRITTEN);
    assert_int_equal(record.quiet_at, NOW + 3 * SETTLE);
}

static void what_began_under_retry_is_in_question_once_it_was_probed(void **unused)
{
    (void)unused;
    struct record record = make(LAPSED, RECORD_UNKNOWN_RETRY);
    assert_int_equal(ask_at(&record, NOW), RECORD_ASK);
    assert_int_equal(record.unknown, RECORD_UNKNOWN_PROBE);
}

/* ---- leases ---- */

static void the_clock_never_lapses_an_owner_in_this_process(void **unused)
{
    (void)unused;
    struct record record = make(OWN, RECORD_UNKNOWN_HOLD);
    struct record_world world = world_now(NOW + 1000 * TTL);
    assert_int_equal(record_lease(&record, &world, NULL), RECORD_LEASE_LIVE);
}

static enum record_lease serve_lease(int64_t owner, int64_t serve, bool alive, int64_t dead_at,
                                     int64_t *ret_lapsed_at)
{
    struct record record = make(LIVE, RECORD_UNKNOWN_HOLD);
    record.lease_until = NOW + LEASE;
    record.owner = owner;
    record.owner_is_serve = true;
    struct record_world world = {.now = NOW,
                                 .self = SELF,
                                 .serve = serve,
                                 .serve_alive = alive,
                                 .serve_dead_at = dead_at};
    return record_lease(&record, &world, ret_lapsed_at);
}

static void a_dead_serve_lapses_at_once_and_a_living_one_by_the_clock(void **unused)
{
    (void)unused;
    int64_t at = 0;
    assert_int_equal(serve_lease(OTHER, OTHER, true, 0, &at), RECORD_LEASE_LIVE);
    assert_int_equal(serve_lease(OTHER, OTHER, false, NOW, &at), RECORD_LEASE_LAPSED);
    assert_int_equal(at, NOW);
    assert_int_equal(serve_lease(OTHER, SELF, true, NOW - 5, &at), RECORD_LEASE_LAPSED);
    assert_int_equal(at, NOW - 5);
    assert_int_equal(serve_lease(OTHER, SELF, true, NOW + 2 * LEASE, &at), RECORD_LEASE_LAPSED);
    assert_int_equal(at, NOW + LEASE);
}

static void a_lease_lapses_at_its_very_end(void **unused)
{
    (void)unused;
    struct record record = make(LIVE, RECORD_UNKNOWN_HOLD);
    struct record_world world = world_now(record.lease_until - 1);
    assert_int_equal(record_lease(&record, &world, NULL), RECORD_LEASE_LIVE);
    world.now++;
    int64_t at = 0;
    assert_int_equal(record_lease(&record, &world, &at), RECORD_LEASE_LAPSED);
    assert_int_equal(at, record.lease_until);
}

/* ---- tokens and time ---- */

static void tokens_grow_with_time_and_without_it(void **unused)
{
    (void)unused;
    assert_int_equal(record_next_token(0, NOW), NOW);
    assert_int_equal(record_next_token(NOW, NOW), NOW + 1);
    assert_int_equal(record_next_token(NOW + 10, NOW), NOW + 11);
}

static void store_time_never_goes_back_and_never_freezes(void **unused)
{
    (void)unused;
    assert_int_equal(record_store_time(NOW, NOW - 5, 0), NOW);
    assert_int_equal(record_store_time(NOW - TTL, NOW, 0), NOW);
    assert_int_equal(record_store_time(NOW - TTL, NOW, 7), NOW + 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cell_of_the_decision_table_decides_as_written),
        cmocka_unit_test(the_same_attempt_gets_the_same_token_again),
        cmocka_unit_test(a_new_life_remembers_nothing_of_the_old_one),
        cmocka_unit_test(every_write_in_every_state_answers_as_written),
        cmocka_unit_test(a_stale_token_changes_nothing_by_any_write_in_any_state),
        cmocka_unit_test(force_lets_an_operator_act_on_a_live_lease),
        cmocka_unit_test(forget_without_a_token_takes_any_record_that_lives),
        cmocka_unit_test(a_write_repeated_reports_what_is_stored),
        cmocka_unit_test(doubt_is_unknown_under_hold_and_probe_and_released_under_retry),
        cmocka_unit_test(an_operators_status_says_whether_it_failed),
        cmocka_unit_test(extend_never_shortens_a_lease_and_renews_a_lapsed_one),
        cmocka_unit_test(ttl_counts_from_completion_and_a_window_from_the_first_begin),
        cmocka_unit_test(a_record_is_gone_from_the_moment_it_expired),
        cmocka_unit_test(a_tombstone_answers_between_expiry_and_its_end),
        cmocka_unit_test(forever_never_expires_and_leased_or_unknown_records_neither),
        cmocka_unit_test(a_released_record_expires_ttl_after_its_release),
        cmocka_unit_test(doubt_is_believed_not_to_have_happened_only_after_settle),
        cmocka_unit_test(a_lapse_counts_from_the_end_of_the_lease),
        cmocka_unit_test(a_probe_neither_moves_nor_forgets_quiet_at),
        cmocka_unit_test(a_probe_that_looked_too_early_is_not_believed_later),
        cmocka_unit_test(a_prober_cannot_say_that_the_operation_was_surely_not_done),
        cmocka_unit_test(quiet_at_is_never_shortened),
        cmocka_unit_test(quiet_at_outlives_a_release_and_a_new_owner),
        cmocka_unit_test(what_began_under_retry_is_in_question_once_it_was_probed),
        cmocka_unit_test(the_clock_never_lapses_an_owner_in_this_process),
        cmocka_unit_test(a_dead_serve_lapses_at_once_and_a_living_one_by_the_clock),
        cmocka_unit_test(a_lease_lapses_at_its_very_end),
        cmocka_unit_test(tokens_grow_with_time_and_without_it),
        cmocka_unit_test(store_time_never_goes_back_and_never_freezes),
    };
    return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
