/* SPDX-License-Identifier: Apache-2.0 */
/* When a batch waits for operations that come together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/committer/collect.h"

#define BEGAN 1000000
#define TOOK 2000
#define NOW (BEGAN + TOOK)

static struct collect behind(size_t ended, size_t queued)
{
    struct collect collect = {0};
    collect_note_batch(&collect, ended, queued, BEGAN, NOW);
    return collect;
}

static void a_client_alone_never_waits(void **state)
{
    (void)state;
    struct collect none = {0}, one = behind(1, 0);
    assert_int_equal(collect_wait_us(&none, 1, NOW), 0);
    assert_int_equal(collect_wait_us(&one, 1, NOW), 0);
}

static void those_that_ended_are_waited_for_a_part_of_a_batch(void **state)
{
    (void)state;
    struct collect collect = behind(8, 8);
    assert_int_equal(collect_wait_us(&collect, 8, NOW), TOOK / COLLECT_PART);
    assert_int_equal(collect_wait_us(&collect, 15, NOW + 1), TOOK / COLLECT_PART - 1);
    assert_int_equal(collect_wait_us(&collect, 16, NOW), 0);
    assert_int_equal(collect_wait_us(&collect, 8, NOW + TOOK / COLLECT_PART), 0);
    assert_int_equal(collect_wait_us(&collect, 0, NOW), 0);
}

static void a_batch_that_is_large_enough_does_not_wait_nor_does_one_wait_for_long(void **state)
{
    (void)state;
    struct collect large = behind(200, 56), slow = {0};
    assert_int_equal(collect_wait_us(&large, COLLECT_ENOUGH, NOW), 0);
    assert_true(collect_wait_us(&large, COLLECT_ENOUGH - 1, NOW) > 0);
    collect_note_batch(&slow, 8, 8, BEGAN, BEGAN + 5000000);
    assert_int_equal(collect_wait_us(&slow, 8, BEGAN + 5000000), COLLECT_MOST_US);
}

static void a_wait_that_brought_little_is_left_out_for_a_while(void **state)
{
    (void)state;
    struct collect collect = behind(8, 8);
    collect_note_wait(&collect, 8, 11);
    assert_true(collect_wait_us(&collect, 8, NOW) > 0);
    collect_note_wait(&collect, 8, 10);
    for (int i = 0; i < COLLECT_REST; i++) {
        assert_int_equal(collect_wait_us(&collect, 8, NOW), 0);
        collect_note_batch(&collect, 8, 8, BEGAN, NOW);
    }
    assert_true(collect_wait_us(&collect, 8, NOW) > 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_alone_never_waits),
        cmocka_unit_test(those_that_ended_are_waited_for_a_part_of_a_batch),
        cmocka_unit_test(a_batch_that_is_large_enough_does_not_wait_nor_does_one_wait_for_long),
        cmocka_unit_test(a_wait_that_brought_little_is_left_out_for_a_while),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
