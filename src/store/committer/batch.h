/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch: the operations that are saved together.
 *
 *      read from the queue what they will look at -> load -> only then take them (while another
 *      process holds the store they stay queued and can be withdrawn) -> decide -> save -> report
 *
 * Begins that wait for a record that the batch changes decide again in it, oldest first, before
 * what came later. For committer.c alone; everything here runs on its thread.
 */
#ifndef PAWL_STORE_COMMITTER_BATCH_H
#define PAWL_STORE_COMMITTER_BATCH_H

#include "store/committer/state.h"

#define BATCH_BYTES ((size_t)1024 * 1024) /* of outcomes in one transaction */

struct batch {
    struct apply apply;
    struct op_list ops;     /* taken, in order */
    struct op_list decided; /* applied, not reported */
    struct op_list parked;  /* begins that met a live lease and have time to wait */
    struct op_list locked;  /* somebody's transaction holds what they would write */
    bool takes_none;        /* it only reads, and does what is due */
    bool refused;           /* something of it cannot be written now */
    int64_t boot;           /* when it began */
    struct backend_chores chores;
    struct backend_save save;
};

/* Loads the rows of a batch, decides its operations and saves. On anything but OK nothing was
 * saved, and the batch still owns all operations that it took. */
enum backend_status batch_run(struct committer *c, struct batch *batch);

/* After a batch is saved: ends its operations, or parks them, or queues them again, by their
 * results. */
void batch_report(struct committer *c, struct batch *batch);

/* After a batch could not be saved: queues its operations again, in order. `unsure`: it may have
 * been saved nevertheless. The second ends all of them, with whatever else is queued or waits. */
void batch_undo(struct committer *c, struct batch *batch, bool unsure);
void batch_end_dead(struct committer *c, struct batch *batch);

/* ---- steps of a batch, for assume.c ---- */

/* Decides what was taken, for as long as there are tokens. */
enum backend_status batch_decide(struct committer *c, struct batch *batch);
/* Behind a save with that result, which it returns: what was decided and not saved is taken back,
 * and nothing is known of rows any more. */
enum backend_status batch_conclude(struct committer *c, struct batch *batch,
                                   enum backend_status status);

/* ---- one operation, for committer.c, batch.c and assume.c ---- */

/* Takes it out of the queue: an outcome by row, so that rows are appended. Under the mutex. */
void batch_take_op(struct committer *c, struct batch *batch, struct op_list *outcomes,
                   struct store_op *op);
/* What counts towards BATCH_BYTES. */
size_t batch_bytes_of(const struct store_op *op);
/* Of a saved batch. A group may have become part of another one after its operation was decided. */
enum group_result batch_group_result(const struct store_op *op);

/* Queues before everything else, in their own order. Under the mutex. */
void batch_queue_front(struct committer *c, struct op_list *front);

/* Ends an operation and wakes its owner. */
void batch_end_op(struct store_op *op);

#endif
