/* SPDX-License-Identifier: Apache-2.0 */
#include "base/slice.h"
#include "base/check.h"
#include "base/text/ascii.h"

bool bytes_eq_nocase(const char *a, const char *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (a[i] != b[i] && ascii_lower(a[i]) != ascii_lower(b[i]))
            return false;
    return true;
}

bool slice_starts(struct slice s, struct slice prefix)
{
    return s.len >= prefix.len && slice_eq(slice_make(s.at, prefix.len), prefix);
}

struct slice slice_skip(struct slice s, size_t n)
{
    CHECK(n <= s.len);
    return n ? slice_make(s.at + n, s.len - n) : s;
}

static bool is_trimmed(char c)
{
    return c == ' ' || c == '\t';
}

struct slice slice_first(struct slice s, size_t n)
{
    return slice_make(s.at, s.len < n ? s.len : n);
}

struct slice slice_trim(struct slice s)
{
    while (s.len && is_trimmed(s.at[0]))
        s = slice_skip(s, 1);
    while (s.len && is_trimmed(s.at[s.len - 1]))
        s.len--;
    return s;
}

ptrdiff_t slice_find(struct slice s, char c)
{
    const char *found = s.len ? memchr(s.at, c, s.len) : NULL;
    return found ? found - s.at : -1;
}

struct slice slice_cut(struct slice s, char c, struct slice *ret_head)
{
    ptrdiff_t found = slice_find(s, c);
    if (found < 0) {
        *ret_head = s;
        return slice_make(NULL, 0);
    }
    *ret_head = slice_make(s.at, (size_t)found);
    return slice_skip(s, (size_t)found + 1);
}

bool slice_next(struct slice *list, char c, struct slice *ret_item)
{
    if (!list->at)
        return false;
    *list = slice_cut(*list, c, ret_item);
    return true;
}

ptrdiff_t slice_item(struct slice list, char c, struct slice item)
{
    struct slice one;
    for (ptrdiff_t i = 0; slice_next(&list, c, &one); i++)
        if (slice_eq(one, item))
            return i;
    return -1;
}

bool slice_take(struct slice *rest, char c)
{
    if (rest->len == 0 || rest->at[0] != c)
        return false;
    *rest = slice_skip(*rest, 1);
    return true;
}

size_t slice_digits(struct slice s)
{
    size_t n = 0;
    while (n < s.len && ascii_is_digit(s.at[n]))
        n++;
    return n;
}

size_t slice_span(struct slice s, const char *marks)
{
    size_t n = 0;
    while (n < s.len && s.at[n] != '\0' &&
           (ascii_is_digit(s.at[n]) || ascii_is_letter(s.at[n]) || strchr(marks, s.at[n])))
        n++;
    return n;
}

bool slice_is_word(struct slice s, const char *marks)
{
    return s.len > 0 && slice_span(s, marks) == s.len;
}

bool slice_to_u64(struct slice s, uint64_t max, uint64_t *ret_value)
{
    uint64_t value = 0; /* 19 digits always fit */
    if (s.len < 1 || s.len > 19)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        if (!ascii_is_digit(s.at[i]))
            return false;
        value = value * 10 + (uint64_t)(s.at[i] - '0');
    }
    if (value > max)
        return false;
    *ret_value = value;
    return true;
}

int hex_digit(char c)
{
    char lower = ascii_lower(c);
    if (ascii_is_digit(c))
        return c - '0';
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

bool slice_is_among(struct slice s, const struct slice *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (slice_eq_nocase(s, list[i]))
            return true;
    return false;
}
