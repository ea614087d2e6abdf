/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store that went back: it lacks what it had acknowledged, as its backend noticed
 * (backend.back).
 *
 *      noticed: the batch is rolled back, memory does not count -> the next batch says so in the
 *      terms (went_back_at) -> every process refuses what would begin -> `pawl store restored`
 *
 * Where a weaker store is accepted, the process only counts it, and goes on under another epoch.
 */
#include "base/check.h"
#include "base/text/shell.h"
#include "base/time/timestamp.h"
#include "store/committer/state.h"
#include "store/store.h"
#include <inttypes.h>

#define COMMAND_MAX ((size_t)4096)
#define EPOCH_LEAP 1000000 /* above those that other processes may have seen */

enum store_status committer_closed(const struct committer *c, bool may_write,
                                   const struct terms *terms)
{
    if (terms->frozen)
        return STORE_FROZEN;
    if (terms->went_back_at && !c->store->config.accepts_weaker)
        return STORE_WENT_BACK;
    return may_write ? STORE_DONE : STORE_FULL;
}

void committer_note_forgets(struct committer *c, int64_t forgets)
{
    atomic_store(&c->forgets, forgets);
    atomic_store(&c->memory, backend_memory(c->backend, forgets));
}

int64_t committer_memory(const struct store *store, const struct committer *but)
{
    int64_t sum = 0;
    for (size_t i = 0; i < store->n; i++)
        if (store->committers[i] != but)
            sum += atomic_load(&store->committers[i]->memory);
    return sum;
}

void committer_note_epoch(struct committer *c, int64_t epoch)
{
    shared_raise(&c->store->epoch_seen, epoch);
}

void committer_note_back(struct committer *c)
{
    const struct backend_back *back = &c->backend->back;
    bool is_new = back->times != c->back.times;
    CHECK(back->times >= c->back.times);
    committer_note_forgets(c, atomic_load(&c->forgets));
    if (!is_new)
        return;
    mutex_lock(&c->mutex);
    c->back = *back;
    mutex_unlock(&c->mutex);
    shared_raise(&c->store->lost_up_to, back->above);
    c->backend->back.untold &= !c->backend->lacks_terms;
    c->due[DUE_TELL] = 0;
}

/* What was found twice went back to the earlier time. What an operator has spoken of meanwhile,
 * where this process had nothing to save until now, closes the store no second time. Epochs that it
 * lost are not given out again, to mean something else. */
struct terms committer_told(const struct committer *c, const struct backend_read *read)
{
    CHECK(c->backend->back.untold && c->back.times > 0);
    struct terms terms = read->terms;
    int64_t since = c->back.since > 0 ? c->back.since : 1;
    bool is_marked = terms.went_back_at != 0 || terms.restored_at != 0;
    bool is_known = terms.went_back_at == 0 && c->back.seen_at < terms.restored_at;
    int64_t seen = atomic_load(&c->store->epoch_seen);
    if (terms.epoch <= seen)
        terms.epoch = seen + EPOCH_LEAP;
    if (c->store->config.accepts_weaker)
        return terms;
    if (terms.went_back_at == 0 && !is_known)
        terms.went_back_at = read->now;
    if (!is_marked || terms.restored_since > since)
        terms.restored_since = since;
    return terms;
}

enum store_status store_closed(struct store *store)
{
    struct terms terms = store_terms(store);
    return committer_closed(store->committers[0], true, &terms);
}

void store_restored_command(struct store *store, struct buf *buf)
{
    struct terms terms = store_terms(store);
    struct store_counts counts = store_counts(store);
    int64_t since = terms.went_back_at != 0 ? terms.restored_since : counts.back_since;
    int64_t above = counts.back_above;
    for (size_t i = 0; i < store->n; i++)
        above = clock_last(above, atomic_load(&store->committers[i]->highest));
    buf_add_str(buf, "pawl store restored --since ");
    (void)timestamp_print(buf, since);
    buf_printf(buf, " --live --above %" PRId64 " --store ", above);
    shell_add_word(buf, slice_of(store_place(store)));
}

bool committer_may_go_on(const struct committer *c, char **ret_problem)
{
    struct buf text BUF_AUTO = buf_make(COMMAND_MAX);
    bool looks = c->store->config.read_only_file && c->store->config.role == STORE_COMMAND;
    if (looks || store_closed(c->store) != STORE_WENT_BACK)
        return true;
    buf_printf(&text,
               "%s: the store went back: it lacks operations that it had acknowledged since the "
               "time below. Find out which (docs/guide/runbook.md), then run `",
               store_place(c->store));
    store_restored_command(c->store, &text);
    buf_add_str(&text, "`");
    *ret_problem = buf_take(&text);
    return false;
}
