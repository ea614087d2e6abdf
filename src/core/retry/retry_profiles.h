/* SPDX-License-Identifier: Apache-2.0 */
/*
 * retry_profiles: the one table of retry profiles (contract section 6), apart from what is done
 * with them (core/retry/retry.h), so that metrics count by the same names.
 */
#ifndef PAWL_CORE_RETRY_PROFILES_H
#define PAWL_CORE_RETRY_PROFILES_H

/* X(name, form, jitter, part, attempts, total, base, cap, list, timeout_by_delay): the members of
 * struct retry_schedule, with S() for seconds and MS() for milliseconds. */
#define RETRY_PROFILES(X)                                                                          \
    X(user_facing, BACKOFF, SPREAD, 0, 5, S(10), MS(100), S(2), NULL, false)                       \
    X(api, BACKOFF, ADDED, 0, 4, S(10), S(1), S(30), NULL, false)                                  \
    X(background, BACKOFF, ADDED, 0, 6, S(300), S(1), S(30), NULL, false)                          \
    X(scheduled, BACKOFF, ADDED, 0, 4, S(3600), S(1), S(30), NULL, false)                          \
    X(webhook, OFFSETS, UPWARD, 10, 10, S(86400), 0, CLOCK_NEVER, webhook_offsets, true)           \
    X(queue, BACKOFF, ADDED, 0, 10, CLOCK_NEVER, S(1), S(300), NULL, true)

enum retry_profile {
#define X(name, ...) RETRY_PROFILE_##name,
    RETRY_PROFILES(X)
#undef X
        RETRY_PROFILE_COUNT
};

#endif
