/* SPDX-License-Identifier: Apache-2.0 */
/* What came of an operation, in one number: the exit code of whoever ran it (contract section 7).
 */
#ifndef PAWL_CLIENT_VERDICT_H
#define PAWL_CLIENT_VERDICT_H

#include "core/errors.h"
#include "runner/runner.h"

/* The table's row for the error code that the last attempt of a run got, long or short; NULL: there
 * is none, or the response as a whole meant otherwise: a code that passes by itself was final, or
 * one that is final was sent again. */
const struct error_row *client_row_of(const struct runner *runner);

/* Whether what is remembered is not a success: a redirect, or what an operator resolved as failed.
 */
bool client_is_refusal(const struct record *record);

/* Of a run that has ended so. Unless it is done: in doubt comes first, also before a later attempt
 * that was refused, then what the response's own code says, then that nobody was reached, then the
 * time. */
enum exit_code client_exit_code(enum runner_result result, const struct runner *runner);

#endif
