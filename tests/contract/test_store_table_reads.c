/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of modules that belong together, on every backend: found by an index, with their children,
 * added up, and kept with a begin. */
#include "table_bed.h"

#include "base/mem.h"

static struct job in_lane(struct bed *bed, int64_t number, const char *lane, int64_t due_at)
{
    struct job job = job_of(number);
    job.lane = slice_of(lane);
    job.due_at = due_at;
    assert_int_equal(write_one(bed, TABLE_INSERT, &job), STORE_DONE);
    return job;
}

static struct table_query by_index(int index, const struct job *like, size_t prefix)
{
    return (struct table_query){.by = TABLE_BY_INDEX,
                                .index = &indexes[index],
                                .like = &like->row,
                                .prefix = prefix,
                                .limit = ALL};
}

static void expect(const struct found *found, const int64_t *numbers, size_t n)
{
    assert_int_equal(found->n, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(found->jobs[i].number, numbers[i]);
}

#define EXPECT(found, ...)                                                                         \
    expect(found, (const int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / 8)

static void count_row(void *argument, const struct table_row *row)
{
    (void)row;
    ++*(size_t *)argument;
}

static size_t count_in(struct bed *bed, const struct table *table)
{
    size_t n = 0;
    struct table_query query = {.table = table, .limit = ALL, .each = count_row, .argument = &n};
    struct store_op op = {.kind = STORE_QUERY, .query = &query};
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_DONE);
    return n;
}

/* ---- by an index ---- */

static void rows_are_read_in_the_order_of_an_index_both_ways(void **state)
{
    struct bed *bed = *state;
    static const int64_t numbers[] = {5, -3, 9, 7};
    for (size_t i = 0; i < 4; i++) {
        struct job job = job_of(numbers[i]);
        job.state = numbers[i] == 9 ? JOB_DONE : JOB_WAITING;
        assert_int_equal(write_one(bed, TABLE_INSERT, &job), STORE_DONE);
    }
    struct job like = job_of(0);
    struct found found;
    struct table_query waiting = by_index(BY_STATE, &like, 1);
    query(bed, waiting, &found);
    EXPECT(&found, -3, 5, 7);
    struct job behind = found.jobs[0];
    waiting.behind = &behind.row;
    waiting.limit = 1;
    query(bed, waiting, &found);
    EXPECT(&found, 5);
    waiting.is_backward = true;
    query(bed, waiting, &found);
    assert_int_equal(found.n, 0);
    waiting.behind = NULL;
    waiting.limit = 2;
    query(bed, waiting, &found);
    EXPECT(&found, 7, 5);
}

static void keep_count(void *argument, const struct table_row *row)
{
    *(int64_t *)argument = row->id;
}

static int64_t count_like(struct bed *bed, const struct table_query *wanted)
{
    int64_t n = -1;
    struct table_query query = *wanted;
    query.table = &jobs;
    query.is_count = true;
    query.each = keep_count;
    query.argument = &n;
    struct store_op op = {.kind = STORE_QUERY, .query = &query};
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_DONE);
    return n;
}

static void rows_of_an_index_are_counted_up_to_a_limit(void **state)
{
    struct bed *bed = *state;
    for (int64_t i = 0; i < 5; i++) {
        struct job job = job_of(i);
        job.state = i == 4 ? JOB_DONE : JOB_WAITING;
        assert_int_equal(write_one(bed, TABLE_INSERT, &job), STORE_DONE);
    }
    struct job like = job_of(2);
    struct table_query waiting = by_index(BY_STATE, &like, 1);
    assert_int_equal(count_like(bed, &waiting), 4);
    waiting.limit = 3;
    assert_int_equal(count_like(bed, &waiting), 3);
    waiting.prefix = 2;
    assert_int_equal(count_like(bed, &waiting), 1);
    like.number = 9;
    assert_int_equal(count_like(bed, &waiting), 0);
    struct found found;
    query(bed, by_index(BY_STATE, &like, 1), &found); /* the same shape but for what is shown */
    assert_int_equal(found.n, 4);
}

static void of_equal_values_the_row_that_came_first_is_the_first(void **state)
{
    struct bed *bed = *state;
    for (int64_t i = 0; i < 3; i++)
        in_lane(bed, i, "lane", 100);
    struct job like = job_of(0);
    struct found found;
    struct table_query due = by_index(BY_LANE, &like, 2);
    query(bed, due, &found);
    EXPECT(&found, 0, 1, 2);
    struct job behind = found.jobs[0];
    due.behind = &behind.row;
    query(bed, due, &found);
    EXPECT(&found, 1, 2);
}

static void of_one_lane_what_is_due_is_read_and_the_next_time_is_named(void **state)
{
    struct bed *bed = *state;
    const int64_t later = clock_wall_us() + 3600 * SECOND;
    in_lane(bed, 1, "a", 300);
    in_lane(bed, 2, "b", 100);
    in_lane(bed, 3, "a", later);
    in_lane(bed, 4, "a", 200);
    in_lane(bed, 5, "a", CLOCK_NEVER);
    struct job like = job_of(0);
    like.lane = SLICE("a");
    struct found found;
    struct table_query due = by_index(BY_LANE, &like, 2);
    assert_int_equal(query(bed, due, &found), later);
    EXPECT(&found, 4, 1);
    due.limit = 1;
    assert_int_equal(query(bed, due, &found), 300);
    EXPECT(&found, 4);
    like.lane = SLICE("c");
    assert_int_equal(query(bed, due, &found), CLOCK_NEVER);
    assert_int_equal(found.n, 0);
}

static void of_each_lane_the_first_row_that_is_due_is_read(void **state)
{
    struct bed *bed = *state;
    const int64_t later = clock_wall_us() + 3600 * SECOND;
    static const char *const lanes[] = {"a", "b", "", "d", "c"};
    const int64_t times[] = {300, later, 200, 400, CLOCK_NEVER};
    for (int64_t i = 0; i < 5; i++) {
        in_lane(bed, i, lanes[i], times[i]);
        in_lane(bed, i + 10, lanes[i], times[i] == CLOCK_NEVER ? CLOCK_NEVER : times[i] + 1);
    }
    struct job like = job_of(0);
    struct found found;
    struct table_query lanes_due = by_index(BY_LANE, &like, 1);
    lanes_due.is_first_of_each = true;
    assert_int_equal(query(bed, lanes_due, &found), later);
    EXPECT(&found, 2, 0, 3);
    lanes_due.limit = 2;
    assert_int_equal(query(bed, lanes_due, &found), 400);
    EXPECT(&found, 2, 0);
    struct job behind = job_of(0);
    behind.lane = SLICE("a");
    lanes_due.behind = &behind.row;
    assert_int_equal(query(bed, lanes_due, &found), later);
    EXPECT(&found, 3);
}

static void of_each_value_the_last_row_is_read_backwards(void **state)
{
    struct bed *bed = *state;
    for (int64_t i = 0; i < 4; i++) {
        struct job job = job_of(i);
        job.state = i % 2 == 0 ? JOB_WAITING : JOB_DONE;
        assert_int_equal(write_one(bed, TABLE_INSERT, &job), STORE_DONE);
    }
    struct found found;
    struct job like = job_of(0);
    struct table_query lasts = by_index(BY_STATE, &like, 0);
    lasts.is_first_of_each = true;
    lasts.is_backward = true;
    assert_int_equal(query(bed, lasts, &found), CLOCK_NEVER);
    EXPECT(&found, 3, 2);
}

static void what_is_unique_where_it_is_set_is_in_no_second_row(void **state)
{
    struct bed *bed = *state;
    struct job first = job_of(1), second = job_of(2), third = job_of(3);
    first.running = second.running = SLICE("order");
    assert_int_equal(write_one(bed, TABLE_INSERT, &first), STORE_DONE);
    assert_int_equal(write_one(bed, TABLE_INSERT, &second), STORE_CONFLICT);
    second.running = SLICE("");
    assert_int_equal(write_one(bed, TABLE_INSERT, &second), STORE_DONE);
    assert_int_equal(write_one(bed, TABLE_INSERT, &third), STORE_DONE);
    second.running = SLICE("order");
    assert_int_equal(write_one(bed, TABLE_UPDATE, &second), STORE_CONFLICT);
    first.running = SLICE("");
    assert_int_equal(write_one(bed, TABLE_UPDATE, &first), STORE_DONE);
    assert_int_equal(write_one(bed, TABLE_UPDATE, &second), STORE_DONE);
    struct found found;
    query(bed, by_index(BY_RUNNING, &second, 1), &found);
    EXPECT(&found, 2);
}

/* An end that read what comes next before a row was added there would not know of it. */
static void whoever_read_a_row_before_it_was_touched_has_read_another_one(void **state)
{
    struct bed *bed = *state;
    struct job job = insert(bed, 1, CLOCK_NEVER), before = job, fresh = job_of(2), other = fresh;
    struct job touched = {.row = job.row};
    struct table_change changes[] = {change_of(TABLE_TOUCH, &touched),
                                     change_of(TABLE_INSERT, &fresh)};
    struct store_op op = bringing(changes, 2);
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_DONE);
    before.state = JOB_DONE;
    assert_int_equal(write_one(bed, TABLE_UPDATE, &before), STORE_CONFLICT);
    struct found found;
    assert_true(find(bed, 1, &found));
    assert_true(found.jobs[0].state == JOB_WAITING &&
                found.jobs[0].row.version == changes[0].version);
    other.number = 3;
    changes[1].row = &other.row;
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_CONFLICT);
    assert_true(changes[0].is_stale);
    assert_int_equal(count(bed), 2);
}

/* ---- children ---- */

/* A job with two steps and a body, in one operation. */
static struct job insert_family(struct bed *bed, int64_t number, int64_t gone_at)
{
    struct job job = job_of(number);
    struct step pair[2] = {{.number = 1}, {.number = 2}};
    struct body body = {.text = SLICE("body")};
    job.gone_at = gone_at;
    struct table_change changes[] = {change_of(TABLE_INSERT, &job),
                                     {.table = &steps, .row = &pair[0].row, .parent = &job.row},
                                     {.table = &steps, .row = &pair[1].row, .parent = &job.row},
                                     {.table = &bodies, .row = &body.row, .parent = &job.row}};
    struct store_op op = bringing(changes, 4);
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_DONE);
    assert_true(pair[0].job == job.row.id && pair[1].job == job.row.id);
    assert_int_equal(body.row.id, job.row.id);
    job.row.version = changes[0].version;
    return job;
}

static void children_are_named_after_the_row_that_comes_with_them_and_go_with_it(void **state)
{
    struct bed *bed = *state;
    struct job stays = insert_family(bed, 1, CLOCK_NEVER);
    struct job goes = insert_family(bed, 2, CLOCK_NEVER);
    struct step again = {.job = stays.row.id, .number = 2};
    struct table_change change = {.table = &steps, .row = &again.row};
    struct store_op op = bringing(&change, 1);
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_CONFLICT);
    assert_int_equal(write_one(bed, TABLE_REMOVE, &goes), STORE_DONE);
    assert_int_equal(count(bed), 1);
    assert_int_equal(count_in(bed, &steps), 2);
    assert_int_equal(count_in(bed, &bodies), 1);
}

#ifdef PAWL_HOOKS
static void children_are_swept_with_their_parent(void **state)
{
    struct bed *bed = *state;
    int64_t now = clock_wall_us();
    bed_close(bed);
    clock_test_set(now, now);
    bed_open(bed);
    for (int64_t i = 0; i < 4; i++)
        insert_family(bed, i, i < 3 ? now + i : CLOCK_NEVER);
    now += KEEP_US + 1;
    clock_test_set(now, now);
    while (store_step(bed->store))
        ;
    assert_int_equal(count(bed), 2);
    assert_int_equal(count_in(bed, &steps), 4);
    assert_int_equal(count_in(bed, &bodies), 2);
    bed_close(bed);
    clock_test_set(0, 0);
}
#endif

/* ---- sums ---- */

static void note_sum(void *argument, const struct table_row *row)
{
    *(int64_t *)argument = ((const struct sum *)row)->value;
}

static int64_t sum_of(struct bed *bed, const char *name)
{
    int64_t value = 0;
    struct sum like = {.name = slice_of(name)};
    struct table_query query = {.table = &sums,
                                .by = TABLE_BY_KEY,
                                .like = &like.row,
                                .each = note_sum,
                                .argument = &value};
    struct store_op op = {.kind = STORE_QUERY, .query = &query};
    run(bed, &op);
    return value;
}

static struct table_change adding(struct sum *sum)
{
    return (struct table_change){.table = &sums, .act = TABLE_ADD, .row = &sum->row};
}

static void what_is_added_to_a_sum_by_several_operations_is_all_in_it(void **state)
{
    struct bed *bed = *state;
    struct sum added[] = {{.name = SLICE("a"), .value = 2},
                          {.name = SLICE("a"), .value = 40},
                          {.name = SLICE("b"), .value = -1}};
    struct table_change changes[] = {adding(&added[0]), adding(&added[1]), adding(&added[2])};
    struct store_op ops[] = {bringing(&changes[0], 1), bringing(&changes[1], 2)};
    submit(bed, &ops[0]);
    submit(bed, &ops[1]);
    await(bed, &ops[0]);
    await(bed, &ops[1]);
    assert_true(ops[0].result.status == STORE_DONE && ops[1].result.status == STORE_DONE);
    assert_int_equal(sum_of(bed, "a"), 42);
    assert_int_equal(sum_of(bed, "b"), -1);
    assert_int_equal(count_in(bed, &sums), 2);
}

static void to_a_sum_nothing_is_added_with_a_row_that_does_not_fit(void **state)
{
    struct bed *bed = *state;
    struct sum sum = {.name = SLICE("a"), .value = 2};
    struct job job = insert(bed, 1, CLOCK_NEVER), again = job_of(1);
    struct table_change changes[] = {adding(&sum), change_of(TABLE_INSERT, &again)};
    struct store_op op = bringing(changes, 2);
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_CONFLICT);
    assert_int_equal(sum_of(bed, "a"), 0);
    assert_int_equal(write_one(bed, TABLE_REMOVE, &job), STORE_DONE);
    run(bed, &op);
    assert_int_equal(sum_of(bed, "a"), 2);
}

/* ---- with a begin ---- */

static struct store_op begin_with(uint64_t key, struct table_change *change)
{
    struct store_op op = begin_on(key);
    op.brings = change;
    op.n_brings = 1;
    return op;
}

static void a_begin_that_acquires_keeps_the_row_that_it_brings(void **state)
{
    struct bed *bed = *state;
    struct job job = insert(bed, 1, CLOCK_NEVER);
    struct table_change change = change_of(TABLE_UPDATE, &job);
    struct store_op op = begin_with(1, &change);
    job.state = JOB_DONE;
    run(bed, &op);
    assert_true(op.result.status == STORE_DONE && op.result.verdict == RECORD_PROCEED);
    struct found found;
    assert_true(find(bed, 1, &found));
    assert_int_equal(found.jobs[0].state, JOB_DONE);
    assert_int_equal(found.jobs[0].row.version, change.version);
    job.row.version = change.version;
    job.state = JOB_WAITING;
    change = change_of(TABLE_UPDATE, &job);
    struct store_op end = write_on(1, STORE_RELEASE, op.result.record.token);
    end.brings = &change;
    end.n_brings = 1;
    run(bed, &end);
    assert_true(end.result.status == STORE_DONE && end.result.write == RECORD_WRITTEN);
    job.row.version = change.version;
    op = begin_with(1, &change);
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
}

static void a_begin_that_does_not_acquire_brings_nothing(void **state)
{
    struct bed *bed = *state;
    struct job job = job_of(1);
    struct table_change change = change_of(TABLE_INSERT, &job);
    proceed(bed, 1);
    finish(bed, 2, proceed(bed, 2), "done");
    for (uint64_t key = 1; key <= 2; key++) {
        struct store_op op = begin_with(key, &change);
        run(bed, &op);
        outcome_unref(op.result.found);
        assert_int_equal(op.result.status, STORE_DONE);
        assert_int_equal(op.result.verdict, key == 1 ? RECORD_IN_PROGRESS : RECORD_REPLAY);
    }
    assert_int_equal(count(bed), 0);
}

static void a_begin_whose_row_does_not_fit_acquires_nothing(void **state)
{
    struct bed *bed = *state;
    struct job job = insert(bed, 1, CLOCK_NEVER), again = job_of(1);
    struct table_change change = change_of(TABLE_INSERT, &again);
    struct store_op op = begin_with(1, &change);
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_CONFLICT);
    assert_true(change.is_stale);
    assert_int_equal(look(bed, 1).status, RECORD_ABSENT);
    assert_int_equal(check_counts(bed), 0);
    assert_int_equal(write_one(bed, TABLE_REMOVE, &job), STORE_DONE);
    run(bed, &op);
    assert_true(op.result.status == STORE_DONE && op.result.verdict == RECORD_PROCEED);
    assert_int_equal(count(bed), 1);
}

static void a_begin_whose_commit_was_unsure_has_brought_its_row_once(void **state)
{
    struct bed *bed = *state;
    if (bed->kind != BED_TOY)
        return;
    set_tables(bed, false);
    struct job job = job_of(1);
    struct table_change change = change_of(TABLE_INSERT, &job);
    struct store_op op = begin_with(1, &change);
    atomic_store(&hostile_faults(bed->backend)->next_save, BACKEND_UNSURE);
    run(bed, &op);
    assert_true(op.result.status == STORE_DONE && op.result.verdict == RECORD_PROCEED);
    assert_int_equal(count(bed), 1);
    job.row.version = change.version;
    assert_int_equal(write_one(bed, TABLE_UPDATE, &job), STORE_DONE);
}

/* ---- unsure, and changed by another process before it is tried again ---- */

struct rival {
    struct bed bed;
    struct hostile_faults *faults;
};

static void change_row(void *argument)
{
    struct rival *rival = argument;
    struct found found;
    assert_true(find(&rival->bed, 1, &found));
    struct job job = found.jobs[0];
    job.state = JOB_DONE;
    assert_int_equal(write_one(&rival->bed, TABLE_UPDATE, &job), STORE_DONE);
}

static void change_row_at_second_load(void *argument)
{
    struct rival *rival = argument;
    rival->faults->argument = rival;
    rival->faults->loaded = change_row;
}

static struct rival *make_rival(struct bed *bed)
{
    struct rival *rival = mem_zalloc(1, sizeof *rival);
    assert_non_null(rival);
    open_other(bed, &rival->bed);
    rival->faults = hostile_faults(bed->backend);
    return rival;
}

static void free_rival(struct rival *rival)
{
    close_other(&rival->bed);
    mem_free(rival);
}

static void what_was_kept_by_an_unsure_save_is_done_though_its_row_has_changed_since(void **state)
{
    struct bed *bed = *state;
    if (bed->kind != BED_TOY)
        return;
    struct rival *rival = make_rival(bed);
    int64_t token = proceed(bed, 1);
    struct job job = job_of(1);
    struct table_change change = change_of(TABLE_INSERT, &job);
    struct store_op ops[] = {bringing(&change, 1), write_on(1, STORE_RELEASE, token)};
    ops[1].brings = &change;
    ops[1].n_brings = 1;
    for (size_t i = 0; i < 2; i++) {
        rival->faults->argument = rival;
        rival->faults->loaded = change_row_at_second_load;
        atomic_store(&rival->faults->next_save, BACKEND_UNSURE);
        run(bed, &ops[i]);
        assert_int_equal(ops[i].result.status, STORE_DONE);
        assert_null(rival->faults->loaded);
        struct found found;
        assert_true(find(bed, 1, &found));
        assert_int_equal(found.jobs[0].state, JOB_DONE);
        assert_int_equal(write_one(bed, TABLE_REMOVE, &found.jobs[0]), STORE_DONE);
    }
    assert_int_equal(ops[1].result.write, RECORD_WRITTEN);
    assert_int_equal(look(bed, 1).status, RECORD_PENDING);
    free_rival(rival);
}

#define T(name) BED_TEST_AFTER(name, set_up)

int main(void)
{
    struct CMUnitTest tests[] = {
        T(rows_are_read_in_the_order_of_an_index_both_ways),
        T(rows_of_an_index_are_counted_up_to_a_limit),
        T(of_equal_values_the_row_that_came_first_is_the_first),
        T(of_one_lane_what_is_due_is_read_and_the_next_time_is_named),
        T(of_each_lane_the_first_row_that_is_due_is_read),
        T(of_each_value_the_last_row_is_read_backwards),
        T(what_is_unique_where_it_is_set_is_in_no_second_row),
        T(whoever_read_a_row_before_it_was_touched_has_read_another_one),
        T(children_are_named_after_the_row_that_comes_with_them_and_go_with_it),
#ifdef PAWL_HOOKS
        T(children_are_swept_with_their_parent),
#endif
        T(what_is_added_to_a_sum_by_several_operations_is_all_in_it),
        T(to_a_sum_nothing_is_added_with_a_row_that_does_not_fit),
        T(a_begin_that_acquires_keeps_the_row_that_it_brings),
        T(a_begin_that_does_not_acquire_brings_nothing),
        T(a_begin_whose_row_does_not_fit_acquires_nothing),
        T(a_begin_whose_commit_was_unsure_has_brought_its_row_once),
        T(what_was_kept_by_an_unsure_save_is_done_though_its_row_has_changed_since),
    };
    return bed_run(tests, sizeof tests / sizeof *tests);
}
