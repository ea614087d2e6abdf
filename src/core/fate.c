/* SPDX-License-Identifier: Apache-2.0 */
#include "core/fate.h"
#include "base/check.h"

static bool has_place(int status)
{
    return status >= FATE_STATUS_LEAST && status <= FATE_STATUS_MOST;
}

void fate_policy_move(struct fate_policy *policy, int status, enum fate_sort sort)
{
    CHECK(has_place(status));
    policy->sorts[status - FATE_STATUS_LEAST] = (unsigned char)sort;
}

enum fate_sort fate_policy_sort(const struct fate_policy *policy, int status)
{
    if (!has_place(status))
        return FATE_SORT_FINAL;
    return (enum fate_sort)policy->sorts[status - FATE_STATUS_LEAST];
}

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

static void move_all(struct fate_policy *policy, const int *statuses, size_t n, enum fate_sort sort)
{
    for (size_t i = 0; i < n; i++)
        fate_policy_move(policy, statuses[i], sort);
}

static const int redirects[] = {301, 307, 308};

struct fate_policy fate_policy_of(enum fate_remember remember)
{
    static const int not_done[] = {401, 403, 407, 408, 425, 429, 503, 508};
    static const int in_doubt[] = {500, 502, 504};
    struct fate_policy policy = {{0}};
    move_all(&policy, redirects, N_OF(redirects), FATE_SORT_NOT_DONE);
    if (remember == FATE_REMEMBER_ALL)
        return policy;
    move_all(&policy, not_done, N_OF(not_done), FATE_SORT_NOT_DONE);
    move_all(&policy, in_doubt, N_OF(in_doubt), FATE_SORT_IN_DOUBT);
    for (int status = 400; remember == FATE_REMEMBER_SUCCESS && status < 500; status++)
        fate_policy_move(&policy, status, FATE_SORT_NOT_DONE);
    return policy;
}

static bool is_redirect(int status)
{
    for (size_t i = 0; i < N_OF(redirects); i++)
        if (status == redirects[i])
            return true;
    return false;
}

static enum fate_write write_of_final(int status)
{
    return status >= 400 && status < 500 ? FATE_FAIL : FATE_COMPLETE;
}

/* `error` is ERROR_NONE where there is an upstream's answer to tell. */
static struct fate doubt(enum record_unknown unknown, enum error error)
{
    enum fate_tell tell = error == ERROR_NONE ? FATE_TELL_ANSWER : FATE_TELL_ERROR;
    if (unknown == RECORD_UNKNOWN_PROBE)
        tell = FATE_PROBE;
    return (struct fate){FATE_DOUBT, tell, error};
}

static struct fate fate_of_answer(int status, enum fate_sort sort, enum record_unknown unknown)
{
    switch (sort) {
    case FATE_SORT_IN_DOUBT:
        return doubt(unknown, ERROR_NONE);
    case FATE_SORT_NOT_DONE:
        return (struct fate){is_redirect(status) ? FATE_DROP : FATE_RELEASE, FATE_TELL_ANSWER,
                             ERROR_NONE};
    case FATE_SORT_FINAL:
        return (struct fate){write_of_final(status), FATE_TELL_ANSWER, ERROR_NONE};
    }
    UNREACHABLE();
}

struct fate fate_of_exchange(enum exchange_end end, int status, bool provider_duplicate,
                             enum record_unknown unknown, const struct fate_policy *policy)
{
    enum fate_sort sort = provider_duplicate ? FATE_SORT_FINAL : fate_policy_sort(policy, status);
    switch (end) {
    case EXCHANGE_RESPONDED:
        return fate_of_answer(status, sort, unknown);
    case EXCHANGE_NOT_SENT:
        return (struct fate){FATE_RELEASE, FATE_TELL_ERROR, ERROR_UPSTREAM_UNAVAILABLE};
    case EXCHANGE_BROKE:
        return doubt(unknown, ERROR_UPSTREAM_BROKE);
    case EXCHANGE_TIMED_OUT:
        return doubt(unknown, ERROR_UPSTREAM_TIMEOUT);
    case EXCHANGE_TOKEN_STALE:
        return (struct fate){FATE_NOTHING, FATE_DECIDE, ERROR_NONE};
    }
    UNREACHABLE();
}

bool fate_token_is_stale(int status, const struct headers *headers)
{
    const struct header *code = headers_find(headers, SLICE("Error-Code"));
    return status >= 400 && status < 500 && code &&
           slice_eq(code->value, SLICE("CONFLICT.idempotency.token_stale"));
}

struct fate fate_of_probe(enum exchange_end end, int status)
{
    bool answered = end == EXCHANGE_RESPONDED;
    if (answered && status >= 200 && status < 300)
        return (struct fate){FATE_COMPLETE, FATE_TELL_ANSWER, ERROR_NONE};
    if (answered && status == 404)
        return (struct fate){FATE_RELEASE, FATE_DECIDE, ERROR_NONE};
    return (struct fate){FATE_DOUBT, FATE_TELL_ERROR, ERROR_OUTCOME_UNKNOWN};
}
