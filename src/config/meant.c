/* SPDX-License-Identifier: Apache-2.0 */
#include "config/meant.h"
#include "base/clock.h"
#include "base/text/ascii.h"

#define WORD_MAX 16
#define NUMBER_MAX UINT64_C(1000000000000)

#define MINUTE (60 * CLOCK_US_PER_S)
#define HOUR (60 * MINUTE)

const struct unit_words duration_words[] = {
    {"ms|msec|msecs|millisecond|milliseconds", CLOCK_US_PER_MS},
    {"|s|sec|secs|second|seconds", CLOCK_US_PER_S},
    {"m|min|mins|minute|minutes", MINUTE},
    {"h|hr|hrs|hour|hours", HOUR},
    {"d|day|days", 24 * HOUR},
    {"w|week|weeks", 7 * 24 * HOUR},
    {"y|year|years", 365 * 24 * HOUR},
    {NULL, 0},
};

const struct unit_words size_words[] = {
    {"|b|byte|bytes", 1},
    {"k|kb|kib", UINT64_C(1) << 10},
    {"m|mb|mib", UINT64_C(1) << 20},
    {"g|gb|gib", UINT64_C(1) << 30},
    {"t|tb|tib", UINT64_C(1) << 40},
    {NULL, 0},
};

const struct unit_words number_words[] = {{"", 1}, {"k", 1000}, {"m", 1000000}, {NULL, 0}};

static uint64_t worth_of(struct slice word, const struct unit_words *units)
{
    char lower[WORD_MAX];
    if (word.len > sizeof lower)
        return 0;
    for (size_t i = 0; i < word.len; i++)
        lower[i] = ascii_lower(word.at[i]);
    while (units->names && slice_item(slice_of(units->names), '|', slice_make(lower, word.len)) < 0)
        units++;
    return units->worth;
}

/* Takes digits, among them `_` and `,`. */
static uint64_t take_leading_number(struct slice *rest)
{
    uint64_t number = 0;
    while (rest->len > 0 && number < NUMBER_MAX &&
           (ascii_is_digit(rest->at[0]) || rest->at[0] == '_' || rest->at[0] == ',')) {
        if (ascii_is_digit(rest->at[0]))
            number = number * 10 + (uint64_t)(rest->at[0] - '0');
        *rest = slice_skip(*rest, 1);
    }
    return number;
}

static struct slice take_letters(struct slice *rest)
{
    struct slice text = slice_trim(*rest);
    size_t n = 0;
    while (n < text.len && ascii_is_letter(text.at[n]))
        n++;
    *rest = slice_trim(slice_skip(text, n));
    return slice_first(text, n);
}

/* One number, which may have one digit behind a point, and its unit; several need one each. */
static bool take_part(struct slice *rest, const struct unit_words *units, uint64_t *sum)
{
    uint64_t tenths, part;
    if (rest->len == 0 || !ascii_is_digit(rest->at[0]))
        return false;
    tenths = take_leading_number(rest) * 10;
    if (rest->len > 1 && rest->at[0] == '.' && ascii_is_digit(rest->at[1])) {
        tenths += (uint64_t)(rest->at[1] - '0');
        *rest = slice_skip(*rest, 2);
    }
    struct slice unit = take_letters(rest);
    if (unit.len == 0 && (*sum > 0 || rest->len > 0))
        return false;
    uint64_t worth = worth_of(unit, units);
    return worth > 0 && !__builtin_mul_overflow(tenths, worth, &part) && part % 10 == 0 &&
           !__builtin_add_overflow(*sum, part / 10, sum);
}

bool meant_quantity(struct slice text, const struct unit_words *units, uint64_t *ret_value)
{
    *ret_value = 0;
    do
        if (!take_part(&text, units, ret_value))
            return false;
    while (text.len > 0);
    return true;
}

/* What other programs call it, or other people. */
static const struct {
    const char *words; /* divided by '|' */
    struct slice name;
} synonyms[] = {
    {"yes|on|y|1|enabled", {"true", 4}},
    {"no|off|n|0|disabled|none", {"false", 5}},
    {"no|false|none|disabled", {"off", 3}},
    {"deny|block|reject|fail|error", {"refuse", 6}},
    {"allow|forward|proxy", {"pass", 4}},
    {"method|methods|path|paths|route|url|location", {"match", 5}},
    {"port|bind|address", {"listen", 6}},
    {"backend|proxy_pass|target|origin", {"upstream", 8}},
    {"database|db|dsn|storage", {"store", 5}},
    {"expires|expiry|expiration|max_age|retention", {"ttl", 3}},
    {"header|idempotency_key", {"key", 3}},
    {"metrics", {"admin", 5}},
};

struct slice meant_name(struct slice given, const struct slice *names, size_t n)
{
    for (size_t i = 0; given.len > 0 && i < sizeof synonyms / sizeof *synonyms; i++)
        if (slice_item(slice_of(synonyms[i].words), '|', given) >= 0 &&
            slice_is_among(synonyms[i].name, names, n))
            return synonyms[i].name;
    return slice_make(NULL, 0);
}
