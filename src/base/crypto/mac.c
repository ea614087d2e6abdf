/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crypto/mac.h"

#include "base/check.h"
#include "base/crypto/openssl.h"

const char *mac_load(void)
{
    return openssl_load();
}

static const EVP_MD *md_of(enum mac_hash hash)
{
    return hash == MAC_SHA1 ? EVP_sha1() : hash == MAC_SHA256 ? EVP_sha256() : EVP_sha512();
}

bool mac_of(enum mac_hash hash, struct slice key, const struct slice *parts, size_t n_parts,
            struct mac *ret_mac)
{
    unsigned len = 0;
    CHECK(key.len <= INT32_MAX);
    if (openssl_load())
        return false;
    HMAC_CTX *context = HMAC_CTX_new();
    /* A key of no bytes is one, but NULL is not. */
    bool good = context && HMAC_Init_ex(context, key.len > 0 ? key.at : "", (int)key.len,
                                        md_of(hash), NULL) == 1;
    for (size_t i = 0; i < n_parts && good; i++)
        good = HMAC_Update(context, (const unsigned char *)parts[i].at, parts[i].len) == 1;
    good = good && HMAC_Final(context, ret_mac->bytes, &len) == 1;
    ret_mac->len = len;
    HMAC_CTX_free(context);
    return good;
}

bool mac_eq(const struct mac *mac, struct slice bytes)
{
    CHECK(!openssl_load());
    return mac->len == bytes.len && CRYPTO_memcmp(mac->bytes, bytes.at, bytes.len) == 0;
}

bool ed25519_public(struct slice seed, unsigned char ret_key[ED25519_KEY_SIZE])
{
    size_t len = ED25519_KEY_SIZE;
    CHECK(seed.len == ED25519_KEY_SIZE);
    if (openssl_load())
        return false;
    EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL,
                                                 (const unsigned char *)seed.at, seed.len);
    bool good = key && EVP_PKEY_get_raw_public_key(key, ret_key, &len) == 1;
    EVP_PKEY_free(key);
    return good;
}

bool ed25519_sign(struct slice seed, struct slice message,
                  unsigned char ret_signature[ED25519_SIZE])
{
    size_t len = ED25519_SIZE;
    CHECK(seed.len == ED25519_KEY_SIZE);
    if (openssl_load())
        return false;
    EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL,
                                                 (const unsigned char *)seed.at, seed.len);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool good = key && context && EVP_DigestSignInit(context, NULL, NULL, NULL, key) == 1 &&
                EVP_DigestSign(context, ret_signature, &len, (const unsigned char *)message.at,
                               message.len) == 1;
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(key);
    return good;
}

bool ed25519_verify(struct slice public_key, struct slice message, struct slice signature)
{
    CHECK(public_key.len == ED25519_KEY_SIZE);
    if (signature.len != ED25519_SIZE || openssl_load())
        return false;
    EVP_PKEY *key = EVP_PKEY_new_raw_public_key(
        EVP_PKEY_ED25519, NULL, (const unsigned char *)public_key.at, public_key.len);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool good = key && context && EVP_DigestVerifyInit(context, NULL, NULL, NULL, key) == 1 &&
                EVP_DigestVerify(context, (const unsigned char *)signature.at, signature.len,
                                 (const unsigned char *)message.at, message.len) == 1;
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(key);
    return good;
}
