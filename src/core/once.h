/* SPDX-License-Identifier: Apache-2.0 */
/*
 * once: a second identity of one route (contract section 3, `once:`), and what is decided by it.
 *
 * A value is held by at most one record, the last that proceeded with it. A client's key is decided
 * first, on its own record (core/record.h). Only where that one is absent is the holder of the
 * value looked at, in the same step:
 *
 *      key 0 --.                      complete: duplicate, or the first response, and the key is
 * bound key 1 ----> record <-- value   running: wait        unknown: as for its own key (bound)
 * surely not done, failed: the value changes hands
 *
 * Pure, as core/record.h. Model-checked: docs/model/once.pml.
 */
#ifndef PAWL_CORE_ONCE_H
#define PAWL_CORE_ONCE_H

#include "core/record.h"

struct once_question {
    const struct record_begin *begin;
    const struct record_world *world;
    int64_t next_token;
    bool same;           /* its hashes are the holder's, or do not count */
    bool recipe_differs; /* `same` is not known: the holder was hashed by another recipe */
    bool reject;         /* what is complete is replayed to nobody */
    bool key_lives;      /* its key has a record, which takes the value: no life starts */
};

enum once_act {
    ONCE_NOTHING,  /* the verdict is all */
    ONCE_TAKE,     /* a new record holds the value; the holder stays for its keys */
    ONCE_REPLACE,  /* a new record holds the value; the holder ends under all its names */
    ONCE_CONTINUE, /* the holder was acquired: the key is bound to it */
    ONCE_BIND,     /* the holder's response may be replayed: the key is bound to it before */
};

struct once_decision {
    enum once_act act;
    enum record_verdict verdict; /* of TAKE and REPLACE: none yet */
    bool changed;                /* the holder must be stored */
};

/* The table of the contract, for a holder that may be absent. Changes the holder in place. */
struct once_decision once_decide(struct record *holder, const struct once_question *question);

#endif
