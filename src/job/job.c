/* SPDX-License-Identifier: Apache-2.0 */
#include "job/job.h"

#include "base/check.h"
#include "base/crypto/random.h"
#include "base/text/shell.h"
#include "core/request/payload.h"
#include "core/web/origin.h"
#include <assert.h>

#define ORIGIN_BYTES ((size_t)16 * 1024)
#define COMMAND_SHOWN ((size_t)1024)      /* bytes of a command line, for people, */
#define COMMAND_BYTES (8 * COMMAND_SHOWN) /*   and as they are quoted */
#define COUNT_US (INT64_C(10) * CLOCK_US_PER_S)

struct digest job_payload_of(const char *const *argv)
{
    struct digest_stream stream;
    digest_start(&stream);
    digest_add_sized(&stream, SLICE("pawl1 argv"));
    for (; *argv; argv++)
        digest_add_sized(&stream, slice_of(*argv));
    return digest_end(&stream);
}

static void write_origin(struct job *job, const struct job_settings *settings)
{
    shell_add_line(&job->command, job->process.argv, COMMAND_SHOWN);
    const struct origin origin = {
        .method = SLICE("run"), .path = buf_slice(&job->command), .client = settings->client};
    origin_write(&origin, &job->origin);
    job->process.command = buf_slice(&job->command);
}

static const struct retry_schedule *schedule_of(enum retry_profile profile)
{
    CHECK(profile <= RETRY_PROFILE_COUNT);
    static const struct retry_schedule once = {
        .form = RETRY_BACKOFF, .attempts = 1, .total_us = CLOCK_NEVER, .cap_us = CLOCK_NEVER};
    return profile == RETRY_PROFILE_COUNT ? &once : retry_profile_schedule(profile);
}

void job_fill_runner(struct runner *runner, const struct job_settings *settings)
{
    runner->engine = settings->engine;
    runner->schedule = schedule_of(settings->profile);
    runner->profile = settings->profile;
    runner->is_job = true;
    runner->seed = random_u64();
    runner->total_us = CLOCK_NEVER;
    runner->timeout_us = settings->timeout_us;
    runner->wait_us = settings->wait_us;
    runner->gate = settings->gate;
    runner->attempt.rule = settings->rule;
    runner->attempt.begin.ttl_us = settings->ttl_us;
    runner->attempt.begin.window = settings->is_window;
    runner->attempt.begin.unknown = settings->unknown;
    runner->attempt.begin.first = RECORD_FIRST_RESTORED;
    runner->attempt.begin.replaces = true;
}

bool job_prepare(struct job *job, const struct job_settings *settings, struct digest payload)
{
    CHECK(settings->engine && settings->ttl_us > 0);
    struct runner *runner = &job->runner;
    job->process.settings = &settings->process;
    process_init(&job->process);
    job->origin = buf_make(ORIGIN_BYTES);
    job->command = buf_make(COMMAND_BYTES);
    write_origin(job, settings);
    job_fill_runner(runner, settings);
    runner->executor = &job->process.executor;
    runner->attempt.key = job->process.key;
    runner->attempt.recipe = SLICE(PAYLOAD_RECIPE_JOB);
    runner->attempt.origin = buf_slice(&job->origin);
    runner->attempt.begin.payload_hash = payload;
    runner->attempt.begin.lease_us = JOB_LEASE_US;
    return buf_ok(&job->origin) && buf_ok(&job->command);
}

void job_fini(struct job *job)
{
    process_fini(&job->process);
    buf_fini(&job->origin);
    buf_fini(&job->command);
}

/* What an operator resolved says whether it was done, and no more. */
static int kept_code(const struct runner *runner)
{
    int code = runner->outcome ? output_exit_code(runner->outcome) : OUTPUT_NO_CODE;
    bool failed = runner->attempt.result.record.status == RECORD_FAILED;
    return code != OUTPUT_NO_CODE ? code : failed ? EXIT_FINAL_ERROR : EXIT_DONE;
}

int job_exit_code(const struct job *job, enum runner_result result)
{
    const struct runner *runner = &job->runner;
    switch (result) {
    case RUNNER_DONE:
    case RUNNER_FINAL:
    case RUNNER_ENDED:
        return job->process.exit_code;
    case RUNNER_REPLAYED:
    case RUNNER_FOUND:
        return kept_code(runner);
    case RUNNER_STOPPED:
        return runner->course.attempts > 0 ? job->process.exit_code : EXIT_TRY_AGAIN;
    case RUNNER_HELD:
    case RUNNER_NOT_STORED:
        return EXIT_OUTCOME_UNKNOWN;
    case RUNNER_MISMATCH:
        return EXIT_BAD_DATA;
    case RUNNER_IN_PROGRESS:
    case RUNNER_UNPROVED:
        return EXIT_TRY_AGAIN;
    case RUNNER_STORE_DOWN:
        return store_closed_by(&runner->attempt.result) == STORE_FROZEN ? EXIT_TRY_AGAIN
                                                                        : EXIT_UNAVAILABLE;
    case RUNNER_LOST:
        return EXIT_FAIL_STOP;
    }
    UNREACHABLE();
}

static_assert(offsetof(struct job_parker, parker) == 0, "parkers are cast into job_parkers");

static bool park(struct parker *parker, int64_t deadline_us)
{
    const struct job_parker *own = (const struct job_parker *)parker;
    bool woken = parker->waker->park(parker->waker, deadline_us);
    parker->interrupted = own->gate->closed;
    return woken;
}

void job_parker_init(struct job_parker *parker, struct parker *fiber,
                     const struct runner_gate *gate)
{
    *parker = (struct job_parker){.parker = {.park = park, .waker = fiber}, .gate = gate};
}

void job_count(struct store *store, enum tally_event event, int64_t n, struct parker *parker)
{
    CHECK(n > 0);
    struct tally tally;
    tally_init(&tally, RETRY_PROFILE_COUNT, (int64_t)(random_u64() >> 1));
    tally_add(&tally, event, n);
    struct store_op op = {.kind = STORE_ROWS, .brings = tally.changes, .n_brings = tally.n};
    store_run(store, &op, parker, clock_after(clock_boot_us(), COUNT_US));
}
