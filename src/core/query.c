/* SPDX-License-Identifier: Apache-2.0 */
#include "core/query.h"
#include "base/digest.h"

bool query_take(struct slice *query, struct slice *ret_pair)
{
    while (query->len > 0) {
        struct slice pair;
        *query = slice_cut(*query, '&', &pair);
        if (pair.len > 0) {
            *ret_pair = pair;
            return true;
        }
    }
    return false;
}

/* One decoded byte off the front of `text` (not empty). A '%' that starts no escape is itself. */
static char take_byte(struct slice *text, bool plus)
{
    char c = text->at[0];
    size_t taken = 1;
    if (c == '+' && plus)
        c = ' ';
    else if (c == '%' && text->len >= 3 && hex_decode(slice_make(text->at + 1, 2), &c, 1))
        taken = 3;
    *text = slice_skip(*text, taken);
    return c;
}

bool query_text_is(struct slice spelled, bool plus, struct slice text)
{
    while (spelled.len > 0 && text.len > 0) {
        if (take_byte(&spelled, plus) != text.at[0])
            return false;
        text = slice_skip(text, 1);
    }
    return spelled.len == 0 && text.len == 0;
}

bool query_names(struct slice pair, struct slice name)
{
    struct slice sent;
    slice_cut(pair, '=', &sent);
    return query_text_is(sent, true, name);
}

int query_find(struct slice query, struct slice name, struct slice *ret_value)
{
    struct slice pair;
    struct slice value = {NULL, 0};
    int found = 0;
    while (found < 2 && query_take(&query, &pair)) {
        struct slice sent;
        if (!query_names(pair, name))
            continue;
        value = slice_cut(pair, '=', &sent);
        found++;
    }
    if (found == 1)
        *ret_value = value;
    return found;
}

struct slice query_decode(struct slice text, bool plus, struct arena *arena)
{
    char *decoded = arena_alloc(arena, text.len);
    size_t len = 0;
    if (!decoded)
        return slice_make(NULL, 0);
    while (text.len > 0)
        decoded[len++] = take_byte(&text, plus);
    return slice_make(decoded, len);
}
