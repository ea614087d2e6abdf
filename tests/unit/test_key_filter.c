/* SPDX-License-Identifier: Apache-2.0 */
/* The filter of keys and a run of the key log (src/store), without a store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/crypto/digest.h"
#include "store/sqlite/key_filter.h"
#include "store/sqlite/key_run.h"

#define KEYS 200000

static struct digest key_of(uint64_t n)
{
    return digest_of(slice_make(&n, sizeof n));
}

static void a_filter_never_denies_a_key_it_took_in_and_most_that_it_did_not(void **state)
{
    (void)state;
    struct key_filter filter = {0};
    assert_true(key_filter_start(&filter, KEYS));
    for (uint64_t n = 0; n < KEYS; n++)
        key_filter_add(&filter, key_of(n).bytes);
    assert_true(key_filter_may_hold(&filter, key_of(KEYS).bytes));
    filter.whole = true;
    size_t wrong = 0;
    for (uint64_t n = 0; n < KEYS; n++) {
        assert_true(key_filter_may_hold(&filter, key_of(n).bytes));
        wrong += key_filter_may_hold(&filter, key_of(KEYS + n).bytes);
    }
    assert_in_range(wrong, 0, KEYS / 50);
    key_filter_fini(&filter);
    assert_true(key_filter_may_hold(&filter, key_of(0).bytes));
}

static void a_filter_of_too_many_keys_stays_bounded_and_denies_none(void **state)
{
    (void)state;
    struct key_filter filter = {0};
    assert_true(key_filter_start(&filter, (size_t)1 << 40));
    assert_int_equal(filter.blocks * 64, KEY_FILTER_BYTES_MAX);
    key_filter_add(&filter, key_of(1).bytes);
    filter.whole = true;
    assert_true(key_filter_may_hold(&filter, key_of(1).bytes));
    assert_false(key_filter_may_hold(&filter, key_of(2).bytes));
    key_filter_fini(&filter);
}

static void check_a_full_run(size_t usual)
{
    struct key_run run;
    assert_true(key_run_init(&run, usual));
    for (uint64_t n = 0; n < KEY_RUN_MAX; n++)
        assert_true(key_run_set(&run, key_of(n).bytes, (int64_t)n + 1));
    assert_false(key_run_set(&run, key_of(KEY_RUN_MAX).bytes, 1));
    assert_true(key_run_set(&run, key_of(3).bytes, 0));
    int64_t row = -1;
    for (uint64_t n = 0; n < KEY_RUN_MAX; n++) {
        assert_true(key_run_find(&run, key_of(n).bytes, &row));
        assert_int_equal(row, n == 3 ? 0 : (int64_t)n + 1);
    }
    assert_false(key_run_find(&run, key_of(KEY_RUN_MAX).bytes, &row));
    key_run_clear(&run);
    assert_false(key_run_find(&run, key_of(3).bytes, &row));
    key_run_fini(&run);
}

static void a_run_says_what_was_set_last_until_it_is_full(void **state)
{
    (void)state;
    check_a_full_run(KEY_RUN_USUAL);
    check_a_full_run(KEY_RUN_USUAL / 16);
}

static void check_a_walk(size_t usual)
{
    struct key_run run;
    size_t met = 0;
    assert_true(key_run_init(&run, usual));
    for (uint64_t n = 0; n < KEY_RUN_USUAL; n++)
        assert_true(key_run_set(&run, key_of(n).bytes, 1));
    for (size_t bucket = 0; bucket < KEY_RUN_BUCKETS; bucket++) {
        const struct key_run_entry *entry = key_run_first(&run, bucket);
        for (; entry; entry = key_run_next(&run, entry), met++)
            assert_int_equal(entry->key[0] * 256 + entry->key[1], bucket);
    }
    assert_int_equal(met, KEY_RUN_USUAL);
    key_run_fini(&run);
}

static void a_walk_through_a_run_meets_every_key_once_and_in_order(void **state)
{
    (void)state;
    check_a_walk(KEY_RUN_USUAL);
    check_a_walk(KEY_RUN_USUAL / 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_filter_never_denies_a_key_it_took_in_and_most_that_it_did_not),
        cmocka_unit_test(a_filter_of_too_many_keys_stays_bounded_and_denies_none),
        cmocka_unit_test(a_run_says_what_was_set_last_until_it_is_full),
        cmocka_unit_test(a_walk_through_a_run_meets_every_key_once_and_in_order),
    };
    return cmocka_run_group_tests_name("key_filter", tests, NULL, NULL);
}
