/* SPDX-License-Identifier: Apache-2.0 */
#include "prober/inquiry_end.h"

void inquiry_end(struct store *store, const struct keys_row *row, struct parker *parker)
{
    struct store_op op = {.kind = STORE_RELEASE,
                          .key_hash = row->store.key_hash,
                          .row_hint = row->store.id,
                          .writing.token = row->store.record.token};
    if (record_is_asking(&row->store.record))
        store_run(store, &op, parker, clock_after(clock_boot_us(), KEYS_TIMEOUT_US));
}
