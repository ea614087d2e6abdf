/* SPDX-License-Identifier: Apache-2.0 */
/* Rows and names of `once` (contract section 3) that come apart: names that lead to a new row, rows
 * of another rule name, of another template, and from before the rule had `once`. */
#include "once_bed.h"

/* ---- names that lead to a new row ---- */

/* A store whose index takes keys over after a few. */
static void merge_often(struct bed *bed)
{
    bed_close(bed);
    bed->config.key_run = 7;
    bed_open(bed);
}

/* So many other keys that all before them stand in the index. */
static void merge_all(struct bed *bed)
{
    static uint64_t key = 10000;
    for (int i = 0; i < 40; i++, key++)
        finish(bed, key, proceed(bed, key), "other");
}

/* Two rows of one name: the value of the first was taken over. */
static void a_name_without_a_key_leads_to_the_last_holder_after_a_merge(void **state)
{
    struct bed *bed = *state;
    merge_often(bed);
    struct store_op first = keyless(bed, 5, &rejects);
    run(bed, &first);
    struct store_op failed = write_on(KEYLESS + 5, STORE_FINISH, first.record.token);
    failed.final = RECORD_FAILED;
    failed.http_status = 422;
    run(bed, &failed);
    merge_all(bed);
    struct store_op next = keyless(bed, 5, &rejects);
    run(bed, &next);
    assert_int_equal(next.verdict, RECORD_PROCEED);
    finish(bed, KEYLESS + 5, next.record.token, "done");
    merge_all(bed);
    next = keyless(bed, 5, &rejects);
    run(bed, &next);
    assert_int_equal(next.verdict, RECORD_DUPLICATE);
    drop(&next);
}

#ifdef PAWL_HOOKS

/* One name leads to a new row after each window, and the rows before it live for their keys; and a
 * key is used again while the value of its old row lives. */
static void names_that_were_used_again_are_merged(void **state)
{
    struct bed *bed = *state;
    bed->config.key_run = 7;
    hold_clock(bed);
    for (int i = 0; i < 2; i++) {
        struct store_op op = keyless(bed, 5, &rejects);
        op.begin.once_ttl_us = TTL / 4;
        run(bed, &op);
        assert_int_equal(op.verdict, RECORD_PROCEED);
        finish(bed, KEYLESS + 5, op.record.token, "done");
        merge_all(bed);
        advance(bed, TTL / 4 + SECOND);
    }
    finish(bed, 1, take(bed, 1, 6, &rejects), "done");
    merge_all(bed);
    advance(bed, TTL + SECOND);
    finish(bed, 1, take(bed, 1, 7, &rejects), "done");
    merge_all(bed);
    assert_int_equal(ask(bed, 1, 7, &rejects), RECORD_REPLAY);
    assert_int_equal(ask(bed, 2, 6, &rejects), RECORD_DUPLICATE);
}

#endif

int main(void)
{
    struct CMUnitTest tests[] = {
        BED_TEST(a_name_without_a_key_leads_to_the_last_holder_after_a_merge),
#ifdef PAWL_HOOKS
        BED_TEST(names_that_were_used_again_are_merged),
#endif
    };
    return bed_run(tests, sizeof tests / sizeof *tests);
}
