/* SPDX-License-Identifier: Apache-2.0 */
#include "gates.h"

#include "base/arena.h"
#include "base/mem.h"
#include "chance.h"
#include "operator/restored.h"
#include "toy/toy.h"
#include <stdio.h>
#include <stdlib.h>

#define WALL_BASE (INT64_C(1700000000) * SECOND)
#define KILL_STEP (100 * MS) /* the store tries again after as much */
#define LEASE (2 * SECOND)

void world_broken(const struct world *world, const char *file, int line, const char *belief)
{
    fprintf(stderr, "%s:%d: broken: %s\nstep %llu; run it again with SIM_SEED=%llu\n", file, line,
            belief, (unsigned long long)world->step, (unsigned long long)world->seed);
    abort();
}

/* ---- generator and clock ---- */

uint64_t draw(struct world *world, uint64_t n)
{
    return chance_draw(&world->random, n);
}

bool one_in(struct world *world, uint64_t n)
{
    return !world->calm && draw(world, n) == 0;
}

void world_advance(struct world *world, int64_t duration)
{
    world->boot += duration;
    clock_test_set(WALL_BASE + world->boot, world->boot);
}

/* ---- what is durable ---- */

static void copy_text(char *to, size_t size, struct slice text)
{
    snprintf(to, size, "%.*s", SLICE_ARG(text));
}

static bool keep_row(void *argument, const struct store_row *row, enum record_lease lease)
{
    struct world *world = argument;
    struct shadow *shadow = &world->shadow;
    SIM_CHECK(world, shadow->n < SEEN_MAX);
    struct seen_row *seen = &shadow->rows[shadow->n++];
    (void)lease;
    *seen = (struct seen_row){.id = row->id, .record = row->record, .key_hash = row->key_hash};
    copy_text(seen->rule, sizeof seen->rule, row->rule);
    copy_text(seen->origin, sizeof seen->origin, row->origin);
    return true;
}

void world_look(struct world *world)
{
    const struct backend_ops *ops = world->keeper->ops;
    struct arena arena ARENA_AUTO = arena_make(MS);
    struct backend_read read;
    int64_t seen = 0;
    SIM_CHECK(world, ops->load(world->keeper, NULL, 0, &arena, &read) == BACKEND_OK);
    ops->abandon(world->keeper);
    SIM_CHECK(world, read.now >= world->shadow.now);
    world->shadow.now = read.now;
    world->shadow.terms = read.terms;
    world->shadow.n = 0;
    const struct store_list list = {.most = SEEN_MAX, .each = keep_row, .argument = world};
    const struct record_world record_world = {.now = read.now};
    SIM_CHECK(world, ops->list(world->keeper, &list, &record_world, &seen) == BACKEND_OK);
    SIM_CHECK(world, seen == 0);
}

const struct seen_row *seen_row(const struct shadow *shadow, int64_t id)
{
    for (size_t i = 0; i < shadow->n; i++)
        if (shadow->rows[i].id == id)
            return &shadow->rows[i];
    return NULL;
}

bool seen_is_absent(const struct shadow *shadow, const struct seen_row *row)
{
    return !row || record_is_absent(&row->record, shadow->now);
}

/* ---- strands ---- */

static void live(void *argument)
{
    struct strand *strand = argument;
    struct world *world = strand->gate->world;
    while (!world->over) {
        strand->busy = true;
        world->kind->run(strand);
        strand->busy = false;
        strand_sleep(strand, 0);
    }
    context_leave(&strand->context, &world->context);
}

static void resume(struct strand *strand)
{
    if (!strand->started) {
        SIM_CHECK(strand->gate->world, stack_open(&strand->stack));
        context_init(&strand->context, &strand->stack, live, strand);
        strand->started = true;
    }
    context_switch(&strand->gate->world->context, &strand->context);
}

void strand_sleep(struct strand *strand, int64_t duration)
{
    struct world *world = strand->gate->world;
    strand->until = world->boot + duration;
    context_switch(&strand->context, &world->context);
    strand->until = 0;
}

static bool park(struct parker *parker, int64_t deadline_us)
{
    struct strand *strand = (struct strand *)parker;
    struct world *world = strand->gate->world;
    context_switch(&strand->context, &world->context);
    return world->boot < deadline_us;
}

static void wake(struct parker *parker)
{
    (void)parker;
}

/* ---- processes ---- */

bool gate_runs(const struct gate *gate)
{
    return gate->store && !gate->stopped && gate->stalled_until <= gate->world->boot;
}

static void note_fail_stop(void *argument, const char *what)
{
    (void)what;
    ((struct gate *)argument)->stopped = true;
}

/* One that the store refuses stays down for now. */
static void gate_start(struct gate *gate)
{
    struct world *world = gate->world;
    struct store_config config = store_config_default();
    char *problem MEM_AUTO = NULL;
    config.no_thread = true;
    config.role = gate->at == 0 ? STORE_SERVE : gate->at == 1 ? STORE_DRAINER : STORE_COMMAND;
    config.sessions = gate->world->seed % 2 + 1;
    config.fail_stop = note_fail_stop;
    config.fail_stop_argument = gate;
    world->kind->configure(gate, &config);
    gate->stopped = gate->dying = gate->serves = false;
    gate->stalled_until = 0;
    struct backend *backend = world->kind->open(gate);
    if (store_open_over(&config, backend, &gate->store, &problem) != STORE_OPENED) {
        gate->store = NULL;
        world->kind->killed(gate);
        return;
    }
    gate->engine = engine_new(gate->store, 4096);
    SIM_CHECK(world, gate->engine);
}

static void done(struct gate *gate)
{
    struct world *world = gate->world;
    world->before = world->shadow;
    world_look(world);
    world->kind->done(gate, &world->before);
}

static bool is_busy(const struct gate *gate)
{
    bool busy = false;
    for (size_t i = 0; i < STRANDS; i++)
        busy |= gate->strands[i].busy;
    return busy;
}

void gate_kill(struct gate *gate)
{
    gate->dying = true;
    while (is_busy(gate)) {
        atomic_store(&gate->faults->next_save, BACKEND_FATAL);
        world_advance(gate->world, KILL_STEP);
        store_step(gate->store);
        for (size_t i = 0; i < STRANDS; i++)
            if (gate->strands[i].busy)
                resume(&gate->strands[i]);
    }
    done(gate);
    gate->world->kind->killed(gate);
    engine_free(gate->engine);
    store_close(gate->store);
    gate->store = NULL;
    gate->engine = NULL;
}

void world_calm(struct world *world)
{
    for (size_t i = 0; i < GATES; i++)
        if (world->gates[i].store)
            gate_kill(&world->gates[i]);
    world->calm = true;
}

/* Between the load and the save of another one. */
static void meanwhile(void *argument)
{
    struct gate *gate = argument;
    struct world *world = gate->world;
    done(gate);
    world->kind->fault(gate);
    struct gate *other = &world->gates[draw(world, GATES)];
    if (other == gate || !gate_runs(other))
        return;
    store_step(other->store);
    done(other);
}

static void gate_step(struct gate *gate)
{
    struct world *world = gate->world;
    gate->faults->argument = gate;
    gate->faults->loaded = draw(world, 3) == 0 ? meanwhile : NULL;
    store_step(gate->store);
    gate->faults->loaded = NULL;
    done(gate);
}

static void fault(struct gate *gate)
{
    static const enum backend_status saves[] = {BACKEND_FULL, BACKEND_BUSY, BACKEND_UNSURE};
    struct world *world = gate->world;
    world->kind->fault(gate);
    if (!gate->store) {
        if (draw(world, 60) == 0 && (!world->calm || gate->at == 0))
            gate_start(gate);
        return;
    }
    if (gate->stopped || one_in(world, 1500)) {
        gate_kill(gate);
        return;
    }
    if (one_in(world, 3000))
        gate->stalled_until = world->boot + (int64_t)draw(world, 5 * SECOND);
    if (one_in(world, 200))
        atomic_store(&gate->faults->next_save, saves[draw(world, 3)]);
    if (one_in(world, 5000))
        atomic_store(&gate->faults->next_save, BACKEND_FATAL);
}

/* ---- one operation ---- */

/* Rows are first tokens of blocks. */
static size_t life_at(int64_t row)
{
    return (size_t)((uint64_t)row * UINT64_C(0x9e3779b97f4a7c15) >> 32) % LIVES_MAX;
}

void note_effect(struct world *world, int64_t row, int rule, int op)
{
    world->lives[life_at(row)] = (struct life){row, rule, op};
}

const struct life *effect_of(const struct world *world, int64_t row)
{
    const struct life *life = &world->lives[life_at(row)];
    return life->row == row ? life : NULL;
}

static struct outcome *outcome_of(struct world *world, int rule, int op, int64_t row)
{
    char body[48];
    snprintf(body, sizeof body, "%d %d %lld", rule, op, (long long)row);
    struct outcome *outcome = outcome_new(201, false, SLICE(""), slice_of(body));
    SIM_CHECK(world, outcome);
    return outcome;
}

/* What the service did; of an operation that it did not, it says so. */
static struct engine_act exchange(struct strand *strand, struct attempt *attempt,
                                  const struct errand *errand)
{
    struct world *world = strand->gate->world;
    struct engine_act act = {.kind = STORE_RELEASE};
    if (!engine_may_send(attempt) || draw(world, 8) == 0)
        return act;
    errand->has_effect(strand, attempt, errand);
    note_effect(world, attempt->result.row, errand->rule, errand->op);
    strand_sleep(strand, (int64_t)draw(world, 60 * MS));
    act.kind = draw(world, 12) == 0 ? STORE_DOUBT : STORE_FINISH;
    act.final = RECORD_COMPLETE;
    act.http_status = 201;
    if (act.kind == STORE_FINISH)
        act.outcome = outcome_of(world, errand->rule, errand->op, attempt->result.row);
    return act;
}

bool strand_forwards(struct strand *strand, struct attempt *attempt, const struct errand *errand)
{
    struct world *world = strand->gate->world;
    strand_sleep(strand, (int64_t)draw(world, draw(world, 30) == 0 ? 2 * LEASE : 20 * MS));
    if (strand->gate->dying)
        return false;
    struct engine *engine = strand->gate->engine;
    struct engine_act act = exchange(strand, attempt, errand);
    enum engine_written written = ENGINE_LOST;
    if (!strand->gate->dying) {
        engine_write(engine, attempt, &act, &strand->parker);
        (void)engine_wait(attempt, &strand->parker, CLOCK_NEVER);
        written = engine_written(engine, attempt);
    }
    outcome_unref(act.outcome);
    return act.kind == STORE_FINISH && written == ENGINE_STORED && !strand->gate->dying;
}

void strand_told(struct strand *strand, struct attempt *attempt, const struct errand *errand)
{
    struct outcome *found = attempt->result.found;
    int rule = -1, op = -1;
    if (found && !strand->gate->dying) {
        char body[48];
        snprintf(body, sizeof body, "%.*s", SLICE_ARG(found->body));
        SIM_CHECK(strand->gate->world, sscanf(body, "%d %d", &rule, &op) == 2);
        SIM_CHECK(strand->gate->world, rule == errand->rule && op == errand->op);
    }
    attempt_fini(attempt);
}

void strand_settles(struct strand *strand)
{
    struct world *world = strand->gate->world;
    const struct shadow *shadow = &world->shadow;
    const struct seen_row *row = shadow->n > 0 ? &shadow->rows[draw(world, shadow->n)] : NULL;
    if (!row || row->record.status != RECORD_UNKNOWN)
        return;
    const struct life *life = effect_of(world, row->id);
    struct store_op op = {.kind = life ? STORE_RESOLVE : STORE_RELEASE_SETTLED,
                          .key_hash = row->key_hash,
                          .writing.token = row->record.token,
                          .writing.http_status = 201,
                          .writing.actor = SLICE("op")};
    if (life)
        op.writing.outcome = outcome_of(world, life->rule, life->op, row->id);
    store_run(strand->gate->store, &op, &strand->parker, world->boot + 5 * SECOND);
    outcome_unref(op.result.found);
    outcome_unref(op.writing.outcome);
}

/* ---- an operator ---- */

struct own_parker {
    struct parker parker; /* first */
    struct world *world;
    struct store *store;
};

static bool park_own(struct parker *parker, int64_t deadline_us)
{
    struct own_parker *own = (struct own_parker *)parker;
    world_advance(own->world, MS);
    store_step(own->store);
    return own->world->boot < deadline_us;
}

void world_restored(struct world *world)
{
    struct store_config config = store_config_default();
    struct own_parker own = {.parker = {.park = park_own, .wake = wake}, .world = world};
    const struct store_actor actor = {.name = SLICE("op")};
    const struct restored_mark mark = {.since = 1};
    char *problem = NULL;
    bool changed = false;
    config.no_thread = true;
    config.read_only_file = true;
    struct backend *backend = hostile_over(toy_open(world->keeper), 0, false);
    hostile_let_pair(backend);
    SIM_CHECK(world, store_open_over(&config, backend, &own.store, &problem) == STORE_OPENED);
    enum store_status status = restored_set(own.store, &actor, &mark, &own.parker, &changed);
    SIM_CHECK(world, status == STORE_DONE && changed);
    store_close(own.store);
    world_look(world);
}

/* ---- the run ---- */

void world_step(struct world *world)
{
    world->step++;
    world_advance(world, (int64_t)draw(world, 4 * MS));
    struct gate *gate = &world->gates[draw(world, GATES)];
    fault(gate);
    if (gate_runs(gate) && draw(world, 2) == 0)
        gate_step(gate);
    struct strand *strand = &gate->strands[draw(world, STRANDS)];
    if (gate_runs(gate) && world->boot >= strand->until)
        resume(strand);
}

static void make_gate(struct world *world, size_t at)
{
    struct gate *gate = &world->gates[at];
    *gate = (struct gate){.world = world, .at = at};
    for (size_t i = 0; i < STRANDS; i++)
        gate->strands[i] =
            (struct strand){.parker = {.park = park, .wake = wake}, .gate = gate, .at = i};
}

static void end_gate(struct gate *gate)
{
    if (gate->store)
        gate_kill(gate);
    gate->world->over = true;
    for (size_t i = 0; i < STRANDS; i++) {
        struct strand *strand = &gate->strands[i];
        if (!strand->started)
            continue;
        resume(strand);
        context_fini(&strand->context);
        stack_close(&strand->stack);
    }
    gate->world->over = false;
}

static void run(const struct world_kind *kind, uint64_t seed, uint64_t steps, uint64_t *reached)
{
    struct world *world = mem_zalloc(1, sizeof *world);
    if (!world)
        abort();
    world->kind = kind;
    world->seed = seed;
    world->random = seed * UINT64_C(0x2545f4914f6cdd1d);
    world_advance(world, SECOND);
    world->keeper = toy_open(NULL);
    context_init_thread(&world->context);
    for (size_t i = 0; i < GATES; i++)
        make_gate(world, i);
    world_look(world);
    kind->start(world);
    while (world->step < steps)
        world_step(world);
    kind->end(world);
    for (size_t i = 0; i < GATES; i++)
        end_gate(&world->gates[i]);
    world->keeper->ops->close(world->keeper);
    for (size_t i = 0; i < kind->n_rares; i++)
        reached[i] += world->reached[i];
    mem_free(world);
    clock_test_set(0, 0);
}

static uint64_t from_environment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

int world_main(const struct world_kind *kind, uint64_t seeds, uint64_t steps)
{
    uint64_t reached[RARES_MAX] = {0};
    uint64_t first = from_environment("SIM_SEED", 1);
    uint64_t last = getenv("SIM_SEED") ? first : from_environment("SIM_SEEDS", seeds);
    int missing = 0;
    for (uint64_t seed = first; seed <= last; seed++)
        run(kind, seed, from_environment("SIM_STEPS", steps), reached);
    for (size_t i = 0; i < kind->n_rares; i++) {
        printf("%10llu  %s\n", (unsigned long long)reached[i], kind->rares[i]);
        missing += reached[i] == 0;
    }
    if (missing > 0)
        printf("%d states were never reached: the run says less than it should\n", missing);
    return missing > 0 && !getenv("SIM_SEED");
}
