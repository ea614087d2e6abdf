/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "base/mem.h"
#include "store/committer/waiters.h"

#define N 200
#define CROWD ((size_t)60000)

static struct waiters *new_waiters(size_t max, size_t max_per_key)
{
    struct waiters *waiters = mem_zalloc(1, sizeof *waiters);
    assert_non_null(waiters);
    assert_true(waiters_init(waiters, max, max_per_key));
    return waiters;
}

static void free_waiters(struct waiters *waiters)
{
    while (waiters_take_any(waiters))
        continue;
    waiters_fini(waiters);
    mem_free(waiters);
}

/* Keys 0 and WAITERS_BUCKETS share a bucket. */
static struct digest key_of(uint64_t n)
{
    struct digest key = {0};
    memcpy(key.bytes, &n, sizeof n);
    return key;
}

static struct store_op op_on(uint64_t key, int64_t wake_at)
{
    return (struct store_op){.key_hash = key_of(key), .own.wake_at = wake_at};
}

static void the_oldest_of_a_key_leaves_first_whatever_its_time(void **unused)
{
    (void)unused;
    struct waiters *waiters = new_waiters(8, 8);
    struct store_op ops[] = {op_on(0, 30), op_on(WAITERS_BUCKETS, 5), op_on(0, 20), op_on(0, 10)};
    for (size_t i = 0; i < 4; i++)
        assert_true(waiters_add(waiters, &ops[i]));
    struct digest key = key_of(0);
    assert_ptr_equal(waiters_take_key(waiters, &key), &ops[0]);
    assert_ptr_equal(waiters_take_key(waiters, &key), &ops[2]);
    assert_ptr_equal(waiters_take_key(waiters, &key), &ops[3]);
    assert_null(waiters_take_key(waiters, &key));
    assert_int_equal(waiters->n, 1);
    free_waiters(waiters);
}

static void taking_any_keeps_the_order_of_each_key(void **unused)
{
    (void)unused;
    struct waiters *waiters = new_waiters(8, 8);
    struct store_op ops[] = {op_on(1, 30), op_on(2, 25), op_on(1, 20), op_on(2, 10)};
    for (size_t i = 0; i < 4; i++)
        waiters_add(waiters, &ops[i]);
    size_t seen[4], n = 0;
    struct store_op *op;
    while ((op = waiters_take_any(waiters)))
        seen[op - ops] = n++;
    assert_int_equal(n, 4);
    assert_true(seen[0] < seen[2] && seen[1] < seen[3]);
    free_waiters(waiters);
}

static void a_full_house_and_a_full_key_refuse(void **unused)
{
    (void)unused;
    struct waiters *waiters = new_waiters(3, 2);
    struct store_op ops[] = {op_on(0, 1), op_on(0, 1), op_on(0, 1), op_on(WAITERS_BUCKETS, 1),
                             op_on(9, 1)};
    assert_true(waiters_add(waiters, &ops[0]));
    assert_true(waiters_add(waiters, &ops[1]));
    assert_false(waiters_add(waiters, &ops[2]));
    assert_true(waiters_add(waiters, &ops[3]));
    assert_false(waiters_add(waiters, &ops[4]));
    waiters_remove(waiters, &ops[0]);
    assert_true(waiters_add(waiters, &ops[2]));
    free_waiters(waiters);
}

static void who_waited_before_comes_back_whatever_the_limits_are_by_now(void **unused)
{
    (void)unused;
    struct waiters *waiters = new_waiters(2, 2);
    struct store_op old[] = {op_on(0, 10), op_on(0, 20)}, fresh = op_on(1, 10);
    for (size_t i = 0; i < 2; i++) {
        assert_true(waiters_add(waiters, &old[i]));
        old[i].own.waits = true;
    }
    waiters_limit(waiters, 1, 1);
    for (size_t i = 0; i < 2; i++)
        assert_non_null(waiters_take_any(waiters));
    for (size_t i = 0; i < 2; i++)
        assert_true(waiters_add(waiters, &old[i]));
    assert_false(waiters_add(waiters, &fresh));
    free_waiters(waiters);
}

static void who_is_due_shows_only_once_the_time_has_come(void **unused)
{
    (void)unused;
    struct waiters *waiters = new_waiters(4, 4);
    assert_int_equal(waiters_next(waiters), CLOCK_NEVER);
    assert_null(waiters_take_any(waiters));
    struct store_op op = op_on(1, 100);
    waiters_add(waiters, &op);
    assert_int_equal(waiters_next(waiters), 100);
    assert_null(waiters_due(waiters, 99));
    assert_ptr_equal(waiters_due(waiters, 100), &op);
    free_waiters(waiters);
}

static void times_come_in_order_after_any_removals(void **unused)
{
    (void)unused;
    struct waiters *waiters = new_waiters(N, N);
    static struct store_op ops[N];
    for (uint64_t i = 0; i < N; i++) {
        ops[i] = op_on(i % 17, (int64_t)(i * 7919 % 1009));
        assert_true(waiters_add(waiters, &ops[i]));
    }
    for (size_t i = 0; i < N; i += 3)
        waiters_remove(waiters, &ops[i]);
    int64_t last = -1;
    size_t n = 0;
    struct store_op *op;
    while ((op = waiters_due(waiters, CLOCK_NEVER))) {
        assert_true(op->own.wake_at >= last && (op - ops) % 3 != 0);
        assert_int_equal(waiters_next(waiters), op->own.wake_at);
        last = op->own.wake_at;
        waiters_remove(waiters, op);
        n++;
    }
    assert_int_equal(n, N - (N + 2) / 3);
    free_waiters(waiters);
}

/* As many as a rule may allow: an add does not walk over those before it, nor does a removal. */
static void a_hot_key_takes_no_longer_with_each_that_waits(void **unused)
{
    (void)unused;
    struct waiters *waiters = new_waiters(CROWD, CROWD);
    struct store_op *ops = mem_zalloc(CROWD, sizeof *ops);
    assert_non_null(ops);
    clock_t from = clock();
    for (size_t i = 0; i < CROWD; i++) {
        ops[i] = op_on(i % 2 * WAITERS_BUCKETS, (int64_t)i);
        assert_true(waiters_add(waiters, &ops[i]));
    }
    for (size_t i = CROWD; i > 0; i -= 2)
        waiters_remove(waiters, &ops[i - 1]);
    struct digest key = key_of(0);
    for (size_t i = 0; i < CROWD; i += 2)
        assert_ptr_equal(waiters_take_key(waiters, &key), &ops[i]);
    assert_true(clock() - from < CLOCKS_PER_SEC);
    free_waiters(waiters);
    mem_free(ops);
}

/* First, last, and one between: the others keep their order, and the key its count. */
static void whoever_leaves_the_others_of_the_key_stay_in_order(void **unused)
{
    (void)unused;
    struct digest key = key_of(0);
    for (size_t leaves = 0; leaves < 3; leaves++) {
        struct waiters *waiters = new_waiters(8, 3);
        struct store_op ops[] = {op_on(0, 1), op_on(0, 2), op_on(0, 3), op_on(0, 4), op_on(0, 5)};
        struct store_op other = op_on(WAITERS_BUCKETS, 9);
        for (size_t i = 0; i < 3; i++)
            assert_true(waiters_add(waiters, &ops[i]));
        assert_true(waiters_add(waiters, &other));
        waiters_remove(waiters, &ops[leaves]);
        assert_true(waiters_add(waiters, &ops[3]));
        assert_false(waiters_add(waiters, &ops[4]));
        const struct store_op *at = waiters_first(waiters, &key);
        for (size_t i = 0; i < 4; i++) {
            if (i == leaves)
                continue;
            assert_ptr_equal(at, &ops[i]);
            at = waiters_after(at);
        }
        assert_null(at);
        free_waiters(waiters);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_oldest_of_a_key_leaves_first_whatever_its_time),
        cmocka_unit_test(taking_any_keeps_the_order_of_each_key),
        cmocka_unit_test(a_full_house_and_a_full_key_refuse),
        cmocka_unit_test(who_waited_before_comes_back_whatever_the_limits_are_by_now),
        cmocka_unit_test(who_is_due_shows_only_once_the_time_has_come),
        cmocka_unit_test(times_come_in_order_after_any_removals),
        cmocka_unit_test(a_hot_key_takes_no_longer_with_each_that_waits),
        cmocka_unit_test(whoever_leaves_the_others_of_the_key_stay_in_order),
    };
    return cmocka_run_group_tests_name("waiters", tests, NULL, NULL);
}
