/* SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"
#include "base/clock.h"
#include "fiber/fiber.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>

#include <cmocka.h>

static void run_to_its_end(struct loop *loop)
{
    loop_stop(loop);
    loop_run(loop);
}

/* What happened, in order, one letter each. */
struct journal {
    char text[64];
    size_t n;
};

static void journal_add(struct journal *journal, char letter)
{
    CHECK(journal->n + 1 < sizeof journal->text);
    journal->text[journal->n++] = letter;
}

/* ---- order ---- */

struct turns {
    struct journal *journal;
    char letter;
};

static void take_three_turns(void *argument)
{
    struct turns *turns = argument;
    for (int i = 0; i < 3; i++) {
        journal_add(turns->journal, turns->letter);
        fiber_yield();
    }
}

static void test_fibers_that_yield_take_turns(void **state)
{
    (void)state;
    struct journal journal = {0};
    struct turns a = {&journal, 'a'}, b = {&journal, 'b'};
    struct loop *loop = loop_new(2);
    assert_true(fiber_spawn(loop, "a", take_three_turns, &a));
    assert_true(fiber_spawn(loop, "b", take_three_turns, &b));
    run_to_its_end(loop);
    assert_string_equal(journal.text, "ababab");
    loop_free(loop);
}

static void yield_often(void *argument)
{
    int *turns = argument;
    while (*turns < 100000) {
        (*turns)++;
        fiber_yield();
    }
}

/* More often than ThreadSanitizer has room for calls that never return. */
static void test_fibers_may_switch_without_end(void **state)
{
    (void)state;
    int turns[2] = {0};
    struct loop *loop = loop_new(2);
    for (int i = 0; i < 2; i++)
        assert_true(fiber_spawn(loop, "often", yield_often, &turns[i]));
    run_to_its_end(loop);
    assert_int_equal(turns[0], 100000);
    assert_int_equal(turns[1], 100000);
    loop_free(loop);
}

struct sleeper {
    struct journal *journal;
    char letter;
    int64_t deadline_us;
};

static void sleep_and_note(void *argument)
{
    struct sleeper *sleeper = argument;
    fiber_sleep_until(sleeper->deadline_us);
    CHECK(clock_boot_us() >= sleeper->deadline_us);
    journal_add(sleeper->journal, sleeper->letter);
}

static void test_deadlines_pass_in_their_order_not_in_that_of_the_sleepers(void **state)
{
    (void)state;
    struct journal journal = {0};
    int64_t now_us = clock_boot_us();
    struct sleeper sleepers[] = {
        {&journal, 'd', now_us + 3000},
        {&journal, 'b', now_us - 1000},
        {&journal, 'c', now_us + 1500},
        {&journal, 'a', now_us - 2000},
    };
    struct loop *loop = loop_new(4);
    for (size_t i = 0; i < 4; i++)
        assert_true(fiber_spawn(loop, "sleeper", sleep_and_note, &sleepers[i]));
    run_to_its_end(loop);
    assert_string_equal(journal.text, "abcd");
    loop_free(loop);
}

/* ---- wakes ---- */

struct player {
    struct journal *journal;
    char letter;
    struct parker *parker;
    struct player *other;
    bool *turn;
    bool serves_on;
};

static void play(void *argument)
{
    struct player *self = argument;
    self->parker = fiber_parker();
    for (int i = 0; i < 10; i++) {
        while (*self->turn != self->serves_on)
            self->parker->park(self->parker, CLOCK_NEVER);
        journal_add(self->journal, self->letter);
        *self->turn = !self->serves_on;
        if (self->other->parker != NULL)
            self->other->parker->wake(self->other->parker);
    }
}

static void test_two_fibers_play_ping_pong(void **state)
{
    (void)state;
    struct journal journal = {0};
    bool turn = false;
    struct player ping = {&journal, 'i', NULL, NULL, &turn, false};
    struct player pong = {&journal, 'o', NULL, &ping, &turn, true};
    ping.other = &pong;
    struct loop *loop = loop_new(2);
    assert_true(fiber_spawn(loop, "ping", play, &ping));
    assert_true(fiber_spawn(loop, "pong", play, &pong));
    run_to_its_end(loop);
    assert_string_equal(journal.text, "ioioioioioioioioioio");
    loop_free(loop);
}

static void wake_five_times(void *argument)
{
    struct parker *parker = argument;
    for (int i = 0; i < 5; i++)
        parker->wake(parker);
}

static void park_after_wakes(struct journal *journal)
{
    struct parker *self = fiber_parker();
    journal_add(journal, self->park(self, CLOCK_NEVER) ? 'w' : 'd');
    journal_add(journal, self->park(self, clock_boot_us()) ? 'w' : 'd');
}

static void wake_itself(void *argument)
{
    wake_five_times(fiber_parker());
    park_after_wakes(argument);
}

static void be_woken_by_a_thread(void *argument)
{
    struct thread thread;
    CHECK(thread_start(&thread, "waker", wake_five_times, fiber_parker()));
    thread_join(&thread);
    fiber_sleep_until(clock_boot_us());
    park_after_wakes(argument);
}

static void test_wakes_before_a_park_are_remembered_as_one(void **state)
{
    (void)state;
    struct journal journal = {0};
    struct loop *loop = loop_new(1);
    assert_true(fiber_spawn(loop, "woken", wake_itself, &journal));
    run_to_its_end(loop);
    assert_string_equal(journal.text, "wd");
    loop_free(loop);
}

static void test_wakes_of_another_thread_before_a_park_are_remembered_as_one(void **state)
{
    (void)state;
    struct journal journal = {0};
    struct loop *loop = loop_new(1);
    assert_true(fiber_spawn(loop, "woken", be_woken_by_a_thread, &journal));
    run_to_its_end(loop);
    assert_string_equal(journal.text, "wd");
    loop_free(loop);
}

static void wake_then_sleep_then_wait(void *argument)
{
    struct parker *self = fiber_parker();
    self->wake(self);
    fiber_sleep_until(clock_boot_us());
    journal_add(argument, fiber_wait(NULL, 0, CLOCK_NEVER) == FIBER_WOKEN ? 'w' : 'd');
}

static void test_a_sleep_leaves_a_wake_to_the_next_wait(void **state)
{
    (void)state;
    struct journal journal = {0};
    struct loop *loop = loop_new(1);
    assert_true(fiber_spawn(loop, "woken", wake_then_sleep_then_wait, &journal));
    run_to_its_end(loop);
    assert_string_equal(journal.text, "w");
    loop_free(loop);
}

static void tell_parker(void *argument)
{
    *(struct parker **)argument = fiber_parker();
}

static void test_a_wake_after_the_fiber_has_ended_does_no_harm(void **state)
{
    (void)state;
    struct parker *ended = NULL;
    struct journal journal = {0};
    struct sleeper sleeper = {&journal, 's', clock_boot_us()};
    struct loop *loop = loop_new(1);
    assert_true(fiber_spawn(loop, "ended", tell_parker, &ended));
    run_to_its_end(loop);
    wake_five_times(ended);
    assert_true(fiber_spawn(loop, "next", sleep_and_note, &sleeper));
    wake_five_times(ended);
    run_to_its_end(loop);
    assert_string_equal(journal.text, "s");
    loop_free(loop);
}

/* ---- threads ---- */

#define STRESS_WAKES 50000
#define STRESS_AHEAD 8

/* Two threads send; the fiber takes. A sender goes at most STRESS_AHEAD ahead of the fiber, so
 * that the fiber parks often and each lost wake would stop all. */
struct stress {
    struct parker *parker;
    atomic_int sent[2];
    atomic_int taken[2];
    struct thread thread[2];
    struct stress_sender {
        struct stress *stress;
        int i;
    } sender[2];
};

static void stress_send(void *argument)
{
    struct stress_sender *sender = argument;
    struct stress *stress = sender->stress;
    for (int i = 0; i < STRESS_WAKES; i++) {
        while (i - atomic_load(&stress->taken[sender->i]) >= STRESS_AHEAD)
            sched_yield();
        atomic_fetch_add(&stress->sent[sender->i], 1);
        stress->parker->wake(stress->parker);
    }
}

static bool stress_take(struct stress *stress)
{
    bool took = false;
    for (int i = 0; i < 2; i++) {
        int sent = atomic_load(&stress->sent[i]);
        took = took || sent != atomic_load(&stress->taken[i]);
        atomic_store(&stress->taken[i], sent);
    }
    return took;
}

static void stress_run(void *argument)
{
    struct stress *stress = argument;
    stress->parker = fiber_parker();
    for (int i = 0; i < 2; i++) {
        stress->sender[i] = (struct stress_sender){stress, i};
        CHECK(thread_start(&stress->thread[i], "sender", stress_send, &stress->sender[i]));
    }
    while (atomic_load(&stress->taken[0]) + atomic_load(&stress->taken[1]) < 2 * STRESS_WAKES)
        if (!stress_take(stress))
            stress->parker->park(stress->parker, CLOCK_NEVER);
    for (int i = 0; i < 2; i++)
        thread_join(&stress->thread[i]);
}

static void test_no_wake_of_100000_from_two_threads_is_lost(void **state)
{
    (void)state;
    struct stress stress = {0};
    struct loop *loop = loop_new(1);
    assert_true(fiber_spawn(loop, "stress", stress_run, &stress));
    run_to_its_end(loop);
    assert_int_equal(atomic_load(&stress.taken[0]), STRESS_WAKES);
    assert_int_equal(atomic_load(&stress.taken[1]), STRESS_WAKES);
    loop_free(loop);
}

/* Two fibers of two loops hand a ball to each other. */
struct side {
    struct loop *loop;
    _Atomic(struct parker *) parker;
    struct side *other;
    atomic_int *ball;
    int parity;
    struct thread thread;
};

static void side_play(void *argument)
{
    struct side *self = argument;
    struct parker *mine = fiber_parker();
    atomic_store(&self->parker, mine);
    while (atomic_load(self->ball) < 2000) {
        if (atomic_load(self->ball) % 2 != self->parity) {
            mine->park(mine, CLOCK_NEVER);
            continue;
        }
        atomic_fetch_add(self->ball, 1);
        struct parker *theirs = atomic_load(&self->other->parker);
        if (theirs != NULL)
            theirs->wake(theirs);
    }
}

static void side_run(void *argument)
{
    struct side *self = argument;
    run_to_its_end(self->loop);
}

static void test_fibers_of_two_loops_wake_each_other(void **state)
{
    (void)state;
    atomic_int ball = 0;
    struct side side[2] = {{.parity = 0}, {.parity = 1}};
    for (int i = 0; i < 2; i++) {
        side[i].loop = loop_new(1);
        side[i].other = &side[1 - i];
        side[i].ball = &ball;
        assert_true(fiber_spawn(side[i].loop, "side", side_play, &side[i]));
    }
    for (int i = 0; i < 2; i++)
        assert_true(thread_start(&side[i].thread, "side", side_run, &side[i]));
    for (int i = 0; i < 2; i++)
        thread_join(&side[i].thread);
    assert_int_equal(atomic_load(&ball), 2000);
    for (int i = 0; i < 2; i++)
        loop_free(side[i].loop);
}

/* ---- posts and stop ---- */

struct letter {
    struct loop_post post;
    struct journal *journal;
    char letter;
    struct loop *loop;
};

static void letter_read(void *argument)
{
    struct letter *letter = argument;
    CHECK(fiber_self() == NULL && loop_current() == letter->loop);
    journal_add(letter->journal, letter->letter);
}

static void test_posts_are_called_outside_fibers_in_the_order_posted(void **state)
{
    (void)state;
    struct journal journal = {0};
    struct loop *loop = loop_new(1);
    struct letter letters[4];
    for (int i = 0; i < 4; i++) {
        letters[i] = (struct letter){{letter_read, &letters[i], NULL}, &journal, "wxyz"[i], loop};
        loop_post(loop, &letters[i].post);
    }
    run_to_its_end(loop);
    assert_string_equal(journal.text, "wxyz");
    assert_null(loop_current());
    loop_free(loop);
}

struct spawner {
    struct loop_post post;
    struct loop *loop;
    struct turns turns;
};

static void spawn_in_post(void *argument)
{
    struct spawner *spawner = argument;
    CHECK(fiber_spawn(spawner->loop, "posted", take_three_turns, &spawner->turns));
}

static void post_then_stop(void *argument)
{
    struct spawner *spawner = argument;
    loop_post(spawner->loop, &spawner->post);
    loop_stop(spawner->loop);
}

static void test_a_stopped_loop_runs_what_was_posted_before_and_its_fibers_to_their_end(
    void **state)
{
    (void)state;
    struct journal journal = {0};
    struct loop *loop = loop_new(1);
    struct spawner spawner = {.loop = loop, .turns = {&journal, 'p'}};
    spawner.post = (struct loop_post){spawn_in_post, &spawner, NULL};
    struct thread thread;
    assert_true(thread_start(&thread, "poster", post_then_stop, &spawner));
    loop_run(loop);
    thread_join(&thread);
    assert_string_equal(journal.text, "ppp");
    loop_free(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fibers_that_yield_take_turns),
        cmocka_unit_test(test_fibers_may_switch_without_end),
        cmocka_unit_test(test_deadlines_pass_in_their_order_not_in_that_of_the_sleepers),
        cmocka_unit_test(test_two_fibers_play_ping_pong),
        cmocka_unit_test(test_wakes_before_a_park_are_remembered_as_one),
        cmocka_unit_test(test_wakes_of_another_thread_before_a_park_are_remembered_as_one),
        cmocka_unit_test(test_a_sleep_leaves_a_wake_to_the_next_wait),
        cmocka_unit_test(test_a_wake_after_the_fiber_has_ended_does_no_harm),
        cmocka_unit_test(test_no_wake_of_100000_from_two_threads_is_lost),
        cmocka_unit_test(test_fibers_of_two_loops_wake_each_other),
        cmocka_unit_test(test_posts_are_called_outside_fibers_in_the_order_posted),
        cmocka_unit_test(
            test_a_stopped_loop_runs_what_was_posted_before_and_its_fibers_to_their_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
