/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/cache.h"

#define BIG ((uint64_t)1 << 20)

static struct cache_key key_of(unsigned char name)
{
    struct cache_key key = {.recipe = SLICE("v1")};
    memset(key.key_hash.bytes, name, DIGEST_SIZE);
    memset(key.payload_hash.bytes, 1, DIGEST_SIZE);
    memset(key.target_hash.bytes, 2, DIGEST_SIZE);
    return key;
}

static void put(struct cache *cache, const struct cache_key *key, size_t size, int64_t expires_at,
                int64_t forgets)
{
    char body[4096] = {0};
    struct outcome *outcome = outcome_new(201, false, SLICE(""), slice_make(body, size));
    assert_non_null(outcome);
    struct cached cached = {
        .outcome = outcome, .created_at = 1, .completed_at = 2, .expires_at = expires_at};
    cached.gone_at = expires_at + 1;
    cache_put(cache, key, &cached, forgets);
    outcome_unref(outcome);
}

/* The size of the body found; -1: nothing. */
static int get(struct cache *cache, const struct cache_key *key, int64_t now, int64_t forgets)
{
    struct cached cached;
    if (!cache_get(cache, key, now, forgets, &cached))
        return -1;
    int size = (int)cached.outcome->body.len;
    outcome_unref(cached.outcome);
    return size;
}

static void what_was_put_is_found_until_it_expires(void **unused)
{
    (void)unused;
    struct cache *cache = cache_new(BIG);
    struct cache_key key = key_of(1);
    assert_int_equal(get(cache, &key, 0, 0), -1);
    put(cache, &key, 10, 100, 0);
    assert_int_equal(get(cache, &key, 99, 0), 10);
    assert_int_equal(get(cache, &key, 100, 0), -1);
    assert_int_equal(get(cache, &key, 99, 0), -1);
    cache_free(cache);
}

static void another_request_never_gets_it(void **unused)
{
    (void)unused;
    struct cache *cache = cache_new(BIG);
    struct cache_key key = key_of(1);
    put(cache, &key, 10, 100, 0);
    struct cache_key other = key_of(2);
    assert_int_equal(get(cache, &other, 0, 0), -1);
    other = key;
    other.payload_hash.bytes[31] ^= 1;
    assert_int_equal(get(cache, &other, 0, 0), -1);
    other = key;
    other.target_hash.bytes[31] ^= 1;
    assert_int_equal(get(cache, &other, 0, 0), -1);
    other = key;
    other.recipe = SLICE("v2");
    assert_int_equal(get(cache, &other, 0, 0), -1);
    assert_int_equal(get(cache, &key, 0, 0), 10);
    cache_free(cache);
}

static void a_forget_anywhere_empties_it(void **unused)
{
    (void)unused;
    struct cache *cache = cache_new(BIG);
    struct cache_key key = key_of(1);
    put(cache, &key, 10, 100, 4);
    assert_int_equal(get(cache, &key, 0, 5), -1);
    assert_int_equal(get(cache, &key, 0, 4), -1);
    cache_free(cache);
}

static void the_newest_answer_of_a_key_is_the_one_kept(void **unused)
{
    (void)unused;
    struct cache *cache = cache_new(BIG);
    struct cache_key key = key_of(1);
    put(cache, &key, 10, 100, 0);
    put(cache, &key, 11, 100, 1);
    assert_int_equal(get(cache, &key, 0, 1), 11);
    cache_free(cache);
}

static void the_least_recently_used_leave_first(void **unused)
{
    (void)unused;
    enum { N = 10, SIZE = 3000 };
    struct cache *cache = cache_new((uint64_t)N * (SIZE + 400));
    struct cache_key keys[N + 1];
    for (unsigned char i = 0; i <= N; i++) {
        keys[i] = key_of(i);
        if (i == N)
            assert_int_equal(get(cache, &keys[0], 0, 0), SIZE);
        put(cache, &keys[i], SIZE, 100, 0);
    }
    assert_int_equal(get(cache, &keys[1], 0, 0), -1);
    for (size_t i = 0; i <= N; i++)
        if (i != 1)
            assert_int_equal(get(cache, &keys[i], 0, 0), SIZE);
    cache_free(cache);
}

/* found: D-B13 */
static void one_large_answer_drives_no_others_out(void **unused)
{
    (void)unused;
    struct cache *cache = cache_new((uint64_t)8 * 4000);
    struct cache_key small = key_of(1), large = key_of(2);
    put(cache, &small, 10, 100, 0);
    put(cache, &large, 4000, 100, 0);
    assert_int_equal(get(cache, &large, 0, 0), -1);
    assert_int_equal(get(cache, &small, 0, 0), 10);
    put(cache, &small, 4000, 100, 0);
    assert_int_equal(get(cache, &small, 0, 0), -1);
    cache_free(cache);
}

static void an_answer_larger_than_the_cache_is_not_kept(void **unused)
{
    (void)unused;
    struct cache *cache = cache_new(1024);
    struct cache_key key = key_of(1);
    put(cache, &key, 4000, 100, 0);
    assert_int_equal(get(cache, &key, 0, 0), -1);
    cache_free(cache);
}

static void an_answer_taken_outlives_its_entry(void **unused)
{
    (void)unused;
    struct cache *cache = cache_new(BIG);
    struct cache_key key = key_of(1);
    put(cache, &key, 10, 100, 0);
    struct cached cached;
    assert_true(cache_get(cache, &key, 0, 0, &cached));
    cache_free(cache);
    assert_int_equal(cached.outcome->status, 201);
    outcome_unref(cached.outcome);
}

static void an_entry_tells_the_times_of_its_record(void **unused)
{
    (void)unused;
    struct cache *cache = cache_new(BIG);
    struct cache_key key = key_of(1);
    struct cached cached;
    put(cache, &key, 10, 100, 0);
    assert_true(cache_get(cache, &key, 0, 0, &cached));
    assert_int_equal(cached.created_at, 1);
    assert_int_equal(cached.completed_at, 2);
    assert_int_equal(cached.expires_at, 100);
    assert_int_equal(cached.gone_at, 101);
    outcome_unref(cached.outcome);
    cache_free(cache);
}

static void a_smaller_bound_drops_what_was_used_least_and_a_larger_one_keeps_all(void **unused)
{
    (void)unused;
    struct cache *cache = cache_new(BIG);
    static struct cache_key keys[100];
    for (unsigned char i = 0; i < 100; i++) {
        keys[i] = key_of(i);
        put(cache, &keys[i], 4096, 100, 0);
    }
    cache_limit(cache, 64 * BIG);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(get(cache, &keys[i], 0, 0), 4096);
    cache_limit(cache, 5 * (uint64_t)4096);
    for (size_t i = 0; i < 96; i++)
        assert_int_equal(get(cache, &keys[i], 0, 0), -1);
    for (size_t i = 96; i < 100; i++)
        assert_int_equal(get(cache, &keys[i], 0, 0), 4096);
    cache_free(cache);
}

static void a_cache_of_no_bytes_keeps_nothing_until_it_may(void **unused)
{
    (void)unused;
    struct cache *cache = cache_new(0);
    struct cache_key key = key_of(1);
    put(cache, &key, 10, 100, 0);
    assert_int_equal(get(cache, &key, 0, 0), -1);
    cache_limit(cache, BIG);
    put(cache, &key, 10, 100, 0);
    assert_int_equal(get(cache, &key, 0, 0), 10);
    cache_limit(cache, 0);
    assert_int_equal(get(cache, &key, 0, 0), -1);
    cache_limit(cache, BIG);
    assert_int_equal(get(cache, &key, 0, 0), -1);
    cache_free(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_put_is_found_until_it_expires),
        cmocka_unit_test(another_request_never_gets_it),
        cmocka_unit_test(a_forget_anywhere_empties_it),
        cmocka_unit_test(the_newest_answer_of_a_key_is_the_one_kept),
        cmocka_unit_test(the_least_recently_used_leave_first),
        cmocka_unit_test(one_large_answer_drives_no_others_out),
        cmocka_unit_test(an_answer_larger_than_the_cache_is_not_kept),
        cmocka_unit_test(an_answer_taken_outlives_its_entry),
        cmocka_unit_test(an_entry_tells_the_times_of_its_record),
        cmocka_unit_test(a_smaller_bound_drops_what_was_used_least_and_a_larger_one_keeps_all),
        cmocka_unit_test(a_cache_of_no_bytes_keeps_nothing_until_it_may),
    };
    return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
