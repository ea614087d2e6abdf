/* SPDX-License-Identifier: Apache-2.0 */
/* outcome: bodies that are packed, shared and unpacked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/check.h"
#include "core/outcome.h"

#define LARGE ((size_t)256 * 1024)
#define THREADS 8

static struct outcome *outcome_with(char *at, size_t len)
{
    memset(at, 'a', len);
    struct outcome *outcome = outcome_new(201, false, SLICE("A: 1\r\n"), slice_make(at, len));
    assert_non_null(outcome);
    return outcome;
}

/* As a store gives it back. */
static struct outcome *outcome_kept(const struct outcome *packed)
{
    struct outcome *kept = outcome_new_packed(packed->status, packed->failed, packed->fields,
                                              buf_slice(&packed->packed));
    assert_non_null(kept);
    return kept;
}

static void a_body_is_packed_only_where_that_makes_it_smaller(void **state)
{
    COMPRESS_AUTO struct compress compress = {0};
    char at[1025];
    (void)state;
    for (size_t len = sizeof at - 1; len <= sizeof at; len++) {
        struct outcome *outcome = outcome_with(at, len);
        outcome_pack(outcome, &compress);
        assert_int_equal(outcome->packed.len > 0, len > 1024);
        outcome_unref(outcome);
    }
}

static void its_size_is_that_of_its_body_packed_or_not(void **state)
{
    COMPRESS_AUTO struct compress compress = {0};
    static char at[LARGE];
    (void)state;
    struct outcome *first = outcome_with(at, LARGE);
    size_t size = outcome_size(first);
    outcome_pack(first, &compress);
    assert_in_range(first->packed.len, 1, 1000);
    assert_int_equal(outcome_size(first), size);
    struct outcome *kept = outcome_kept(first);
    assert_int_equal(outcome_size(kept), size);
    assert_int_equal(outcome_unpack(kept, &compress), OUTCOME_UNPACKED);
    assert_int_equal(outcome_size(kept), size);
    assert_int_equal(kept->packed.len, 0);
    outcome_unref(kept);
    outcome_unref(first);
}

static void outcomes_are_equal_packed_or_not(void **state)
{
    COMPRESS_AUTO struct compress compress = {0};
    static char at[LARGE], other[LARGE];
    (void)state;
    struct outcome *first = outcome_with(at, LARGE), *shorter = outcome_with(other, LARGE - 1);
    outcome_pack(first, &compress);
    outcome_pack(shorter, &compress);
    struct outcome *kept = outcome_kept(first);
    assert_true(outcome_eq(first, kept));
    assert_false(outcome_eq(shorter, kept));
    outcome_drop_packed(kept); /* its body is not there yet */
    assert_true(outcome_eq(kept, first));
    assert_int_equal(outcome_unpack(kept, &compress), OUTCOME_UNPACKED);
    outcome_drop_packed(first);
    assert_true(outcome_eq(first, kept));
    assert_false(outcome_eq(shorter, kept));
    outcome_unref(kept);
    outcome_unref(shorter);
    outcome_unref(first);
}

struct teller {
    struct thread thread;
    struct outcome *outcome;
    const char *body;
};

static void tell(void *argument)
{
    struct teller *teller = argument;
    COMPRESS_AUTO struct compress compress = {0};
    CHECK(outcome_unpack(teller->outcome, &compress) == OUTCOME_UNPACKED);
    outcome_drop_packed(teller->outcome);
    teller->body = teller->outcome->body.at;
    CHECK(teller->body[LARGE - 1] == 'a');
    outcome_unref(teller->outcome);
}

/* found: D-B12 */
static void all_who_share_an_outcome_have_the_one_body_that_the_first_of_them_unpacks(void **state)
{
    COMPRESS_AUTO struct compress compress = {0};
    static char at[LARGE];
    struct teller tellers[THREADS];
    (void)state;
    struct outcome *first = outcome_with(at, LARGE);
    outcome_pack(first, &compress);
    struct outcome *kept = outcome_kept(first);
    for (size_t i = 0; i < THREADS; i++) {
        tellers[i] = (struct teller){.outcome = outcome_ref(kept)};
        assert_true(thread_start(&tellers[i].thread, "teller", tell, &tellers[i]));
    }
    assert_true(outcome_eq(first, kept));
    for (size_t i = 0; i < THREADS; i++) {
        thread_join(&tellers[i].thread);
        assert_ptr_equal(tellers[i].body, kept->body.at);
    }
    outcome_unref(kept);
    outcome_unref(first);
}

static void a_damaged_body_is_not_there(void **state)
{
    COMPRESS_AUTO struct compress compress = {0};
    static char at[LARGE];
    (void)state;
    struct outcome *first = outcome_with(at, LARGE);
    outcome_pack(first, &compress);
    first->packed.at[first->packed.len - 1] ^= 1;
    struct outcome *kept = outcome_kept(first);
    assert_int_equal(outcome_unpack(kept, &compress), OUTCOME_DAMAGED);
    assert_null(kept->body.at);
    assert_int_equal(outcome_unpack(kept, &compress), OUTCOME_DAMAGED);
    outcome_unref(kept);
    outcome_unref(first);
    assert_int_equal(outcome_unpacked_size(SLICE("no frame")), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_is_packed_only_where_that_makes_it_smaller),
        cmocka_unit_test(its_size_is_that_of_its_body_packed_or_not),
        cmocka_unit_test(outcomes_are_equal_packed_or_not),
        cmocka_unit_test(all_who_share_an_outcome_have_the_one_body_that_the_first_of_them_unpacks),
        cmocka_unit_test(a_damaged_body_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
