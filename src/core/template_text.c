/* SPDX-License-Identifier: Apache-2.0 */
#include "core/template_text.h"
#include "base/check.h"
#include "base/percent.h"

/* How many bytes at the front of `rest` (not empty) stay as they are; 0: the first is encoded. */
static size_t stays(enum template_spelling spelling, struct slice rest)
{
    char decoded;
    static const char *const marks[] = {
        [TEMPLATE_SPELL_KEY] = SLICE_URL_MARKS "/@+",
        [TEMPLATE_SPELL_URL] = SLICE_URL_MARKS,
        [TEMPLATE_SPELL_PATH] = SLICE_URL_MARKS,
        [TEMPLATE_SPELL_QUERY] = SLICE_URL_MARKS "+",
    };
    bool is_url = spelling == TEMPLATE_SPELL_PATH || spelling == TEMPLATE_SPELL_QUERY;
    if (is_url && percent_starts(rest, &decoded))
        return PERCENT_SIZE;
    return slice_span(rest, marks[spelling]);
}

bool template_text_separates(struct slice literal, bool url)
{
    return slice_span(literal, url ? SLICE_URL_MARKS "+%" : SLICE_URL_MARKS "/@+%") < literal.len;
}

size_t template_text_spell(enum template_spelling spelling, struct slice *value, char *ret_text,
                           size_t room)
{
    size_t n = 0;
    CHECK(room >= PERCENT_SIZE);
    while (value->len > 0 && room - n >= PERCENT_SIZE) {
        size_t same = stays(spelling, *value);
        if (same > room - n)
            same = room - n;
        if (same > 0) {
            memcpy(ret_text + n, value->at, same);
            n += same;
            *value = slice_skip(*value, same);
            continue;
        }
        percent_write(value->at[0], ret_text + n);
        n += PERCENT_SIZE;
        *value = slice_skip(*value, 1);
    }
    return n;
}
