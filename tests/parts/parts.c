/* SPDX-License-Identifier: Apache-2.0 */
/* The table of parts of a pawl that counts, too: the product's, and one row. */
#include "daemon/parts/parts.h"

extern const struct part counter_part;

const struct part *const product_parts[] = {
    &store_part, &gateway_part, &counter_part, &admin_part, NULL,
};
