/* SPDX-License-Identifier: Apache-2.0 */
#include "prober/round.h"

bool round_is_due(const struct round *round, int64_t now, int64_t stale)
{
    return stale > 0 && (now >= round->rest_until || stale != round->stale);
}

void round_note(struct round *round, bool found, bool ended, int64_t now, int64_t stale)
{
    bool any = round->found || found;
    bool rests = ended && !any;
    *round = (struct round){.found = any && !ended,
                            .rest_until = rests ? clock_after(now, ROUND_REST_US) : 0,
                            .stale = stale};
}
