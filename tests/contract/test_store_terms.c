/* SPDX-License-Identifier: Apache-2.0 */
/* The terms of a store (store/terms.h): read by every batch, set by one at a time, and compared by
 * what begins. Where a load takes no lock, what another process sets between load and save is
 * noticed. */
#include "table_bed.h"

#include "base/mem.h"
#include <libpq-fe.h>
#include <stdlib.h>

static const struct terms none;
static const struct terms others = {.frozen = 1,
                                    .epoch = 2,
                                    .roster = 3,
                                    .went_back_at = 4,
                                    .restored_since = 5,
                                    .restored_at = 6,
                                    .restored_until = INT64_C(1) << 60};

static struct store_op setting(const struct terms_change *terms)
{
    return (struct store_op){.kind = STORE_ROWS, .terms = terms};
}

static enum store_status set(struct bed *bed, const struct terms *from, const struct terms *to)
{
    struct terms_change terms = {*from, *to};
    struct store_op op = setting(&terms);
    run(bed, &op);
    return op.status;
}

static void check_terms(struct bed *bed, const struct terms *terms)
{
    struct terms are = store_terms(bed->store);
    assert_true(terms_eq(&are, terms));
}

/* Another process on the same data. */
static void open_other(struct bed *bed, struct bed *other)
{
    bed_share(bed, other);
    other->config.tables = bed->config.tables;
    other->config.no_thread = true;
    bed_open(other);
}

static void close_other(struct bed *other)
{
    bed_close(other);
    thread_parker_fini(&other->parker);
}

/* ---- reading and setting ---- */

static void a_new_store_has_none(void **state)
{
    check_terms(*state, &none);
}

static void they_are_what_was_set_in_every_process_and_later(void **state)
{
    struct bed *bed = *state, other;
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
    op.terms = &first;
    run(bed, &op);
    assert_int_equal(op.status, STORE_DONE);
    op = bringing(&changes[1], 1);
    op.terms = &second;
    run(bed, &op);
    assert_int_equal(op.status, STORE_CONFLICT);
    op = bringing(&changes[2], 1);
    op.terms = &third;
    run(bed, &op);
    assert_int_equal(op.status, STORE_CONFLICT);
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
        assert_int_equal(ops[i].status, STORE_DONE);
    }
    check_terms(bed, &two);
    if (bed->kind == BED_TOY)
        assert_int_equal(store_counts(bed->store).work.batches, N);
}

/* ---- what was decided under other terms ---- */

struct between {
    struct bed other;
    struct terms_change terms;
};

static void set_between(void *argument)
{
    struct between *between = argument;
    struct store_op op = setting(&between->terms);
    run(&between->other, &op);
    assert_int_equal(op.status, STORE_DONE);
}

/* A store that holds its lock from load to save has nothing between the two. */
static bool has_between(const struct bed *bed)
{
    return bed->kind == BED_TOY || bed->kind == BED_POSTGRES;
}

/* In front of PostgreSQL, too, something that stops behind a load. */
static void open_hostile(struct bed *bed)
{
    enum store_open_result result;
    char *problem = NULL;
    if (bed->kind != BED_POSTGRES)
        return;
    bed_close(bed);
    struct backend *behind = postgres_backend_open(&bed->config, &result, &problem);
    assert_non_null(behind);
    bed->backend = hostile_over(behind, 0, false);
    assert_int_equal(store_open_over(&bed->config, bed->backend, &bed->store, &problem),
                     STORE_OPENED);
}

static void meanwhile(struct bed *bed, struct between *between)
{
    struct backend *backend = bed->backend;
    bed->backend = bed->kind == BED_TOY ? backend : NULL; /* which would be shared */
    bed_share(bed, &between->other);
    bed->backend = backend;
    between->other.config.tables = bed->config.tables;
    between->other.config.no_thread = true;
    bed_open(&between->other);
    between->terms = (struct terms_change){none, {.epoch = 1}};
    struct hostile_faults *faults = hostile_faults(backend);
    faults->loaded = set_between;
    faults->argument = between;
}

static void a_begin_is_decided_again(void **state)
{
    struct bed *bed = *state;
    struct between between;
    if (!has_between(bed))
        return;
    open_hostile(bed);
    meanwhile(bed, &between);
    (void)proceed(bed, 1);
    check_terms(bed, &between.terms.wanted);
    assert_int_equal(check_counts(bed), 1);
    close_other(&between.other);
}

static void so_is_what_says_that_it_begins(void **state)
{
    struct bed *bed = *state;
    struct between between;
    if (!has_between(bed))
        return;
    open_hostile(bed);
    meanwhile(bed, &between);
    struct job job = job_of(1);
    struct table_change change = change_of(TABLE_INSERT, &job);
    struct store_op op = bringing(&change, 1);
    op.begins = true;
    run(bed, &op);
    assert_int_equal(op.status, STORE_DONE);
    check_terms(bed, &between.terms.wanted);
    assert_int_equal(count(bed), 1);
    close_other(&between.other);
}

/* At once: in the batch that was loaded before. */
static void what_has_happened_is_stored(void **state)
{
    struct bed *bed = *state;
    struct between between;
    if (!has_between(bed))
        return;
    open_hostile(bed);
    int64_t token = proceed(bed, 1);
    meanwhile(bed, &between);
    assert_int_equal(finish(bed, 1, token, "kept"), RECORD_WRITTEN);
    check_terms(bed, &none);
    assert_int_equal(verdict(bed, 1), RECORD_REPLAY);
    check_terms(bed, &between.terms.wanted);
    close_other(&between.other);
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
    assert_int_equal(op.status, STORE_DONE);
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
    assert_int_equal(op.verdict, RECORD_PROCEED);
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

#define T(name)                                                                                    \
    {                                                                                              \
#name, name, set_up, bed_tear_down, NULL                                                   \
    }

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
        T(nobody_sets_them_while_a_save_is_in_flight),
        T(no_begin_is_saved_while_somebody_sets_them),
        T(what_reads_the_row_or_holds_it_is_in_nobodys_way),
    };
    return bed_run(tests, sizeof tests / sizeof *tests);
}
