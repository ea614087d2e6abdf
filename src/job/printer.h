/* SPDX-License-Identifier: Apache-2.0 */
/*
 * printer: writes to standard output and standard error from a thread of its own, in the order in
 * which it was given: whoever reads them may be as slow as they like, and signals and time limits
 * are heeded meanwhile. The thread starts with the first that is written. Bounded: who brings more
 * asks first whether there is room.
 */
#ifndef PAWL_JOB_PRINTER_H
#define PAWL_JOB_PRINTER_H

#include "base/park.h"
#include "fiber/child.h"

#define PRINTER_MOST ((size_t)256 * 1024) /* bytes that wait, before there is room again */

#define PRINTER_STATUS_MAX ((size_t)256)

struct printer;

/* NULL: no memory. */
struct printer *printer_new(void);

/* Writes what it has, and ends. `*ret_error` (NULL: not wanted) gets the error's number with which
 * the first write failed, 0 without one; a reader that has gone away (EPIPE) is none. Accepts NULL.
 */
void printer_free(struct printer *printer, int *ret_error);

/* A fiber that waits for room; both stay until printer_leave. */
struct printer_waiter {
    struct parker *parker;
    struct printer_waiter *next;
    bool waits;
};

/* Whether there is room. No: its parker is woken once there is. */
bool printer_ask_room(struct printer *printer, struct printer_waiter *waiter);

/* It does not wait any more, and is not woken. */
void printer_leave(struct printer *printer, struct printer_waiter *waiter);

/* Shows a line on standard error, a terminal, that what is written goes above of; empty: none any
 * more. At most PRINTER_STATUS_MAX bytes of it. */
void printer_show_status(struct printer *printer, struct slice line);

/* Takes a copy, whether there is room or not. Without memory, or a thread, the bytes are lost, and
 * printer_free says so. */
void printer_add(struct printer *printer, enum child_stream stream, struct slice bytes);

#endif
