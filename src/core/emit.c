/* SPDX-License-Identifier: Apache-2.0 */
#include "core/emit.h"

#include "base/json/json.h"

#define PREFIX "evt_"
#define ID_BYTES 16
#define ARENA_MAX ((size_t)256 * 1024 * 1024) /* understood JSON takes up to 64 times its text */

void emit_id(const struct digest *key_hash, int64_t created_at, char ret_id[EMIT_ID_LEN + 1])
{
    char bytes[DIGEST_SIZE + sizeof created_at];
    memcpy(bytes, key_hash->bytes, DIGEST_SIZE);
    for (size_t i = 0; i < sizeof created_at; i++)
        bytes[DIGEST_SIZE + i] = (char)(unsigned char)(created_at >> (56 - 8 * i));
    struct digest digest = digest_of(slice_make(bytes, sizeof bytes));
    memcpy(ret_id, PREFIX, strlen(PREFIX));
    hex_encode(digest.bytes, ID_BYTES, ret_id + strlen(PREFIX));
    ret_id[EMIT_ID_LEN] = '\0';
}

bool emit_read_body(struct slice body, struct slice *ret_data)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct json *root;
    enum json_error error = JSON_SYNTAX;
    if (body.len > 0 && body.len <= EMIT_DATA_MAX)
        error = json_parse(&arena, body, &root, NULL);
    *ret_data = error == JSON_OK ? body : SLICE("");
    return error != JSON_NO_MEMORY;
}
