/* SPDX-License-Identifier: Apache-2.0 */
#include "core/request/payload.h"
#include "inside/inside.h"

enum pawl_error pawl_payload_hash(const void *body, size_t size, char ret_hash[PAWL_HASH_SIZE])
{
    static const struct payload_selection all = {.mode = PAYLOAD_ALL};
    ARENA_AUTO struct arena arena = arena_make(SIZE_MAX);
    const struct payload_input input = {
        .body = slice_make(body, size), .as_json = true, .max_decoded = SIZE_MAX};
    struct payload payload;
    struct digest hash;
    enum payload_error error = payload_read(&arena, &input, &payload);
    if (error == PAYLOAD_NO_MEMORY || !payload_hash(&payload, &all, &hash))
        return PAWL_NO_MEMORY;
    hex_encode(hash.bytes, DIGEST_SIZE, ret_hash);
    return PAWL_OK;
}
