/* SPDX-License-Identifier: Apache-2.0 */
/* thread, park, clock, random */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/crypto/random.h"
#include "base/park.h"

#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DRAWS 200

struct seen {
    char name[16];
    bool loop_before;
    bool loop_within;
    bool loop_after;
};

static void look(void *argument)
{
    struct seen *seen = argument;
    pthread_getname_np(pthread_self(), seen->name, sizeof(seen->name));
    seen->loop_before = thread_is_loop();
    thread_mark_loop(true);
    seen->loop_within = thread_is_loop();
    thread_mark_loop(false);
    seen->loop_after = thread_is_loop();
}

static void a_thread_has_its_name_and_its_own_loop_mark(void **state)
{
    struct thread thread;
    struct seen seen = {0};
    (void)state;
    assert_true(thread_start(&thread, "fifteen-letters", look, &seen));
    thread_join(&thread);
    assert_string_equal(seen.name, "fifteen-letters");
    assert_false(seen.loop_before);
    assert_true(seen.loop_within);
    assert_false(seen.loop_after);
    assert_false(thread_is_loop());
}

static void a_condition_gives_up_when_its_time_passed(void **state)
{
    struct mutex mutex;
    struct cond cond;
    (void)state;
    mutex_init(&mutex);
    cond_init(&cond);
    mutex_lock(&mutex);
    int64_t start_us = clock_boot_us();
    while (cond_wait_for(&cond, &mutex, 2 * CLOCK_US_PER_MS))
        ;
    assert_true(clock_boot_us() - start_us >= 2 * CLOCK_US_PER_MS);
    while (cond_wait_for(&cond, &mutex, -1))
        ;
    mutex_unlock(&mutex);
    cond_fini(&cond);
    mutex_fini(&mutex);
}

#define ROUNDS 1000
#define SPINS 256

struct relay {
    struct thread_parker parkers[2];
    int turn; /* of whom; atomic */
    int done;
};

static void take_turns(struct relay *relay, int me)
{
    for (int i = 0; i < ROUNDS; i++) {
        while (__atomic_load_n(&relay->turn, __ATOMIC_ACQUIRE) != me)
            relay->parkers[me].parker.park(&relay->parkers[me].parker, CLOCK_NEVER);
        relay->done++;
        __atomic_store_n(&relay->turn, 1 - me, __ATOMIC_RELEASE);
        relay->parkers[1 - me].parker.wake(&relay->parkers[1 - me].parker);
    }
}

static void second_runner(void *argument)
{
    take_turns(argument, 1);
}

static void two_threads_park_and_wake_each_other_without_losing_a_wake(void **state)
{
    struct relay relay = {0};
    struct thread thread;
    (void)state;
    thread_parker_init(&relay.parkers[0]);
    thread_parker_init(&relay.parkers[1]);
    assert_true(thread_start(&thread, "second", second_runner, &relay));
    take_turns(&relay, 0);
    thread_join(&thread);
    assert_int_equal(relay.done, 2 * ROUNDS);
    thread_parker_fini(&relay.parkers[0]);
    thread_parker_fini(&relay.parkers[1]);
}

struct waiter {
    struct parker *parker;
    atomic_int word; /* 0: asked of the publisher; 1: published */
};

struct publisher {
    _Atomic(struct waiter *) asks; /* whoever waits at this moment */
    atomic_bool stop;
};

/* Where the other thread has no core of its own, it gets this one. */
static void spin(int *spins)
{
    if (++*spins % SPINS == 0)
        sched_yield();
}

static void publish_for_all(void *argument)
{
    struct publisher *publisher = argument;
    int spins = 0;
    while (!atomic_load(&publisher->stop)) {
        struct waiter *waiter = atomic_exchange(&publisher->asks, NULL);
        if (waiter)
            parker_publish(waiter->parker, &waiter->word, 1);
        else
            spin(&spins);
    }
}

/* Whether the wait ended by a wake or by a look at the word, the parker is gone at once. */
static void wait_once(struct publisher *publisher, bool looks)
{
    struct thread_parker own;
    struct waiter waiter = {.parker = &own.parker};
    int spins = 0;
    thread_parker_init(&own);
    atomic_store(&publisher->asks, &waiter);
    while (atomic_load_explicit(&waiter.word, memory_order_acquire) == 0)
        if (looks)
            spin(&spins);
        else
            own.parker.park(&own.parker, CLOCK_NEVER);
    thread_parker_fini(&own);
    memset(&own, 0xff, sizeof own);
}

static void a_parker_may_go_as_soon_as_its_owner_saw_what_was_published(void **state)
{
    struct publisher publisher = {.asks = NULL};
    struct thread thread;
    (void)state;
    assert_true(thread_start(&thread, "publisher", publish_for_all, &publisher));
    for (int i = 0; i < 20 * ROUNDS; i++)
        wait_once(&publisher, i % 2);
    atomic_store(&publisher.stop, true);
    thread_join(&thread);
}

static void wakes_before_a_park_are_remembered_as_one(void **state)
{
    struct thread_parker own;
    struct parker *parker = &own.parker;
    (void)state;
    thread_parker_init(&own);
    parker->wake(parker);
    parker->wake(parker);
    assert_true(parker->park(parker, CLOCK_NEVER));
    assert_false(parker->park(parker, 0));
    int64_t deadline_us = clock_boot_us() + 2 * CLOCK_US_PER_MS;
    assert_false(parker->park(parker, deadline_us));
    assert_true(clock_boot_us() >= deadline_us);
    parker->wake(parker);
    assert_true(parker->park(parker, 0));
    thread_parker_fini(&own);
}

static void deadlines_add_without_overflow(void **state)
{
    (void)state;
    assert_true(clock_after(5, 6) == 11);
    assert_true(clock_after(5, CLOCK_NEVER) == CLOCK_NEVER);
    assert_true(clock_after(CLOCK_NEVER, 5) == CLOCK_NEVER);
    assert_true(clock_after(-5, CLOCK_NEVER) == CLOCK_NEVER - 5);
}

static void milliseconds_left_are_rounded_up_and_bounded(void **state)
{
    (void)state;
    assert_int_equal(clock_ms_left(100, 100), 0);
    assert_int_equal(clock_ms_left(100, 99), 0);
    assert_int_equal(clock_ms_left(100, 101), 1);
    assert_int_equal(clock_ms_left(0, 1000), 1);
    assert_int_equal(clock_ms_left(0, 1001), 2);
    assert_int_equal(clock_ms_left(0, CLOCK_NEVER), -1);
    assert_int_equal(clock_ms_left(INT64_MIN, CLOCK_NEVER - 1), 86400000);
}

static void the_boot_clock_never_goes_back(void **state)
{
    int64_t last_us = clock_boot_us();
    (void)state;
    for (int i = 0; i < 1000; i++) {
        int64_t now_us = clock_boot_us();
        assert_true(now_us >= last_us);
        last_us = now_us;
    }
}

static void random_bytes_fill_all_of_the_place_and_no_more(void **state)
{
    unsigned char bytes[1002] = {0};
    int seen[1000] = {0};
    (void)state;
    for (int round = 0; round < 16; round++) {
        random_bytes(bytes + 1, 1000);
        for (int i = 0; i < 1000; i++)
            seen[i] |= bytes[i + 1];
    }
    for (int i = 0; i < 1000; i++)
        assert_int_not_equal(seen[i], 0);
    assert_int_equal(bytes[0] | bytes[1001], 0);
    assert_true(random_u64() != random_u64());
}

static void draw_many(void *ret_numbers)
{
    uint64_t *numbers = ret_numbers;
    for (size_t i = 0; i < DRAWS; i++)
        numbers[i] = random_u64();
}

static void check_all_differ(const uint64_t *numbers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            assert_true(numbers[i] != numbers[j]);
}

static void a_forked_child_and_another_thread_draw_other_random_numbers(void **state)
{
    (void)state;
    uint64_t numbers[3 * DRAWS];
    struct thread thread;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    random_u64(); /* this thread has some in advance */
    pid_t pid = fork();
    assert_true(pid >= 0);
    draw_many(numbers);
    if (pid == 0)
        _exit(write(ends[1], numbers, sizeof *numbers * DRAWS) < 0);
    assert_true(thread_start(&thread, "draws", draw_many, numbers + DRAWS));
    thread_join(&thread);
    assert_int_equal(read(ends[0], numbers + 2 * DRAWS, sizeof *numbers * DRAWS),
                     sizeof *numbers * DRAWS);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    close(ends[0]);
    close(ends[1]);
    check_all_differ(numbers, 3 * DRAWS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_forked_child_and_another_thread_draw_other_random_numbers),
        cmocka_unit_test(a_thread_has_its_name_and_its_own_loop_mark),
        cmocka_unit_test(a_condition_gives_up_when_its_time_passed),
        cmocka_unit_test(two_threads_park_and_wake_each_other_without_losing_a_wake),
        cmocka_unit_test(a_parker_may_go_as_soon_as_its_owner_saw_what_was_published),
        cmocka_unit_test(wakes_before_a_park_are_remembered_as_one),
        cmocka_unit_test(deadlines_add_without_overflow),
        cmocka_unit_test(milliseconds_left_are_rounded_up_and_bounded),
        cmocka_unit_test(the_boot_clock_never_goes_back),
        cmocka_unit_test(random_bytes_fill_all_of_the_place_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
