/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store that goes back under gateways that live on (store/committer/back.c,
 * store/postgres/mark.c, docs/model/marks.pml): it loses the last commits at any point of a batch,
 * as by a failover to a standby that lagged or a backup put in its place, while saves fail, end
 * unsure, and processes are killed. In every fourth run that is accepted (`accept_weaker`).
 */
#include "gates.h"

#include "toy/marked.h"
#include "toy/toy.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#ifdef PAWL_SANITIZED
#define SEEDS 4
#else
#define SEEDS 12
#endif
#define STEPS UINT64_C(60000)
#define CALM_STEPS 100000

#define OPS 24
#define COPIES 4 /* of the store, of which one may take its place */
#define LEASE (2 * SECOND)
#define TTL (3 * SECOND)
#define DAY (86400 * SECOND)

#define RARES(X)                                                                                   \
    X(PROCEED, "proceeded")                                                                        \
    X(REPLAY, "replayed")                                                                          \
    X(CACHED, "replayed from the cache")                                                           \
    X(LOST, "the store went back")                                                                 \
    X(LOST_NOTHING, "of these, without anything that a living process had seen committed")         \
    X(NOTICED, "processes that noticed it")                                                        \
    X(NOTICED_LATE, "of these, after an operator had spoken")                                      \
    X(CLOSED, "stores that were closed by it")                                                     \
    X(REFUSED, "begins that were refused")                                                         \
    X(REFUSED_START, "starts that were refused")                                                   \
    X(REPLAYED_CLOSED, "replays from a store that was closed")                                     \
    X(OUTCOME_LOST, "outcomes whose record was lost")                                              \
    X(RESTORED, "operators that opened it")                                                        \
    X(AGAIN, "operations that ran again after that")                                               \
    X(WEAK, "processes that went on without")                                                      \
    X(LEAPT, "epochs that leapt over those that were lost")                                        \
    X(MOVED, "begins of another epoch")                                                            \
    X(UNSURE_LOST, "saves of which nobody knew, that were not done")                               \
    X(HELD, "marks that a stranger held")                                                          \
    X(SWEPT, "weeks that went by, or less")

enum rare {
#define X(name, text) RARE_##name,
    RARES(X)
#undef X
        RARE_COUNT
};

static const char *const rares[RARE_COUNT] = {
#define X(name, text) text,
    RARES(X)
#undef X
};

/* What a client of this process was told, of an effect. */
struct told {
    int64_t token;              /* 0: nothing */
    int64_t until;              /* store time: then it may run again */
    uint64_t restored, noticed; /* at its effect */
};

struct own {
    struct marked *marked;
    bool refused;     /* it is none that may start */
    bool lost;        /* it saw committed what is not there any more, and did not notice yet; */
    bool lacks;       /* and knows its mark, so that it must */
    int64_t known;    /* its saves up to that one: it noticed that they may be lost, */
    int64_t excused;  /* or was away for as long as marks are kept */
    uint64_t blanks;  /* struct backend_back */
    bool closed;      /* it noticed, and no operator has spoken since */
    uint64_t noticed; /* times */
    uint64_t seen;    /* sim.lost when it noticed last; 0: never */
    int64_t acked;
    int64_t epoch;      /* that its requests carry */
    int64_t most_epoch; /* that it has seen */
    struct told told[OPS];
    struct told effects[STRANDS]; /* the last one of each */
};

/* The store as it was once. */
struct copy {
    uint64_t number;
    struct toy_copy *toy;
    struct marks marks;
    struct backend *of[GATES]; /* processes, and what of theirs it has */
    int64_t written[GATES];
};

static struct {
    bool weak;
    struct marks marks;
    struct copy copies[COPIES];
    uint64_t n_copies;
    struct own owns[GATES];
    uint64_t lost;     /* times that it went back */
    uint64_t restored; /* times that an operator spoke */
    uint64_t spoken;   /* both, as the last batch saw them */
} sim;

static void reach(const struct gate *gate, enum rare rare)
{
    gate->world->reached[rare]++;
}

/* ---- the store goes back ---- */

static void keep_copy(struct world *world)
{
    struct copy *copy = &sim.copies[draw(world, COPIES)];
    toy_drop(copy->toy);
    *copy =
        (struct copy){.number = ++sim.n_copies, .toy = toy_keep(world->keeper), .marks = sim.marks};
    for (size_t i = 0; i < GATES; i++) {
        if (!world->gates[i].store)
            continue;
        copy->of[i] = &sim.owns[i].marked->backend;
        copy->written[i] = sim.owns[i].marked->written;
    }
}

/* What a process has in the copy: nothing, if that is older than it. */
static bool lose_own(const struct gate *gate, const struct copy *copy)
{
    struct own *own = &sim.owns[gate->at];
    struct marked *marked = own->marked;
    bool is_there = copy->of[gate->at] == &marked->backend;
    marked->written = is_there ? copy->written[gate->at] : 0;
    bool lost = marked->acked > marked->written && marked->acked > own->known;
    own->lost |= lost;
    own->lacks |= lost && marked->acked > own->excused;
    return lost;
}

/* What came after it is of no store any more. */
static void drop_later(uint64_t number)
{
    for (size_t i = 0; i < COPIES; i++) {
        struct copy *copy = &sim.copies[i];
        if (copy->number <= number)
            continue;
        toy_drop(copy->toy);
        *copy = (struct copy){0};
    }
}

/* The last one, or any. */
static const struct copy *draw_copy(struct world *world)
{
    const struct copy *copy = &sim.copies[draw(world, COPIES)];
    for (size_t i = 0, last = draw(world, 2); i < COPIES && last; i++)
        if (sim.copies[i].number > copy->number)
            copy = &sim.copies[i];
    return copy;
}

static void go_back(struct world *world)
{
    const struct copy *copy = draw_copy(world);
    bool any = false;
    if (!copy->toy)
        return;
    toy_put_back(world->keeper, copy->toy);
    sim.marks = copy->marks;
    sim.lost++;
    drop_later(copy->number);
    for (size_t i = 0; i < GATES; i++)
        any |= world->gates[i].store && lose_own(&world->gates[i], copy);
    world_look(world);
    world->reached[any ? RARE_LOST : RARE_LOST_NOTHING]++;
}

/* ---- an operator ---- */

static void speak(struct world *world)
{
    world_restored(world);
    sim.restored++;
    for (size_t i = 0; i < GATES; i++)
        sim.owns[i].closed = false;
    world->reached[RARE_RESTORED]++;
}

/* ---- requests ---- */

/* What this process told a client does not run again through it, unless it noticed, and an operator
 * spoke or nobody has to. An owner whose acquisition was lost before it sent is like one that has
 * sent. */
static void has_effect(struct strand *strand, struct attempt *attempt, const struct errand *errand)
{
    struct world *world = strand->gate->world;
    struct own *own = &sim.owns[strand->gate->at];
    struct told *told = &own->told[errand->op];
    bool over = told->token == 0 || world->shadow.now >= told->until;
    const struct seen_row *row = seen_row(&world->shadow, attempt->result.row);
    bool is_lost = attempt->token < told->token && (!row || row->record.token != attempt->token);
    bool spoken = sim.weak ? told->noticed != own->noticed : told->restored != sim.restored;
    SIM_CHECK(world, over || spoken || is_lost);
    world->reached[RARE_AGAIN] += !over;
    *told = (struct told){0};
    own->effects[strand->at] =
        (struct told){.token = attempt->token, .restored = sim.restored, .noticed = own->noticed};
}

static void note_told(struct strand *strand, const struct attempt *attempt, int op)
{
    struct own *own = &sim.owns[strand->gate->at];
    own->told[op] = own->effects[strand->at];
    own->told[op].until = attempt->result.record.expires_at;
}

/* Who has noticed replays from its memory nothing that the store lost. */
static void check_cached(struct strand *strand, const struct attempt *attempt)
{
    struct world *world = strand->gate->world;
    const struct own *own = &sim.owns[strand->gate->at];
    reach(strand->gate, RARE_CACHED);
    world_look(world);
    SIM_CHECK(world, own->seen != sim.lost || seen_row(&world->shadow, attempt->result.row));
}

static void count_verdict(struct strand *strand, const struct attempt *attempt,
                          enum engine_verdict verdict)
{
    const struct gate *gate = strand->gate;
    bool closed = gate->world->shadow.terms.went_back_at != 0;
    bool down = verdict == ENGINE_STORE_DOWN;
    if (verdict == ENGINE_PROCEED)
        reach(gate, RARE_PROCEED);
    else if (verdict == ENGINE_REPLAY && attempt->result.decided_at == 0)
        check_cached(strand, attempt);
    else if (verdict == ENGINE_REPLAY)
        reach(gate, closed ? RARE_REPLAYED_CLOSED : RARE_REPLAY);
    else if (verdict == ENGINE_MOVED)
        reach(gate, RARE_MOVED);
    else if (down && store_closed_by(&attempt->result) == STORE_WENT_BACK)
        reach(gate, RARE_REFUSED);
}

static void request(struct strand *strand)
{
    struct gate *gate = strand->gate;
    struct world *world = gate->world;
    struct own *own = &sim.owns[gate->at];
    const struct errand errand = {.op = (int)draw(world, OPS), .has_effect = has_effect};
    char key[8];
    snprintf(key, sizeof key, "k%d", errand.op);
    struct attempt attempt = {
        .key_hash = engine_key_hash(gate->engine, SLICE(""), SLICE("pay"), slice_of(key)),
        .rule = SLICE("pay"),
        .key = slice_of(key),
        .recipe = SLICE("v"),
        .has_epoch = true,
        .epoch = own->epoch,
        .begin = {.payload_hash = {{1}},
                  .target_hash = {{2}},
                  .lease_us = LEASE,
                  .ttl_us = TTL,
                  .doubted_us = TTL,
                  .unknown = RECORD_UNKNOWN_HOLD}};
    enum engine_verdict verdict =
        engine_begin(gate->engine, &attempt, &strand->parker, world->boot + 2 * SECOND);
    if (!gate->dying)
        count_verdict(strand, &attempt, verdict);
    own->epoch = store_terms(gate->store).epoch;
    strand_told(strand, &attempt, &errand);
    if (verdict != ENGINE_PROCEED || gate->dying)
        return;
    if (strand_forwards(strand, &attempt, &errand))
        note_told(strand, &attempt, errand.op);
    else
        world->reached[RARE_OUTCOME_LOST] += attempt.result.is_lost;
    strand_told(strand, &attempt, &errand);
}

/* As the change of a rule's identity does. */
static void raise_epoch(struct strand *strand)
{
    struct store *store = strand->gate->store;
    struct terms_change change = {store_terms(store), store_terms(store)};
    change.wanted.epoch++;
    struct store_op op = {.kind = STORE_ROWS, .rows.terms = &change};
    store_run(store, &op, &strand->parker, strand->gate->world->boot + 2 * SECOND);
}

/* ---- what must hold ---- */

/* It knows of no mark of its own, or of none any more. */
static void excuse(struct own *own, int64_t up_to)
{
    own->lacks = false;
    own->excused = up_to;
    own->blanks = own->marked->backend.back.blanks;
}

static void notice(struct gate *gate)
{
    struct world *world = gate->world;
    struct own *own = &sim.owns[gate->at];
    const struct backend_back *back = &own->marked->backend.back;
    const struct terms *terms = &world->shadow.terms;
    bool late = terms->restored_at != 0 && back->seen_at < terms->restored_at;
    SIM_CHECK(world, back->times == own->noticed + 1 && own->lost);
    own->lost = false;
    own->known = own->marked->sent;
    excuse(own, own->known);
    own->noticed = back->times;
    own->seen = sim.lost;
    own->closed = !sim.weak && !late;
    reach(gate, late ? RARE_NOTICED_LATE : sim.weak ? RARE_WEAK : RARE_NOTICED);
}

/* Properties (x) and (y) of docs/model/marks.pml. */
static void check_noticed(struct gate *gate)
{
    struct world *world = gate->world;
    struct own *own = &sim.owns[gate->at];
    const struct backend_back *back = &own->marked->backend.back;
    if (back->times != own->noticed)
        notice(gate);
    else if (back->blanks != own->blanks) {
        excuse(own, own->marked->sent - 1);
        own->closed = false; /* what said so may have been lost while it was away */
    }
    SIM_CHECK(world, own->marked->acked == own->acked || !own->lacks);
    own->acked = own->marked->acked;
}

/* Nothing begins in a store that is closed, nor by who has noticed, and only an operator opens it.
 */
static void check_closed(struct gate *gate, const struct shadow *before)
{
    struct world *world = gate->world;
    const struct shadow *now = &world->shadow;
    bool spoken = sim.spoken != sim.lost + sim.restored;
    sim.spoken = sim.lost + sim.restored;
    if (spoken)
        return;
    bool was_closed = before->terms.went_back_at != 0, is_closed = now->terms.went_back_at != 0;
    SIM_CHECK(world, !was_closed || is_closed);
    SIM_CHECK(world, !is_closed || !sim.weak);
    for (size_t i = 0; i < now->n; i++) {
        const struct seen_row *row = &now->rows[i];
        if (seen_row(before, row->id))
            continue;
        SIM_CHECK(world, !was_closed);
        SIM_CHECK(world, !sim.owns[gate->at].closed);
    }
    if (was_closed || !is_closed)
        return;
    const struct backend_back *back = &sim.owns[gate->at].marked->backend.back;
    bool heard = before->terms.restored_at != 0 && back->seen_at < before->terms.restored_at;
    SIM_CHECK(world, back->times > 0 && !heard);
    reach(gate, RARE_CLOSED);
}

/* No epoch that it has seen comes again when it says that the store went back. */
static void check_epoch(struct gate *gate, const struct shadow *before)
{
    struct world *world = gate->world;
    struct own *own = &sim.owns[gate->at];
    int64_t was = before->terms.epoch, now = world->shadow.terms.epoch;
    if (now > was + 1) {
        SIM_CHECK(world, now > own->most_epoch);
        reach(gate, RARE_LEAPT);
    }
    int64_t seen = store_terms(gate->store).epoch;
    own->most_epoch = seen > own->most_epoch ? seen : own->most_epoch;
}

static void batch_done(struct gate *gate, const struct shadow *before)
{
    check_noticed(gate);
    check_closed(gate, before);
    check_epoch(gate, before);
}

/* ---- the kind ---- */

static bool is_failing(void)
{
    bool failing = false;
    for (size_t i = 0; i < GATES; i++) {
        const struct marked *marked = sim.owns[i].marked;
        failing |= marked && (marked->postgres.must_commit || marked->postgres.held_mark.by != 0);
    }
    return failing;
}

static void pass_days(struct world *world)
{
    world->reached[RARE_SWEPT]++;
    world_advance(world, (int64_t)(4 + draw(world, 5)) * DAY);
}

static void run(struct strand *strand)
{
    struct gate *gate = strand->gate;
    struct world *world = gate->world;
    SIM_CHECK(world, !sim.owns[gate->at].refused);
    strand_sleep(strand, (int64_t)draw(world, 60 * MS));
    if (gate->dying)
        return;
    uint64_t act = draw(world, 40);
    /* Who stands still for a week within a save takes a mark that was swept for a lost one. */
    if (one_in(world, 1000) && !is_failing())
        pass_days(world);
    else if (act == 0)
        raise_epoch(strand);
    else if (act < 8)
        strand_settles(strand);
    else
        request(strand);
}

static struct backend *open_backend(struct gate *gate)
{
    struct backend *hostile = hostile_over(toy_open(gate->world->keeper), 0, false);
    struct backend *marked = marked_over(hostile, &sim.marks);
    gate->faults = hostile_faults(hostile);
    bool refused = gate->world->shadow.terms.went_back_at != 0;
    sim.owns[gate->at] = (struct own){.marked = (struct marked *)marked, .refused = refused};
    gate->world->reached[RARE_REFUSED_START] += refused;
    return marked;
}

static void configure(const struct gate *gate, struct store_config *config)
{
    (void)gate;
    config->accepts_weaker = sim.weak;
}

static void killed(struct gate *gate)
{
    sim.owns[gate->at] = (struct own){.marked = NULL};
    for (size_t i = 0; i < COPIES; i++)
        sim.copies[i].of[gate->at] = NULL; /* who starts there is another one */
}

/* What becomes of its next save. */
static void fault_save(struct gate *gate)
{
    struct world *world = gate->world;
    struct marked *marked = sim.owns[gate->at].marked;
    if (one_in(world, 300)) {
        marked->loses = true;
        reach(gate, RARE_UNSURE_LOST);
    }
    if (one_in(world, 300)) {
        marked->held = true;
        reach(gate, RARE_HELD);
    }
}

/* What it may acknowledge with its next save. */
static bool found_unsure(const struct gate *gate)
{
    return gate->store && sim.owns[gate->at].marked->postgres.mark.loaded != 0;
}

static void fault(struct gate *gate)
{
    struct world *world = gate->world;
    if (one_in(world, 30))
        keep_copy(world);
    if (one_in(world, found_unsure(gate) ? 8 : 600))
        go_back(world);
    if (world->shadow.terms.went_back_at != 0 && one_in(world, 400))
        speak(world);
    if (gate->store)
        fault_save(gate);
}

static void start(struct world *world)
{
    memset(&sim, 0, sizeof sim);
    sim.weak = world->seed % 4 == 0;
}

/* Whatever was lost: once an operator has spoken, operations run. */
static void end(struct world *world)
{
    world_calm(world);
    if (world->shadow.terms.went_back_at != 0)
        speak(world);
    uint64_t proceeded = world->reached[RARE_PROCEED], last = world->step + CALM_STEPS;
    while (world->reached[RARE_PROCEED] < proceeded + OPS && world->step < last)
        world_step(world);
    SIM_CHECK(world, world->step < last);
    gate_kill(&world->gates[0]);
    for (size_t i = 0; i < COPIES; i++)
        toy_drop(sim.copies[i].toy);
}

static void who_noticed_that_the_store_went_back_begins_nothing_before_an_operator_spoke(
    void **state)
{
    static const struct world_kind kind = {.n_rares = RARE_COUNT,
                                           .rares = rares,
                                           .open = open_backend,
                                           .configure = configure,
                                           .start = start,
                                           .end = end,
                                           .run = run,
                                           .killed = killed,
                                           .fault = fault,
                                           .done = batch_done};
    (void)state;
    assert_int_equal(world_main(&kind, SEEDS, STEPS), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            who_noticed_that_the_store_went_back_begins_nothing_before_an_operator_spoke),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
