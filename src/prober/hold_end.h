/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hold_end: ends the hold of a record in doubt, where its rule says for how long it lasts
 * (`unknown: {hold: 10m}`; core/record.h, record_held_until). `serve` does so for the rules of its
 * config, so that what nobody sends again is counted and expires; a begin under such a rule needs
 * nobody for it. Commands and SQL functions know no rule, and end none.
 */
#ifndef PAWL_PROBER_HOLD_END_H
#define PAWL_PROBER_HOLD_END_H

#include "core/request/rule.h"
#include "operator/keys.h"

/* Whether the rule holds what is in doubt, and not for ever. */
static inline bool hold_has_end(const struct rule *rule)
{
    return rule->unknown == RECORD_UNKNOWN_HOLD && rule->hold_us > 0;
}

/* Ends the hold of a listed record, if it is over at `now` (store time): released, with a row in
 * the audit. Whether it did; false, too, where the store did not respond: it is found again. */
bool hold_end(struct store *store, const struct rule *rule, const struct keys_row *row, int64_t now,
              struct parker *parker);

#endif
