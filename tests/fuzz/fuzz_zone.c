/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of time zones: what is read says an offset of about a day at most for any time, and one
 * only between two changes that it lists.
 */
#include "base/check.h"
#include "base/time/zone.h"
#include "fuzz.h"

#define BOUND_S (27 * 3600)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ARENA_AUTO struct arena arena = arena_make(1 << 20);
    struct slice bytes = slice_make(data, size);
    struct zone zone;
    if (size > 1 << 16 || !zone_read(bytes, &arena, &zone)) {
        CHECK(!arena.failed);
        return 0;
    }
    for (int64_t t = -62135596800; t < 253370764800; t += INT64_C(86400) * 365) {
        int32_t offset_s = zone_offset_s(&zone, t);
        CHECK(offset_s > -BOUND_S && offset_s < BOUND_S);
    }
    for (size_t i = 0; i + 1 < zone.n; i++)
        CHECK(zone_offset_s(&zone, zone.at_s[i]) == zone_offset_s(&zone, zone.at_s[i + 1] - 1));
    return 0;
}
