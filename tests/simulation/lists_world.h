/* SPDX-License-Identifier: Apache-2.0 */
/* The world of test_lists.c, which alone includes this: rare states, what is so, chance and time.
 */
#ifndef PAWL_TESTS_LISTS_WORLD_H
#define PAWL_TESTS_LISTS_WORLD_H

#include <stdio.h>
#include <stdlib.h>

#include "../toy/hostile.h"
#include "base/clock.h"
#include "chance.h"
#include "client/queue_steps.h"
#include "courier/courier.h"
#include "lists_acts.h"
#include "store/store.h"

#define S CLOCK_US_PER_S
#define DAY (86400 * S)
#define WALL (INT64_C(1795338000) * S)
#define SEEDS 2000
#define SEEDS_LOST 500 /* in which every answer is lost */
#define STEPS 3        /* of a list */
#define TIMEOUT_US (10 * S)
#define TURNS_HOSTILE 400
#define TURNS_LOST 2500
#define TURNS_MOST 20000
#define PROCESSES 512

#define RARES(X)                                                                                   \
    X(DONE, "lists that are done")                                                                 \
    X(UNDONE, "lists that are undone")                                                             \
    X(PARTIAL, "lists that are partial")                                                           \
    X(KEPT, "lists that are kept")                                                                 \
    X(KILLED_SENDING, "killed while a step was sent")                                              \
    X(KILLED_UNDOING, "killed while an undo was sent")                                             \
    X(LOST_DONE, "answers of what was done that were lost")                                        \
    X(REFUSED_DOUBT, "refusals behind a doubt")                                                    \
    X(REFUSED_DONE, "refusals of what the service had done")                                       \
    X(DONE_BEFORE, "steps of which the service said that they were done before")                   \
    X(PARKED_STEP, "lists parked at a step")                                                       \
    X(PARKED_UNDO, "lists parked at an undo")                                                      \
    X(UNFILLED, "undos that could not be filled in")                                               \
    X(ACTED, "acts that did something")                                                            \
    X(NOT_ALLOWED, "acts that the list does not allow")                                            \
    X(NOT_WHILE_SENT, "acts on what was being sent")                                               \
    X(NOT_IN_DOUBT, "acts that wanted force")                                                      \
    X(NOT_MADE, "retries of undos that cannot be made")                                            \
    X(DROPPED, "lists dropped")                                                                    \
    X(LONG, "lists that were open for more than a week")                                           \
    X(UNSURE, "commits of which nobody knew")

enum rare {
#define X(name, text) RARE_##name,
    RARES(X)
#undef X
        RARE_COUNT
};

struct process {
    struct courier *courier;
    struct courier_kind kind;
    const struct courier_kind *kinds[1];
    bool dead;
    bool ended;
};

/* What is so, whatever the store says. */
struct truth {
    bool happened;
    bool undone;
    bool undone_by_hand;
    bool undo_sent;
};

static struct {
    uint64_t seed, random;
    int64_t boot;
    struct loop *loop;
    struct store *store;
    struct hostile_faults *faults;
    struct process *all[PROCESSES];
    int n_all;
    int64_t list;
    struct truth steps[STEPS];
    bool dedupes, says, speaks; /* the service; the list; its responses */
    bool has_undo[STEPS];
    bool loses; /* every answer, until all is calm */
    bool calm, over;
    struct acts_seen *acts;
    uint64_t reached[RARE_COUNT];
} sim;

#define SIM_CHECK(condition)                                                                       \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "seed %llu: %s (line %d)\n", (unsigned long long)sim.seed,       \
                          #condition, __LINE__);                                                   \
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
    clock_test_set(WALL + sim.boot, sim.boot);
}

#endif
