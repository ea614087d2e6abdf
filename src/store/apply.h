/* SPDX-License-Identifier: Apache-2.0 */
/* apply, for its own files: apply.c (writes, looks), apply_begin.c (begins, `once`). */
#ifndef PAWL_STORE_APPLY_H
#define PAWL_STORE_APPLY_H

#include "store/backend.h"

/* A record has changed: the counts follow. */
void apply_recount(struct apply *apply, const struct record *before, const struct record *after);

/* The next token of the store; and one that is used up. */
int64_t apply_next_token(const struct apply *apply);
void apply_use_token(struct apply *apply, int64_t token);

/* Fills in what the owner of the operation learns of the record. */
void apply_report(const struct apply *apply, struct store_op *op, const struct store_row *row);

/* The kept answer, into op->found; with too little room for it op->status says so. */
enum backend_status apply_read_outcome(struct apply *apply, struct store_op *op,
                                       const struct store_row *row);

/* A begin; see apply_op. */
enum backend_status apply_begin(struct apply *apply, struct store_op *op, bool *ret_touched);

#endif
