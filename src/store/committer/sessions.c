/* SPDX-License-Identifier: Apache-2.0 */
#include "store/committer/sessions.h"

#include "store/committer/committer.h"
#include <stdio.h>

/* ---- how many ---- */

static size_t count_in_flight(const struct store *store, int64_t boot)
{
    size_t sum = 0;
    for (size_t i = 0; i < store->started; i++) {
        const struct committer *c = store->committers[i];
        if (boot - atomic_load(&c->measured_at) < SESSIONS_FRESH_US)
            sum += atomic_load(&c->in_flight);
    }
    return sum;
}

/* One less only well below where it was one more. */
static size_t wanted_sessions(struct store *store)
{
    size_t active = atomic_load(&store->active);
    if (store->config.sessions > 0)
        return store->n;
    store->level += count_in_flight(store, clock_boot_us()) - store->level / SESSIONS_SMOOTH;
    size_t level = store->level / SESSIONS_SMOOTH;
    if (active < store->n && level >= active * SESSIONS_OPS)
        return active + 1;
    return active > 1 && level < (active - 1) * SESSIONS_OPS / 4 * 3 ? active - 1 : active;
}

/* Starts those that are missing. */
static void follow_load(struct store *store)
{
    if (store->n == 1)
        return;
    size_t wanted = wanted_sessions(store);
    while (store->started < wanted && sessions_start(store->committers[store->started]))
        ;
    atomic_store(&store->active, wanted < store->started ? wanted : store->started);
}

/* ---- life ---- */

bool sessions_step(struct committer *c)
{
    bool worked = committer_step(c);
    if (worked && c->at == 0)
        follow_load(c->store);
    return worked;
}

static void run_committer(void *argument)
{
    struct committer *c = argument;
    while (!committer_stopped(c)) {
        committer_collect(c);
        if (!sessions_step(c))
            committer_wait(c);
    }
}

bool sessions_start(struct committer *c)
{
    char name[16];
    snprintf(name, sizeof name, c->at == 0 ? "pawl-store" : "pawl-store-%zu", c->at + 1);
    c->store->started++; /* first: its thread starts those behind it */
    if (c->store->config.no_thread)
        return true;
    c->has_thread = thread_start(&c->thread, name, run_committer, c);
    if (!c->has_thread)
        c->store->started--;
    return c->has_thread;
}

/* The first one ends first: it starts the others. */
void sessions_end(struct store *store)
{
    for (size_t i = 0; i < store->n; i++)
        committer_stop(store->committers[i]);
    for (size_t i = 0; i < store->started; i++) {
        struct committer *c = store->committers[i];
        if (c->has_thread)
            thread_join(&c->thread);
        else
            run_committer(c);
    }
    while (store->n > 0)
        committer_free(store->committers[--store->n]);
}
