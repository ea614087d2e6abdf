/* SPDX-License-Identifier: Apache-2.0 */
#include "core/web/signature.h"

#include "base/check.h"
#include "base/crypto/digest.h"
#include "base/text/base64.h"

#define PARTS_MAX 16       /* of the signed bytes */
#define CANDIDATES_MAX 8   /* signatures of one message that are looked at, */
#define ED25519_MOST 4     /*   and of them by a public key, which takes long */
#define TIME_DIGITS_MAX 18 /* of seconds, so that they fit */
#define US_PER_S INT64_C(1000000)

#define WHSEC SLICE("whsec_")
#define WHSK SLICE("whsk_")
#define WHPK SLICE("whpk_")
#define V1 SLICE("v1,")
#define V1A SLICE("v1a,")

#define TEXT(literal)                                                                              \
    {                                                                                              \
        literal, sizeof literal - 1                                                                \
    }

static const struct signature_scheme schemes[] = {
    {.name = TEXT("standard"),
     .header = TEXT("webhook-signature"),
     .signed_as = TEXT("{id}.{timestamp}.{body}"),
     .timestamp = TEXT("webhook-timestamp"),
     .id = TEXT("webhook-id"),
     .hash = MAC_SHA256,
     .encoding = SIGNATURE_BASE64,
     .is_standard = true},
    {.name = TEXT("stripe"),
     .header = TEXT("Stripe-Signature"),
     .signed_as = TEXT("{timestamp}.{body}"),
     .prefix = TEXT("v1="),
     .timestamp = TEXT("t="),
     .hash = MAC_SHA256},
    {.name = TEXT("github"),
     .header = TEXT("X-Hub-Signature-256"),
     .signed_as = TEXT("{body}"),
     .prefix = TEXT("sha256="),
     .hash = MAC_SHA256},
    {.name = TEXT("slack"),
     .header = TEXT("X-Slack-Signature"),
     .signed_as = TEXT("v0:{timestamp}:{body}"),
     .prefix = TEXT("v0="),
     .timestamp = TEXT("X-Slack-Request-Timestamp"),
     .hash = MAC_SHA256},
    {.name = TEXT("shopify"),
     .header = TEXT("X-Shopify-Hmac-Sha256"),
     .signed_as = TEXT("{body}"),
     .hash = MAC_SHA256,
     .encoding = SIGNATURE_BASE64},
};

static const struct {
    const char *name;
    const char *text;
} verdicts[SIGNATURE_VERDICT_COUNT] = {
#define X(name, word, text) {word, text},
    SIGNATURE_VERDICTS(X)
#undef X
};

const char *signature_verdict_name(enum signature_verdict verdict)
{
    CHECK(verdict < SIGNATURE_VERDICT_COUNT);
    return verdicts[verdict].name;
}

const char *signature_verdict_text(enum signature_verdict verdict)
{
    CHECK(verdict < SIGNATURE_VERDICT_COUNT);
    return verdicts[verdict].text;
}

/* ---- schemes ---- */

const struct signature_scheme *signature_scheme_find(struct slice name)
{
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (slice_eq(schemes[i].name, name))
            return &schemes[i];
    return NULL;
}

struct slice signature_scheme_name(size_t n)
{
    return n < sizeof schemes / sizeof *schemes ? schemes[n].name : SLICE("");
}

static bool timestamp_is_member(struct slice timestamp)
{
    return timestamp.len > 1 && timestamp.at[timestamp.len - 1] == '=';
}

/* The names in the signed bytes, each with what comes for it. */
struct named {
    struct slice name;
    struct slice value;
};

enum { NAMED_ID, NAMED_TIME, NAMED_BODY, NAMED_COUNT };
static const struct slice names[NAMED_COUNT] = {TEXT("{id}"), TEXT("{timestamp}"), TEXT("{body}")};

/* Which name `text` begins with; NAMED_COUNT: none. */
static size_t find_member_name(struct slice text)
{
    size_t i = 0;
    while (i < NAMED_COUNT && !slice_starts(text, names[i]))
        i++;
    return i;
}

/* Cuts the signed bytes into parts. 0: too many of them, or a name that there is not. */
static size_t cut_signed_bytes(struct slice signed_as, const struct slice values[NAMED_COUNT],
                               struct slice parts[PARTS_MAX])
{
    size_t n = 0;
    while (signed_as.len > 0) {
        size_t len = 0, name = find_member_name(signed_as);
        while (len < signed_as.len && find_member_name(slice_skip(signed_as, len)) == NAMED_COUNT) {
            if (signed_as.at[len] == '{' || signed_as.at[len] == '}')
                return 0;
            len++;
        }
        if (n == PARTS_MAX)
            return 0;
        parts[n++] = name < NAMED_COUNT ? values[name] : slice_first(signed_as, len);
        signed_as = slice_skip(signed_as, name < NAMED_COUNT ? names[name].len : len);
    }
    return n;
}

static bool has_name(struct slice signed_as, size_t name)
{
    for (; signed_as.len > 0; signed_as = slice_skip(signed_as, 1))
        if (slice_starts(signed_as, names[name]))
            return true;
    return false;
}

bool signature_scheme_check(const struct signature_scheme *scheme, const char **ret_problem)
{
    static const struct slice nothing[NAMED_COUNT] = {TEXT("x"), TEXT("x"), TEXT("x")};
    struct slice parts[PARTS_MAX];
    *ret_problem = NULL;
    if (!header_is_token(scheme->header))
        *ret_problem = "`header` is not the name of a header";
    else if (cut_signed_bytes(scheme->signed_as, nothing, parts) == 0)
        *ret_problem = "`signed` takes {id}, {timestamp} and {body}, and text without braces";
    else if (!has_name(scheme->signed_as, NAMED_BODY))
        *ret_problem = "`signed` does not have {body}, so that anybody could change it";
    else if (has_name(scheme->signed_as, NAMED_TIME) && scheme->timestamp.len == 0)
        *ret_problem = "`signed` has {timestamp}, and `timestamp` does not say where it is";
    else if (!has_name(scheme->signed_as, NAMED_TIME) && scheme->timestamp.len > 0)
        *ret_problem = "`timestamp` is not in `signed`, so that anybody could change it";
    else if (has_name(scheme->signed_as, NAMED_ID) && scheme->id.len == 0)
        *ret_problem = "`signed` has {id}, and no header is known for it";
    else if (scheme->timestamp.len > 0 && !timestamp_is_member(scheme->timestamp) &&
             !header_is_token(scheme->timestamp))
        *ret_problem = "`timestamp` is not the name of a header, and does not end with `=`";
    return !*ret_problem;
}

/* ---- secrets ---- */

static bool decode_secret(struct slice text, struct arena *arena, struct slice *ret_bytes)
{
    BUF_AUTO struct buf bytes = buf_make(SIZE_MAX);
    if (!base64_read(text, &bytes))
        return false;
    *ret_bytes = arena_copy(arena, buf_slice(&bytes));
    return true;
}

/* A seed, or a seed with its public key behind it. */
static const char *read_seed(struct slice bytes, struct signature_secret *secret)
{
    if (bytes.len != ED25519_KEY_SIZE && bytes.len != 2 * ED25519_KEY_SIZE)
        return "is not 32 or 64 bytes behind `whsk_`";
    secret->key = slice_first(bytes, ED25519_KEY_SIZE);
    if (!ed25519_public(secret->key, secret->public_key))
        return "could not be read: out of memory";
    bool fits = bytes.len == ED25519_KEY_SIZE ||
                memcmp(bytes.at + ED25519_KEY_SIZE, secret->public_key, ED25519_KEY_SIZE) == 0;
    return fits ? NULL : "has another public key than that of its seed";
}

static const char *read_standard(struct slice text, struct arena *arena,
                                 struct signature_secret *secret)
{
    bool is_private = slice_starts(text, WHSK), is_public = slice_starts(text, WHPK);
    struct slice bytes, digits = text;
    secret->is_ed25519 = is_private || is_public;
    if (slice_starts(text, WHSEC))
        digits = slice_skip(text, WHSEC.len);
    else if (secret->is_ed25519)
        digits = slice_skip(text, WHSK.len);
    if (!decode_secret(digits, arena, &bytes))
        return "is not base64 behind its prefix";
    if (bytes.len == 0)
        return "is empty";
    if (is_private)
        return read_seed(bytes, secret);
    if (!is_public) {
        secret->key = bytes;
        return NULL;
    }
    if (bytes.len != ED25519_KEY_SIZE)
        return "is not 32 bytes behind `whpk_`";
    memcpy(secret->public_key, bytes.at, ED25519_KEY_SIZE);
    return NULL;
}

bool signature_secret_read(const struct signature_scheme *scheme, struct slice text,
                           struct arena *arena, struct signature_secret *ret_secret,
                           const char **ret_problem)
{
    *ret_secret = (struct signature_secret){.key = SLICE("")};
    *ret_problem = NULL;
    if (mac_load()) { /* here, and not within the first message */
        *ret_problem = "cannot be used without OpenSSL (on Debian: apt install libssl3)";
        return false;
    }
    if (text.len == 0)
        *ret_problem = "is empty";
    else if (scheme->is_standard)
        *ret_problem = read_standard(text, arena, ret_secret);
    else
        ret_secret->key = arena_copy(arena, text);
    if (!*ret_problem && arena->failed)
        *ret_problem = "could not be read: out of memory";
    return !*ret_problem;
}

/* ---- what is signed ---- */

/* A message with its parts, whose texts are somebody else's. */
struct signing {
    const struct signature_scheme *scheme;
    struct slice parts[PARTS_MAX];
    size_t n;
    struct buf whole; /* ed25519 signs nothing in parts */
};

static void start_signing(struct signing *signing, const struct signature_scheme *scheme,
                          struct slice id, struct slice seconds, struct slice body)
{
    const struct slice values[NAMED_COUNT] = {
        [NAMED_ID] = id, [NAMED_TIME] = seconds, [NAMED_BODY] = body};
    signing->scheme = scheme;
    signing->n = cut_signed_bytes(scheme->signed_as, values, signing->parts);
    signing->whole = buf_make(SIZE_MAX);
    CHECK(signing->n > 0); /* signature_scheme_check */
}

static struct slice whole_of(struct signing *signing)
{
    if (signing->whole.len == 0)
        for (size_t i = 0; i < signing->n; i++)
            buf_add_slice(&signing->whole, signing->parts[i]);
    return buf_slice(&signing->whole);
}

/* ---- signing ---- */

/* A dot in the id would sign two messages alike. */
static bool is_signed_id(struct slice id)
{
    return id.len > 0 && slice_find(id, '.') < 0;
}

bool signature_may_sign(const struct signature_scheme *scheme, const struct signature_keys *keys,
                        const struct signature_message *message, const char **ret_problem)
{
    *ret_problem = NULL;
    if (has_name(scheme->signed_as, NAMED_ID) && !is_signed_id(message->id))
        *ret_problem = message->id.len == 0 ? "the id is missing" : "the id has a dot";
    else if (scheme->timestamp.len > 0 && message->seconds <= 0)
        *ret_problem = "the timestamp is missing";
    for (size_t i = 0; i < keys->n && !*ret_problem; i++)
        if (keys->at[i].is_ed25519 && keys->at[i].key.len == 0)
            *ret_problem = "the secret is a public key, which only verifies";
    return !*ret_problem;
}

static void add_signature_bytes(struct buf *value, enum signature_encoding encoding,
                                const void *bytes, size_t len)
{
    char hex[2 * MAC_SIZE_MAX + 1];
    if (encoding == SIGNATURE_BASE64) {
        base64_add(value, slice_make(bytes, len));
        return;
    }
    hex_encode(bytes, len, hex);
    buf_add_str(value, hex);
}

static bool add_signature(struct signing *signing, const struct signature_secret *secret,
                          struct buf *value)
{
    unsigned char bytes[ED25519_SIZE];
    struct mac mac;
    if (secret->is_ed25519) {
        struct slice whole = whole_of(signing);
        if (!buf_ok(&signing->whole) || !ed25519_sign(secret->key, whole, bytes))
            return false;
        buf_add_slice(value, V1A);
        add_signature_bytes(value, SIGNATURE_BASE64, bytes, ED25519_SIZE);
        return true;
    }
    if (!mac_of(signing->scheme->hash, secret->key, signing->parts, signing->n, &mac))
        return false;
    buf_add_slice(value, signing->scheme->is_standard ? V1 : signing->scheme->prefix);
    add_signature_bytes(value, signing->scheme->encoding, mac.bytes, mac.len);
    return true;
}

bool signature_sign(const struct signature_scheme *scheme, const struct signature_keys *keys,
                    const struct signature_message *message, struct buf *value)
{
    struct signing signing;
    BUF_AUTO struct buf seconds = buf_make(TIME_DIGITS_MAX + 2);
    bool in_list = timestamp_is_member(scheme->timestamp), good = true;
    CHECK(keys->n > 0);
    buf_add_i64(&seconds, message->seconds);
    start_signing(&signing, scheme, message->id, buf_slice(&seconds), message->body);
    if (in_list)
        buf_printf(value, "%.*s%.*s,", SLICE_ARG(scheme->timestamp),
                   SLICE_ARG(buf_slice(&seconds)));
    size_t n = scheme->is_standard || in_list ? keys->n : 1;
    for (size_t i = 0; i < n && good; i++) {
        if (i > 0)
            buf_add_char(value, scheme->is_standard ? ' ' : ',');
        good = add_signature(&signing, &keys->at[i], value);
    }
    buf_fini(&signing.whole);
    return good && buf_ok(value);
}

/* ---- verifying ---- */

/* What the header has: its time, and signatures as they are written. */
struct signature_fields {
    struct slice seconds;
    struct slice v1[CANDIDATES_MAX];
    size_t n_v1;
    struct slice v1a[ED25519_MOST];
    size_t n_v1a;
};

static bool fields_have_room(const struct signature_fields *found)
{
    return found->n_v1 + found->n_v1a < CANDIDATES_MAX;
}

static void add_v1(struct signature_fields *found, struct slice text)
{
    if (fields_have_room(found) && text.len > 0)
        found->v1[found->n_v1++] = text;
}

static void add_v1a(struct signature_fields *found, struct slice text)
{
    if (fields_have_room(found) && found->n_v1a < ED25519_MOST && text.len > 0)
        found->v1a[found->n_v1a++] = text;
}

static void read_signature_member(const struct signature_scheme *scheme, struct slice member,
                                  struct signature_fields *found)
{
    if (scheme->is_standard && slice_starts(member, V1A))
        add_v1a(found, slice_skip(member, V1A.len));
    else if (scheme->is_standard && slice_starts(member, V1))
        add_v1(found, slice_skip(member, V1.len));
    else if (timestamp_is_member(scheme->timestamp) && slice_starts(member, scheme->timestamp))
        found->seconds = slice_skip(member, scheme->timestamp.len);
    else if (!scheme->is_standard && slice_starts(member, scheme->prefix))
        add_v1(found, slice_skip(member, scheme->prefix.len));
}

static void read_signature_header(const struct signature_scheme *scheme, struct slice value,
                                  struct signature_fields *found)
{
    bool is_list = scheme->is_standard || timestamp_is_member(scheme->timestamp);
    if (!is_list) {
        read_signature_member(scheme, slice_trim(value), found);
        return;
    }
    while (value.len > 0) {
        struct slice member;
        value = slice_cut(value, scheme->is_standard ? ' ' : ',', &member);
        read_signature_member(scheme, slice_trim(member), found);
    }
}

static struct slice signed_header_value(const struct headers *headers, struct slice name)
{
    const struct header *line = name.len > 0 ? headers_find(headers, name) : NULL;
    return line ? line->value : SLICE("");
}

/* Digits alone: no sign, no fraction, no `NaN`. */
static enum signature_verdict judge_time(struct slice text,
                                         const struct signature_received *received)
{
    uint64_t seconds = 0;
    if (text.len == 0)
        return SIGNATURE_NO_TIME;
    if (text.len > TIME_DIGITS_MAX || !slice_to_u64(text, UINT64_MAX, &seconds))
        return SIGNATURE_BAD_TIME;
    if (received->tolerance_us == INT64_MAX)
        return SIGNATURE_GOOD;
    int64_t at = (int64_t)seconds, now = received->now_us / US_PER_S;
    int64_t tolerance = received->tolerance_us / US_PER_S;
    if (at < now - tolerance)
        return SIGNATURE_TOO_OLD;
    return at > now + tolerance ? SIGNATURE_TOO_NEW : SIGNATURE_GOOD;
}

static bool is_encoded(enum signature_encoding encoding, struct slice text, const struct mac *mac)
{
    unsigned char bytes[MAC_SIZE_MAX];
    char room[MAC_SIZE_MAX + 2]; /* so that a good one does not fail for memory */
    struct buf decoded = buf_on(room, sizeof room, sizeof room - 1);
    if (encoding == SIGNATURE_HEX)
        return hex_decode(text, bytes, mac->len) && mac_eq(mac, slice_make(bytes, mac->len));
    return base64_read(text, &decoded) && mac_eq(mac, buf_slice(&decoded));
}

static bool verify_by_secret(struct signing *signing, const struct signature_secret *secret,
                             const struct signature_fields *found, bool *ret_failed)
{
    struct mac mac;
    if (secret->is_ed25519) {
        struct slice whole = found->n_v1a > 0 ? whole_of(signing) : SLICE("");
        *ret_failed |= !buf_ok(&signing->whole);
        for (size_t i = 0; i < found->n_v1a && !*ret_failed; i++) {
            char room[ED25519_SIZE + 2];
            struct buf bytes = buf_on(room, sizeof room, sizeof room - 1);
            struct slice key = slice_make(secret->public_key, ED25519_KEY_SIZE);
            if (base64_read(found->v1a[i], &bytes) && ed25519_verify(key, whole, buf_slice(&bytes)))
                return true;
        }
        return false;
    }
    if (found->n_v1 == 0)
        return false;
    if (!mac_of(signing->scheme->hash, secret->key, signing->parts, signing->n, &mac)) {
        *ret_failed = true;
        return false;
    }
    bool matches = false;
    for (size_t i = 0; i < found->n_v1; i++)
        matches |= is_encoded(signing->scheme->encoding, found->v1[i], &mac);
    return matches;
}

static enum signature_verdict compare_signatures(const struct signature_scheme *scheme,
                                                 const struct signature_keys *keys,
                                                 const struct signature_received *received,
                                                 const struct signature_fields *found)
{
    struct signing signing;
    bool failed = false, matches = false;
    start_signing(&signing, scheme, signed_header_value(received->headers, scheme->id),
                  found->seconds, received->body);
    for (size_t i = 0; i < keys->n && !matches; i++)
        matches = verify_by_secret(&signing, &keys->at[i], found, &failed);
    buf_fini(&signing.whole);
    return matches ? SIGNATURE_GOOD : failed ? SIGNATURE_NO_MEMORY : SIGNATURE_MISMATCH;
}

enum signature_verdict signature_verify(const struct signature_scheme *scheme,
                                        const struct signature_keys *keys,
                                        const struct signature_received *received)
{
    struct signature_fields found = {.seconds = SLICE("")};
    size_t at = 0;
    const struct header *line;
    CHECK(keys->n > 0 && keys->n <= SIGNATURE_SECRETS_MAX);
    if (!headers_find(received->headers, scheme->header))
        return SIGNATURE_NO_HEADER;
    while ((line = headers_next(received->headers, scheme->header, &at)))
        read_signature_header(scheme, line->value, &found);
    if (scheme->timestamp.len > 0 && !timestamp_is_member(scheme->timestamp))
        found.seconds = signed_header_value(received->headers, scheme->timestamp);
    if (has_name(scheme->signed_as, NAMED_ID)) {
        struct slice id = signed_header_value(received->headers, scheme->id);
        if (!is_signed_id(id))
            return id.len == 0 ? SIGNATURE_NO_ID : SIGNATURE_BAD_ID;
    }
    enum signature_verdict verdict =
        scheme->timestamp.len > 0 ? judge_time(found.seconds, received) : SIGNATURE_GOOD;
    if (verdict != SIGNATURE_GOOD)
        return verdict;
    if (found.n_v1 + found.n_v1a == 0)
        return SIGNATURE_MALFORMED;
    return compare_signatures(scheme, keys, received, &found);
}
