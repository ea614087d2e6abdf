/* SPDX-License-Identifier: Apache-2.0 */
#include "prober/hold_end.h"
#include "base/crypto/random.h"
#include "store/tables/audit.h"

bool hold_end(struct store *store, const struct rule *rule, const struct keys_row *row, int64_t now,
              struct parker *parker)
{
    const struct record *record = &row->store.record;
    struct store_op op = {
        .kind = STORE_END_HOLD,
        .key_hash = row->store.key_hash,
        .row_hint = row->store.id,
        .writing.token = record->token,
        .writing.actor = STORE_ACTOR_RULE,
        .begin = {.unknown = rule->unknown, .hold_us = rule->hold_us, .settle_us = rule->settle_us},
    };
    if (now < record_held_until(record, &op.begin, row->lease))
        return false;
    random_bytes(op.begin.attempt_id, RECORD_ATTEMPT_ID_SIZE);
    store_run(store, &op, parker, clock_after(clock_boot_us(), KEYS_TIMEOUT_US));
    return op.result.status == STORE_DONE && op.result.write == RECORD_WRITTEN;
}
