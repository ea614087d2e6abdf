/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/lib/print.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/headers.h"
#include "base/text/utf8.h"
#include "base/time/timestamp.h"
#include "cli/command/command.h"
#include <stdio.h>

void print_escaped(struct buf *buf, struct slice text)
{
    while (text.len > 0) {
        size_t length = utf8_length(text);
        struct slice character = slice_make(text.at, length > 0 ? length : 1);
        text = slice_skip(text, character.len);
        if (character.at[0] == '\\') {
            buf_add_str(buf, "\\\\");
        } else if (length > 0 && !utf8_is_hidden(character)) {
            buf_add_slice(buf, character);
        } else {
            for (size_t i = 0; i < character.len; i++)
                buf_printf(buf, "\\x%02x", (unsigned char)character.at[i]);
        }
    }
}

void print_text(struct buf *buf, struct slice text)
{
    if (text.len == 0)
        buf_add_char(buf, '-');
    print_escaped(buf, text);
}

void print_moment(struct buf *buf, int64_t us)
{
    if (us == CLOCK_NEVER)
        buf_add_str(buf, "forever");
    else if (us == 0 || !timestamp_print(buf, us))
        buf_add_char(buf, '-');
}

void print_label(struct buf *buf, const char *label)
{
    CHECK(strlen(label) < 14);
    buf_printf(buf, "%-14s", label);
}

void print_fact(struct buf *buf, const char *label, struct slice text)
{
    print_label(buf, label);
    print_text(buf, text);
    buf_add_char(buf, '\n');
}

void print_fact_moment(struct buf *buf, const char *label, int64_t us)
{
    print_label(buf, label);
    print_moment(buf, us);
    buf_add_char(buf, '\n');
}

void print_fact_number(struct buf *buf, const char *label, int64_t number)
{
    print_label(buf, label);
    buf_add_i64(buf, number);
    buf_add_char(buf, '\n');
}

void print_fields(struct buf *buf, struct slice fields)
{
    for (struct slice line; fields_next_line(&fields, &line);)
        print_fact(buf, "  ", line);
}

int print_buf(const char *command, const struct buf *buf)
{
    if (!buf_ok(buf))
        return command_failed(command, EXIT_UNAVAILABLE, "out of memory");
    fwrite(buf->at, 1, buf->len, stdout);
    return EXIT_DONE;
}
