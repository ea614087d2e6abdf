/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failures the demo plays on request, so that a reader can try them by hand: the request header
 * `Demo-Fault: delay=2000, lose` of a POST, or for all POSTs the option of `pawl demo`.
 */
#ifndef PAWL_DEMO_FAULTS_H
#define PAWL_DEMO_FAULTS_H

#include "base/slice.h"

#define DEMO_DELAY_MAX_MS 600000

struct demo_faults {
    int64_t delay_ms; /* `delay=MS`: waits before anything else */
    bool lose_before; /* `lose-before`: closes without the effect */
    int status;       /* `status=503` (400 to 599): responds so without the effect; 0: not asked */
    bool lose;        /* `lose`: closes after the effect, unanswered */
    bool half;        /* `half`: closes after the effect and half of the response */
};

/* Reads a list separated by commas; empty is no fault. False: something in it is none of these. */
bool demo_faults_read(struct slice text, struct demo_faults *ret_faults);

#endif
