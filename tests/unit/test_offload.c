/* SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"
#include "base/clock.h"
#include "base/thread.h"
#include "fiber/fiber.h"
#include "fiber/offload.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>

#include <cmocka.h>

/* A door that jobs wait behind. */
struct gate {
    struct mutex mutex;
    struct cond changed;
    bool open;
    int waiting;
};

static void gate_init(struct gate *gate)
{
    *gate = (struct gate){0};
    mutex_init(&gate->mutex);
    cond_init(&gate->changed);
}

static void gate_fini(struct gate *gate)
{
    mutex_fini(&gate->mutex);
    cond_fini(&gate->changed);
}

static void gate_pass(void *argument)
{
    struct gate *gate = argument;
    mutex_lock(&gate->mutex);
    gate->waiting++;
    cond_broadcast(&gate->changed);
    while (!gate->open)
        cond_wait(&gate->changed, &gate->mutex);
    mutex_unlock(&gate->mutex);
}

static void gate_await(struct gate *gate, int waiting)
{
    mutex_lock(&gate->mutex);
    while (gate->waiting < waiting)
        cond_wait(&gate->changed, &gate->mutex);
    mutex_unlock(&gate->mutex);
}

static void gate_open(struct gate *gate)
{
    mutex_lock(&gate->mutex);
    gate->open = true;
    cond_broadcast(&gate->changed);
    mutex_unlock(&gate->mutex);
}

struct visit {
    struct workers *workers;
    struct gate *gate;
    bool ran;
};

static void visit_run(void *argument)
{
    struct visit *visit = argument;
    visit->ran = fiber_offload(visit->workers, gate_pass, visit->gate);
}

/* The loop runs on a thread of its own: a thread that ran a loop may not block afterwards. */
static void on_a_thread(void (*run)(void *), void *argument)
{
    struct thread thread;
    assert_true(thread_start(&thread, "test", run, argument));
    thread_join(&thread);
}

static void run_loop_to_its_end(void *loop)
{
    loop_stop(loop);
    loop_run(loop);
}

struct record_thread {
    struct workers *workers;
    pthread_t caller;
    pthread_t worker;
    bool worker_is_loop;
};

static void note_worker(void *argument)
{
    struct record_thread *record = argument;
    record->worker = pthread_self();
    record->worker_is_loop = thread_is_loop();
}

static void note_caller(void *argument)
{
    struct record_thread *record = argument;
    record->caller = pthread_self();
    CHECK(fiber_offload(record->workers, note_worker, record));
}

static void test_a_fibers_job_runs_on_a_thread_that_may_block(void **state)
{
    (void)state;
    struct loop *loop = loop_new(1);
    struct record_thread record = {.workers = workers_new(1, 1)};
    assert_non_null(record.workers);
    assert_true(fiber_spawn(loop, "caller", note_caller, &record));
    on_a_thread(run_loop_to_its_end, loop);
    assert_false(pthread_equal(record.caller, record.worker));
    assert_false(record.worker_is_loop);
    workers_free(record.workers);
    loop_free(loop);
}

static void opens_gate(void *argument)
{
    gate_open(argument);
}

static void test_other_fibers_run_while_one_waits_for_its_job(void **state)
{
    (void)state;
    struct gate gate;
    gate_init(&gate);
    struct loop *loop = loop_new(2);
    struct visit visit = {.workers = workers_new(1, 1), .gate = &gate};
    assert_true(fiber_spawn(loop, "waits", visit_run, &visit));
    assert_true(fiber_spawn(loop, "opens", opens_gate, &gate));
    on_a_thread(run_loop_to_its_end, loop);
    assert_true(visit.ran);
    workers_free(visit.workers);
    loop_free(loop);
    gate_fini(&gate);
}

static void test_a_thread_without_a_loop_blocks_until_its_job_has_ended(void **state)
{
    (void)state;
    struct record_thread record = {.workers = workers_new(2, 1)};
    on_a_thread(note_caller, &record);
    assert_false(pthread_equal(record.caller, record.worker));
    workers_free(record.workers);
}

static void test_a_full_queue_refuses_and_runs_nothing(void **state)
{
    (void)state;
    struct gate gate;
    gate_init(&gate);
    struct workers *workers = workers_new(1, 1);
    struct visit taken = {workers, &gate, false}, queued = taken, refused = taken;
    struct thread first;
    assert_true(thread_start(&first, "first", visit_run, &taken));
    gate_await(&gate, 1);
    /* The worker is busy: of the next two, whichever comes second is refused. */
    struct loop *loop = loop_new(3);
    assert_true(fiber_spawn(loop, "queued", visit_run, &queued));
    assert_true(fiber_spawn(loop, "refused", visit_run, &refused));
    assert_true(fiber_spawn(loop, "opens", opens_gate, &gate));
    on_a_thread(run_loop_to_its_end, loop);
    thread_join(&first);
    assert_true(taken.ran);
    assert_true(queued.ran);
    assert_false(refused.ran);
    assert_int_equal(gate.waiting, 2);
    workers_free(workers);
    loop_free(loop);
    gate_fini(&gate);
}

static void count_up(void *argument)
{
    atomic_fetch_add((atomic_int *)argument, 1);
}

struct many {
    struct workers *workers;
    atomic_int count;
};

static void offload_many(void *argument)
{
    struct many *many = argument;
    for (int i = 0; i < 500; i++)
        CHECK(fiber_offload(many->workers, count_up, &many->count));
}

static void test_every_job_runs_once_and_wakes_its_fiber(void **state)
{
    (void)state;
    struct loop *loop = loop_new(8);
    struct many many = {.workers = workers_new(2, 8)};
    for (int i = 0; i < 8; i++)
        assert_true(fiber_spawn(loop, "many", offload_many, &many));
    on_a_thread(run_loop_to_its_end, loop);
    assert_int_equal(atomic_load(&many.count), 4000);
    workers_free(many.workers);
    loop_free(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_fibers_job_runs_on_a_thread_that_may_block),
        cmocka_unit_test(test_other_fibers_run_while_one_waits_for_its_job),
        cmocka_unit_test(test_a_thread_without_a_loop_blocks_until_its_job_has_ended),
        cmocka_unit_test(test_a_full_queue_refuses_and_runs_nothing),
        cmocka_unit_test(test_every_job_runs_once_and_wakes_its_fiber),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
