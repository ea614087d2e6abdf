/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retry-After: whatever it says, the next attempt is neither before the schedule nor after the
 * deadline; a date that is read is the date that is written. The same bytes as a body have an error
 * code, or none.
 */
#include "base/check.h"
#include "base/time/http_date.h"
#include "core/retry/retry.h"
#include "fuzz.h"

#define WALL (INT64_C(1795338000) * CLOCK_US_PER_S)

static void check_hint(enum retry_profile profile, int64_t hint_us)
{
    const struct retry_schedule *schedule = retry_profile_schedule(profile);
    struct retry_course course = retry_course_make(schedule, 1, CLOCK_US_PER_S, CLOCK_NEVER);
    int64_t plain = retry_plan_next(&course, RETRY_LATER, RETRY_NO_HINT, CLOCK_US_PER_S).at;
    struct retry_next next = retry_plan_next(&course, RETRY_LATER, hint_us, CLOCK_US_PER_S);
    if (next.end == RETRY_ENDS_HINT) {
        CHECK(clock_after(CLOCK_US_PER_S, hint_us) > course.deadline);
        return;
    }
    CHECK(next.end == RETRY_GOES_ON);
    CHECK(next.at >= plain && next.at <= course.deadline);
    CHECK(next.at - CLOCK_US_PER_S >= hint_us || course.deadline == CLOCK_NEVER);
}

static void check_date(struct slice text, int64_t now_us)
{
    char written[HTTP_DATE_LEN + 1];
    int64_t us, again;
    if (!http_date_read(text, now_us, &us))
        return;
    http_date_write(us, written);
    CHECK(us >= INT64_C(253402300800) * CLOCK_US_PER_S ||
          (http_date_read(slice_of(written), now_us, &again) && again == us));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ARENA_AUTO struct arena arena = arena_make(1 << 21);
    struct slice bytes = slice_make(data, size);
    struct headers headers;
    headers_clear(&headers);
    struct retry_answer answer = {.end = EXCHANGE_RESPONDED, .status = 409};
    headers_add(&headers, SLICE("Content-Type"), SLICE("application/problem+json"));
    CHECK(retry_read_answer(&headers, bytes, &arena, &answer));
    CHECK(answer.code.len <= size);
    CHECK(retry_judge(RETRY_BY_CALL, &answer, NULL, true) != RETRY_FINAL ||
          slice_eq(answer.code, SLICE("CONFLICT.idempotency.duplicate")));
    headers_add(&headers, SLICE("Retry-After"), bytes);
    int64_t hint_us = retry_read_hint(&headers, WALL);
    CHECK(hint_us >= RETRY_NO_HINT);
    for (int i = 0; i < RETRY_PROFILE_COUNT; i++)
        check_hint((enum retry_profile)i, hint_us);
    check_date(bytes, WALL);
    check_date(bytes, INT64_MIN);
    check_date(bytes, INT64_MAX);
    return 0;
}
