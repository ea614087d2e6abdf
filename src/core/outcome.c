/* SPDX-License-Identifier: Apache-2.0 */
#include "core/outcome.h"
#include "base/check.h"
#include "base/mem.h"

static struct slice place(char *at, struct slice from)
{
    if (from.len)
        memcpy(at, from.at, from.len);
    return slice_make(at, from.len);
}

struct outcome *outcome_new(int status, bool failed, struct slice fields, struct slice body)
{
    struct outcome *outcome = NULL;
    if (fields.len <= SIZE_MAX / 4 && body.len <= SIZE_MAX / 4)
        outcome = mem_alloc(sizeof(*outcome) + fields.len + body.len);
    if (!outcome)
        return NULL;
    atomic_init(&outcome->refs, 1);
    atomic_init(&outcome->holders, 0);
    outcome->status = status;
    outcome->failed = failed;
    outcome->fields = place(outcome->storage, fields);
    outcome->body = place(outcome->storage + fields.len, body);
    outcome->location = outcome_field(outcome->fields, SLICE("Location"));
    return outcome;
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
    if (before == 1)
        mem_free(outcome);
}

/* No count is taken back before it was added: until then its holder is not the last. */
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

bool outcome_eq(const struct outcome *a, const struct outcome *b)
{
    return a->status == b->status && slice_eq(a->fields, b->fields) && slice_eq(a->body, b->body);
}

size_t outcome_size(const struct outcome *outcome)
{
    return sizeof(*outcome) + outcome->fields.len + outcome->body.len;
}

static bool starts_nocase(struct slice name, struct slice prefix)
{
    return name.len >= prefix.len && slice_eq_nocase(slice_make(name.at, prefix.len), prefix);
}

/* What an answer says about its own delivery, or about this one client, is not part of the outcome
 * (contract section 5). */
static bool is_of_the_moment(struct slice name, bool keep_cookies)
{
    static const struct slice never[] = {
        {"Date", 4},           {"Content-Length", 14},      {"WWW-Authenticate", 16},
        {"Trailer", 7},        {"Idempotency-Status", 18},  {"Idempotent-Replayed", 19},
        {"Authorization", 13}, {"Authentication-Info", 19},
    };
    if (SLICE_AMONG(name, never))
        return true;
    if (slice_eq_nocase(name, SLICE("Set-Cookie")))
        return !keep_cookies;
    return starts_nocase(name, SLICE("Proxy-")) || starts_nocase(name, SLICE("Access-Control-"));
}

static bool is_kept(const struct headers *headers, const struct header *line, bool keep_cookies)
{
    if (slice_eq_nocase(line->name, SLICE("Error-Code")))
        return slice_eq(line->value, SLICE("PROVIDER.duplicate"));
    return !is_of_the_moment(line->name, keep_cookies) &&
           !headers_is_hop_by_hop(headers, line->name);
}

void outcome_keep_fields(const struct headers *headers, bool keep_cookies, struct buf *buf)
{
    for (size_t i = 0; i < headers->n; i++) {
        const struct header *line = &headers->at[i];
        if (!is_kept(headers, line, keep_cookies))
            continue;
        buf_add_slice(buf, line->name);
        buf_add_str(buf, ": ");
        buf_add_slice(buf, line->value);
        buf_add_str(buf, "\r\n");
    }
}

struct slice outcome_field(struct slice fields, struct slice name)
{
    while (fields.len) {
        struct slice line, key;
        fields = slice_cut(fields, '\n', &line);
        if (line.len && line.at[line.len - 1] == '\r')
            line.len--;
        struct slice value = slice_cut(line, ':', &key);
        if (value.at && slice_eq_nocase(key, name))
            return slice_trim(value);
    }
    return slice_make(NULL, 0);
}
