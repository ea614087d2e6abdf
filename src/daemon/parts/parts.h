/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the product, in the order in which they start: X(NAME), for NAME_part of NAME.c. */
#ifndef PAWL_DAEMON_PARTS_PARTS_H
#define PAWL_DAEMON_PARTS_PARTS_H

#include "daemon/part.h"

#define DAEMON_PARTS(X)                                                                            \
    X(store)                                                                                       \
    X(webhooks)                                                                                    \
    X(gateway)                                                                                     \
    X(prober)                                                                                      \
    X(admin)

#define X(name) extern const struct part name##_part;
DAEMON_PARTS(X)
#undef X

/* NULL behind the last. */
extern const struct part *const product_parts[];

#endif
