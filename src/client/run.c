/* SPDX-License-Identifier: Apache-2.0 */
#include "client/run.h"

#include "base/check.h"
#include "base/mem.h"
#include "fiber/fiber.h"

struct run {
    struct runner_executor executor; /* first: the two are cast into each other */
    struct runner_executor *inner;
    struct thread_parker parker;
    const struct runner_attempt *attempt; /* the one under way */
    struct runner_end *end;
};

static void run_fiber(void *argument)
{
    struct run *run = argument;
    run->inner->run(run->inner, run->attempt, run->end);
}

static void run_attempt_loop(struct runner_executor *executor, const struct runner_attempt *attempt,
                             struct runner_end *ret_end)
{
    struct run *run = (struct run *)executor;
    struct loop *loop = loop_new(1);
    run->attempt = attempt;
    run->end = ret_end;
    if (loop && fiber_spawn(loop, "attempt", run_fiber, run)) {
        loop_stop(loop);
        loop_run(loop);
    } else {
        ret_end->class = RETRY_LATER;
        ret_end->write = WRITE_RELEASE;
        ret_end->note = "out of memory";
    }
    loop_free(loop);
}

bool client_run(struct runner *runner, enum runner_result *ret_result)
{
    struct run *run = mem_zalloc(1, sizeof *run);
    CHECK(runner->executor && !loop_current());
    if (!run)
        return false;
    run->executor.run = run_attempt_loop;
    run->inner = runner->executor;
    thread_parker_init(&run->parker);
    runner->executor = &run->executor;
    runner->parker = &run->parker.parker;
    *ret_result = runner_run(runner);
    if (*ret_result == RUNNER_NOT_STORED) /* the store will wake the parker */
        return true;
    thread_parker_fini(&run->parker);
    mem_free(run);
    return true;
}
