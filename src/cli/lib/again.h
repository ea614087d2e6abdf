/* SPDX-License-Identifier: Apache-2.0 */
/* `--again`: what is remembered of an operation is forgotten, so that it is done once more under
 * its key; who did it, and why, is in the audit. */
#ifndef PAWL_CLI_AGAIN_H
#define PAWL_CLI_AGAIN_H

#include "store/store.h"

/* All borrowed. */
struct again {
    const char *command; /* for complaints */
    struct store *store;
    struct slice rule;
    struct slice key;
    const struct record_begin *same; /* only of this very operation, by both hashes; NULL: whatever
                                        was done under the key */
    bool failed;                     /* a failure, too, kept or to be run again; else successes
                                        alone */
    const char *reason;              /* NULL: not said */

    int64_t forgotten_at; /* result: when it had been done; 0: nothing was remembered */
};

/* Forgets it. An exit code; anything but 0 was explained. What is not settled stays: it is not
 * remembered, but in progress or in doubt. */
int again_forget(struct again *again);

#endif
