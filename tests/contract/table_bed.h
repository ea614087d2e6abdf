/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of the suite's own, declared as a module would, and short words for what is done with
 * them. */
#ifndef PAWL_TESTS_TABLE_BED_H
#define PAWL_TESTS_TABLE_BED_H

#include "store_bed.h"

#define ALL SIZE_MAX
#define KEEP_US (100 * SECOND)

enum job_state { JOB_WAITING = 1, JOB_DONE = 2 };

struct job {
    struct table_row row;
    struct slice lane;
    int64_t number;
    enum job_state state;
    bool is_paused;
    struct slice data;
    int64_t due_at;
    int64_t gone_at;
    struct slice running; /* unique where it is not empty */
};

#define COLUMN(kind, role, field) TABLE_COLUMN(struct job, kind, role, field, #field)

static const struct table_column columns[] = {
    COLUMN(TEXT, KEY, lane),    COLUMN(INT, KEY, number),      COLUMN(INT, PLAIN, state),
    COLUMN(BYTES, PLAIN, data), COLUMN(INT, PLAIN, is_paused), COLUMN(INT, DUE, due_at),
    COLUMN(INT, GONE, gone_at), COLUMN(TEXT, PLAIN, running),
};

enum { LANE, NUMBER, STATE, DATA, IS_PAUSED, DUE_AT, GONE_AT, RUNNING };

static const struct table_index indexes[] = {
    {.name = "due", .columns = {DUE_AT}, .n_columns = 1, .is_partial = true},
    {.name = "lane", .columns = {STATE, LANE, DUE_AT}, .n_columns = 3, .is_partial = true},
    {.name = "state", .columns = {STATE, NUMBER}, .n_columns = 2},
    {.name = "running",
     .columns = {RUNNING},
     .n_columns = 1,
     .is_unique = true,
     .is_partial = true},
};
enum { BY_DUE, BY_LANE, BY_STATE, BY_RUNNING };

static const struct table jobs = {
    .name = "test_job",
    .columns = columns,
    .n_columns = sizeof columns / sizeof *columns,
    .indexes = indexes,
    .n_indexes = sizeof indexes / sizeof *indexes,
    .row_size = sizeof(struct job),
    .keep_us = KEEP_US,
};

/* Its children: by a column, and by their id. */
struct step {
    struct table_row row;
    int64_t job;
    int64_t number;
};

static const struct table_column step_columns[] = {
    TABLE_COLUMN(struct step, INT, PARENT, job, "job"),
    TABLE_COLUMN(struct step, INT, PLAIN, number, "number"),
};
static const struct table_index step_indexes[] = {
    {.name = "number", .columns = {0, 1}, .n_columns = 2, .is_unique = true}};
static const struct table steps = {
    .name = "test_step",
    .columns = step_columns,
    .n_columns = 2,
    .indexes = step_indexes,
    .n_indexes = 1,
    .parent = &jobs,
    .row_size = sizeof(struct step),
};

struct body {
    struct table_row row;
    struct slice text;
};

static const struct table_column body_columns[] = {
    TABLE_COLUMN(struct body, BYTES, PLAIN, text, "text")};
static const struct table bodies = {
    .name = "test_body",
    .columns = body_columns,
    .n_columns = 1,
    .parent = &jobs,
    .row_size = sizeof(struct body),
};

struct sum {
    struct table_row row;
    struct slice name;
    int64_t value;
};

static const struct table_column sum_columns[] = {
    TABLE_COLUMN(struct sum, TEXT, KEY, name, "name"),
    TABLE_COLUMN(struct sum, INT, SUM, value, "value")};
static const struct table sums = {
    .name = "test_sum", .columns = sum_columns, .n_columns = 2, .row_size = sizeof(struct sum)};

static const struct table *const tables[] = {&audit_table, &jobs, &steps, &bodies, &sums, NULL};

static inline void set_tables(struct bed *bed, bool no_thread)
{
    bed_close(bed);
    bed->config.tables = tables;
    bed->config.no_thread = no_thread;
    bed_open(bed);
}

static inline int set_up(void **state)
{
    int failed = bed_set_up(state);
    set_tables(*state, true);
    return failed;
}

/* ---- short words ---- */

static inline struct job job_of(int64_t number)
{
    return (struct job){.lane = SLICE("lane"),
                        .number = number,
                        .state = JOB_WAITING,
                        .data = SLICE("a\0b"),
                        .due_at = CLOCK_NEVER,
                        .gone_at = CLOCK_NEVER};
}

static inline struct table_change change_of(enum table_act act, struct job *job)
{
    return (struct table_change){.table = &jobs, .act = act, .row = &job->row};
}

static inline struct store_op bringing(struct table_change *changes, size_t n)
{
    return (struct store_op){.kind = STORE_ROWS, .brings = changes, .n_brings = n};
}

static inline enum store_status write_one(struct bed *bed, enum table_act act, struct job *job)
{
    struct table_change change = change_of(act, job);
    struct store_op op = bringing(&change, 1);
    run(bed, &op);
    assert_int_equal(change.is_stale, op.result.status == STORE_CONFLICT);
    if (op.result.status == STORE_DONE)
        job->row.version = change.version;
    return op.result.status;
}

static inline struct job insert(struct bed *bed, int64_t number, int64_t due_at)
{
    struct job job = job_of(number);
    job.due_at = due_at;
    assert_int_equal(write_one(bed, TABLE_INSERT, &job), STORE_DONE);
    return job;
}

struct found {
    struct job jobs[16];
    size_t n;
    char data[16];
    char lane[16];
};

static inline void note(void *argument, const struct table_row *row)
{
    struct found *found = argument;
    struct job *job = &found->jobs[found->n++];
    assert_in_range(found->n, 1, 16);
    *job = *(const struct job *)row;
    assert_in_range(job->data.len, 0, sizeof found->data);
    memcpy(found->data, job->data.len > 0 ? job->data.at : "", job->data.len);
    memcpy(found->lane, job->lane.len > 0 ? job->lane.at : "", job->lane.len);
    job->data.at = found->data;
    job->lane.at = found->lane;
}

/* Returns when the next one is due. */
static inline int64_t query(struct bed *bed, struct table_query query, struct found *ret_found)
{
    *ret_found = (struct found){.n = 0};
    query.table = &jobs;
    query.each = note;
    query.argument = ret_found;
    struct store_op op = {.kind = STORE_QUERY, .query = &query};
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_DONE);
    return op.result.next_due;
}

static inline bool find(struct bed *bed, int64_t number, struct found *ret_found)
{
    struct job like = job_of(number);
    query(bed, (struct table_query){.by = TABLE_BY_KEY, .like = &like.row}, ret_found);
    return ret_found->n == 1;
}

static inline size_t count(struct bed *bed)
{
    struct found found;
    query(bed, (struct table_query){.limit = ALL}, &found);
    return found.n;
}

#endif
