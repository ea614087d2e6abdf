/* SPDX-License-Identifier: Apache-2.0 */
/* The SQLite store does not read again what it wrote itself: what it shows is what the file says.
 */
#include "store_bed.h"

#include "base/buf.h"
#include "store/sqlite/columns.h"

/* All that a claim may hold, each field another one. */
static struct store_op full_begin(const struct store_once *once, const struct fingerprint *print)
{
    struct store_op op = begin_on(1);
    op.arrival.fingerprint = print;
    op.arrival.once = once;
    op.arrival.origin = SLICE("10.0.0.1 trace");
    op.begin = (struct record_begin){.payload_hash = key_of(2),
                                     .target_hash = key_of(3),
                                     .attempt_id = "an attempt's id",
                                     .lease_us = LEASE,
                                     .ttl_us = TTL,
                                     .least_us = 11,
                                     .doubted_us = 12,
                                     .tombstone_us = 13,
                                     .settle_us = 14,
                                     .window = true,
                                     .once_ttl_us = once ? 15 : 0,
                                     .once_window = once,
                                     .once_replay = once,
                                     .unknown = RECORD_UNKNOWN_PROBE};
    return op;
}

#define SHOW_INT(field) buf_printf(text, "%lld ", (long long)row->field);
#define SHOW_LEASE(field) SHOW_INT(field)
#define SHOW_BYTES(field) buf_add(text, row->field, sizeof(row->field));
#define SHOW_TEXT(field) buf_printf(text, "'%.*s' ", (int)row->field.len, row->field.at);
#define SHOW_RARE(field) SHOW_TEXT(field)
#define SHOW(kind, column, field) SHOW_##kind(field)

static bool show(void *argument, const struct store_row *row, enum record_lease lease)
{
    struct buf *text = argument;
    (void)lease; /* an owner's own is live */
    SHOW_INT(id)
    SHOW_INT(record.status)
    SQLITE_IDENTITY(SHOW)
    SQLITE_CLAIM(SHOW)
    SHOW_TEXT(once)
    SQLITE_CLAIM_ONCE(SHOW)
    SHOW_TEXT(location)
    SHOW_INT(bound)
    SHOW_INT(record.kept)
    SHOW_INT(record.provisional)
    SHOW_INT(record.completed_at)
    SHOW_INT(record.expires_at)
    SHOW_INT(record.gone_at)
    SHOW_INT(record.once_until)
    SHOW_INT(record.http_status)
    return true;
}

static void list(struct bed *bed, struct buf *text)
{
    const struct store_list all = {.most = 100, .each = show, .argument = text};
    struct store_op op = {.kind = STORE_LIST, .list = &all};
    run(bed, &op);
    assert_true(buf_ok(text) && text->len > 0);
}

static void check_shown_as_the_file_says(struct bed *bed)
{
    struct buf own BUF_AUTO = buf_make(65536);
    struct buf read BUF_AUTO = buf_make(65536);
    struct bed other;
    open_other(bed, &other);
    list(bed, &own);
    list(&other, &read);
    assert_true(slice_eq(buf_slice(&own), buf_slice(&read)));
    close_other(&other);
}

static void a_claim_is_shown_as_the_file_has_it(void **state)
{
    struct bed *bed = *state;
    struct fingerprint print = {.len = 5, .text = "print"};
    struct store_op op = full_begin(NULL, &print);
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    check_shown_as_the_file_says(bed);
    /* And once more after it was changed. */
    struct store_op doubt = write_on(1, STORE_DOUBT, op.result.record.token);
    doubt.row_hint = op.result.row;
    run(bed, &doubt);
    assert_int_equal(doubt.result.write, RECORD_WRITTEN);
    check_shown_as_the_file_says(bed);
}

static void a_claim_with_a_once_value_is_shown_as_the_file_has_it(void **state)
{
    struct bed *bed = *state;
    struct digest_key secret = *store_digest_key(bed->store);
    struct store_once once = {.text = SLICE("order 7"), .template_id = 16, .as_key = key_of(4)};
    once.hash = store_once_hash(&secret, SLICE("tenant"), SLICE("rule"), once.text);
    struct store_op op = full_begin(&once, NULL);
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    check_shown_as_the_file_says(bed);
}

static void a_claim_shows_nothing_of_the_life_before_it(void **state)
{
    struct bed *bed = *state;
    struct outcome *outcome =
        outcome_new(201, false, SLICE("Location: /refunds/5\r\n"), SLICE("{}"));
    struct store_op first = begin_on(1);
    first.begin.ttl_us = 1; /* gone by the next batch, and not swept yet */
    run(bed, &first);
    struct store_op done = write_on(1, STORE_FINISH, first.result.record.token);
    done.writing.outcome = outcome;
    done.writing.keeps = true;
    run(bed, &done);
    assert_int_equal(done.result.write, RECORD_WRITTEN);
    outcome_unref(outcome);
    assert_int_not_equal(proceed(bed, 1), first.result.record.token);
    check_shown_as_the_file_says(bed);
}

static void what_somebody_else_wrote_of_a_claim_is_read(void **state)
{
    struct bed *bed = *state;
    proceed(bed, 1);
    assert_int_equal(look(bed, 1).attempts, 1);
    bed_exec(bed, "UPDATE pawl_pending SET attempts=7");
    assert_int_equal(look(bed, 1).attempts, 7);
    proceed(bed, 2);
    bed_exec(bed, "UPDATE pawl_pending SET attempts=8");
    assert_int_equal(look(bed, 2).attempts, 8);
}

static void a_claim_that_another_one_displaced_is_read(void **state)
{
    struct bed *bed = *state;
    int64_t token = proceed(bed, 1);
    for (uint64_t key = 2; key < 1100; key++)
        proceed(bed, key);
    assert_int_equal(look(bed, 1).token, token);
    assert_int_equal(finish(bed, 1, token, "kept"), RECORD_WRITTEN);
    assert_int_equal(check_counts(bed), 1099);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        BED_TEST(a_claim_is_shown_as_the_file_has_it),
        BED_TEST(a_claim_with_a_once_value_is_shown_as_the_file_has_it),
        BED_TEST(a_claim_shows_nothing_of_the_life_before_it),
        BED_TEST(what_somebody_else_wrote_of_a_claim_is_read),
        BED_TEST(a_claim_that_another_one_displaced_is_read),
    };
    return bed_run_on(BED_SQLITE, tests, sizeof tests / sizeof *tests);
}
