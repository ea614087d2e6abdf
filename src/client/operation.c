/* SPDX-License-Identifier: Apache-2.0 */
#include "client/operation.h"

#include "base/clock.h"
#include "base/crypto/random.h"
#include "core/request/path.h"
#include "core/request/rule.h"

#define PREFIX_MAX ((size_t)1024)

void client_format_dated_key(int64_t made_ms, uint64_t high, uint64_t low,
                             char ret_key[CLIENT_KEY_SIZE])
{
    uuid_format(7, (uint64_t)made_ms << 16 | (high & 0xffff), low, ret_key);
}

void client_mint_key(bool dated, char ret_key[CLIENT_KEY_SIZE])
{
    if (dated)
        client_format_dated_key(clock_wall_us() / CLOCK_US_PER_MS, random_u64(), random_u64(),
                                ret_key);
    else
        uuid_make(ret_key);
}

bool client_is_key(struct slice key)
{
    for (size_t i = 0; i < key.len; i++)
        if (key.at[i] < ' ' || key.at[i] > '~')
            return false;
    return key.len > 0 && key.len <= KEY_TEXT_MAX;
}

static struct slice header_of(const struct headers *headers, struct slice name)
{
    const struct header *found = headers_find(headers, name);
    return found ? found->value : SLICE("");
}

/* What counts of the body; `*ret_labels`: payload_labels. */
static bool hash_operation_body(const struct client_operation *operation, struct arena *arena,
                                struct digest *ret_hash, unsigned *ret_labels)
{
    static const struct payload_selection all = {.mode = PAYLOAD_ALL};
    struct payload_input input = {
        .body = operation->body,
        .content_type = header_of(operation->headers, SLICE("Content-Type")),
        .content_encoding = header_of(operation->headers, SLICE("Content-Encoding")),
        .max_decoded = arena->max};
    struct payload payload;
    enum payload_error error = payload_read(arena, &input, &payload);
    if (error == PAYLOAD_BAD_CODING) { /* it counts as it is */
        input.content_encoding = SLICE("unknown");
        error = payload_read(arena, &input, &payload);
    }
    if (error != PAYLOAD_OK)
        return false;
    *ret_labels = payload_labels(&payload, &all);
    return payload_hash(&payload, &all, ret_hash);
}

/* The normalised path behind the origin. */
static struct slice place_of(const struct client_operation *operation, struct arena *arena)
{
    BUF_AUTO struct buf place = buf_make(PREFIX_MAX + operation->url.path.len * 3);
    struct slice path = path_normalise(operation->url.path, arena);
    if (!path.at)
        return path;
    url_write_origin(&place, &operation->url);
    buf_add_slice(&place, path);
    return buf_ok(&place) ? arena_copy(arena, buf_slice(&place)) : slice_of(NULL);
}

static bool hash_target(const struct client_operation *operation, unsigned labels,
                        struct arena *arena, struct digest *ret_hash)
{
    static const struct rule rule = {
        .query = RULE_QUERY_ALL, .n_headers = 1, .headers = {{"If-Match", 8}}};
    struct template_facts facts = {.method = operation->method,
                                   .query = operation->url.query,
                                   .headers = operation->headers,
                                   .labels = labels};
    struct slice place = place_of(operation, arena);
    return place.at && rule_target_hash(&rule, &facts, place, arena, ret_hash);
}

bool client_name_record(const struct client_operation *operation, struct arena *arena,
                        struct attempt *attempt)
{
    static const struct payload_selection all = {.mode = PAYLOAD_ALL};
    BUF_AUTO struct buf recipe = buf_make(PREFIX_MAX);
    unsigned labels = 0;
    payload_recipe_write(&all, &recipe);
    attempt->rule = SLICE(CLIENT_RULE);
    attempt->key = operation->key;
    attempt->recipe = buf_ok(&recipe) ? arena_copy(arena, buf_slice(&recipe)) : slice_of(NULL);
    return attempt->recipe.at &&
           hash_operation_body(operation, arena, &attempt->begin.payload_hash, &labels) &&
           hash_target(operation, labels, arena, &attempt->begin.target_hash);
}
