/* SPDX-License-Identifier: Apache-2.0 */
#include "client/verdict.h"

#include "base/check.h"

static const struct error_row *find_error_row(struct slice code)
{
    const struct error_row *mismatch = error_row(ERROR_PAYLOAD_MISMATCH);
    return slice_eq(code, slice_of(mismatch->short_code)) ? mismatch : error_find(code);
}

bool client_is_refusal(const struct record *record)
{
    return record->status == RECORD_FAILED ||
           (record->http_status >= 300 && record->http_status <= 399);
}

/* What a code says of the next attempt counts where the response meant the same. */
const struct error_row *client_row_of(const struct runner *runner)
{
    const struct error_row *row = find_error_row(runner->end.code);
    bool ends = row && (row->exit_code == EXIT_FINAL_ERROR || row->exit_code == EXIT_BAD_DATA);
    bool goes_on = runner->end.class >= RETRY_LATER;
    return row && (goes_on ? !ends : !row->retryable) ? row : NULL;
}

static enum exit_code code_of_end(const struct runner *runner)
{
    const struct error_row *row = client_row_of(runner);
    if (row && row->exit_code != EXIT_DONE)
        return (enum exit_code)row->exit_code;
    if (!runner->reached)
        return EXIT_UNAVAILABLE;
    bool cut = runner->out_of_time || runner->ended_by == RETRY_ENDS_DEADLINE;
    return cut ? EXIT_DEADLINE : EXIT_TRY_AGAIN;
}

/* Whatever became of attempts that were in doubt, this is what there is to say. */
static bool is_settled_result(enum runner_result result)
{
    return result == RUNNER_DONE || result == RUNNER_REPLAYED || result == RUNNER_MISMATCH ||
           result == RUNNER_LOST;
}

enum exit_code client_exit_code(enum runner_result result, const struct runner *runner)
{
    const struct error_row *row = client_row_of(runner);
    if (runner->in_doubt && !is_settled_result(result))
        return EXIT_OUTCOME_UNKNOWN;
    switch (result) {
    case RUNNER_DONE:
        return EXIT_DONE;
    case RUNNER_REPLAYED:
        return client_is_refusal(&runner->attempt.result.record) ? EXIT_FINAL_ERROR : EXIT_DONE;
    case RUNNER_FINAL:
        return row ? (enum exit_code)row->exit_code : EXIT_FINAL_ERROR;
    case RUNNER_ENDED:
        return code_of_end(runner);
    case RUNNER_MISMATCH:
        return EXIT_BAD_DATA;
    case RUNNER_IN_PROGRESS:
        return EXIT_TRY_AGAIN;
    case RUNNER_STORE_DOWN:
        return store_closed_by(&runner->attempt.result) == STORE_FROZEN ? EXIT_TRY_AGAIN
                                                                        : EXIT_UNAVAILABLE;
    case RUNNER_HELD:
    case RUNNER_NOT_STORED:
        return EXIT_OUTCOME_UNKNOWN;
    case RUNNER_LOST:
        return EXIT_FAIL_STOP;
    case RUNNER_FOUND: /* its executor does not probe, */
    case RUNNER_UNPROVED:
    case RUNNER_STOPPED: /*   and it has no gate */
        break;
    }
    UNREACHABLE();
}
