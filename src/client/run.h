/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run: the runner for callers that block. It waits in the calling thread, and so its reports are
 * made on that thread's stack; only an attempt is a fiber, on a loop of its own.
 */
#ifndef PAWL_CLIENT_RUN_H
#define PAWL_CLIENT_RUN_H

#include "runner/runner.h"

/* Runs it with an executor that wants a fiber; the thread must be no loop's. Its connections must
 * not outlive an attempt. False: no memory, nothing was begun. With RUNNER_NOT_STORED the store may
 * still write from `*runner`: it is never to be freed. */
bool client_run(struct runner *runner, enum runner_result *ret_result);

#endif
