/* SPDX-License-Identifier: Apache-2.0 */
#include "core/retry/disposition.h"
#include "base/check.h"

static bool has_place(int status)
{
    return status >= REMEMBER_STATUS_LEAST && status <= REMEMBER_STATUS_MOST;
}

void remember_policy_move(struct remember_policy *policy, int status, enum response_sort sort)
{
    CHECK(has_place(status));
    policy->sorts[status - REMEMBER_STATUS_LEAST] = (unsigned char)sort;
}

enum response_sort remember_policy_sort(const struct remember_policy *policy, int status)
{
    if (!has_place(status))
        return status > REMEMBER_STATUS_MOST ? SORT_IN_DOUBT : SORT_FINAL;
    return (enum response_sort)policy->sorts[status - REMEMBER_STATUS_LEAST];
}

static void move_statuses(struct remember_policy *policy, const int *statuses, size_t n,
                          enum response_sort sort)
{
    for (size_t i = 0; i < n; i++)
        remember_policy_move(policy, statuses[i], sort);
}

static const int redirects[] = {301, 307, 308};

struct remember_policy remember_policy_of(enum remember remember)
{
    static const int not_done[] = {401, 403, 407, 408, 425, 429, 503, 508};
    static const int in_doubt[] = {500, 502, 504};
    struct remember_policy policy = {{0}};
    move_statuses(&policy, redirects, COUNT_OF(redirects), SORT_NOT_DONE);
    if (remember == REMEMBER_ALL)
        return policy;
    move_statuses(&policy, not_done, COUNT_OF(not_done), SORT_NOT_DONE);
    move_statuses(&policy, in_doubt, COUNT_OF(in_doubt), SORT_IN_DOUBT);
    for (int status = 400; remember == REMEMBER_SUCCESS && status < 500; status++)
        remember_policy_move(&policy, status, SORT_NOT_DONE);
    return policy;
}

static bool is_redirect(int status)
{
    for (size_t i = 0; i < COUNT_OF(redirects); i++)
        if (status == redirects[i])
            return true;
    return false;
}

static bool is_refusing_status(int status)
{
    return status >= 400 && status < 500;
}

static enum disposition_write write_of_final(int status)
{
    return is_refusing_status(status) ? WRITE_FAIL : WRITE_COMPLETE;
}

/* `error` is ERROR_NONE where there is a response of the upstream to pass on. */
static struct disposition disposition_in_doubt(enum record_unknown unknown, enum error error)
{
    enum disposition_next next = error == ERROR_NONE ? NEXT_RESPONSE : NEXT_ERROR;
    if (unknown == RECORD_UNKNOWN_PROBE)
        next = NEXT_PROBE;
    return (struct disposition){WRITE_DOUBT, next, error};
}

static struct disposition disposition_of_response(int status, enum response_sort sort,
                                                  enum record_unknown unknown)
{
    switch (sort) {
    case SORT_IN_DOUBT:
        return disposition_in_doubt(unknown, ERROR_NONE);
    case SORT_NOT_DONE:
        return (struct disposition){is_redirect(status) ? WRITE_DROP : WRITE_RELEASE, NEXT_RESPONSE,
                                    ERROR_NONE};
    case SORT_FINAL:
        return (struct disposition){write_of_final(status), NEXT_RESPONSE, ERROR_NONE};
    }
    UNREACHABLE();
}

static bool has_code(const struct headers *headers, struct slice wanted)
{
    const struct header *code = headers_find(headers, SLICE("Error-Code"));
    return code && slice_eq(code->value, wanted);
}

enum response_says disposition_says(int status, const struct headers *headers)
{
    if (has_code(headers, SLICE("PROVIDER.duplicate")))
        return SAYS_DUPLICATE;
    bool in_progress =
        is_refusing_status(status) && has_code(headers, SLICE("CONFLICT.idempotency.in_progress"));
    return in_progress ? SAYS_IN_PROGRESS : SAYS_NOTHING;
}

enum response_says disposition_says_by_body(const struct body_conditions *conditions, int status,
                                            const struct headers *headers, struct slice body)
{
    ARENA_AUTO struct arena arena = arena_make(CONDITION_ARENA_MAX);
    if (!body_conditions_are_on(conditions))
        return SAYS_NOTHING;
    const struct json *root = condition_read_body(headers, body, &arena);
    bool in_doubt = response_conditions_hold(&conditions->in_doubt, status, root, &arena);
    bool not_done = response_conditions_hold(&conditions->not_done, status, root, &arena);
    if (in_doubt || arena.failed)
        return SAYS_IN_DOUBT;
    return not_done ? SAYS_NOT_DONE : SAYS_NOTHING;
}

static enum response_sort sort_of(int status, enum response_says says,
                                  const struct remember_policy *policy)
{
    switch (says) {
    case SAYS_DUPLICATE:
        return SORT_FINAL;
    case SAYS_IN_DOUBT:
        return SORT_IN_DOUBT;
    case SAYS_IN_PROGRESS:
    case SAYS_NOT_DONE:
        return SORT_NOT_DONE;
    case SAYS_NOTHING:
        return remember_policy_sort(policy, status);
    }
    UNREACHABLE();
}

struct disposition disposition_of_exchange(enum exchange_end end, int status,
                                           enum response_says says, enum record_unknown unknown,
                                           const struct remember_policy *policy)
{
    switch (end) {
    case EXCHANGE_RESPONDED:
        return disposition_of_response(status, sort_of(status, says, policy), unknown);
    case EXCHANGE_NOT_SENT:
    case EXCHANGE_PORTAL:
        return (struct disposition){WRITE_RELEASE, NEXT_ERROR, ERROR_UPSTREAM_UNAVAILABLE};
    case EXCHANGE_BROKE:
        return disposition_in_doubt(unknown, ERROR_UPSTREAM_BROKE);
    case EXCHANGE_MALFORMED:
        return disposition_in_doubt(unknown, ERROR_UPSTREAM_MALFORMED);
    case EXCHANGE_TIMED_OUT:
        return disposition_in_doubt(unknown, ERROR_UPSTREAM_TIMEOUT);
    case EXCHANGE_TOKEN_STALE:
        return (struct disposition){WRITE_NOTHING, NEXT_DECIDE, ERROR_NONE};
    }
    UNREACHABLE();
}

bool disposition_token_is_stale(int status, const struct headers *headers)
{
    return is_refusing_status(status) &&
           has_code(headers, SLICE("CONFLICT.idempotency.token_stale"));
}

struct disposition disposition_of_probe(enum exchange_end end, int status, bool not_found)
{
    bool responded = end == EXCHANGE_RESPONDED;
    if (responded && not_found)
        return (struct disposition){WRITE_RELEASE, NEXT_DECIDE, ERROR_NONE};
    if (responded && status >= 200 && status < 300)
        return (struct disposition){WRITE_COMPLETE, NEXT_RESPONSE, ERROR_NONE};
    return (struct disposition){WRITE_DOUBT, NEXT_ERROR, ERROR_OUTCOME_UNKNOWN};
}

static bool is_about_caller(int status)
{
    return status == 401 || status == 403 || status == 407 || status == 429;
}

struct disposition disposition_of_inquiry(enum exchange_end end, int status, bool not_found)
{
    bool responded = end == EXCHANGE_RESPONDED;
    if (responded && not_found)
        return (struct disposition){WRITE_TURN, NEXT_FORWARD, ERROR_NONE};
    if (responded && status >= 200 && status < 300)
        return (struct disposition){WRITE_COMPLETE, NEXT_DECIDE, ERROR_NONE};
    if (responded && is_about_caller(status))
        return (struct disposition){WRITE_RELEASE, NEXT_RESPONSE, ERROR_NONE};
    return (struct disposition){WRITE_RELEASE, NEXT_ERROR, ERROR_UNPROVED};
}
