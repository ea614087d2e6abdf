/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inquiry_end: releases what asked before its first send (`first:`; core/record_inquiry.c) and
 * whose owner has died: nothing was sent. The next begin of its key does so, too; this is for one
 * whose client never returns, so that it expires.
 */
#ifndef PAWL_PROBER_INQUIRY_END_H
#define PAWL_PROBER_INQUIRY_END_H

#include "operator/keys.h"

/* Releases a listed record whose lease has lapsed, if it asked. Where the store does not respond it
 * is found again. */
void inquiry_end(struct store *store, const struct keys_row *row, struct parker *parker);

#endif
