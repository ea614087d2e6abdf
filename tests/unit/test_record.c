/* SPDX-License-Identifier: Apache-2.0 */
/* The decision table and the writes of contract section 2, state by state. */
#include "record_states.h"

/* ---- the decision table ---- */

enum hashes { SAME, OTHER_PAYLOAD, OTHER_TARGET, RECIPE };

struct decision {
    enum record_verdict verdict;
    bool changed;
};

/* What depends on neither policy. */
static const struct decision fixed[STATES] = {
    [ABSENT] = {RECORD_PROCEED, true},
    [RELEASED] = {RECORD_PROCEED, true},
    [LIVE] = {RECORD_IN_PROGRESS, false},
    [OWN] = {RECORD_IN_PROGRESS, false},
    [COMPLETE] = {RECORD_REPLAY, false},
    [FAILED] = {RECORD_REPLAY, false},
    [NOT_KEPT] = {RECORD_RESULT_NOT_KEPT, false},
    [TOMBSTONE] = {RECORD_RESULT_EXPIRED, false},
    [GONE_FINAL] = {RECORD_PROCEED, true},
    [GONE_RELEASED] = {RECORD_PROCEED, true},
    [OWN_PROBE] = {RECORD_IN_PROGRESS, false},
    [PROVISIONAL] = {RECORD_IN_PROGRESS, false},
    [OWN_PROVISIONAL] = {RECORD_IN_PROGRESS, false},
    [LAPSED_PROVISIONAL] = {RECORD_REPLAY, true},
};

/* What lapsed or was released in doubt, by the record's own policy (row) and the rule's of today
 * (column). */
#define POLICIES 4
#define HELD RECORD_OUTCOME_UNKNOWN
static const enum record_verdict in_doubt[POLICIES][POLICIES] = {
    [RECORD_UNKNOWN_HOLD] = {HELD, HELD, RECORD_PROBE, HELD},
    [RECORD_UNKNOWN_RETRY] = {HELD, RECORD_PROCEED, RECORD_PROBE, RECORD_PROCEED},
    [RECORD_UNKNOWN_PROBE] = {HELD, HELD, RECORD_PROBE, HELD},
    [RECORD_UNKNOWN_PARTICIPANT] = {HELD, RECORD_PROCEED, RECORD_PROBE, RECORD_PROCEED},
};

static struct decision expected(enum state state, enum hashes hashes, enum record_unknown mine,
                                enum record_unknown today)
{
    bool lives = state != ABSENT && state != GONE_FINAL && state != GONE_RELEASED;
    if (lives && hashes == RECIPE)
        return (struct decision){RECORD_OTHER_RECIPE, false};
    if (lives && hashes != SAME)
        return (struct decision){RECORD_MISMATCH, false};
    if (state == LAPSED || state == LAPSED_PROBE || state == RELEASED_IN_DOUBT)
        return (struct decision){in_doubt[mine][today], true};
    if (state == UNKNOWN && today == RECORD_UNKNOWN_PROBE)
        return (struct decision){RECORD_PROBE, true};
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
        fail_msg("%s, hashes %d, policy %d, today %d: verdict %d", state_name((enum state)state),
                 (int)hashes, (int)mine, (int)today, (int)verdict);
    assert_true(record_is_sound(&record));
    bool acquired = verdict == RECORD_PROCEED || verdict == RECORD_PROBE;
    if (acquired)
        assert_int_equal(record.token, NEXT);
    else if (state != ABSENT)
        assert_int_equal(record.token, TOKEN);
    assert_int_equal(record.probing, verdict == RECORD_PROBE || (!changed && before.probing));
    if (!changed)
        assert_true(same_bytes(&record, &before));
}

static void every_cell_of_the_decision_table_decides_as_written(void **unused)
{
    (void)unused;
    for (int state = 0; state < STATES; state++)
        for (int hashes = SAME; hashes <= RECIPE; hashes++)
            for (int mine = 0; mine < POLICIES; mine++)
                for (int today = 0; today < POLICIES; today++)
                    if (state != UNKNOWN || !record_repeats((enum record_unknown)mine))
                        decide_one((enum state)state, (enum hashes)hashes,
                                   (enum record_unknown)mine, (enum record_unknown)today);
}

static void a_hash_that_one_side_did_not_bring_is_not_compared(void **unused)
{
    (void)unused;
    static const struct digest none;
    struct record_world world = world_now(NOW);
    for (int missing = 0; missing < 4; missing++) {
        struct record record = make(COMPLETE, RECORD_UNKNOWN_HOLD);
        struct record_begin begin = a_begin(RECORD_UNKNOWN_HOLD);
        begin.payload_hash = begin.target_hash = hash_of(9);
        *(missing & 1 ? &record.payload_hash : &begin.payload_hash) = none;
        *(missing & 2 ? &record.target_hash : &begin.target_hash) = none;
        bool changed = true;
        assert_int_equal(record_begin(&record, &begin, &world, NEXT, &changed), RECORD_REPLAY);
        assert_false(changed);
    }
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
        assert_int_equal(verdict, record.probing ? RECORD_PROBE : RECORD_PROCEED);
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

enum write { FINISH, COMPLETED, RELEASE, DOUBT, EXTEND, SETTLED, RESOLVE, FORGET, WRITES };

static enum record_write do_write(enum write write, struct record *record, int64_t token,
                                  bool force, const struct record_world *world)
{
    switch (write) {
    case FINISH:
        return record_finish(record, token, &(struct record_final){RECORD_COMPLETE, 200, true},
                             world->now);
    case COMPLETED:
        return record_complete(record, token, &(struct record_final){RECORD_COMPLETE, 200, true},
                               world->now);
    case RELEASE:
        return record_release(record, token, world->now);
    case DOUBT:
        return record_doubt(record, token, world->now);
    case EXTEND:
        return record_extend(record, token, world->now);
    case SETTLED:
        return record_release_settled(record, token, world->now, force, world);
    case RESOLVE:
        return record_resolve(record, token, &(struct record_final){RECORD_COMPLETE, 200, true},
                              force, world);
    case FORGET:
        return record_forget(record, token, force, world);
    default:
        fail();
        return RECORD_STALE;
    }
}

/* W written, A already, F the same, and what was provisional is frozen, S stale, L live; columns in
 * the order of enum state. The status of a finish is not the participant's. */
static const char writes[WRITES][STATES + 1] = {
    [FINISH] = "SWWWWWAAAAASWWWFFF",  [COMPLETED] = "SWWWWWAAAAASWWWAAA",
    [RELEASE] = "SAWWWWAAAASSWWAFFF", [DOUBT] = "SWWWWAAAAASSWWAFFF",
    [EXTEND] = "SAWWWAAAAASSWWAWWW",  [SETTLED] = "SALLWWAAAASSWWWAAA",
    [RESOLVE] = "SWLLWWAAAASSLWWAAA", [FORGET] = "SWLLWWWWWWSSLWWLLW",
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
            if (got == 'A' && before.provisional && !record.provisional)
                got = 'F';
            if (got != writes[write][state])
                fail_msg("write %d on %s: %c", write, state_name((enum state)state), got);
            assert_true(record_is_sound(&record));
            if (got != 'W' && got != 'F')
                assert_true(same_bytes(&record, &before));
            assert_int_equal(record.token, write == FORGET && got == 'W' ? 0 : before.token);
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
        assert_true(record_is_sound(&record));
    }
}

/* found: C-H5 */
static void forget_takes_what_is_open_by_its_token_and_once_quiet(void **unused)
{
    (void)unused;
    struct record_world world = world_now(NOW);
    const enum state open[] = {LAPSED, UNKNOWN, RELEASED_IN_DOUBT, LAPSED_PROBE};
    for (size_t i = 0; i < sizeof open / sizeof *open; i++) {
        struct record record = make(open[i], RECORD_UNKNOWN_HOLD), before = record;
        assert_int_equal(record_forget(&record, 0, false, &world), RECORD_STALE);
        assert_true(same_bytes(&record, &before));
        record.quiet_at = NOW + 1;
        record.expires_at = NOW + TTL;
        struct record forced = record;
        assert_int_equal(record_forget(&record, TOKEN, false, &world), RECORD_EARLY);
        assert_int_equal(record_forget(&forced, 0, true, &world), RECORD_WRITTEN);
        world.now = NOW + 1;
        assert_int_equal(record_forget(&record, TOKEN, false, &world), RECORD_WRITTEN);
        world.now = NOW;
    }
}

static void forget_without_a_token_takes_any_record_that_is_final(void **unused)
{
    (void)unused;
    struct record_world world = world_now(NOW);
    struct record record = make(COMPLETE, RECORD_UNKNOWN_HOLD);
    assert_int_equal(record_forget(&record, 0, false, &world), RECORD_WRITTEN);
    record = make(GONE_FINAL, RECORD_UNKNOWN_HOLD);
    assert_int_equal(record_forget(&record, 0, true, &world), RECORD_STALE);
}

/* found: D-B1 */
static void a_begin_of_an_exchange_that_has_sent_acquires_nothing(void **unused)
{
    (void)unused;
    struct record_world world = world_now(NOW);
    for (int i = 0; i < STATES * POLICIES * POLICIES; i++) {
        enum state state = (enum state)(i / (POLICIES * POLICIES));
        enum record_unknown mine = (enum record_unknown)(i / POLICIES % POLICIES);
        if (state == UNKNOWN && record_repeats(mine))
            continue;
        struct record record = make(state, mine), met = record;
        struct record_begin begin = a_begin((enum record_unknown)(i % POLICIES));
        struct decision want = expected(state, SAME, mine, begin.unknown);
        begin.spent = true;
        bool changed = false;
        enum record_verdict verdict = record_begin(&record, &begin, &world, NEXT, &changed);
        if (want.verdict != RECORD_PROCEED && want.verdict != RECORD_PROBE) {
            assert_int_equal(verdict, want.verdict);
            continue;
        }
        assert_int_equal(verdict, RECORD_OUTCOME_UNKNOWN);
        assert_false(changed);
        assert_true(same_bytes(&record, &met));
    }
}

/* found: D-B11 */
static void a_waiter_that_wakes_up_to_an_unknown_record_does_not_probe(void **unused)
{
    (void)unused;
    struct record_world world = world_now(NOW);
    struct record_begin begin = a_begin(RECORD_UNKNOWN_PROBE);
    begin.waited = true;
    bool changed = true;
    struct record record = make(UNKNOWN, RECORD_UNKNOWN_PROBE), met = record;
    assert_int_equal(record_begin(&record, &begin, &world, NEXT, &changed), RECORD_OUTCOME_UNKNOWN);
    assert_false(changed);
    assert_true(same_bytes(&record, &met));
    /* Its lease lapsed: nobody else is at it, and the oldest waiter is the first to ask. */
    record = make(LAPSED, RECORD_UNKNOWN_PROBE);
    assert_int_equal(record_begin(&record, &begin, &world, NEXT, &changed), RECORD_PROBE);
}

/* found: D-B11 */
static void an_owner_doubts_and_asks_in_one_step_once(void **unused)
{
    (void)unused;
    struct record_world world = world_now(NOW);
    struct record_begin begin = a_begin(RECORD_UNKNOWN_PROBE);
    struct record record = make(OWN, RECORD_UNKNOWN_PROBE);
    record.settle_us = SETTLE;
    assert_int_equal(record_doubt_and_probe(&record, TOKEN, &begin, &world, NEXT), RECORD_WRITTEN);
    assert_true(record_is_probing(&record, &begin));
    assert_true(record.probing && record.doubt && record.token == NEXT);
    assert_int_equal(record.quiet_at, NOW + SETTLE);
    struct record before = record;
    assert_int_equal(record_doubt_and_probe(&record, TOKEN, &begin, &world, NEXT + 1),
                     RECORD_ALREADY);
    assert_true(same_bytes(&record, &before));
    memset(begin.attempt_id, 0x33, sizeof begin.attempt_id);
    assert_int_equal(record_doubt_and_probe(&record, TOKEN, &begin, &world, NEXT + 1),
                     RECORD_STALE);
    record = make(OWN, RECORD_UNKNOWN_RETRY);
    assert_int_equal(record_doubt_and_probe(&record, TOKEN, &begin, &world, NEXT), RECORD_WRITTEN);
    assert_false(record_is_probing(&record, &begin));
}

/* found: E-F1 */
static void a_redirect_ends_a_record_that_is_not_in_doubt_and_releases_one_that_is(void **unused)
{
    (void)unused;
    const struct {
        enum state state;
        enum record_status after;
    } cases[] = {{LIVE, RECORD_ABSENT},
                 {RELEASED, RECORD_ABSENT},
                 {LAPSED, RECORD_ABSENT},
                 {UNKNOWN, RECORD_PENDING}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct record record = make(cases[i].state, RECORD_UNKNOWN_HOLD);
        assert_int_equal(record_drop(&record, TOKEN, NOW), RECORD_WRITTEN);
        assert_int_equal(record.status, cases[i].after);
    }
    struct record record = make(LIVE, RECORD_UNKNOWN_HOLD);
    record.doubt = true;
    assert_int_equal(record_drop(&record, TOKEN, NOW), RECORD_WRITTEN);
    assert_true(record_is_released(&record) && record.doubt);
    assert_int_equal(record_drop(&record, TOKEN - 1, NOW), RECORD_STALE);
    record = make(COMPLETE, RECORD_UNKNOWN_HOLD);
    assert_int_equal(record_drop(&record, TOKEN, NOW), RECORD_ALREADY);
}

/* found: D-P1 */
static void an_outcome_repeated_is_already_stored_though_it_has_expired(void **unused)
{
    (void)unused;
    struct record_final final = {RECORD_COMPLETE, 201, true};
    struct record record = make(GONE_FINAL, RECORD_UNKNOWN_HOLD), before = record;
    assert_int_equal(record_finish(&record, TOKEN, &final, NOW), RECORD_ALREADY);
    assert_int_equal(record_finish(&record, TOKEN + 1, &final, NOW), RECORD_STALE);
    assert_true(same_bytes(&record, &before));
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

/* What may have happened: kept over every later try, until somebody knows. */
static void a_doubt_lasts_until_an_outcome_a_settled_look_or_a_person_clears_it(void **unused)
{
    (void)unused;
    struct record_world world = world_now(NOW);
    struct record_begin begin = a_begin(RECORD_UNKNOWN_RETRY);
    bool changed = false;
    struct record record = make(LIVE, RECORD_UNKNOWN_RETRY);
    assert_false(record.doubt);
    assert_int_equal(record_doubt(&record, TOKEN, NOW), RECORD_WRITTEN);
    assert_true(record.doubt);
    assert_int_equal(record_begin(&record, &begin, &world, NEXT, &changed), RECORD_PROCEED);
    assert_int_equal(record_release(&record, NEXT, NOW), RECORD_WRITTEN);
    assert_true(record.doubt);
    struct record looked = record;
    assert_int_equal(record_release_settled(&looked, NEXT, looked.quiet_at, false, &world),
                     RECORD_WRITTEN);
    assert_false(looked.doubt);
    assert_int_equal(record_release_settled(&looked, NEXT, NOW, false, &world), RECORD_ALREADY);
    struct record done = record;
    struct record_final final = {RECORD_COMPLETE, 201, true};
    assert_int_equal(record_finish(&done, NEXT, &final, NOW), RECORD_WRITTEN);
    assert_false(done.doubt);
    assert_int_equal(record_resolve(&record, NEXT, &final, false, &world), RECORD_WRITTEN);
    assert_false(record.doubt);
}

static void a_lapse_that_a_begin_meets_leaves_a_doubt(void **unused)
{
    (void)unused;
    struct record_world world = world_now(NOW);
    for (int policy = 0; policy < POLICIES; policy++) {
        struct record record = make(LAPSED, (enum record_unknown)policy);
        struct record_begin begin = a_begin((enum record_unknown)policy);
        bool changed = false;
        assert_false(record.doubt);
        assert_true(record_in_doubt(&record, RECORD_LEASE_LAPSED));
        record_begin(&record, &begin, &world, NEXT, &changed);
        assert_true(record_in_doubt(&record, RECORD_LEASE_NONE));
    }
}

static void what_was_released_in_doubt_is_in_question_once_its_rule_is_stricter(void **unused)
{
    (void)unused;
    struct record_world world = world_now(NOW + SECOND);
    const enum record_unknown stricter[] = {RECORD_UNKNOWN_HOLD, RECORD_UNKNOWN_PROBE};
    for (size_t i = 0; i < 2; i++) {
        struct record record = make(LIVE, RECORD_UNKNOWN_RETRY);
        record.settle_us = SETTLE;
        struct record_begin begin = a_begin(stricter[i]);
        begin.settle_us = 2 * SETTLE;
        bool changed = false;
        assert_int_equal(record_doubt(&record, TOKEN, NOW), RECORD_WRITTEN);
        record_note_cause(&record, RECORD_CAUSE_TIMEOUT);
        enum record_verdict verdict = record_begin(&record, &begin, &world, NEXT, &changed);
        assert_int_equal(verdict, i == 0 ? RECORD_OUTCOME_UNKNOWN : RECORD_PROBE);
        assert_true(changed && record.doubt);
        assert_int_equal(record.quiet_at, NOW + 2 * SETTLE);
        assert_int_equal(record.unknown, stricter[i]);
        assert_int_equal(record.cause, RECORD_CAUSE_TIMEOUT);
        assert_int_equal(record.expires_at, 0);
        /* Not under a laxer one either, once it is back. */
        struct record_begin again = a_begin(RECORD_UNKNOWN_RETRY);
        if (verdict == RECORD_OUTCOME_UNKNOWN)
            assert_int_equal(record_begin(&record, &again, &world, NEXT, &changed),
                             RECORD_OUTCOME_UNKNOWN);
    }
}

/* When its request may last have been on its way is not noted. */
static void a_participants_doubt_settles_from_the_begin_that_puts_it_in_question(void **unused)
{
    (void)unused;
    struct record_world world = world_now(NOW + SECOND);
    struct record record = make(LIVE, RECORD_UNKNOWN_PARTICIPANT);
    struct record_begin begin = a_begin(RECORD_UNKNOWN_PROBE);
    begin.settle_us = SETTLE;
    bool changed = false;
    assert_int_equal(record_doubt(&record, TOKEN, NOW), RECORD_WRITTEN);
    assert_int_equal(record.quiet_at, 0);
    assert_int_equal(record_begin(&record, &begin, &world, NEXT, &changed), RECORD_PROBE);
    assert_int_equal(record.quiet_at, NOW + SECOND + SETTLE);
}

static void what_a_person_or_a_settled_look_cleared_proceeds_under_any_policy(void **unused)
{
    (void)unused;
    struct record_world world = world_now(NOW);
    for (int policy = 0; policy < POLICIES; policy++) {
        struct record record = make(RELEASED_IN_DOUBT, RECORD_UNKNOWN_RETRY);
        struct record_begin begin = a_begin((enum record_unknown)policy);
        bool changed = false;
        assert_int_equal(record_release_settled(&record, TOKEN, NOW, false, &world),
                         RECORD_WRITTEN);
        assert_int_equal(record_begin(&record, &begin, &world, NEXT, &changed), RECORD_PROCEED);
    }
}

/* Its lease lapsed, and a begin that met it under `hold` has made it unknown: of its own try its
 * owner knows, and nobody has acquired since. */
static void a_late_release_clears_what_was_in_question_only_since_its_lease_lapsed(void **unused)
{
    (void)unused;
    struct record_world world = world_now(NOW);
    for (int earlier = 0; earlier < 2; earlier++) {
        struct record record = make(LAPSED, RECORD_UNKNOWN_HOLD);
        struct record_begin begin = a_begin(RECORD_UNKNOWN_HOLD);
        bool changed = false;
        record.doubt = earlier;
        assert_int_equal(record_begin(&record, &begin, &world, NEXT, &changed),
                         RECORD_OUTCOME_UNKNOWN);
        assert_int_equal(record_release(&record, TOKEN, NOW), RECORD_WRITTEN);
        assert_int_equal(record_begin(&record, &begin, &world, NEXT, &changed),
                         earlier ? RECORD_OUTCOME_UNKNOWN : RECORD_PROCEED);
    }
}

static void an_owner_that_doubts_late_leaves_a_doubt(void **unused)
{
    (void)unused;
    struct record_world world = world_now(NOW);
    struct record record = make(LAPSED, RECORD_UNKNOWN_HOLD);
    struct record_begin begin = a_begin(RECORD_UNKNOWN_HOLD);
    bool changed = false;
    record.settle_us = SETTLE;
    record_begin(&record, &begin, &world, NEXT, &changed);
    assert_int_equal(record_doubt(&record, TOKEN, NOW + SECOND), RECORD_WRITTEN);
    assert_true(record.doubt);
    assert_int_equal(record.quiet_at, NOW + SECOND + SETTLE);
    assert_int_equal(record_doubt(&record, TOKEN, NOW + TTL), RECORD_ALREADY);
}

static void a_status_says_whether_it_failed(void **unused)
{
    (void)unused;
    const int statuses[] = {200, 303, 400, 499, 500};
    for (size_t i = 0; i < 5; i++) {
        bool failed = statuses[i] == 400 || statuses[i] == 499;
        assert_int_equal(record_status_of(statuses[i]), failed ? RECORD_FAILED : RECORD_COMPLETE);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cell_of_the_decision_table_decides_as_written),
        cmocka_unit_test(a_hash_that_one_side_did_not_bring_is_not_compared),
        cmocka_unit_test(the_same_attempt_gets_the_same_token_again),
        cmocka_unit_test(a_new_life_remembers_nothing_of_the_old_one),
        cmocka_unit_test(every_write_in_every_state_answers_as_written),
        cmocka_unit_test(a_stale_token_changes_nothing_by_any_write_in_any_state),
        cmocka_unit_test(force_lets_an_operator_act_on_a_live_lease),
        cmocka_unit_test(forget_takes_what_is_open_by_its_token_and_once_quiet),
        cmocka_unit_test(forget_without_a_token_takes_any_record_that_is_final),
        cmocka_unit_test(a_begin_of_an_exchange_that_has_sent_acquires_nothing),
        cmocka_unit_test(a_waiter_that_wakes_up_to_an_unknown_record_does_not_probe),
        cmocka_unit_test(an_owner_doubts_and_asks_in_one_step_once),
        cmocka_unit_test(a_redirect_ends_a_record_that_is_not_in_doubt_and_releases_one_that_is),
        cmocka_unit_test(an_outcome_repeated_is_already_stored_though_it_has_expired),
        cmocka_unit_test(a_write_repeated_reports_what_is_stored),
        cmocka_unit_test(doubt_is_unknown_under_hold_and_probe_and_released_under_retry),
        cmocka_unit_test(a_doubt_lasts_until_an_outcome_a_settled_look_or_a_person_clears_it),
        cmocka_unit_test(a_lapse_that_a_begin_meets_leaves_a_doubt),
        cmocka_unit_test(what_was_released_in_doubt_is_in_question_once_its_rule_is_stricter),
        cmocka_unit_test(a_participants_doubt_settles_from_the_begin_that_puts_it_in_question),
        cmocka_unit_test(what_a_person_or_a_settled_look_cleared_proceeds_under_any_policy),
        cmocka_unit_test(a_late_release_clears_what_was_in_question_only_since_its_lease_lapsed),
        cmocka_unit_test(an_owner_that_doubts_late_leaves_a_doubt),
        cmocka_unit_test(a_status_says_whether_it_failed),
        cmocka_unit_test(extend_never_shortens_a_lease_and_renews_a_lapsed_one),
    };
    return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
