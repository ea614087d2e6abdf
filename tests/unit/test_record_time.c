/* SPDX-License-Identifier: Apache-2.0 */
/* Expiry, the settle time, leases, tokens and store time of one record. */
#include "record_states.h"

#include "core/retry/probe_due.h"

#include "store/backend.h"

/* ---- expiry ---- */

static struct record finished(int64_t ttl, int64_t tombstone, bool window, int64_t at)
{
    struct record record = make(OWN, RECORD_UNKNOWN_HOLD);
    record.ttl_us = ttl;
    record.tombstone_us = tombstone;
    record.window = window;
    assert_int_equal(
        record_finish(&record, TOKEN, &(struct record_final){RECORD_COMPLETE, 200, true}, at),
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

/* found: D-B2 */
static void no_record_is_born_expired(void **unused)
{
    (void)unused;
    struct record_final final = {RECORD_COMPLETE, 201, true};
    for (int window = 0; window < 2; window++) {
        struct record record = make(OWN, RECORD_UNKNOWN_HOLD);
        record.window = window;
        record.ttl_us = SECOND;
        record.least_us = 10 * SECOND;
        record.tombstone_us = 5;
        struct record released = record, settled = record;
        assert_int_equal(record_finish(&record, TOKEN, &final, NOW), RECORD_WRITTEN);
        assert_int_equal(record.expires_at, NOW + 10 * SECOND);
        assert_int_equal(record.gone_at, NOW + 10 * SECOND + 5);
        assert_int_equal(record_release(&released, TOKEN, NOW), RECORD_WRITTEN);
        assert_int_equal(released.expires_at, NOW + 10 * SECOND);
        settled.quiet_at = NOW + 20 * SECOND; /* Retry-After said so */
        assert_int_equal(record_finish(&settled, TOKEN, &final, NOW), RECORD_WRITTEN);
        assert_int_equal(settled.expires_at, NOW + 20 * SECOND);
    }
}

/* found: D-B2 */
static void released_in_doubt_a_record_keeps_its_window_for_its_ttl(void **unused)
{
    (void)unused;
    struct record_world world = world_now(NOW + TTL);
    struct record_begin begin = a_begin(RECORD_UNKNOWN_RETRY);
    begin.window = true;
    begin.ttl_us = SECOND;
    begin.doubted_us = 2 * TTL;
    begin.least_us = 5 * SECOND;
    struct record record = make(ABSENT, RECORD_UNKNOWN_RETRY);
    bool changed = false;
    struct record_world first = world_now(NOW);
    assert_int_equal(record_begin(&record, &begin, &first, NEXT, &changed), RECORD_PROCEED);
    assert_int_equal(record_doubt(&record, NEXT, NOW), RECORD_WRITTEN);
    assert_int_equal(record.expires_at, NOW + 2 * TTL);
    assert_int_equal(record_begin(&record, &begin, &world, NEXT + 1, &changed), RECORD_PROCEED);
    assert_int_equal(record.created_at, NOW);
    struct record_final final = {RECORD_COMPLETE, 201, true};
    assert_int_equal(record_finish(&record, NEXT + 1, &final, world.now), RECORD_WRITTEN);
    assert_int_equal(record.expires_at, world.now + 5 * SECOND);
}

static void a_record_is_absent_from_the_moment_it_expired(void **unused)
{
    (void)unused;
    struct record record = finished(TTL, 0, false, NOW);
    assert_false(record_is_absent(&record, NOW + TTL - 1));
    assert_true(record_is_absent(&record, NOW + TTL));
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
    assert_int_equal(record_begin(&record, &begin, &world, NEXT, &changed), RECORD_RESULT_EXPIRED);
    world.now = NOW + TTL + 50;
    assert_int_equal(record_begin(&record, &begin, &world, NEXT, &changed), RECORD_PROCEED);
}

static void forever_never_expires_and_leased_or_unknown_records_neither(void **unused)
{
    (void)unused;
    struct record record = finished(CLOCK_NEVER, 50, false, NOW);
    assert_false(record_is_absent(&record, CLOCK_NEVER - 1));
    const enum state lasting[] = {LIVE,      OWN,          LAPSED,      UNKNOWN,
                                  OWN_PROBE, LAPSED_PROBE, PROVISIONAL, LAPSED_PROVISIONAL};
    for (size_t i = 0; i < sizeof lasting / sizeof *lasting; i++) {
        record = make(lasting[i], RECORD_UNKNOWN_HOLD);
        assert_false(record_is_absent(&record, CLOCK_NEVER - 1));
    }
}

static void a_released_record_expires_ttl_after_its_release(void **unused)
{
    (void)unused;
    struct record record = make(OWN, RECORD_UNKNOWN_HOLD);
    record_release(&record, TOKEN, NOW);
    assert_false(record_is_absent(&record, NOW + TTL - 1));
    assert_true(record_is_absent(&record, NOW + TTL));
    assert_int_equal(record_finish(&record, TOKEN,
                                   &(struct record_final){RECORD_COMPLETE, 200, true}, NOW + TTL),
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
    return record_release_settled(record, record->token, now, false, &world);
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
    assert_int_equal(ask_at(&record, NOW + SECOND), RECORD_PROBE);
    assert_int_equal(record.quiet_at, NOW + SETTLE);
    assert_int_equal(record_doubt(&record, record.token, NOW + 5 * SECOND), RECORD_WRITTEN);
    assert_int_equal(record.status, RECORD_UNKNOWN);
    assert_int_equal(record.quiet_at, NOW + SETTLE);
    record.settle_us = SETTLE * 2;
    assert_int_equal(ask_at(&record, NOW + 6 * SECOND), RECORD_PROBE);
    record.owner = OTHER;
    assert_int_equal(ask_at(&record, NOW + 6 * SECOND + LEASE), RECORD_PROBE);
    assert_int_equal(record.quiet_at, NOW + SETTLE);
}

static void a_probe_that_looked_too_early_is_not_believed_later(void **unused)
{
    (void)unused;
    struct record record = in_doubt(NOW);
    assert_int_equal(ask_at(&record, NOW + SETTLE - 1), RECORD_PROBE);
    struct record_world later = world_now(NOW + SETTLE + SECOND);
    assert_int_equal(record_release_settled(&record, record.token, NOW + SETTLE - 1, false, &later),
                     RECORD_EARLY);
    assert_int_equal(record_doubt(&record, record.token, NOW + SETTLE + SECOND), RECORD_WRITTEN);
    assert_int_equal(ask_at(&record, NOW + SETTLE + SECOND), RECORD_PROBE);
    assert_int_equal(settle_at(&record, NOW + SETTLE + SECOND), RECORD_WRITTEN);
}

static void a_prober_cannot_say_that_the_operation_was_surely_not_done(void **unused)
{
    (void)unused;
    struct record record = in_doubt(NOW);
    assert_int_equal(ask_at(&record, NOW + SETTLE), RECORD_PROBE);
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
    assert_int_equal(record_begin(&record, &begin, &world, NEXT, &changed), RECORD_PROBE);
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
    assert_int_equal(ask_at(&record, NOW), RECORD_PROBE);
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
    struct backend_owner of = {.incarnation = owner, .role = STORE_SERVE};
    struct backend_holder last = {.incarnation = serve, .since = dead_at, .alive = alive};
    struct record_world world = world_now(NOW);
    backend_judge_lease(&record, &of, &last, NOW);
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
    struct backend_owner owner = {.incarnation = OTHER};
    struct backend_holder none = {.incarnation = 0};
    struct record_world world = world_now(record.lease_until - 1);
    backend_judge_lease(&record, &owner, &none, world.now);
    assert_int_equal(record_lease(&record, &world, NULL), RECORD_LEASE_LIVE);
    world.now++;
    backend_judge_lease(&record, &owner, &none, world.now);
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
    /* found: D-B16 */
    assert_int_equal(record_store_time(RECORD_TIME_MOST + 1, NOW, 7), NOW + 7);
}

/* ---- probes in the background ---- */

static struct record unknown_at(int64_t doubted_at)
{
    return (struct record){.status = RECORD_UNKNOWN,
                           .token = 7,
                           .doubt = true,
                           .unknown = RECORD_UNKNOWN_PROBE,
                           .created_at = doubted_at - SECOND,
                           .started_at = doubted_at - SECOND,
                           .settle_us = 100 * SECOND,
                           .quiet_at = doubted_at + 100 * SECOND};
}

static void probes_back_off_come_at_quiet_at_and_then_hourly(void **unused)
{
    (void)unused;
    struct record record = unknown_at(NOW);
    int64_t base = 0;
    assert_int_equal(probe_due(&record), NOW);
    for (int64_t delay = 1; delay <= 16; delay *= 2) {
        record.started_at = probe_due(&record);
        base += delay * SECOND;
        int64_t due = probe_due(&record) - NOW;
        assert_true(due >= base && due <= base + 5 * SECOND);
    }
    record.started_at = probe_due(&record);
    assert_int_equal(probe_due(&record), record.quiet_at);
    record.started_at = record.quiet_at - 1;
    assert_int_equal(probe_due(&record), record.quiet_at);
    record.started_at = record.quiet_at;
    assert_int_equal(probe_due(&record), record.quiet_at + RECORD_PROBE_LATER_US);
}

static enum record_verdict begin_at(struct record *record, struct record_begin begin, int64_t now)
{
    bool changed;
    begin.attempt_id[0] = 9;
    begin.unknown = RECORD_UNKNOWN_PROBE;
    begin.lease_us = begin.ttl_us = SECOND;
    struct record_world world = {.now = now, .self = 3};
    return record_begin(record, &begin, &world, record->token + 1, &changed);
}

static void clients_probe_once_a_second_where_the_background_does(void **unused)
{
    (void)unused;
    struct record record = unknown_at(NOW);
    record.started_at = NOW;
    struct record_begin paced = {.paced = true}, other = {0};
    assert_int_equal(begin_at(&record, paced, NOW + SECOND - 1), RECORD_OUTCOME_UNKNOWN);
    struct record again = record;
    assert_int_equal(begin_at(&again, other, NOW + SECOND - 1), RECORD_PROBE);
    assert_int_equal(begin_at(&record, paced, NOW + SECOND), RECORD_PROBE);
    assert_int_equal(record.least_us, RECORD_PROBE_LATER_US);
    assert_int_equal(again.least_us, 0);
}

static void a_background_probe_acquires_the_token_it_found_or_nothing(void **unused)
{
    (void)unused;
    struct record record = unknown_at(NOW), before = record, absent = {0};
    struct record_begin stale = {.paced = true, .probes_token = 6};
    struct record_begin found = {.paced = true, .probes_token = 7};
    assert_int_equal(begin_at(&record, stale, NOW), RECORD_OUTCOME_UNKNOWN);
    assert_memory_equal(&record, &before, sizeof record);
    assert_int_equal(begin_at(&record, found, NOW), RECORD_PROBE);
    assert_int_equal(record.token, 8);
    assert_int_equal(begin_at(&record, found, NOW), RECORD_PROBE); /* the same, applied again */
    assert_int_equal(record.token, 8);
    assert_int_equal(begin_at(&absent, found, NOW), RECORD_OUTCOME_UNKNOWN);
    assert_int_equal(absent.status, RECORD_ABSENT);
    struct record released = before;
    released.status = RECORD_PENDING;
    released.doubt = false;
    released.expires_at = CLOCK_NEVER;
    assert_int_equal(begin_at(&released, found, NOW), RECORD_OUTCOME_UNKNOWN);
    assert_int_equal(released.token, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ttl_counts_from_completion_and_a_window_from_the_first_begin),
        cmocka_unit_test(no_record_is_born_expired),
        cmocka_unit_test(released_in_doubt_a_record_keeps_its_window_for_its_ttl),
        cmocka_unit_test(a_record_is_absent_from_the_moment_it_expired),
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
        cmocka_unit_test(probes_back_off_come_at_quiet_at_and_then_hourly),
        cmocka_unit_test(clients_probe_once_a_second_where_the_background_does),
        cmocka_unit_test(a_background_probe_acquires_the_token_it_found_or_nothing),
    };
    return cmocka_run_group_tests_name("record_time", tests, NULL, NULL);
}
