/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inquiry_end: releases what asked before its first send (`first:`; core/record_inquiry.c) and
 * whose owner has died: nothing was sent. The next begin of its key does so, too; this is for one
 * whose client never returns, so that it expires.
 */
#ifndef PAWL_OPERATOR_INQUIRY_END_H
#define PAWL_OPERATOR_INQUIRY_END_H

#include "core/rule.h"
#include "operator/keys.h"

static inline bool inquiry_is_of(const struct rule *rule)
{
    return rule->unknown == RECORD_UNKNOWN_PROBE && rule->first != RECORD_FIRST_OFF;
}

/* Releases a listed record whose lease has lapsed, if it asked. Where the store does not respond it
 * is found again. */
void inquiry_end(struct store *store, const struct keys_row *row, struct parker *parker);

#endif
