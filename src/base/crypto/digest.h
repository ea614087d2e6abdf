/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256 and HMAC-SHA-256 (FIPS 180-4, RFC 2104) over Nettle, and lower-case hexadecimal.
 */
#ifndef PAWL_BASE_DIGEST_H
#define PAWL_BASE_DIGEST_H

#include "base/slice.h"

#define DIGEST_SIZE 32
#define DIGEST_HEX_SIZE 64

struct digest {
    unsigned char bytes[DIGEST_SIZE];
};

/* A running SHA-256; digest_start .. digest_add* .. digest_end. Allocates nothing; a stream that is
 * dropped before its end costs nothing. */
struct digest_stream {
    _Alignas(16) unsigned char opaque[128];
};

void digest_start(struct digest_stream *stream);
void digest_add(struct digest_stream *stream, struct slice part);
/* Adds the length of `part` as 8 bytes big-endian, then `part`: parts can never run together. */
void digest_add_sized(struct digest_stream *stream, struct slice part);
struct digest digest_end(struct digest_stream *stream);

/* SHA-256 of `bytes`. */
struct digest digest_of(struct slice bytes);

/* A secret as HMAC takes it: made once, for all that is hashed with it. */
struct digest_key {
    struct digest_stream inner, outer;
};

struct digest_key digest_key_of(struct slice secret);

/* HMAC over the parts, each after its 8-byte big-endian length. */
struct digest digest_keyed(const struct digest_key *key, const struct slice *parts, size_t n_parts);

static inline bool digest_eq(const struct digest *a, const struct digest *b)
{
    return memcmp(a->bytes, b->bytes, DIGEST_SIZE) == 0;
}

/* One of zeros stands for none. */
static inline bool digest_is_none(const struct digest *digest)
{
    static const struct digest none;
    return digest_eq(digest, &none);
}

/* Whether there are two, and they are not the same. */
static inline bool digest_differs(const struct digest *a, const struct digest *b)
{
    return !digest_eq(a, b) && !digest_is_none(a) && !digest_is_none(b);
}

/* Writes 2n lower-case hex digits and a NUL. */
void hex_encode(const void *bytes, size_t n, char *ret_text);
/* Reads exactly 2n hex digits; false for anything else. */
bool hex_decode(struct slice text, void *ret_bytes, size_t n);

#endif
