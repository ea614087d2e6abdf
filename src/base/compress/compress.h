/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stored bodies, packed with zstd (RFC 8878): one frame that names its content size and carries a
 * checksum, so that a damaged body is never replayed.
 */
#ifndef PAWL_BASE_COMPRESS_H
#define PAWL_BASE_COMPRESS_H

#include "base/buf.h"

/* What zstd works with, kept between calls: to make it costs more than to pack a small body. All
 * zero at first; one thread's. */
struct compress {
    struct ZSTD_CCtx_s *packer;
    struct ZSTD_DCtx_s *unpacker;
};
#define COMPRESS_AUTO __attribute__((cleanup(compress_fini)))

/* Gives back what was kept; it may be used again. */
void compress_fini(struct compress *compress);

/* Appends `body` packed (level 3). False: `out` is as it was and buf_ok when packing gains not one
 * byte; it has failed when there is no memory, or no room for body.len bytes under its `max`. */
bool compress_pack(struct compress *compress, struct slice body, struct buf *out);

/* How many bytes a packed body has unpacked; 0 when it is no frame that says so. */
uint64_t compress_size(struct slice packed);

/* Appends what was packed, at most `max` bytes. False: `out` is as it was and buf_ok when `packed`
 * is damaged, is no such frame or holds more; it has failed when out of memory or of room. */
bool compress_unpack(struct compress *compress, struct slice packed, size_t max, struct buf *out);

#endif
