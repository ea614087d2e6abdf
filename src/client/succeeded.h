/* SPDX-License-Identifier: Apache-2.0 */
/*
 * succeeded: whether an operation is remembered as done, as an exit code:
 *
 *      EXIT_DONE             it is
 *      EXIT_FINAL_ERROR      no success is: it may have been done, and forgotten
 *      EXIT_TRY_AGAIN        it is being sent, or waits in the queue
 *      EXIT_OUTCOME_UNKNOWN  it is in doubt
 */
#ifndef PAWL_CLIENT_SUCCEEDED_H
#define PAWL_CLIENT_SUCCEEDED_H

#include "core/errors.h"
#include "store/store.h"

/* By a record. */
enum exit_code client_success_of(const struct record *record, enum record_lease lease, int64_t now);

/* By all that `pawl send`, the queue and the library keep of a key. */
enum store_status client_succeeded(struct store *store, struct slice key, struct parker *parker,
                                   enum exit_code *ret_code);

#endif
