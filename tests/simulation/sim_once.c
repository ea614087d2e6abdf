/* SPDX-License-Identifier: Apache-2.0 */
/* Rules with a second identity (core/once.h): the rules of such a run are keys, SIM_KEYS of them
 * bring one once value. Now and then the rules are renamed, and keep what they had. */
#include "sim.h"

#include <stdio.h>

#define RENAME_LEAST (10 * SECOND)

/* One refuses duplicates of the value, the other tells them the first answer. */
const struct sim_rule sim_once_rules[SIM_VALUES] = {
    {RECORD_UNKNOWN_HOLD, UPSTREAM_PLAIN, 2 * SECOND, 2 * SECOND, SECOND / 2, 2 * SECOND - 1},
    {RECORD_UNKNOWN_RETRY, UPSTREAM_DEDUPE, 2 * SECOND, 2 * SECOND, 0, 2 * SECOND - 1, true},
};

static int value_of(int rule)
{
    return rule / SIM_KEYS;
}

struct digest once_key(int rule, int name)
{
    struct digest key = sim_key(rule);
    key.bytes[1] = (unsigned char)name;
    key.bytes[2] = 1;
    return key;
}

static struct slice name_of(int rule, int name)
{
    static char names[SIM_VALUES][SIM_NAMES][16];
    char *text = names[value_of(rule)][name];
    snprintf(text, sizeof names[0][0], "%c%d", "hr"[value_of(rule)], name);
    return slice_of(text);
}

void once_name(struct sim *sim, struct actor *actor)
{
    static const char *const keys[SIM_KEYS] = {"a", "b", "c"};
    struct attempt *attempt = &actor->attempt;
    struct slice former[STORE_FORMER_MAX];
    int name = sim->n_names - 1;
    attempt->key = slice_of(keys[actor->rule % SIM_KEYS]);
    attempt->rule = name_of(actor->rule, name);
    attempt->key_hash = once_key(actor->rule, name);
    attempt->n_former = 0;
    bool forgets = sim->mutant == SIM_MUTANT_NO_FORMER;
    while (!forgets && --name >= 0 && attempt->n_former < STORE_FORMER_MAX) {
        former[attempt->n_former] = name_of(actor->rule, name);
        attempt->former[attempt->n_former++] = once_key(actor->rule, name);
    }
    attempt->has_once = sim->mutant != SIM_MUTANT_NO_VALUE || sim_below(sim, 2);
    attempt->once = (struct store_once){.template_id = 1, .reject = value_of(actor->rule) == 0};
    attempt->once.acknowledge = !attempt->once.reject && sim_below(sim, 2);
    int64_t ttl = sim_below(sim, 2) ? SECOND / 2 : 5 * SECOND;
    attempt->begin.once_ttl_us = attempt->has_once ? ttl : 0;
    attempt->begin.once_replay = attempt->has_once && !attempt->once.reject;
    engine_name_once(sim->procs[actor->proc].engine, attempt, SLICE("v"), former, &attempt->once);
}

/* What is under a name that is about to be the last but STORE_FORMER_MAX would be lost. */
static bool may_rename(const struct sim *sim)
{
    if (sim->n_names == SIM_NAMES || sim->boot - sim->renamed_at < RENAME_LEAST)
        return false;
    for (size_t i = 0; i < SIM_ACTORS; i++)
        if (sim->actors[i].phase == ACTOR_BEGINNING)
            return false;
    for (int rule = 0; rule < SIM_RULES; rule++) {
        const struct store_row *row = &sim->shadow[rule];
        bool old = row->key_hash.bytes[1] + STORE_FORMER_MAX - 1 < sim->n_names;
        if (row->record.status != RECORD_ABSENT && old)
            return false;
    }
    return true;
}

void once_rename(struct sim *sim)
{
    if (!sim_chance(sim, 1000) || !may_rename(sim))
        return;
    sim->n_names++;
    sim->renamed_at = sim->boot;
    sim->reached[SIM_ONCE_RENAMED]++;
}

/* ---- invariants ---- */

static bool is_over(const struct sim *sim, const struct value *value)
{
    return value->row == 0 ||
           (value->record.status == RECORD_COMPLETE && sim->read.now >= value->record.once_until);
}

/* Nobody else may run an operation with its value. */
static bool blocks(const struct sim *sim, const struct store_row *row)
{
    const struct record *record = &row->record;
    bool doubted = record->status == RECORD_PENDING && record->doubt;
    bool complete = record->status == RECORD_COMPLETE && sim->read.now < record->once_until;
    return row_is_held(row) || record->status == RECORD_UNKNOWN || doubted || complete;
}

static void check_one_holder(struct sim *sim, int value)
{
    int64_t holder = 0;
    for (int rule = value * SIM_KEYS; rule < (value + 1) * SIM_KEYS; rule++) {
        const struct store_row *row = &sim->shadow[rule];
        if (!blocks(sim, row))
            continue;
        SIM_HOLDS(sim, SIM_ONE_HOLDER, holder == 0 || holder == row->id);
        holder = row->id;
    }
}

/* A key leads elsewhere: it expired, its record was surely not done and lost its value, or a person
 * forgot it. (A record may be released and lose its value in one batch.) */
static void check_left(struct sim *sim, int rule, const struct store_row *was, bool forgotten)
{
    const struct life *life = life_of(sim, rule, was->id);
    bool lost = !row_is_final(was) && life->effects == 0;
    SIM_HOLDS(sim, SIM_ONE_HOLDER, key_is_gone(was, sim->read.now) || lost || forgotten);
}

/* A record may be forgotten when no key leads to it any more, but its value. */
static void note_forgotten(struct sim *sim, const struct store_row *before)
{
    const struct operator_act *act = &sim->operator;
    struct value *value = &sim->values[value_of(act->rule)];
    const struct store_row *was = &before[act->rule];
    bool by_key = was->record.token == act->op.writing.token;
    int64_t row = by_key ? was->id : value->record.token == act->op.writing.token ? value->row : 0;
    if (row == 0)
        return;
    life_of(sim, act->rule, row)->forgotten = true;
    sim->reached[SIM_ONCE_FORGOTTEN] += by_key && blocks(sim, was);
    if (value->row == row)
        *value = (struct value){0};
}

static void count_expiry(struct sim *sim, const struct store_row *row)
{
    int64_t now = sim->read.now;
    if (row->record.status != RECORD_COMPLETE)
        return;
    bool key = key_is_gone(row, now), value = now >= row->record.once_until;
    sim->reached[SIM_ONCE_KEY_FIRST] += key && !value;
    sim->reached[SIM_ONCE_VALUE_FIRST] += value && !key;
}

/* `was` is what another key of the value led to, before this one's new record. */
static void count_taken(struct sim *sim, int taker, const struct store_row *before)
{
    for (int i = 0; i < SIM_KEYS; i++) {
        int rule = value_of(taker) * SIM_KEYS + i;
        const struct store_row *was = &before[rule], *now = &sim->shadow[rule];
        if (rule == taker || was->record.status == RECORD_ABSENT)
            continue;
        sim->reached[SIM_ONCE_TAKEN_RELEASED] +=
            record_is_released(&was->record) && now->record.status == RECORD_ABSENT;
        sim->reached[SIM_ONCE_TAKEN_FAILED] +=
            was->record.status == RECORD_FAILED && !key_is_gone(was, sim->read.now);
    }
}

void once_check(struct sim *sim, const struct store_row *before, bool forgotten)
{
    if (forgotten)
        note_forgotten(sim, before);
    for (int rule = 0; rule < SIM_RULES; rule++) {
        const struct store_row *was = &before[rule], *now = &sim->shadow[rule];
        struct value *value = &sim->values[value_of(rule)];
        bool moved = was->record.status != RECORD_ABSENT &&
                     (now->record.status == RECORD_ABSENT || now->id != was->id);
        if (moved)
            check_left(sim, rule, was, forgotten);
        if (now->record.status == RECORD_ABSENT)
            continue;
        if (now->id == value->row)
            value->record = now->record;
        count_expiry(sim, now);
        if (row_is_held(now) && now->id != was->id && now->bound == 0)
            count_taken(sim, rule, before);
    }
    for (int value = 0; value < SIM_VALUES; value++)
        check_one_holder(sim, value);
}

/* Whoever proceeds does so in the record that had the value's effect, or in another life. Its
 * process may have been stopped before it was told: what began since does not count. */
void once_acquired(struct sim *sim, struct actor *actor)
{
    const struct value *value = &sim->values[value_of(actor->rule)];
    bool forgotten = life_of(sim, actor->rule, actor->row)->forgotten;
    bool later = value->record.created_at > actor->attempt.result.store_now;
    SIM_HOLDS(sim, SIM_ONE_EFFECT,
              forgotten || later || value->row == actor->row || is_over(sim, value));
    sim->reached[SIM_ONCE_CONTINUED] += actor->attempt.result.by_once;
    sim->reached[SIM_ONCE_BOUND_OWNER] += actor->attempt.result.by_bound;
}

void once_effect(struct sim *sim, const struct flight *flight)
{
    struct value *value = &sim->values[value_of(flight->rule)];
    if (life_of(sim, flight->rule, flight->row)->forgotten)
        return;
    SIM_HOLDS(sim, SIM_ONE_EFFECT, value->row == flight->row || is_over(sim, value));
    sim->reached[SIM_ONCE_AGAIN] += value->row != 0;
    const struct store_row *row = &sim->shadow[flight->rule];
    *value = (struct value){.row = flight->row};
    if (row->id == flight->row)
        value->record = row->record;
}

void once_count(struct sim *sim, const struct actor *actor)
{
    const struct store_op *op = &actor->attempt.op;
    const struct store_result *result = &actor->attempt.result;
    bool replays = result->verdict == RECORD_REPLAY;
    bool former = op->key_hash.bytes[1] != op->own.named.bytes[1] && op->key_hash.bytes[2] == 1;
    sim->reached[SIM_ONCE_FORMER_KEY] += former && !result->by_once && !result->by_bound;
    sim->reached[SIM_ONCE_FORMER_VALUE] += former && result->by_once;
    sim->reached[SIM_ONCE_BOUND] += replays && result->by_bound;
    if (!result->by_once)
        return;
    sim->reached[SIM_ONCE_DUPLICATE] += result->verdict == RECORD_DUPLICATE;
    sim->reached[SIM_ONCE_REPLAY] += replays && !actor->attempt.once.acknowledge;
    sim->reached[SIM_ONCE_ACKED] += replays && actor->attempt.once.acknowledge;
    sim->reached[SIM_ONCE_WAITED] += op->own.waits || result->verdict == RECORD_IN_PROGRESS;
    sim->reached[SIM_ONCE_UNKNOWN] += result->verdict == RECORD_OUTCOME_UNKNOWN;
    sim->reached[SIM_ONCE_MISMATCH] += result->verdict == RECORD_MISMATCH;
}
