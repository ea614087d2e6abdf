/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl backoff`: the delays of a retry profile (core/retry/retry.h). */
#include "base/check.h"
#include "base/crypto/random.h"
#include "cli/command/command.h"
#include "cli/command/profile.h"
#include <stdio.h>

#define NO_SEED INT64_C(-1)

struct backoff_options {
    int64_t seed;
    bool csv;
    bool json;
};

static const char *format_of(const struct backoff_options *options)
{
    if (options->json)
        return "{\"attempt\":%d,\"delay_ms\":%lld}\n";
    return options->csv ? "%d,%lld\n" : "%d  %lld ms\n";
}

static void print_delays(const struct retry_schedule *schedule,
                         const struct backoff_options *options)
{
    CHECK(schedule->attempts > 0 && schedule->attempts <= RETRY_ATTEMPTS_MAX);
    uint64_t seed = options->seed == NO_SEED ? random_u64() : (uint64_t)options->seed;
    if (options->csv)
        puts("attempt,delay_ms");
    for (int attempt = 1; attempt <= schedule->attempts; attempt++) {
        int64_t delay = attempt == 1 ? 0 : retry_delay_us(schedule, attempt, seed);
        printf(format_of(options), attempt, (long long)(delay / CLOCK_US_PER_MS));
    }
}

static int run_backoff(const struct command *command, struct operands at)
{
    struct backoff_options options = {.seed = NO_SEED};
    enum retry_profile profile;
    int code = command_read(command, &at, &options);
    if (code != EXIT_DONE)
        return code;
    if (options.csv && options.json)
        return command_misused("backoff", "--csv and --json exclude each other");
    code = profile_find("backoff", at.at[0], &profile);
    if (code != EXIT_DONE)
        return code;
    print_delays(retry_profile_schedule(profile), &options);
    return EXIT_DONE;
}

/* ---- the row ---- */

#define OPTIONS struct backoff_options
const struct command command_backoff = {
    .name = "backoff",
    .summary = "print how long a retry profile waits before each attempt",
    .synopsis = "PROFILE [--seed N] [--csv | --json]",
    .about = "Prints each attempt of a profile and how long after the end of the one before it "
             "begins, in milliseconds. Delays are partly random, so that clients that failed "
             "together do not retry together; the same seed gives the same delays. The profiles "
             "are user_facing, api, background, scheduled, webhook and queue. With --json each "
             "attempt is an object on a line of its own.",
    .operand = "PROFILE",
    .operands = {1, 1},
    .flags = FLAGS(FLAG(seed, "seed", 0, "N", INT(0, INT64_C(9007199254740991)),
                        "the same delays each time (default: other ones)"),
                   SWITCH(csv, "csv", 0, "print CSV: attempt,delay_ms"), FLAG_JSON(json)),
    .exits = {{EXIT_USAGE, NULL}},
    .run = run_backoff,
};
