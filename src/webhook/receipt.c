/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/receipt.h"

#include "base/buf.h"
#include "base/check.h"
#include "base/crash.h"
#include "core/retry_profiles.h"
#include "store/find.h"
#include "store/tasks.h"
#include "webhook/handler.h"

#define TIMEOUT_US (10 * CLOCK_US_PER_S) /* for one operation of the store */
#define ARENA_MAX ((size_t)64 * 1024 * 1024)
#define TEXT_MAX ((size_t)64 * 1024)
#define TRIES_MOST 100 /* somebody else was first each time */

/* A receipt on its way in. */
struct taking {
    struct store *store;
    struct parker *parker;
    const struct receipt *receipt;
    struct slice key; /* of the task */
    struct slice ord;
    struct arena arena;
};

static enum store_status find(struct taking *taking, const struct table_query *query,
                              struct store_found *ret_found)
{
    *ret_found = (struct store_found){.arena = &taking->arena};
    return store_find_rows(taking->store, query, taking->parker,
                           clock_after(clock_boot_us(), TIMEOUT_US), ret_found);
}

static enum store_status save(const struct taking *taking, struct table_change *changes, size_t n,
                              bool begins)
{
    struct store_op op = {.kind = STORE_ROWS, .brings = changes, .n_brings = n, .begins = begins};
    store_run(taking->store, &op, taking->parker, clock_after(clock_boot_us(), TIMEOUT_US));
    return op.status;
}

/* ---- a new one ---- */

static struct store_task make_task(const struct taking *taking, int64_t now)
{
    const struct inbox_source *source = taking->receipt->source;
    struct store_task task = {.kind = SLICE(HANDLER_KIND),
                              .lane = source->source,
                              .key = taking->key,
                              .ord = taking->ord,
                              .skips = source->skips,
                              .task = {.due_at = now,
                                       .deadline_at = CLOCK_NEVER,
                                       .profile = source->retry,
                                       .created_at = now,
                                       .gone_at = CLOCK_NEVER}};
    store_task_settle(&task);
    return task;
}

static enum store_status insert(struct taking *taking)
{
    const struct receipt *receipt = taking->receipt;
    int64_t now = store_now(taking->store);
    struct store_task task = make_task(taking, now);
    struct store_request request = {.method = SLICE("POST"),
                                    .url = receipt->source->handler,
                                    .fields = receipt->fields,
                                    .body = receipt->body};
    const unsigned char *hash = receipt->payload_hash.bytes;
    struct store_receipt row = {.source = receipt->source->source,
                                .event_id = receipt->event_id,
                                .payload_hash = slice_make((const char *)hash, DIGEST_SIZE),
                                .recipe = receipt->recipe,
                                .received_at = now};
    struct table_change changes[] = {
        {.table = &task_table, .act = TABLE_INSERT, .row = &task.row},
        {.table = &request_table, .act = TABLE_INSERT, .row = &request.row, .parent = &task.row},
        {.table = &receipt_table, .act = TABLE_INSERT, .row = &row.row, .parent = &task.row}};
    return save(taking, changes, sizeof changes / sizeof *changes, true);
}

/* ---- one that is known ---- */

/* What has the id. NULL: nothing any more. */
static enum store_status find_receipt(struct taking *taking, const struct store_receipt **ret_row)
{
    const struct store_receipt like = {.source = taking->receipt->source->source,
                                       .event_id = taking->receipt->event_id};
    const struct table_query query = {
        .table = &receipt_table, .by = TABLE_BY_KEY, .like = &like.row, .limit = 1};
    struct store_found found;
    enum store_status status = find(taking, &query, &found);
    *ret_row =
        status == STORE_DONE && found.n == 1 ? (const struct store_receipt *)found.rows[0] : NULL;
    return status;
}

static enum store_status find_task(struct taking *taking, int64_t id,
                                   const struct store_task **ret_task)
{
    const struct table_query query = {.table = &task_table, .after = id - 1, .limit = 1};
    struct store_found found;
    enum store_status status = find(taking, &query, &found);
    bool is_there = status == STORE_DONE && found.n == 1 && found.rows[0]->id == id;
    *ret_task = is_there ? (const struct store_task *)found.rows[0] : NULL;
    return status;
}

/* Its time may be over before the sweep comes: then it goes, and the event is new. */
static enum store_status judge(struct taking *taking, const struct store_receipt *known,
                               enum receipt_end *ret_end)
{
    const struct receipt *receipt = taking->receipt;
    const struct store_task *found = NULL;
    enum store_status status = find_task(taking, known->row.id, &found);
    if (status != STORE_DONE || !found)
        return status == STORE_DONE ? STORE_CONFLICT : status;
    if (found->task.gone_at <= store_now(taking->store)) {
        struct store_task old = *found;
        struct table_change change = {.table = &task_table, .act = TABLE_REMOVE, .row = &old.row};
        status = save(taking, &change, 1, false);
        return status == STORE_DONE ? STORE_CONFLICT : status;
    }
    const unsigned char *hash = receipt->payload_hash.bytes;
    bool differs = slice_eq(known->recipe, receipt->recipe) &&
                   !slice_eq(known->payload_hash, slice_make((const char *)hash, DIGEST_SIZE));
    *ret_end = differs ? RECEIPT_MISMATCH : RECEIPT_REPLAYED;
    return STORE_DONE;
}

static enum store_status try_take(struct taking *taking, enum receipt_end *ret_end)
{
    const struct store_receipt *known = NULL;
    *ret_end = RECEIPT_STORED;
    enum store_status inserted = insert(taking);
    if (inserted != STORE_CONFLICT && inserted != STORE_FROZEN)
        return inserted;
    enum store_status status = find_receipt(taking, &known);
    if (status != STORE_DONE)
        return status;
    return known ? judge(taking, known, ret_end) : inserted;
}

/* ---- all ---- */

static struct slice join(struct taking *taking, struct slice a, struct slice b, struct slice c)
{
    BUF_AUTO struct buf text = buf_make(TEXT_MAX);
    buf_add_slice(&text, a);
    buf_add_slice(&text, b);
    buf_add_slice(&text, c);
    taking->arena.failed |= !buf_ok(&text);
    return arena_copy(&taking->arena, buf_slice(&text));
}

/* Key and order begin with the source, so that those of two are two. */
static void fill(struct taking *taking)
{
    const struct receipt *receipt = taking->receipt;
    struct slice name = receipt->source->source, none = SLICE("");
    taking->key = join(taking, name, SLICE(":"), receipt->event_id);
    taking->ord = receipt->order.len > 0 ? join(taking, name, SLICE(":"), receipt->order) : none;
}

enum store_status receipt_take(struct store *store, struct parker *parker,
                               const struct receipt *receipt, enum receipt_end *ret_end)
{
    struct taking taking = {
        .store = store, .parker = parker, .receipt = receipt, .arena = arena_make(ARENA_MAX)};
    enum store_status status = STORE_CONFLICT;
    CHECK(receipt->event_id.len > 0);
    fill(&taking);
    if (taking.arena.failed)
        status = STORE_NO_MEMORY;
    CRASH_POINT(before_begin);
    for (int try = 0; try < TRIES_MOST && status == STORE_CONFLICT; try++)
        status = try_take(&taking, ret_end);
    CRASH_POINT(after_claim_commit);
    arena_fini(&taking.arena);
    return status == STORE_CONFLICT ? STORE_DOWN : status;
}
