/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kept bodies, packed. On the committer's thread: 1 KB of JSON takes it some 10 us, 64 KiB 0.2 ms,
 * 1 MiB 4 ms (docs/decisions/0003-schema.md), and a batch takes no more outcomes once it holds 1
 * MiB of them.
 */
#include "store/sqlite.h"
#include <stdio.h>

#define PACK_LEAST 1024               /* bytes; smaller bodies gain nothing (contract section 5) */
#define KEPT_MOST ((size_t)64 * 1024) /* of the buffer, between two bodies */

static void clear_body(struct sqlite_backend *sqlite)
{
    if (sqlite->body.cap > KEPT_MOST || !buf_ok(&sqlite->body)) {
        buf_fini(&sqlite->body);
        sqlite->body = buf_make(SQLITE_BODY_MAX);
    }
    buf_clear(&sqlite->body);
}

/* Without memory it is stored as it is: an outcome must be stored. */
struct slice sqlite_pack_body(struct sqlite_backend *sqlite, struct slice body, bool *ret_packed)
{
    clear_body(sqlite);
    *ret_packed = body.len > PACK_LEAST && compress_pack(&sqlite->compress, body, &sqlite->body);
    return *ret_packed ? buf_slice(&sqlite->body) : body;
}

enum backend_status sqlite_unpack_body(struct sqlite_backend *sqlite, int64_t id,
                                       struct slice packed, struct slice *ret_body)
{
    clear_body(sqlite);
    if (compress_unpack(&sqlite->compress, packed, SQLITE_BODY_MAX, &sqlite->body)) {
        *ret_body = buf_slice(&sqlite->body);
        return BACKEND_OK;
    }
    if (!buf_ok(&sqlite->body))
        return BACKEND_NO_MEMORY;
    snprintf(sqlite->backend.problem, sizeof sqlite->backend.problem,
             "%s: the kept body of row %lld of pawl_outcome is damaged; restore a backup",
             sqlite->path, (long long)id);
    return BACKEND_FATAL;
}
