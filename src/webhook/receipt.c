/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/receipt.h"

#include "base/buf.h"
#include "base/check.h"
#include "base/crash.h"
#include "core/retry/retry_profiles.h"
#include "store/rows.h"
#include "store/tables/tasks.h"
#include "webhook/handler.h"

#define ARENA_MAX ((size_t)64 * 1024 * 1024)
#define TEXT_MAX ((size_t)64 * 1024)

/* A receipt on its way in. */
struct taking {
    const struct receipt *receipt;
    struct slice key; /* of the task */
    struct slice ord;
    enum receipt_end end;
};

/* ---- a new one ---- */

static struct store_task make_handler_task(const struct taking *taking, int64_t now)
{
    const struct inbox_source *source = taking->receipt->source;
    struct store_task task = {.kind = SLICE(INBOX_KIND),
                              .lane = source->source,
                              .key = taking->key,
                              .ord = taking->ord,
                              .skips = source->skips,
                              .task = {.due_at = now,
                                       .deadline_at = CLOCK_NEVER,
                                       .profile = source->retry,
                                       .created_at = now,
                                       .gone_at = CLOCK_NEVER}};
    store_task_derive(&task);
    return task;
}

static enum store_status insert_receipt(struct rows *rows, const struct taking *taking)
{
    const struct receipt *receipt = taking->receipt;
    int64_t now = store_now(rows->store);
    struct store_task task = make_handler_task(taking, now);
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
    rows_put(rows, TABLE_INSERT, &task_table, &task.row, NULL);
    rows_put(rows, TABLE_INSERT, &request_table, &request.row, &task.row);
    rows_put(rows, TABLE_INSERT, &receipt_table, &row.row, &task.row);
    return rows_save(rows);
}

/* ---- one that is known ---- */

/* Its time may be over before the sweep comes: then it goes, and the event is new. */
static enum store_status judge_known(struct rows *rows, struct taking *taking,
                                     const struct store_receipt *known)
{
    const struct receipt *receipt = taking->receipt;
    struct store_task task;
    enum store_status status = rows_by_id(rows, &task_table, known->row.id, &task.row);
    if (status != STORE_DONE || task.row.id == 0)
        return status == STORE_DONE ? STORE_CONFLICT : status;
    if (task.task.gone_at <= store_now(rows->store)) {
        rows->n = 0;
        rows_put(rows, TABLE_REMOVE, &task_table, &task.row, NULL);
        status = rows_save(rows);
        return status == STORE_DONE ? STORE_CONFLICT : status;
    }
    const unsigned char *hash = receipt->payload_hash.bytes;
    bool differs = slice_eq(known->recipe, receipt->recipe) &&
                   !slice_eq(known->payload_hash, slice_make((const char *)hash, DIGEST_SIZE));
    taking->end = differs ? RECEIPT_MISMATCH : RECEIPT_REPLAYED;
    return STORE_DONE;
}

static enum store_status try_take(struct rows *rows, struct taking *taking)
{
    struct store_receipt known = {.source = taking->receipt->source->source,
                                  .event_id = taking->receipt->event_id};
    taking->end = RECEIPT_STORED;
    enum store_status inserted = insert_receipt(rows, taking);
    if (inserted != STORE_CONFLICT && inserted != STORE_FROZEN)
        return inserted;
    enum store_status status = rows_find_one(rows, &receipt_table, &known.row);
    if (status != STORE_DONE)
        return status;
    return known.row.id != 0 ? judge_known(rows, taking, &known) : inserted;
}

/* ---- all ---- */

static struct slice join_texts(struct arena *arena, struct slice a, struct slice b, struct slice c)
{
    BUF_AUTO struct buf text = buf_make(TEXT_MAX);
    buf_add_slice(&text, a);
    buf_add_slice(&text, b);
    buf_add_slice(&text, c);
    return arena_copy_buf(arena, &text);
}

/* Key and order begin with the source, so that those of two are two. */
static void fill_receipt(struct taking *taking, struct arena *arena)
{
    const struct receipt *receipt = taking->receipt;
    struct slice name = receipt->source->source, none = SLICE("");
    taking->key = join_texts(arena, name, SLICE(":"), receipt->event_id);
    taking->ord =
        receipt->order.len > 0 ? join_texts(arena, name, SLICE(":"), receipt->order) : none;
}

enum store_status receipt_take(struct store *store, struct parker *parker,
                               const struct receipt *receipt, enum receipt_end *ret_end)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct rows rows = {.store = store, .parker = parker, .arena = &arena, .begins = true};
    struct taking taking = {.receipt = receipt};
    CHECK(receipt->event_id.len > 0);
    fill_receipt(&taking, &arena);
    CRASH_POINT(before_begin);
    enum store_status status = arena.failed ? STORE_NO_MEMORY : STORE_CONFLICT;
    while (rows_try_again(&rows, &status))
        status = try_take(&rows, &taking);
    CRASH_POINT(after_claim_commit);
    *ret_end = taking.end;
    return status;
}
