/* SPDX-License-Identifier: Apache-2.0 */
/* On SQLite: state machines and events, as rows of modules. */
#include "base/clock.h"
#include "base/time/timestamp.h"
#include "inside/names.h"
#include "inside/sqlite.h"
#include "store/finding.h"
#include "store/tables/inbox.h"
#include "store/tables/machines.h"
#include "webhook/event.h"

#define KEEP_MS (INT64_C(7) * 86400 * 1000)

/* ---- rows ---- */

/* One row at most, which lies in pawl->texts; NULL: none. `*ret_now` (may be NULL): store time. */
static enum pawl_error find_inside_row(struct inside_sqlite *on, const struct table_query *query,
                                       const struct table_row **ret_row, int64_t *ret_now)
{
    struct finding finding;
    struct store_op op;
    struct store_found found = {.arena = &on->pawl.texts};
    finding_start(&finding, query, &found, &op);
    enum pawl_error error = inside_sqlite_run(on, &op);
    if (!error && finding_end(&finding, &op) == STORE_NO_MEMORY)
        return PAWL_NO_MEMORY;
    *ret_row = !error && found.n > 0 ? found.rows[0] : NULL;
    if (ret_now)
        *ret_now = found.now;
    return error;
}

/* By the key of `like`. */
static enum pawl_error find_like(struct inside_sqlite *on, const struct table *table,
                                 const struct table_row *like, const struct table_row **ret_row,
                                 int64_t *ret_now)
{
    const struct table_query query = {.table = table, .by = TABLE_BY_KEY, .like = like, .limit = 1};
    return find_inside_row(on, &query, ret_row, ret_now);
}

/* What was read in this transaction has not changed since, unless it only read so far. */
static enum pawl_error bring_rows(struct inside_sqlite *on, struct table_change *changes, size_t n)
{
    struct store_op op = {.kind = STORE_ROWS, .brings = changes, .n_brings = n};
    bool adds_alone = n == 1; /* else the sweep could take what another one refers to */
    enum pawl_error error = adds_alone ? inside_sqlite_add(on, &op) : inside_sqlite_run(on, &op);
    return !error && op.result.status == STORE_CONFLICT
               ? inside_fail(&on->pawl, PAWL_AGAIN, "another transaction was faster")
               : error;
}

/* ---- state machines ---- */

/* What a transition looks at. */
struct moving {
    const struct pawl_action *action;
    struct store_machine_state state; /* as it is; its `state` may be empty */
    bool is_there;
    struct store_machine_action told; /* to be told, or told before */
    bool was_told;
};

static enum pawl_error check_action(struct inside_sqlite *on, const struct pawl_action *action)
{
    const struct store_machine like = {.name = slice_of(action->machine),
                                       .action = slice_of(action->action)};
    const struct table_query query = {.table = &machine_table,
                                      .by = TABLE_BY_INDEX,
                                      .index = &machine_indexes[MACHINE_BY_ACTION],
                                      .prefix = 2,
                                      .like = &like.row,
                                      .limit = 1};
    const struct table_row *row = NULL;
    const char *problem = names_problem(action->tenant, action->machine, action->id);
    if (!problem)
        problem = names_problem(action->tenant, action->machine, action->action_id);
    if (problem)
        return inside_fail(&on->pawl, PAWL_MALFORMED, "%s", problem);
    enum pawl_error error = find_inside_row(on, &query, &row, NULL);
    return error || row ? error
                        : inside_fail(&on->pawl, PAWL_INVALID,
                                      "the machine %s has no action %s; declare it: INSERT INTO "
                                      "pawl_machine",
                                      action->machine, action->action ? action->action : "NULL");
}

/* The state, and what the action was told before. */
static enum pawl_error look_for_event(struct inside_sqlite *on, struct moving *moving)
{
    const struct pawl_action *action = moving->action;
    const struct table_row *row = NULL;
    int64_t now = 0;
    moving->state = (struct store_machine_state){.tenant = slice_of(action->tenant),
                                                 .machine = slice_of(action->machine),
                                                 .thing = slice_of(action->id)};
    moving->told = (struct store_machine_action){.tenant = slice_of(action->tenant),
                                                 .machine = slice_of(action->machine),
                                                 .thing = slice_of(action->id),
                                                 .action_id = slice_of(action->action_id),
                                                 .action = slice_of(action->action)};
    enum pawl_error error = find_like(on, &machine_state_table, &moving->state.row, &row, &now);
    if (row)
        moving->state = *(const struct store_machine_state *)row;
    moving->is_there = row;
    if (!error)
        error = find_like(on, &machine_told_table, &moving->told.row, &row, NULL);
    moving->was_told = row;
    if (row)
        moving->told = *(const struct store_machine_action *)row;
    else
        moving->told.at = now;
    return error;
}

/* Where the action leads. */
static enum pawl_error decide_on_event(struct inside_sqlite *on, struct moving *moving)
{
    const struct pawl_action *action = moving->action;
    struct store_machine_action *told = &moving->told;
    const struct store_machine edge = {
        .name = told->machine, .from = moving->state.state, .action = told->action};
    const struct table_row *row = NULL;
    told->from = told->to = moving->state.state;
    told->decision = PAWL_OUTDATED;
    if (action->has_seq && moving->state.has_seq && action->seq <= moving->state.seq)
        return PAWL_OK;
    enum pawl_error error = find_like(on, &machine_table, &edge.row, &row, NULL);
    told->decision = row ? PAWL_MOVED : PAWL_CONFLICT;
    if (row)
        told->to = ((const struct store_machine *)row)->to;
    return error;
}

static enum pawl_error store_move(struct inside_sqlite *on, struct moving *moving)
{
    const struct pawl_action *action = moving->action;
    struct store_machine_state *state = &moving->state;
    struct table_change changes[] = {
        {.table = &machine_told_table, .act = TABLE_INSERT, .row = &moving->told.row},
        {.table = &machine_state_table,
         .act = moving->is_there ? TABLE_UPDATE : TABLE_INSERT,
         .row = &state->row}};
    if (moving->told.decision != PAWL_MOVED)
        return bring_rows(on, changes, 1);
    state->state = moving->told.to;
    state->at = moving->told.at;
    state->seq = action->has_seq ? action->seq : state->seq;
    state->has_seq |= action->has_seq;
    return bring_rows(on, changes, 2);
}

enum pawl_error inside_sqlite_transition(struct pawl *pawl, const struct pawl_action *action,
                                         struct pawl_transition *ret_transition)
{
    struct inside_sqlite *on = inside_sqlite_of(pawl);
    struct moving moving = {.action = action};
    const struct store_machine_action *told = &moving.told;
    enum pawl_error error = inside_sqlite_enter(on);
    if (!error)
        error = check_action(on, action);
    if (!error)
        error = look_for_event(on, &moving);
    if (!error && !moving.was_told)
        error = decide_on_event(on, &moving);
    if (!error && !moving.was_told)
        error = store_move(on, &moving);
    if (error)
        return error;
    bool same = slice_eq(told->action, slice_of(action->action));
    *ret_transition = (struct pawl_transition){
        .decision = same ? (enum pawl_move)told->decision : PAWL_OTHER_ACTION,
        .replayed = moving.was_told,
        .from_state = arena_copy(&pawl->texts, told->from).at,
        .to_state = arena_copy(&pawl->texts, told->to).at,
        .at_us = told->at,
    };
    return pawl->texts.failed ? PAWL_NO_MEMORY : PAWL_OK;
}

/* ---- events ---- */

static enum pawl_error check_event(struct pawl *pawl, const struct webhook_event *event)
{
    const char *problem = NULL;
    if (event->id.len == 0)
        return inside_fail(pawl, PAWL_MALFORMED,
                           "the event id must be 1 to 255 of A-Z a-z 0-9 _ -");
    if (webhook_event_check(event, &pawl->texts, &problem))
        return PAWL_OK;
    return inside_fail(pawl, PAWL_INVALID, "the event %s", problem);
}

static enum pawl_error insert_event(struct inside_sqlite *on, const struct webhook_event *event,
                                    int64_t now)
{
    char room[TIMESTAMP_LEN + 1];
    struct buf time BUF_AUTO = buf_on(room, sizeof room, TIMESTAMP_LEN);
    (void)timestamp_print(&time, now);
    struct store_event row = {
        .id = event->id,
        .tenant = event->tenant,
        .type = event->type,
        .time = buf_slice(&time),
        .data = event->data,
        .created_at = now,
        .is_new = true,
        .gone_at = CLOCK_NEVER,
    };
    struct table_change change = {.table = &event_table, .act = TABLE_INSERT, .row = &row.row};
    return bring_rows(on, &change, 1);
}

enum pawl_error inside_sqlite_publish(struct pawl *pawl, const struct pawl_event *published,
                                      bool *ret_already)
{
    struct inside_sqlite *on = inside_sqlite_of(pawl);
    const struct webhook_event event = {.id = slice_of(published->id),
                                        .tenant = slice_of(published->tenant),
                                        .type = slice_of(published->type),
                                        .data =
                                            slice_of(published->data ? published->data : "null")};
    const struct store_event like = {
        .id = event.id, .tenant = event.tenant, .type = event.type, .data = event.data};
    const struct table_row *row = NULL;
    int64_t now = 0;
    enum pawl_error error = inside_sqlite_enter(on);
    if (!error)
        error = check_event(pawl, &event);
    if (!error)
        error = find_like(on, &event_table, &like.row, &row, &now);
    if (error)
        return error;
    if (!row)
        return insert_event(on, &event, now);
    if (!webhook_event_same(&like, (const struct store_event *)row, &pawl->texts, ret_already))
        return PAWL_NO_MEMORY;
    return *ret_already ? PAWL_OK
                        : inside_fail(pawl, PAWL_OTHER,
                                      "the event %s was published with another type, tenant or "
                                      "other data",
                                      published->id);
}

/* ---- the inbox ---- */

/* A row of that id whose time is over makes room in the same step. */
static enum pawl_error insert_inbox(struct inside_sqlite *on, struct store_inbox *row,
                                    const struct table_row *old)
{
    struct store_inbox gone = {0};
    struct table_change changes[2];
    size_t n = 0;
    if (old) {
        gone = *(const struct store_inbox *)old;
        changes[n++] =
            (struct table_change){.table = &inbox_table, .act = TABLE_REMOVE, .row = &gone.row};
    }
    changes[n++] =
        (struct table_change){.table = &inbox_table, .act = TABLE_INSERT, .row = &row->row};
    return bring_rows(on, changes, n);
}

static struct slice digest_slice(const struct digest *digest)
{
    return digest_is_none(digest) ? (struct slice){0}
                                  : slice_make((const char *)digest->bytes, DIGEST_SIZE);
}

static const char *check_receive(const struct pawl_incoming *incoming, struct digest *ret_digest,
                                 int64_t *ret_keep_us)
{
    if (!names_digest(incoming->payload_hash, ret_digest))
        return "payload_hash must be 64 hex digits";
    if (!names_span(incoming->keep_ms ? incoming->keep_ms : KEEP_MS, ret_keep_us))
        return "keep_ms must be between 0 and 100000 days, or PAWL_FOREVER";
    return NULL;
}

static void show_received_event(const struct store_inbox *met, const struct store_inbox *asked,
                                struct pawl_received *ret_received)
{
    bool differs = met->payload_hash.len > 0 && asked->payload_hash.len > 0 &&
                   !slice_eq(met->payload_hash, asked->payload_hash);
    ret_received->decision = differs ? PAWL_OTHER_REQUEST : PAWL_REPLAY;
    ret_received->received_at_us = met->received_at;
}

enum pawl_error inside_sqlite_receive(struct pawl *pawl, const struct pawl_incoming *incoming,
                                      struct pawl_received *ret_received)
{
    struct inside_sqlite *on = inside_sqlite_of(pawl);
    struct digest digest;
    int64_t keep_us = 0, now = 0;
    const struct table_row *row = NULL;
    const char *problem = names_problem(NULL, incoming->source, incoming->event_id);
    if (problem)
        return inside_fail(pawl, PAWL_MALFORMED, "%s", problem);
    problem = check_receive(incoming, &digest, &keep_us);
    if (problem)
        return inside_fail(pawl, PAWL_INVALID, "%s", problem);
    struct store_inbox asked = {.source = slice_of(incoming->source),
                                .event_id = slice_of(incoming->event_id),
                                .payload_hash = digest_slice(&digest),
                                .result = SLICE("ok")};
    enum pawl_error error = inside_sqlite_enter(on);
    if (!error)
        error = find_like(on, &inbox_table, &asked.row, &row, &now);
    if (error)
        return error;
    const struct store_inbox *met = (const struct store_inbox *)row;
    ret_received->result = "ok";
    if (met && met->gone_at > now) {
        show_received_event(met, &asked, ret_received);
        return PAWL_OK;
    }
    ret_received->decision = PAWL_PROCEED;
    ret_received->received_at_us = asked.received_at = now;
    asked.gone_at = clock_after(now, keep_us);
    return insert_inbox(on, &asked, row);
}
