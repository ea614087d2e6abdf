/* SPDX-License-Identifier: Apache-2.0 */
/* A begin: on the record of its key and, where that one is gone, on the holder of its once value.
 */
#include "base/check.h"
#include "base/mem.h"
#include "core/web/origin.h"
#include "store/committer/apply.h"

/* ---- the record of a key ---- */

/* For the key by which the row was found. */
static bool is_gone(const struct store_row *row, int64_t now)
{
    bool over = row->bound != 0 && now >= row->bound_until;
    return over || record_key_is_absent(&row->record, now);
}

/* Finds the operation's record: under its own name or, with that one gone, under the first
 * former one that lives. The row of a gone record is its own: a new life begins under it. */
static void find_named_row(struct apply *apply, struct store_op *op, struct store_row *ret_row)
{
    int64_t now = apply->world.now;
    op->key_hash = op->own.named;
    rowset_find(apply->rows, &op->key_hash, op->row_hint, ret_row);
    for (size_t i = 0; i < op->arrival.n_former; i++) {
        if (!is_gone(ret_row, now))
            return;
        op->key_hash = op->arrival.former[i];
        rowset_find(apply->rows, &op->key_hash, 0, ret_row);
    }
    if (op->arrival.n_former == 0 || !is_gone(ret_row, now))
        return;
    op->key_hash = op->own.named;
    rowset_find(apply->rows, &op->key_hash, op->row_hint, ret_row);
}

/* Its names may mean other operations by now. */
static bool is_of_other_epoch(const struct apply *apply, const struct store_op *op)
{
    return op->arrival.has_epoch && op->arrival.epoch != apply->read.terms.epoch;
}

static bool may_begin_now(const struct apply *apply, const struct store_op *op)
{
    return apply->closed == STORE_DONE && !is_of_other_epoch(apply, op);
}

/* What would write: without space, in a store that is frozen or went back, or named by another
 * epoch. What is there is replayed. */
static bool refuse_begin(const struct apply *apply, struct store_op *op)
{
    if (may_begin_now(apply, op))
        return false;
    op->result.status = is_of_other_epoch(apply, op) ? STORE_MOVED : apply->closed;
    return true;
}

/* A row that no name leads to makes room; one that its once value still leads to stays. */
static void make_room(struct apply *apply, const struct store_row *old)
{
    bool goes =
        old->record.status != RECORD_ABSENT && record_is_absent(&old->record, apply->world.now);
    if (goes)
        rowset_remove(apply->rows, old, false);
}

/* Of the row that it was made from, which may be of an earlier life, it has nothing but the record.
 */
static void insert_row(struct apply *apply, struct store_op *op, struct store_row *fresh)
{
    const struct store_arrival *arrival = &op->arrival;
    *fresh = (struct store_row){
        .id = fresh->record.token,
        .key_hash = op->key_hash,
        .tenant = arrival->tenant,
        .rule = arrival->rule,
        .key = arrival->key,
        .recipe = arrival->recipe,
        .fingerprint = arrival->fingerprint
                           ? slice_make(arrival->fingerprint->text, arrival->fingerprint->len)
                           : (struct slice){0},
        .origin = arrival->origin,
        .once = arrival->once ? arrival->once->text : (struct slice){0},
        .once_template = arrival->once ? arrival->once->template_id : 0,
        .record = fresh->record,
    };
    rowset_insert(apply->rows, fresh, arrival->once);
}

/* Whence this attempt comes. While an earlier one is in doubt, the service may know the operation
 * by the spelling of its key then: that goes along. The begin's own is that of its own key. */
static void note_origin(struct apply *apply, const struct store_op *op, struct store_row *row)
{
    enum key_forward own = origin_spelling(op->arrival.origin), spelling = own;
    struct arena *arena = &apply->rows->arena;
    if (row->record.doubt)
        spelling = origin_spelling(row->origin);
    else if (!slice_eq(row->key, op->arrival.key))
        spelling = KEY_FORWARD_BY_SYNTAX;
    row->origin = op->arrival.origin;
    if (spelling == own)
        return;
    row->origin = origin_respell(op->arrival.origin, spelling, arena);
    arena->failed |= !row->origin.at;
}

static void store_begin(struct apply *apply, struct store_op *op, const struct store_row *old,
                        struct store_row *row)
{
    CHECK(!row->record.provisional);
    apply_use_token(apply, row->record.token);
    if (record_verdict_runs(op->result.verdict) && row->record.attempts == 1) { /* a new life */
        if (record_key_is_absent(&old->record, apply->world.now))
            make_room(apply, old);
        else
            rowset_remove(apply->rows, old, false); /* the new one takes its place */
        insert_row(apply, op, row);
        return;
    }
    if (record_verdict_runs(op->result.verdict))
        note_origin(apply, op, row);
    rowset_update(apply->rows, row, NULL);
}

/* Proceeds on a record that was held, and whose hold has ended: who reads of a second effect finds
 * why. `now`: the record that it ended on, which may be a new one. */
static void note_end_of_hold(struct apply *apply, struct store_op *op, const struct store_row *held,
                             const struct record *now)
{
    if (op->result.verdict != RECORD_PROCEED || !record_outlived_hold(&held->record, now))
        return;
    op->result.outlived_hold = true;
    struct store_row row = *held;
    row.record.status = RECORD_PENDING;
    apply_audit(apply, op, &held->record, &row);
}

static char *copy_text(struct slice text)
{
    return mem_copy(text.at, text.len);
}

/* To say where the result of the first response is. */
static bool shows_first_record(const struct apply *apply, const struct store_op *op,
                               const struct store_row *row)
{
    bool settled = row->record.kept && !row->record.provisional;
    return op->result.verdict == RECORD_DUPLICATE && row->location.len > 0 && settled &&
           apply->world.now < record_body_until(&row->record);
}

/* To say in what the requests differ. */
static void copy_fingerprint(struct store_op *op, const struct store_row *row)
{
    bool own = row->bound == 0 && !op->result.by_once;
    bool asked = op->result.verdict == RECORD_MISMATCH && op->arrival.found_fingerprint;
    if (!own || !asked || row->fingerprint.len > FINGERPRINT_MAX)
        return;
    struct fingerprint *found = op->arrival.found_fingerprint;
    found->len = row->fingerprint.len;
    if (row->fingerprint.len > 0)
        memcpy(found->text, row->fingerprint.at, row->fingerprint.len);
}

/* What the begin came to, on `row`. */
static enum backend_status conclude_begin(struct apply *apply, struct store_op *op,
                                          const struct store_row *row)
{
    struct store_result *result = &op->result;
    apply_report(apply, op, row);
    copy_fingerprint(op, row);
    result->status = STORE_DONE;
    if (row->record.status != RECORD_ABSENT)
        op->key_hash = row->key_hash;
    result->by_bound = row->bound != 0;
    result->acknowledges = row->bound_acknowledges;
    bool acquired = record_verdict_acquires(result->verdict);
    bool as_former =
        digest_differs(&op->key_hash, &op->own.named) && !slice_eq(row->key, op->arrival.key);
    bool elsewhere = acquired && (row->bound != 0 || result->by_once || as_former);
    if (elsewhere)
        result->found_key = copy_text(row->key);
    bool in_doubt = acquired && row->record.doubt;
    result->spelling = in_doubt ? origin_spelling(row->origin) : KEY_FORWARD_BY_SYNTAX;
    if (result->verdict == RECORD_OTHER_RECIPE)
        result->found_recipe = copy_text(row->recipe);
    bool asks = result->verdict == RECORD_IN_PROGRESS && result->lease == RECORD_LEASE_LAPSED;
    if (asks)
        result->found_origin = copy_text(row->origin);
    bool copied = (result->verdict != RECORD_OTHER_RECIPE || result->found_recipe) &&
                  (!asks || result->found_origin) && (!elsewhere || result->found_key);
    if (!copied)
        return BACKEND_NO_MEMORY;
    if (result->verdict == RECORD_REPLAY)
        return apply_read_outcome(apply, op, row);
    if (!shows_first_record(apply, op, row))
        return BACKEND_OK;
    enum backend_status status = apply_read_outcome(apply, op, row);
    result->status = STORE_DONE; /* without room it is a duplicate all the same */
    return status;
}

/* ---- the holder of a once value ---- */

/* Equal texts of two templates name two things: an order 77 is no invoice 77. What an application
 * brought has no template, and is a value of each. */
static bool is_of_other_template(const struct store_row *row, const struct store_once *once)
{
    return row->once_template != once->template_id && row->once_template != 0 &&
           once->template_id != 0;
}

/* The row that `hash` leads to, or the record from before the rule had `once` whose key it is. */
static void find_under(struct apply *apply, const struct store_once *once,
                       const struct digest *hash, const struct digest *as_key,
                       struct store_row *ret_row)
{
    int64_t now = apply->world.now;
    rowset_find_once(apply->rows, hash, ret_row);
    if (!record_is_absent(&ret_row->record, now) && !is_of_other_template(ret_row, once))
        return;
    rowset_find(apply->rows, as_key, 0, ret_row);
    if (ret_row->once.len > 0 || ret_row->bound != 0 || record_key_is_absent(&ret_row->record, now))
        *ret_row = (struct store_row){.record.status = RECORD_ABSENT};
}

static void find_holder(struct apply *apply, const struct store_once *once,
                        struct store_row *ret_row)
{
    find_under(apply, once, &once->hash, &once->as_key, ret_row);
    for (size_t i = 0; i < once->n_former && ret_row->record.status == RECORD_ABSENT; i++)
        find_under(apply, once, &once->former[i], &once->former_as_key[i], ret_row);
}

static struct once_decision decide_on_holder(const struct apply *apply, const struct store_op *op,
                                             bool key_lives, struct store_row *holder)
{
    const struct record *record = &holder->record;
    bool any = op->arrival.once->any_payload;
    struct once_question question = {
        .begin = &op->begin,
        .world = &apply->world,
        .next_token = apply_token_above(apply, &holder->record),
        .same = any || (!digest_differs(&record->payload_hash, &op->begin.payload_hash) &&
                        !digest_differs(&record->target_hash, &op->begin.target_hash)),
        .recipe_differs = !any && !slice_eq(holder->recipe, op->arrival.recipe),
        .reject = op->arrival.once->reject,
        .key_lives = key_lives,
    };
    struct once_decision answer = once_decide(&holder->record, &question);
    CHECK(record_is_sound(&holder->record));
    return answer;
}

/* The key of this begin leads to the holder from now on. Without a key there is nothing to bind. */
static void bind_key(struct apply *apply, const struct store_op *op, const struct store_row *holder,
                     bool settled)
{
    const struct store_arrival *arrival = &op->arrival;
    if (arrival->once->keyless)
        return;
    int64_t ttl_us = record_ttl_us(&op->begin, apply->world.now);
    int64_t lives = clock_after(ttl_us, op->begin.tombstone_us);
    struct backend_bound bound = {
        .id = apply_take_token(apply),
        .holder = holder->id,
        .expires_at = settled ? clock_after(apply->world.now, lives) : CLOCK_NEVER,
        .key_hash = op->own.named,
        .key = arrival->key,
        .recipe = arrival->recipe,
        .payload_hash = op->begin.payload_hash,
        .target_hash = op->begin.target_hash,
        .acknowledges = settled && arrival->once->acknowledge,
    };
    rowset_bind(apply->rows, &bound);
}

static void start_life(struct apply *apply, struct store_op *op, struct store_row *ret_row)
{
    bool changed = false;
    *ret_row = (struct store_row){.record.status = RECORD_ABSENT};
    op->key_hash = op->own.named;
    op->result.by_once = false;
    op->result.verdict = record_begin(&ret_row->record, &op->begin, &apply->world,
                                      apply_next_token(apply), &changed);
    CHECK(changed && record_verdict_runs(op->result.verdict));
    apply_use_token(apply, ret_row->record.token);
    insert_row(apply, op, ret_row);
}

/* The value as the row's rule names it; NULL: as the present name does. */
static const struct store_former_value *value_of_former(const struct store_once *once,
                                                        const struct store_row *row)
{
    for (size_t i = 0; once->former_values && i < once->n_former; i++)
        if (slice_eq(once->former_values[i].rule, row->rule))
            return &once->former_values[i];
    return NULL;
}

/* A row without this value gets it, and its times. */
static void hold_value(struct apply *apply, const struct store_op *op, struct store_row *row)
{
    const struct store_once *once = op->arrival.once;
    const struct store_former_value *former = value_of_former(once, row);
    row->record.once_ttl_us = op->begin.once_ttl_us;
    row->record.once_window = op->begin.once_window;
    row->record.once_replay = op->begin.once_replay;
    rowset_hold(apply->rows, row, former ? former->text : once->text, once->template_id);
}

/* Stores what was decided on the holder; `row` is the one that it ends on. */
static void store_decision(struct apply *apply, struct store_op *op,
                           const struct once_decision *answer, struct store_row *row)
{
    apply_use_token(apply, row->record.token);
    if (answer->act == ONCE_REPLACE)
        rowset_remove(apply->rows, row, false);
    if (answer->act == ONCE_TAKE || answer->act == ONCE_REPLACE) {
        start_life(apply, op, row);
        return;
    }
    if (answer->act == ONCE_CONTINUE || answer->act == ONCE_BIND)
        bind_key(apply, op, row, answer->act == ONCE_BIND);
    if (answer->act == ONCE_CONTINUE && row->once.len == 0)
        hold_value(apply, op, row);
    if (!answer->changed)
        return;
    if (op->result.verdict == RECORD_PROCEED)
        note_origin(apply, op, row);
    if (answer->act == ONCE_BIND)
        record_lengthen(&row->record, record_ttl_us(&op->begin, apply->world.now),
                        op->begin.tombstone_us, apply->world.now);
    rowset_update(apply->rows, row, NULL);
}

static enum backend_status begin_by_once(struct apply *apply, struct store_op *op,
                                         const struct store_row *own, bool *ret_touched)
{
    struct store_row row;
    if (may_begin_now(apply, op))
        make_room(apply, own);
    find_holder(apply, op->arrival.once, &row);
    struct store_row held = row;
    struct once_decision answer = decide_on_holder(apply, op, false, &row);
    if (apply_note_lag(apply, &held.record, &row.record))
        return BACKEND_OK;
    bool writes = answer.changed || answer.act != ONCE_NOTHING;
    op->result.by_once = true;
    op->result.verdict = answer.verdict;
    if (writes && refuse_begin(apply, op))
        return BACKEND_OK;
    store_decision(apply, op, &answer, &row);
    if (writes)
        note_end_of_hold(apply, op, &held, &row.record);
    *ret_touched = writes;
    return conclude_begin(apply, op, &row);
}

/* A record from before the rule had `once`, or had it as it is, is about to proceed: the value must
 * be free for it.
 * False: it is not, and `row` is the holder's. */
static bool take_once_value(struct apply *apply, struct store_op *op, struct store_row *row)
{
    struct store_row holder;
    find_holder(apply, op->arrival.once, &holder);
    struct store_row judged = holder;
    bool other = holder.record.status != RECORD_ABSENT && holder.id != row->id;
    struct once_decision answer = {.act = ONCE_TAKE};
    if (other)
        answer = decide_on_holder(apply, op, true, &judged);
    if (answer.act != ONCE_TAKE && answer.act != ONCE_REPLACE) {
        bool decided = answer.act == ONCE_NOTHING && answer.verdict != RECORD_OTHER_RECIPE;
        op->result.verdict = decided ? answer.verdict : RECORD_OUTCOME_UNKNOWN;
        op->result.by_once = true;
        *row = holder;
        return false;
    }
    if (answer.act == ONCE_REPLACE) {
        struct record taker = {.token =
                                   row->record.token}; /* a doubt of its own is none of these */
        note_end_of_hold(apply, op, &holder, &taker);
        rowset_remove(apply->rows, &holder, false);
    }
    hold_value(apply, op, row);
    return true;
}

/* ---- one begin ---- */

static void decide_own(struct apply *apply, struct store_op *op, struct store_row *row,
                       bool *ret_changed)
{
    op->begin.recipe_differs =
        row->record.status != RECORD_ABSENT && !slice_eq(row->recipe, op->arrival.recipe);
    op->result.verdict = record_begin(&row->record, &op->begin, &apply->world,
                                      apply_token_above(apply, &row->record), ret_changed);
    CHECK(record_is_sound(&row->record));
}

/* No value, or one that the rule made by another template. */
static bool lacks_value(const struct store_op *op, const struct store_row *row)
{
    const struct store_once *once = op->arrival.once;
    return once && (row->once.len == 0 || row->once_template != once->template_id);
}

/* "Same" includes the once value, but for its date and hour: a retry may come after them, and the
 * record keeps its own. */
static bool has_other_value(const struct store_op *op, const struct store_row *row)
{
    const struct store_once *once = op->arrival.once;
    if (!once || lacks_value(op, row))
        return false;
    const struct store_former_value *former = value_of_former(once, row);
    return former ? !template_same_but_clocks(row->once, former->text, &former->clocks)
                  : !template_same_but_clocks(row->once, once->text, &once->clocks);
}

static enum backend_status begin_own(struct apply *apply, struct store_op *op,
                                     const struct store_row *old, bool *ret_touched)
{
    struct store_row row = *old;
    bool changed = false;
    op->result.verdict = RECORD_MISMATCH;
    if (!has_other_value(op, old))
        decide_own(apply, op, &row, &changed);
    if (apply_note_lag(apply, &old->record, &row.record))
        return BACKEND_OK;
    if (changed && refuse_begin(apply, op))
        return BACKEND_OK;
    bool lacks = changed && lacks_value(op, old) && record_verdict_runs(op->result.verdict);
    if (changed && (!lacks || take_once_value(apply, op, &row))) {
        store_begin(apply, op, old, &row);
        note_end_of_hold(apply, op, old, &row.record);
        *ret_touched = true;
    }
    return conclude_begin(apply, op, &row);
}

static enum backend_status decide_begin(struct apply *apply, struct store_op *op, bool *ret_touched)
{
    struct store_row old = {.record.status = RECORD_ABSENT};
    op->result.by_once = op->result.outlived_hold = op->result.unproved = false;
    if (op->arrival.once && op->arrival.once->keyless)
        op->key_hash = op->own.named;
    else
        find_named_row(apply, op, &old);
    bool gone = is_gone(&old, apply->world.now);
    if (op->arrival.once && gone)
        return begin_by_once(apply, op, &old, ret_touched);
    if (gone && old.bound != 0)
        old.record.status = RECORD_ABSENT;
    return begin_own(apply, op, &old, ret_touched);
}

/* One that had acquired by a save that ended unsure finds its own attempt, and changes nothing:
 * what it brought was saved with that. So it looks in any epoch. */
enum backend_status apply_begin(struct apply *apply, struct store_op *op, bool *ret_touched)
{
    CHECK(op->kind == STORE_BEGIN && !op->result.found && !op->result.holds);
    if (is_of_other_epoch(apply, op) && !op->own.unsure) {
        op->result.status = STORE_MOVED;
        return BACKEND_OK;
    }
    enum backend_status status = decide_begin(apply, op, ret_touched);
    bool acquired = record_verdict_acquires(op->result.verdict);
    if (status == BACKEND_OK && *ret_touched && acquired)
        apply_bring(apply, op);
    op->result.unproved = *ret_touched && op->result.verdict == RECORD_PROCEED &&
                          op->result.record.attempts == 1 &&
                          record_may_be_missing(&op->begin, &apply->world);
    if (status == BACKEND_OK && *ret_touched)
        rowset_begin(apply->rows);
    return status;
}
