/* SPDX-License-Identifier: Apache-2.0 */
/* 1,000 clients before a service that is down for 20 s and comes back, in virtual time: what
 * retries add to its load, and whether they come back together. Their retries go through one
 * budget, as those of a gateway do.
 *
 * usage: test_recovery FILE           compares with the series that docs' picture is drawn from
 *        test_recovery --print >FILE  writes it anew
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/check.h"
#include "core/retry/retry.h"

#define MS CLOCK_US_PER_MS
#define S 1000 /* in milliseconds, as all times below */
#define CLIENTS 1000
#define RUN (60 * S)
#define DOWN (20 * S) /* from then on */
#define BACK (40 * S) /* until then */
#define OPERATIONS (CLIENTS * (RUN / S))
#define STEP 500
#define BUCKET ((int)(RETRY_BUDGET_MOST / RETRY_TOKEN))
#define FILE_MAX ((size_t)64 * 1024)

static const char *path;

/* What the service says while it is down. */
enum outage {
    REFUSES,       /* nothing */
    SAYS_A_SECOND, /* Retry-After: 1 */
    SAYS_WHEN,     /* Retry-After: the date at which it is back */
};

struct world {
    enum outage outage;
    bool has_budget;
    struct retry_budget budget;
    int sent[RUN];  /* in this millisecond */
    int first[RUN]; /* of them for the first time */
    int due[RUN];   /* the first operation, as an index from 1 */
    int next[OPERATIONS + 1];
    struct retry_course courses[OPERATIONS + 1];
    bool begun[OPERATIONS + 1];
};

static void schedule(struct world *world, int operation, int64_t at)
{
    if (at >= RUN)
        return;
    world->next[operation] = world->due[at];
    world->due[at] = operation;
}

static int64_t hint_at(const struct world *world, int now)
{
    if (world->outage == SAYS_A_SECOND)
        return S * MS;
    return world->outage == SAYS_WHEN ? (BACK - now) * MS : RETRY_NO_HINT;
}

static void fail_attempt(struct world *world, int operation, int now)
{
    struct retry_course *course = &world->courses[operation];
    struct retry_next next = retry_plan_next(course, RETRY_LATER, hint_at(world, now), now * MS);
    if (next.end != RETRY_GOES_ON ||
        (world->has_budget && !retry_budget_take(&world->budget, now * MS)))
        return;
    course->attempts++;
    schedule(world, operation, next.at / MS);
}

static void attempt(struct world *world, int operation, int now)
{
    world->sent[now]++;
    if (!world->begun[operation]) {
        world->begun[operation] = true;
        world->first[now]++;
        retry_budget_add_request(&world->budget, now * MS);
        world->courses[operation] =
            retry_course_make(retry_profile_schedule(RETRY_PROFILE_user_facing),
                              (uint64_t)operation, now * MS, CLOCK_NEVER);
    }
    if (now >= DOWN && now < BACK)
        fail_attempt(world, operation, now);
}

/* Each client begins an operation a second, at a moment of its own. */
static struct world *run(enum outage outage, bool has_budget)
{
    struct world *world = calloc(1, sizeof *world);
    CHECK(world);
    world->outage = outage;
    world->has_budget = has_budget;
    world->budget = retry_budget_make(0);
    for (int i = 0; i < OPERATIONS; i++)
        schedule(world, i + 1, i / CLIENTS * S + (i * 7919) % CLIENTS);
    for (int now = 0; now < RUN; now++)
        while (world->due[now] > 0) {
            int operation = world->due[now];
            world->due[now] = world->next[operation];
            attempt(world, operation, now);
        }
    return world;
}

static int sum(const int *counts, int from, int to)
{
    int total = 0;
    for (int i = from; i < to; i++)
        total += counts[i];
    return total;
}

/* The most in `wide` ms that begin from then until then. */
static int most(const int *counts, int from, int to, int wide)
{
    int most = 0;
    for (int i = from; i < to; i++) {
        int one = sum(counts, i, i + wide);
        most = one > most ? one : most;
    }
    return most;
}

/* ---- the properties ---- */

static void the_budget_keeps_what_retries_add_under_a_fifth(void **state)
{
    (void)state;
    for (enum outage outage = REFUSES; outage <= SAYS_WHEN; outage++) {
        struct world *world = run(outage, true);
        int first = sum(world->first, DOWN, BACK);
        assert_int_equal(sum(world->first, 0, RUN), OPERATIONS);
        assert_true(sum(world->sent, 0, RUN) < OPERATIONS / 10 * 12);
        /* Beyond the fifth: what a full bucket held when it began. */
        assert_true(sum(world->sent, DOWN, BACK) <= first + first / 5 + BUCKET);
        free(world);
    }
}

static void without_a_budget_retries_multiply_the_load_of_a_service_that_is_down(void **state)
{
    struct world *world = run(REFUSES, false);
    (void)state;
    assert_true(sum(world->sent, DOWN, BACK) > 4 * sum(world->first, DOWN, BACK));
    /* Chance alone spreads them: no tenth of a second has much more than its part. */
    assert_in_range(most(world->sent, BACK - S, RUN - S, S / 10), CLIENTS / 2, CLIENTS * 6 / 10);
    free(world);
}

static void no_retries_come_together_once_the_service_is_back(void **state)
{
    (void)state;
    for (enum outage outage = REFUSES; outage <= SAYS_A_SECOND; outage++) {
        struct world *world = run(outage, true);
        /* A fifth, and what chance moves from one second into the next. */
        assert_true(most(world->sent, BACK, RUN - S, S) <= CLIENTS * 122 / 100);
        assert_true(most(world->sent, BACK, RUN - S, S / 10) <= CLIENTS * 14 / 100);
        assert_int_equal(sum(world->sent, BACK + 2 * S, RUN), 18 * CLIENTS);
        free(world);
    }
}

/* The budget counts what is to wait, and not when that comes. Those who were told one moment are
 * spread after it for as long as they waited, or as they have time: the first of them, who have
 * waited longest, have least time left, and so the first second has more than its part. */
static void those_that_wait_for_one_date_are_spread_after_it(void **state)
{
    struct world *world = run(SAYS_WHEN, true);
    int waited = 10 * CLIENTS / 5 + BUCKET; /* the profile's ten seconds */
    (void)state;
    assert_int_equal(sum(world->sent, DOWN, BACK), sum(world->first, DOWN, BACK));
    assert_in_range(sum(world->sent, BACK, RUN) - 20 * CLIENTS, waited * 9 / 10, waited);
    assert_true(most(world->sent, BACK, RUN - S, S) <= CLIENTS * 220 / 100);
    assert_true(most(world->sent, BACK, RUN - S, S / 10) <= CLIENTS * 70 / 100);
    assert_int_equal(sum(world->sent, BACK + 6 * S, RUN), 14 * CLIENTS);
    free(world);
}

/* ---- the series of the picture ---- */

static void write_series(struct buf *buf)
{
    struct world *bounded = run(REFUSES, true), *free_running = run(REFUSES, false);
    struct world *dated = run(SAYS_WHEN, true);
    buf_add_str(buf, "ms,first,with_budget,without,date\n");
    for (int at = DOWN - 5 * S; at < BACK + 5 * S; at += STEP)
        buf_printf(buf, "%d,%d,%d,%d,%d\n", at, sum(bounded->first, at, at + STEP),
                   sum(bounded->sent, at, at + STEP), sum(free_running->sent, at, at + STEP),
                   sum(dated->sent, at, at + STEP));
    free(dated);
    free(bounded);
    free(free_running);
}

static void the_published_series_is_that_of_this_run(void **state)
{
    static char published[FILE_MAX];
    BUF_AUTO struct buf made = buf_make(FILE_MAX);
    FILE *file = fopen(path, "re");
    (void)state;
    assert_non_null(file);
    size_t len = fread(published, 1, sizeof published, file);
    fclose(file);
    write_series(&made);
    assert_int_equal(len, made.len);
    assert_memory_equal(published, buf_slice(&made).at, len);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_budget_keeps_what_retries_add_under_a_fifth),
        cmocka_unit_test(without_a_budget_retries_multiply_the_load_of_a_service_that_is_down),
        cmocka_unit_test(no_retries_come_together_once_the_service_is_back),
        cmocka_unit_test(those_that_wait_for_one_date_are_spread_after_it),
        cmocka_unit_test(the_published_series_is_that_of_this_run),
    };
    if (argc != 2)
        return 2;
    path = argv[1];
    if (strcmp(path, "--print") != 0)
        return cmocka_run_group_tests(tests, NULL, NULL);
    BUF_AUTO struct buf made = buf_make(FILE_MAX);
    write_series(&made);
    printf("%.*s", SLICE_ARG(buf_slice(&made)));
    return 0;
}
