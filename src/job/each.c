/* SPDX-License-Identifier: Apache-2.0 */
#include "job/each.h"

#include "base/check.h"
#include "base/mem.h"
#include "fiber/fiber.h"
#include "job/each_priv.h"
#include "job/job.h"

#define LOOK_AGAIN_US (INT64_C(500) * CLOCK_US_PER_MS) /* at one in progress elsewhere */

struct each_worker {
    struct each *each;
    struct each_worker *next_idle;
    struct parker *parker; /* of its fiber */
    struct job_parker waits;
    void *own;
    struct each_item *item; /* under way; NULL: none */
    bool is_idle;
};

/* ---- items ---- */

struct each_item *each_item_new(const struct each_item *from)
{
    struct slice parts[] = {from->text, from->key, from->grouped.group};
    size_t n = from->n_texts, size = sizeof(struct each_item) + (n + 1) * sizeof(char *);
    size_t pointers = sizeof(struct each_item);
    for (size_t i = 0; i < 3; i++)
        size += parts[i].len + 1;
    for (size_t i = 0; i < n; i++)
        size += strlen(from->texts[i]) + 1;
    char *block = mem_alloc(size);
    if (!block)
        return NULL;
    struct each_item *item = (struct each_item *)block;
    const char **texts = (const char **)(block + pointers);
    char *at = block + pointers + (n + 1) * sizeof(char *);
    *item = *from;
    for (size_t i = 0; i < 3; i++) {
        if (parts[i].len > 0)
            memcpy(at, parts[i].at, parts[i].len);
        at[parts[i].len] = '\0';
        parts[i].at = at;
        at += parts[i].len + 1;
    }
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(from->texts[i]) + 1;
        texts[i] = memcpy(at, from->texts[i], len);
        at += len;
    }
    texts[n] = NULL;
    item->text = parts[0];
    item->key = parts[1];
    item->grouped = (struct groups_item){.group = parts[2]};
    item->texts = texts;
    item->bytes = size;
    return item;
}

static void append_item(struct each_list *list, struct groups_item *item)
{
    item->next = NULL;
    if (list->last)
        list->last->next = item;
    else
        list->first = item;
    list->last = item;
}

static void prepend_item(struct each_list *list, struct groups_item *item)
{
    item->next = list->first;
    list->first = item;
    if (!list->last)
        list->last = item;
}

static struct groups_item *take_first(struct each_list *list)
{
    struct groups_item *item = list->first;
    if (!item)
        return NULL;
    list->first = item->next;
    if (!list->first)
        list->last = NULL;
    return item;
}

void each_wake_worker(struct each *each)
{
    struct each_worker *worker = each->idle;
    if (!worker)
        return;
    CHECK(worker->is_idle && !worker->item);
    each->idle = worker->next_idle;
    worker->is_idle = false;
    parker_wake(worker->parker);
}

void each_enqueue(struct each *each, struct each_item *item)
{
    append_item(&each->queue, &item->grouped);
    each_wake_worker(each);
}

/* The item ends: its memory, and its place. */
static void drop_item(struct each *each, struct each_item *item)
{
    CHECK(each->held > 0 && each->held_bytes >= item->bytes);
    each->held--;
    each->held_bytes -= item->bytes;
    mem_free(item);
    if (each->feeder_waits)
        parker_wake(each->feeder);
}

void each_end_item(struct each *each, const struct each_end *end)
{
    CHECK(end->result < EACH_RESULTS && (end->item || end->result == EACH_BAD));
    each->counts[end->result]++;
    each->kind->report(each->argument, end);
    if (end->item)
        drop_item(each, (struct each_item *)(uintptr_t)end->item);
    if (end->result == EACH_FAILED && each->fails_fast)
        each_stop(each);
}

void each_end_unrun(struct each *each, struct each_item *item, enum each_result result)
{
    const struct each_end end = {.item = item, .result = result};
    each_end_item(each, &end);
}

/* ---- one item ---- */

static enum each_result judge_item(struct each *each, const struct runner *runner,
                                   enum runner_result result)
{
    enum store_status closed;
    switch (result) {
    case RUNNER_DONE:
    case RUNNER_FOUND:
        return EACH_RUN;
    case RUNNER_REPLAYED:
        return runner->attempt.result.record.status == RECORD_FAILED ? EACH_FAILED : EACH_SKIPPED;
    case RUNNER_FINAL:
    case RUNNER_ENDED: /* a command has said itself how it ended; a request may have been lost */
        return runner->in_doubt && !runner->executor->goes_on ? EACH_DOUBT : EACH_FAILED;
    case RUNNER_STOPPED:
        return retry_course_sent(&runner->course) > 0 ? EACH_FAILED : EACH_LEFT;
    case RUNNER_HELD:
        return EACH_DOUBT;
    case RUNNER_MISMATCH:
        return EACH_CHANGED;
    case RUNNER_IN_PROGRESS:
    case RUNNER_UNPROVED:
        return EACH_LEFT;
    case RUNNER_STORE_DOWN:
        closed = store_closed_by(&runner->attempt.result);
        each->closed = closed != STORE_DONE ? closed : each->closed;
        each->store_is_down = true;
        return EACH_LEFT;
    case RUNNER_NOT_STORED:
        each->lingers = each->store_is_down = true;
        return EACH_DOUBT;
    case RUNNER_LOST:
        each->store_is_dead = true;
        return EACH_DOUBT;
    }
    UNREACHABLE();
}

/* It is under way no more: the next one of its group may be run. */
static void end_in_group(struct each *each, const struct each_item *item)
{
    struct groups_item *next = groups_end(&each->groups, &item->grouped);
    if (!next)
        return;
    append_item(&each->ready, next);
    each_wake_worker(each);
}

static void end_run(struct each_worker *worker, struct runner *runner, enum runner_result result)
{
    struct each *each = worker->each;
    struct each_item *item = worker->item;
    enum each_result ended = judge_item(each, runner, result);
    if (ended == EACH_DOUBT && result == RUNNER_HELD)
        job_count(each->store, TALLY_JOB_DOUBT, 1, worker->parker);
    worker->item = NULL;
    each->unproved += runner->unproved;
    if (result == RUNNER_IN_PROGRESS && !each_is_stopped(each)) {
        item->is_elsewhere = true; /* under way there: those of its group go on waiting */
        append_item(&each->later, &item->grouped);
        return;
    }
    end_in_group(each, item);
    const struct each_end end = {.item = item,
                                 .result = ended,
                                 .own = worker->own,
                                 .runner_result = result,
                                 .started_at = runner->began_at,
                                 .took_us = runner->ended_at - runner->began_at};
    each_end_item(each, &end);
    if (each->store_is_down || each->store_is_dead)
        each_stop(each);
}

static void run_item(struct each_worker *worker, struct each_item *item)
{
    struct each *each = worker->each;
    CHECK(!worker->item);
    struct runner *runner = each->kind->prepare(worker->own, item);
    worker->item = item;
    if (!runner) {
        each->store_is_down = true; /* without memory nothing more is begun, either */
        worker->item = NULL;
        end_in_group(each, item);
        each_end_unrun(each, item, EACH_LEFT);
        each_stop(each);
        return;
    }
    job_parker_init(&worker->waits, worker->parker, &each->slots.gate);
    runner->parker = &worker->waits.parker;
    runner->gate = &each->slots.gate;
    runner->budget = &each->budget;
    runner->wait_us = item->is_elsewhere ? LOOK_AGAIN_US : 0;
    enum runner_result result = runner_run(runner);
    struct outcome *outcome = result == RUNNER_NOT_STORED ? NULL : runner->outcome;
    end_run(worker, runner, result);
    outcome_unref(outcome);
}

/* ---- workers ---- */

/* The next one that may be run; those that wait for another one of their group are put there. */
static struct each_item *take_runnable(struct each *each)
{
    struct groups_item *item;
    if (!each_is_stopped(each) && (item = take_first(&each->ready)))
        return (struct each_item *)item;
    while (!each_is_stopped(each) && (item = take_first(&each->queue)))
        switch (groups_begin(&each->groups, item)) {
        case GROUPS_MAY_RUN:
            return (struct each_item *)item;
        case GROUPS_WAITS:
            break;
        case GROUPS_NO_MEMORY:
            prepend_item(&each->queue, item);
            each->store_is_down = true;
            each_stop(each);
        }
    return NULL;
}

/* All items that could be run were, and no more can be held: what was in progress elsewhere is
 * looked at again. */
static bool look_again(struct each *each)
{
    bool is_idle = each->busy == 0 && (each->input_ended || each->feeder_waits);
    if (!is_idle || !each->later.first || each_is_stopped(each))
        return false;
    size_t n = 0;
    for (const struct groups_item *item = each->later.first; item; item = item->next)
        n++;
    each->kind->waits(each->argument, n);
    each->ready = each->later; /* they have their turn in their groups still */
    each->later = (struct each_list){0};
    return true;
}

static bool is_each_over(const struct each *each)
{
    return each_is_stopped(each) || (each->input_ended && each->busy == 0 && !each->ready.first &&
                                     !each->queue.first && !each->later.first);
}

static struct each_item *take_item_for(struct each_worker *worker)
{
    struct each *each = worker->each;
    for (;;) {
        struct each_item *item = take_runnable(each);
        if (item)
            return item;
        if (look_again(each))
            continue;
        if (is_each_over(each))
            return NULL;
        worker->is_idle = true;
        worker->next_idle = each->idle;
        each->idle = worker;
        while (worker->is_idle)
            (void)worker->parker->park(worker->parker, CLOCK_NEVER);
    }
}

/* What was not run. */
static void end_left(struct each *each)
{
    struct groups_item *item;
    while ((item = take_first(&each->ready)) || (item = take_first(&each->queue)) ||
           (item = take_first(&each->later)) || (item = groups_take_any(&each->groups)))
        each_end_unrun(each, (struct each_item *)item, EACH_LEFT);
}

void each_fiber_ended(struct each *each)
{
    while (is_each_over(each) && each->idle)
        each_wake_worker(each);
    if (++each->ended < each->n_workers + 1)
        return;
    end_left(each);
    CHECK(each->held == 0 && each->held_bytes == 0); /* each item has ended, once */
    if (!each->store_is_down && !each->store_is_dead)
        each_count_skipped(each, fiber_parker());
    each->done(each->argument);
}

static void work_items(void *argument)
{
    struct each_worker *worker = argument;
    struct each *each = worker->each;
    struct each_item *item;
    worker->parker = fiber_parker();
    while ((item = take_item_for(worker))) {
        each->busy++;
        if (each->ready.first || each->queue.first)
            each_wake_worker(each);
        run_item(worker, item);
        each->busy--;
    }
    CHECK(!worker->item);
    each_fiber_ended(each);
}

/* ---- its life ---- */

static size_t count_workers(size_t jobs)
{
    return 2 * jobs + EACH_RETRYING_MOST; /* running, being stored, waiting to be tried again */
}

size_t each_fibers(size_t jobs)
{
    return count_workers(jobs) + 1;
}

bool each_start(struct each *each, struct loop *loop)
{
    CHECK(each->kind && !each->workers);
    each->n_workers = count_workers(each->jobs);
    each->workers = mem_zalloc(each->n_workers, sizeof *each->workers);
    each->budget = retry_budget_make(clock_boot_us());
    slots_init(&each->slots, each->jobs, each->apart_us);
    each->slots.gate.fails_fast = each->fails_fast;
    items_init(&each->items, each->form);
    if (!each->workers)
        return false;
    for (size_t i = 0; i < each->n_workers; i++) {
        struct each_worker *worker = &each->workers[i];
        *worker = (struct each_worker){.each = each, .own = each->kind->open(each->argument)};
        if (!worker->own || !fiber_spawn(loop, "worker", work_items, worker))
            return false;
    }
    return fiber_spawn(loop, "feeder", each_feed, each);
}

void each_stop(struct each *each)
{
    slots_close(&each->slots);
    if (each->feeder)
        parker_wake(each->feeder);
    while (each->idle)
        each_wake_worker(each);
    for (size_t i = 0; i < each->n_workers; i++) /* those that wait for their next attempt */
        if (each->workers[i].item)
            parker_wake(each->workers[i].parker);
}

bool each_is_stopped(const struct each *each)
{
    return each->slots.gate.closed;
}

void each_signal(struct each *each, int number)
{
    for (size_t i = 0; i < each->n_workers; i++)
        if (each->workers[i].item)
            each->kind->signal(each->workers[i].own, number);
}

void each_fini(struct each *each)
{
    if (each->lingers)
        return;
    for (size_t i = 0; i < each->n_workers && each->workers; i++)
        if (each->workers[i].own)
            each->kind->close(each->workers[i].own);
    mem_free(each->workers);
    items_fini(&each->items);
    mem_free(each->problem);
}
