/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/parts/parts.h"

const struct part *const product_parts[] = {
#define X(name) &name##_part,
    DAEMON_PARTS(X)
#undef X
        NULL,
};
