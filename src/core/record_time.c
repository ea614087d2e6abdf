/* SPDX-License-Identifier: Apache-2.0 */
/* Store time: what it makes of the clock, of tokens, and of keys that say when they were made. */
#include "base/check.h"
#include "core/record.h"

enum record_verdict record_judge_key(const struct record_begin *begin, int64_t now)
{
    if (begin->key_max_age_us == 0)
        return RECORD_PROCEED;
    if (begin->key_at > now + RECORD_KEY_AHEAD_US)
        return RECORD_KEY_AHEAD;
    return now > clock_after(begin->key_at, begin->key_max_age_us) ? RECORD_KEY_EXPIRED
                                                                   : RECORD_PROCEED;
}

int64_t record_ttl_us(const struct record_begin *begin, int64_t since)
{
    if (begin->key_max_age_us == 0 || record_judge_key(begin, since) != RECORD_PROCEED)
        return begin->ttl_us;
    int64_t until = clock_after(begin->key_at, begin->key_max_age_us);
    return clock_last(begin->ttl_us, until - since + 1);
}

int64_t record_next_token(int64_t last_token, int64_t now)
{
    int64_t token = clock_last(last_token + 1, now);
    CHECK(token > last_token && token <= RECORD_TOKEN_MOST);
    return token;
}

int64_t record_store_time(int64_t wall_us, int64_t high_water, int64_t boot_since_mark_us)
{
    CHECK(boot_since_mark_us >= 0);
    if (wall_us > RECORD_TIME_MOST)
        wall_us = 0;
    return clock_last(wall_us, high_water + boot_since_mark_us);
}
