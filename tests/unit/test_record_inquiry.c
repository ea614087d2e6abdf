/* SPDX-License-Identifier: Apache-2.0 */
/* `first:`: which begins ask before they send, what an inquiry comes to, and who is believed. */
#include "record_states.h"

#define MARK (NOW - 60 * SECOND) /* when the store was said to lack records */
#define BELIEVED_FROM (MARK + LEASE + SETTLE)

static struct record_world marked_at(int64_t now)
{
    return (struct record_world){.now = now, .self = SELF, .restored_at = MARK};
}

static struct record_begin under(enum record_first first)
{
    struct record_begin begin = a_begin(RECORD_UNKNOWN_PROBE);
    begin.first = first;
    begin.settle_us = SETTLE;
    return begin;
}

static enum record_verdict begin_on(struct record *record, const struct record_begin *begin,
                                    const struct record_world *world)
{
    bool changed = false;
    enum record_verdict verdict = record_begin(record, begin, world, NEXT, &changed);
    assert_true(record_is_sound(record));
    assert_int_equal(changed, record_verdict_acquires(verdict));
    return verdict;
}

/* An inquiry of this process, as a begin at `now` left it. */
static struct record asking(const struct record_world *world)
{
    struct record record = make(ABSENT, RECORD_UNKNOWN_PROBE);
    struct record_begin begin = under(RECORD_FIRST_ALWAYS);
    assert_int_equal(begin_on(&record, &begin, world), RECORD_INQUIRE);
    assert_true(record_is_asking(&record) && record.asking == NEXT && record.quiet_at == 0);
    assert_true(!record.doubt && !record_in_doubt(&record, RECORD_LEASE_LAPSED));
    return record;
}

static void a_begin_asks_where_no_later_acquisition_shows_that_it_need_not(void **unused)
{
    (void)unused;
    static const struct {
        enum record_first first;
        bool marked;
        enum state met;
        int64_t started_at;
        enum record_verdict want;
    } rows[] = {
        {RECORD_FIRST_OFF, true, ABSENT, 0, RECORD_PROCEED},
        {RECORD_FIRST_RESTORED, false, ABSENT, 0, RECORD_PROCEED},
        {RECORD_FIRST_RESTORED, true, ABSENT, 0, RECORD_INQUIRE},
        {RECORD_FIRST_ALWAYS, false, ABSENT, 0, RECORD_INQUIRE},
        {RECORD_FIRST_ALWAYS, false, GONE_FINAL, NOW - SECOND, RECORD_INQUIRE},
        {RECORD_FIRST_ALWAYS, false, RELEASED, MARK, RECORD_PROCEED},
        {RECORD_FIRST_ALWAYS, true, RELEASED, MARK, RECORD_INQUIRE},
        {RECORD_FIRST_RESTORED, true, RELEASED, MARK, RECORD_INQUIRE},
        {RECORD_FIRST_RESTORED, true, RELEASED, MARK + 1, RECORD_PROCEED},
        {RECORD_FIRST_RESTORED, true, UNKNOWN, MARK, RECORD_PROBE},
        {RECORD_FIRST_ALWAYS, true, LAPSED, MARK, RECORD_PROBE},
        {RECORD_FIRST_ALWAYS, true, LIVE, MARK, RECORD_IN_PROGRESS},
        {RECORD_FIRST_ALWAYS, true, COMPLETE, MARK, RECORD_REPLAY},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct record record = make(rows[i].met, RECORD_UNKNOWN_PROBE);
        struct record_begin begin = under(rows[i].first);
        struct record_world world = rows[i].marked ? marked_at(NOW) : world_now(NOW);
        record.started_at = rows[i].started_at;
        if (begin_on(&record, &begin, &world) != rows[i].want)
            fail_msg("row %zu", i);
    }
}

static void the_mark_counts_for_as_long_as_a_record_may_be_missing(void **unused)
{
    (void)unused;
    struct record_begin begin = under(RECORD_FIRST_RESTORED);
    begin.tombstone_us = 5 * SECOND;
    int64_t end = MARK + TTL + 5 * SECOND;
    struct record_world world = marked_at(end - 1);
    assert_true(record_may_be_missing(&begin, &world));
    world.now = end;
    assert_false(record_may_be_missing(&begin, &world));
    begin.once_ttl_us = 2 * TTL;
    assert_true(record_may_be_missing(&begin, &world));
    world.restored_until = end;
    assert_false(record_may_be_missing(&begin, &world));
    begin = under(RECORD_FIRST_RESTORED);
    begin.ttl_us = CLOCK_NEVER;
    world = marked_at(RECORD_TIME_MOST);
    assert_true(record_may_be_missing(&begin, &world));
    /* A key that was made later was never used before. */
    begin.key_at = MARK + RECORD_KEY_AHEAD_US;
    assert_true(record_may_be_missing(&begin, &world));
    begin.key_at++;
    assert_false(record_may_be_missing(&begin, &world));
}

static void under_hold_an_older_key_that_has_no_record_proves_nothing(void **unused)
{
    (void)unused;
    struct record_begin begin = a_begin(RECORD_UNKNOWN_HOLD);
    struct record_world world = marked_at(NOW);
    struct record record = make(ABSENT, RECORD_UNKNOWN_HOLD);
    assert_int_equal(begin_on(&record, &begin, &world), RECORD_PROCEED);
    begin.key_at = MARK;
    record = make(ABSENT, RECORD_UNKNOWN_HOLD);
    assert_int_equal(begin_on(&record, &begin, &world), RECORD_UNPROVED);
    assert_int_equal(record.status, RECORD_ABSENT);
    begin.key_at = MARK + RECORD_KEY_AHEAD_US + 1;
    assert_int_equal(begin_on(&record, &begin, &world), RECORD_PROCEED);
}

static void a_turn_sends_under_the_same_token_with_a_whole_lease(void **unused)
{
    (void)unused;
    struct record_world world = world_now(NOW);
    struct record record = asking(&world);
    world.now += SECOND;
    assert_int_equal(record_turn(&record, TOKEN, NOW, &world), RECORD_STALE);
    assert_int_equal(record_turn(&record, NEXT, NOW, &world), RECORD_WRITTEN);
    assert_true(!record_is_asking(&record) && record.token == NEXT && record.attempts == 1);
    assert_true(record.started_at == world.now && record.lease_until == world.now + LEASE);
    assert_int_equal(record_acquired_for(&record), RECORD_PROCEED);
    assert_int_equal(record_turn(&record, NEXT, NOW, &world), RECORD_ALREADY);
    /* From then on it may have happened. */
    assert_true(record_in_doubt(&record, RECORD_LEASE_LAPSED));
}

static void a_turn_whose_lease_is_over_releases_and_the_look_counts(void **unused)
{
    (void)unused;
    struct record_world world = world_now(NOW);
    struct record record = asking(&world);
    record.owner = OTHER;
    record.lapsed_at = NOW + SECOND;
    world.now += 2 * SECOND;
    assert_int_equal(record_turn(&record, NEXT, NOW, &world), RECORD_WRITTEN);
    assert_true(record_is_released(&record) && !record_is_asking(&record) && !record.doubt);
    struct record_begin begin = under(RECORD_FIRST_ALWAYS);
    assert_false(record_inquires(&record, &begin, &world));
}

static void what_found_out_nothing_is_asked_again(void **unused)
{
    (void)unused;
    struct record_world world = world_now(NOW);
    struct record_begin begin = under(RECORD_FIRST_ALWAYS);
    struct record released = asking(&world), lapsed = released;
    assert_int_equal(record_release(&released, NEXT, NOW), RECORD_WRITTEN);
    assert_true(record_is_released(&released) && record_inquires(&released, &begin, &world));
    lapsed.owner = OTHER;
    lapsed.lapsed_at = NOW;
    begin.attempt_id[0]++; /* another attempt */
    bool changed;
    assert_int_equal(record_begin(&lapsed, &begin, &world, NEXT + 1, &changed), RECORD_INQUIRE);
    assert_true(changed && lapsed.asking == NEXT + 1 && lapsed.quiet_at == 0 && !lapsed.doubt);
    /* A rule that does not ask sends: nothing was sent before. */
    lapsed = released;
    begin.first = RECORD_FIRST_OFF;
    assert_int_equal(record_begin(&lapsed, &begin, &world, NEXT + 1, &changed), RECORD_PROCEED);
    assert_int_equal(lapsed.asking, 0);
}

static void one_that_has_lapsed_frees_its_key_as_what_was_released_then(void **unused)
{
    (void)unused;
    static const struct {
        int64_t after; /* it lapsed */
        bool replaces;
        enum record_verdict want;
    } rows[] = {
        {TTL - 1, false, RECORD_MISMATCH},
        {TTL - 1, true, RECORD_INQUIRE},
        {TTL, false, RECORD_INQUIRE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct record_world world = world_now(NOW);
        struct record record = asking(&world), met;
        record.owner = OTHER;
        record.lapsed_at = NOW + LEASE;
        met = record;
        world.now = record.lapsed_at + rows[i].after;
        struct record_begin begin = under(RECORD_FIRST_ALWAYS);
        bool changed = false;
        begin.payload_hash.bytes[0] ^= 1;
        begin.replaces = rows[i].replaces;
        begin.attempt_id[0] ^= 1;
        assert_int_equal(record_begin(&record, &begin, &world, NEXT + 1, &changed), rows[i].want);
        assert_int_equal(changed, rows[i].want == RECORD_INQUIRE);
        assert_int_equal(record.token, changed ? NEXT + 1 : met.token);
        assert_int_equal(record.lease_until != met.lease_until, changed);
    }
}

static void one_that_knows_nothing_of_it_ends_it_by_its_token(void **unused)
{
    (void)unused;
    struct record_world world = world_now(NOW);
    struct record record = asking(&world);
    record.token = NEXT + 1; /* acquired by an older pawl, which left `asking` as it was */
    assert_true(!record_is_asking(&record) && record_is_sound(&record));
    assert_true(record_in_doubt(&record, RECORD_LEASE_LAPSED));
    record.token = NEXT;
    record.status = RECORD_UNKNOWN; /* or found it lapsed, under `hold` */
    record.lease_until = 0;
    record.doubt = true;
    assert_true(!record_is_asking(&record) && record_is_sound(&record));
}

static void an_outcome_that_was_found_is_as_any_other(void **unused)
{
    (void)unused;
    struct record_world world = world_now(NOW);
    struct record record = asking(&world);
    struct record_final found = {RECORD_COMPLETE, 200, true};
    assert_int_equal(record_finish(&record, NEXT, &found, NOW), RECORD_WRITTEN);
    struct record_begin begin = under(RECORD_FIRST_ALWAYS);
    assert_int_equal(begin_on(&record, &begin, &world), RECORD_REPLAY);
}

static void no_look_is_believed_before_requests_from_before_the_restore_are_over(void **unused)
{
    (void)unused;
    struct record_world world = marked_at(NOW);
    struct record first = asking(&world), record = first;
    assert_int_equal(record_turn(&record, NEXT, BELIEVED_FROM - 1, &world), RECORD_EARLY);
    assert_true(record_is_released(&record) && record_is_asking(&record));
    record = first;
    assert_int_equal(record_turn(&record, NEXT, BELIEVED_FROM, &world), RECORD_WRITTEN);
    /* Nor is a probe's, an operator's, or the end of a hold. */
    struct record unknown = make(UNKNOWN, RECORD_UNKNOWN_HOLD);
    unknown.settle_us = SETTLE;
    unknown.hold_us = 1;
    record = unknown;
    assert_int_equal(record_release_settled(&record, TOKEN, BELIEVED_FROM - 1, false, &world),
                     RECORD_EARLY);
    record = unknown;
    assert_int_equal(record_release_settled(&record, TOKEN, BELIEVED_FROM, false, &world),
                     RECORD_WRITTEN);
    struct record_begin begin = a_begin(RECORD_UNKNOWN_HOLD);
    begin.hold_us = 1;
    world.now = BELIEVED_FROM - 1;
    record = unknown;
    assert_int_equal(begin_on(&record, &begin, &world), RECORD_OUTCOME_UNKNOWN);
    assert_int_equal(record_forget(&record, TOKEN, false, &world), RECORD_EARLY);
    world.now++;
    assert_int_equal(begin_on(&record, &begin, &world), RECORD_PROCEED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_begin_asks_where_no_later_acquisition_shows_that_it_need_not),
        cmocka_unit_test(the_mark_counts_for_as_long_as_a_record_may_be_missing),
        cmocka_unit_test(under_hold_an_older_key_that_has_no_record_proves_nothing),
        cmocka_unit_test(a_turn_sends_under_the_same_token_with_a_whole_lease),
        cmocka_unit_test(a_turn_whose_lease_is_over_releases_and_the_look_counts),
        cmocka_unit_test(what_found_out_nothing_is_asked_again),
        cmocka_unit_test(one_that_has_lapsed_frees_its_key_as_what_was_released_then),
        cmocka_unit_test(one_that_knows_nothing_of_it_ends_it_by_its_token),
        cmocka_unit_test(an_outcome_that_was_found_is_as_any_other),
        cmocka_unit_test(no_look_is_believed_before_requests_from_before_the_restore_are_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
