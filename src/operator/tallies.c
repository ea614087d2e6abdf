/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/tallies.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "operator/counters.h"
#include "operator/tasks.h"

#define EACH_US (5 * CLOCK_US_PER_S)
#define SAMPLES_MAX ((size_t)64 * 1024) /* bytes of one series */

/* What waits or is sent has not arrived: the first of either is the oldest. */
static const enum task_state unfinished[] = {TASK_WAITING, TASK_SENDING};
enum { UNFINISHED = COUNT_OF(unfinished) };

struct tally_of_kind {
    int64_t n[TASK_STATE_COUNT];
    int64_t oldest[UNFINISHED]; /* store time; 0: there is none */
};

/* A query under way, and what it asks for. */
struct tally_query {
    struct store_op op;
    struct table_query query;
    struct store_task like;
};

struct tallies {
    struct store *store;
    struct metrics *metrics;
    int64_t due; /* boot time */
    bool waits;  /* for what was asked for */
    struct tally_query counting[TASKS_KIND_COUNT][TASK_STATE_COUNT];
    struct tally_query looking[TASKS_KIND_COUNT][UNFINISHED];
    struct tally_query summing;
    struct counters counters;
    struct tally_of_kind found[TASKS_KIND_COUNT];
    struct mutex mutex;
    struct tally_of_kind shown[TASKS_KIND_COUNT];
};

struct tallies *tallies_new(struct store *store, struct metrics *metrics)
{
    struct tallies *tallies = mem_zalloc(1, sizeof *tallies);
    if (!tallies)
        return NULL;
    tallies->store = store;
    tallies->metrics = metrics;
    mutex_init(&tallies->mutex);
    return tallies;
}

void tallies_free(struct tallies *tallies)
{
    if (!tallies)
        return;
    counters_fini(&tallies->counters);
    mutex_fini(&tallies->mutex);
    mem_free(tallies);
}

/* ---- asking ---- */

static void keep_tally(void *argument, const struct table_row *row)
{
    *(int64_t *)argument = row->id;
}

static void keep_oldest(void *argument, const struct table_row *row)
{
    *(int64_t *)argument = ((const struct store_task *)row)->task.created_at;
}

static void ask_for_tally(struct tallies *tallies, struct tally_query *asked,
                          const struct table_query *query)
{
    asked->query = *query;
    asked->op = (struct store_op){.kind = STORE_QUERY, .query = &asked->query};
    store_submit(tallies->store, &asked->op);
}

static void ask_for_tasks(struct tallies *tallies, struct tally_query *asked, bool counts,
                          int64_t *into)
{
    *into = 0;
    ask_for_tally(tallies, asked,
                  &(struct table_query){.table = &task_table,
                                        .by = TABLE_BY_INDEX,
                                        .index = &task_indexes[TASK_BY_STATE],
                                        .prefix = 2,
                                        .like = &asked->like.row,
                                        .is_count = counts,
                                        .limit = counts ? TALLIES_MOST : 1,
                                        .each = counts ? keep_tally : keep_oldest,
                                        .argument = into});
}

static void ask_all(struct tallies *tallies)
{
    CHECK(!tallies->waits); /* what was asked for before is done with */
    for (size_t kind = 0; kind < TASKS_KIND_COUNT; kind++) {
        struct tally_of_kind *found = &tallies->found[kind];
        CHECK(tasks_kinds[kind].name); /* it has its row */
        for (size_t state = 0; state < TASK_STATE_COUNT; state++) {
            struct tally_query *asked = &tallies->counting[kind][state];
            asked->like =
                (struct store_task){.kind = slice_of(tasks_kinds[kind].name), .task.state = state};
            ask_for_tasks(tallies, asked, true, &found->n[state]);
        }
        for (size_t i = 0; i < UNFINISHED; i++) {
            struct tally_query *asked = &tallies->looking[kind][i];
            asked->like = (struct store_task){.kind = slice_of(tasks_kinds[kind].name),
                                              .task.state = unfinished[i]};
            ask_for_tasks(tallies, asked, false, &found->oldest[i]);
        }
    }
    counters_fini(&tallies->counters);
    counters_init(&tallies->counters);
    struct table_query query = counters_query(&tallies->counters);
    ask_for_tally(tallies, &tallies->summing, &query);
    tallies->waits = true;
}

/* ---- what came of it ---- */

static bool take_ended(const struct tally_query *asked, size_t n, bool *all_done)
{
    bool ended = true;
    for (size_t i = 0; i < n; i++) {
        ended = ended && store_op_ended(&asked[i].op);
        *all_done = *all_done && ended && asked[i].op.result.status == STORE_DONE;
    }
    return ended;
}

static void show_counters(struct tallies *tallies)
{
    for (size_t i = 0; counters_series[i]; i++) {
        BUF_AUTO struct buf samples = buf_make(SAMPLES_MAX);
        counters_add_samples(&tallies->counters, counters_series[i], &samples);
        if (buf_ok(&samples))
            metrics_stored(tallies->metrics, counters_series[i] - page_series, buf_slice(&samples));
    }
}

static void take_tallies(struct tallies *tallies)
{
    bool done = true;
    CHECK(tallies->waits);
    bool ended = take_ended(&tallies->counting[0][0], TASKS_KIND_COUNT * TASK_STATE_COUNT, &done) &&
                 take_ended(&tallies->looking[0][0], TASKS_KIND_COUNT * UNFINISHED, &done) &&
                 take_ended(&tallies->summing, 1, &done);
    if (!ended)
        return;
    tallies->waits = false;
    if (!done)
        return;
    mutex_lock(&tallies->mutex);
    memcpy(tallies->shown, tallies->found, sizeof tallies->shown);
    mutex_unlock(&tallies->mutex);
    if (!tallies->counters.arena.failed)
        show_counters(tallies);
}

void tallies_watch(struct tallies *tallies)
{
    int64_t now = clock_boot_us();
    if (tallies->waits)
        take_tallies(tallies);
    if (tallies->waits || now < tallies->due)
        return;
    tallies->due = clock_after(now, EACH_US);
    ask_all(tallies);
}

/* ---- the page ---- */

static void add_ages(struct buf *page, const struct tally_of_kind *shown, int64_t now)
{
    const struct page_series *series = SERIES(TASK_OLDEST);
    page_begin(page, series);
    for (size_t kind = 0; kind < TASKS_KIND_COUNT; kind++) {
        int64_t age = 0;
        for (size_t i = 0; i < UNFINISHED; i++)
            if (shown[kind].oldest[i] > 0 && now - shown[kind].oldest[i] > age)
                age = now - shown[kind].oldest[i];
        page_sample(page, series, "kind", tasks_kinds[kind].name, (uint64_t)(age / CLOCK_US_PER_S));
    }
}

void tallies_write(struct tallies *tallies, struct buf *page)
{
    const struct page_series *series = SERIES(TASKS);
    struct tally_of_kind shown[TASKS_KIND_COUNT];
    mutex_lock(&tallies->mutex);
    memcpy(shown, tallies->shown, sizeof shown);
    mutex_unlock(&tallies->mutex);
    page_begin(page, series);
    for (size_t kind = 0; kind < TASKS_KIND_COUNT; kind++)
        for (size_t state = 0; state < TASK_STATE_COUNT; state++)
            buf_printf(page, "%s{kind=\"%s\",state=\"%.*s\"} %lld\n", series->name,
                       tasks_kinds[kind].name, SLICE_ARG(task_state_name(state)),
                       (long long)shown[kind].n[state]);
    add_ages(page, shown, store_now(tallies->store));
}
