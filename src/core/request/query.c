/* SPDX-License-Identifier: Apache-2.0 */
#include "core/request/query.h"
#include "base/text/percent.h"

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

bool query_names(struct slice pair, struct slice name)
{
    struct slice sent;
    slice_cut(pair, '=', &sent);
    return percent_spells(sent, true, name);
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
