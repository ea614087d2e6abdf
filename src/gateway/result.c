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
    static const enum result results[] = {
        [ERROR_PAYLOAD_MISMATCH] = RESULT_MISMATCH,
        [ERROR_IN_PROGRESS] = RESULT_IN_PROGRESS,
        [ERROR_DUPLICATE] = RESULT_REJECTED,
        [ERROR_OUTCOME_UNKNOWN] = RESULT_IN_DOUBT,
        [ERROR_UPSTREAM_BROKE] = RESULT_IN_DOUBT,
        [ERROR_UPSTREAM_MALFORMED] = RESULT_IN_DOUBT,
        [ERROR_UPSTREAM_TIMEOUT] = RESULT_IN_DOUBT,
        [ERROR_UPSTREAM_UNAVAILABLE] = RESULT_UNSENT,
        [ERROR_RESULT_EXPIRED] = RESULT_EXPIRED,
        [ERROR_RESULT_NOT_KEPT] = RESULT_EXPIRED,
        [ERROR_LIMITED] = RESULT_LIMITED,
        [ERROR_STORE_UNAVAILABLE] = RESULT_STORE_DOWN,
        [ERROR_OUTCOME_NOT_STORED] = RESULT_STORE_DOWN,
    };
    CHECK(error != ERROR_NONE);
    return (size_t)error < sizeof results / sizeof *results ? results[error] : RESULT_INVALID;
}
