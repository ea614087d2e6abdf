/* SPDX-License-Identifier: Apache-2.0 */
#include "store/committer/apply.h"
#include "base/check.h"
#include "base/crypto/random.h"
#include "store/committer/emit.h"
#include "store/tables/audit.h"

/* At most: a record's, a second life's, a bound key's, an act's, its reason's, an event's. */
#define TOKENS_OF_OP 6

int64_t apply_next_token(const struct apply *apply)
{
    return apply->read.token + apply->drawn;
}

void apply_use_token(struct apply *apply, int64_t token)
{
    int64_t drawn = token - apply->read.token + 1;
    if (drawn > apply->drawn && drawn <= apply->read.n_tokens)
        apply->drawn = drawn;
}

int64_t apply_take_token(struct apply *apply)
{
    int64_t token = apply_next_token(apply);
    apply_use_token(apply, token);
    return token;
}

bool apply_may_go_on(const struct apply *apply, const struct store_op *op)
{
    int64_t most = TOKENS_OF_OP + (int64_t)op->n_brings;
    return apply->drawn == 0 || apply->drawn + most <= apply->read.n_tokens;
}

int64_t apply_token_above(const struct apply *apply, const struct record *record)
{
    int64_t next = apply_next_token(apply);
    return next > record->token ? next : record->token + 1;
}

bool apply_note_lag(struct apply *apply, const struct record *before, const struct record *after)
{
    bool acquired = after->token > before->token;
    apply->lags = acquired && after->token != apply_next_token(apply);
    return apply->lags;
}

void apply_report(const struct apply *apply, struct store_op *op, const struct store_row *row)
{
    struct store_result *result = &op->result;
    result->record = row->record;
    result->row = row->id;
    result->store_now = apply->world.now;
    result->forgets = apply->others_memory + backend_memory(apply->backend, apply->read.forgets);
    result->decided_at = apply->boot;
    result->lease = record_lease(&row->record, &apply->world, NULL);
    result->lease_left_us = 0;
    if (result->lease == RECORD_LEASE_LIVE && row->record.lease_until > apply->world.now)
        result->lease_left_us = row->record.lease_until - apply->world.now;
}

/* The outcome of a record that was resolved with a status alone. */
static enum backend_status keep_status_alone(struct apply *apply, const struct store_row *row)
{
    struct outcome *outcome =
        outcome_new(row->record.http_status, row->record.status == RECORD_FAILED, (struct slice){0},
                    (struct slice){0});
    if (!outcome)
        return BACKEND_NO_MEMORY;
    rowset_keep_outcome(apply->rows, row, outcome);
    outcome_unref(outcome);
    return BACKEND_OK;
}

static enum backend_status load_outcome(struct apply *apply, struct store_op *op,
                                        const struct store_row *row)
{
    if (rowset_has_finished(apply->rows, row))
        return keep_status_alone(apply, row);
    const struct store_room *room = &op->room;
    uint64_t held = room->held ? atomic_load(room->held) : 0;
    uint64_t most = !room->held ? UINT64_MAX : held < room->most ? room->most - held : 0;
    uint64_t size = 0;
    struct outcome *outcome = NULL;
    enum backend_status status =
        apply->backend->ops->outcome(apply->backend, row, most, &outcome, &size);
    if (status != BACKEND_OK)
        return status;
    if (!outcome && size == 0)
        return keep_status_alone(apply, row);
    if (!outcome) {
        op->result.status = size > room->most ? STORE_TOO_LARGE : STORE_NO_ROOM;
        return BACKEND_OK;
    }
    rowset_keep_outcome(apply->rows, row, outcome);
    outcome_unref(outcome);
    return BACKEND_OK;
}

enum backend_status apply_read_outcome(struct apply *apply, struct store_op *op,
                                       const struct store_row *row)
{
    if (!rowset_outcome(apply->rows, row)) {
        enum backend_status status = load_outcome(apply, op, row);
        if (status != BACKEND_OK || op->result.status != STORE_DONE)
            return status;
    }
    op->result.found = outcome_ref(rowset_outcome(apply->rows, row));
    op->result.holds = op->room.held;
    if (op->result.holds)
        (void)outcome_hold(op->result.found, op->room.held);
    return BACKEND_OK;
}

static enum record_write doubt_record(const struct apply *apply, const struct store_op *op,
                                      struct record *record)
{
    bool probing = record->probing;
    enum record_write write =
        op->kind == STORE_ASK
            ? record_doubt_and_probe(record, op->writing.token, &op->begin, &apply->world,
                                     apply_token_above(apply, record))
            : record_doubt(record, op->writing.token, apply->world.now);
    if (write == RECORD_WRITTEN && !probing)
        record_note_cause(record, op->writing.cause);
    return write;
}

/* What the backend cannot hold is reported as not kept, and not replayed in part. */
static bool fits_backend(const struct apply *apply, const struct outcome *outcome)
{
    return !outcome || outcome_size(outcome) <= apply->backend->outcome_max;
}

/* Of a response that is not there its status says whether it failed. */
static enum record_status resolved_as(const struct store_writing *writing)
{
    if (!writing->outcome)
        return record_status_of(writing->http_status);
    return writing->outcome->failed ? RECORD_FAILED : RECORD_COMPLETE;
}

/* What turns begins: where nothing does, as the store went back or is frozen, no look is believed.
 */
static int64_t look_of(const struct apply *apply, const struct store_op *op)
{
    return apply->closed == STORE_DONE ? op->writing.looked_at : -1;
}

static enum record_write write_found_record(struct apply *apply, struct store_op *op,
                                            struct record *record)
{
    int64_t now = apply->world.now;
    const struct store_writing *writing = &op->writing;
    int64_t token = writing->token;
    struct record_final final = {writing->final, writing->http_status, op->result.kept};
    switch (op->kind) {
    case STORE_FINISH:
        return record_finish(record, token, &final, now);
    case STORE_COMPLETE:
        return record_complete(record, token, &final, now);
    case STORE_RELEASE:
        return record_release(record, token, now);
    case STORE_RELEASE_SETTLED:
        return record_release_settled(record, token, writing->looked_at ? writing->looked_at : now,
                                      writing->force, &apply->world);
    case STORE_TURN:
        return record_turn(record, token, look_of(apply, op), &apply->world);
    case STORE_DROP:
        return record_drop(record, token, now);
    case STORE_DOUBT:
    case STORE_ASK:
        return doubt_record(apply, op, record);
    case STORE_EXTEND:
        return record_extend(record, token, now);
    case STORE_RESOLVE:
        final = (struct record_final){resolved_as(writing), writing->http_status, true};
        return record_resolve(record, token, &final, writing->force, &apply->world);
    case STORE_FORGET:
        return record_forget(record, token, writing->force, &apply->world);
    case STORE_END_HOLD:
        return record_end_hold(record, token, &op->begin, &apply->world);
    default:
        UNREACHABLE();
    }
}

/* A token is used up: a later write of the old owner finds none that matches. */
static void end_life(struct apply *apply, const struct store_op *op, const struct store_row *row)
{
    (void)apply_take_token(apply);
    rowset_remove(apply->rows, row, op->kind == STORE_FORGET);
}

static void store_write(struct apply *apply, const struct store_op *op, const struct store_row *row)
{
    const struct record *record = &row->record;
    apply_use_token(apply, record->token);
    if (record->status == RECORD_ABSENT) {
        end_life(apply, op, row);
        return;
    }
    bool is_final = record_is_final(record->status);
    /* Else the row would outlive its key, and nothing would lead to it. */
    CHECK(row->once.len > 0 || record->once_until == 0);
    bool written = is_final && record->kept && op->result.write == RECORD_WRITTEN;
    rowset_update(apply->rows, row, written ? op->writing.outcome : NULL);
}

/* A finish with an actor is an operator's probe that found the outcome. */
static enum store_act act_of(enum store_op_kind kind)
{
    if (kind == STORE_RESOLVE || kind == STORE_FINISH)
        return STORE_ACT_RESOLVE;
    if (kind == STORE_END_HOLD || kind == STORE_BEGIN)
        return STORE_ACT_HOLD;
    return kind == STORE_FORGET ? STORE_ACT_FORGET : STORE_ACT_RELEASE;
}

/* A child without a column that says with which row it goes has the id of that one. */
static void name_row(struct apply *apply, struct table_change *change)
{
    bool is_child = change->table->parent;
    const struct table_column *names =
        table_column_of(change->table, is_child ? TABLE_PARENT : TABLE_LINK);
    bool has_own_id = names || !is_child;
    if (change->parent && names)
        table_set_number(names, change->row, change->parent->id);
    else if (change->parent)
        change->row->id = change->parent->id;
    if (has_own_id && !change->again)
        change->row->id = apply_next_token(apply);
    if (has_own_id)
        apply_use_token(apply, change->row->id);
}

/* What was saved by a save that ended unsure is the same when it is saved again. */
static void bring_row(struct apply *apply, struct table_change *change, bool again)
{
    change->is_stale = false;
    change->again = again;
    if (change->act == TABLE_INSERT || change->act == TABLE_ADD)
        name_row(apply, change);
    if (!again)
        change->version = random_id();
    rowset_bring(apply->rows, change);
}

void apply_bring(struct apply *apply, const struct store_op *op)
{
    for (size_t i = 0; i < op->n_brings; i++)
        bring_row(apply, &op->brings[i], op->own.unsure && op->brings[i].version != 0);
}

static struct slice attempt_id_of(const struct store_op *op)
{
    return slice_make((const char *)op->begin.attempt_id, RECORD_ATTEMPT_ID_SIZE);
}

/* Beside the act that it is the reason of. */
static void write_reason(struct apply *apply, struct slice reason, const struct store_audit *act)
{
    struct said {
        struct table_change change;
        struct store_reason row;
    } *said = reason.len > 0 ? arena_alloc(&apply->rows->arena, sizeof *said) : NULL;
    if (!said)
        return;
    said->row = (struct store_reason){.at = act->at, .text = slice_first(reason, STORE_REASON_MAX)};
    said->change =
        (struct table_change){.table = &reason_table, .row = &said->row.row, .parent = &act->row};
    bring_row(apply, &said->change, false);
}

void apply_audit(struct apply *apply, struct store_op *op, const struct record *before,
                 const struct store_row *row)
{
    struct act {
        struct table_change change;
        struct store_audit entry;
    } *act = arena_alloc(&apply->rows->arena, sizeof *act);
    struct store_writing by_rule = {.actor = STORE_ACTOR_RULE};
    const struct store_writing *by = op->kind == STORE_BEGIN ? &by_rule : &op->writing;
    CHECK(before->status != RECORD_ABSENT);
    if (!act)
        return;
    act->change = (struct table_change){.table = &audit_table, .row = &act->entry.row};
    act->entry = (struct store_audit){
        .at = apply->world.now,
        .actor = slice_first(by->actor, STORE_ACTOR_MAX),
        .act = act_of(op->kind),
        .tenant = row->tenant,
        .rule = row->rule,
        .key = row->key,
        .token = before->token,
        .from = before->status,
        .to = row->record.status,
        .http_status = act_of(op->kind) == STORE_ACT_RESOLVE ? by->http_status : 0,
        .force = by->force,
        .attempt_id = attempt_id_of(op),
    };
    bring_row(apply, &act->change, false);
    op->own.act = act->entry.row.id;
    write_reason(apply, by->reason, &act->entry);
}

struct sought {
    const struct store_op *op;
    const struct table_change *change; /* NULL: the act's row in the audit */
    bool found;
};

/* An act of that id is this operation's if its attempt is; a row that was inserted may have changed
 * since. */
static void compare_row(void *argument, const struct table_row *row)
{
    struct sought *sought = argument;
    const struct store_audit *audit = (const struct store_audit *)row;
    const struct table_change *change = sought->change;
    if (!change)
        sought->found = row->id == sought->op->own.act &&
                        slice_eq(audit->attempt_id, attempt_id_of(sought->op));
    else
        sought->found = row->id == change->row->id &&
                        (change->act == TABLE_INSERT || row->version == change->version);
}

/* What shows that an operation was saved: the first row that it inserts, else one that it changes;
 * NULL: nothing that it brings. */
static const struct table_change *find_proof(const struct store_op *op)
{
    const struct table_change *proof = NULL;
    for (size_t i = 0; i < op->n_brings && op->brings[i].version != 0; i++) {
        const struct table_change *change = &op->brings[i];
        if (change->act == TABLE_INSERT)
            return change;
        if (change->act == TABLE_UPDATE || change->act == TABLE_TOUCH)
            proof = change;
    }
    return proof;
}

/* Whether an operation was done by a save that ended unsure. An act that names no token would be
 * done to the next record of the key; what it brought may have been changed since by another
 * process, so that it would not fit again. */
static enum backend_status find_saved(const struct apply *apply, const struct store_op *op,
                                      bool *ret_done)
{
    const struct table_change *proof = op->own.unsure && op->own.act == 0 ? find_proof(op) : NULL;
    *ret_done = false;
    if (!op->own.unsure || (op->own.act == 0 && !proof))
        return BACKEND_OK;
    int64_t next_due;
    struct sought sought = {.op = op, .change = proof};
    struct table_query query = {.table = proof ? proof->table : &audit_table,
                                .after = (proof ? proof->row->id : op->own.act) - 1,
                                .limit = 1,
                                .each = compare_row,
                                .argument = &sought};
    enum backend_status status =
        apply->backend->ops->query(apply->backend, &query, apply->world.now, &next_due);
    *ret_done = sought.found;
    return status;
}

/* With the record as it is by now, which may have changed since. */
static enum backend_status report_write_done(const struct apply *apply, struct store_op *op,
                                             struct store_row *row)
{
    if (op->kind == STORE_FORGET)
        *row = (struct store_row){.record.status = RECORD_ABSENT};
    op->result.status = STORE_DONE;
    op->result.write = RECORD_WRITTEN;
    apply_report(apply, op, row);
    return BACKEND_OK;
}

/* What a save that ended unsure has stored is ALREADY when it is applied again. */
static void note_alone(struct store_op *op, const struct record *before)
{
    if (op->result.write == RECORD_WRITTEN || !op->own.unsure)
        op->result.alone = op->result.write == RECORD_WRITTEN && !before->provisional;
}

static enum backend_status emit_event(struct apply *apply, const struct emit_written *written)
{
    struct table_change *event;
    enum backend_status status = emit_make(apply->rows, apply->backend, written, &event);
    if (event)
        bring_row(apply, event, false);
    return status;
}

/* An owner finds its record gone, or an older one: deleted, or lost by a store that went back. A
 * save that brings nothing sees which (backend.back), and the batch is decided again. */
static void note_lost(struct apply *apply, struct store_op *op, const struct store_row *row)
{
    bool is_owner = op->writing.actor.len == 0 && op->writing.token > 0;
    bool is_gone = op->result.write == RECORD_STALE && row->record.token < op->writing.token;
    op->result.is_lost = is_owner && is_gone && op->writing.token <= apply->lost_up_to;
    if (is_owner && is_gone && !op->result.is_lost && !apply->backend->lacks_terms)
        rowset_begin(apply->rows);
}

static enum backend_status apply_write(struct apply *apply, struct store_op *op, bool *ret_touched)
{
    struct store_row row;
    bool done = false;
    CHECK(op->kind >= STORE_FINISH && op->kind <= STORE_END_HOLD && !op->result.found);
    if (op->kind == STORE_END_HOLD && apply->closed != STORE_DONE) { /* as for a begin */
        op->result.status = apply->closed;
        return BACKEND_OK;
    }
    rowset_find(apply->rows, &op->key_hash, op->row_hint, &row);
    enum backend_status found = find_saved(apply, op, &done);
    if (found != BACKEND_OK || done)
        return done ? report_write_done(apply, op, &row) : found;
    struct record before = row.record;
    op->result.kept = op->writing.keeps && fits_backend(apply, op->writing.outcome);
    op->result.write = write_found_record(apply, op, &row.record);
    CHECK(record_is_sound(&row.record));
    if (op->kind == STORE_FINISH)
        note_alone(op, &before);
    if (apply_note_lag(apply, &before, &row.record))
        return BACKEND_OK;
    bool frozen = before.provisional && !row.record.provisional;
    if (op->result.write == RECORD_WRITTEN || op->result.write == RECORD_EARLY || frozen) {
        store_write(apply, op, &row);
        *ret_touched = true;
    }
    if (op->result.write == RECORD_WRITTEN && op->writing.actor.len > 0)
        apply_audit(apply, op, &before, &row);
    if (op->result.write == RECORD_WRITTEN)
        apply_bring(apply, op);
    if (op->result.write == RECORD_WRITTEN)
        found = emit_event(apply, &(struct emit_written){op, &before, &row, apply->world.now});
    if (found != BACKEND_OK)
        return found;
    apply_report(apply, op, &row);
    op->result.status = STORE_DONE;
    note_lost(apply, op, &row);
    /* An operator or another life of this attempt was first: its owner compares. */
    if (op->result.write == RECORD_ALREADY && op->kind == STORE_FINISH && row.record.kept)
        return apply_read_outcome(apply, op, &row);
    return BACKEND_OK;
}

static enum backend_status apply_look(struct apply *apply, struct store_op *op)
{
    struct store_row row;
    rowset_find(apply->rows, &op->key_hash, op->row_hint, &row);
    if (record_is_absent(&row.record, apply->world.now))
        row.record.status = RECORD_ABSENT;
    apply_report(apply, op, &row);
    op->result.status = STORE_DONE;
    bool is_final = record_is_final(row.record.status);
    if (is_final && row.record.kept && !op->record_alone &&
        apply->world.now < row.record.expires_at)
        return apply_read_outcome(apply, op, &row);
    return BACKEND_OK;
}

static enum backend_status apply_list(const struct apply *apply, struct store_op *op)
{
    const struct store_list *list = op->list;
    op->result.status = STORE_DONE;
    if (list->restart)
        list->restart(list->argument);
    return apply->backend->ops->list(apply->backend, list, &apply->world, &op->result.row);
}

static enum backend_status apply_query(const struct apply *apply, struct store_op *op)
{
    op->result.status = STORE_DONE;
    op->result.store_now = apply->world.now;
    if (op->query->restart)
        op->query->restart(op->query->argument);
    return apply->backend->ops->query(apply->backend, op->query, apply->world.now,
                                      &op->result.next_due);
}

/* Terms that were set by a save that ended unsure are what was wanted; with rows, those say so:
 * another process may have set the same. */
static enum store_status judge_rows(const struct apply *apply, const struct store_op *op,
                                    bool *ret_done)
{
    const struct terms *terms = &apply->read.terms;
    bool proves = op->rows.terms && op->n_brings == 0;
    *ret_done |= proves && op->own.unsure && terms_eq(terms, &op->rows.terms->wanted);
    if (*ret_done)
        return STORE_DONE;
    if (!apply->may_write)
        return STORE_FULL;
    if (op->rows.terms && apply->backend->lacks_terms)
        return STORE_DOWN;
    if (op->rows.begins && (apply->closed == STORE_FROZEN || apply->closed == STORE_WENT_BACK))
        return apply->closed;
    return !op->rows.terms || terms_eq(terms, &op->rows.terms->expected) ? STORE_DONE
                                                                         : STORE_CONFLICT;
}

static enum backend_status apply_rows(struct apply *apply, struct store_op *op)
{
    bool done = false;
    enum backend_status status = find_saved(apply, op, &done);
    if (status != BACKEND_OK)
        return status;
    CHECK(op->n_brings > 0 || op->rows.terms);
    op->result.status = judge_rows(apply, op, &done);
    op->result.store_now = apply->world.now;
    if (op->result.status != STORE_DONE || done)
        return BACKEND_OK;
    apply_bring(apply, op);
    if (op->rows.terms)
        apply->sets = op->rows.terms;
    if (op->rows.begins || op->rows.terms)
        rowset_begin(apply->rows);
    return BACKEND_OK;
}

enum backend_status apply_op(struct apply *apply, struct store_op *op, bool *ret_touched)
{
    *ret_touched = false;
    apply->lags = false;
    switch (op->kind) {
    case STORE_BEGIN:
        return apply_begin(apply, op, ret_touched);
    case STORE_LOOK:
        return apply_look(apply, op);
    case STORE_LIST:
        return apply_list(apply, op);
    case STORE_QUERY:
        return apply_query(apply, op);
    case STORE_ROWS:
        return apply_rows(apply, op);
    default:
        return apply_write(apply, op, ret_touched);
    }
}
