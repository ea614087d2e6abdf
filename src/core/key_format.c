/* SPDX-License-Identifier: Apache-2.0 */
/* `key_format:`; declared in core/key_header.h. */
#include "base/ascii.h"
#include "base/check.h"
#include "core/key_header.h"
#include "core/pattern.h"

struct key_format {
    enum key_format_kind kind;
    const struct pattern *pattern; /* with KEY_FORMAT_REGEX */
    struct slice text;             /* of the pattern */
};

const struct key_format *key_format_new(enum key_format_kind kind, struct slice pattern,
                                        struct arena *arena, struct slice *ret_problem)
{
    struct key_format *format = arena_alloc(arena, sizeof(*format));
    *ret_problem = SLICE("out of memory");
    if (!format)
        return NULL;
    *format = (struct key_format){.kind = kind, .text = arena_copy(arena, pattern)};
    if (kind == KEY_FORMAT_REGEX)
        format->pattern = pattern_compile(pattern, arena, ret_problem);
    return kind != KEY_FORMAT_REGEX || format->pattern ? format : NULL;
}

bool key_format_folds(const struct key_format *format)
{
    return format && (format->kind == KEY_FORMAT_UUID || format->kind == KEY_FORMAT_UUID4);
}

void key_format_describe(const struct key_format *format, struct buf *buf)
{
    static const char *const texts[] = {
        [KEY_FORMAT_ANY] = "anything",
        [KEY_FORMAT_UUID] = "a UUID, such as 8e03978e-40d5-43e8-bc93-6894a57f9324",
        [KEY_FORMAT_UUID4] = "a UUID of version 4, such as 8e03978e-40d5-43e8-bc93-6894a57f9324",
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

/* RFC 9562 4.1, 5.4: the variant 10 and version 4. */
static bool is_version4(struct slice uuid)
{
    return uuid.at[14] == '4' && strchr("89ab", ascii_lower(uuid.at[19]));
}

static bool match_uuid(const struct key_format *format, struct slice key, struct arena *arena,
                       struct slice *ret_key)
{
    if (!is_uuid(key) || (format->kind == KEY_FORMAT_UUID4 && !is_version4(key)))
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
        return match_uuid(format, key, arena, ret_key);
    case KEY_FORMAT_REGEX:
        *ret_key = key;
        return pattern_matches(format->pattern, key);
    }
    UNREACHABLE();
}
