/* SPDX-License-Identifier: Apache-2.0 */
/* What retry.h reads from responses: nothing in them is trusted. */
#include "base/http_date.h"
#include "base/json.h"
#include "core/retry.h"

/* Digits of seconds; more than there are microseconds is CLOCK_NEVER. */
static int64_t seconds_us(struct slice digits)
{
    uint64_t seconds;
    while (digits.len > 1 && slice_take(&digits, '0'))
        ;
    if (!slice_to_u64(digits, (uint64_t)(CLOCK_NEVER / CLOCK_US_PER_S), &seconds))
        return CLOCK_NEVER;
    return (int64_t)seconds * CLOCK_US_PER_S;
}

int64_t retry_read_hint(const struct headers *headers, int64_t wall_us)
{
    const struct header *line = headers_find(headers, SLICE("Retry-After"));
    if (!line || headers_count(headers, SLICE("Retry-After")) > 1)
        return RETRY_NO_HINT;
    struct slice value = slice_trim(line->value);
    int64_t at;
    if (value.len > 0 && slice_digits(value) == value.len)
        return seconds_us(value);
    if (!http_date_read(value, wall_us, &at))
        return RETRY_NO_HINT;
    return wall_us >= 0 && at > wall_us ? at - wall_us : 0;
}

struct slice retry_read_code(const struct headers *headers, struct slice body, struct arena *arena)
{
    const struct header *line = headers_find(headers, SLICE("Error-Code"));
    struct json *root;
    if (line)
        return line->value;
    if (body.len == 0 || body.len > RETRY_CODE_BODY_MAX ||
        json_parse(arena, body, &root, NULL) != JSON_OK)
        return SLICE("");
    const struct json *code = json_at_as(root, SLICE("/error_code"), JSON_STRING);
    if (!code)
        code = json_at_as(root, SLICE("/error/code"), JSON_STRING);
    return code ? code->text : SLICE("");
}
