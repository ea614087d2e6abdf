/* SPDX-License-Identifier: Apache-2.0 */
/* What an event may be, and whether two say the same. */
#include "core/event_type.h"
#include "core/request/canonical.h"
#include "core/tenant.h"
#include "webhook/event.h"

#define TENANT_MAX ((size_t)1024)
#define TIME_MAX ((size_t)64)

static bool is_id(struct slice text)
{
    return text.len <= EVENT_ID_MAX && slice_is_word(text, "_-");
}

static bool is_printable_type(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] < ' ' || text.at[i] > '~')
            return false;
    return true;
}

const char *webhook_event_problem(const struct webhook_event *event)
{
    if (!event_type_is_good(event->type))
        return "needs a type: words of A-Z a-z 0-9 _ joined by dots, such as refund.created";
    if (event->id.len > 0 && !is_id(event->id))
        return "has an id that is not 1 to 255 of A-Z a-z 0-9 _ -";
    if (event->tenant.len > TENANT_MAX || !is_printable_type(event->tenant))
        return "has a tenant that is not 1 to 1024 bytes of printable ASCII";
    if (tenant_is_reserved(event->tenant))
        return "has a tenant that begins with '" TENANT_HIDDEN
               "', which marks one that a gateway stores as a hash";
    if (event->time.len > TIME_MAX || !is_printable_type(event->time))
        return "has a time that is not printable ASCII of at most 64 bytes";
    return event->data.len > EVENT_DATA_MAX ? "has data of more than 1 MiB" : NULL;
}

bool webhook_event_check(const struct webhook_event *event, struct arena *arena,
                         const char **ret_problem)
{
    struct json *root;
    *ret_problem = webhook_event_problem(event);
    if (*ret_problem || event->data.len == 0)
        return !*ret_problem;
    enum json_error error = json_parse(arena, event->data, &root, NULL);
    if (error == JSON_OK)
        return true;
    *ret_problem =
        error == JSON_NO_MEMORY ? "does not fit into memory" : "has data that is no JSON";
    return false;
}

/* What is no canonical JSON (SQL has numbers without bounds) is compared as it is. False: no
 * memory. */
static bool add_canonical_event(struct slice text, struct arena *arena, struct buf *form)
{
    struct json *root;
    struct canonical canonical = {.buf = form};
    enum json_error error = json_parse(arena, text, &root, NULL);
    if (error == JSON_OK)
        return canonical_add_json(&canonical, root, (struct json_set){0}) && buf_ok(form);
    buf_add_slice(form, text);
    return error != JSON_NO_MEMORY && buf_ok(form);
}

bool webhook_event_same(const struct store_event *a, const struct store_event *b,
                        struct arena *arena, bool *ret_same)
{
    BUF_AUTO struct buf of_a = buf_make(SIZE_MAX), of_b = buf_make(SIZE_MAX);
    *ret_same = slice_eq(a->type, b->type) && slice_eq(a->tenant, b->tenant);
    if (!*ret_same || slice_eq(a->data, b->data))
        return true;
    if (!add_canonical_event(a->data, arena, &of_a) || !add_canonical_event(b->data, arena, &of_b))
        return false;
    *ret_same = slice_eq(buf_slice(&of_a), buf_slice(&of_b));
    return true;
}
