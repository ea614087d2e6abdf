/* SPDX-License-Identifier: Apache-2.0 */
/* Once values that name a date or an hour: for the record's own key these do not count. */
#include "store_bed.h"

#include "base/mem.h"

/* A begin whose value says the hour at its end. */
static enum record_verdict ask(struct bed *bed, uint64_t key, const char *value)
{
    struct store_op op = begin_on(key);
    struct slice text = slice_of(value);
    struct store_once once = {
        .text = text,
        .hash = store_once_hash(store_digest_key(bed->store), SLICE("tenant"), SLICE("rule"), text),
        .as_key = key_of(1000),
        .reject = true,
        .clocks = {.n = 1, .range = {{.at = strlen("pay_5:"), .len = strlen("01Z")}}}};
    op.arrival.once = &once;
    op.begin.once_ttl_us = TTL;
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_DONE);
    if (op.result.verdict == RECORD_PROCEED)
        finish(bed, key, op.result.record.token, "done");
    outcome_unref(op.result.found);
    return op.result.verdict;
}

static void a_retry_after_the_hour_of_its_value_is_the_same_operation(void **state)
{
    struct bed *bed = *state;
    assert_int_equal(ask(bed, 1, "pay_5:01Z"), RECORD_PROCEED);
    assert_int_equal(ask(bed, 1, "pay_5:02Z"), RECORD_REPLAY);
    assert_int_equal(ask(bed, 1, "pay_6:02Z"), RECORD_MISMATCH);
    assert_int_equal(ask(bed, 1, "pay_55:02Z"), RECORD_MISMATCH);
    /* The record holds the value of its own hour still, and no other. */
    assert_int_equal(ask(bed, 2, "pay_5:01Z"), RECORD_DUPLICATE);
    assert_int_equal(ask(bed, 2, "pay_5:02Z"), RECORD_PROCEED);
    assert_int_equal(check_counts(bed), 2);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        BED_TEST(a_retry_after_the_hour_of_its_value_is_the_same_operation),
    };
    return bed_run(tests, sizeof tests / sizeof *tests);
}
