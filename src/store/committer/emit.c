/* SPDX-License-Identifier: Apache-2.0 */
#include "store/committer/emit.h"

#include "base/time/timestamp.h"
#include "core/emit.h"
#include "core/web/origin.h"
#include "store/tables/events.h"

/* In the batch's arena until it is saved. */
struct emitted {
    struct table_change change;
    struct store_event event;
    char id[EMIT_ID_LEN + 1];
    char time[TIMESTAMP_LEN + 1];
};

/* What an inquiry finds was done before this life of the key: its event was told then. */
static bool operation_succeeds(const struct record *before, const struct record *now)
{
    return !record_is_final(before->status) && !record_is_asking(before) &&
           now->status == RECORD_COMPLETE && now->http_status / 100 == 2;
}

static void note_there(void *argument, const struct table_row *row)
{
    (void)row;
    *(bool *)argument = true;
}

/* Only what somebody published under that id, or a save that ended unsure. */
static enum backend_status find_event(struct backend *backend, const struct emitted *emitted,
                                      bool *ret_is_there)
{
    int64_t next_due;
    struct table_query query = {.table = &event_table,
                                .by = TABLE_BY_KEY,
                                .like = &emitted->event.row,
                                .limit = 1,
                                .each = note_there,
                                .argument = ret_is_there};
    *ret_is_there = false;
    return backend->ops->query(backend, &query, emitted->event.created_at, &next_due);
}

static void fill_emitted(struct emitted *emitted, const struct emit_written *written,
                         struct slice type)
{
    struct buf time BUF_AUTO = buf_on(emitted->time, sizeof emitted->time, TIMESTAMP_LEN);
    struct slice data = written->op->writing.event_data;
    (void)timestamp_print(&time, written->now);
    emit_id(&written->row->key_hash, written->row->record.created_at, emitted->id);
    emitted->change = (struct table_change){.table = &event_table, .row = &emitted->event.row};
    emitted->event = (struct store_event){
        .id = slice_of(emitted->id),
        .tenant = written->row->tenant,
        .type = type,
        .time = slice_make(emitted->time, time.len),
        .data = data.len > 0 ? data : SLICE("null"),
        .created_at = written->now,
        .is_new = true,
        .gone_at = CLOCK_NEVER,
    };
}

enum backend_status emit_make(struct rowset *rows, struct backend *backend,
                              const struct emit_written *written, struct table_change **ret_change)
{
    struct origin origin;
    bool is_there = false;
    *ret_change = NULL;
    if (!operation_succeeds(written->before, &written->row->record) ||
        !origin_read(written->row->origin, &origin) || origin.emit.len == 0)
        return BACKEND_OK;
    struct emitted *emitted = arena_alloc(&rows->arena, sizeof *emitted);
    if (!emitted)
        return BACKEND_NO_MEMORY;
    fill_emitted(emitted, written, origin.emit);
    enum backend_status status = find_event(backend, emitted, &is_there);
    if (status == BACKEND_OK && !is_there)
        *ret_change = &emitted->change;
    return status;
}
