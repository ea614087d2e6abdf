/* SPDX-License-Identifier: Apache-2.0 */
#include "core/copied.h"

/* One that is to be written over: both point into the texts. */
struct part {
    struct slice old;
    struct slice new;
};

static const struct json *scalar_at(const struct json *root, struct slice pointer)
{
    for (size_t i = 0; i < pointer.len; i++)
        if (pointer.at[i] == '/' && !json_at_as(root, slice_first(pointer, i), JSON_OBJECT))
            return NULL;
    const struct json *found = json_at(root, pointer);
    return found && found->type <= JSON_STRING ? found : NULL;
}

static bool find_copied_part(const struct copied_text *request, const struct copied_text *response,
                             struct slice pointer, struct part *ret_part)
{
    const struct json *new = scalar_at(request->json, pointer);
    const struct json *old = scalar_at(response->json, pointer);
    if (!new || !old)
        return false;
    *ret_part =
        (struct part){json_written(response->bytes, old), json_written(request->bytes, new)};
    return ret_part->new.len <= COPIED_VALUE_MAX && !slice_eq(ret_part->old, ret_part->new);
}

/* In the order of the response, each place once. */
static size_t insert_copied_part(struct part *parts, size_t n, struct part part)
{
    size_t i = n;
    while (i > 0 && parts[i - 1].old.at > part.old.at)
        i--;
    if (i > 0 && parts[i - 1].old.at == part.old.at)
        return n;
    memmove(&parts[i + 1], &parts[i], (n - i) * sizeof *parts);
    parts[i] = part;
    return n + 1;
}

bool copied_write(const struct copied_members *members, const struct copied_text *request,
                  const struct copied_text *response, struct buf *buf)
{
    struct part parts[COPIED_MAX], part;
    size_t n = 0;
    const char *from = response->bytes.at, *end = response->bytes.at + response->bytes.len;
    for (size_t i = 0; i < members->n; i++)
        if (find_copied_part(request, response, members->at[i], &part))
            n = insert_copied_part(parts, n, part);
    for (size_t i = 0; i < n; i++) {
        buf_add(buf, from, (size_t)(parts[i].old.at - from));
        buf_add_slice(buf, parts[i].new);
        from = parts[i].old.at + parts[i].old.len;
    }
    if (n > 0)
        buf_add(buf, from, (size_t)(end - from));
    return n > 0;
}
