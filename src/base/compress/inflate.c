/* SPDX-License-Identifier: Apache-2.0 */
#include "base/compress/inflate.h"
#include "base/check.h"
#include "base/mem.h"

#define ZLIB_CONST
#include <zlib.h>

#define WINDOW_GZIP (15 + 16)
#define WINDOW_ZLIB 15
#define WINDOW_RAW (-15)
#define INPUT_PIECE ((size_t)1 << 30) /* zlib counts in unsigned int */
#define OUTPUT_PIECE ((size_t)16 * 1024)

struct decoder {
    z_stream z;
    struct slice in; /* not yet given to zlib */
    size_t left;     /* output bytes that are still allowed */
    struct buf *out;
    bool several; /* another member may follow the end of one */
};

static void *zlib_alloc(void *unused, unsigned count, unsigned size)
{
    (void)unused;
    return mem_zalloc(count, size);
}

static void zlib_free(void *unused, void *at)
{
    (void)unused;
    mem_free(at);
}

static void feed_decoder(struct decoder *decoder)
{
    size_t n = decoder->in.len < INPUT_PIECE ? decoder->in.len : INPUT_PIECE;
    if (decoder->z.avail_in > 0 || n == 0)
        return;
    decoder->z.next_in = (const Bytef *)decoder->in.at;
    decoder->z.avail_in = (uInt)n;
    decoder->in = slice_skip(decoder->in, n);
}

static enum inflate_result inflate_result_of(int rc)
{
    switch (rc) {
    case Z_OK:
    case Z_STREAM_END:
        return INFLATE_OK;
    case Z_MEM_ERROR:
        return INFLATE_NO_MEMORY;
    default: /* Z_BUF_ERROR too: there was room, so what lacked was input */
        return INFLATE_BROKEN;
    }
}

/* One call of inflate(). A spare byte stands in for the room when none is left, to tell an end
 * exactly at the limit from an output that goes on. */
static enum inflate_result inflate_step(struct decoder *decoder, int *ret_rc)
{
    char spare;
    size_t n = decoder->left < OUTPUT_PIECE ? decoder->left : OUTPUT_PIECE;
    char *room = n ? buf_room(decoder->out, n) : &spare;
    if (!room)
        return decoder->out->too_large ? INFLATE_TOO_LARGE : INFLATE_NO_MEMORY;
    feed_decoder(decoder);
    decoder->z.next_out = (Bytef *)room;
    decoder->z.avail_out = n ? (uInt)n : 1;
    int rc = inflate(&decoder->z, Z_NO_FLUSH);
    size_t got = (n ? n : 1) - decoder->z.avail_out;
    if (n == 0 && got > 0)
        return INFLATE_TOO_LARGE;
    buf_added(decoder->out, got);
    decoder->left -= got;
    *ret_rc = rc;
    return inflate_result_of(rc);
}

static enum inflate_result decode_all(struct decoder *decoder)
{
    for (;;) {
        int rc = Z_OK;
        enum inflate_result result = inflate_step(decoder, &rc);
        if (result != INFLATE_OK)
            return result;
        if (rc != Z_STREAM_END)
            continue;
        if (decoder->z.avail_in == 0 && decoder->in.len == 0)
            return INFLATE_OK;
        if (!decoder->several)
            return INFLATE_BROKEN;
        CHECK(inflateReset(&decoder->z) == Z_OK);
    }
}

/* RFC 1950 2.2: method 8, window at most 32 KiB, check bits. No encoder begins a raw stream so: it
 * would be a stored block with padding that is not zero. */
static bool is_zlib(struct slice in)
{
    if (in.len < 2)
        return false;
    unsigned cmf = (unsigned char)in.at[0];
    unsigned flg = (unsigned char)in.at[1];
    return (cmf & 15) == 8 && cmf >> 4 <= 7 && (cmf << 8 | flg) % 31 == 0;
}

static int window_of(enum inflate_format format, struct slice in)
{
    if (format == INFLATE_GZIP)
        return WINDOW_GZIP;
    return is_zlib(in) ? WINDOW_ZLIB : WINDOW_RAW;
}

enum inflate_result inflate_decode(enum inflate_format format, struct slice in, size_t max,
                                   struct buf *out)
{
    size_t len_before = out->len;
    size_t room = out->max - out->len;
    struct decoder decoder = {.z = {.zalloc = zlib_alloc, .zfree = zlib_free},
                              .in = in,
                              .left = max < room ? max : room,
                              .out = out,
                              .several = format == INFLATE_GZIP};
    int rc = inflateInit2(&decoder.z, window_of(format, in));
    CHECK(rc == Z_OK || rc == Z_MEM_ERROR);
    if (rc != Z_OK)
        return INFLATE_NO_MEMORY;
    enum inflate_result result = decode_all(&decoder);
    inflateEnd(&decoder.z);
    if (result != INFLATE_OK)
        buf_cut(out, len_before);
    return result;
}

bool inflate_format_read(struct slice coding, enum inflate_format *ret_format)
{
    bool gzip = slice_eq_nocase(coding, SLICE("gzip")) || slice_eq_nocase(coding, SLICE("x-gzip"));
    *ret_format = gzip ? INFLATE_GZIP : INFLATE_DEFLATE;
    return gzip || slice_eq_nocase(coding, SLICE("deflate"));
}
