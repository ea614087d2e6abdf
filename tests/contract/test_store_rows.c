/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of modules: what is saved is as it was found, or it is found and decided again. */
#include "table_bed.h"

#include "store/rows.h"

#define ARENA_MAX ((size_t)16 * 1024 * 1024)
#define MANY 1100 /* more than two pages */

struct desk {
    struct arena arena;
    struct table_change changes[TABLE_BRINGS_MAX];
    struct rows rows;
};

static struct desk *desk_of(struct bed *bed)
{
    static struct desk desk;
    arena_fini(&desk.arena);
    desk.arena = arena_make(ARENA_MAX);
    desk.rows = (struct rows){.store = bed->store,
                              .parker = &bed->parker.parker,
                              .arena = &desk.arena,
                              .changes = desk.changes,
                              .most = TABLE_BRINGS_MAX};
    return &desk;
}

static struct job add(struct rows *rows, int64_t number)
{
    struct job job = job_of(number);
    rows->n = 0;
    rows_put(rows, TABLE_INSERT, &jobs, &job.row, NULL);
    assert_int_equal(rows_save(rows), STORE_DONE);
    return job;
}

static enum store_status read_job(struct rows *rows, int64_t number, struct job *ret_job)
{
    *ret_job = job_of(number);
    return rows_find_one(rows, &jobs, &ret_job->row);
}

static void what_was_put_is_found_in_one_piece(void **state)
{
    struct rows *rows = &desk_of(*state)->rows;
    struct job job = job_of(1), found;
    struct step step = {.number = 7}, next = {0};
    rows_put(rows, TABLE_INSERT, &jobs, &job.row, NULL);
    rows_put(rows, TABLE_INSERT, &steps, &step.row, &job.row);
    assert_int_equal(rows_save(rows), STORE_DONE);
    assert_int_equal(read_job(rows, 1, &found), STORE_DONE);
    assert_true(found.row.id == job.row.id && slice_eq(found.data, job.data) && rows->now > 0);
    assert_true(found.data.at != job.data.at);
    assert_int_equal(rows_by_id(rows, &steps, step.row.id, &next.row), STORE_DONE);
    assert_true(next.row.id == step.row.id && next.job == job.row.id && next.number == 7);
}

static void what_is_not_there_has_no_id(void **state)
{
    struct rows *rows = &desk_of(*state)->rows;
    struct job job = add(rows, 1), other;
    struct table_query waiting = {
        .table = &jobs, .by = TABLE_BY_INDEX, .index = &indexes[BY_STATE], .prefix = 1};
    assert_int_equal(read_job(rows, 2, &other), STORE_DONE);
    assert_true(other.row.id == 0 && other.number == 2);
    assert_int_equal(rows_by_id(rows, &jobs, job.row.id - 1, &other.row), STORE_DONE);
    assert_true(other.row.id == 0 && other.number == 2);
    assert_int_equal(rows_by_id(rows, &jobs, 0, &other.row), STORE_DONE);
    assert_int_equal(other.row.id, 0);
    waiting.like = &other.row;
    assert_int_equal(rows_find_first(rows, &waiting, &other.row), STORE_DONE);
    assert_true(other.row.id == job.row.id && other.number == 1);
}

static void all_are_found_however_many(void **state)
{
    struct desk *desk = desk_of(*state);
    struct rows *rows = &desk->rows;
    static struct job many[MANY];
    struct store_found found;
    for (int64_t i = 0; i < MANY; i++) {
        many[i] = job_of(i);
        rows_put(rows, TABLE_INSERT, &jobs, &many[i].row, NULL);
        if (rows->n < rows->most && i + 1 < MANY)
            continue;
        assert_int_equal(rows_save(rows), STORE_DONE);
        rows->n = 0;
    }
    assert_int_equal(rows_find_all(rows, &jobs, &found), STORE_DONE);
    assert_int_equal(found.n, MANY);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(((const struct job *)found.rows[i])->number, i);
    desk->arena.max = 1024;
    arena_reset(&desk->arena);
    assert_int_equal(rows_find_all(rows, &jobs, &found), STORE_NO_MEMORY);
}

static void where_nothing_was_put_the_store_is_not_asked(void **state)
{
    struct rows rows = {.store = NULL};
    (void)state;
    assert_int_equal(rows_save(&rows), STORE_DONE);
}

/* ---- another one is faster ---- */

struct race {
    int64_t number;
    int lost; /* how often another one is faster */
    int tries;
};

static void be_faster(const struct rows *rows, int64_t number)
{
    struct table_change change[1];
    struct rows others = *rows;
    struct job job;
    others.changes = change;
    others.n = 0;
    others.most = 1;
    assert_int_equal(read_job(&others, number, &job), STORE_DONE);
    rows_put(&others, TABLE_TOUCH, &jobs, &job.row, NULL);
    assert_int_equal(rows_save(&others), STORE_DONE);
}

static enum store_status try_end(struct rows *rows, struct race *race)
{
    struct job job, new = job_of(race->number + 1);
    assert_int_equal(rows->n, 0);
    enum store_status status = read_job(rows, race->number, &job);
    if (status != STORE_DONE)
        return status;
    if (race->tries++ < race->lost)
        be_faster(rows, race->number);
    job.state = JOB_DONE;
    rows_put(rows, TABLE_UPDATE, &jobs, &job.row, NULL);
    rows_put(rows, TABLE_INSERT, &jobs, &new.row, NULL);
    status = rows_save(rows);
    assert_int_equal(rows->changes[0].is_stale, status == STORE_CONFLICT);
    assert_int_equal(job.row.version == rows->changes[0].version, status == STORE_DONE);
    return status;
}

static enum store_status end(struct rows *rows, struct race *race, enum job_state *ret_state)
{
    struct job job, new;
    enum store_status status = STORE_CONFLICT;
    while (rows_try_again(rows, &status))
        status = try_end(rows, race);
    assert_int_equal(read_job(rows, race->number, &job), STORE_DONE);
    assert_int_equal(read_job(rows, race->number + 1, &new), STORE_DONE);
    assert_int_equal(new.row.id != 0, job.state == JOB_DONE);
    *ret_state = job.state;
    return status;
}

static void the_slower_one_decides_again(void **state)
{
    struct rows *rows = &desk_of(*state)->rows;
    struct race race = {.number = 1, .lost = 3};
    enum job_state ended;
    add(rows, 1);
    assert_int_equal(end(rows, &race, &ended), STORE_DONE);
    assert_int_equal(race.tries, 4);
    assert_int_equal(ended, JOB_DONE);
}

static void slower_each_time_it_says_that_the_store_is_down(void **state)
{
    struct rows *rows = &desk_of(*state)->rows;
    struct race race = {.number = 1, .lost = ROWS_TRIES_MOST};
    enum job_state ended;
    add(rows, 1);
    assert_int_equal(end(rows, &race, &ended), STORE_DOWN);
    assert_int_equal(race.tries, ROWS_TRIES_MOST);
    assert_int_equal(ended, JOB_WAITING);
}

static void what_is_no_conflict_is_tried_once(void **state)
{
    struct rows *rows = &desk_of(*state)->rows;
    enum store_status status = STORE_CONFLICT;
    int tries = 0;
    while (rows_try_again(rows, &status)) {
        status = STORE_FROZEN;
        tries++;
    }
    assert_int_equal(status, STORE_FROZEN);
    assert_int_equal(tries, 1);
    assert_int_equal(rows->tries, 0);
}

static int set_up_with_thread(void **state)
{
    int failed = set_up(state);
    set_tables(*state, false);
    return failed;
}

#define T(name)                                                                                    \
    {                                                                                              \
#name, name, set_up_with_thread, bed_tear_down, NULL                                       \
    }

int main(void)
{
    struct CMUnitTest tests[] = {
        T(what_was_put_is_found_in_one_piece), T(what_is_not_there_has_no_id),
        T(all_are_found_however_many),         T(where_nothing_was_put_the_store_is_not_asked),
        T(the_slower_one_decides_again),       T(slower_each_time_it_says_that_the_store_is_down),
        T(what_is_no_conflict_is_tried_once),
    };
    return bed_run(tests, sizeof tests / sizeof *tests);
}
