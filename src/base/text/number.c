/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/number.h"
#include "base/text/ascii.h"

/* Exponents beyond this are as good as endless: no literal in memory has digits enough to bring
 * their value back into bounds. */
#define EXPONENT_SATURATED INT64_C(1000000000000000)

#define SHORT_DIGITS 15 /* written as they are */

/* The value 0.DIGITS x 10^point; ECMA-262 calls the count of digits k and the point n. */
struct decimal {
    bool negative;
    struct slice mantissa; /* of the literal; one '.' may stand in it */
    size_t skipped;        /* digits of the mantissa before the first that is not 0 */
    size_t count;          /* digits from there to the last that is not 0; 0: the value is zero */
    int64_t point;
};

/* What follows 'e' or 'E'. */
static int64_t read_exponent(struct slice text)
{
    bool negative = text.len > 0 && text.at[0] == '-';
    int64_t value = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (ascii_is_digit(text.at[i]) && value < EXPONENT_SATURATED)
            value = value * 10 + (text.at[i] - '0');
    }
    return negative ? -value : value;
}

/* Fills in skipped, count and point by walking the digits; `exponent` is the literal's own. */
static void measure_decimal(struct decimal *decimal, int64_t exponent)
{
    size_t seen = 0;
    size_t whole = SIZE_MAX;
    size_t last = 0;
    bool found = false;
    for (size_t i = 0; i < decimal->mantissa.len; i++) {
        char c = decimal->mantissa.at[i];
        if (c == '.')
            whole = seen;
        if (!ascii_is_digit(c))
            continue;
        if (c != '0') {
            decimal->skipped = found ? decimal->skipped : seen;
            found = true;
            last = seen;
        }
        seen++;
    }
    if (whole == SIZE_MAX)
        whole = seen;
    decimal->count = found ? last - decimal->skipped + 1 : 0;
    decimal->point = (int64_t)whole - (int64_t)decimal->skipped + exponent;
}

static struct decimal decimal_read(struct slice literal)
{
    struct decimal decimal = {.negative = literal.len > 0 && literal.at[0] == '-'};
    size_t end = 0;
    while (end < literal.len && literal.at[end] != 'e' && literal.at[end] != 'E')
        end++;
    decimal.mantissa = slice_make(literal.at, end);
    measure_decimal(&decimal, end < literal.len ? read_exponent(slice_skip(literal, end + 1)) : 0);
    return decimal;
}

static bool is_bounded(const struct decimal *decimal)
{
    if (decimal->count == 0)
        return true;
    int64_t exponent = decimal->point - 1;
    return decimal->count <= NUMBER_DIGITS_MAX && exponent <= NUMBER_EXPONENT_MAX &&
           exponent >= -NUMBER_EXPONENT_MAX;
}

/* Appends the digits, with a '.' after the first `whole` of them when that leaves both sides some.
 */
static void add_digits(struct buf *buf, const struct decimal *decimal, size_t whole)
{
    size_t seen = 0;
    size_t end = decimal->skipped + decimal->count;
    for (size_t i = 0; seen < end; i++) {
        char c = decimal->mantissa.at[i];
        if (!ascii_is_digit(c))
            continue;
        if (whole > 0 && seen == decimal->skipped + whole)
            buf_add_char(buf, '.');
        if (seen >= decimal->skipped)
            buf_add_char(buf, c);
        seen++;
    }
}

static void add_zeros(struct buf *buf, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        buf_add_char(buf, '0');
}

/* The four layouts of ECMA-262 6.1.6.1.20, steps 6 to 12. */
static void add_laid_out(struct buf *buf, const struct decimal *decimal)
{
    int64_t point = decimal->point;
    if (point > 0 && point <= 21) {
        add_digits(buf, decimal, (size_t)point);
        add_zeros(buf, point - (int64_t)decimal->count);
    } else if (point > -6 && point <= 0) {
        buf_add_str(buf, "0.");
        add_zeros(buf, -point);
        add_digits(buf, decimal, 0);
    } else {
        add_digits(buf, decimal, 1);
        buf_add_str(buf, point > 0 ? "e+" : "e");
        buf_add_i64(buf, point - 1);
    }
}

/* As nearly all are: 12500. */
static bool is_short_integer(struct slice literal)
{
    if (literal.len == 0 || literal.len > SHORT_DIGITS || literal.at[0] == '0')
        return false;
    for (size_t i = 0; i < literal.len; i++)
        if (!ascii_is_digit(literal.at[i]))
            return false;
    return true;
}

bool number_is_bounded(struct slice literal)
{
    if (is_short_integer(literal))
        return true;
    struct decimal decimal = decimal_read(literal);
    return is_bounded(&decimal);
}

bool number_add_canonical(struct buf *buf, struct slice literal)
{
    if (is_short_integer(literal)) {
        buf_add_slice(buf, literal);
        return true;
    }
    struct decimal decimal = decimal_read(literal);
    if (!is_bounded(&decimal))
        return false;
    if (decimal.count == 0) {
        buf_add_char(buf, '0');
        return true;
    }
    if (decimal.negative)
        buf_add_char(buf, '-');
    add_laid_out(buf, &decimal);
    return true;
}
