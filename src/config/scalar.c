/* SPDX-License-Identifier: Apache-2.0 */
#include "config/scalar.h"

static bool add_exponent_word(struct slice text, struct buf *buf)
{
    static const char *const words[][2] = {
        {"", "null"},       {"~", "null"},      {"null", "null"},  {"Null", "null"},
        {"NULL", "null"},   {"true", "true"},   {"True", "true"},  {"TRUE", "true"},
        {"false", "false"}, {"False", "false"}, {"FALSE", "false"}};
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        if (slice_eq(text, slice_of(words[i][0]))) {
            buf_add_str(buf, words[i][1]);
            return true;
        }
    }
    return false;
}

/* 0x1F, 0o17: what 64 bits hold. */
static bool add_based(struct slice text, struct buf *buf)
{
    static const char digits[] = "0123456789abcdef";
    unsigned base = slice_starts(text, SLICE("0x")) ? 16 : slice_starts(text, SLICE("0o")) ? 8 : 0;
    uint64_t value = 0;
    struct slice rest = slice_skip(text, text.len < 2 ? text.len : 2);
    if (base == 0 || rest.len == 0)
        return false;
    for (size_t i = 0; i < rest.len; i++) {
        char lower = (char)(rest.at[i] >= 'A' && rest.at[i] <= 'F' ? rest.at[i] + 32 : rest.at[i]);
        const char *digit = lower ? memchr(digits, lower, base) : NULL;
        if (!digit || value > (UINT64_MAX >> 4))
            return false;
        value = value * base + (uint64_t)(digit - digits);
    }
    buf_printf(buf, "%llu", (unsigned long long)value);
    return true;
}

/* The digits that it begins with. */
static struct slice take_scalar_digits(struct slice *text)
{
    struct slice digits = slice_first(*text, slice_digits(*text));
    *text = slice_skip(*text, digits.len);
    return digits;
}

static bool is_exponent(struct slice text)
{
    if (!slice_take(&text, 'e') && !slice_take(&text, 'E'))
        return text.len == 0;
    if (!slice_take(&text, '+'))
        (void)slice_take(&text, '-');
    return text.len > 0 && slice_digits(text) == text.len;
}

/* JSON has no +1, 007, .5 and 5. */
static bool add_scalar_decimal(struct slice text, struct buf *buf)
{
    bool negative = slice_take(&text, '-');
    if (!negative)
        (void)slice_take(&text, '+');
    struct slice whole = take_scalar_digits(&text), fraction = {0};
    if (slice_take(&text, '.'))
        fraction = take_scalar_digits(&text);
    if ((whole.len == 0 && fraction.len == 0) || !is_exponent(text))
        return false;
    while (whole.len > 1 && slice_take(&whole, '0'))
        ;
    buf_add_str(buf, negative ? "-" : "");
    buf_add_slice(buf, whole.len > 0 ? whole : SLICE("0"));
    buf_add_str(buf, fraction.len > 0 ? "." : "");
    buf_add_slice(buf, fraction);
    buf_add_slice(buf, text);
    return true;
}

bool scalar_add_json(struct slice text, struct buf *buf)
{
    return add_exponent_word(text, buf) || add_based(text, buf) || add_scalar_decimal(text, buf);
}

bool scalar_is_no_json(struct slice text)
{
    if (!slice_take(&text, '-'))
        (void)slice_take(&text, '+');
    return slice_eq_nocase(text, SLICE(".inf")) || slice_eq_nocase(text, SLICE(".nan"));
}
