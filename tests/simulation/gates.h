/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gateways on one store: several processes, each with the real store and engine over one toy array,
 * and in each of them some strands, which call what blocks as a gateway's fibers do. One seeded
 * generator moves all of them under a virtual clock: which process does a batch, which strand goes
 * on, what fails, who is killed. Between the load and the save of a batch others may do theirs. One
 * seed always gives one run.
 *
 * What strands do, and what must hold after each batch, is a kind's: test_inquiry.c, test_moved.c,
 * test_went_back.c.
 */
#ifndef PAWL_TESTS_GATES_H
#define PAWL_TESTS_GATES_H

#include "engine/engine.h"
#include "fiber/switch.h"
#include "toy/hostile.h"

#define MS CLOCK_US_PER_MS
#define SECOND CLOCK_US_PER_S

#define GATES 3
#define STRANDS 4
#define RARES_MAX 64
#define SEEN_MAX 64
#define LIVES_MAX 4096

struct world;
struct gate;

struct strand {
    struct parker parker; /* first: the two are cast into each other */
    struct gate *gate;
    size_t at;
    struct context context;
    struct stack stack;
    bool started;
    bool busy;     /* in its errand */
    int64_t until; /* it sleeps */
};

struct gate {
    struct world *world;
    size_t at;
    struct store *store; /* NULL: it does not run */
    struct engine *engine;
    struct hostile_faults *faults;
    bool serves;  /* the kind's: it takes requests */
    bool dying;   /* nothing of it is written any more, and nobody is told anything: errands end */
    bool stopped; /* it is to be killed */
    int64_t stalled_until;
    struct strand strands[STRANDS];
};

/* A record as it is in the store. */
struct seen_row {
    int64_t id;
    struct record record;
    struct digest key_hash;
    char rule[8];
    char origin[8];
};

struct shadow {
    int64_t now;
    struct terms terms;
    size_t n;
    struct seen_row rows[SEEN_MAX]; /* by id */
};

/* What the world knows of one record: that it had its effect, and of which operation. */
struct life {
    int64_t row;
    int rule;
    int op;
};

struct world_kind {
    size_t n_rares;
    const char *const *rares;                   /* states that runs must reach */
    struct backend *(*open)(struct gate *gate); /* of a new process; sets gate->faults */
    void (*configure)(const struct gate *gate, struct store_config *config);
    void (*start)(struct world *world); /* before the first process */
    void (*end)(struct world *world);   /* behind the last step */
    void (*run)(struct strand *strand); /* one errand */
    void (*killed)(struct gate *gate);  /* its store is to be closed, or did not open */
    void (*fault)(struct gate *gate);   /* at any time, also within a batch, and
                                           where it does not run */
    void (*done)(struct gate *gate, const struct shadow *before); /* after each batch */
};

struct world {
    const struct world_kind *kind;
    uint64_t seed;
    uint64_t random;
    uint64_t step;
    int64_t boot;
    bool calm; /* nothing fails, nobody dies, and only the first gate starts */
    bool over;
    struct backend *keeper;
    struct gate gates[GATES];
    struct shadow shadow;
    struct shadow before; /* the last batch */
    struct life lives[LIVES_MAX];
    struct context context;
    uint64_t reached[RARES_MAX];
};

#define SIM_CHECK(world, belief)                                                                   \
    do {                                                                                           \
        if (!(belief))                                                                             \
            world_broken(world, __FILE__, __LINE__, #belief);                                      \
    } while (0)
_Noreturn void world_broken(const struct world *world, const char *file, int line,
                            const char *belief);

/* Runs seeds, prints how often each rare state was reached, and returns what main returns: a state
 * that never was fails the test. SIM_SEED=n runs one seed, SIM_SEEDS=n so many, SIM_STEPS=n so many
 * steps of each. */
int world_main(const struct world_kind *kind, uint64_t seeds, uint64_t steps);
void world_step(struct world *world);

uint64_t draw(struct world *world, uint64_t n);
/* Never once it is calm. */
bool one_in(struct world *world, uint64_t n);
void world_advance(struct world *world, int64_t duration);
bool gate_runs(const struct gate *gate);
void gate_kill(struct gate *gate);
/* Kills all, and nothing fails from now on. */
void world_calm(struct world *world);

/* Reads what is durable. */
void world_look(struct world *world);
/* The row of that id; NULL: there is none. */
const struct seen_row *seen_row(const struct shadow *shadow, int64_t id);
bool seen_is_absent(const struct shadow *shadow, const struct seen_row *row);

/* `pawl store restored`, by a process of its own. */
void world_restored(struct world *world);

void strand_sleep(struct strand *strand, int64_t duration);

/* ---- one operation, by a strand ---- */

/* A record had its effect. */
void note_effect(struct world *world, int64_t row, int rule, int op);
/* NULL: it had none, as far as that is remembered. */
const struct life *effect_of(const struct world *world, int64_t row);

struct errand {
    int rule, op;
    void (*has_effect)(struct strand *strand, struct attempt *attempt, const struct errand *errand);
};

/* Sends what `attempt` has acquired, or not, and stores what came of it. True: `attempt->result` is
 * of an outcome that was stored. */
bool strand_forwards(struct strand *strand, struct attempt *attempt, const struct errand *errand);
/* Gives up what was found; with a replay after a look at whose outcome it is. */
void strand_told(struct strand *strand, struct attempt *attempt, const struct errand *errand);
/* Settles a record that nobody knows the outcome of, by what the world knows of it. */
void strand_settles(struct strand *strand);

#endif
