/* SPDX-License-Identifier: Apache-2.0 */
/* print: what people read of what is stored. Texts from outside cannot steer a terminal. */
#ifndef PAWL_CLI_PRINT_H
#define PAWL_CLI_PRINT_H

#include "base/buf.h"

/* Appends `text` on one line: control characters, characters that reorder or hide text, and bytes
 * that are not UTF-8 become \xNN for each byte, a backslash two. */
void print_escaped(struct buf *buf, struct slice text);

/* The same; '-' where it is empty. */
void print_text(struct buf *buf, struct slice text);

/* Appends a moment: "forever" for CLOCK_NEVER, '-' for 0 and for what no calendar has. */
void print_moment(struct buf *buf, int64_t us);

/* Appends what a line begins with that says one thing that is known. */
void print_label(struct buf *buf, const char *label);

/* The same, and the rest of the line. */
void print_fact(struct buf *buf, const char *label, struct slice text);
void print_fact_moment(struct buf *buf, const char *label, int64_t us);
void print_fact_number(struct buf *buf, const char *label, int64_t number);

/* Appends header lines, a line for each. */
void print_fields(struct buf *buf, struct slice fields);

/* Writes what was appended to stdout, all of it or nothing. An exit code; anything but 0 was
 * explained as the command's. */
int print_buf(const char *command, const struct buf *buf);

#endif
