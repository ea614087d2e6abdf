/* SPDX-License-Identifier: Apache-2.0 */
/*
 * envelope: the rules by which events are told, as the store knows them (pawl_envelope): what a
 * config says, with the `source` of CloudEvents where it is told, as one JSON object. Whoever makes
 * a delivery names the rule, and each of its attempts goes by that one, whatever the endpoint's is
 * by then. Rows are not changed, and not removed.
 */
#ifndef PAWL_WEBHOOK_ENVELOPE_H
#define PAWL_WEBHOOK_ENVELOPE_H

#include "base/arena.h"
#include "store/store.h"
#include "webhook/settings.h"

struct envelope_rule {
    struct webhook_envelope envelope;
    struct slice source;
};

/* Appends the rule as text; equal rules are equal texts. */
void envelope_rule_write(const struct envelope_rule *rule, struct buf *text);

/* The same back; its texts are in the arena or in `text`. False: it is no rule that this version
 * knows. */
bool envelope_rule_read(struct slice text, struct arena *arena, struct envelope_rule *ret_rule);

/* The row of a rule, which is made where there is none. */
enum store_status envelope_name(struct store *store, struct parker *parker, struct slice text,
                                int64_t *ret_id);

/* The rule of a row. STORE_DONE: `*ret_text`, in the arena; empty: there is no such row. */
enum store_status envelope_find(struct store *store, struct parker *parker, int64_t id,
                                struct arena *arena, struct slice *ret_text);

#endif
