/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three lines and a body: Content-Type, Content-Encoding, recipe. The hash is that of the canonical
 * bytes and the same at a second reading; a form's canonical form is its own; another boundary
 * changes nothing; a recipe comes back as it was.
 */
#include "base/check.h"
#include "core/request/payload.h"
#include "fuzz.h"

#define ROOM (256U << 20)
#define DECODED_MAX (1U << 20)
#define OTHER_BOUNDARY "another-boundary-0123456789"

struct input {
    struct slice type;
    struct slice coding;
    struct payload_selection selection;
    struct slice body;
};

static void check_recipe(const struct payload_selection *selection)
{
    ARENA_AUTO struct arena arena = arena_make(ROOM);
    BUF_AUTO struct buf once = buf_make(ROOM);
    BUF_AUTO struct buf twice = buf_make(ROOM);
    struct payload_selection back;
    payload_recipe_write(selection, &once);
    CHECK(payload_recipe_read(buf_slice(&once), &arena, &back));
    payload_recipe_write(&back, &twice);
    CHECK(buf_ok(&twice) && slice_eq(buf_slice(&once), buf_slice(&twice)));
    CHECK(back.mode == selection->mode && back.n_pointers == selection->n_pointers);
}

static struct input take_input(struct slice bytes, struct arena *arena)
{
    struct input input = {.selection = {.mode = PAYLOAD_ALL}};
    struct slice recipe;
    bytes = slice_cut(bytes, '\n', &input.type);
    bytes = slice_cut(bytes, '\n', &input.coding);
    input.body = slice_cut(bytes, '\n', &recipe);
    if (payload_recipe_read(recipe, arena, &input.selection))
        check_recipe(&input.selection);
    return input;
}

/* Reads `body`; false: refused, which a second reading must do for the same reason. */
static bool read_and_hash(const struct input *input, struct slice type, struct slice body,
                          struct digest *ret_hash)
{
    ARENA_AUTO struct arena arena = arena_make(ROOM);
    BUF_AUTO struct buf canonical = buf_make(ROOM);
    struct payload payload;
    enum payload_error error = payload_read(
        &arena, &(struct payload_input){body, type, input->coding, DECODED_MAX}, &payload);
    CHECK(error != PAYLOAD_NO_MEMORY);
    if (error != PAYLOAD_OK)
        return false;
    CHECK(payload_hash(&payload, &input->selection, ret_hash));
    CHECK(payload_canonical(&payload, &input->selection, &canonical));
    struct digest of_bytes = digest_of(buf_slice(&canonical));
    CHECK(digest_eq(ret_hash, &of_bytes));
    return true;
}

static void check_form(const struct payload *payload, struct slice type)
{
    static const struct payload_selection everything = {.mode = PAYLOAD_ALL};
    ARENA_AUTO struct arena arena = arena_make(ROOM);
    BUF_AUTO struct buf once = buf_make(ROOM);
    BUF_AUTO struct buf twice = buf_make(ROOM);
    struct payload again;
    CHECK(payload_canonical(payload, &everything, &once));
    CHECK(payload_read(&arena, &(struct payload_input){buf_slice(&once), type, SLICE(""), 0},
                       &again) == PAYLOAD_OK);
    CHECK(again.kind == PAYLOAD_IS_FORM);
    CHECK(payload_canonical(&again, &everything, &twice));
    CHECK(slice_eq(buf_slice(&once), buf_slice(&twice)));
    struct slice value = payload_form_value(payload, &arena, SLICE("a"));
    struct slice same = payload_form_value(&again, &arena, SLICE("a"));
    CHECK(slice_eq(value, same) && (value.at == NULL) == (same.at == NULL));
}

/* Replaces "--boundary" at line starts, where a valid body has it only as a delimiter. */
static void rewrite_boundary(const struct payload *payload, struct buf *buf)
{
    struct slice rest = payload->bytes;
    size_t cut = 2 + payload->boundary.len;
    bool line_start = true;
    while (rest.len > 0) {
        bool here = line_start && rest.len >= cut && slice_starts(rest, SLICE("--")) &&
                    slice_starts(slice_skip(rest, 2), payload->boundary);
        if (here)
            buf_add_str(buf, "--" OTHER_BOUNDARY);
        else
            buf_add_char(buf, rest.at[0]);
        line_start = !here && rest.at[0] == '\n' && buf->len > 1 && buf->at[buf->len - 2] == '\r';
        rest = slice_skip(rest, here ? cut : 1);
    }
}

static void check_multipart(const struct payload *payload)
{
    const struct input plain = {.selection = {.mode = PAYLOAD_ALL}};
    BUF_AUTO struct buf other = buf_make(ROOM);
    struct digest hash;
    struct digest rewritten;
    if (memmem(payload->bytes.at, payload->bytes.len, OTHER_BOUNDARY, strlen(OTHER_BOUNDARY)))
        return;
    CHECK(payload_hash(payload, &plain.selection, &hash));
    rewrite_boundary(payload, &other);
    CHECK(read_and_hash(&plain, SLICE("multipart/form-data; boundary=\"" OTHER_BOUNDARY "\""),
                        buf_slice(&other), &rewritten));
    CHECK(digest_eq(&hash, &rewritten));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    ARENA_AUTO struct arena arena = arena_make(ROOM);
    const struct input input = take_input(slice_make(bytes, n), &arena);
    struct payload payload;
    struct digest once;
    struct digest twice;
    bool read = read_and_hash(&input, input.type, input.body, &once);
    CHECK(read == read_and_hash(&input, input.type, input.body, &twice));
    if (!read)
        return 0;
    CHECK(digest_eq(&once, &twice));
    CHECK(payload_read(&arena,
                       &(struct payload_input){input.body, input.type, input.coding, DECODED_MAX},
                       &payload) == PAYLOAD_OK);
    if (payload.kind == PAYLOAD_IS_FORM)
        check_form(&payload, input.type);
    if (payload.kind == PAYLOAD_IS_MULTIPART)
        check_multipart(&payload);
    return 0;
}
