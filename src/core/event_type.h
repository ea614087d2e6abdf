/* SPDX-License-Identifier: Apache-2.0 */
/* event_type: what kind of event it is, as `refund.created`: words of A-Za-z0-9_ joined by dots,
 * and patterns of such. Pure. */
#ifndef PAWL_CORE_EVENT_TYPE_H
#define PAWL_CORE_EVENT_TYPE_H

#include "base/slice.h"

#define EVENT_TYPE_MAX ((size_t)255)

bool event_type_is_good(struct slice text);

/* A type, one whose last word is `*`, or `*` alone. */
bool event_type_is_pattern(struct slice text);

/* `*` stands for one or more words. */
bool event_type_matches(struct slice pattern, struct slice type);

#endif
