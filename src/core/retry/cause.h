/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cause: why a record is in doubt, for people: nothing is decided by it. Stores keep these numbers,
 * so none is given another meaning; one from 100 on is the status of a response that left the
 * operation open. Of a malformed response the number says what of it was, as far as it is known;
 * the field and the byte are in the log.
 */
#ifndef PAWL_CORE_CAUSE_H
#define PAWL_CORE_CAUSE_H

#include "base/buf.h"

#define RECORD_CAUSES(X)                                                                           \
    X(NONE, 0, "")                 /* not in doubt, or not known */                                \
    X(RESET, 1, "reset")           /* the upstream closed or reset the connection */               \
    X(TIMEOUT, 2, "timeout")       /* it gave no response in time */                               \
    X(MALFORMED, 3, "malformed")   /* what it sent is not HTTP */                                  \
    X(LAPSED, 4, "lapsed")         /* the lease lapsed: its owner died or stood still */           \
    X(REFUSED, 5, "token_stale")   /* it refused a token that is the record's last */              \
    X(ODD, 6, "odd_row")           /* no pawl wrote the row: record_hold */                        \
    X(HOLD_ENDED, 7, "hold_ended") /* no doubt any more: its hold has ended */                     \
    X(BAD_STATUS_LINE, 16, "malformed: status line")                                               \
    X(BAD_LINE_END, 17, "malformed: line end")                                                     \
    X(BAD_FIELD_NAME, 18, "malformed: field name")                                                 \
    X(BAD_FIELD_VALUE, 19, "malformed: field value")                                               \
    X(BAD_FOLDED_LINE, 20, "malformed: folded line")                                               \
    X(BAD_SIZE, 21, "malformed: headers too large")                                                \
    X(BAD_LENGTH, 22, "malformed: Content-Length")                                                 \
    X(BAD_CODING, 23, "malformed: Transfer-Encoding")                                              \
    X(BAD_CHUNK, 24, "malformed: chunk")                                                           \
    X(BAD_TRAILER, 25, "malformed: trailer")

enum record_cause {
#define X(name, number, text) RECORD_CAUSE_##name = (number),
    RECORD_CAUSES(X)
#undef X
};

/* Appends what a cause is called: "timeout", "status 500"; nothing for none, and for a number of a
 * later pawl. */
void record_cause_write(int cause, struct buf *buf);

#endif
