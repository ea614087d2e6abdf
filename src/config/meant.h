/* SPDX-License-Identifier: Apache-2.0 */
/* meant: the valid value that was probably meant by one that is refused, for `did you mean`. */
#ifndef PAWL_CONFIG_MEANT_H
#define PAWL_CONFIG_MEANT_H

#include "base/slice.h"

/* How people write the units of a quantity; the last row has no names. */
struct unit_words {
    const char *names; /* in lower case, divided by '|'; an empty one: no unit */
    uint64_t worth;
};

extern const struct unit_words duration_words[];
extern const struct unit_words size_words[];
extern const struct unit_words number_words[];

/* Reads what people write where the config is strict: `1.5 h`, `1h30m`, `1w`, `1MB`, `10_000`.
 * False: it is no quantity. */
bool meant_quantity(struct slice text, const struct unit_words *units, uint64_t *ret_value);

/* The one of `names` that means what `given` means elsewhere: `true` by `yes`, `match` by `path`.
 * `.at` NULL: there is none. */
struct slice meant_name(struct slice given, const struct slice *names, size_t n);

#endif
