/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/result.h"

#include "base/check.h"

static const struct {
    const char *status;
    enum metrics_outcome outcome;
} rows[] = {
#define X(name, status, outcome) {status, METRICS_##outcome},
    RESULTS(X)
#undef X
};

#define N_ROWS (sizeof rows / sizeof *rows)

const char *result_status(enum result result)
{
    CHECK((size_t)result < N_ROWS);
    return rows[result].status;
}

enum metrics_outcome result_outcome(enum result result)
{
    CHECK((size_t)result < N_ROWS);
    return rows[result].outcome;
}

enum result result_of_error(enum error error)
{
    switch (error) {
    case ERROR_PAYLOAD_MISMATCH:
        return RESULT_MISMATCH;
    case ERROR_IN_PROGRESS:
        return RESULT_IN_PROGRESS;
    case ERROR_DUPLICATE:
        return RESULT_REJECTED;
    case ERROR_OUTCOME_UNKNOWN:
    case ERROR_UPSTREAM_BROKE:
    case ERROR_UPSTREAM_TIMEOUT:
        return RESULT_IN_DOUBT;
    case ERROR_UPSTREAM_UNAVAILABLE:
        return RESULT_UNSENT;
    case ERROR_RESULT_EXPIRED:
    case ERROR_RESULT_NOT_KEPT:
        return RESULT_EXPIRED;
    case ERROR_LIMITED:
        return RESULT_LIMITED;
    case ERROR_STORE_UNAVAILABLE:
    case ERROR_OUTCOME_NOT_STORED:
        return RESULT_STORE_DOWN;
    default:
        return RESULT_INVALID;
    }
}
