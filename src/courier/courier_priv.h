/* SPDX-License-Identifier: Apache-2.0 */
/* courier, inside: courier.c takes lanes in turn, delivery.c makes one attempt, series.c knows what
 * metrics show. */
#ifndef PAWL_COURIER_COURIER_PRIV_H
#define PAWL_COURIER_COURIER_PRIV_H

#include <assert.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "courier/courier.h"
#include "courier/series.h"

#define COURIER_PAUSE_US CLOCK_US_PER_S /* before the store is asked again */
#define COURIER_ARENA_MAX ((size_t)128 * 1024 * 1024)
/* Of an end: the task, its attempts, the next one of its order, and what its kind puts. */
#define COURIER_CHANGES_MAX (4 + COURIER_FOLLOW_MAX + COURIER_OWN_MAX)
static_assert(COURIER_CHANGES_MAX <= TABLE_BRINGS_MAX, "an end is one operation");

struct delivery {
    struct courier_delivery given; /* first: the two are cast into each other */
    struct courier *courier;
    const struct courier_kind *kind;
    struct lane_attempt lane;
    struct task before; /* its claim */
    int64_t due_at;     /* boot time: when it was due; claimed */
    struct delivery *next;
};

struct courier {
    struct courier_config config;
    struct lanes *lanes;
    struct delivery *deliveries; /* under way */
    uint64_t ended;              /* deliveries, ever */
    struct buf *turns;           /* of each kind: the lane behind which its next pass begins */
    int64_t lost_at;             /* boot time: of the next look for dead owners */
    bool is_closed;              /* at the last pass: nothing is claimed */
    bool others_send;            /* or did at the last look: a claim that is not this one's */
    struct store_found paused;   /* lanes and orders, as read last */
    struct arena paused_arena;
    int64_t paused_at;               /* boot time: when to read them again */
    _Atomic(struct parker *) parker; /* of the fiber that runs it; NULL: none does */
    atomic_bool drains;
    atomic_bool is_woken; /* since the last pass began: its store took the parker's wake */
    bool store_is_dead;
    struct courier_counts counts;
    int64_t shown_at; /* boot time: when to show the lanes again */
    struct series series;
};

/* Whether this process delivers to that lane, now. */
bool courier_serves(const struct courier_kind *kind, struct slice lane);
/* Those of one lane, now. */
struct courier_limits courier_limits_of(const struct courier_kind *kind, struct slice lane);

/* ---- delivery.c ---- */

/* Begins to deliver a task that was read as due; its lane has room. `lane`: its attempt there,
 * which began. False: no memory, and nothing began. */
bool delivery_start(struct courier *courier, const struct courier_kind *kind,
                    const struct store_task *stored, struct lane_attempt lane);

/* Whether that task is being delivered here. */
bool delivery_is_under_way(const struct courier *courier, int64_t id);

/* The owner of the attempt at that task died. */
enum store_status delivery_lose(struct courier *courier, const struct courier_kind *kind,
                                const struct store_task *stored);

#endif
