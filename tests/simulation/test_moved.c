/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the keys of a rule are made of moves (engine/identities.c, docs/model/moved.pml): gateways
 * with either identity on one store, that serve, reload and are killed in the middle of a reload.
 * In half of the runs what one identity calls an operation is the other's name of another one, and
 * no change is accepted; in the others names are apart, and some reloads accept the change.
 */
#include "gates.h"

#include "base/mem.h"
#include "core/identity.h"
#include "core/outcome.h"
#include "engine/identities.h"
#include "store/tables/identity.h"
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

#define OPS 4
#define TTL (300 * MS)
#define LEASE (2 * SECOND)
#define NOBODY (-1)

#define RARES(X)                                                                                   \
    X(PROCEED, "proceeded")                                                                        \
    X(REPLAY, "replayed")                                                                          \
    X(CACHED, "replayed from the cache")                                                           \
    X(UNKNOWN, "an outcome that nobody knows")                                                     \
    X(AGAIN, "an operation ran again, as its record had gone")                                     \
    X(LEARNED, "begins of another epoch: the store was asked again")                               \
    X(GOES_ON, "a rule that did not move began under the new epoch")                               \
    X(REFUSED, "requests by a rule that another gateway had moved")                                \
    X(REFUSED_OPEN, "requests by a rule that was about to move")                                   \
    X(INHERITED, "reloads that asked no store")                                                    \
    X(RELOADED, "reloads that were settled with the store")                                        \
    X(START, "starts that were settled with the store")                                            \
    X(REFUSED_RELOAD, "reloads that were refused, as records would be left")                       \
    X(REFUSED_START, "starts that were refused")                                                   \
    X(WRONG_DIGEST, "of them with a digest of another identity")                                   \
    X(STORE_FAILED, "changes that the store failed")                                               \
    X(TOLD, "changes that others were told of")                                                    \
    X(CHANGED, "changes that left no record")                                                      \
    X(LEAVING, "accepted changes that left records")                                               \
    X(TAKEN_BACK, "changes that were told, and taken back by who told them")                       \
    X(ENDED_FOR, "changes that were told, and ended by another one")                               \
    X(KILLED_OPEN, "killed behind the first commit of a change")

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

enum { PAY, SHIP, RULES };
enum accepts { ACCEPTS_NONE, ACCEPTS_WRONG, ACCEPTS_RIGHT };

/* Of one process. */
struct own {
    struct rule_set *set; /* in force; NULL: none yet */
    int made;             /* which of the identities of PAY */
    enum accepts accepts; /* of the config that is being settled */
};

/* What the store says of PAY: an identity, or NOBODY. */
struct in_force {
    int made;
    int becomes;
};

static struct {
    bool apart; /* names of the two identities, and changes may be accepted */
    struct own owns[GATES];
    struct in_force in_force;
    struct gate *teller;         /* of the change that is open; NULL: it was killed */
    int64_t last[RULES][OPS][2]; /* row of the last effect; [1]: of the second identity, if apart */
    struct buf texts[2];         /* the identities */
} sim;

static void reach(const struct gate *gate, enum rare rare)
{
    gate->world->reached[rare]++;
}

/* ---- configs ---- */

/* False: it does not compile. */
static bool make_rule(struct rule_set *set, size_t at, const char *match, const char *key)
{
    struct rule *rule = &set->rules[at];
    struct slice problem;
    memset(rule, 0, sizeof *rule);
    rule->name = at == PAY ? SLICE("pay") : SLICE("ship");
    rule->protect = rule->tenant_none = true;
    return rule_match_compile(slice_of(match), &set->arena, &rule->match, &problem) &&
           template_compile(slice_of(key), TEMPLATE_FOR_KEY, &set->arena, &rule->key, &problem);
}

static struct rule_set *make_set(struct world *world, int made, struct slice moved)
{
    struct rule_set *set = rule_set_new((size_t)1 << 20);
    SIM_CHECK(world, set);
    set->rules = arena_alloc(&set->arena, RULES * sizeof *set->rules);
    SIM_CHECK(world, set->rules);
    set->n = RULES;
    SIM_CHECK(world, make_rule(set, PAY, "POST /pay", made ? "{header:b}" : "{header:a}"));
    SIM_CHECK(world, make_rule(set, SHIP, "POST /ship", "{header:a}"));
    set->rules[PAY].moved = arena_copy(&set->arena, moved);
    SIM_CHECK(world, rule_set_index(set));
    return set;
}

static struct rule_set *make_config(struct world *world, int made, enum accepts accepts)
{
    char digest[IDENTITY_DIGEST_SIZE];
    identity_digest(buf_slice(&sim.texts[!made]), digest);
    return make_set(world, made,
                    accepts == ACCEPTS_RIGHT   ? slice_of(digest)
                    : accepts == ACCEPTS_WRONG ? SLICE("0badcafe")
                                               : SLICE(""));
}

static enum accepts draw_accepts(struct world *world)
{
    return world->calm ? ACCEPTS_NONE : (enum accepts)draw(world, sim.apart ? 3 : 2);
}

static bool is_refusal(const char *problem)
{
    return problem && strstr(problem, "moves its keys");
}

static void count_settled(const struct gate *gate, bool settled, const char *problem)
{
    bool moves = is_refusal(problem);
    SIM_CHECK(gate->world, settled || problem);
    reach(gate, settled        ? gate->serves ? RARE_RELOADED : RARE_START
                : !moves       ? RARE_STORE_FAILED
                : gate->serves ? RARE_REFUSED_RELOAD
                               : RARE_REFUSED_START);
    if (!settled && moves && sim.owns[gate->at].accepts == ACCEPTS_WRONG)
        reach(gate, RARE_WRONG_DIGEST);
}

/* The config of a start, or the next one. A start that is refused ends its process. Nothing is left
 * open of a change, but where the store failed. */
static void reload(struct strand *strand)
{
    struct gate *gate = strand->gate;
    struct world *world = gate->world;
    struct own *own = &sim.owns[gate->at];
    int made = world->calm && sim.in_force.made != NOBODY ? sim.in_force.made : (int)draw(world, 2);
    char *problem MEM_AUTO = NULL;
    own->accepts = draw_accepts(world);
    struct rule_set *set = make_config(world, made, own->accepts);
    bool inherits = own->set && identities_inherit(set, own->set);
    bool settled = inherits || identities_adopt(gate->store, set, &strand->parker, &problem);
    if (gate->dying) {
        rule_set_unref(set);
        return;
    }
    if (inherits)
        reach(gate, RARE_INHERITED);
    else
        count_settled(gate, settled, problem);
    SIM_CHECK(world, sim.teller != gate || (problem && !is_refusal(problem)));
    own->accepts = ACCEPTS_NONE;
    if (settled) {
        rule_set_unref(own->set);
        own->set = set;
        own->made = made;
    } else {
        rule_set_unref(set);
        gate->stopped = !gate->serves;
    }
    gate->serves |= settled;
}

/* ---- requests ---- */

/* In the same life of its record, under whatever name. */
static void has_effect(struct strand *strand, struct attempt *attempt, const struct errand *errand)
{
    struct world *world = strand->gate->world;
    bool second = sim.apart && attempt->origin.at[0] == 'B';
    int64_t *last = &sim.last[errand->rule][errand->op][second];
    world_look(world);
    SIM_CHECK(world, seen_is_absent(&world->shadow, seen_row(&world->shadow, *last)));
    world->reached[RARE_AGAIN] += *last != 0;
    *last = attempt->result.row;
}

static void count_verdict(const struct strand *strand, const struct attempt *attempt,
                          enum engine_verdict verdict)
{
    const struct gate *gate = strand->gate;
    if (verdict == ENGINE_PROCEED)
        reach(gate, RARE_PROCEED);
    else if (verdict == ENGINE_REPLAY)
        reach(gate, attempt->result.decided_at == 0 ? RARE_CACHED : RARE_REPLAY);
    else if (verdict == ENGINE_OUTCOME_UNKNOWN)
        reach(gate, RARE_UNKNOWN);
    else if (verdict == ENGINE_MOVED)
        reach(gate, RARE_LEARNED);
}

/* As gateway/exchange/decide.c does it. */
static void decide(struct strand *strand, struct rule_set *set, struct attempt *attempt,
                   const struct errand *errand)
{
    struct gate *gate = strand->gate;
    struct world *world = gate->world;
    enum engine_verdict verdict = ENGINE_MOVED;
    bool learned = false;
    while (verdict == ENGINE_MOVED && !gate->dying) {
        if (!identities_name(set, &set->rules[errand->rule], attempt)) {
            SIM_CHECK(world, errand->rule == PAY);
            reach(gate, sim.in_force.becomes == NOBODY ? RARE_REFUSED : RARE_REFUSED_OPEN);
            return;
        }
        verdict = engine_begin(gate->engine, attempt, &strand->parker, world->boot + 2 * SECOND);
        count_verdict(strand, attempt, verdict);
        if (verdict != ENGINE_MOVED)
            break;
        learned = true;
        if (identities_learn(gate->store, set, &strand->parker) != STORE_DONE)
            return;
    }
    strand_told(strand, attempt, errand);
    if (verdict != ENGINE_PROCEED || gate->dying)
        return;
    world->reached[RARE_GOES_ON] += learned && errand->rule == SHIP;
    (void)strand_forwards(strand, attempt, errand);
    strand_told(strand, attempt, errand);
}

/* The identities give each other's names, or names of their own. */
static void name_op(int made, const struct errand *errand, char *text, size_t size)
{
    int op = errand->rule == PAY && !sim.apart ? errand->op ^ made : errand->op;
    snprintf(text, size, "%s%d", sim.apart && errand->rule == PAY && made ? "b" : "a", op);
}

static void request(struct strand *strand)
{
    struct gate *gate = strand->gate;
    struct world *world = gate->world;
    const struct own *own = &sim.owns[gate->at];
    const struct errand errand = {.rule = draw(world, 4) == 0 ? SHIP : PAY,
                                  .op = (int)draw(world, OPS),
                                  .has_effect = has_effect};
    char key[8];
    name_op(own->made, &errand, key, sizeof key);
    struct rule_set *set = rule_set_ref(own->set);
    const struct rule *rule = &set->rules[errand.rule];
    struct attempt attempt = {
        .key_hash = engine_key_hash(gate->engine, SLICE(""), rule_key_space(rule), slice_of(key)),
        .rule = rule->name,
        .key = slice_of(key),
        .recipe = SLICE("v"),
        .origin = own->made ? SLICE("B") : SLICE("A"),
        .begin = {.payload_hash = {{1}},
                  .target_hash = {{2}},
                  .lease_us = LEASE,
                  .ttl_us = TTL,
                  .doubted_us = TTL,
                  .unknown = RECORD_UNKNOWN_HOLD}};
    decide(strand, set, &attempt, &errand);
    rule_set_unref(set);
}

/* ---- what must hold ---- */

static int made_of(struct world *world, struct slice text)
{
    if (text.len == 0)
        return NOBODY;
    bool second = slice_eq(text, buf_slice(&sim.texts[1]));
    SIM_CHECK(world, second || slice_eq(text, buf_slice(&sim.texts[0])));
    return second;
}

static void read_identity(void *argument, const struct table_row *row)
{
    struct world *world = argument;
    const struct store_identity *identity = (const struct store_identity *)row;
    if (!slice_eq(identity->rule, SLICE("pay")))
        return;
    sim.in_force.made = made_of(world, identity->made_of);
    sim.in_force.becomes = made_of(world, identity->becomes);
}

static size_t count_living(const struct shadow *shadow)
{
    size_t n = 0;
    for (size_t i = 0; i < shadow->n; i++)
        n += strcmp(shadow->rows[i].rule, "pay") == 0 && !seen_is_absent(shadow, &shadow->rows[i]);
    return n;
}

/* No record is left, or its rule accepts that. */
static void check_change(struct gate *gate, const struct in_force *was)
{
    const struct in_force *now = &sim.in_force;
    if (now->made == was->made || was->made == NOBODY)
        return;
    size_t living = count_living(&gate->world->shadow);
    SIM_CHECK(gate->world, living == 0 || sim.owns[gate->at].accepts == ACCEPTS_RIGHT);
    reach(gate, living == 0 ? RARE_CHANGED : RARE_LEAVING);
}

static void count_change(struct gate *gate, const struct in_force *was)
{
    const struct in_force *now = &sim.in_force;
    bool tells = was->becomes == NOBODY && now->becomes != NOBODY;
    bool ends = was->becomes != NOBODY && now->becomes == NOBODY;
    if (tells) {
        reach(gate, RARE_TOLD);
        sim.teller = gate;
    }
    if (ends && sim.teller == gate && now->made == was->made)
        reach(gate, RARE_TAKEN_BACK);
    if (ends && sim.teller != gate)
        reach(gate, RARE_ENDED_FOR);
    if (ends)
        sim.teller = NULL;
}

/* What begins is named by the identity in force, and while that is about to change nothing does. */
static void check_begun(struct gate *gate, const struct shadow *before, const struct in_force *was)
{
    const struct shadow *now = &gate->world->shadow;
    for (size_t i = 0; i < now->n; i++) {
        const struct seen_row *row = &now->rows[i];
        if (strcmp(row->rule, "pay") != 0 || seen_row(before, row->id))
            continue;
        SIM_CHECK(gate->world, was->becomes == NOBODY);
        SIM_CHECK(gate->world, was->made == (row->origin[0] == 'B'));
    }
}

static void batch_done(struct gate *gate, const struct shadow *before)
{
    struct world *world = gate->world;
    struct in_force was = sim.in_force;
    int64_t next;
    sim.in_force = (struct in_force){NOBODY, NOBODY};
    const struct table_query query = {
        .table = &identity_table, .limit = RULES, .each = read_identity, .argument = world};
    SIM_CHECK(world, world->keeper->ops->query(world->keeper, &query, 0, &next) == BACKEND_OK);
    SIM_CHECK(world, world->shadow.terms.epoch >= before->terms.epoch);
    check_begun(gate, before, &was);
    check_change(gate, &was);
    count_change(gate, &was);
}

/* ---- the kind ---- */

static void run(struct strand *strand)
{
    struct gate *gate = strand->gate;
    struct world *world = gate->world;
    bool quiet = world->boot / SECOND % 3 == 0 && !world->calm; /* then records run out */
    if (strand->at == 0) {
        strand_sleep(strand, gate->serves ? (int64_t)draw(world, SECOND) : 0);
        if (!gate->dying && !(world->calm && gate->serves))
            reload(strand);
        return;
    }
    strand_sleep(strand, (int64_t)draw(world, 60 * MS));
    if (gate->dying || !gate->serves || quiet)
        return;
    if (draw(world, 4) == 0)
        strand_settles(strand);
    else
        request(strand);
}

static struct backend *open_backend(struct gate *gate)
{
    struct backend *backend = hostile_over(toy_open(gate->world->keeper), 0, false);
    gate->faults = hostile_faults(backend);
    return backend;
}

static void configure(const struct gate *gate, struct store_config *config)
{
    (void)gate;
    (void)config;
}

static void killed(struct gate *gate)
{
    struct own *own = &sim.owns[gate->at];
    if (sim.teller == gate) {
        gate->world->reached[RARE_KILLED_OPEN] += sim.in_force.becomes != NOBODY;
        sim.teller = NULL;
    }
    rule_set_unref(own->set);
    *own = (struct own){.set = NULL};
}

/* Whoever is in the middle of a change is killed more often. */
static void fault(struct gate *gate)
{
    if (sim.teller && one_in(gate->world, 60))
        sim.teller->stopped = true;
}

static void start(struct world *world)
{
    memset(&sim, 0, sizeof sim);
    sim.apart = world->seed % 2 == 0;
    sim.in_force = (struct in_force){NOBODY, NOBODY};
    for (int made = 0; made < 2; made++) {
        struct rule_set *set = make_set(world, made, SLICE(""));
        sim.texts[made] = buf_make((size_t)1 << 16);
        identity_write(&set->rules[PAY], &sim.texts[made]);
        rule_set_unref(set);
    }
}

/* Whatever was left open: a gateway with the identity in force serves by it. */
static void end(struct world *world)
{
    world_calm(world);
    uint64_t proceeded = world->reached[RARE_PROCEED], last = world->step + CALM_STEPS;
    while (world->reached[RARE_PROCEED] < proceeded + 2 * OPS * RULES && world->step < last)
        world_step(world);
    SIM_CHECK(world, world->step < last);
    SIM_CHECK(world, sim.in_force.made == sim.owns[0].made && sim.in_force.becomes == NOBODY);
    gate_kill(&world->gates[0]);
    buf_fini(&sim.texts[0]);
    buf_fini(&sim.texts[1]);
}

static void gateways_of_two_identities_begin_by_the_one_in_force(void **state)
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
        cmocka_unit_test(gateways_of_two_identities_begin_by_the_one_in_force),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
