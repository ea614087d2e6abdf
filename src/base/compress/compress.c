/* SPDX-License-Identifier: Apache-2.0 */
#include "base/compress/compress.h"

#include <zstd.h>
#include <zstd_errors.h>

#define LEVEL 3

void compress_fini(struct compress *compress)
{
    ZSTD_freeCCtx(compress->packer);
    ZSTD_freeDCtx(compress->unpacker);
    *compress = (struct compress){0};
}

static ZSTD_CCtx *packer_of(struct compress *compress)
{
    if (compress->packer)
        return compress->packer;
    ZSTD_CCtx *packer = ZSTD_createCCtx();
    if (!packer || ZSTD_isError(ZSTD_CCtx_setParameter(packer, ZSTD_c_compressionLevel, LEVEL)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(packer, ZSTD_c_checksumFlag, 1))) {
        ZSTD_freeCCtx(packer);
        return NULL;
    }
    compress->packer = packer;
    return packer;
}

static ZSTD_DCtx *unpacker_of(struct compress *compress)
{
    if (!compress->unpacker)
        compress->unpacker = ZSTD_createDCtx();
    return compress->unpacker;
}

/* Takes what zstd wrote at what buf_room returned; out of memory becomes the buf's failure. */
static bool note_compressed(struct buf *out, size_t result)
{
    if (!ZSTD_isError(result)) {
        buf_added(out, result);
        return true;
    }
    if (ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation)
        out->failed = true;
    return false;
}

bool compress_pack(struct compress *compress, struct slice body, struct buf *out)
{
    if (body.len < 2)
        return false;
    /* Room for a result that is smaller, and for no other: zstd gives up at its end. */
    size_t room_len = body.len - 1;
    char *room = buf_room(out, room_len);
    ZSTD_CCtx *packer = packer_of(compress);
    if (room && !packer)
        out->failed = true;
    if (!room || !packer)
        return false;
    return note_compressed(out, ZSTD_compress2(packer, room, room_len, body.at, body.len));
}

uint64_t compress_size(struct slice packed)
{
    unsigned long long size = ZSTD_getFrameContentSize(packed.at, packed.len);
    return size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR ? 0 : size;
}

bool compress_unpack(struct compress *compress, struct slice packed, size_t max, struct buf *out)
{
    uint64_t size = compress_size(packed);
    if (size == 0 || size > max)
        return false;
    char *room = buf_room(out, (size_t)size);
    ZSTD_DCtx *unpacker = unpacker_of(compress);
    if (room && !unpacker)
        out->failed = true;
    if (!room || !unpacker)
        return false;
    return note_compressed(
        out, ZSTD_decompressDCtx(unpacker, room, (size_t)size, packed.at, packed.len));
}
