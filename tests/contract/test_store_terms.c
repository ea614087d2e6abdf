/* SPDX-License-Identifier: Apache-2.0 */
/* The terms of a store (store/tables/terms.h): read by every batch, set by one at a time, and
 * compared by what begins. Where a load takes no lock, what another process sets between load and
 * save is noticed. */
#include "between_bed.h"
#include <libpq-fe.h>
#include <stdlib.h>

static const struct terms none;
static const struct terms others = {.frozen = 1,
                                    .frozen_at = 8,
                                    .epoch = 2,
                                    .roster = 3,
                                    .went_back_at = 4,
                                    .restored_since = 5,
                                    .restored_at = 6,
                                    .restored_until = INT64_C(1) << 60};

static struct store_op setting(const struct terms_change *terms)
{
    return (struct store_op){.kind = STORE_ROWS, .rows.terms = terms};
}

static enum store_status set(struct bed *bed, const struct terms *from, const struct terms *to)
{
    struct terms_change terms = {*from, *to};
    struct store_op op = setting(&terms);
    run(bed, &op);
    return op.result.status;
}

static void check_terms(struct bed *bed, const struct terms *terms)
{
    struct terms are = store_terms(bed->store);
    assert_true(terms_eq(&are, terms));
}

/* ---- reading and setting ---- */

static void a_new_store_has_none(void **state)
{
    check_terms(*state, &none);
}

static void they_are_what_was_set_in_every_process_and_later(void **state)
{
    struct bed *bed = *state, other;
    bed->config.accepts_weaker = true; /* else it would not be opened, once it went back */
    open_other(bed, &other);
    assert_int_equal(set(bed, &none, &others), STORE_DONE);
    check_terms(bed, &others);
    check_terms(&other, &none);
    (void)look(&other, 1);
    check_terms(&other, &others);
    assert_int_equal(set(&other, &others, &none), STORE_DONE);
    assert_int_equal(set(&other, &none, &others), STORE_DONE);
    if (bed->kind == BED_TOY) {
        close_other(&other);
        return;
    }
    close_other(&other);
    bed_close(bed);
    bed_open(bed);
    check_terms(bed, &others);
}

static void they_are_set_only_where_they_are_what_was_expected(void **state)
{
    struct bed *bed = *state;
    struct terms two = {.epoch = 2}, three = {.epoch = 3};
    assert_int_equal(set(bed, &none, &two), STORE_DONE);
    assert_int_equal(set(bed, &none, &three), STORE_CONFLICT);
    check_terms(bed, &two);
    assert_int_equal(set(bed, &two, &three), STORE_DONE);
    check_terms(bed, &three);
}

static void they_are_set_together_with_the_rows_that_come_with_them(void **state)
{
    struct bed *bed = *state;
    struct job job = job_of(1), again = job_of(1), late = job_of(2);
    struct table_change changes[] = {change_of(TABLE_INSERT, &job), change_of(TABLE_INSERT, &again),
                                     change_of(TABLE_INSERT, &late)};
    struct terms one = {.roster = 1}, two = {.roster = 2};
    struct terms_change first = {none, one}, second = {one, two}, third = {none, two};
    struct store_op op = bringing(&changes[0], 1);
    op.rows.terms = &first;
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_DONE);
    op = bringing(&changes[1], 1);
    op.rows.terms = &second;
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_CONFLICT);
    op = bringing(&changes[2], 1);
    op.rows.terms = &third;
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_CONFLICT);
    check_terms(bed, &one);
    assert_int_equal(count(bed), 1);
}

/* In one batch they would be decided under the terms that it ends. */
static void whoever_sets_them_is_alone_in_its_batch(void **state)
{
    struct bed *bed = *state;
    struct terms one = {.epoch = 1}, two = {.epoch = 2};
    struct terms_change first = {none, one}, second = {one, two};
    struct store_op ops[] = {begin_on(1), setting(&first), begin_on(2), setting(&second),
                             begin_on(3)};
    enum { N = sizeof ops / sizeof *ops };
    for (size_t i = 0; i < N; i++)
        submit(bed, &ops[i]);
    for (size_t i = 0; i < N; i++) {
        await(bed, &ops[i]);
        assert_int_equal(ops[i].result.status, STORE_DONE);
    }
    check_terms(bed, &two);
    if (bed->kind == BED_TOY)
        assert_int_equal(store_counts(bed->store).work.batches, N);
}

/* ---- what was decided under other terms ---- */

static const struct terms_change change = {{0}, {.epoch = 1}};

static void meanwhile_they_are_set(struct bed *bed, struct between *between)
{
    open_hostile(bed);
    between->ops[0] = setting(&change);
    meanwhile(bed, between, 1);
}

static void a_begin_is_decided_again(void **state)
{
    struct bed *bed = *state;
    static struct between between;
    if (!has_between(bed))
        return;
    meanwhile_they_are_set(bed, &between);
    (void)proceed(bed, 1);
    check_terms(bed, &change.wanted);
    assert_int_equal(check_counts(bed), 1);
    close_other(&between.other);
}

static void so_is_what_says_that_it_begins(void **state)
{
    struct bed *bed = *state;
    static struct between between;
    if (!has_between(bed))
        return;
    meanwhile_they_are_set(bed, &between);
    struct job job = job_of(1);
    struct table_change brought = change_of(TABLE_INSERT, &job);
    struct store_op op = bringing(&brought, 1);
    op.rows.begins = true;
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_DONE);
    check_terms(bed, &change.wanted);
    assert_int_equal(count(bed), 1);
    close_other(&between.other);
}

/* At once: in the batch that was loaded before. */
static void what_has_happened_is_stored(void **state)
{
    struct bed *bed = *state;
    static struct between between;
    if (!has_between(bed))
        return;
    int64_t token = proceed(bed, 1);
    meanwhile_they_are_set(bed, &between);
    assert_int_equal(finish(bed, 1, token, "kept"), RECORD_WRITTEN);
    check_terms(bed, &none);
    assert_int_equal(verdict(bed, 1), RECORD_REPLAY);
    check_terms(bed, &change.wanted);
    close_other(&between.other);
}

/* ---- frozen ---- */

static enum store_status begun(struct bed *bed, uint64_t key)
{
    struct store_op op = begin_on(key);
    run(bed, &op);
    outcome_unref(op.result.found);
    return op.result.status;
}

/* found: R20 */
static void a_frozen_store_begins_nothing_and_takes_what_has_happened(void **state)
{
    struct terms frozen = {.frozen = 1};
    struct bed *bed = *state;
    finish(bed, 1, proceed(bed, 1), "kept");
    int64_t token = proceed(bed, 2), released = proceed(bed, 3);
    assert_int_equal(set(bed, &none, &frozen), STORE_DONE);
    assert_int_equal(begun(bed, 4), STORE_FROZEN);
    assert_int_equal(verdict(bed, 1), RECORD_REPLAY);
    assert_int_equal(verdict(bed, 2), RECORD_IN_PROGRESS);
    assert_int_equal(finish(bed, 2, token, "kept"), RECORD_WRITTEN);
    assert_int_equal(act(bed, 3, STORE_RELEASE, released), RECORD_WRITTEN);
    assert_int_equal(begun(bed, 3), STORE_FROZEN);
    assert_int_equal(check_counts(bed), 3);
    assert_int_equal(set(bed, &frozen, &none), STORE_DONE);
    assert_true(proceed(bed, 3) > released);
    (void)proceed(bed, 4);
}

/* found: R20
 * A claim of a task, an add; what says how something ended is stored. */
static void a_frozen_store_takes_no_row_that_begins_something(void **state)
{
    struct terms frozen = {.frozen = 1};
    struct bed *bed = *state;
    struct job job = job_of(1), other = job_of(2);
    struct table_change added = change_of(TABLE_INSERT, &job);
    struct table_change ended = change_of(TABLE_INSERT, &other);
    struct store_op add = bringing(&added, 1), end = bringing(&ended, 1);
    add.rows.begins = true;
    assert_int_equal(set(bed, &none, &frozen), STORE_DONE);
    run(bed, &add);
    assert_int_equal(add.result.status, STORE_FROZEN);
    run(bed, &end);
    assert_int_equal(end.result.status, STORE_DONE);
    assert_int_equal(count(bed), 1);
    assert_int_equal(set(bed, &frozen, &none), STORE_DONE);
    run(bed, &add);
    assert_int_equal(add.result.status, STORE_DONE);
    assert_int_equal(count(bed), 2);
}

/* ---- begins that were named in an epoch ---- */

static struct store_op named_in(int64_t epoch, uint64_t key)
{
    struct store_op op = begin_on(key);
    op.arrival.has_epoch = true;
    op.arrival.epoch = epoch;
    return op;
}

static enum store_status begun_in(struct bed *bed, int64_t epoch, uint64_t key)
{
    struct store_op op = named_in(epoch, key);
    run(bed, &op);
    outcome_unref(op.result.found);
    return op.result.status;
}

/* found: R2 */
static void a_begin_of_another_epoch_gets_nothing_and_an_owner_ends_in_any(void **state)
{
    struct bed *bed = *state;
    struct terms two = {.epoch = 2};
    finish(bed, 1, proceed(bed, 1), "kept");
    int64_t token = proceed(bed, 2);
    assert_int_equal(set(bed, &none, &two), STORE_DONE);
    for (int64_t epoch = 0; epoch < 4; epoch++) {
        enum store_status status = epoch == 2 ? STORE_DONE : STORE_MOVED;
        assert_int_equal(begun_in(bed, epoch, 1), status); /* a replay */
        assert_int_equal(begun_in(bed, epoch, 2), status); /* in progress */
    }
    assert_int_equal(begun_in(bed, 0, 3), STORE_MOVED);
    assert_int_equal(check_counts(bed), 2);
    assert_int_equal(finish(bed, 2, token, "kept"), RECORD_WRITTEN);
    assert_int_equal(begun_in(bed, 2, 3), STORE_DONE);
    assert_int_equal(begun(bed, 4), STORE_DONE); /* of no epoch */
}

static void nor_is_it_saved_where_the_epoch_is_raised_behind_its_load(void **state)
{
    struct bed *bed = *state;
    static struct between between;
    if (!has_between(bed))
        return;
    meanwhile_they_are_set(bed, &between);
    assert_int_equal(begun_in(bed, 0, 1), STORE_MOVED);
    assert_int_equal(check_counts(bed), 0);
    close_other(&between.other);
}

static void one_that_waits_learns_that_the_epoch_is_another(void **state)
{
    struct bed *bed = *state;
    struct terms one = {.epoch = 1};
    int64_t token = proceed(bed, 1);
    struct store_op op = named_in(0, 1);
    op.arrival.wait_until = clock_boot_us() + 3600 * CLOCK_US_PER_S;
    submit(bed, &op);
    for (int i = 0; i < 2 && !store_op_waits(&op); i++) /* it may go without a load first */
        (void)store_step(bed->store);
    assert_true(store_op_waits(&op));
    assert_int_equal(set(bed, &none, &one), STORE_DONE);
    assert_int_equal(finish(bed, 1, token, "kept"), RECORD_WRITTEN);
    await(bed, &op);
    assert_int_equal(op.result.status, STORE_MOVED);
}

/* ---- PostgreSQL: who holds the lock ---- */

static PGconn *hold(const struct bed *bed, const char *statement)
{
    PGconn *conn = PQconnectdb(bed->url);
    PQclear(PQexec(conn, "BEGIN"));
    PGresult *held = PQexec(conn, statement);
    ExecStatusType status = PQresultStatus(held);
    assert_true(status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK);
    PQclear(held);
    return conn;
}

static void let_go(PGconn *conn)
{
    PQclear(PQexec(conn, "COMMIT"));
    PQfinish(conn);
}

/* What a save that began holds until its commit is over. */
#define IN_FLIGHT "SELECT pawl.hold_terms(false)"
#define SETTING "SELECT pawl.hold_terms(true)"

static void nobody_sets_them_while_a_save_is_in_flight(void **state)
{
    struct bed *bed = *state;
    struct terms one = {.epoch = 1};
    if (bed->kind != BED_POSTGRES)
        return;
    PGconn *conn = hold(bed, IN_FLIGHT);
    struct terms_change terms = {none, one};
    struct store_op op = setting(&terms);
    submit(bed, &op);
    (void)store_step(bed->store);
    assert_false(store_op_ended(&op));
    (void)proceed(bed, 1); /* beside it */
    assert_int_equal(bed_number(bed, "SELECT epoch FROM store"), 0);
    let_go(conn);
    await(bed, &op);
    assert_int_equal(op.result.status, STORE_DONE);
    check_terms(bed, &one);
}

/* It is not in progress: it is decided once they are known. */
static void no_begin_is_saved_while_somebody_sets_them(void **state)
{
    struct bed *bed = *state;
    if (bed->kind != BED_POSTGRES)
        return;
    int64_t token = proceed(bed, 1);
    PGconn *conn = hold(bed, SETTING);
    struct store_op op = begin_on(2);
    submit(bed, &op);
    (void)store_step(bed->store);
    assert_false(store_op_ended(&op));
    let_go(conn);
    await(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    conn = hold(bed, SETTING);
    assert_int_equal(finish(bed, 1, token, "kept"), RECORD_WRITTEN);
    let_go(conn);
}

static void what_reads_the_row_or_holds_it_is_in_nobodys_way(void **state)
{
    static const char *const holds[] = {"LOCK TABLE pawl.store IN ACCESS SHARE MODE", /* pg_dump */
                                        "SELECT FROM pawl.store FOR SHARE",
                                        "SELECT count(*) FROM pawl.store"};
    struct bed *bed = *state;
    struct terms terms = none, next = none;
    for (size_t i = 0; i < 3 && bed->kind == BED_POSTGRES; i++, terms = next) {
        PGconn *conn = hold(bed, holds[i]);
        (void)proceed(bed, i);
        if (i == 1) /* nor is a change of it lost behind one who holds the row itself */
            let_go(conn);
        next.epoch++;
        assert_int_equal(set(bed, &terms, &next), STORE_DONE);
        if (i != 1)
            let_go(conn);
    }
}

#define T(name) BED_TEST_AFTER(name, set_up)

int main(void)
{
    struct CMUnitTest tests[] = {
        T(a_new_store_has_none),
        T(they_are_what_was_set_in_every_process_and_later),
        T(they_are_set_only_where_they_are_what_was_expected),
        T(they_are_set_together_with_the_rows_that_come_with_them),
        T(whoever_sets_them_is_alone_in_its_batch),
        T(a_begin_is_decided_again),
        T(so_is_what_says_that_it_begins),
        T(what_has_happened_is_stored),
        T(a_frozen_store_begins_nothing_and_takes_what_has_happened),
        T(a_frozen_store_takes_no_row_that_begins_something),
        T(a_begin_of_another_epoch_gets_nothing_and_an_owner_ends_in_any),
        T(nor_is_it_saved_where_the_epoch_is_raised_behind_its_load),
        T(one_that_waits_learns_that_the_epoch_is_another),
        T(nobody_sets_them_while_a_save_is_in_flight),
        T(no_begin_is_saved_while_somebody_sets_them),
        T(what_reads_the_row_or_holds_it_is_in_nobodys_way),
    };
    return bed_run(tests, sizeof tests / sizeof *tests);
}
