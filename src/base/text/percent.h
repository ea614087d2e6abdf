/* SPDX-License-Identifier: Apache-2.0 */
/* Percent-encoding (RFC 3986 2.1): %XX for a byte, and in queries and forms '+' for a space. */
#ifndef PAWL_BASE_PERCENT_H
#define PAWL_BASE_PERCENT_H

#include "base/arena.h"

#define PERCENT_SIZE 3 /* of an escape */

/* The byte of the escape that `text` starts with; false: it starts with none. */
bool percent_starts(struct slice text, char *ret_byte);

/* Whether every '%' starts an escape. */
bool percent_is_valid(struct slice text);

/* One decoded byte off the front of `text` (not empty). A '%' that starts no escape is itself;
 * `plus`: a '+' is a space. */
char percent_take(struct slice *text, bool plus);

/* All of it decoded, in `arena`. `.at` NULL: no memory. */
struct slice percent_decode(struct slice text, bool plus, struct arena *arena);

/* Whether `spelled`, decoded, is `text`. */
bool percent_spells(struct slice spelled, bool plus, struct slice text);

/* Writes the escape of a byte, its digits in upper case. */
void percent_write(char byte, char ret_escape[PERCENT_SIZE]);

#endif
