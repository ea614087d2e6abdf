/* SPDX-License-Identifier: Apache-2.0 */
#include "client/succeeded.h"

#include "client/operation.h"
#include "client/queue.h"
#include "client/verdict.h"

#define STORE_US (10 * CLOCK_US_PER_S) /* for one operation of the store */
#define PAGE_ROWS ((size_t)2000)       /* looked at while the store is held */

enum exit_code client_success_of(const struct record *record, enum record_lease lease, int64_t now)
{
    if (record->status == RECORD_COMPLETE && record->gone_at > now && !client_is_refusal(record))
        return EXIT_DONE;
    if (lease == RECORD_LEASE_LIVE)
        return EXIT_TRY_AGAIN;
    return record_in_doubt(record, lease) ? EXIT_OUTCOME_UNKNOWN : EXIT_FINAL_ERROR;
}

/* What the queue has under a key, whatever the service. */
struct seen {
    bool is_done;
    bool is_sending;
    bool is_in_doubt;
    bool waits;
};

struct looking {
    struct slice key;
    int64_t now;
    struct seen seen;
    struct seen before; /* this page */
    struct store_task last;
    size_t n; /* of this page */
};

static void restart_succeeded(void *argument)
{
    struct looking *looking = argument;
    looking->seen = looking->before;
    looking->n = 0;
}

/* On the committer's thread. */
static void look_at(void *argument, const struct table_row *row)
{
    struct looking *looking = argument;
    const struct store_task *stored = (const struct store_task *)row;
    const struct task *task = &stored->task;
    looking->last.task.state = task->state;
    looking->last.row.id = row->id;
    looking->n++;
    if (!slice_eq(stored->key, looking->key))
        return;
    looking->seen.is_done |= task->state == TASK_DONE && task->gone_at > looking->now;
    looking->seen.is_sending |= task->state == TASK_SENDING;
    looking->seen.is_in_doubt |= task->in_doubt;
    looking->seen.waits |= task->state == TASK_WAITING;
}

/* Keys are found by service and key alone; this looks at all operations of the queue. */
static enum store_status look_in_queue(struct store *store, struct looking *looking,
                                       struct parker *parker)
{
    looking->last.kind = SLICE(QUEUE_KIND);
    struct store_task like = looking->last;
    struct table_query query = {.table = &task_table,
                                .by = TABLE_BY_INDEX,
                                .index = &task_indexes[TASK_BY_STATE],
                                .prefix = 1,
                                .like = &like.row,
                                .limit = PAGE_ROWS,
                                .restart = restart_succeeded,
                                .each = look_at,
                                .argument = looking};
    struct store_op op;
    do {
        struct store_task behind = looking->last;
        query.behind = behind.row.id == 0 ? NULL : &behind.row;
        looking->before = looking->seen;
        looking->n = 0;
        op = (struct store_op){.kind = STORE_QUERY, .query = &query};
        store_run(store, &op, parker, clock_after(clock_boot_us(), STORE_US));
    } while (op.result.status == STORE_DONE && looking->n == PAGE_ROWS);
    return op.result.status;
}

enum store_status client_succeeded(struct store *store, struct slice key, struct parker *parker,
                                   enum exit_code *ret_code)
{
    struct looking looking = {.key = key, .now = store_now(store)};
    struct store_op op = {.kind = STORE_LOOK,
                          .key_hash = store_key_hash(store, SLICE(""), SLICE(CLIENT_RULE), key),
                          .record_alone = true};
    store_run(store, &op, parker, clock_after(clock_boot_us(), STORE_US));
    if (op.result.status != STORE_DONE)
        return op.result.status;
    enum exit_code code = *ret_code =
        client_success_of(&op.result.record, op.result.lease, op.result.store_now);
    if (code == EXIT_DONE)
        return STORE_DONE;
    enum store_status status = look_in_queue(store, &looking, parker);
    const struct seen *seen = &looking.seen;
    *ret_code = seen->is_done                                       ? EXIT_DONE
                : code == EXIT_TRY_AGAIN || seen->is_sending        ? EXIT_TRY_AGAIN
                : code == EXIT_OUTCOME_UNKNOWN || seen->is_in_doubt ? EXIT_OUTCOME_UNKNOWN
                : seen->waits                                       ? EXIT_TRY_AGAIN
                                                                    : code;
    return status;
}
