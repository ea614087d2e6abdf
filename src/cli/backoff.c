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
    uint64_t seed = options->seed == NO_SEED ? random_u64() : (uint64_t)options->seed;
    if (options->csv)
        puts("attempt,delay_ms");
    for (int attempt = 1; attempt <= schedule->attempts; attempt++) {
        int64_t delay = attempt == 1 ? 0 : retry_delay_us(schedule, attempt, seed);
        printf(format_of(options), attempt, (long long)(delay / CLOCK_US_PER_MS));
    }
}

int command_backoff(enum command_id id, struct operands at)
{
    static const struct flag_place places[FLAG_COUNT] = {
        [FLAG_SEED] = FLAG_PLACE(struct backoff_options, seed),
        [FLAG_CSV] = FLAG_PLACE(struct backoff_options, csv),
        [FLAG_JSON] = FLAG_PLACE(struct backoff_options, json)};
    struct backoff_options options = {.seed = NO_SEED};
    enum retry_profile profile;
    int code = command_read(id, &at, places, &options);
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
