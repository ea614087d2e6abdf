/* SPDX-License-Identifier: Apache-2.0 */
#include "job/groups.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define MANY ((size_t)3 * GROUPS_BUCKETS)

static struct groups groups; /* empty before and after each test */

static struct groups_item in(const char *group)
{
    return (struct groups_item){.group = slice_of(group)};
}

static void begin(struct groups_item *item, enum groups_result expected)
{
    assert_int_equal(groups_begin(&groups, item), expected);
}

static void test_items_of_a_group_come_one_after_the_other_in_their_order(void **state)
{
    (void)state;
    struct groups_item items[] = {in("g"), in("g"), in("g")};
    begin(&items[0], GROUPS_MAY_RUN);
    begin(&items[1], GROUPS_WAITS);
    begin(&items[2], GROUPS_WAITS);
    assert_int_equal(groups.waiting, 2);
    assert_ptr_equal(groups_end(&groups, &items[0]), &items[1]);
    assert_ptr_equal(groups_end(&groups, &items[1]), &items[2]);
    assert_int_equal(groups.waiting, 0);
    assert_null(groups_end(&groups, &items[2]));
}

static void test_who_is_given_by_an_end_is_under_way_and_others_wait_for_it(void **state)
{
    (void)state;
    struct groups_item first = in("g"), second = in("g"), third = in("g");
    begin(&first, GROUPS_MAY_RUN);
    begin(&second, GROUPS_WAITS);
    assert_ptr_equal(groups_end(&groups, &first), &second);
    begin(&third, GROUPS_WAITS);
    assert_ptr_equal(groups_end(&groups, &second), &third);
    assert_null(groups_end(&groups, &third));
}

static void test_groups_do_not_wait_for_each_other(void **state)
{
    (void)state;
    struct groups_item items[] = {in("a"), in("ab"), in("b"), in("a")};
    begin(&items[0], GROUPS_MAY_RUN);
    begin(&items[1], GROUPS_MAY_RUN);
    begin(&items[2], GROUPS_MAY_RUN);
    begin(&items[3], GROUPS_WAITS);
    assert_null(groups_end(&groups, &items[1]));
    assert_null(groups_end(&groups, &items[2]));
    assert_ptr_equal(groups_end(&groups, &items[0]), &items[3]);
    assert_null(groups_end(&groups, &items[3]));
}

static void test_a_group_is_forgotten_once_none_of_it_is_under_way(void **state)
{
    (void)state;
    struct groups_item item = in("g");
    for (int i = 0; i < 3; i++) {
        begin(&item, GROUPS_MAY_RUN);
        assert_null(groups_end(&groups, &item));
    }
    for (size_t i = 0; i < GROUPS_BUCKETS; i++)
        assert_null(groups.buckets[i]);
}

static void test_an_item_without_a_group_waits_for_none(void **state)
{
    (void)state;
    struct groups_item first = in(""), second = in("");
    begin(&first, GROUPS_MAY_RUN);
    begin(&second, GROUPS_MAY_RUN);
    assert_null(groups_end(&groups, &first));
    assert_null(groups_end(&groups, &second));
}

static void test_a_name_may_hold_any_bytes(void **state)
{
    (void)state;
    struct groups_item a = {.group = SLICE("x\0a")}, b = {.group = SLICE("x\0b")};
    begin(&a, GROUPS_MAY_RUN);
    begin(&b, GROUPS_MAY_RUN);
    assert_null(groups_end(&groups, &a));
    assert_null(groups_end(&groups, &b));
}

static void test_more_groups_than_buckets_are_kept_apart(void **state)
{
    (void)state;
    static char names[MANY][16];
    static struct groups_item items[2 * MANY];
    for (size_t i = 0; i < 2 * MANY; i++) {
        (void)snprintf(names[i % MANY], sizeof names[0], "group %zu", i % MANY);
        items[i] = in(names[i % MANY]);
        begin(&items[i], i < MANY ? GROUPS_MAY_RUN : GROUPS_WAITS);
    }
    for (size_t i = 0; i < MANY; i++) {
        assert_ptr_equal(groups_end(&groups, &items[i]), &items[MANY + i]);
        assert_null(groups_end(&groups, &items[MANY + i]));
    }
    assert_null(groups_take_any(&groups));
}

static void test_what_waits_can_be_taken_and_nothing_is_left(void **state)
{
    (void)state;
    struct groups_item items[] = {in("a"), in("a"), in("b"), in("b"), in("a")};
    const struct groups_item *taken[3];
    for (size_t i = 0; i < 5; i++)
        (void)groups_begin(&groups, &items[i]);
    assert_int_equal(groups.waiting, 3);
    for (size_t i = 0; i < 3; i++)
        assert_non_null(taken[i] = groups_take_any(&groups));
    assert_null(groups_take_any(&groups));
    assert_int_equal(groups.waiting, 0);
    for (size_t i = 0; i < GROUPS_BUCKETS; i++)
        assert_null(groups.buckets[i]);
    for (size_t i = 0; i < 3; i++)
        assert_true(taken[i] == &items[1] || taken[i] == &items[3] || taken[i] == &items[4]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_items_of_a_group_come_one_after_the_other_in_their_order),
        cmocka_unit_test(test_who_is_given_by_an_end_is_under_way_and_others_wait_for_it),
        cmocka_unit_test(test_groups_do_not_wait_for_each_other),
        cmocka_unit_test(test_a_group_is_forgotten_once_none_of_it_is_under_way),
        cmocka_unit_test(test_an_item_without_a_group_waits_for_none),
        cmocka_unit_test(test_a_name_may_hold_any_bytes),
        cmocka_unit_test(test_more_groups_than_buckets_are_kept_apart),
        cmocka_unit_test(test_what_waits_can_be_taken_and_nothing_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
