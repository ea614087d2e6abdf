/* SPDX-License-Identifier: Apache-2.0 */
#include "sim.h"

#include "base/mem.h"
#include <stdio.h>
#include <stdlib.h>

#define WALL_BASE (INT64_C(1700000000) * SECOND)
#define SETTLE (2 * SECOND)
#define KILL_STEP (100 * MS) /* the store tries again after as much */

/* What each needs so that an operation has its effect once: time to settle, an upstream that
 * dedupes, or one that fences (docs/model). */
const struct sim_rule sim_rules[SIM_RULES] = {
    {RECORD_UNKNOWN_HOLD, UPSTREAM_PLAIN, SETTLE, 2 * SECOND, SECOND / 2, SETTLE - 1,
     .hold = SECOND / 2},
    {RECORD_UNKNOWN_PROBE, UPSTREAM_PLAIN, SETTLE, SECOND, 0, SETTLE - 1},
    {RECORD_UNKNOWN_RETRY, UPSTREAM_DEDUPE, SETTLE, SECOND, 0, 4 * SECOND},
    {RECORD_UNKNOWN_PROBE, UPSTREAM_FENCE, 0, SECOND, SECOND, 8 * SECOND},
    {RECORD_UNKNOWN_RETRY, UPSTREAM_DEDUPE, SETTLE, 2 * SECOND, 0, SETTLE - 1, true},
    {RECORD_UNKNOWN_RETRY, UPSTREAM_DEDUPE, SETTLE, SECOND, 0, 4 * SECOND, false, true},
};

void sim_broken(const struct sim *sim, const char *file, int line, const char *belief)
{
    fprintf(stderr, "%s:%d: broken: %s\nstep %llu; run it again with SIM_SEED=%llu\n", file, line,
            belief, (unsigned long long)sim->step, (unsigned long long)sim->seed);
    abort();
}

/* ---- generator and clock ---- */

static uint64_t next_random(struct sim *sim)
{
    sim->random ^= sim->random >> 12;
    sim->random ^= sim->random << 25;
    sim->random ^= sim->random >> 27;
    return sim->random * UINT64_C(2685821657736338717);
}

uint64_t sim_below(struct sim *sim, uint64_t n)
{
    return (next_random(sim) >> 11) % n;
}

bool sim_chance(struct sim *sim, unsigned per_million)
{
    return sim_below(sim, 1000000) < per_million;
}

void sim_advance(struct sim *sim, int64_t duration)
{
    sim->boot += duration;
    clock_test_set(WALL_BASE + sim->boot - sim->wall_back, sim->boot);
}

const struct sim_rule *sim_rule(const struct sim *sim, int rule)
{
    if (sim->once)
        return &sim_once_rules[rule / SIM_KEYS];
    return sim->participant ? &sim_participant_rules[rule] : &sim_rules[rule];
}

struct digest sim_key(int rule)
{
    struct digest key = {0};
    key.bytes[0] = (unsigned char)(rule + 1);
    return key;
}

/* ---- processes ---- */

static void note_fail_stop(void *argument, const char *what)
{
    (void)what;
    ((struct proc *)argument)->stopped = true;
}

static void proc_start(struct sim *sim, size_t at)
{
    struct proc *proc = &sim->procs[at];
    struct store_config config = store_config_default();
    config.no_thread = true;
    config.role = at == 0 ? STORE_SERVE : STORE_COMMAND;
    config.sessions = sim->seed % 2 + 1;
    config.limits.max_waiting = 5;
    config.limits.max_waiting_per_key = 3;
    config.fail_stop = note_fail_stop;
    config.fail_stop_argument = proc;
    struct backend *backend = hostile_toy(sim->keeper);
    SIM_CHECK(sim, backend);
    if (!sim->loads)
        hostile_let_pair(backend);
    char *problem = NULL;
    *proc = (struct proc){.faults = hostile_faults(backend)};
    SIM_CHECK(sim, store_open_over(&config, backend, &proc->store, &problem) == STORE_OPENED);
    proc->self = backend->self.incarnation;
    proc->engine = engine_new(proc->store, 4096);
    SIM_CHECK(sim, proc->engine);
}

static struct store *open_participant(struct sim *sim)
{
    struct store_config config = store_config_default();
    struct store *store = NULL;
    char *problem = NULL;
    config.no_thread = true;
    struct backend *backend = hostile_toy(sim->keeper);
    SIM_CHECK(sim, store_open_over(&config, backend, &store, &problem) == STORE_OPENED);
    return store;
}

/* What may be committed is not taken back: it goes with the store that fails for good. */
void proc_end(struct sim *sim, size_t at, struct store_op *op)
{
    struct proc *proc = &sim->procs[at];
    if (store_op_ended(op) || store_withdraw(proc->store, op, false))
        return;
    SIM_CHECK(sim, op->own.unsure);
    while (!store_op_ended(op)) {
        atomic_store(&proc->faults->next_save, BACKEND_FATAL);
        sim_advance(sim, KILL_STEP);
        store_step(proc->store);
    }
}

/* Nothing is left queued: closing a store then does no batch, as a kill would not. */
static void proc_kill(struct sim *sim, size_t at)
{
    for (size_t i = 0; i < SIM_ACTORS; i++)
        if (sim->actors[i].proc == at)
            actor_drop(sim, i);
    operator_drop(sim, at);
    engine_free(sim->procs[at].engine);
    store_close(sim->procs[at].store);
    sim->procs[at] = (struct proc){0};
}

static bool holds(const struct sim *sim, size_t proc)
{
    for (size_t i = 0; i < SIM_ACTORS; i++)
        if (sim->actors[i].proc == proc && sim->actors[i].phase > ACTOR_BEGINNING)
            return true;
    return false;
}

bool proc_runs(const struct sim *sim, size_t proc)
{
    const struct proc *p = &sim->procs[proc];
    return p->store && !p->stopped && p->stalled_until <= sim->boot;
}

bool proc_step(struct sim *sim, size_t at)
{
    struct proc *proc = &sim->procs[at];
    struct store_row before[SIM_RULES];
    memcpy(before, sim->shadow, sizeof before);
    int fault = atomic_load(&proc->faults->next_save);
    uint64_t beats = atomic_load(&proc->faults->beats);
    bool worked = store_step(proc->store);
    proc->errors += atomic_load(&proc->faults->next_save) != fault;
    sim->reached[SIM_LOCKED] += atomic_exchange(&proc->faults->locked, 0);
    shadow_check(sim);
    if (atomic_load(&proc->faults->beats) != beats)
        shadow_beat(sim, at, before);
    shadow_count(sim, at, before);
    return worked;
}

/* ---- faults ---- */

static void fault_commit(struct sim *sim, struct proc *proc)
{
    static const struct {
        enum backend_status save;
        enum sim_rare rare;
    } kinds[] = {{BACKEND_FULL, SIM_COMMIT_FULL},
                 {BACKEND_BUSY, SIM_COMMIT_LOST},
                 {BACKEND_UNSURE, SIM_COMMIT_AMBIGUOUS}};
    size_t kind = sim_below(sim, 3);
    atomic_store(&proc->faults->next_save, kinds[kind].save);
    sim->reached[kinds[kind].rare]++;
}

static void fault_proc(struct sim *sim, size_t at)
{
    struct proc *proc = &sim->procs[at];
    if (!proc->store) {
        if (sim_chance(sim, 20000))
            proc_start(sim, at);
        return;
    }
    if (proc->stopped || sim_chance(sim, 250)) {
        sim->reached[SIM_FAIL_STOP] += proc->stopped;
        sim->reached[SIM_CRASH_HOLDING] += holds(sim, at);
        proc_kill(sim, at);
        return;
    }
    if (proc->stalled_until <= sim->boot && sim_chance(sim, 1200)) {
        proc->stalled_until = sim->boot + (int64_t)sim_below(sim, 14 * SECOND);
        sim->reached[SIM_STALL_HOLDING] += holds(sim, at);
    }
    if (sim_chance(sim, 2000))
        fault_commit(sim, proc);
    if (sim_chance(sim, 20))
        atomic_store(&proc->faults->next_save, BACKEND_FATAL);
}

/* Only steps back are played: a step forward by more than `settle` lets a lease lapse and a doubt
 * settle too early, and nothing in the store could tell. */
static void fault_clock(struct sim *sim)
{
    if (!sim_chance(sim, 100))
        return;
    sim->wall_back += (int64_t)sim_below(sim, 60 * SECOND);
    sim->reached[SIM_CLOCK_BACK]++;
}

/* ---- the run ---- */

struct sim *sim_new(const struct sim_config *config)
{
    struct sim *sim = mem_zalloc(1, sizeof *sim);
    if (!sim)
        abort();
    sim->seed = config->seed;
    sim->mutant = config->mutant;
    sim->notes = config->notes;
    sim->once = config->once;
    sim->loads = config->loads;
    sim->n_names = 1;
    sim->random = config->seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    sim->tokens = mem_zalloc(SIM_TOKENS, sizeof *sim->tokens);
    sim->keeper = hostile_toy(NULL);
    SIM_CHECK(sim, sim->tokens && sim->keeper);
    sim_advance(sim, SECOND);
    if (config->participants)
        sim->participant = open_participant(sim);
    for (size_t i = 0; i < SIM_PROCS; i++)
        proc_start(sim, i);
    shadow_check(sim);
    return sim;
}

void sim_free(struct sim *sim)
{
    for (size_t i = 0; i < SIM_PROCS; i++)
        if (sim->procs[i].store)
            proc_kill(sim, i);
    store_close(sim->participant);
    outcome_unref(sim->operator.op.writing.outcome);
    sim->keeper->ops->close(sim->keeper);
    mem_free(sim->tokens);
    mem_free(sim);
    clock_test_set(0, 0);
}

void sim_step(struct sim *sim)
{
    sim->step++;
    sim_advance(sim, (int64_t)sim_below(sim, 4 * MS));
    upstream_move(sim);
    fault_clock(sim);
    size_t proc = sim_below(sim, SIM_PROCS);
    fault_proc(sim, proc);
    if (proc_runs(sim, proc) && sim_below(sim, 3) == 0)
        proc_step(sim, proc);
    operator_move(sim);
    if (sim->once)
        once_rename(sim);
    actor_move(sim, sim_below(sim, SIM_ACTORS));
}
