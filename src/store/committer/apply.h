/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apply: one operation on what its batch has loaded: core decides, the rowset keeps what changed.
 * The same code for every backend, so that no backend decides. apply.c (writes, looks),
 * apply_begin.c (begins, `once`), emit.c (the event of a success).
 */
#ifndef PAWL_STORE_APPLY_H
#define PAWL_STORE_APPLY_H

#include "store/committer/rowset.h"

/* What a batch is applied with. */
struct apply {
    struct backend *backend;
    struct rowset *rows;
    struct backend_read read;
    int64_t drawn;                   /* tokens of its block */
    const struct terms_change *sets; /* what the terms are to be from now on; NULL: as they are */
    struct record_world world;
    int64_t boot;   /* boot time, read before world.now */
    bool may_write; /* false: begins that would write are refused (disk reserve, outcomes wait) */
    enum store_status closed; /* what a begin ends as that would write; STORE_DONE: none does */
    int64_t others_memory;    /* committer_memory, before the load */
    int64_t lost_up_to;       /* owners up to that token may hold what the store lost */
    bool lags; /* the last operation changed nothing, for want of a token above its record's */
};

/* What core gets to know of what was read: `self` is the incarnation that decides. */
static inline void apply_set_world(struct apply *apply, int64_t self)
{
    const struct terms *terms = &apply->read.terms;
    apply->world = (struct record_world){.now = apply->read.now,
                                         .self = self,
                                         .restored_at = terms->restored_at,
                                         .restored_until = terms->restored_until};
}

/* Whether there are tokens for one more operation. */
bool apply_may_go_on(const struct apply *apply, const struct store_op *op);

/* Applies one operation, all of whose names are known to the rowset. Fills in the results of `op`.
 * `*ret_touched`: its record changed, so that begins that wait for its key decide again. */
enum backend_status apply_op(struct apply *apply, struct store_op *op, bool *ret_touched);

/* ---- for apply_begin.c ---- */

/* The next token of the store, one that is used up, and the first as the second. A record's first
 * token is its row id; what has no token of its own (acts, bound keys) takes one for an id. */
int64_t apply_next_token(const struct apply *apply);
void apply_use_token(struct apply *apply, int64_t token);
int64_t apply_take_token(struct apply *apply);

/* What to decide on a record with: the next token or, where that one is not above the record's,
 * one that is for nobody. An operation that acquired the record with that one changes nothing:
 * `lags`. */
int64_t apply_token_above(const struct apply *apply, const struct record *record);
bool apply_note_lag(struct apply *apply, const struct record *before, const struct record *after);

/* What the operation brings is saved with what else it changes. */
void apply_bring(struct apply *apply, const struct store_op *op);

/* Writes who did what to a record, beside it. `before` is the record that the act met; `row` names
 * it, and holds it as it is now. */
void apply_audit(struct apply *apply, struct store_op *op, const struct record *before,
                 const struct store_row *row);

/* Fills in what the owner of the operation learns of the record. */
void apply_report(const struct apply *apply, struct store_op *op, const struct store_row *row);

/* The kept outcome, into op->found; with too little room for it op->status says so. */
enum backend_status apply_read_outcome(struct apply *apply, struct store_op *op,
                                       const struct store_row *row);

/* A begin; see apply_op. */
enum backend_status apply_begin(struct apply *apply, struct store_op *op, bool *ret_touched);

#endif
