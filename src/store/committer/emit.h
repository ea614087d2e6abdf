/* SPDX-License-Identifier: Apache-2.0 */
/* emit: the event that tells of an operation's success (core/emit.h), in the batch that stores it.
 */
#ifndef PAWL_STORE_EMIT_H
#define PAWL_STORE_EMIT_H

#include "store/committer/rowset.h"

/* A record that was written. */
struct emit_written {
    const struct store_op *op;
    const struct record *before; /* as the write met it */
    const struct store_row *row; /* as it is now */
    int64_t now;
};

/* Makes the event, where the record asks for one, has succeeded by this write, and none is there:
 * `*ret_change` inserts it, and lies in the rowset's arena; else NULL. */
enum backend_status emit_make(struct rowset *rows, struct backend *backend,
                              const struct emit_written *written, struct table_change **ret_change);

#endif
