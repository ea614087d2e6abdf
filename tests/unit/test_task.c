/* SPDX-License-Identifier: Apache-2.0 */
/* core/task: every state by every event, when the next attempt is due, what counts, what ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/task.h"

#define S CLOCK_US_PER_S
#define DAY (INT64_C(86400) * S)
#define NOW (INT64_C(1795338000) * S)
#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

static const struct task_terms keep = {.done_us = TASK_KEEP_DONE_US, .dead_us = TASK_KEEP_DEAD_US};
static const struct task_terms keep_order = {TASK_KEEP_DONE_US, TASK_KEEP_DEAD_US, true};
static const struct task_claim claim = {.owner = 7, .lease_us = 45 * S};

static struct task new_task(enum retry_profile profile)
{
    return (struct task){.due_at = NOW,
                         .deadline_at = CLOCK_NEVER,
                         .gone_at = CLOCK_NEVER,
                         .profile = profile,
                         .created_at = NOW};
}

static struct task sending_task(enum retry_profile profile)
{
    struct task task = new_task(profile);
    task_claim(&task, &claim, NOW);
    return task;
}

static struct task task_in(enum task_state state)
{
    struct task task = new_task(RETRY_PROFILE_queue);
    if (state == TASK_SENDING)
        task_claim(&task, &claim, NOW);
    else if (state == TASK_DROPPED)
        task_drop(&task, &keep, NOW);
    else if (state != TASK_WAITING)
        task_settle(&task, state, TASK_REASON_FINAL, &keep_order, NOW);
    return task;
}

static const struct task_result later = {
    .class = RETRY_LATER, .reason = TASK_REASON_NOT_DONE, .hint_us = RETRY_NO_HINT, .status = 503};

static struct task_result result_of(enum retry_class class)
{
    struct task_result result = later;
    result.class = class;
    return result;
}

/* ---- states and events ---- */

static void happen(struct task *task, enum task_event event)
{
    switch (event) {
    case TASK_CLAIM:
        task_claim(task, &claim, NOW);
        return;
    case TASK_END:
        task_end(task, 1, &later, &keep, NOW);
        return;
    case TASK_LOSE:
        task_lose(task, &keep, NOW);
        return;
    case TASK_PUT_OFF:
        task_put_off(task, NOW + S, TASK_REASON_BREAKER);
        return;
    case TASK_SETTLE:
        task_settle(task, TASK_DONE, TASK_REASON_ALREADY, &keep, NOW);
        return;
    case TASK_DROP:
        task_drop(task, &keep, NOW);
        return;
    case TASK_RETRY:
        task_retry(task, false, NOW);
        return;
    case TASK_REPLAY:
        task_retry(task, true, NOW);
        return;
    case TASK_EDIT:
        task_edit(task, NOW);
        return;
    case TASK_EVENT_COUNT:
        break;
    }
    fail();
}

static void expect_whole(const struct task *task)
{
    bool waits = task->state == TASK_WAITING, sends = task->state == TASK_SENDING;
    bool ended = !waits && !sends;
    assert_true(waits || task->due_at == CLOCK_NEVER);
    assert_int_equal(task->lease_until != 0, sends);
    assert_int_equal(task->owner != 0, sends);
    assert_int_equal(task->ended_at != 0, ended);
    assert_int_equal(task->gone_at != CLOCK_NEVER, ended);
    assert_true(!task->holds || task->state == TASK_DEAD);
    assert_true(task->state != TASK_DONE || !task->in_doubt);
    assert_true(task->attempts <= task->tries);
    assert_true(!waits || task->first_at == 0 || task->due_at <= task->deadline_at);
}

#define NO (-1)
static void every_state_goes_where_the_table_says(void **state)
{
    /* by event and the state it happens in: waiting, sending, done, dead, dropped */
    static const int table[TASK_EVENT_COUNT][TASK_STATE_COUNT] = {
        [TASK_CLAIM] = {TASK_SENDING, NO, NO, NO, NO},
        [TASK_END] = {NO, TASK_WAITING, NO, NO, NO},
        [TASK_LOSE] = {NO, TASK_WAITING, NO, NO, NO},
        [TASK_PUT_OFF] = {TASK_WAITING, NO, NO, NO, NO},
        [TASK_SETTLE] = {TASK_DONE, TASK_DONE, NO, TASK_DONE, TASK_DONE},
        [TASK_DROP] = {TASK_DROPPED, NO, NO, TASK_DROPPED, NO},
        [TASK_RETRY] = {TASK_WAITING, NO, NO, TASK_WAITING, TASK_WAITING},
        [TASK_REPLAY] = {TASK_WAITING, NO, TASK_WAITING, TASK_WAITING, TASK_WAITING},
        [TASK_EDIT] = {TASK_WAITING, NO, NO, TASK_WAITING, NO},
    };
    (void)state;
    for (enum task_event event = 0; event < TASK_EVENT_COUNT; event++)
        for (enum task_state before = 0; before < TASK_STATE_COUNT; before++) {
            assert_int_equal(task_allows(before, event), table[event][before] != NO);
            if (!task_allows(before, event))
                continue;
            struct task task = task_in(before);
            expect_whole(&task);
            happen(&task, event);
            expect_whole(&task);
            assert_int_equal(task.state, table[event][before]);
        }
}

static void the_end_of_an_attempt_is_what_its_class_says(void **state)
{
    static const int wanted[] = {
        [RETRY_DONE] = TASK_DONE,     [RETRY_FINAL] = TASK_DEAD,
        [RETRY_IN_DOUBT] = TASK_DEAD, [RETRY_CREDENTIALS] = TASK_WAITING,
        [RETRY_LATER] = TASK_WAITING, [RETRY_AT_ONCE] = TASK_WAITING,
        [RETRY_BUSY] = TASK_WAITING,  [RETRY_BUSY_A_WHILE] = TASK_WAITING,
    };
    (void)state;
    for (enum retry_profile profile = 0; profile < RETRY_PROFILE_COUNT; profile++)
        for (enum retry_class class = RETRY_DONE; class <= RETRY_BUSY_A_WHILE; class ++) {
            struct task task = sending_task(profile);
            struct task_result result = result_of(class);
            bool is_refused = class == RETRY_CREDENTIALS;
            result.hint_us = is_refused ? S : result.hint_us;
            task_end(&task, 1, &result, &keep, NOW + S);
            expect_whole(&task);
            assert_int_equal(task.state, wanted[class]);
            assert_int_equal(task.attempts, class < RETRY_BUSY && !is_refused);
            assert_int_equal(task.reason == TASK_REASON_CREDENTIALS, is_refused);
            assert_int_equal(task.busy_since, class < RETRY_BUSY ? 0 : NOW + S);
            assert_int_equal(task.reason == TASK_REASON_IN_DOUBT, class == RETRY_IN_DOUBT);
            /* even a 408: at once is for those who wait */
            assert_true(task.state != TASK_WAITING || task.due_at > NOW + S);
        }
}

static void what_waits_for_credentials_is_woken_and_ends_at_its_deadline(void **state)
{
    struct task_result refused = result_of(RETRY_CREDENTIALS);
    struct task task = sending_task(RETRY_PROFILE_queue), held = new_task(RETRY_PROFILE_queue);
    (void)state;
    refused.hint_us = 300 * S;
    task.in_doubt = true;
    task.deadline_at = NOW + 60 * S;
    task_end(&task, 1, &refused, &keep, NOW + S);
    assert_true(task.in_doubt && task.due_at == NOW + 60 * S);
    assert_true(task_wake(&task, NOW + 2 * S) && task.due_at == NOW + 2 * S);
    assert_false(task_wake(&task, NOW + 3 * S));
    held.due_at = CLOCK_NEVER;
    assert_false(task_wake(&held, NOW));
    task = sending_task(RETRY_PROFILE_queue);
    task.deadline_at = NOW;
    task_end(&task, 1, &refused, &keep, NOW + S);
    assert_true(task.state == TASK_DEAD && task.reason == TASK_REASON_DEADLINE);
}

static void only_tasks_that_can_still_be_sent_hold_those_behind_them(void **state)
{
    static const bool wanted[TASK_STATE_COUNT] = {true, true, false, true, false};
    (void)state;
    for (enum task_state in = 0; in < TASK_STATE_COUNT; in++) {
        struct task task = task_in(in);
        assert_int_equal(task_is_open(&task), wanted[in]);
    }
    struct task task = new_task(RETRY_PROFILE_queue);
    task_settle(&task, TASK_DEAD, TASK_REASON_FINAL, &keep, NOW);
    assert_false(task_is_open(&task));
}

/* ---- times ---- */

/* Fails until it has ended, each attempt as late after its time as `late_us` says. */
static void fail_until_dead(struct task *task, int64_t id, int64_t late_us)
{
    for (int i = 0; i < 3000 && task->state != TASK_DEAD; i++) {
        int64_t now = task->due_at + late_us;
        task_claim(task, &claim, now);
        task_end(task, id, &later, &keep, now);
        expect_whole(task);
    }
    assert_int_equal(task->state, TASK_DEAD);
}

static void a_webhook_has_ten_attempts_and_the_last_one_after_24_hours(void **state)
{
    (void)state;
    for (int64_t id = 1; id <= 1000; id++) {
        struct task task = new_task(RETRY_PROFILE_webhook);
        fail_until_dead(&task, id, 0);
        assert_int_equal(task.attempts, 10);
        assert_int_equal(task.ended_at, NOW + DAY);
        assert_int_equal(task.reason, TASK_REASON_ATTEMPTS);
        assert_int_equal(task.status, 503);
        assert_int_equal(task.gone_at, NOW + 31 * DAY);
    }
}

/* The same list read as delays: each counts from the end of the attempt before, however late that
 * was. */
static void a_schedule_of_ones_own_stands_in_place_of_the_profile_s(void **state)
{
    struct retry_schedule delays = *retry_profile_schedule(RETRY_PROFILE_webhook);
    const int64_t *offsets = delays.list;
    (void)state;
    retry_schedule_set_delays(&delays, offsets + 1, 2);
    delays.total_us = retry_schedule_most_us(&delays) + 3 * S;
    assert_int_equal(delays.total_us, 3 * S + (5 + 30) * S * 11 / 10);
    const struct task_terms terms = {TASK_KEEP_DONE_US, TASK_KEEP_DEAD_US, false, &delays};
    const struct task_claim by_delays = {.owner = 7, .lease_us = 45 * S, .schedule = &delays};
    struct task task = new_task(RETRY_PROFILE_webhook);
    for (int i = 0; i < 2; i++) {
        int64_t now = task.due_at + S;
        task_claim(&task, &by_delays, task.due_at);
        task_end(&task, 1, &later, &terms, now);
        assert_in_range(task.due_at, now + offsets[i + 1], now + offsets[i + 1] * 11 / 10);
        assert_int_equal(task.deadline_at, NOW + delays.total_us);
    }
    struct task lost = task;
    task_claim(&lost, &by_delays, task.due_at);
    task_lose(&lost, &terms, task.due_at + S);
    task_claim(&task, &by_delays, task.due_at);
    task_end(&task, 1, &later, &terms, NOW + delays.total_us - 1);
    assert_int_equal(task.reason, TASK_REASON_ATTEMPTS);
    assert_int_equal(lost.reason, TASK_REASON_LOST);
    assert_int_equal(lost.state, TASK_DEAD);
}

static void a_time_follows_from_the_id_and_the_number_of_the_try(void **state)
{
    int64_t first = 0;
    bool differs = false;
    (void)state;
    for (int64_t id = 1; id <= 50; id++) {
        struct task a = sending_task(RETRY_PROFILE_queue), b = a;
        task_end(&a, id, &later, &keep, NOW);
        task_end(&b, id, &later, &keep, NOW);
        assert_int_equal(a.due_at, b.due_at);
        assert_in_range(a.due_at, NOW + S, NOW + 2 * S);
        first = first == 0 ? a.due_at : first;
        differs |= a.due_at != first;
    }
    assert_true(differs);
}

static void a_hint_beyond_the_deadline_leaves_one_attempt_at_the_deadline(void **state)
{
    static const int64_t hints[] = {DAY, 400 * DAY, CLOCK_NEVER};
    (void)state;
    for (size_t i = 0; i < N_OF(hints); i++) {
        struct task task = sending_task(RETRY_PROFILE_webhook);
        struct task_result result = later;
        result.hint_us = hints[i];
        task_end(&task, 1, &result, &keep, NOW + S);
        assert_int_equal(task.due_at, NOW + DAY);
        task_claim(&task, &claim, NOW + DAY);
        task_end(&task, 1, &result, &keep, NOW + DAY);
        assert_int_equal(task.state, TASK_DEAD);
        assert_int_equal(task.reason, TASK_REASON_DEADLINE);
    }
}

static void an_attempt_never_comes_before_its_hint(void **state)
{
    (void)state;
    for (int64_t hint = 0; hint <= 100; hint++) {
        struct task task = sending_task(RETRY_PROFILE_queue);
        struct task_result result = later;
        result.hint_us = hint * S;
        task_end(&task, hint + 1, &result, &keep, NOW);
        assert_true(task.due_at >= NOW + hint * S && task.due_at >= NOW + S);
    }
}

static void an_attempt_that_was_due_is_made_however_late(void **state)
{
    struct task task = sending_task(RETRY_PROFILE_webhook);
    (void)state;
    task_end(&task, 1, &later, &keep, NOW);
    task_claim(&task, &claim, NOW + 30 * DAY);
    assert_int_equal(task.attempts, 2);
    assert_int_equal(task.deadline_at, NOW + DAY);
    task_end(&task, 1, &later, &keep, NOW + 30 * DAY);
    assert_int_equal(task.reason, TASK_REASON_DEADLINE);
}

/* found: J2 */
static void a_queued_task_has_any_number_of_attempts_within_seven_days(void **state)
{
    struct task task = new_task(RETRY_PROFILE_queue), bounded = new_task(RETRY_PROFILE_queue);
    struct task_terms three = keep;
    (void)state;
    three.attempts = 3;
    fail_until_dead(&task, 1, 0);
    assert_int_equal(task.reason, TASK_REASON_DEADLINE);
    assert_int_equal(task.ended_at, NOW + 7 * DAY);
    assert_in_range(task.attempts, 2000, 2100); /* each 5 min */
    for (int i = 1; i <= 3; i++) {
        task_claim(&bounded, &claim, bounded.due_at);
        task_end(&bounded, 1, &later, &three, NOW + i * 60 * S);
        assert_int_equal(bounded.state, i < 3 ? TASK_WAITING : TASK_DEAD);
    }
    assert_int_equal(bounded.reason, TASK_REASON_ATTEMPTS);
}

static void a_deadline_of_its_own_is_there_from_the_start_or_never(void **state)
{
    static const struct task_claim never = {.owner = 7, .lease_us = S, .lasts_us = CLOCK_NEVER};
    struct task task = new_task(RETRY_PROFILE_queue), endless = task;
    (void)state;
    task.deadline_at = NOW + DAY;
    task_put_off(&task, NOW + 2 * DAY, TASK_REASON_CREDENTIALS);
    assert_int_equal(task.due_at, NOW + DAY);
    task_claim(&task, &claim, NOW + DAY);
    assert_int_equal(task.deadline_at, NOW + DAY);
    task_claim(&endless, &never, NOW);
    assert_int_equal(endless.deadline_at, CLOCK_NEVER);
    task_end(&endless, 1, &later, &keep, NOW + 400 * DAY);
    assert_int_equal(endless.state, TASK_WAITING);
}

static void an_attempt_that_reached_nobody_gives_back_the_time_that_it_began(void **state)
{
    struct task task = new_task(RETRY_PROFILE_queue), before = task;
    struct task_result unreached = result_of(RETRY_LATER);
    struct task_terms terms = keep;
    (void)state;
    unreached.status = 0;
    unreached.is_unreached = true;
    terms.before = &before;
    task_claim(&task, &claim, NOW);
    task_end(&task, 1, &unreached, &terms, NOW + S);
    assert_true(task.attempts == 0 && task.first_at == 0 && task.deadline_at == CLOCK_NEVER);
    task_claim(&task, &claim, NOW + 30 * DAY);
    task_end(&task, 1, &later, &keep, NOW + 30 * DAY);
    assert_int_equal(task.deadline_at, NOW + 37 * DAY);
    before = task; /* somebody was reached: that time stays */
    task_claim(&task, &claim, NOW + 31 * DAY);
    task_end(&task, 1, &unreached, &terms, NOW + 31 * DAY);
    assert_int_equal(task.first_at, NOW + 30 * DAY);
    assert_int_equal(task.deadline_at, NOW + 37 * DAY);
}

static void a_deadline_counts_from_the_first_attempt_and_does_not_move(void **state)
{
    static const struct task_claim within = {.owner = 7, .lease_us = S, .lasts_us = 10 * S};
    struct task task = new_task(RETRY_PROFILE_queue);
    (void)state;
    task_claim(&task, &within, NOW + DAY);
    assert_int_equal(task.deadline_at, NOW + DAY + 10 * S);
    task_end(&task, 1, &later, &keep, NOW + DAY + 9 * S);
    assert_int_equal(task.due_at, NOW + DAY + 10 * S);
    task_claim(&task, &within, NOW + DAY + 11 * S);
    assert_int_equal(task.deadline_at, NOW + DAY + 10 * S);
}

static void what_is_put_off_is_due_no_later_than_its_deadline(void **state)
{
    struct task task = new_task(RETRY_PROFILE_webhook);
    (void)state;
    task_put_off(&task, NOW + 2 * DAY, TASK_REASON_BREAKER); /* nothing was tried yet */
    assert_int_equal(task.due_at, NOW + 2 * DAY);
    assert_int_equal(task.reason, TASK_REASON_BREAKER);
    task_claim(&task, &claim, NOW + 2 * DAY);
    task_end(&task, 1, &later, &keep, NOW + 2 * DAY);
    task_put_off(&task, NOW + 9 * DAY, TASK_REASON_BUDGET);
    assert_int_equal(task.due_at, NOW + 3 * DAY);
    task_put_off(&task, NOW + 2 * DAY, TASK_REASON_BREAKER); /* and never earlier */
    assert_int_equal(task.due_at, NOW + 3 * DAY);
    assert_int_equal(task.reason, TASK_REASON_BUDGET);
}

/* ---- what counts ---- */

static void days_without_a_network_cost_a_queued_task_no_attempt(void **state)
{
    struct task task = new_task(RETRY_PROFILE_queue);
    struct task_result unreached = result_of(RETRY_LATER);
    (void)state;
    unreached.status = 0;
    unreached.is_unreached = true;
    unreached.reason = TASK_REASON_NOT_REACHED;
    for (int i = 1; i <= 10000; i++) {
        const struct task before = task;
        struct task_terms terms = keep;
        terms.before = &before;
        task_claim(&task, &claim, task.due_at);
        task_end(&task, 1, &unreached, &terms, NOW + i * S * 300);
        assert_int_equal(task.state, TASK_WAITING);
        assert_int_equal(task.attempts, 0);
        assert_int_equal(task.tries, i);
    }
    task = sending_task(RETRY_PROFILE_webhook);
    task_end(&task, 1, &unreached, &keep, NOW);
    assert_int_equal(task.attempts, 1);
}

static void a_task_that_kills_its_sender_ends_as_dead(void **state)
{
    struct task task = new_task(RETRY_PROFILE_webhook);
    (void)state;
    for (int i = 1; i <= 10; i++) {
        assert_true(task_is_due(&task, NOW));
        task_claim(&task, &claim, NOW);
        task_lose(&task, &keep_order, NOW);
        expect_whole(&task);
        assert_true(task.in_doubt);
        assert_int_equal(task.reason, TASK_REASON_LOST);
    }
    assert_int_equal(task.state, TASK_DEAD);
    assert_true(task.holds);
    assert_int_equal(task.attempts, 10);
}

static void what_is_lost_again_lets_others_go_first(void **state)
{
    struct task task = sending_task(RETRY_PROFILE_queue);
    (void)state;
    task_lose(&task, &keep, NOW);
    assert_int_equal(task.due_at, NOW);
    for (int i = 2; i <= 50; i++) {
        int64_t now = task.due_at;
        task_claim(&task, &claim, now);
        task_lose(&task, &keep, now);
        assert_true(task.due_at >= now + 2 * S && task.due_at <= now + 300 * S);
        expect_whole(&task);
    }
    assert_int_equal(task.state, TASK_WAITING);
}

static void a_lost_attempt_beyond_the_deadline_was_the_last_one(void **state)
{
    struct task task = sending_task(RETRY_PROFILE_webhook);
    (void)state;
    task_lose(&task, &keep, NOW + DAY);
    assert_int_equal(task.due_at, NOW + DAY);
    task = sending_task(RETRY_PROFILE_webhook);
    task_lose(&task, &keep, NOW + DAY + 1);
    assert_int_equal(task.reason, TASK_REASON_DEADLINE);
}

static void doubt_stays_until_the_task_is_done_or_edited(void **state)
{
    struct task task = sending_task(RETRY_PROFILE_queue);
    struct task_result doubtful = result_of(RETRY_LATER);
    (void)state;
    doubtful.is_in_doubt = true;
    task_end(&task, 1, &doubtful, &keep, NOW);
    assert_true(task.in_doubt);
    task_claim(&task, &claim, task.due_at);
    struct task_result final = result_of(RETRY_FINAL);
    final.reason = TASK_REASON_NONE;
    task_end(&task, 1, &final, &keep, NOW);
    assert_true(task.in_doubt);
    assert_int_equal(task.reason, TASK_REASON_FINAL);
    task_retry(&task, false, NOW);
    assert_true(task.in_doubt);
    task_edit(&task, NOW);
    assert_false(task.in_doubt);
}

static void a_task_that_is_retried_begins_again_but_keeps_its_number_of_tries(void **state)
{
    struct task task = new_task(RETRY_PROFILE_webhook);
    (void)state;
    fail_until_dead(&task, 1, 0);
    task_retry(&task, true, NOW + 3 * DAY);
    expect_whole(&task);
    assert_int_equal(task.attempts, 0);
    assert_int_equal(task.tries, 10);
    assert_int_equal(task.first_at, 0);
    assert_true(task.replay && task_is_due(&task, NOW + 3 * DAY));
    task_claim(&task, &claim, NOW + 3 * DAY);
    assert_int_equal(task.deadline_at, NOW + 4 * DAY);
}

static void a_task_that_is_held_stays_held_until_it_is_the_first(void **state)
{
    struct task task = new_task(RETRY_PROFILE_queue);
    (void)state;
    task.due_at = CLOCK_NEVER;
    task_retry(&task, false, NOW);
    assert_int_equal(task.due_at, CLOCK_NEVER);
    task_put_off(&task, NOW + S, TASK_REASON_BREAKER);
    assert_int_equal(task.due_at, CLOCK_NEVER);
    assert_false(task_is_due(&task, CLOCK_NEVER - 1));
}

/* Of what was not responded to its end says it, of a response what it means for a retry. */
static void a_reason_follows_from_how_the_exchange_ended(void **state)
{
    static const enum task_reason of_response[] = {
        [RETRY_DONE] = TASK_REASON_NONE,        [RETRY_FINAL] = TASK_REASON_FINAL,
        [RETRY_IN_DOUBT] = TASK_REASON_FINAL,   [RETRY_CREDENTIALS] = TASK_REASON_NOT_DONE,
        [RETRY_LATER] = TASK_REASON_NOT_DONE,   [RETRY_AT_ONCE] = TASK_REASON_NOT_DONE,
        [RETRY_BUSY] = TASK_REASON_IN_PROGRESS, [RETRY_BUSY_A_WHILE] = TASK_REASON_IN_PROGRESS,
    };
    (void)state;
    for (size_t i = 0; i < N_OF(of_response); i++)
        assert_int_equal(task_reason_of_end(EXCHANGE_RESPONDED, (enum retry_class)i),
                         of_response[i]);
    assert_int_equal(task_reason_of_end(EXCHANGE_NOT_SENT, RETRY_LATER), TASK_REASON_NOT_REACHED);
    assert_int_equal(task_reason_of_end(EXCHANGE_MALFORMED, RETRY_LATER), TASK_REASON_BROKE);
    assert_int_equal(task_reason_of_end(EXCHANGE_TIMED_OUT, RETRY_LATER), TASK_REASON_TIMED_OUT);
    assert_int_equal(task_reason_of_end(EXCHANGE_PORTAL, RETRY_BUSY), TASK_REASON_PORTAL);
    assert_int_equal(task_reason_of_end(EXCHANGE_BROKE, RETRY_DONE), TASK_REASON_NONE);
}

static void every_reason_and_state_has_a_name(void **state)
{
    (void)state;
    for (enum task_reason reason = 1; reason < TASK_REASON_COUNT; reason++) {
        assert_true(task_reason_name(reason).len > 0);
        assert_true(strlen(task_reason_text(reason)) > 0);
    }
    assert_true(slice_eq(task_state_name(TASK_WAITING), SLICE("waiting")));
    assert_true(slice_eq(task_state_name(TASK_DROPPED), SLICE("dropped")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_state_goes_where_the_table_says),
        cmocka_unit_test(the_end_of_an_attempt_is_what_its_class_says),
        cmocka_unit_test(what_waits_for_credentials_is_woken_and_ends_at_its_deadline),
        cmocka_unit_test(only_tasks_that_can_still_be_sent_hold_those_behind_them),
        cmocka_unit_test(a_webhook_has_ten_attempts_and_the_last_one_after_24_hours),
        cmocka_unit_test(a_schedule_of_ones_own_stands_in_place_of_the_profile_s),
        cmocka_unit_test(a_time_follows_from_the_id_and_the_number_of_the_try),
        cmocka_unit_test(a_hint_beyond_the_deadline_leaves_one_attempt_at_the_deadline),
        cmocka_unit_test(an_attempt_never_comes_before_its_hint),
        cmocka_unit_test(an_attempt_that_was_due_is_made_however_late),
        cmocka_unit_test(a_queued_task_has_any_number_of_attempts_within_seven_days),
        cmocka_unit_test(a_deadline_of_its_own_is_there_from_the_start_or_never),
        cmocka_unit_test(an_attempt_that_reached_nobody_gives_back_the_time_that_it_began),
        cmocka_unit_test(a_deadline_counts_from_the_first_attempt_and_does_not_move),
        cmocka_unit_test(what_is_put_off_is_due_no_later_than_its_deadline),
        cmocka_unit_test(days_without_a_network_cost_a_queued_task_no_attempt),
        cmocka_unit_test(a_task_that_kills_its_sender_ends_as_dead),
        cmocka_unit_test(what_is_lost_again_lets_others_go_first),
        cmocka_unit_test(a_lost_attempt_beyond_the_deadline_was_the_last_one),
        cmocka_unit_test(doubt_stays_until_the_task_is_done_or_edited),
        cmocka_unit_test(a_task_that_is_retried_begins_again_but_keeps_its_number_of_tries),
        cmocka_unit_test(a_task_that_is_held_stays_held_until_it_is_the_first),
        cmocka_unit_test(a_reason_follows_from_how_the_exchange_ended),
        cmocka_unit_test(every_reason_and_state_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
