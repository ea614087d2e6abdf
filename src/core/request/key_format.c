/* SPDX-License-Identifier: Apache-2.0 */
/* `key_format:`; declared in core/request/key_header.h. */
#include "base/check.h"
#include "base/clock.h"
#include "base/text/ascii.h"
#include "core/request/key_header.h"
#include "core/request/pattern.h"

struct key_format {
    enum key_format_kind kind;
    const struct pattern *pattern; /* with KEY_FORMAT_REGEX */
    struct slice text;             /* of the pattern */
};

const struct key_format *key_format_new(enum key_format_kind kind, struct slice pattern,
                                        struct arena *arena, struct slice *ret_problem)
{
    struct key_format *format = arena_alloc(arena, sizeof *format);
    *ret_problem = SLICE("out of memory");
    if (!format)
        return NULL;
    *format = (struct key_format){.kind = kind, .text = arena_copy(arena, pattern)};
    if (kind == KEY_FORMAT_REGEX)
        format->pattern = pattern_compile(pattern, arena, ret_problem);
    return kind != KEY_FORMAT_REGEX || format->pattern ? format : NULL;
}

bool key_format_kind_folds(enum key_format_kind kind)
{
    return kind == KEY_FORMAT_UUID || kind == KEY_FORMAT_UUID4 || kind == KEY_FORMAT_UUID7;
}

bool key_format_folds(const struct key_format *format)
{
    return format && key_format_kind_folds(format->kind);
}

void key_format_describe(const struct key_format *format, struct buf *buf)
{
    static const char *const texts[] = {
        [KEY_FORMAT_ANY] = "anything",
        [KEY_FORMAT_UUID] = "a UUID, such as 8e03978e-40d5-43e8-bc93-6894a57f9324",
        [KEY_FORMAT_UUID4] = "a UUID of version 4, such as 8e03978e-40d5-43e8-bc93-6894a57f9324",
        [KEY_FORMAT_UUID7] = "a UUID of version 7, such as 01961e9c-5a30-7b3e-9c1d-2f6a8e4b7d05",
        [KEY_FORMAT_REGEX] = "what the regular expression %.*s matches",
    };
    buf_printf(buf, texts[format->kind], SLICE_ARG(format->text));
}

/* ---- matching ---- */

static bool is_uuid(struct slice key)
{
    if (key.len != 36)
        return false;
    for (size_t i = 0; i < key.len; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? key.at[i] != '-' : hex_digit(key.at[i]) < 0)
            return false;
    }
    return true;
}

/* RFC 9562 4.1, 4.2: the variant 10 and the version. */
static bool is_version(struct slice uuid, char version)
{
    return uuid.at[14] == version && strchr("89ab", ascii_lower(uuid.at[19]));
}

static bool is_kind(enum key_format_kind kind, struct slice key)
{
    return is_uuid(key) && (kind != KEY_FORMAT_UUID4 || is_version(key, '4')) &&
           (kind != KEY_FORMAT_UUID7 || is_version(key, '7'));
}

int64_t key_made_at(struct slice key)
{
    int64_t ms = 0;
    if (!is_kind(KEY_FORMAT_UUID7, key))
        return 0;
    for (size_t i = 0; i < 13; i++) /* the first 48 bits */
        ms = i == 8 ? ms : ms << 4 | hex_digit(key.at[i]);
    return ms * CLOCK_US_PER_MS;
}

static bool match_uuid(const struct key_format *format, struct slice key, struct arena *arena,
                       struct slice *ret_key)
{
    if (!is_kind(format->kind, key))
        return false;
    char *folded = arena_alloc(arena, key.len);
    for (size_t i = 0; folded && i < key.len; i++)
        folded[i] = ascii_lower(key.at[i]);
    if (folded)
        *ret_key = slice_make(folded, key.len);
    return folded;
}

bool key_format_match(const struct key_format *format, struct slice key, struct arena *arena,
                      struct slice *ret_key)
{
    switch (format->kind) {
    case KEY_FORMAT_ANY:
        *ret_key = key;
        return true;
    case KEY_FORMAT_UUID:
    case KEY_FORMAT_UUID4:
    case KEY_FORMAT_UUID7:
        return match_uuid(format, key, arena, ret_key);
    case KEY_FORMAT_REGEX:
        *ret_key = key;
        return pattern_matches(format->pattern, key);
    }
    UNREACHABLE();
}
