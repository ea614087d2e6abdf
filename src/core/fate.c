/* SPDX-License-Identifier: Apache-2.0 */
#include "core/fate.h"
#include "base/check.h"

enum sort { SORT_FINAL, SORT_NOT_DONE, SORT_IN_DOUBT };

/* `remember: final` (contract section 5). A 500 may leave half an effect behind; where the upstream
 * can be asked, it is asked rather than believed. */
static enum sort sort_of(int status, enum record_unknown unknown)
{
    switch (status) {
    case 401:
    case 403:
    case 407:
    case 408:
    case 425:
    case 429:
    case 503:
        return SORT_NOT_DONE;
    case 500:
        return unknown == RECORD_UNKNOWN_PROBE ? SORT_IN_DOUBT : SORT_NOT_DONE;
    case 502:
    case 504:
        return SORT_IN_DOUBT;
    default:
        return SORT_FINAL;
    }
}

enum record_status fate_final_status(int http_status)
{
    return http_status >= 400 && http_status < 500 ? RECORD_FAILED : RECORD_COMPLETE;
}

static enum fate_write write_of_final(int status)
{
    return fate_final_status(status) == RECORD_FAILED ? FATE_FAIL : FATE_COMPLETE;
}

/* `error` is ERROR_NONE where there is an upstream's answer to tell. */
static struct fate doubt(enum record_unknown unknown, enum error error)
{
    enum fate_tell tell = error == ERROR_NONE ? FATE_TELL_ANSWER : FATE_TELL_ERROR;
    if (unknown == RECORD_UNKNOWN_PROBE)
        tell = FATE_PROBE;
    return (struct fate){FATE_DOUBT, tell, error};
}

static struct fate fate_of_answer(int status, bool provider_duplicate, enum record_unknown unknown)
{
    enum sort sort = provider_duplicate ? SORT_FINAL : sort_of(status, unknown);
    if (sort == SORT_IN_DOUBT)
        return doubt(unknown, ERROR_NONE);
    if (sort == SORT_NOT_DONE)
        return (struct fate){FATE_RELEASE, FATE_TELL_ANSWER, ERROR_NONE};
    return (struct fate){write_of_final(status), FATE_TELL_ANSWER, ERROR_NONE};
}

struct fate fate_of_exchange(enum exchange_end end, int status, bool provider_duplicate,
                             enum record_unknown unknown)
{
    switch (end) {
    case EXCHANGE_ANSWERED:
        return fate_of_answer(status, provider_duplicate, unknown);
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

struct fate fate_of_probe(enum exchange_end end, int status)
{
    bool answered = end == EXCHANGE_ANSWERED;
    if (answered && status >= 200 && status < 300)
        return (struct fate){FATE_COMPLETE, FATE_TELL_ANSWER, ERROR_NONE};
    if (answered && status == 404)
        return (struct fate){FATE_RELEASE, FATE_DECIDE, ERROR_NONE};
    return (struct fate){FATE_DOUBT, FATE_TELL_ERROR, ERROR_OUTCOME_UNKNOWN};
}
