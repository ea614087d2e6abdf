/* SPDX-License-Identifier: Apache-2.0 */
/* Kept bodies of all sizes come back byte for byte, on every backend; how the file holds them. */
#include "store_bed.h"

#include "base/buf.h"
#include "base/mem.h"
#include <sqlite3.h>
#include <stdio.h>

#define LARGE ((size_t)1024 * 1024)

/* A body of JSON-like text, or of bytes that nothing makes smaller. */
static struct slice body_of(char *at, size_t len, bool noisy)
{
    uint64_t x = len + 1;
    for (size_t i = 0; i < len; i++) {
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        at[i] = noisy ? (char)(x >> 56) : "{\"amount\":100},"[i % 15];
    }
    return slice_make(at, len);
}

static struct outcome *outcome_with(struct slice body, bool packed)
{
    COMPRESS_AUTO struct compress compress = {0};
    struct outcome *outcome = outcome_new(201, false, SLICE("A: b\r\n"), body);
    assert_non_null(outcome);
    if (packed)
        outcome_pack(outcome, &compress);
    return outcome;
}

static void keep_as(struct bed *bed, uint64_t key, struct slice body, bool packed)
{
    struct outcome *outcome = outcome_with(body, packed);
    struct store_op op = write_on(key, STORE_FINISH, proceed(bed, key));
    op.writing.outcome = outcome;
    op.writing.keeps = true;
    run(bed, &op);
    assert_int_equal(op.result.write, RECORD_WRITTEN);
    outcome_unref(outcome);
}

static void keep(struct bed *bed, uint64_t key, struct slice body)
{
    keep_as(bed, key, body, true);
}

static enum outcome_unpacked unpack(struct outcome *outcome)
{
    COMPRESS_AUTO struct compress compress = {0};
    return outcome_unpack(outcome, &compress);
}

static void check_replay(struct bed *bed, uint64_t key, struct slice body)
{
    struct store_op op = begin_on(key);
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_REPLAY);
    assert_int_equal(op.result.found->body.len, body.len);
    assert_int_equal(unpack(op.result.found), OUTCOME_UNPACKED);
    assert_true(slice_eq(op.result.found->body, body));
    assert_true(slice_eq(op.result.found->fields, SLICE("A: b\r\n")));
    outcome_unref(op.result.found);
}

static void bodies_of_every_size_are_replayed_byte_for_byte(void **state)
{
    struct bed *bed = *state;
    static const size_t sizes[] = {0, 1, 1023, 1024, 1025, 4096, 65536, 65537, LARGE};
    char *at MEM_AUTO = mem_alloc(LARGE);
    assert_non_null(at);
    size_t n = sizeof sizes / sizeof *sizes;
    for (size_t i = 0; i < 2 * n; i++)
        keep(bed, i, body_of(at, sizes[i / 2], i % 2));
    for (size_t i = 2 * n; i > 0; i--)
        check_replay(bed, i - 1, body_of(at, sizes[(i - 1) / 2], (i - 1) % 2));
}

static void many_bodies_in_one_batch_stay_apart(void **state)
{
    struct bed *bed = *state;
    enum { N = 6 };
    static char bodies[N][3000];
    struct store_op ops[N];
    struct outcome *outcomes[N];
    for (size_t i = 0; i < N; i++) {
        memset(bodies[i], 'a' + (int)i, sizeof bodies[i]);
        struct slice body = slice_make(bodies[i], sizeof bodies[i] - i);
        outcomes[i] = outcome_with(body, true);
        ops[i] = write_on(i, STORE_FINISH, proceed(bed, i));
        ops[i].writing.outcome = outcomes[i];
        ops[i].writing.keeps = true;
    }
    for (size_t i = 0; i < N; i++)
        submit(bed, &ops[i]);
    for (size_t i = 0; i < N; i++) {
        await(bed, &ops[i]);
        check_replay(bed, i, outcomes[i]->body);
        outcome_unref(outcomes[i]);
    }
}

/* ---- in the file ---- */

static int64_t ask(struct bed *bed, const char *sql)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *s = NULL;
    assert_int_equal(sqlite3_open(bed->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
    int64_t value = sqlite3_step(s) == SQLITE_ROW ? sqlite3_column_int64(s, 0) : 0;
    assert_int_equal(sqlite3_finalize(s), SQLITE_OK);
    sqlite3_close(db);
    return value;
}

/* Of the n-th record, counted from 1. */
static int64_t ask_of(struct bed *bed, const char *what, int n)
{
    char sql[128];
    snprintf(sql, sizeof sql, "SELECT %s FROM pawl_outcome ORDER BY id LIMIT 1 OFFSET %d", what,
             n - 1);
    return ask(bed, sql);
}

static void the_file_holds_what_is_above_1_kib_packed_when_that_is_smaller(void **state)
{
    struct bed *bed = *state;
    if (bed->kind != BED_SQLITE)
        return;
    static char at[65536];
    keep(bed, 1, body_of(at, 1024, false));
    keep(bed, 2, body_of(at, 1025, false));
    keep(bed, 3, body_of(at, 65536, false));
    keep(bed, 4, body_of(at, 65536, true));
    assert_int_equal(ask_of(bed, "packed", 1), 0);
    assert_int_equal(ask_of(bed, "packed", 2), 1);
    assert_int_equal(ask_of(bed, "packed", 3), 1);
    assert_int_equal(ask_of(bed, "packed", 4), 0);
    assert_true(ask_of(bed, "length(body)", 3) < 2000);
    assert_int_equal(ask_of(bed, "length(body)", 4), 65536);
}

/* Its one thread has others' operations to do: who packs and unpacks is whoever calls. */
/* found: D-B12 */
static void a_store_keeps_a_body_as_it_is_given_and_gives_it_back_as_it_is_kept(void **state)
{
    struct bed *bed = *state;
    if (bed->kind != BED_SQLITE)
        return;
    static char at[65536];
    struct slice body = body_of(at, sizeof at, false);
    keep_as(bed, 1, body, false);
    keep_as(bed, 2, body, true);
    assert_int_equal(ask_of(bed, "packed", 1), 0);
    assert_int_equal(ask_of(bed, "packed", 2), 1);
    struct store_op op = begin_on(2);
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_REPLAY);
    assert_null(op.result.found->body.at);
    assert_int_equal(op.result.found->body.len, sizeof at);
    assert_int_equal(unpack(op.result.found), OUTCOME_UNPACKED);
    assert_true(slice_eq(op.result.found->body, body));
    outcome_unref(op.result.found);
    check_replay(bed, 1, body);
}

static void a_body_that_has_no_room_is_not_even_loaded(void **state)
{
    struct bed *bed = *state;
    static char at[65536];
    atomic_ullong held = 0;
    keep(bed, 1, body_of(at, sizeof at, false));
    struct store_op op = begin_on(1);
    op.room = (struct store_room){.held = &held, .most = sizeof at};
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_TOO_LARGE);
    assert_null(op.result.found);
    op = begin_on(1);
    op.room = (struct store_room){.held = &held, .most = 2 * sizeof at};
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_DONE);
    assert_int_equal(atomic_load(&held), outcome_size(op.result.found));
    outcome_drop(op.result.found, &held);
    outcome_unref(op.result.found);
}

/* Keeps a body under key 1, does `damage` to it in the file, and begins that key again. */
static void check_damaged(struct bed *bed, const char *damage)
{
    static char at[4096];
    if (bed->kind != BED_SQLITE)
        return;
    keep(bed, 1, body_of(at, sizeof at, false));
    ask(bed, damage);
    struct store_op op = begin_on(1), other = begin_on(2);
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_DONE);
    assert_int_equal(op.result.verdict, RECORD_REPLAY);
    assert_int_equal(unpack(op.result.found), OUTCOME_DAMAGED);
    assert_null(op.result.found->body.at);
    outcome_unref(op.result.found);
    run(bed, &other);
    assert_int_equal(other.result.verdict, RECORD_PROCEED);
}

static void a_damaged_body_is_sent_to_nobody_and_stops_nobody_else(void **state)
{
    check_damaged(*state, "UPDATE pawl_outcome"
                          " SET body = substr(body, 1, 20) || x'00ff00' || substr(body, 24)");
}

static void so_is_a_body_whose_size_is_none(void **state)
{
    check_damaged(*state, "UPDATE pawl_outcome SET body = x'00ff00' || substr(body, 4)");
}

int main(void)
{
    struct CMUnitTest tests[] = {
        BED_TEST(bodies_of_every_size_are_replayed_byte_for_byte),
        BED_TEST(many_bodies_in_one_batch_stay_apart),
        BED_TEST(the_file_holds_what_is_above_1_kib_packed_when_that_is_smaller),
        BED_TEST(a_store_keeps_a_body_as_it_is_given_and_gives_it_back_as_it_is_kept),
        BED_TEST(a_body_that_has_no_room_is_not_even_loaded),
        BED_TEST(a_damaged_body_is_sent_to_nobody_and_stops_nobody_else),
        BED_TEST(so_is_a_body_whose_size_is_none),
    };
    return bed_run(tests, sizeof tests / sizeof *tests);
}
