/* SPDX-License-Identifier: Apache-2.0 */
#include "core/event_type.h"

static bool is_good(struct slice text, bool may_end_open)
{
    struct slice word, rest = text;
    if (text.len > EVENT_TYPE_MAX)
        return false;
    do {
        rest = slice_cut(rest, '.', &word);
        bool is_open = may_end_open && !rest.at && slice_eq(word, SLICE("*"));
        if (!is_open && !slice_is_word(word, "_"))
            return false;
    } while (rest.at);
    return true;
}

bool event_type_is_good(struct slice text)
{
    return is_good(text, false);
}

bool event_type_is_pattern(struct slice text)
{
    return is_good(text, true);
}

bool event_type_matches(struct slice pattern, struct slice type)
{
    if (pattern.len == 0 || pattern.at[pattern.len - 1] != '*')
        return slice_eq(pattern, type);
    pattern.len--; /* up to the dot before it; empty: anything */
    return type.len > pattern.len && slice_starts(type, pattern);
}
