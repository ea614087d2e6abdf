/* SPDX-License-Identifier: Apache-2.0 */
#include "sim.h"

#include "base/arena.h"
#include <stdio.h>

#define SIM_ROWS ((size_t)1 << 20) /* bytes of what is durable of all rules */

bool row_is_final(const struct store_row *row)
{
    return row->record.status == RECORD_COMPLETE || row->record.status == RECORD_FAILED;
}

bool row_is_held(const struct store_row *row)
{
    return row->record.lease_until != 0;
}

bool key_is_gone(const struct store_row *row, int64_t now)
{
    bool over = row->bound != 0 && now >= row->bound_until;
    return over || record_key_is_absent(&row->record, now);
}

/* Within one life. */
static void check_same_life(struct sim *sim, const struct store_row *was,
                            const struct store_row *now)
{
    const struct record *before = &was->record, *after = &now->record;
    bool same_key = was->bound == now->bound;
    SIM_CHECK(sim, !same_key || digest_eq(&before->payload_hash, &after->payload_hash));
    SIM_CHECK(sim, before->created_at == after->created_at);
    SIM_CHECK(sim, after->quiet_at >= before->quiet_at);
    SIM_CHECK(sim, after->settle_us >= before->settle_us);
    if (row_is_final(was)) {
        SIM_CHECK(sim, after->status == before->status && after->token == before->token);
        SIM_CHECK(sim, after->http_status == before->http_status);
        SIM_CHECK(sim, after->completed_at == before->completed_at);
    }
    if (!row_is_held(was) && row_is_held(now))
        SIM_CHECK(sim, after->token > before->token);
    if (row_is_held(was) && row_is_held(now) && after->token == before->token)
        SIM_CHECK(sim, after->lease_until >= before->lease_until);
}

/* A hold ended: from then on the operation may be done once more. */
static void note_end_of_hold(struct sim *sim, int rule, const struct store_row *was,
                             const struct store_row *now)
{
    const struct record *before = &was->record, *after = &now->record;
    bool doubted = before->status == RECORD_UNKNOWN || before->lease_until != 0;
    bool moved = after->token != before->token || record_is_released(after);
    if (!doubted || !moved || after->doubt || after->cause != RECORD_CAUSE_HOLD_ENDED)
        return;
    SIM_CHECK(sim, sim_rule(sim, rule)->hold > 0);
    sim->reached[SIM_HOLD_ENDED]++;
    struct life *life = life_of(sim, rule, was->id);
    life->before = life->effects;
}

/* From one life to none or to the next. */
static void check_end_of_life(struct sim *sim, const struct store_row *was,
                              const struct store_row *now, bool may_end)
{
    SIM_HOLDS(sim, SIM_WAITED, may_end);
    if (now->record.status != RECORD_ABSENT)
        SIM_CHECK(sim, now->id > was->id && now->record.token > was->record.token);
}

/* Its hold has ended, and what was released then has expired since. */
static bool outlived(struct sim *sim, int rule, const struct store_row *was)
{
    const struct sim_rule *known = sim_rule(sim, rule);
    struct record_begin begin = {
        .unknown = known->unknown, .hold_us = known->hold, .settle_us = known->settle};
    struct record met = was->record;
    if (met.lapsed_at == 0) /* it may have lapsed since the last look */
        met.lapsed_at = met.lease_until;
    enum record_lease lease = met.lapsed_at != 0 ? RECORD_LEASE_LAPSED : RECORD_LEASE_NONE;
    int64_t end = record_held_until(&met, &begin, lease);
    return sim->read.now >= clock_after(end, known->ttl);
}

static void end_life(struct sim *sim, int rule, const struct store_row *was, bool forgotten)
{
    bool gone = record_is_absent(&was->record, sim->read.now) || outlived(sim, rule, was);
    bool dropped = !gone && !forgotten && sim->dropping[rule];
    check_end_of_life(sim, was, &sim->shadow[rule], forgotten || dropped || gone);
    if (!gone)
        sim->deleted_at[rule] = sim->boot;
    if (!dropped)
        return;
    sim->reached[SIM_DROPPED]++;
    sim->dropping[rule] = false;
    struct life *life = life_of(sim, rule, was->id);
    life->dropped = true;
    /* Once quiet, the doubt may have been settled earlier in the same batch. */
    bool doubted = was->record.doubt && sim->read.now < was->record.quiet_at;
    SIM_HOLDS(sim, SIM_LEFT, !doubted && life->effects == life->before);
}

/* As a batch sees what a name leads to. */
static struct store_row shown(const struct backend_name *name)
{
    struct store_row row = {.record.status = RECORD_ABSENT};
    if (!name->row)
        return row;
    row = *name->row;
    if (!name->bound)
        return row;
    row.bound = name->bound->id;
    row.bound_until = name->bound->expires_at;
    row.bound_acknowledges = name->bound->acknowledges;
    row.recipe = name->bound->recipe;
    row.record.payload_hash = name->bound->payload_hash;
    row.record.target_hash = name->bound->target_hash;
    return row;
}

/* The row of a key, under its rule's name or the first former one under which it lives. `names`:
 * those of one rule, the oldest last. */
static void find(const struct sim *sim, const struct backend_name *names, size_t n,
                 struct store_row *ret_row)
{
    for (size_t i = 0; i < n; i++) {
        *ret_row = shown(&names[i]);
        if (!key_is_gone(ret_row, sim->read.now))
            return;
    }
}

static struct backend_name *load(struct sim *sim, size_t n, struct arena *arena)
{
    struct backend *keeper = sim->keeper;
    struct backend_name *names = arena_alloc(arena, SIM_RULES * n * sizeof *names);
    SIM_CHECK(sim, names);
    for (size_t i = 0; i < SIM_RULES * n; i++) {
        int rule = (int)(i / n), name = (int)(n - 1 - i % n);
        names[i] = (struct backend_name){.hash = sim->once ? once_key(rule, name) : sim_key(rule)};
    }
    SIM_CHECK(sim,
              keeper->ops->load(keeper, names, SIM_RULES * n, arena, &sim->read) == BACKEND_OK);
    keeper->ops->abandon(keeper);
    return names;
}

static void check_rows(struct sim *sim, const struct store_row *before, bool forgotten)
{
    for (int rule = 0; rule < SIM_RULES; rule++) {
        const struct store_row *was = &before[rule], *now = &sim->shadow[rule];
        if (was->record.status == RECORD_ABSENT)
            continue;
        bool same = now->record.status != RECORD_ABSENT && now->id == was->id;
        if (same) {
            check_same_life(sim, was, now);
            note_end_of_hold(sim, rule, was, now);
        } else if (!sim->once)
            end_life(sim, rule, was, forgotten);
    }
}

static struct proc *owner_of(struct sim *sim, const struct store_row *row)
{
    for (size_t i = 0; i < SIM_PROCS; i++)
        if (sim->procs[i].store && sim->procs[i].self == row->record.owner)
            return &sim->procs[i];
    return NULL;
}

/* Property (l): a lease ends at most one lease after its owner's death. */
static void check_orphan(struct sim *sim, int rule)
{
    const struct store_row *row = &sim->shadow[rule];
    struct orphan *orphan = &sim->orphans[rule];
    if (!row_is_held(row) || owner_of(sim, row))
        return;
    if (orphan->token != row->record.token)
        *orphan = (struct orphan){.token = row->record.token, .since = sim->read.now};
    SIM_CHECK(sim,
              row->record.lapsed_at != 0 || sim->read.now < orphan->since + row->record.lease_us);
}

void shadow_check(struct sim *sim)
{
    struct backend_read before = sim->read;
    struct arena arena ARENA_AUTO = arena_make(SIM_ROWS);
    size_t n = sim->once ? (size_t)sim->n_names : 1;
    const struct backend_name *names = load(sim, n, &arena);
    bool forgotten = sim->read.forgets != before.forgets;
    struct store_row rows[SIM_RULES];
    memcpy(rows, sim->shadow, sizeof rows);
    for (int rule = 0; rule < SIM_RULES; rule++) {
        struct store_row *now = &sim->shadow[rule];
        find(sim, names + (size_t)rule * n, n, now);
        SIM_CHECK(sim, record_is_sound(&now->record));
        SIM_CHECK(sim, now->record.token < sim->read.token);
        sim->reached[SIM_LAPSED_PROVISIONAL] +=
            now->record.provisional && now->record.lapsed_at != 0;
    }
    for (int rule = 0; rule < SIM_RULES; rule++)
        check_orphan(sim, rule);
    check_rows(sim, rows, forgotten);
    if (sim->once)
        once_check(sim, rows, forgotten);
    SIM_CHECK(sim, sim->read.token > before.token && sim->read.now >= before.now);
    SIM_CHECK(sim, sim->read.forgets >= before.forgets);
}

void shadow_beat(struct sim *sim, size_t at, const struct store_row *before)
{
    struct proc *proc = &sim->procs[at];
    proc->beat_at = sim->read.now;
    sim->reached[SIM_BEAT_TAKEN] += proc->robbed;
    for (int rule = 0; rule < SIM_RULES; rule++) {
        const struct record *was = &before[rule].record, *now = &sim->shadow[rule].record;
        bool kept =
            was->owner == proc->self && now->token == was->token && row_is_held(&before[rule]);
        sim->reached[SIM_BEAT_LATE] +=
            kept && was->lapsed_at != 0 && now->lapsed_at == 0 && now->lease_until != 0;
    }
}

/* The lease of another process was found lapsed. Property (m): who beats in time keeps it. */
static void count_lapse(struct sim *sim, int rule, const struct store_row *was,
                        const struct store_row *now)
{
    const struct record *record = &was->record;
    struct proc *owner = owner_of(sim, was);
    if (owner) {
        int64_t last = owner->beat_at > record->started_at ? owner->beat_at : record->started_at;
        SIM_CHECK(sim, sim->read.now >= last + record->lease_us);
        owner->robbed = true;
        sim->reached[SIM_TAKEN_BETWEEN] += owner->beat_at > record->started_at;
    } else if (record->lease_until > sim->read.now) {
        sim->reached[SIM_SERVE_AGAIN] += sim->procs[0].store != NULL;
    }
    sim->lapsed_at[rule] = sim->read.now;
    sim->reached[SIM_HELD] += now->record.status == RECORD_UNKNOWN;
    sim->reached[SIM_TAKEOVER] += row_is_held(now) && !now->record.probing;
    sim->reached[SIM_ASK_LAPSED] += was->record.probing && now->record.probing;
    sim->reached[SIM_DEAD_SERVE] += was->record.lease_until > sim->read.now;
}

/* What was released in doubt, or is. */
static void count_doubt(struct sim *sim, const struct record *was, const struct record *now)
{
    bool released = record_is_released(was) && was->doubt;
    sim->reached[SIM_HELD_RELEASED] += released && now->status == RECORD_UNKNOWN;
    sim->reached[SIM_ASK_RELEASED] += released && now->probing;
    bool late = was->status == RECORD_UNKNOWN && !was->doubt && now->token == was->token;
    sim->reached[SIM_FREED_LATE] += late && record_is_released(now);
}

static void count_row(struct sim *sim, int rule, size_t proc, const struct store_row *was)
{
    const struct store_row *now = &sim->shadow[rule];
    bool both = was->record.status != RECORD_ABSENT && now->record.status != RECORD_ABSENT;
    sim->reached[SIM_NEW_LIFE] += both && now->id != was->id;
    if (!both || now->id != was->id)
        return;
    bool same_token = now->record.token == was->record.token;
    sim->reached[SIM_OUTLIVED] += row_is_final(now) && !row_is_final(was) &&
                                  sim_rule(sim, rule)->window &&
                                  now->record.expires_at > now->record.created_at + SECOND;
    count_doubt(sim, &was->record, &now->record);
    bool foreign = was->record.owner != sim->procs[proc].self;
    bool lost = now->record.status == RECORD_UNKNOWN || (row_is_held(now) && !same_token);
    if (row_is_held(was) && foreign && lost)
        count_lapse(sim, rule, was, now);
    const struct operator_act *act = &sim->operator;
    bool operated = act->submitted && act->rule == rule && act->op.kind == STORE_RESOLVE;
    if (!row_is_final(now) || !same_token || operated)
        return;
    sim->reached[SIM_LATE_UNKNOWN] += was->record.status == RECORD_UNKNOWN;
    /* What is released has settled, and then nothing happens any more: the rules exclude it. That
     * the upstream refused it may be stored late, by an owner that stood still meanwhile; the end
     * of a hold has settled nothing. */
    bool refused = now->record.status == RECORD_FAILED;
    bool outlives = was->record.cause == RECORD_CAUSE_HOLD_ENDED;
    SIM_HOLDS(sim, SIM_RELEASED,
              was->record.status != RECORD_PENDING || row_is_held(was) || refused || outlives ||
                  sim->participant);
}

void shadow_count(struct sim *sim, size_t proc, const struct store_row *before)
{
    for (int rule = 0; rule < SIM_RULES; rule++)
        count_row(sim, rule, proc, &before[rule]);
}

void shadow_acquired(struct sim *sim, const struct attempt *attempt)
{
    uint64_t at = (uint64_t)attempt->token * UINT64_C(0x9e3779b97f4a7c15);
    struct token_use *use = &sim->tokens[at >> 43];
    const unsigned char *id = attempt->result.record.attempt_id;
    if (use->token == attempt->token) {
        SIM_CHECK(sim, memcmp(use->attempt_id, id, sizeof use->attempt_id) == 0);
        return;
    }
    use->token = attempt->token;
    memcpy(use->attempt_id, id, sizeof use->attempt_id);
}

/* Invariants (b) and (f): one outcome, and a durable one. */
void shadow_told(struct sim *sim, int rule, int64_t row, struct slice body)
{
    struct backend *keeper = sim->keeper;
    struct life *life = life_of(sim, rule, row);
    char text[sizeof life->told];
    snprintf(text, sizeof text, "%.*s", SLICE_ARG(body));
    if (life->told[0] == 0)
        memcpy(life->told, text, sizeof text);
    SIM_HOLDS(sim, SIM_ONE_OUTCOME, strcmp(life->told, text) == 0);
    shadow_check(sim);
    const struct store_row *now = &sim->shadow[rule];
    if (now->record.status == RECORD_ABSENT || now->id != row)
        return;
    SIM_HOLDS(sim, SIM_DURABLE, row_is_final(now) && !now->record.provisional);
    if (!row_is_final(now) || !now->record.kept || record_is_absent(&now->record, sim->read.now) ||
        sim->read.now >= now->record.expires_at)
        return;
    struct outcome *stored = NULL;
    uint64_t size = 0;
    SIM_CHECK(sim, keeper->ops->outcome(keeper, now, UINT64_MAX, &stored, &size) == BACKEND_OK);
    SIM_HOLDS(sim, SIM_ONE_OUTCOME, slice_eq(stored->body, body));
    outcome_unref(stored);
}
