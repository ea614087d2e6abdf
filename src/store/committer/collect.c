/* SPDX-License-Identifier: Apache-2.0 */
#include "store/committer/collect.h"

#include "base/check.h"
#include "base/clock.h"

void collect_note_batch(struct collect *collect, size_t ended, size_t queued, int64_t began,
                        int64_t now)
{
    int64_t part = (now - began) / COLLECT_PART;
    collect->most = ended + queued < COLLECT_ENOUGH ? ended + queued : COLLECT_ENOUGH;
    collect->until = clock_after(now, part < COLLECT_MOST_US ? part : COLLECT_MOST_US);
    collect->rest -= collect->rest > 0;
}

int64_t collect_wait_us(const struct collect *collect, size_t queued, int64_t now)
{
    CHECK(collect->most <= COLLECT_ENOUGH && collect->rest <= COLLECT_REST);
    bool waits = collect->rest == 0 && queued > 0 && queued < collect->most;
    return waits && now < collect->until ? collect->until - now : 0;
}

void collect_note_wait(struct collect *collect, size_t queued_before, size_t queued)
{
    if (queued < queued_before + queued_before / 4 + 1)
        collect->rest = COLLECT_REST;
}
