/* SPDX-License-Identifier: Apache-2.0 */
#include "base/digest.h"
#include "base/check.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>

/* libcrypto's contexts are its own heap: where it finds no memory the process ends (CHECK), as a
 * hash has no "no answer" that a caller could act on. */

static EVP_MD_CTX *context_of(const struct digest_stream *stream)
{
    EVP_MD_CTX *context;
    memcpy(&context, stream->opaque, sizeof(context));
    return context;
}

void digest_start(struct digest_stream *stream)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    CHECK(context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1);
    memcpy(stream->opaque, &context, sizeof(context));
}

void digest_add(struct digest_stream *stream, struct slice part)
{
    CHECK(EVP_DigestUpdate(context_of(stream), part.at, part.len) == 1);
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
    digest_add(stream, slice_make(length, sizeof(length)));
    digest_add(stream, part);
}

struct digest digest_end(struct digest_stream *stream)
{
    struct digest digest;
    CHECK(EVP_DigestFinal_ex(context_of(stream), digest.bytes, NULL) == 1);
    EVP_MD_CTX_free(context_of(stream));
    memset(stream, 0, sizeof(*stream));
    return digest;
}

struct digest digest_of(struct slice bytes)
{
    struct digest digest;
    CHECK(EVP_Digest(bytes.at, bytes.len, digest.bytes, NULL, EVP_sha256(), NULL) == 1);
    return digest;
}

static void mac_part(EVP_MAC_CTX *context, struct slice part)
{
    unsigned char length[8];
    put_be64(length, part.len);
    CHECK(EVP_MAC_update(context, length, sizeof(length)) == 1);
    CHECK(EVP_MAC_update(context, (const unsigned char *)part.at, part.len) == 1);
}

struct digest digest_keyed(struct slice secret, const struct slice *parts, size_t n_parts)
{
    struct digest digest;
    size_t size = 0;
    char name[] = "SHA256";
    OSSL_PARAM options[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, name, 0),
                            OSSL_PARAM_construct_end()};
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *context = mac ? EVP_MAC_CTX_new(mac) : NULL;
    /* A NULL key would mean "the key set before": the empty secret is given as a place. */
    const void *key = secret.len ? secret.at : "";
    CHECK(context && EVP_MAC_init(context, key, secret.len, options) == 1);
    for (size_t i = 0; i < n_parts; i++)
        mac_part(context, parts[i]);
    CHECK(EVP_MAC_final(context, digest.bytes, &size, sizeof(digest.bytes)) == 1);
    CHECK(size == DIGEST_SIZE);
    EVP_MAC_CTX_free(context);
    EVP_MAC_free(mac);
    return digest;
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

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool hex_decode(struct slice text, void *ret_bytes, size_t n)
{
    unsigned char *to = ret_bytes;
    if (text.len % 2 != 0 || text.len / 2 != n)
        return false;
    for (size_t i = 0; i < text.len; i++)
        if (hex_value(text.at[i]) < 0)
            return false;
    for (size_t i = 0; i < n; i++)
        to[i] = (unsigned char)(hex_value(text.at[2 * i]) << 4 | hex_value(text.at[2 * i + 1]));
    return true;
}
