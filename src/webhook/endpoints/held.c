/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/endpoints/held.h"

#include "base/json/json.h"

/* False: it is no list of so many texts. */
static bool read_texts(const struct json *list, size_t most, struct slice *texts, size_t *ret_n)
{
    *ret_n = 0;
    if (!list || list->type != JSON_ARRAY || list->count > most)
        return false;
    for (const struct json *one = list->first; one; one = one->next) {
        if (one->type != JSON_STRING)
            return false;
        texts[(*ret_n)++] = one->text;
    }
    return true;
}

static void read_order(const struct json *root, struct webhook_endpoint *endpoint)
{
    const struct json *ordered = json_at(root, SLICE("/ordered"));
    const struct json *failure = json_at_as(root, SLICE("/on_failure"), JSON_STRING);
    endpoint->ordered = ordered && ordered->type != JSON_FALSE;
    endpoint->skips = failure && slice_eq(failure->text, SLICE("skip"));
}

bool held_endpoint_read(struct slice name, struct slice settings, struct arena *arena,
                        struct webhook_endpoint *ret_endpoint)
{
    struct json *root = NULL;
    *ret_endpoint =
        (struct webhook_endpoint){.name = name, .ordered = true, .retry = RETRY_PROFILE_webhook};
    if (json_parse(arena, settings, &root, NULL) == JSON_OK) {
        read_order(root, ret_endpoint);
        if (!read_texts(json_at(root, SLICE("/tenants")), WEBHOOK_TENANTS_MAX,
                        ret_endpoint->tenants, &ret_endpoint->n_tenants))
            ret_endpoint->n_tenants = 0;
    }
    if (!root || !read_texts(json_at(root, SLICE("/types")), WEBHOOK_TYPES_MAX, ret_endpoint->types,
                             &ret_endpoint->n_types)) {
        ret_endpoint->n_types = 1;
        ret_endpoint->types[0] = SLICE("*");
    }
    return !arena->failed;
}
