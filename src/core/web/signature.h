/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signature: how the sender of a webhook signs it, and its receiver finds out that it did. Every
 * scheme is a row of one table, read both ways:
 *
 *      scheme    signature                                    signed bytes               secret
 *      standard  webhook-signature: v1,BASE64 v1a,BASE64 ...  {id}.{timestamp}.{body}    whsec_
 *      stripe    Stripe-Signature: t=TIME,v1=HEX,...          {timestamp}.{body}         as it is
 *      github    X-Hub-Signature-256: sha256=HEX              {body}                     as it is
 *      slack     X-Slack-Signature: v0=HEX                    v0:{timestamp}:{body}      as it is
 *      shopify   X-Shopify-Hmac-Sha256: BASE64                {body}                     as it is
 *
 * (standard: or whsk_) and a scheme of the caller's own is one more row. Sources: Standard
 * Webhooks 1.0.0; the senders' own documentation. Pure: nothing is read but the arguments. Several
 * secrets sign while they rotate; any of them verifies.
 */
#ifndef PAWL_CORE_SIGNATURE_H
#define PAWL_CORE_SIGNATURE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/crypto/mac.h"
#include "base/headers.h"

#define SIGNATURE_SECRETS_MAX 8
#define SIGNATURE_TOLERANCE_US (INT64_C(300) * 1000000)

enum signature_encoding { SIGNATURE_HEX, SIGNATURE_BASE64 };

struct signature_scheme {
    struct slice name;      /* empty: the caller's own */
    struct slice header;    /* which has the signature */
    struct slice signed_as; /* the signed bytes, with {id}, {timestamp} and {body} */
    struct slice prefix;    /* before a signature, such as `sha256=` */
    struct slice timestamp; /* the header of the time, or with a '=' at its end its name among the
                               members of `header`, which are divided by commas; empty: none */
    struct slice id;        /* the header of the event's id; empty: none */
    enum mac_hash hash;
    enum signature_encoding encoding;
    bool is_standard; /* entries divided by spaces, and keys of two kinds */
};

/* NULL: there is none of that name. */
const struct signature_scheme *signature_scheme_find(struct slice name);
/* The name of the nth; empty behind the last. */
struct slice signature_scheme_name(size_t n);

/* Whether what the caller made of his own can be used. False: `*ret_problem` is a literal. */
bool signature_scheme_check(const struct signature_scheme *scheme, const char **ret_problem);

struct signature_secret {
    struct slice key; /* of the HMAC; or the seed, empty where only the public key is known */
    unsigned char public_key[ED25519_KEY_SIZE];
    bool is_ed25519;
};

/* Reads a secret as the scheme takes it. False: `*ret_problem` is a literal, as in "the secret
 * ...". */
bool signature_secret_read(const struct signature_scheme *scheme, struct slice text,
                           struct arena *arena, struct signature_secret *ret_secret,
                           const char **ret_problem);

/* X(NAME, "name", text): what is wrong, as in "the request ..."; the name for logs. */
#define SIGNATURE_VERDICTS(X)                                                                      \
    X(GOOD, "good", "is signed")                                                                   \
    X(NO_HEADER, "no_signature", "has no signature header")                                        \
    X(NO_ID, "no_id", "has no id header")                                                          \
    X(BAD_ID, "malformed_id", "has an id with a dot, so that two messages could be signed alike")  \
    X(NO_TIME, "no_timestamp", "has no timestamp")                                                 \
    X(BAD_TIME, "malformed_timestamp", "has a timestamp that is not a number of seconds")          \
    X(TOO_OLD, "too_old", "has a timestamp further in the past than the tolerance")                \
    X(TOO_NEW, "too_new", "has a timestamp further in the future than the tolerance")              \
    X(MALFORMED, "malformed_signature", "has a signature header without a signature of this kind") \
    X(MISMATCH, "no_match", "has no signature that matches: another secret, or other bytes")       \
    X(NO_MEMORY, "no_memory", "could not be verified: out of memory")

enum signature_verdict {
#define X(name, word, text) SIGNATURE_##name,
    SIGNATURE_VERDICTS(X)
#undef X
        SIGNATURE_VERDICT_COUNT
};

const char *signature_verdict_name(enum signature_verdict verdict);
const char *signature_verdict_text(enum signature_verdict verdict);

struct signature_keys {
    const struct signature_secret *at;
    size_t n;
};

/* What is verified, and when. */
struct signature_received {
    const struct headers *headers;
    struct slice body;
    int64_t now_us;       /* Unix time */
    int64_t tolerance_us; /* both ways; INT64_MAX: any time will do */
};

/* Whether one of the secrets signed it. */
enum signature_verdict signature_verify(const struct signature_scheme *scheme,
                                        const struct signature_keys *keys,
                                        const struct signature_received *received);

/* What is signed. */
struct signature_message {
    struct slice id; /* empty where the scheme has none */
    int64_t seconds; /* Unix time */
    struct slice body;
};

/* Whether the scheme can sign it. False: `*ret_problem` is a literal, as in "the id ...". */
bool signature_may_sign(const struct signature_scheme *scheme, const struct signature_keys *keys,
                        const struct signature_message *message, const char **ret_problem);

/* Appends the value of the signature header: all secrets, where the scheme has room for several,
 * else the first. False: no memory. */
bool signature_sign(const struct signature_scheme *scheme, const struct signature_keys *keys,
                    const struct signature_message *message, struct buf *value);

#endif
