/* SPDX-License-Identifier: Apache-2.0 */
/*
 * terms: what every batch must know of its store: of the one row that a store has (PostgreSQL:
 * pawl.store, SQLite: pawl_state), the columns that may change while processes use it.
 *
 *      load reads them -> core decides under them -> save compares them, behind its locks
 *
 * A save that begins something (backend_group.begins) carries the terms that it was decided under.
 * If the store has others by then, those groups are GROUP_CONFLICT, and are decided again under
 * these; while another session keeps a save from comparing them they are GROUP_HELD, and are
 * decided again later. What says what has happened, as the end of an attempt does, is stored
 * whatever they are, and whoever holds them.
 *
 * They are set by a STORE_ROWS operation with `terms`, in one commit with what it brings, and only
 * if they are what it expected: STORE_CONFLICT otherwise. It is alone in its batch. An
 * application's own SQLite file has none: they are all 0 there, and cannot be set
 * (backend.lacks_terms).
 *
 * Once they are set, no begin commits that was decided under earlier ones:
 *
 *  - SQLite: a batch holds the store from its load to the end of its commit.
 *  - PostgreSQL: a save that begins takes ROW EXCLUSIVE on pawl.store and then, in a statement of
 *    its own, reads the terms: a statement sees what was committed when it began, so that one which
 *    waits for the lock itself could see what was there before. It keeps the lock until its commit
 *    is over, also where its client is gone and nobody learns of it. Whoever sets them takes SHARE
 *    ROW EXCLUSIVE first, waits by that for all such saves, and lets none compare until its own
 *    commit is over. Both locks need a right to write to pawl.store: no other role can be in the
 *    way. What reads (pg_dump, an application's begin: ACCESS SHARE) and what locks the row itself
 *    (ROW SHARE) conflicts with neither. A save waits so for milliseconds, and says BACKEND_BUSY if
 *    they were too few.
 *
 * Functions that applications call in their own transactions look at `frozen` when they begin, and
 * take no lock that would last as long as those.
 */
#ifndef PAWL_STORE_TERMS_H
#define PAWL_STORE_TERMS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Columns, in order: X(name). Times are store time in microseconds, 0: none. */
#define TERMS(X)                                                                                   \
    X(frozen)         /* 1: nothing is begun, claimed or added */                                  \
    X(frozen_at)      /* since when, if a command did it; means nothing where it is not frozen */  \
    X(epoch)          /* of what identities are made of: names of other epochs mean nothing */     \
    X(roster)         /* version of what endpoints and sources there are */                        \
    X(went_back_at)   /* when it was found to have lost what it had acknowledged */                \
    X(restored_since) /* what was acknowledged from then on may be missing: */                     \
    X(restored_at)    /* since when that is known, */                                              \
    X(restored_until) /* and until when it counts; 0: for as long as each rule says */

struct terms {
#define X(name) int64_t name;
    TERMS(X)
#undef X
};

#define X(name) +1
enum { TERMS_COUNT = TERMS(X) };
#undef X

static inline bool terms_eq(const struct terms *a, const struct terms *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* What an operation sets. */
struct terms_change {
    struct terms expected;
    struct terms wanted;
    int64_t above; /* 0; or tokens that are drawn from now on are above this one */
};

#endif
