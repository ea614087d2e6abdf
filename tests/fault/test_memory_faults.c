/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of base, core, store and engine made to fail, one after the other, and SQLite's
 * own too. Whoever is refused comes again, and nothing is lost or done twice. */
#include "fault_bed.h"

#include "base/mem.h"
#include "engine/engine.h"
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POINTS_MAX 200000
/* SQLite's allocations are 79,000, at 20 ms each: a part of them, and where sanitizers slow
 * everything down a smaller one, of pawl's own too. SQLITE_STEP=1 in the environment: all. */
#ifdef PAWL_SANITIZED
#define SQLITE_STEP 997
#define OWN_STEP 3
#else
#define SQLITE_STEP 101
#define OWN_STEP 1
#endif

/* SQLite's allocator: the n-th from now on fails; 0: none does. */
static sqlite3_mem_methods plain;
static long sqlite_left;
static bool sqlite_fired;

static bool sqlite_must_fail(void)
{
    if (sqlite_left == 0 || --sqlite_left > 0)
        return false;
    sqlite_fired = true;
    return true;
}

static void *sqlite_alloc(int size)
{
    return sqlite_must_fail() ? NULL : plain.xMalloc(size);
}

static void *sqlite_realloc(void *at, int size)
{
    return sqlite_must_fail() ? NULL : plain.xRealloc(at, size);
}

static void fail_nth(bool of_sqlite, long n)
{
    sqlite_fired = false;
    sqlite_left = of_sqlite ? n : 0;
    mem_fail_nth(of_sqlite ? 0 : n);
}

static bool has_fired(bool of_sqlite)
{
    return of_sqlite ? sqlite_fired : mem_fail_fired();
}

static bool one_fault(bool of_sqlite, long n)
{
    struct fault_bed bed;
    fault_bed_init(&bed);
    fail_nth(of_sqlite, n);
    fault_bed_story(&bed);
    bool fired = has_fired(of_sqlite);
    fail_nth(false, 0);
    assert_false(bed.dead);
    fault_bed_check(&bed);
    fault_bed_fini(&bed);
    return fired;
}

static long sqlite_step(void)
{
    uint64_t step = SQLITE_STEP;
    (void)slice_to_u64(slice_of(getenv("SQLITE_STEP")), POINTS_MAX, &step);
    return (long)step;
}

static void sweep(const char *what, bool of_sqlite)
{
    long n = 1, covered = 0;
    while (one_fault(of_sqlite, n)) {
        n += of_sqlite ? sqlite_step() : OWN_STEP;
        covered++;
        assert_in_range(n, 1, POINTS_MAX);
    }
    assert_true(covered > 0);
    print_message("%s: %ld failing allocations covered\n", what, covered);
}

static void any_allocation_of_the_store_may_fail(void **state)
{
    (void)state;
    sweep("store", false);
}

static void any_allocation_of_sqlite_may_fail(void **state)
{
    (void)state;
    sweep("SQLite", true);
}

/* ---- the engine, its cache included ---- */

static struct attempt attempt_on(const struct engine *engine, struct slice key)
{
    struct attempt attempt = {
        .tenant = SLICE("t"),
        .rule = SLICE("r"),
        .key = key,
        .recipe = SLICE("recipe"),
        .begin = {.lease_us = LEASE, .ttl_us = TTL},
    };
    attempt.key_hash = engine_key_hash(engine, attempt.tenant, attempt.rule, key);
    return attempt;
}

static enum engine_verdict begin(struct fault_bed *bed, struct engine *engine,
                                 struct attempt *attempt)
{
    enum engine_verdict verdict = ENGINE_STORE_DOWN;
    for (int i = 0; i < 10 && verdict == ENGINE_STORE_DOWN; i++)
        verdict = engine_begin(engine, attempt, &bed->parker, CLOCK_NEVER);
    return verdict;
}

static bool is_replayed(struct fault_bed *bed, struct engine *engine, struct slice key)
{
    struct attempt attempt = attempt_on(engine, key);
    if (begin(bed, engine, &attempt) != ENGINE_REPLAY)
        return false;
    bool same = slice_eq(attempt.result.found->body, key);
    attempt_fini(&attempt);
    return same;
}

/* One operation, its outcome, its replay. */
static void operate(struct fault_bed *bed, struct engine *engine, struct slice key)
{
    struct attempt attempt = attempt_on(engine, key);
    assert_int_equal(begin(bed, engine, &attempt), ENGINE_PROCEED);
    assert_true(engine_may_send(&attempt));
    struct engine_act act = {.kind = STORE_FINISH, .final = RECORD_COMPLETE, .http_status = 201};
    while (!(act.outcome = outcome_new(201, false, SLICE("A: b\r\n"), key)))
        ;
    engine_write(engine, &attempt, &act, &bed->parker);
    assert_true(engine_wait(&attempt, &bed->parker, CLOCK_NEVER));
    assert_int_equal(engine_written(engine, &attempt), ENGINE_STORED);
    outcome_unref(act.outcome);
    assert_true(is_replayed(bed, engine, key));
    assert_true(is_replayed(bed, engine, key));
}

static void any_allocation_of_the_engine_may_fail(void **state)
{
    (void)state;
    bool fired = true;
    long n = 0;
    while (fired) {
        struct fault_bed bed;
        struct engine *engine = NULL;
        fault_bed_init(&bed);
        assert_true(fault_bed_open(&bed));
        mem_fail_nth(++n);
        while (!(engine = engine_new(bed.store, 64 * 1024)))
            ;
        operate(&bed, engine, SLICE("one"));
        operate(&bed, engine, SLICE("two"));
        fired = mem_fail_fired();
        mem_fail_nth(0);
        operate(&bed, engine, SLICE("three"));
        assert_true(is_replayed(&bed, engine, SLICE("one")));
        engine_free(engine);
        fault_bed_fini(&bed);
    }
    assert_true(n > 1);
    print_message("engine: %ld failing allocations covered\n", n - 1);
}

int main(void)
{
    sqlite3_config(SQLITE_CONFIG_GETMALLOC, &plain);
    sqlite3_mem_methods failing = plain;
    failing.xMalloc = sqlite_alloc;
    failing.xRealloc = sqlite_realloc;
    if (!plain.xMalloc || sqlite3_config(SQLITE_CONFIG_MALLOC, &failing) != SQLITE_OK)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_allocation_of_the_store_may_fail),
        cmocka_unit_test(any_allocation_of_sqlite_may_fail),
        cmocka_unit_test(any_allocation_of_the_engine_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
