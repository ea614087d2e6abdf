/* SPDX-License-Identifier: Apache-2.0 */
/* Texts from outside, printed so that they cannot steer a terminal. */
#ifndef PAWL_CLI_PRINT_H
#define PAWL_CLI_PRINT_H

#include "base/buf.h"

/* Appends `text` on one line: control characters, characters that reorder or hide text, and bytes
 * that are not UTF-8 become \xNN for each byte, a backslash two. */
void print_escaped(struct buf *buf, struct slice text);

#endif
