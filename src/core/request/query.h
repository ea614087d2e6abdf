/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query: the pairs of a request's query, as sent. Names are compared decoded (%XX, '+' as space),
 * so that `%69d=2` beside `id=1` is seen as the repetition that it is to a server.
 */
#ifndef PAWL_CORE_QUERY_H
#define PAWL_CORE_QUERY_H

#include "base/slice.h"

/* Takes the next non-empty pair off `query`; false: there is none. */
bool query_take(struct slice *query, struct slice *ret_pair);

/* Whether the name of `pair`, decoded, is `name`. */
bool query_names(struct slice pair, struct slice name);

/* The raw value of the only pair of that name: how many pairs have it (2: or more). */
int query_find(struct slice query, struct slice name, struct slice *ret_value);

#endif
