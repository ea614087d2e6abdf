/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Idempotency-Key value: what strict syntax takes, lenient syntax takes with the same key;
 * every key, written as a String again, is read as itself. The same bytes as a `key_format` pattern
 * either get a reason or a regex that can be asked.
 */
#include "base/check.h"
#include "core/request/key_header.h"
#include "core/template/template.h"
#include "fuzz.h"

static void check_quoted(struct slice key, struct arena *arena)
{
    BUF_AUTO struct buf text = buf_make(2 * KEY_TEXT_MAX + 2);
    struct slice again;
    buf_add_char(&text, '"');
    for (size_t i = 0; i < key.len; i++) {
        if (key.at[i] == '"' || key.at[i] == '\\')
            buf_add_char(&text, '\\');
        buf_add_char(&text, key.at[i]);
    }
    buf_add_char(&text, '"');
    CHECK(buf_ok(&text));
    CHECK(key_value_read(buf_slice(&text), KEY_SYNTAX_STRICT, arena, &again) == KEY_HEADER_OK);
    CHECK(slice_eq(key, again));
}

static void check_value(struct slice value, struct arena *arena)
{
    struct slice lenient;
    struct slice strict;
    enum key_header result = key_value_read(value, KEY_SYNTAX_LENIENT, arena, &lenient);
    if (key_value_read(value, KEY_SYNTAX_STRICT, arena, &strict) == KEY_HEADER_OK)
        CHECK(result == KEY_HEADER_OK && slice_eq(lenient, strict));
    if (result != KEY_HEADER_OK)
        return;
    CHECK(lenient.len > 0 && lenient.len <= KEY_TEXT_MAX);
    for (size_t i = 0; i < lenient.len; i++)
        CHECK(lenient.at[i] >= 0x20 && lenient.at[i] <= 0x7E);
    check_quoted(lenient, arena);
}

static void check_pattern(struct slice pattern, struct arena *arena)
{
    struct slice problem = {NULL, 0};
    struct slice key;
    const struct key_format *format = key_format_new(KEY_FORMAT_REGEX, pattern, arena, &problem);
    CHECK(format || problem.len > 0);
    if (format && key_format_match(format, pattern, arena, &key))
        CHECK(slice_eq(key, pattern));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ARENA_AUTO struct arena arena = arena_make(1 << 20);
    struct slice bytes = slice_make(data, size);
    check_value(bytes, &arena);
    if (size <= KEY_TEXT_MAX)
        check_pattern(bytes, &arena);
    CHECK(!arena.failed);
    return 0;
}
