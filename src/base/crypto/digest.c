/* SPDX-License-Identifier: Apache-2.0 */
/* By Nettle: as fast as OpenSSL (98 and 92 ns for 100 bytes), and loaded in a tenth of the time, as
 * every command hashes something. */
#include "base/crypto/digest.h"

#include <nettle/sha2.h>

#define BLOCK_SIZE SHA256_BLOCK_SIZE

_Static_assert(sizeof(struct sha256_ctx) <= sizeof(struct digest_stream), "the context fits");
_Static_assert(SHA256_DIGEST_SIZE == DIGEST_SIZE, "one size");

static struct sha256_ctx *context_of(struct digest_stream *stream)
{
    return (struct sha256_ctx *)stream->opaque;
}

void digest_start(struct digest_stream *stream)
{
    sha256_init(context_of(stream));
}

void digest_add(struct digest_stream *stream, struct slice part)
{
    sha256_update(context_of(stream), part.len, (const uint8_t *)part.at);
}

static void put_be64(unsigned char ret_bytes[8], uint64_t value)
{
    for (int i = 0; i < 8; i++)
        ret_bytes[i] = (unsigned char)(value >> (56 - 8 * i));
}

void digest_add_sized(struct digest_stream *stream, struct slice part)
{
    unsigned char length[8];
    put_be64(length, part.len);
    digest_add(stream, slice_make(length, sizeof length));
    digest_add(stream, part);
}

struct digest digest_end(struct digest_stream *stream)
{
    struct digest digest;
    sha256_digest(context_of(stream), sizeof digest.bytes, digest.bytes);
    memset(stream, 0, sizeof *stream);
    return digest;
}

struct digest digest_of(struct slice bytes)
{
    struct digest_stream stream;
    digest_start(&stream);
    digest_add(&stream, bytes);
    return digest_end(&stream);
}

/* RFC 2104: the secret, padded to a block, each byte with `pad`. */
static void start_padded(struct digest_stream *stream, struct slice secret, unsigned char pad)
{
    unsigned char block[BLOCK_SIZE] = {0};
    if (secret.len)
        memcpy(block, secret.at, secret.len);
    for (size_t i = 0; i < sizeof block; i++)
        block[i] ^= pad;
    digest_start(stream);
    digest_add(stream, slice_make(block, sizeof block));
}

struct digest_key digest_key_of(struct slice secret)
{
    struct digest_key key;
    struct digest short_secret;
    if (secret.len > BLOCK_SIZE) {
        short_secret = digest_of(secret);
        secret = slice_make(short_secret.bytes, sizeof short_secret.bytes);
    }
    start_padded(&key.inner, secret, 0x36);
    start_padded(&key.outer, secret, 0x5c);
    return key;
}

struct digest digest_keyed(const struct digest_key *key, const struct slice *parts, size_t n_parts)
{
    struct digest_stream inner = key->inner, outer = key->outer;
    for (size_t i = 0; i < n_parts; i++)
        digest_add_sized(&inner, parts[i]);
    struct digest digest = digest_end(&inner);
    digest_add(&outer, slice_make(digest.bytes, sizeof digest.bytes));
    return digest_end(&outer);
}

void hex_encode(const void *bytes, size_t n, char *ret_text)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *from = bytes;
    for (size_t i = 0; i < n; i++) {
        ret_text[2 * i] = digits[from[i] >> 4];
        ret_text[2 * i + 1] = digits[from[i] & 15];
    }
    ret_text[2 * n] = '\0';
}

bool hex_decode(struct slice text, void *ret_bytes, size_t n)
{
    unsigned char *to = ret_bytes;
    if (text.len % 2 != 0 || text.len / 2 != n)
        return false;
    for (size_t i = 0; i < text.len; i++)
        if (hex_digit(text.at[i]) < 0)
            return false;
    for (size_t i = 0; i < n; i++)
        to[i] = (unsigned char)(hex_digit(text.at[2 * i]) << 4 | hex_digit(text.at[2 * i + 1]));
    return true;
}
