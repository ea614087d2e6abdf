/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mac: what others sign messages with, over libcrypto: HMAC (RFC 2104) with SHA-1, SHA-256 or
 * SHA-512, and Ed25519 (RFC 8032). Of messages in parts, which are not copied for an HMAC.
 */
#ifndef PAWL_BASE_MAC_H
#define PAWL_BASE_MAC_H

#include "base/slice.h"

#define MAC_SIZE_MAX 64
#define ED25519_KEY_SIZE 32 /* of a seed, and of a public key */
#define ED25519_SIZE 64     /* of a signature */

enum mac_hash { MAC_SHA1, MAC_SHA256, MAC_SHA512 };

struct mac {
    unsigned char bytes[MAC_SIZE_MAX];
    size_t len;
};

/* Loads libcrypto, which the first call of the others does else. NULL, or what is wrong. */
const char *mac_load(void);

/* False: no memory, or no libcrypto; so are the others. */
bool mac_of(enum mac_hash hash, struct slice key, const struct slice *parts, size_t n_parts,
            struct mac *ret_mac);

/* Whether the bytes are the same; takes as long for any that are as many. */
bool mac_eq(const struct mac *mac, struct slice bytes);

/* The public key of a seed; both ED25519_KEY_SIZE bytes. */
bool ed25519_public(struct slice seed, unsigned char ret_key[ED25519_KEY_SIZE]);

/* By the seed's private key. */
bool ed25519_sign(struct slice seed, struct slice message,
                  unsigned char ret_signature[ED25519_SIZE]);

/* Whether it is a signature of the message by that key; false, too, where it is none at all. */
bool ed25519_verify(struct slice public_key, struct slice message, struct slice signature);

#endif
