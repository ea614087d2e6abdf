/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fanout: from new events to tasks. In order of their row ids, so that events
 * whose transactions follow one another stay in that order; the tasks of an event and its mark are
 * one commit, or several where it has more endpoints than fit into one: what a crash left behind is
 * found by the event, and completed. Several processes may do it on one store: one of them fits.
 * Also removes events, once their time is over and no task tells them any more.
 */
#ifndef PAWL_WEBHOOK_FANOUT_H
#define PAWL_WEBHOOK_FANOUT_H

#include "webhook/endpoints/audience.h"

struct fanout {
    struct store *store;
    struct parker *parker;
    /* Of a step: asked for once its events were read, so that an endpoint which was there before an
     * event is told of it. STORE_DONE: `*ret_audience`, in the arena; empty: nobody may be told
     * now, and the events stay new. */
    enum store_status (*gather)(void *argument, struct arena *arena, struct audience *ret_audience);
    void *argument;
};

/* Makes the tasks of a page of new events. STORE_DONE: `*ret_n` of them were marked, `*ret_more`:
 * there may be more. A conflict is STORE_DONE, too: somebody else is at it. */
enum store_status fanout_step(const struct fanout *fanout, size_t *ret_n, bool *ret_more);

/* Removes a page of events, or keeps them for another day. */
enum store_status fanout_sweep(const struct fanout *fanout, bool *ret_more);

#endif
