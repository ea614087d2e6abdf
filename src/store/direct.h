/* SPDX-License-Identifier: Apache-2.0 */
/*
 * direct: a store without a committer: one operation at a time, decided and saved on its caller's
 * thread before the call returns. For a backend whose transactions are its caller's
 * (sqlite/guest.h): what was saved is durable once that one commits, and not before.
 *
 * The same load, decisions and save as a batch's (committer/apply.h). Nothing waits: a begin that
 * meets a lease ends as RECORD_IN_PROGRESS. Its source is committer/direct.c.
 */
#ifndef PAWL_STORE_DIRECT_H
#define PAWL_STORE_DIRECT_H

#include "store/op.h"

struct backend;
struct direct;

/* Takes over the backend, whatever the result. NULL: no memory. */
struct direct *direct_open(struct backend *backend);
/* Accepts NULL. */
void direct_close(struct direct *direct);

/* Runs an operation, whose owner is `self`; before it at most `sweep` rows whose time is over are
 * swept. It has ended then: STORE_DONE; STORE_CONFLICT; STORE_DOWN: somebody else writes;
 * STORE_FULL, STORE_NO_MEMORY; STORE_DEAD: the database failed (direct_problem). */
void direct_run(struct direct *direct, struct store_op *op, int64_t self, size_t sweep);

/* The record on which the last operation ended, op->row; texts are valid until the next one. */
void direct_row(struct direct *direct, const struct store_op *op, struct store_row *ret_row);

/* What the last one that failed met: one line. */
const char *direct_problem(const struct direct *direct);

#endif
