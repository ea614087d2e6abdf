/* SPDX-License-Identifier: Apache-2.0 */
#include "core/request/fingerprint.h"

#include "base/check.h"
#include "base/text/number.h"
#include "core/request/rule.h"
#include <stdio.h>

#define POINTER_MAX 256 /* a longer one is passed over */
#define NUMBER_MAX 64
#define INDEX_SIZE 21 /* of a size_t, with its NUL */
#define NAMED_MAX 3
#define N_PARTS 5
#define HASH_CHARS 3
#define HEAD_CHARS (1 + N_PARTS * HASH_CHARS)
#define LEAF_CHARS (2 * HASH_CHARS)

/* ---- hashes ---- */

static uint64_t rotate_left(uint64_t x, int n)
{
    return x << n | x >> (64 - n);
}

struct sip {
    uint64_t v[4];
};

static void sip_round(struct sip *s)
{
    s->v[0] += s->v[1];
    s->v[2] += s->v[3];
    s->v[1] = rotate_left(s->v[1], 13) ^ s->v[0];
    s->v[3] = rotate_left(s->v[3], 16) ^ s->v[2];
    s->v[0] = rotate_left(s->v[0], 32);
    s->v[2] += s->v[1];
    s->v[0] += s->v[3];
    s->v[1] = rotate_left(s->v[1], 17) ^ s->v[2];
    s->v[3] = rotate_left(s->v[3], 21) ^ s->v[0];
    s->v[2] = rotate_left(s->v[2], 32);
}

static void sip_word(struct sip *s, uint64_t word)
{
    s->v[3] ^= word;
    sip_round(s);
    s->v[0] ^= word;
}

/* SipHash-1-3 (Aumasson, Bernstein 2012, with the rounds that hash tables take): a keyed hash that
 * costs less than the leaf's parsing. Read in native byte order: hashes stay within one store. */
static uint64_t sip_hash(struct slice secret, struct slice text)
{
    uint64_t key[2], word = 0;
    CHECK(secret.len >= sizeof key);
    memcpy(key, secret.at, sizeof key);
    struct sip s = {{key[0] ^ 0x736f6d6570736575U, key[1] ^ 0x646f72616e646f6dU,
                     key[0] ^ 0x6c7967656e657261U, key[1] ^ 0x7465646279746573U}};
    size_t whole = text.len & ~(size_t)7;
    for (size_t i = 0; i < whole; i += 8) {
        memcpy(&word, text.at + i, 8);
        sip_word(&s, word);
    }
    word = (uint64_t)text.len << 56;
    for (size_t i = whole; i < text.len; i++)
        word |= (uint64_t)(unsigned char)text.at[i] << (8 * (i - whole));
    sip_word(&s, word);
    s.v[2] ^= 0xFF;
    for (int i = 0; i < 3; i++)
        sip_round(&s);
    return s.v[0] ^ s.v[1] ^ s.v[2] ^ s.v[3];
}

static void write_hash(uint64_t hash, char *ret_text)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for (int i = 0; i < HASH_CHARS; i++)
        ret_text[i] = digits[hash >> (6 * i) & 63];
}

/* ---- the target's parts ---- */

static uint64_t hash_header_lines(const struct fingerprint_of *of, struct slice name)
{
    const struct headers *headers = of->facts->headers;
    const struct header *line;
    uint64_t hash = 0;
    size_t at = 0;
    if (!headers || headers_is_hop_by_hop(headers, name))
        return 0;
    while ((line = headers_next(headers, name, &at)))
        hash = rotate_left(hash, 1) ^ sip_hash(of->secret, line->value);
    return hash;
}

static uint64_t hash_media_type(const struct fingerprint_of *of)
{
    const struct headers *headers = of->facts->headers;
    const struct header *line = headers ? headers_find(headers, SLICE("Content-Type")) : NULL;
    bool coded = of->facts->labels & PAYLOAD_LABEL_CODING;
    struct slice type = {NULL, 0};
    if (line)
        slice_cut(line->value, ';', &type);
    return sip_hash(of->secret, slice_trim(type)) ^
           (coded ? rotate_left(hash_header_lines(of, SLICE("Content-Encoding")), 7) : 0);
}

static uint64_t hash_headers(const struct fingerprint_of *of)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < of->rule->n_headers; i++)
        hash = rotate_left(hash, 3) ^ hash_header_lines(of, of->rule->headers[i]);
    return hash;
}

static uint64_t hash_query(const struct fingerprint_of *of)
{
    return of->rule->query == RULE_QUERY_NONE ? 0 : sip_hash(of->secret, of->facts->query);
}

static const char *const part_names[N_PARTS] = {
    "the method", "the path", "the query", "Content-Type or Content-Encoding", "a compared header"};

static void write_digests(const struct fingerprint_of *of, char *ret_text)
{
    const uint64_t hashes[N_PARTS] = {sip_hash(of->secret, of->facts->method),
                                      sip_hash(of->secret, of->path), hash_query(of),
                                      hash_media_type(of), hash_headers(of)};
    for (size_t i = 0; i < N_PARTS; i++)
        write_hash(hashes[i], ret_text + i * HASH_CHARS);
}

/* ---- leaves ---- */

struct walk {
    const struct fingerprint_of *of;
    char pointer[POINTER_MAX];
    size_t len;
    size_t n;       /* leaves so far */
    bool full;      /* there are more */
    bool cut_short; /* some are passed over: their pointer is too long */
    /* Of each leaf: its hashes and the pointer. */
    void (*take)(struct walk *walk, const char *hashes);
    void *to;
};

static bool add_token(struct walk *walk, struct slice token)
{
    size_t len = walk->len;
    if (token.len * 2 + 1 > POINTER_MAX - len)
        return false;
    walk->pointer[len++] = '/';
    for (size_t i = 0; i < token.len; i++) {
        char c = token.at[i];
        bool escaped = c == '~' || c == '/';
        if (escaped)
            walk->pointer[len++] = '~';
        walk->pointer[len++] = escaped ? (c == '~' ? '0' : '1') : c;
    }
    walk->len = len;
    return true;
}

static uint64_t hash_value(const struct walk *walk, const struct json *leaf)
{
    char room[NUMBER_MAX + 1];
    BUF_AUTO struct buf number = buf_on(room, sizeof room, NUMBER_MAX);
    struct slice text = leaf->text;
    if (leaf->type == JSON_NUMBER && number_add_canonical(&number, leaf->text) && buf_ok(&number))
        text = buf_slice(&number);
    else if (leaf->type != JSON_STRING && leaf->type != JSON_NUMBER)
        text = slice_make(NULL, 0);
    return sip_hash(walk->of->secret, text) + leaf->type;
}

static void take_leaf(struct walk *walk, const struct json *leaf)
{
    const struct payload_selection *selection = walk->of->selection;
    struct slice pointer = slice_make(walk->pointer, walk->len);
    char hashes[LEAF_CHARS];
    if (selection->mode == PAYLOAD_RAW || !payload_counts(selection, pointer))
        return;
    walk->full = walk->n == FINGERPRINT_LEAVES_MAX;
    if (walk->full)
        return;
    walk->n++;
    write_hash(sip_hash(walk->of->secret, pointer), hashes);
    write_hash(hash_value(walk, leaf), hashes + HASH_CHARS);
    walk->take(walk, hashes);
}

/* At most JSON_DEPTH_MAX deep. */
static void walk_value(struct walk *walk, const struct json *value)
{
    size_t before = walk->len, index = 0;
    if (!value->first) {
        take_leaf(walk, value);
        return;
    }
    for (const struct json *child = value->first; child && !walk->full;
         child = child->next, index++) {
        char digits[INDEX_SIZE];
        struct slice token = child->name;
        if (value->type == JSON_ARRAY)
            token = slice_make(digits, (size_t)snprintf(digits, sizeof digits, "%zu", index));
        if (add_token(walk, token))
            walk_value(walk, child);
        else
            walk->cut_short = true;
        walk->len = before;
    }
}

static void walk_payload(struct walk *walk)
{
    const struct payload *payload = walk->of->facts->payload;
    if (payload && payload->kind == PAYLOAD_IS_JSON)
        walk_value(walk, payload->json);
}

/* ---- writing ---- */

static void append_leaf(struct walk *walk, const char *hashes)
{
    char *text = walk->to;
    memcpy(text + HEAD_CHARS + (walk->n - 1) * LEAF_CHARS, hashes, LEAF_CHARS);
}

void fingerprint_write(const struct fingerprint_of *of, struct fingerprint *ret_fingerprint)
{
    char *text = ret_fingerprint->text;
    struct walk walk = {.of = of, .take = append_leaf, .to = text};
    write_digests(of, text + 1);
    walk_payload(&walk);
    text[0] = walk.cut_short || walk.full ? '+' : '=';
    ret_fingerprint->len = HEAD_CHARS + walk.n * LEAF_CHARS;
}

/* ---- explaining ---- */

static bool is_sound(struct slice stored)
{
    return stored.len >= HEAD_CHARS && (stored.len - HEAD_CHARS) % LEAF_CHARS == 0;
}

void fingerprint_explain_target(const struct fingerprint_of *of, struct slice stored,
                                struct buf *buf)
{
    char own[N_PARTS * HASH_CHARS];
    bool first = true;
    if (!is_sound(stored))
        return;
    write_digests(of, own);
    for (size_t i = 0; i < N_PARTS; i++) {
        size_t at = i * HASH_CHARS;
        if (memcmp(own + at, stored.at + 1 + at, HASH_CHARS) == 0)
            continue;
        buf_add_str(buf, first ? "" : ", ");
        buf_add_str(buf, part_names[i]);
        first = false;
    }
}

/* What a leaf is compared with, and what was named. */
struct comparison {
    struct slice stored;
    struct buf *buf;
    size_t named;
};

/* Whether the first request had this leaf; where not all of its leaves are known, one that is not
 * among them may have been there. */
static bool was_there(struct slice stored, const char *hashes)
{
    for (size_t at = HEAD_CHARS; at < stored.len; at += LEAF_CHARS)
        if (memcmp(stored.at + at, hashes, HASH_CHARS) == 0)
            return memcmp(stored.at + at, hashes, LEAF_CHARS) == 0;
    return stored.at[0] != '=';
}

static void tell_leaf(struct walk *walk, const char *hashes)
{
    struct comparison *comparison = walk->to;
    struct slice pointer = slice_make(walk->pointer, walk->len);
    if (was_there(comparison->stored, hashes) || comparison->named == NAMED_MAX ||
        !json_is_legible(pointer))
        return;
    buf_add_str(comparison->buf, comparison->named++ > 0 ? ", " : "");
    buf_add_slice(comparison->buf, pointer);
}

void fingerprint_explain_body(const struct fingerprint_of *of, struct slice stored, struct buf *buf)
{
    struct comparison comparison = {.stored = stored, .buf = buf};
    struct walk walk = {.of = of, .take = tell_leaf, .to = &comparison};
    if (is_sound(stored))
        walk_payload(&walk);
}
