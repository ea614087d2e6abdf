/* SPDX-License-Identifier: Apache-2.0 */
#include "base/compress.h"

#include <zstd.h>
#include <zstd_errors.h>

#define LEVEL 3

static void free_packer(ZSTD_CCtx **packer)
{
    ZSTD_freeCCtx(*packer);
}

/* Takes what zstd wrote at buf_room's place; out of memory becomes the buf's failure. */
static bool take(struct buf *out, size_t result)
{
    if (!ZSTD_isError(result)) {
        buf_added(out, result);
        return true;
    }
    if (ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation)
        out->failed = true;
    return false;
}

bool compress_pack(struct slice body, struct buf *out)
{
    if (body.len < 2)
        return false;
    /* Room for a result that is smaller, and for no other: zstd gives up at its end. */
    size_t room_len = body.len - 1;
    char *room = buf_room(out, room_len);
    if (!room)
        return false;
    __attribute__((cleanup(free_packer))) ZSTD_CCtx *packer = ZSTD_createCCtx();
    if (!packer || ZSTD_isError(ZSTD_CCtx_setParameter(packer, ZSTD_c_compressionLevel, LEVEL)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(packer, ZSTD_c_checksumFlag, 1))) {
        out->failed = true;
        return false;
    }
    return take(out, ZSTD_compress2(packer, room, room_len, body.at, body.len));
}

bool compress_unpack(struct slice packed, size_t max, struct buf *out)
{
    unsigned long long size = ZSTD_getFrameContentSize(packed.at, packed.len);
    if (size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR || size > max)
        return false;
    char *room = buf_room(out, (size_t)size);
    if (!room)
        return false;
    return take(out, ZSTD_decompress(room, (size_t)size, packed.at, packed.len));
}
