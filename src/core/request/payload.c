/* SPDX-License-Identifier: Apache-2.0 */
#include "core/request/payload.h"

#include "base/check.h"
#include "base/compress/inflate.h"
#include "base/text/percent.h"
#include "core/request/canonical.h"
#include "core/request/query.h"
#include "core/web/form.h"
#include "core/web/multipart.h"

/* ---- what counts ---- */

static bool is_inside(struct slice pointer, struct slice of)
{
    return slice_starts(pointer, of) && (pointer.len == of.len || pointer.at[of.len] == '/');
}

bool payload_counts(const struct payload_selection *selection, struct slice pointer)
{
    bool listed = false;
    for (size_t i = 0; i < selection->n_pointers; i++)
        listed |= is_inside(pointer, selection->pointers[i]);
    switch (selection->mode) {
    case PAYLOAD_INCLUDE:
        return listed;
    case PAYLOAD_EXCLUDE:
        return !listed;
    case PAYLOAD_IGNORE:
        return false;
    case PAYLOAD_ALL:
    case PAYLOAD_RAW:
        break;
    }
    return true;
}

/* ---- reading ---- */

static enum payload_error read_json_payload(struct arena *arena, struct payload *payload)
{
    struct json *root;
    size_t offset;
    enum json_error error = json_parse(arena, payload->bytes, &root, &offset);
    if (error == JSON_NO_MEMORY)
        return PAYLOAD_NO_MEMORY;
    payload->problem = error;
    if (error != JSON_OK) {
        payload->problem_offset = offset;
        return PAYLOAD_OK;
    }
    payload->kind = PAYLOAD_IS_JSON;
    payload->json = root;
    return PAYLOAD_OK;
}

static void read_form(struct payload *payload)
{
    payload->malformed_form = !percent_is_valid(payload->bytes);
    if (!payload->malformed_form)
        payload->kind = PAYLOAD_IS_FORM;
}

static void read_multipart(struct payload *payload, struct slice parameters)
{
    struct slice boundary = multipart_boundary(parameters);
    payload->malformed_multipart = !boundary.at || !multipart_valid(payload->bytes, boundary);
    if (payload->malformed_multipart)
        return;
    payload->kind = PAYLOAD_IS_MULTIPART;
    payload->boundary = boundary;
}

static enum payload_error read_by_type(struct arena *arena, const struct payload_input *input,
                                       struct payload *payload)
{
    struct slice type;
    struct slice parameters = slice_cut(input->content_type, ';', &type);
    type = slice_trim(type);
    if (input->as_json || json_is_type(type))
        return read_json_payload(arena, payload);
    if (slice_eq_nocase(type, SLICE("application/x-www-form-urlencoded")))
        read_form(payload);
    else if (slice_eq_nocase(type, SLICE("multipart/form-data")))
        read_multipart(payload, parameters);
    return PAYLOAD_OK;
}

static enum payload_error inflate_into(struct arena *arena, enum inflate_format format,
                                       size_t max_decoded, struct slice *bytes)
{
    BUF_AUTO struct buf decoded = buf_make(max_decoded);
    switch (inflate_decode(format, *bytes, max_decoded, &decoded)) {
    case INFLATE_OK:
        *bytes = arena_copy(arena, buf_slice(&decoded));
        return bytes->at ? PAYLOAD_OK : PAYLOAD_NO_MEMORY;
    case INFLATE_TOO_LARGE:
        return PAYLOAD_TOO_LARGE;
    case INFLATE_BROKEN:
        return PAYLOAD_BAD_CODING;
    case INFLATE_NO_MEMORY:
        return PAYLOAD_NO_MEMORY;
    }
    UNREACHABLE();
}

/* RFC 9110 8.4.1. A body of no bytes has no coding either. */
static enum payload_error decode_payload(struct arena *arena, struct slice coding,
                                         size_t max_decoded, struct payload *payload)
{
    if (payload->bytes.len == 0 || coding.len == 0 || slice_eq_nocase(coding, SLICE("identity")))
        return PAYLOAD_OK;
    enum inflate_format format;
    if (inflate_format_read(coding, &format))
        return inflate_into(arena, format, max_decoded, &payload->bytes);
    payload->coding_unknown = true;
    return PAYLOAD_OK;
}

enum payload_error payload_read(struct arena *arena, const struct payload_input *input,
                                struct payload *ret_payload)
{
    struct payload payload = {.kind = PAYLOAD_IS_RAW, .bytes = input->body};
    struct slice coding = slice_trim(input->content_encoding);
    enum payload_error error = decode_payload(arena, coding, input->max_decoded, &payload);
    if (error == PAYLOAD_OK && !payload.coding_unknown)
        error = read_by_type(arena, input, &payload);
    if (error == PAYLOAD_OK)
        *ret_payload = payload;
    return error;
}

/* ---- canonical bytes ---- */

static bool add_all(struct canonical *canonical, const struct payload *payload)
{
    switch (payload->kind) {
    case PAYLOAD_IS_JSON:
        return canonical_add_json(canonical, payload->json, (struct json_set){0});
    case PAYLOAD_IS_FORM:
        return form_add_canonical(canonical, payload->bytes);
    case PAYLOAD_IS_MULTIPART:
        return multipart_add_canonical(canonical, payload->bytes, payload->boundary);
    case PAYLOAD_IS_RAW:
        /* Only multipart/form-data has a canonical form that could be mistaken for raw bytes. */
        if (payload->malformed_multipart)
            return multipart_add_malformed(canonical, payload->bytes);
        canonical_add(canonical, payload->bytes);
        return true;
    }
    UNREACHABLE();
}

static bool add_included(struct canonical *canonical, const struct json *root,
                         const struct payload_selection *selection)
{
    struct buf *buf = canonical->buf;
    buf_add_char(buf, '[');
    for (size_t i = 0; i < selection->n_pointers; i++) {
        const struct json *value = json_at(root, selection->pointers[i]);
        buf_add_str(buf, i > 0 ? ",[" : "[");
        json_add_canonical_string(buf, selection->pointers[i]);
        if (value) {
            buf_add_char(buf, ',');
            if (!canonical_add_json(canonical, value, (struct json_set){0}))
                return false;
        }
        buf_add_char(buf, ']');
    }
    buf_add_char(buf, ']');
    return true;
}

static bool add_not_excluded(struct canonical *canonical, const struct json *root,
                             const struct payload_selection *selection)
{
    const struct json *excluded[PAYLOAD_POINTERS_MAX];
    size_t n = 0;
    CHECK(selection->n_pointers <= PAYLOAD_POINTERS_MAX);
    for (size_t i = 0; i < selection->n_pointers; i++) {
        const struct json *value = json_at(root, selection->pointers[i]);
        if (value)
            excluded[n++] = value;
    }
    return canonical_add_json(canonical, root, (struct json_set){n, excluded});
}

static bool add_selected(struct canonical *canonical, const struct payload *payload,
                         const struct payload_selection *selection)
{
    bool json = payload->kind == PAYLOAD_IS_JSON;
    switch (selection->mode) {
    case PAYLOAD_ALL:
        return add_all(canonical, payload);
    case PAYLOAD_INCLUDE:
        if (json)
            return add_included(canonical, payload->json, selection);
        break;
    case PAYLOAD_EXCLUDE:
        if (json)
            return add_not_excluded(canonical, payload->json, selection);
        break;
    case PAYLOAD_RAW:
        break;
    case PAYLOAD_IGNORE:
        return true;
    }
    canonical_add(canonical, payload->bytes);
    return true;
}

bool payload_canonical(const struct payload *payload, const struct payload_selection *selection,
                       struct buf *buf)
{
    struct canonical canonical = {.buf = buf};
    return add_selected(&canonical, payload, selection) && canonical_end(&canonical);
}

bool payload_hash(const struct payload *payload, const struct payload_selection *selection,
                  struct digest *ret_hash)
{
    char room[1024];
    BUF_AUTO struct buf gathered = buf_on(room, sizeof room, SIZE_MAX);
    struct digest_stream stream;
    struct canonical canonical = {.buf = &gathered, .digest = &stream};
    digest_start(&stream);
    bool added = add_selected(&canonical, payload, selection) && canonical_end(&canonical);
    struct digest hash = digest_end(&stream);
    if (added)
        *ret_hash = hash;
    return added;
}

unsigned payload_labels(const struct payload *payload, const struct payload_selection *selection)
{
    if (selection->version == 1 || selection->mode == PAYLOAD_IGNORE)
        return 0;
    bool by_parts = payload->kind == PAYLOAD_IS_MULTIPART && selection->mode == PAYLOAD_ALL;
    return (by_parts ? 0 : PAYLOAD_LABEL_TYPE) |
           (payload->coding_unknown ? PAYLOAD_LABEL_CODING : 0);
}

struct slice payload_form_value(const struct payload *payload, struct arena *arena,
                                struct slice name)
{
    struct slice pairs = payload->bytes, pair, sent;
    while (payload->kind == PAYLOAD_IS_FORM && query_take(&pairs, &pair))
        if (query_names(pair, name))
            return percent_decode(slice_cut(pair, '=', &sent), true, arena);
    return slice_make(NULL, 0);
}
