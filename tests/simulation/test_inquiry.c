/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking before the first send (core/record_inquiry.c, docs/model/first.py): gateways on one store,
 * which send what a service does, somewhat later, once for each request that arrives. All of them
 * stop, a copy of the store takes its place, an operator marks it, and they start again; requests
 * of before may still arrive. Under `restored`, or, in every third run, `always`. The service,
 * which knows what it did, never does an operation twice.
 */
#include "gates.h"

#include "core/outcome.h"
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

#define OPS 4096           /* that a run may have */
#define RECENT 6           /* of which clients repeat one, */
#define OP_EACH (800 * MS) /*   and a new one comes */
#define LEASE SECOND
#define SETTLE (1500 * MS) /* within which a request arrives */
#define TTL (20 * SECOND)  /* no operation is asked for when its record may have expired */
#define FLIGHTS 64
#define COPIES 4

#define RARES(X)                                                                                   \
    X(PROCEED, "proceeded")                                                                        \
    X(REPLAY, "replayed")                                                                          \
    X(INQUIRED, "asked before the first send")                                                     \
    X(TURNED, "turned, and was sent")                                                              \
    X(KNOWN, "the service knew of it already")                                                     \
    X(EARLY, "that it was not done was not believed yet")                                          \
    X(NO_TURN, "a turn that was stale, or whose lease was over")                                   \
    X(NOTHING, "an inquiry that found out nothing")                                                \
    X(PROBED, "probed")                                                                            \
    X(RESTORED, "restored from a copy")                                                            \
    X(LOST, "operations whose records were lost by that")                                          \
    X(LATE, "requests that arrived although their owner had died")                                 \
    X(DOUBT, "ended in doubt")                                                                     \
    X(LAPSED, "inquiries that were under way when their process died")

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

/* A request on its way to the service. */
struct flight {
    int64_t arrives; /* boot time; 0: none */
    int op;
    const struct store *by;
};

static struct {
    enum record_first first;
    bool done[OPS];
    struct flight flights[FLIGHTS];
    struct toy_copy *copies[COPIES];
    bool stopping; /* all of them, for a restore */
} sim;

static void reach(const struct strand *strand, enum rare rare)
{
    strand->gate->world->reached[rare]++;
}

/* ---- the service ---- */

static void arrive(struct world *world)
{
    for (size_t i = 0; i < FLIGHTS; i++) {
        struct flight *flight = &sim.flights[i];
        if (flight->arrives == 0 || flight->arrives > world->boot)
            continue;
        SIM_CHECK(world, !sim.done[flight->op]);
        sim.done[flight->op] = true;
        bool lives = false;
        for (size_t at = 0; at < GATES; at++)
            lives |= world->gates[at].store == flight->by;
        world->reached[RARE_LATE] += !lives;
        *flight = (struct flight){0};
    }
}

static void send(struct strand *strand, int op, int64_t arrives)
{
    size_t at = 0;
    while (at < FLIGHTS && sim.flights[at].arrives != 0)
        at++;
    SIM_CHECK(strand->gate->world, at < FLIGHTS);
    sim.flights[at] = (struct flight){arrives, op, strand->gate->store};
}

static struct outcome *outcome_of(struct world *world, int op)
{
    char body[16];
    snprintf(body, sizeof body, "0 %d", op);
    struct outcome *outcome = outcome_new(201, false, SLICE(""), slice_of(body));
    SIM_CHECK(world, outcome);
    return outcome;
}

/* ---- requests ---- */

static enum engine_written write_act(struct strand *strand, struct attempt *attempt,
                                     const struct engine_act *act)
{
    struct engine *engine = strand->gate->engine;
    enum engine_written written = ENGINE_LOST;
    if (!strand->gate->dying) {
        engine_write(engine, attempt, act, &strand->parker);
        (void)engine_wait(attempt, &strand->parker, CLOCK_NEVER);
        written = engine_written(engine, attempt);
    }
    outcome_unref(act->outcome);
    return written;
}

static struct engine_act finish(struct world *world, int op)
{
    return (struct engine_act){.kind = STORE_FINISH,
                               .final = RECORD_COMPLETE,
                               .http_status = 201,
                               .outcome = outcome_of(world, op)};
}

/* It waits for the response, or gives up before. */
static void forward(struct strand *strand, struct attempt *attempt, int op)
{
    struct world *world = strand->gate->world;
    strand_sleep(strand, (int64_t)draw(world, draw(world, 30) == 0 ? 2 * LEASE : 20 * MS));
    struct engine_act act = {.kind = STORE_RELEASE};
    if (!strand->gate->dying && engine_may_send(attempt) && draw(world, 8) != 0) {
        int64_t takes = (int64_t)draw(world, draw(world, 4) == 0 ? SETTLE : 40 * MS) + 1;
        send(strand, op, world->boot + takes);
        strand_sleep(strand, draw(world, 6) == 0 ? (int64_t)draw(world, (uint64_t)takes) : takes);
        act.kind = STORE_DOUBT;
        if (sim.done[op] && draw(world, 8) != 0)
            act = finish(world, op);
    }
    if (act.kind == STORE_DOUBT)
        reach(strand, RARE_DOUBT);
    (void)write_act(strand, attempt, &act);
}

/* What the service says after a while, if anything. */
static bool look(struct strand *strand, int op, bool *ret_found)
{
    struct world *world = strand->gate->world;
    strand_sleep(strand, (int64_t)draw(world, draw(world, 20) == 0 ? 2 * LEASE : 30 * MS));
    *ret_found = sim.done[op];
    strand_sleep(strand, (int64_t)draw(world, 30 * MS));
    return draw(world, 8) != 0;
}

static void probe(struct strand *strand, struct attempt *attempt, int op)
{
    bool found;
    struct engine_act act = {.kind = STORE_DOUBT};
    reach(strand, RARE_PROBED);
    if (look(strand, op, &found))
        act = found ? finish(strand->gate->world, op)
                    : (struct engine_act){.kind = STORE_RELEASE_SETTLED};
    if (write_act(strand, attempt, &act) == ENGINE_EARLY)
        (void)write_act(strand, attempt, &(struct engine_act){.kind = STORE_DOUBT});
}

static void inquire(struct strand *strand, struct attempt *attempt, int op)
{
    bool found;
    struct engine_act act = {.kind = STORE_RELEASE};
    bool says = look(strand, op, &found);
    if (says)
        act = found ? finish(strand->gate->world, op) : (struct engine_act){.kind = STORE_TURN};
    reach(strand, !says ? RARE_NOTHING : found ? RARE_KNOWN : RARE_INQUIRED);
    if (strand->gate->dying)
        reach(strand, RARE_LAPSED);
    enum engine_written written = write_act(strand, attempt, &act);
    if (act.kind != STORE_TURN)
        return;
    if (written == ENGINE_EARLY)
        reach(strand, RARE_EARLY);
    else if (written == ENGINE_STALE)
        reach(strand, RARE_NO_TURN);
    if (written != ENGINE_STORED || strand->gate->dying)
        return;
    reach(strand, RARE_TURNED);
    forward(strand, attempt, op);
}

static void request(struct strand *strand)
{
    struct gate *gate = strand->gate;
    struct world *world = gate->world;
    const struct errand errand = {.op =
                                      (int)(world->boot / OP_EACH + (int64_t)draw(world, RECENT))};
    char key[16];
    SIM_CHECK(world, errand.op < OPS);
    snprintf(key, sizeof key, "k%d", errand.op);
    struct attempt attempt = {
        .key_hash = engine_key_hash(gate->engine, SLICE(""), SLICE("pay"), slice_of(key)),
        .rule = SLICE("pay"),
        .key = slice_of(key),
        .recipe = SLICE("v"),
        .begin = {.payload_hash = {{1}},
                  .target_hash = {{2}},
                  .lease_us = LEASE,
                  .settle_us = SETTLE,
                  .ttl_us = TTL,
                  .doubted_us = TTL,
                  .first = sim.first,
                  .unknown = RECORD_UNKNOWN_PROBE}};
    enum engine_verdict verdict =
        engine_begin(gate->engine, &attempt, &strand->parker, world->boot + 2 * SECOND);
    strand_told(strand, &attempt, &errand);
    if (gate->dying)
        return;
    if (verdict == ENGINE_INQUIRE)
        inquire(strand, &attempt, errand.op);
    else if (verdict == ENGINE_PROBE)
        probe(strand, &attempt, errand.op);
    else if (verdict == ENGINE_PROCEED)
        forward(strand, &attempt, errand.op);
    if (verdict == ENGINE_PROCEED)
        reach(strand, RARE_PROCEED);
    else if (verdict == ENGINE_REPLAY)
        reach(strand, RARE_REPLAY);
    strand_told(strand, &attempt, &errand);
}

static void run(struct strand *strand)
{
    strand_sleep(strand, (int64_t)draw(strand->gate->world, 60 * MS));
    if (!strand->gate->dying)
        request(strand);
}

/* ---- the store is restored ---- */

static bool all_stopped(const struct world *world)
{
    bool any = false;
    for (size_t i = 0; i < GATES; i++)
        any |= world->gates[i].store != NULL;
    return !any;
}

static void restore(struct world *world)
{
    const struct toy_copy *copy = sim.copies[draw(world, COPIES)];
    size_t before = world->shadow.n;
    sim.stopping = false;
    if (!copy)
        return;
    toy_put_back(world->keeper, copy);
    world_restored(world);
    world->reached[RARE_RESTORED]++;
    world->reached[RARE_LOST] += before > world->shadow.n;
}

static void fault(struct gate *gate)
{
    struct world *world = gate->world;
    arrive(world);
    if (one_in(world, 60)) {
        struct toy_copy **copy = &sim.copies[draw(world, COPIES)];
        toy_drop(*copy);
        *copy = toy_keep(world->keeper);
    }
    sim.stopping |= one_in(world, 2000);
    if (sim.stopping && gate->store)
        gate->stopped = true;
    if (sim.stopping && all_stopped(world))
        restore(world);
}

/* ---- the kind ---- */

static struct backend *open_backend(struct gate *gate)
{
    struct backend *backend = hostile_over(toy_open(gate->world->keeper), 0, false);
    gate->faults = hostile_faults(backend);
    return backend;
}

static void configure(const struct gate *gate, struct store_config *config)
{
    (void)gate;
    config->accepts_weaker = true; /* whoever is told of it is not what is tried here */
}

static void killed(struct gate *gate)
{
    (void)gate;
}

static void batch_done(struct gate *gate, const struct shadow *before)
{
    (void)gate;
    (void)before;
}

static void start(struct world *world)
{
    memset(&sim, 0, sizeof sim);
    sim.first = world->seed % 3 == 0 ? RECORD_FIRST_ALWAYS : RECORD_FIRST_RESTORED;
}

/* Whatever was lost: once nothing fails any more, what was asked for is done. */
static void end(struct world *world)
{
    sim.stopping = false;
    world_calm(world);
    uint64_t replayed = world->reached[RARE_REPLAY], last = world->step + CALM_STEPS;
    while (world->reached[RARE_REPLAY] < replayed + OPS / 64 && world->step < last)
        world_step(world);
    SIM_CHECK(world, world->step < last);
    gate_kill(&world->gates[0]);
    for (size_t i = 0; i < COPIES; i++)
        toy_drop(sim.copies[i]);
}

static void what_a_restored_store_lacks_is_not_done_again(void **state)
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
        cmocka_unit_test(what_a_restored_store_lacks_is_not_done_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
