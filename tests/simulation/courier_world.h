/* SPDX-License-Identifier: Apache-2.0 */
/* The world of test_courier.c, which alone includes this: processes, what the receiver knows, rare
 * states, chance and time. */
#ifndef PAWL_TESTS_COURIER_WORLD_H
#define PAWL_TESTS_COURIER_WORLD_H

#include <stdio.h>
#include <stdlib.h>

#include "../toy/hostile.h"
#include "base/clock.h"
#include "chance.h"
#include "courier/courier.h"
#include "store/store.h"

#define S CLOCK_US_PER_S
#define WALL_BASE (INT64_C(1795338000) * S)
#define PROCS 2
#define INCARNATIONS 4096
#define LANES 6
#define ORDERS 5
#define TASKS 40000
#define TIMEOUT_US (10 * S)
#define CLAIM_US (3 * S)
#define SEEDS 5
#define STEPS UINT64_C(30000)
#define STEPS_LONG UINT64_C(200000)
#define CALM_STEPS 400000

#define RARES(X)                                                                                   \
    X(SUCCEEDED, "attempts that succeeded")                                                        \
    X(KILLED_BEFORE_CLAIM, "killed before a claim")                                                \
    X(KILLED_CLAIMED, "killed behind a claim")                                                     \
    X(KILLED_SENDING, "killed while it was sending")                                               \
    X(KILLED_BEFORE_END, "killed before an end was stored")                                        \
    X(TAKEN, "claims that another process had made")                                               \
    X(END_CONFLICT, "ends that met a change")                                                      \
    X(END_LATE, "ends of tasks that were somebody else's by then")                                 \
    X(STORE_DOWN, "claims while the store was down")                                               \
    X(AGAIN, "tasks sent again after their sender died")                                           \
    X(IN_ORDER, "attempts at a task that others waited behind")                                    \
    X(OPENED, "breakers that opened")                                                              \
    X(HUNG, "attempts that timed out")                                                             \
    X(UNREACHED, "attempts that reached nobody")                                                   \
    X(DEAD, "tasks that ended as dead")                                                            \
    X(RETRIED, "dead tasks that an operator retried")                                              \
    X(DROPPED, "tasks that an operator dropped")                                                   \
    X(ADDED_BEHIND, "tasks added behind one that is being sent")                                   \
    X(JUMPED, "clocks that jumped by an hour")

enum rare {
#define X(name, text) RARE_##name,
    RARES(X)
#undef X
        RARE_COUNT
};

enum mood { WELL, FAILS, HANGS, AWAY, REFUSES, MOODS };

struct process {
    struct store *store;
    struct hostile_faults *faults;
    struct courier *courier;
    struct courier_kind kind;
    const struct courier_kind *kinds[1];
    struct courier_config config;
    int64_t owner;
    bool dead;
    bool ended; /* its fiber has returned */
};

/* What the receiver knows of a task. */
struct received {
    int64_t id;
    int order;     /* 0: none */
    int64_t until; /* boot time: an attempt is under way; 0: none */
    struct process *by;
    bool has_effect;
    int64_t retried_at; /* boot time; 0: not. Less than CLAIM_US before, another one of its order
                           may have been about to be sent */
    int lost;           /* attempts whose sender was killed */
};

static struct {
    uint64_t seed;
    uint64_t random;
    int64_t boot;
    struct loop *loop;
    struct backend *keeper;
    struct process *all[INCARNATIONS]; /* zombies, too */
    int n_all;
    struct process *now[PROCS];
    struct store *adder; /* of whoever adds and retries */
    enum mood moods[LANES];
    struct received tasks[TASKS];
    int n_tasks;
    bool calm; /* nothing fails any more */
    bool over;
    uint64_t steps;
    uint64_t most_steps;
    uint64_t reached[RARE_COUNT];
} sim;

#define SIM_CHECK(condition)                                                                       \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "seed %llu, step %llu: %s (line %d)\n",                          \
                          (unsigned long long)sim.seed, (unsigned long long)sim.steps, #condition, \
                          __LINE__);                                                               \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static uint64_t draw(uint64_t n)
{
    return chance_draw(&sim.random, n);
}

static bool one_in(uint64_t n)
{
    return !sim.calm && draw(n) == 0;
}

static void reach(enum rare rare)
{
    sim.reached[rare]++;
}

static void advance(int64_t us)
{
    sim.boot += us;
    clock_test_set(WALL_BASE + sim.boot, sim.boot);
}

#endif
