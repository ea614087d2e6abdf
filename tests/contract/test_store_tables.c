/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of modules, on every backend: a table of the suite's own, declared as a module would. */
#include "table_bed.h"

#include "base/mem.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- one row ---- */

static void a_row_is_read_as_it_was_written(void **state)
{
    struct bed *bed = *state;
    struct job job = job_of(-7);
    job.is_paused = true;
    job.due_at = INT64_C(1) << 50;
    assert_int_equal(write_one(bed, TABLE_INSERT, &job), STORE_DONE);
    struct found found;
    assert_true(find(bed, -7, &found));
    struct job *read = &found.jobs[0];
    assert_true(slice_eq(read->lane, job.lane) && slice_eq(read->data, SLICE("a\0b")));
    assert_true(read->row.id == job.row.id && read->row.version == job.row.version);
    assert_true(read->number == -7 && read->state == JOB_WAITING && read->is_paused);
    assert_true(read->due_at == job.due_at && read->gone_at == CLOCK_NEVER);
    assert_false(find(bed, 7, &found));
}

static void a_row_without_bytes_has_none(void **state)
{
    struct bed *bed = *state;
    struct job job = job_of(1);
    job.data = (struct slice){0};
    assert_int_equal(write_one(bed, TABLE_INSERT, &job), STORE_DONE);
    struct found found;
    assert_true(find(bed, 1, &found));
    assert_int_equal(found.jobs[0].data.len, 0);
}

static void of_two_rows_with_one_key_the_first_is_kept(void **state)
{
    struct bed *bed = *state;
    struct job first = insert(bed, 1, CLOCK_NEVER), second = job_of(1), other = job_of(1);
    assert_int_equal(write_one(bed, TABLE_INSERT, &second), STORE_CONFLICT);
    other.lane = SLICE("other");
    assert_int_equal(write_one(bed, TABLE_INSERT, &other), STORE_DONE);
    struct found found;
    assert_true(find(bed, 1, &found));
    assert_int_equal(found.jobs[0].row.id, first.row.id);
    assert_int_equal(count(bed), 2);
}

static void a_row_changes_if_it_is_what_was_read(void **state)
{
    struct bed *bed = *state;
    struct job mine = insert(bed, 1, CLOCK_NEVER), theirs = mine;
    theirs.state = JOB_DONE;
    assert_int_equal(write_one(bed, TABLE_UPDATE, &theirs), STORE_DONE);
    mine.is_paused = true;
    assert_int_equal(write_one(bed, TABLE_UPDATE, &mine), STORE_CONFLICT);
    assert_int_equal(write_one(bed, TABLE_REMOVE, &mine), STORE_CONFLICT);
    struct found found;
    assert_true(find(bed, 1, &found));
    assert_true(found.jobs[0].state == JOB_DONE && !found.jobs[0].is_paused);
    theirs.is_paused = true;
    assert_int_equal(write_one(bed, TABLE_UPDATE, &theirs), STORE_DONE);
    assert_int_equal(write_one(bed, TABLE_REMOVE, &theirs), STORE_DONE);
    assert_int_equal(write_one(bed, TABLE_REMOVE, &theirs), STORE_CONFLICT);
    assert_int_equal(write_one(bed, TABLE_UPDATE, &theirs), STORE_CONFLICT);
    assert_int_equal(count(bed), 0);
}

static void a_key_whose_row_was_removed_is_free_again(void **state)
{
    struct bed *bed = *state;
    struct job job = insert(bed, 1, CLOCK_NEVER);
    int64_t id = job.row.id;
    struct job anew = job_of(1);
    struct table_change changes[] = {change_of(TABLE_REMOVE, &job), change_of(TABLE_INSERT, &anew)};
    struct store_op op = bringing(changes, 2);
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_DONE);
    assert_true(anew.row.id > id);
    assert_int_equal(count(bed), 1);
}

/* ---- many ---- */

static void rows_are_read_in_the_order_of_their_ids_behind_a_cursor(void **state)
{
    struct bed *bed = *state;
    for (int64_t i = 0; i < 5; i++)
        insert(bed, 10 - i, i == 1 ? CLOCK_NEVER : 5 - i);
    struct found found;
    int64_t after = 0;
    for (int64_t i = 0; i < 5; i += (int64_t)found.n) {
        query(bed, (struct table_query){.after = after, .limit = 2}, &found);
        for (size_t k = 0; k < found.n; k++)
            assert_int_equal(found.jobs[k].number, 10 - i - (int64_t)k);
        assert_in_range(found.n, 1, 2);
        after = found.jobs[found.n - 1].row.id;
    }
    query(bed, (struct table_query){.after = after, .limit = 2}, &found);
    assert_int_equal(found.n, 0);
}

static void rows_that_are_due_are_read_by_time_and_the_next_one_is_named(void **state)
{
    struct bed *bed = *state;
    const int64_t later = clock_wall_us() + 3600 * SECOND;
    const int64_t times[] = {500, CLOCK_NEVER, 300, 300, later, later + 1, 400};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        insert(bed, (int64_t)i, times[i]);
    struct table_query due = {.by = TABLE_BY_INDEX, .index = &indexes[BY_DUE], .limit = ALL};
    struct found found;
    assert_int_equal(query(bed, due, &found), later);
    assert_int_equal(found.n, 4);
    static const int64_t order[] = {2, 3, 6, 0};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(found.jobs[i].number, order[i]);
    due.limit = 1;
    assert_int_equal(query(bed, due, &found), 300);
    assert_int_equal(found.n, 1);
    struct job first = found.jobs[0];
    due.behind = &first.row;
    due.limit = 2;
    assert_int_equal(query(bed, due, &found), 500);
    assert_true(found.n == 2 && found.jobs[0].number == 3 && found.jobs[1].number == 6);
}

static void with_nothing_left_out_no_next_one_is_named(void **state)
{
    struct bed *bed = *state;
    struct found found;
    struct table_query due = {.by = TABLE_BY_INDEX, .index = &indexes[BY_DUE], .limit = 1};
    assert_int_equal(query(bed, due, &found), CLOCK_NEVER);
    insert(bed, 1, 1);
    insert(bed, 2, CLOCK_NEVER);
    assert_int_equal(query(bed, due, &found), CLOCK_NEVER);
    assert_int_equal(found.n, 1);
}

#ifdef PAWL_HOOKS
static void rows_are_swept_after_their_time_and_no_sooner(void **state)
{
    struct bed *bed = *state;
    int64_t now = clock_wall_us();
    bed_close(bed);
    clock_test_set(now, now);
    bed_open(bed);
    for (int64_t i = 0; i < 6; i++) {
        struct job job = job_of(i);
        job.gone_at = i < 4 ? now + i : CLOCK_NEVER;
        assert_int_equal(write_one(bed, TABLE_INSERT, &job), STORE_DONE);
    }
    now += KEEP_US + 2;
    clock_test_set(now, now);
    while (store_step(bed->store))
        ;
    assert_int_equal(count(bed), 3);
    struct found found;
    assert_false(find(bed, 2, &found));
    assert_true(find(bed, 3, &found));
    bed_close(bed);
    clock_test_set(0, 0);
}
#endif

/* ---- groups ---- */

static void what_is_brought_together_is_kept_whole_or_not_at_all(void **state)
{
    struct bed *bed = *state;
    struct job taken = insert(bed, 1, CLOCK_NEVER), changed = taken, fresh = job_of(2);
    struct job again = job_of(1);
    changed.state = JOB_DONE;
    struct table_change changes[] = {change_of(TABLE_UPDATE, &changed),
                                     change_of(TABLE_INSERT, &fresh),
                                     change_of(TABLE_INSERT, &again)};
    struct store_op op = bringing(changes, 3);
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_CONFLICT);
    assert_true(!changes[0].is_stale && !changes[1].is_stale && changes[2].is_stale);
    struct found found;
    assert_true(find(bed, 1, &found));
    assert_int_equal(found.jobs[0].state, JOB_WAITING);
    assert_int_equal(count(bed), 1);
    op.n_brings = 2;
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_DONE);
    assert_int_equal(count(bed), 2);
}

static void a_row_comes_with_the_outcome_that_it_belongs_to(void **state)
{
    struct bed *bed = *state;
    struct job job = insert(bed, 1, CLOCK_NEVER), old = job;
    struct table_change change = change_of(TABLE_UPDATE, &job);
    struct store_op op = write_on(1, STORE_FINISH, proceed(bed, 1));
    job.state = JOB_DONE;
    op.brings = &change;
    op.n_brings = 1;
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_DONE);
    struct found found;
    assert_true(find(bed, 1, &found));
    assert_int_equal(found.jobs[0].state, JOB_DONE);
    change.row = &old.row;
    op = write_on(2, STORE_FINISH, proceed(bed, 2));
    op.brings = &change;
    op.n_brings = 1;
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_CONFLICT);
    assert_int_equal(look(bed, 2).status, RECORD_PENDING);
    assert_int_equal(check_counts(bed), 2);
}

static void a_write_that_changes_no_record_brings_nothing(void **state)
{
    struct bed *bed = *state;
    struct job job = job_of(1);
    struct table_change change = change_of(TABLE_INSERT, &job);
    int64_t token = proceed(bed, 1);
    finish(bed, 1, token, "done");
    struct store_op ops[] = {write_on(1, STORE_FINISH, token), write_on(2, STORE_RELEASE, token)};
    for (size_t i = 0; i < 2; i++) {
        ops[i].brings = &change;
        ops[i].n_brings = 1;
        run(bed, &ops[i]);
        outcome_unref(ops[i].result.found);
        assert_int_equal(ops[i].result.status, STORE_DONE);
    }
    assert_int_equal(count(bed), 0);
}

static void of_two_changes_of_a_row_in_one_batch_the_first_is_kept(void **state)
{
    struct bed *bed = *state;
    struct job mine = insert(bed, 1, CLOCK_NEVER), theirs = mine;
    mine.state = JOB_DONE;
    struct table_change changes[] = {change_of(TABLE_UPDATE, &mine),
                                     change_of(TABLE_REMOVE, &theirs)};
    struct store_op ops[] = {bringing(&changes[0], 1), bringing(&changes[1], 1)};
    submit(bed, &ops[0]);
    submit(bed, &ops[1]);
    await(bed, &ops[0]);
    await(bed, &ops[1]);
    struct found found;
    if (bed->kind == BED_HOSTILE && ops[0].result.status == STORE_CONFLICT) { /* it was held up */
        assert_int_equal(ops[1].result.status, STORE_DONE);
        assert_int_equal(count(bed), 0);
        return;
    }
    assert_int_equal(ops[0].result.status, STORE_DONE);
    assert_int_equal(ops[1].result.status, STORE_CONFLICT);
    assert_true(find(bed, 1, &found));
    assert_int_equal(found.jobs[0].state, JOB_DONE);
}

/* It would have told the outcome that was not kept. */
static void a_begin_that_met_an_unsaved_outcome_is_decided_again(void **state)
{
    struct bed *bed = *state;
    struct job job = job_of(1);
    struct table_change change = change_of(TABLE_REMOVE, &job);
    int64_t token = proceed(bed, 1);
    struct store_op ops[] = {write_on(1, STORE_FINISH, token), begin_on(1),
                             write_on(1, STORE_DOUBT, token)};
    ops[0].brings = &change;
    ops[0].n_brings = 1;
    for (size_t i = 0; i < 3; i++)
        submit(bed, &ops[i]);
    for (size_t i = 0; i < 3; i++)
        await(bed, &ops[i]);
    assert_int_equal(ops[0].result.status, STORE_CONFLICT);
    assert_int_equal(ops[1].result.verdict, RECORD_IN_PROGRESS);
    assert_int_equal(ops[2].result.write, RECORD_WRITTEN);
    assert_int_equal(look(bed, 1).status, RECORD_UNKNOWN);
    assert_int_equal(check_counts(bed), 1);
}

/* ---- failures ---- */

static void a_row_whose_commit_failed_is_written_once(void **state)
{
    struct bed *bed = *state;
    if (bed->kind != BED_TOY)
        return;
    set_tables(bed, false);
    static const enum backend_status failures[] = {BACKEND_FULL, BACKEND_BUSY, BACKEND_UNSURE};
    for (int64_t i = 0; i < 3; i++) {
        atomic_int *next = &hostile_faults(bed->backend)->next_save;
        struct job job = job_of(i);
        atomic_store(next, failures[i]);
        enum store_status status = write_one(bed, TABLE_INSERT, &job);
        while (failures[i] == BACKEND_FULL && status == STORE_FULL)
            status = write_one(bed, TABLE_INSERT, &job);
        assert_int_equal(status, STORE_DONE);
        assert_int_equal(count(bed), 1);
        job.state = JOB_DONE;
        atomic_store(next, failures[i] == BACKEND_FULL ? BACKEND_OK : failures[i]);
        assert_int_equal(write_one(bed, TABLE_UPDATE, &job), STORE_DONE);
        atomic_store(next, failures[i] == BACKEND_FULL ? BACKEND_OK : failures[i]);
        assert_int_equal(write_one(bed, TABLE_REMOVE, &job), STORE_DONE);
        assert_int_equal(count(bed), 0);
    }
}

static void rows_are_there_when_the_store_is_opened_again(void **state)
{
    struct bed *bed = *state;
    if (bed->kind == BED_TOY)
        return;
    struct job job = insert(bed, 1, CLOCK_NEVER);
    set_tables(bed, true);
    job.state = JOB_DONE;
    assert_int_equal(write_one(bed, TABLE_UPDATE, &job), STORE_DONE);
    assert_true(insert(bed, 2, CLOCK_NEVER).row.id > job.row.id);
    assert_int_equal(count(bed), 2);
}

#ifdef PAWL_HOOKS
#define WORKER "--worker"

/* Runs in a process of its own, which is killed somewhere on the way. */
static int work(const char *path)
{
    struct bed bed = {.kind = BED_SQLITE, .config = store_config_default()};
    thread_parker_init(&bed.parker);
    bed.config.path = path;
    bed.config.tables = tables;
    bed.config.no_thread = true;
    bed_open(&bed);
    struct job pair[] = {job_of(1), job_of(2)};
    struct table_change changes[] = {change_of(TABLE_INSERT, &pair[0]),
                                     change_of(TABLE_INSERT, &pair[1])};
    struct store_op op = write_on(1, STORE_FINISH, look(&bed, 1).token);
    op.brings = changes;
    op.n_brings = 2;
    run(&bed, &op);
    bed_close(&bed);
    thread_parker_fini(&bed.parker);
    return 0;
}

static void run_worker(const struct bed *bed, const char *crash_at)
{
    pid_t pid = fork();
    assert_int_not_equal(pid, -1);
    if (pid == 0) {
        setenv("PAWL_CRASH_AT", crash_at, 1);
        execl("/proc/self/exe", "worker", WORKER, bed->config.path, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void rows_and_their_record_outlive_a_crash_together(void **state)
{
    struct bed *bed = *state;
    if (bed->kind == BED_TOY)
        return;
    static const struct {
        const char *at;
        bool is_kept;
    } crashes[] = {{"inside_batch:2", false},
                   {"before_commit:3", false},
                   {"after_commit:2", true},
                   {"after_wake_up:2", true}};
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++) {
        if (look(bed, 1).status == RECORD_ABSENT)
            proceed(bed, 1);
        bed_close(bed);
        run_worker(bed, crashes[i].at);
        bed_open(bed);
        assert_int_equal(look(bed, 1).status == RECORD_COMPLETE, crashes[i].is_kept);
        assert_int_equal(count(bed), crashes[i].is_kept ? 2 : 0);
        if (crashes[i].is_kept) {
            act(bed, 1, STORE_FORGET, 0);
            bed_exec(bed, "DELETE FROM test_job");
        }
    }
}
#endif

/* ---- columns that came later ---- */

/* The same table, of a pawl that is newer. */
struct later {
    struct job job;
    int64_t weight;
    struct slice note;
};

static const struct table_column later_columns[] = {
    COLUMN(TEXT, KEY, lane),
    COLUMN(INT, KEY, number),
    COLUMN(INT, PLAIN, state),
    COLUMN(BYTES, PLAIN, data),
    COLUMN(INT, PLAIN, is_paused),
    COLUMN(INT, DUE, due_at),
    COLUMN(INT, GONE, gone_at),
    COLUMN(TEXT, PLAIN, running),
    TABLE_LATE(struct later, INT, weight, "weight"),
    TABLE_LATE(struct later, TEXT, note, "note"),
};

static const struct table later_jobs = {
    .name = "test_job",
    .columns = later_columns,
    .n_columns = sizeof later_columns / sizeof *later_columns,
    .row_size = sizeof(struct later),
    .keep_us = KEEP_US,
};

static const struct table *const later_tables[] = {&audit_table, &later_jobs, NULL};
static const struct table *const earlier_tables[] = {&audit_table, &jobs, NULL};

static void open_by(struct bed *bed, const struct table *const *wanted)
{
    bed_close(bed);
    bed->config.tables = wanted;
    bed_open(bed);
}

static enum store_status write_later(struct bed *bed, enum table_act act, struct later *later)
{
    struct table_change change = {.table = &later_jobs, .act = act, .row = &later->job.row};
    struct store_op op = bringing(&change, 1);
    run(bed, &op);
    later->job.row.version = change.version;
    return op.result.status;
}

struct reading {
    struct later row;
    char note[16];
};

static void take_later(void *argument, const struct table_row *row)
{
    struct reading *reading = argument;
    reading->row = *(const struct later *)row;
    assert_in_range(reading->row.note.len, 0, sizeof reading->note);
    if (reading->row.note.len > 0)
        memcpy(reading->note, reading->row.note.at, reading->row.note.len);
}

static struct reading read_later(struct bed *bed, int64_t number)
{
    struct reading reading = {.row.job.number = -1};
    struct later like = {.job = job_of(number)};
    struct table_query query = {.table = &later_jobs,
                                .by = TABLE_BY_KEY,
                                .like = &like.job.row,
                                .each = take_later,
                                .argument = &reading};
    struct store_op op = {.kind = STORE_QUERY, .query = &query};
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_DONE);
    assert_int_equal(reading.row.job.number, number);
    return reading;
}

static void a_later_column_is_added_and_an_older_pawl_loses_nothing_of_it(void **state)
{
    struct bed *bed = *state;
    if (bed->kind == BED_TOY)
        return; /* which has no schema */
    open_by(bed, earlier_tables);
    insert(bed, 1, CLOCK_NEVER);
    if (bed->url[0])
        bed_exec(bed, "UPDATE store SET revision = 1");
    open_by(bed, later_tables);
    struct reading first = read_later(bed, 1);
    assert_true(first.row.weight == 0 && first.row.note.len == 0);
    struct later later = {.job = job_of(2), .weight = 7, .note = SLICE("seven")};
    assert_int_equal(write_later(bed, TABLE_INSERT, &later), STORE_DONE);

    open_by(bed, earlier_tables);
    struct job known = later.job;
    known.state = JOB_DONE;
    assert_int_equal(write_one(bed, TABLE_UPDATE, &known), STORE_DONE);
    insert(bed, 3, CLOCK_NEVER);

    open_by(bed, later_tables);
    struct reading second = read_later(bed, 2), third = read_later(bed, 3);
    assert_int_equal(second.row.job.state, JOB_DONE);
    assert_int_equal(second.row.weight, 7);
    assert_int_equal(second.row.note.len, 5);
    assert_memory_equal(second.note, "seven", 5);
    assert_true(third.row.weight == 0 && third.row.note.len == 0);
    later.job.row = second.row.job.row;
    later.weight = 0;
    assert_int_equal(write_later(bed, TABLE_UPDATE, &later), STORE_DONE);
    assert_int_equal(read_later(bed, 2).row.weight, 0);
}

#define T(name) BED_TEST_AFTER(name, set_up)

int main(int argc, char **argv)
{
#ifdef PAWL_HOOKS
    if (argc == 3 && strcmp(argv[1], WORKER) == 0)
        return work(argv[2]);
#endif
    (void)argc, (void)argv;
    struct CMUnitTest tests[] = {
        T(a_row_is_read_as_it_was_written),
        T(a_row_without_bytes_has_none),
        T(of_two_rows_with_one_key_the_first_is_kept),
        T(a_row_changes_if_it_is_what_was_read),
        T(a_key_whose_row_was_removed_is_free_again),
        T(rows_are_read_in_the_order_of_their_ids_behind_a_cursor),
        T(rows_that_are_due_are_read_by_time_and_the_next_one_is_named),
        T(with_nothing_left_out_no_next_one_is_named),
        T(what_is_brought_together_is_kept_whole_or_not_at_all),
        T(a_row_comes_with_the_outcome_that_it_belongs_to),
        T(a_write_that_changes_no_record_brings_nothing),
        T(of_two_changes_of_a_row_in_one_batch_the_first_is_kept),
        T(a_begin_that_met_an_unsaved_outcome_is_decided_again),
        T(a_row_whose_commit_failed_is_written_once),
        T(rows_are_there_when_the_store_is_opened_again),
        T(a_later_column_is_added_and_an_older_pawl_loses_nothing_of_it),
#ifdef PAWL_HOOKS
        T(rows_are_swept_after_their_time_and_no_sooner),
        T(rows_and_their_record_outlive_a_crash_together),
#endif
    };
    return bed_run(tests, sizeof tests / sizeof *tests);
}
