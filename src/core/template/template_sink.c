/* SPDX-License-Identifier: Apache-2.0 */
/* Where the text of a template goes, and how values are spelled in it. */
#include "base/text/percent.h"
#include "core/template/template_priv.h"

void template_sink_add(struct template_sink *sink, struct slice text)
{
    sink->len += text.len;
    if (sink->filled)
        filled_add_text(sink->filled, text);
    else if (sink->buf)
        buf_add_slice(sink->buf, text);
    if (sink->stream)
        digest_add(sink->stream, text);
    if (sink->timeless)
        digest_add(sink->timeless, text);
}

void template_sink_add_clock(struct template_sink *sink, struct slice text)
{
    struct digest_stream *timeless = sink->timeless;
    if (sink->clocks) {
        size_t n = sink->clocks->n++;
        sink->clocks->range[n].at = sink->len;
        sink->clocks->range[n].len = text.len;
    }
    sink->timeless = NULL;
    template_sink_add(sink, text);
    sink->timeless = timeless;
}

/* How many bytes at the front of `rest` stay as they are; 0: the first is encoded. */
static size_t plain_length(enum template_spelling spelling, struct slice rest)
{
    static const char *const marks[] = {
        [TEMPLATE_SPELL_KEY] = SLICE_URL_MARKS "/@+",
        [TEMPLATE_SPELL_URL] = SLICE_URL_MARKS,
        [TEMPLATE_SPELL_PATH] = SLICE_URL_MARKS,
        [TEMPLATE_SPELL_QUERY] = SLICE_URL_MARKS "+",
    };
    char decoded;
    bool is_url = spelling == TEMPLATE_SPELL_PATH || spelling == TEMPLATE_SPELL_QUERY;
    if (is_url && percent_starts(rest, &decoded))
        return PERCENT_SIZE;
    return slice_span(rest, marks[spelling]);
}

void template_sink_spell(struct template_sink *sink, enum template_spelling spelling,
                         struct slice value)
{
    char escape[PERCENT_SIZE];
    if (sink->filled)
        filled_expect(sink->filled, value);
    while (value.len > 0) {
        size_t same = plain_length(spelling, value);
        if (same == 0)
            percent_write(value.at[0], escape);
        template_sink_add(sink,
                          same > 0 ? slice_first(value, same) : slice_make(escape, sizeof escape));
        value = slice_skip(value, same > 0 ? same : 1);
    }
}
