/* SPDX-License-Identifier: Apache-2.0 */
#include "core/outcome.h"
#include "base/check.h"
#include "base/mem.h"

#define PACK_LEAST 1024 /* bytes; smaller bodies gain nothing (contract section 5) */

static struct slice copy_to(char *at, struct slice from)
{
    if (from.len)
        memcpy(at, from.at, from.len);
    return slice_make(at, from.len);
}

struct outcome *outcome_new(int status, bool failed, struct slice fields, struct slice body)
{
    struct outcome *outcome = NULL;
    if (fields.len <= SIZE_MAX / 4 && body.len <= SIZE_MAX / 4)
        outcome = mem_alloc(sizeof *outcome + fields.len + body.len);
    if (!outcome)
        return NULL;
    atomic_init(&outcome->refs, 1);
    atomic_init(&outcome->holders, 0);
    outcome->status = status;
    outcome->failed = failed;
    outcome->fields = copy_to(outcome->storage, fields);
    outcome->body = copy_to(outcome->storage + fields.len, body);
    outcome->location = outcome_field(outcome->fields, SLICE("Location"));
    mutex_init(&outcome->mutex);
    outcome->packed = buf_make(OUTCOME_BODY_MAX);
    outcome->unpacked = buf_make(OUTCOME_BODY_MAX);
    return outcome;
}

struct outcome *outcome_new_packed(int status, bool failed, struct slice fields,
                                   struct slice packed)
{
    size_t size = outcome_unpacked_size(packed);
    struct outcome *outcome = outcome_new(status, failed, fields, slice_of(NULL));
    if (!outcome)
        return NULL;
    outcome->body = slice_make(NULL, size);
    buf_add_slice(&outcome->packed, packed);
    if (buf_ok(&outcome->packed))
        return outcome;
    outcome_unref(outcome);
    return NULL;
}

size_t outcome_unpacked_size(struct slice packed)
{
    uint64_t size = compress_size(packed);
    return size > 0 && size <= OUTCOME_BODY_MAX ? (size_t)size : 1;
}

void outcome_pack(struct outcome *outcome, struct compress *compress)
{
    CHECK(atomic_load(&outcome->refs) == 1 && outcome->packed.len == 0);
    bool smaller =
        outcome->body.len > PACK_LEAST && compress_pack(compress, outcome->body, &outcome->packed);
    if (!smaller)
        buf_fini(&outcome->packed);
}

static bool is_unpacked(const struct outcome *outcome)
{
    return outcome->body.at || outcome->body.len == 0;
}

void outcome_drop_packed(struct outcome *outcome)
{
    mutex_lock(&outcome->mutex);
    if (is_unpacked(outcome))
        buf_fini(&outcome->packed);
    mutex_unlock(&outcome->mutex);
}

static enum outcome_unpacked unpack_outcome_body(struct outcome *outcome, struct compress *compress)
{
    struct slice packed = buf_slice(&outcome->packed);
    struct buf *unpacked = &outcome->unpacked;
    if (compress_unpack(compress, packed, outcome->body.len, unpacked)) {
        outcome->body.at = unpacked->at;
        buf_fini(&outcome->packed);
        return OUTCOME_UNPACKED;
    }
    bool damaged = buf_ok(unpacked);
    buf_fini(unpacked);
    return damaged ? OUTCOME_DAMAGED : OUTCOME_NO_MEMORY;
}

enum outcome_unpacked outcome_unpack(struct outcome *outcome, struct compress *compress)
{
    mutex_lock(&outcome->mutex);
    enum outcome_unpacked result =
        is_unpacked(outcome) ? OUTCOME_UNPACKED : unpack_outcome_body(outcome, compress);
    mutex_unlock(&outcome->mutex);
    return result;
}

struct outcome *outcome_ref(struct outcome *outcome)
{
    int before = atomic_fetch_add_explicit(&outcome->refs, 1, memory_order_relaxed);
    CHECK(before > 0);
    return outcome;
}

void outcome_unref(struct outcome *outcome)
{
    if (!outcome)
        return;
    int before = atomic_fetch_sub_explicit(&outcome->refs, 1, memory_order_acq_rel);
    CHECK(before > 0);
    if (before > 1)
        return;
    buf_fini(&outcome->packed);
    buf_fini(&outcome->unpacked);
    mutex_fini(&outcome->mutex);
    mem_free(outcome);
}

/* The first holder adds the size of the outcome to `held` while it is a holder, so the last, which
 * subtracts it, cannot come before. */
bool outcome_hold(struct outcome *outcome, atomic_ullong *held)
{
    bool first = atomic_fetch_add(&outcome->holders, 1) == 0;
    if (first)
        atomic_fetch_add(held, outcome_size(outcome));
    return first;
}

void outcome_drop(struct outcome *outcome, atomic_ullong *held)
{
    int before = atomic_fetch_sub(&outcome->holders, 1);
    CHECK(before > 0);
    if (before == 1)
        atomic_fetch_sub(held, outcome_size(outcome));
}

static bool same_body(const struct outcome *a, const struct outcome *b)
{
    if (is_unpacked(a) && is_unpacked(b))
        return slice_eq(a->body, b->body);
    return slice_eq(buf_slice(&a->packed), buf_slice(&b->packed));
}

bool outcome_eq(struct outcome *a, struct outcome *b)
{
    if (a == b)
        return true;
    struct outcome *first = (uintptr_t)a < (uintptr_t)b ? a : b;
    struct outcome *second = first == a ? b : a;
    mutex_lock(&first->mutex);
    mutex_lock(&second->mutex);
    bool same = a->status == b->status && slice_eq(a->fields, b->fields) && same_body(a, b);
    mutex_unlock(&second->mutex);
    mutex_unlock(&first->mutex);
    return same;
}

size_t outcome_size(const struct outcome *outcome)
{
    return sizeof *outcome + outcome->fields.len + outcome->body.len;
}

static bool starts_nocase(struct slice name, struct slice prefix)
{
    return name.len >= prefix.len && slice_eq_nocase(slice_make(name.at, prefix.len), prefix);
}

/* What a response says about its own delivery, or about this one client, is not part of the outcome
 * (contract section 5). */
static bool is_of_the_moment(struct slice name, unsigned how)
{
    static const struct slice never[] = {
        {"Date", 4},           {"Content-Length", 14},      {"WWW-Authenticate", 16},
        {"Trailer", 7},        {"Idempotency-Status", 18},  {"Idempotent-Replayed", 19},
        {"Authorization", 13}, {"Authentication-Info", 19},
    };
    if (SLICE_AMONG(name, never))
        return true;
    if (slice_eq_nocase(name, SLICE("Set-Cookie")))
        return (how & OUTCOME_KEEPS_COOKIES) == 0;
    return starts_nocase(name, SLICE("Proxy-")) || starts_nocase(name, SLICE("Access-Control-"));
}

static bool is_of_the_bytes(struct slice name)
{
    static const struct slice names[] = {
        {"Content-Encoding", 16}, {"Content-MD5", 11}, {"Digest", 6},
        {"Content-Digest", 14},   {"Repr-Digest", 11}, {"Signature", 9},
        {"Signature-Input", 15}};
    return SLICE_AMONG(name, names);
}

static bool is_kept(const struct headers *headers, const struct header *line, unsigned how)
{
    if (slice_eq_nocase(line->name, SLICE("Error-Code")))
        return slice_eq(line->value, SLICE("PROVIDER.duplicate"));
    if ((how & OUTCOME_IS_DECODED) != 0 && is_of_the_bytes(line->name))
        return false;
    return !is_of_the_moment(line->name, how) && !headers_is_hop_by_hop(headers, line->name);
}

void outcome_keep_fields(const struct headers *headers, unsigned how, struct buf *buf)
{
    for (size_t i = 0; i < headers->n; i++) {
        const struct header *line = &headers->at[i];
        if (is_kept(headers, line, how))
            fields_add(buf, line->name, line->value);
    }
}

void outcome_keep_others(struct slice fields, struct buf *buf)
{
    struct slice name, value;
    while (fields_next(&fields, &name, &value))
        if (!is_of_the_bytes(name) && !slice_eq_nocase(name, SLICE("ETag")))
            fields_add(buf, name, value);
}

struct slice outcome_field(struct slice fields, struct slice name)
{
    struct slice key, value;
    while (fields_next(&fields, &key, &value))
        if (value.at && slice_eq_nocase(key, name))
            return value;
    return slice_make(NULL, 0);
}
