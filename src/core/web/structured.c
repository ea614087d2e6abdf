/* SPDX-License-Identifier: Apache-2.0 */
#include "core/web/structured.h"
#include "base/text/ascii.h"
#include "base/text/percent.h"
#include "base/text/utf8.h"

/* The byte at the front, or NUL, which is nowhere in a well-formed field. */
static char front_of(struct slice rest)
{
    return rest.len > 0 ? rest.at[0] : '\0';
}

static size_t take_structured_digits(struct slice *rest)
{
    size_t n = slice_digits(*rest);
    *rest = slice_skip(*rest, n);
    return n;
}

bool structured_string(struct slice *rest, struct slice *ret_inside, bool *ret_escaped)
{
    bool escaped = false;
    if (front_of(*rest) != '"')
        return false;
    for (size_t i = 1; i < rest->len; i++) {
        char c = rest->at[i];
        if (c == '"') {
            *ret_inside = slice_make(rest->at + 1, i - 1);
            *ret_escaped = escaped;
            *rest = slice_skip(*rest, i + 1);
            return true;
        }
        if (c == '\\') {
            escaped = true;
            i++;
            if (i == rest->len || (rest->at[i] != '"' && rest->at[i] != '\\'))
                return false;
        } else if (c < 0x20 || c > 0x7E) {
            return false;
        }
    }
    return false;
}

struct slice structured_unescape(struct slice inside, struct arena *arena)
{
    char *text = arena_alloc(arena, inside.len);
    size_t len = 0;
    for (size_t i = 0; text && i < inside.len; i++) {
        if (inside.at[i] == '\\')
            i++;
        text[len++] = inside.at[i];
    }
    return slice_make(text, len);
}

/* 4.2.4: at most 15 digits, or 12 and a fraction of 1 to 3. */
static bool take_structured_number(struct slice *rest, bool integer_only)
{
    slice_take(rest, '-');
    size_t whole = take_structured_digits(rest);
    if (whole == 0 || whole > 15)
        return false;
    if (integer_only || !slice_take(rest, '.'))
        return true;
    size_t fraction = take_structured_digits(rest);
    return whole <= 12 && fraction >= 1 && fraction <= 3;
}

static bool take_token(struct slice *rest)
{
    size_t n = slice_span(*rest, SLICE_TOKEN_MARKS ":/");
    *rest = slice_skip(*rest, n);
    return n > 0;
}

static bool take_byte_sequence(struct slice *rest)
{
    *rest = slice_skip(*rest, 1);
    *rest = slice_skip(*rest, slice_span(*rest, "+/="));
    return slice_take(rest, ':');
}

/* 4.2.10: %"...", UTF-8 behind lower-case escapes; `rest` is behind the '%'. */
static bool take_display(struct slice *rest)
{
    char held[UTF8_LENGTH_MAX];
    size_t n = 0;
    if (!slice_take(rest, '"'))
        return false;
    while (rest->len > 0 && front_of(*rest) != '"') {
        char c = front_of(*rest);
        size_t taken = 1;
        if (c < 0x20 || c > 0x7E)
            return false;
        if (c == '%') {
            if (!percent_starts(*rest, &c) || ascii_is_upper(rest->at[1]) ||
                ascii_is_upper(rest->at[2]))
                return false;
            taken = PERCENT_SIZE;
        }
        held[n++] = c;
        if (utf8_length(slice_make(held, n)) == n)
            n = 0;
        else if (n == UTF8_LENGTH_MAX)
            return false;
        *rest = slice_skip(*rest, taken);
    }
    return n == 0 && slice_take(rest, '"');
}

static bool take_bare_item(struct slice *rest)
{
    struct slice inside;
    bool escaped;
    char c = front_of(*rest);
    if (c == '"')
        return structured_string(rest, &inside, &escaped);
    if (c == '-' || ascii_is_digit(c))
        return take_structured_number(rest, false);
    if (c == '*' || ascii_is_letter(c))
        return take_token(rest);
    if (c == ':')
        return take_byte_sequence(rest);
    if (slice_take(rest, '?'))
        return slice_take(rest, '0') || slice_take(rest, '1');
    if (slice_take(rest, '@'))
        return take_structured_number(rest, true);
    return slice_take(rest, '%') && take_display(rest);
}

static bool take_dictionary_key(struct slice *rest)
{
    size_t n = 0, most = slice_span(*rest, "_-.*");
    if (!ascii_is_lower(front_of(*rest)) && front_of(*rest) != '*')
        return false;
    while (n < most && !ascii_is_upper(rest->at[n]))
        n++;
    *rest = slice_skip(*rest, n);
    return true;
}

bool structured_parameters(struct slice *rest)
{
    struct slice at = *rest;
    while (slice_take(&at, ';')) {
        while (slice_take(&at, ' '))
            ;
        if (!take_dictionary_key(&at) || (slice_take(&at, '=') && !take_bare_item(&at)))
            return false;
    }
    *rest = at;
    return true;
}
