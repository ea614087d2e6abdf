/* SPDX-License-Identifier: Apache-2.0 */
/* From the input to the queue: read, named, looked up. */
#include "base/check.h"
#include "base/mem.h"
#include "fiber/fiber.h"
#include "job/each_priv.h"
#include "job/job.h"
#include <stdio.h>

#define PROBLEM_MAX ((size_t)1024)
#define SCRATCH_MAX (ITEMS_ARENA_MAX * 2) /* and what templates make of it */
#define COUNT_US CLOCK_US_PER_S

/* Items that are looked up together. */
struct batch {
    size_t n;
    struct each_item *items[EACH_LOOKED_UP];
    struct store_op ops[EACH_LOOKED_UP];
};

struct reading {
    struct each *each;
    struct batch batch;
    struct arena scratch;
    struct buf problem;
    bool was_checked; /* the header */
};

/* ---- what is read ---- */

/* The input cannot be read on. */
static bool break_off(struct reading *reading, const char *what)
{
    struct each *each = reading->each;
    each->problem = what ? mem_copy(what, strlen(what)) : buf_take(&reading->problem);
    each_stop(each);
    return false;
}

static void end_bad(struct reading *reading)
{
    const struct each_end end = {.result = EACH_BAD, .problem = buf_slice(&reading->problem)};
    each_end_item(reading->each, &end);
}

/* Says of which item the problem is. */
static void blame_item(struct reading *reading, const struct item *read)
{
    BUF_AUTO struct buf what = buf_make(PROBLEM_MAX);
    buf_add_slice(&what, buf_slice(&reading->problem));
    buf_clear(&reading->problem);
    bool has_lines = reading->each->form != ITEMS_NUL;
    buf_printf(&reading->problem, "%s %llu: %.*s", has_lines ? "line" : "item",
               (unsigned long long)(has_lines ? read->line : read->number),
               SLICE_ARG(buf_slice(&what)));
}

static bool name_item(struct reading *reading, const struct item *read)
{
    struct each *each = reading->each;
    struct each_item *item =
        each->kind->name(each->argument, read, &reading->scratch, &reading->problem);
    if (!item && reading->problem.len == 0)
        return break_off(reading, "out of memory");
    if (!item) {
        blame_item(reading, read);
        end_bad(reading);
        return true;
    }
    CHECK(reading->batch.n < EACH_LOOKED_UP);
    each->held++;
    each->held_bytes += item->bytes;
    reading->batch.items[reading->batch.n++] = item;
    return true;
}

/* A column that is named and is not there is an error before anything is run. */
static bool check_header(struct reading *reading)
{
    struct each *each = reading->each;
    if (reading->was_checked || !items_header_known(&each->items))
        return true;
    reading->was_checked = true;
    return each->kind->check(each->argument, &each->items, &reading->problem) ||
           break_off(reading, NULL);
}

/* More input, waiting for it only where there is nothing else to do. False: there is none now. */
static bool take_input(struct reading *reading)
{
    struct each *each = reading->each;
    struct slice bytes;
    int error = 0;
    while (!each_is_stopped(each)) {
        switch (feed_take(each->feed, fiber_parker(), &bytes, &error)) {
        case FEED_BYTES:
            each->bytes_read += bytes.len;
            return items_feed(&each->items, bytes) || break_off(reading, "out of memory");
        case FEED_END:
            items_end(&each->items);
            return true;
        case FEED_FAILED:
            buf_clear(&reading->problem);
            buf_printf(&reading->problem, "cannot read the input: %s", strerror(error));
            return break_off(reading, NULL);
        case FEED_NOTHING:
            if (reading->batch.n > 0)
                return false;
            (void)fiber_parker()->park(fiber_parker(), CLOCK_NEVER);
        }
    }
    return false;
}

/* One item, or what is wrong with it. False: there is none now. */
static bool read_fed_item(struct reading *reading)
{
    struct each *each = reading->each;
    struct item read;
    arena_reset(&reading->scratch);
    buf_clear(&reading->problem);
    enum items_result result =
        items_next(&each->items, &reading->scratch, &read, &reading->problem);
    if (!check_header(reading))
        return false;
    switch (result) {
    case ITEMS_ONE:
        each->read++;
        return name_item(reading, &read);
    case ITEMS_BAD:
        each->read++;
        end_bad(reading);
        return true;
    case ITEMS_MORE:
        return take_input(reading);
    case ITEMS_DONE:
        each->all_read = true;
        return false;
    case ITEMS_NO_MEMORY:
        return break_off(reading, "out of memory");
    case ITEMS_BROKEN:
        return break_off(reading, NULL);
    }
    UNREACHABLE();
}

/* ---- what is known of it ---- */

static void look_up_item(struct reading *reading)
{
    struct each *each = reading->each;
    struct batch *batch = &reading->batch;
    for (size_t i = 0; i < batch->n; i++) {
        batch->ops[i] = (struct store_op){
            .kind = STORE_LOOK,
            .key_hash = engine_key_hash(each->engine, SLICE(""), each->rule, batch->items[i]->key),
            .record_alone = true,
            .parker = fiber_parker()};
        store_submit(each->store, &batch->ops[i]);
    }
    for (size_t i = 0; i < batch->n; i++)
        while (!store_op_ended(&batch->ops[i]))
            (void)fiber_parker()->park(fiber_parker(), CLOCK_NEVER);
}

static bool is_other(const struct each_item *item, const struct record *record)
{
    return digest_differs(&record->payload_hash, &item->payload_hash) ||
           digest_differs(&record->target_hash, &item->target_hash);
}

/* What the record says without a claim; EACH_LEFT: nothing. */
static enum each_result judge_looked_up(const struct each_item *item, const struct store_op *op)
{
    const struct record *record = &op->result.record;
    bool is_final = op->result.status == STORE_DONE && record_is_final(record->status) &&
                    !record->provisional && op->result.store_now < record->expires_at;
    if (!is_final)
        return EACH_LEFT;
    if (is_other(item, record))
        return EACH_CHANGED;
    return record->status == RECORD_FAILED ? EACH_FAILED : EACH_SKIPPED;
}

/* What would become of an item of which nothing final is known. */
static enum each_result foresee_result(const struct each *each, const struct each_item *item,
                                       const struct store_op *op)
{
    const struct record *record = &op->result.record;
    if (op->result.status != STORE_DONE || record_key_is_absent(record, op->result.store_now) ||
        (record_is_released(record) && !record->doubt))
        return EACH_LEFT;
    if (is_other(item, record))
        return EACH_CHANGED;
    bool in_use = op->result.lease == RECORD_LEASE_LIVE;
    return in_use || record_repeats(record_policy(record, each->unknown)) ? EACH_LEFT : EACH_DOUBT;
}

static void sort_out(struct reading *reading)
{
    struct each *each = reading->each;
    struct batch *batch = &reading->batch;
    for (size_t i = 0; i < batch->n; i++) {
        enum each_result result = judge_looked_up(batch->items[i], &batch->ops[i]);
        if (result == EACH_LEFT && each->is_dry)
            result = foresee_result(each, batch->items[i], &batch->ops[i]);
        bool runs = result == EACH_LEFT && !each->is_dry && !each_is_stopped(each);
        if (runs)
            each_enqueue(each, batch->items[i]);
        else
            each_end_unrun(each, batch->items[i], result);
    }
    batch->n = 0;
}

void each_count_skipped(struct each *each, struct parker *parker)
{
    uint64_t n = each->counts[EACH_SKIPPED] - each->skipped_counted;
    each->counted_at = clock_boot_us();
    each->skipped_counted += n;
    if (n > 0 && !each->is_dry)
        job_count(each->store, TALLY_JOB_SKIPPED, (int64_t)n, parker);
}

/* ---- the fiber ---- */

static void wait_for_room(struct each *each)
{
    while (!each_is_stopped(each) &&
           (each->held >= EACH_QUEUE_MOST || each->held_bytes >= EACH_BYTES_MOST ||
            !each->kind->ask_room(each->argument, fiber_parker()))) {
        each->feeder_waits = true;
        each_wake_worker(each); /* where all that is held is in progress elsewhere */
        (void)fiber_parker()->park(fiber_parker(), CLOCK_NEVER);
    }
    each->feeder_waits = false;
}

static void feed_items(struct reading *reading)
{
    struct each *each = reading->each;
    while (!each->all_read && !each_is_stopped(each)) {
        wait_for_room(each);
        while (reading->batch.n < EACH_LOOKED_UP && read_fed_item(reading))
            continue;
        look_up_item(reading);
        sort_out(reading);
        if (clock_boot_us() >= clock_after(each->counted_at, COUNT_US))
            each_count_skipped(each, fiber_parker());
    }
}

void each_feed(void *argument)
{
    struct each *each = argument;
    struct reading *reading = mem_zalloc(1, sizeof *reading);
    each->counted_at = clock_boot_us();
    each->feeder = fiber_parker();
    if (reading) {
        reading->each = each;
        reading->scratch = arena_make(SCRATCH_MAX);
        reading->problem = buf_make(PROBLEM_MAX);
        feed_items(reading);
        arena_fini(&reading->scratch);
        buf_fini(&reading->problem);
    } else {
        each->problem = mem_copy("out of memory", sizeof "out of memory" - 1);
        each_stop(each);
    }
    mem_free(reading);
    each->feeder = NULL;
    each->input_ended = true;
    each_wake_worker(each);
    each_fiber_ended(each);
}
