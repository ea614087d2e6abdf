/* SPDX-License-Identifier: Apache-2.0 */
#include "base/time/duration.h"
#include "base/check.h"
#include "base/clock.h"

struct unit {
    struct slice name;
    uint64_t worth;
};

/* Largest first: each fits whatever the ones before it fit. */
static const struct unit duration_units[] = {
    {{"d", 1}, UINT64_C(24) * 3600 * CLOCK_US_PER_S},
    {{"h", 1}, UINT64_C(3600) * CLOCK_US_PER_S},
    {{"m", 1}, UINT64_C(60) * CLOCK_US_PER_S},
    {{"s", 1}, CLOCK_US_PER_S},
    {{"ms", 2}, CLOCK_US_PER_MS},
};
static const struct unit size_units[] = {
    {{"GiB", 3}, UINT64_C(1) << 30},
    {{"MiB", 3}, UINT64_C(1) << 20},
    {{"KiB", 3}, UINT64_C(1) << 10},
    {{"", 0}, 1},
};
/* Reads a number and one of `units`; the product is at most `max`. */
static bool parse_units(struct slice text, const struct unit *units, size_t n_units, uint64_t max,
                        uint64_t *ret_value)
{
    struct slice digits = slice_first(text, slice_digits(text));
    struct slice name = slice_skip(text, digits.len);
    uint64_t number;
    if (digits.len > 1 && digits.at[0] == '0')
        return false;
    for (size_t i = 0; i < n_units; i++) {
        if (!slice_eq(name, units[i].name))
            continue;
        if (!slice_to_u64(digits, max / units[i].worth, &number))
            return false;
        *ret_value = number * units[i].worth;
        return true;
    }
    return false;
}

bool duration_parse(struct slice text, int64_t *ret_us)
{
    uint64_t us;
    if (slice_eq(text, SLICE("forever"))) {
        *ret_us = CLOCK_NEVER;
        return true;
    }
    if (slice_eq(text, SLICE("0"))) {
        *ret_us = 0;
        return true;
    }
    if (!parse_units(text, duration_units, COUNT_OF(duration_units), CLOCK_NEVER - 1, &us))
        return false;
    *ret_us = (int64_t)us;
    return true;
}

void duration_print(struct buf *buf, int64_t us)
{
    static const struct unit finest = {{"us", 2}, 1};
    const struct unit *unit = &finest;
    CHECK(us >= 0);
    if (us == CLOCK_NEVER || us == 0) {
        buf_add_str(buf, us ? "forever" : "0");
        return;
    }
    for (size_t i = COUNT_OF(duration_units); i-- > 0;)
        if ((uint64_t)us % duration_units[i].worth == 0)
            unit = &duration_units[i];
    buf_add_u64(buf, (uint64_t)us / unit->worth);
    buf_add_slice(buf, unit->name);
}

bool size_parse(struct slice text, uint64_t *ret_bytes)
{
    return parse_units(text, size_units, COUNT_OF(size_units), UINT64_MAX, ret_bytes);
}
