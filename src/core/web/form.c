/* SPDX-License-Identifier: Apache-2.0 */
#include "core/web/form.h"

#include "base/text/percent.h"
#include "core/request/query.h"

/* The URL Standard's serializer; '~' alone of what no URL escapes is escaped. */
static void add_form_byte(struct buf *buf, char c)
{
    char escape[PERCENT_SIZE];
    if (c == ' ') {
        buf_add_char(buf, '+');
    } else if (slice_is_word(slice_make(&c, 1), "*-._")) {
        buf_add_char(buf, c);
    } else {
        percent_write(c, escape);
        buf_add(buf, escape, sizeof escape);
    }
}

static void add_form_encoded(struct buf *buf, struct slice text)
{
    while (text.len > 0)
        add_form_byte(buf, percent_take(&text, true));
}

bool form_add_canonical(struct canonical *canonical, struct slice bytes)
{
    struct slice pair, name;
    for (bool first = true; query_take(&bytes, &pair); first = false) {
        struct slice value = slice_cut(pair, '=', &name);
        if (!first)
            buf_add_char(canonical->buf, '&');
        add_form_encoded(canonical->buf, name);
        if (value.at) {
            buf_add_char(canonical->buf, '=');
            add_form_encoded(canonical->buf, value);
        }
        if (!canonical_step(canonical))
            return false;
    }
    return buf_ok(canonical->buf);
}
