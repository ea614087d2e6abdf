/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/exchange/retry.h"
#include "base/check.h"
#include "base/crypto/random.h"
#include "gateway/events.h"
#include "gateway/exchange/reply.h"
#include "gateway/exchange/steps.h"

#define CODE_ARENA ((size_t)1 << 20)
#define ROOM_MOST_US CLOCK_US_PER_S /* of the time for all tries, for the last one's response */

static int64_t response_deadline(const struct exchange *x)
{
    return clock_first(x->client_deadline, x->tries_by);
}

/* A try that has no time for its response would leave in doubt what was not done. */
static int64_t last_try_by(const struct exchange *x, int64_t now)
{
    int64_t by = response_deadline(x);
    int64_t room = by > now ? clock_first((by - now) / 10, ROOM_MOST_US) : 0;
    return by - room;
}

/* No try of the course begins after `by`. */
static void bound_course(struct exchange *x, int64_t by)
{
    struct retry_course bounded =
        retry_course_make(x->course.schedule, x->course.seed, x->course.first_at, by);
    x->course.deadline = bounded.deadline;
}

void retry_begin_course(struct exchange *x)
{
    CHECK(x->step == EXCHANGE_FORWARD && x->attempt.token > 0);
    x->tried_in_doubt = false;
    if (!x->rule->retry.on)
        return;
    int64_t now = clock_boot_us();
    int64_t by = clock_first(last_try_by(x, now), x->attempt.send_by);
    if (x->course.attempts > 0) {
        bound_course(x, by);
    } else {
        x->course = retry_course_make(&x->rule->retry.schedule, random_u64(), now, by);
        retry_began(x->server, x->rule->retry.profile);
    }
}

void retry_take_back(struct exchange *x)
{
    CHECK(x->step == EXCHANGE_FORWARD && x->call.state == HTTP_CALL_CLOSED);
    if (x->course.attempts == 1)
        x->course.attempts = 0;
}

void retry_time_try(struct exchange *x)
{
    CHECK(x->step == EXCHANGE_FORWARD && x->tries_by > 0);
    int64_t most = x->rule->retry.on ? x->rule->retry.try_timeout_us : CLOCK_NEVER;
    x->deadline = clock_first(clock_after(clock_boot_us(), most), x->tries_by);
}

struct disposition retry_keep_doubt(struct exchange *x, struct disposition disposition)
{
    CHECK(x->step == EXCHANGE_FORWARD && (!x->tried_in_doubt || x->rule->retry.on));
    bool not_done = disposition.write == WRITE_RELEASE || disposition.write == WRITE_DROP;
    if (disposition.write == WRITE_DOUBT) {
        x->tried_in_doubt = true;
        x->doubt_cause = x->cause;
    }
    if (!x->tried_in_doubt || !not_done)
        return disposition;
    x->cause = x->doubt_cause;
    disposition.write = WRITE_DOUBT;
    if (disposition.next == NEXT_ERROR)
        disposition.error = ERROR_UPSTREAM_BROKE;
    return disposition;
}

/* A participant completes the record under its token: it would not notice a second try under the
 * same one, so that only what was not sent is sent again. */
static bool may_forward_again(const struct exchange *x, enum exchange_end end)
{
    enum disposition_write write = x->disposition.write;
    const struct record *record = &x->attempt.result.record;
    bool participates = x->rule->unknown == RECORD_UNKNOWN_PARTICIPANT ||
                        record->unknown == RECORD_UNKNOWN_PARTICIPANT;
    if (participates && end != EXCHANGE_NOT_SENT)
        return false;
    if (write == WRITE_DOUBT)
        return record_policy(record, x->rule->unknown) == RECORD_UNKNOWN_RETRY;
    return write == WRITE_RELEASE;
}

/* By status, as the rule sorts responses by it, and by the rule's conditions on its body; only of a
 * 409 its words count: one that cannot be read for want of memory may be busy. What is busy here is
 * an attempt as any other: somebody waits. */
static enum retry_class classify_try(const struct exchange *x, enum exchange_end end,
                                     int64_t *hint_us)
{
    ARENA_AUTO struct arena arena = arena_make(CODE_ARENA);
    struct retry_answer answer = {.end = end};
    if (end == EXCHANGE_RESPONDED)
        answer.status = x->response.status;
    answer.is_not_done = x->says == SAYS_NOT_DONE;
    bool is_read =
        answer.status != 409 ||
        retry_read_answer(&x->call.response.headers, buf_slice(&x->response.body), &arena, &answer);
    enum retry_class class =
        is_read ? retry_judge(RETRY_BY_CALL, &answer, NULL, false) : RETRY_BUSY;
    if (class < RETRY_BUSY)
        return class;
    *hint_us = *hint_us == RETRY_NO_HINT ? RETRY_BUSY_FIRST_US : *hint_us;
    return RETRY_LATER;
}

static const char *ended_by(enum retry_end end)
{
    return end == RETRY_ENDS_ATTEMPTS   ? "attempts"
           : end == RETRY_ENDS_DEADLINE ? "deadline"
           : end == RETRY_ENDS_HINT     ? "retry_after"
                                        : "budget";
}

static bool plan_next_forward(struct exchange *x, enum retry_class class, int64_t hint)
{
    int64_t now = clock_boot_us();
    struct retry_next next = retry_plan_next(&x->course, class, hint, now);
    CHECK(next.end != RETRY_GOES_ON || next.at <= x->course.deadline);
    bool goes_on = next.end == RETRY_GOES_ON && retry_takes_budget(x->server, now);
    struct metrics *metrics = x->server->config->metrics;
    if (goes_on)
        metrics_retried(metrics, x->rule->retry.profile, next.at - now);
    else
        metrics_retry_exhausted(metrics, x->rule->retry.profile);
    exchange_log_retry(x, next.at - now, goes_on ? NULL : ended_by(next.end));
    x->retry_at = next.at;
    return goes_on;
}

bool retry_plans_again(struct exchange *x, enum exchange_end end)
{
    CHECK(!x->tried_in_doubt || x->disposition.write != WRITE_RELEASE);
    bool live = end == EXCHANGE_RESPONDED && !x->response.whole;
    if (!x->rule->retry.on || live || http_session_is_draining(&x->client->session))
        return false;
    int64_t hint = RETRY_NO_HINT;
    if (end == EXCHANGE_RESPONDED)
        hint = retry_read_hint(&x->call.response.headers, clock_wall_us());
    enum retry_class class = classify_try(x, end, &hint);
    if (class < RETRY_LATER)
        return false;
    if (may_forward_again(x, end))
        return plan_next_forward(x, class, hint);
    enum disposition_write write = x->disposition.write;
    if ((write == WRITE_DOUBT || write == WRITE_RELEASE) && x->disposition.next != NEXT_PROBE)
        retry_ends_unknown(x);
    return false;
}

void retry_ends_unknown(const struct exchange *x)
{
    if (x->rule->retry.on)
        exchange_log_retry(x, 0, "unknown");
}

/* The next try will have a lease of its own. */
bool retry_plans_begin(struct exchange *x)
{
    CHECK(x->step == EXCHANGE_SETTLE && !x->attempt.begin.spent);
    if (!x->rule->retry.on || x->client_state != CLIENT_WAITS ||
        http_session_is_draining(&x->client->session))
        return false;
    int64_t now = clock_boot_us();
    bound_course(x, last_try_by(x, now));
    return plan_next_forward(x, RETRY_LATER, x->hint_at > now ? x->hint_at - now : RETRY_NO_HINT);
}

/* False: the gateway drains, or stood still for so long that no time is left. */
static bool sleep_until_retry(struct exchange *x)
{
    struct http_session *session = &x->client->session;
    bool drains = false;
    x->parker = (struct parker){.waker = fiber_parker()};
    session->waiting = &x->parker;
    while (!(drains = http_session_is_draining(session)) && clock_boot_us() < x->retry_at)
        fiber_wait(NULL, 0, x->retry_at);
    session->waiting = NULL;
    return !drains && clock_boot_us() < response_deadline(x);
}

/* Whoever waits for the record, or comes first, may be its next owner: this client then waits for
 * that one's response, no longer than for its own. What fails next is probed in its turn. */
static enum exchange_step begin_next(struct exchange *x)
{
    int64_t left = response_deadline(x) - clock_boot_us();
    x->attempt.wait_us = clock_first(x->attempt.wait_us, left > 0 ? left : 0);
    x->failure = ERROR_NONE;
    x->failed.status = 0;
    return EXCHANGE_DECIDE;
}

/* A process that ends in the wait would leave a lease behind, and what was not done in doubt. After
 * a probe there is no lease. */
enum exchange_step retry_wait(struct exchange *x)
{
    bool owns = x->before == EXCHANGE_FORWARD;
    CHECK(x->call.state == HTTP_CALL_CLOSED && x->retry_at <= x->course.deadline);
    CHECK(x->course.attempts < x->course.schedule->attempts);
    if (!sleep_until_retry(x))
        return owns ? EXCHANGE_SETTLE : reply_failure(x, true);
    x->course.attempts++;
    x->further += owns;
    return owns ? EXCHANGE_FORWARD : begin_next(x);
}
