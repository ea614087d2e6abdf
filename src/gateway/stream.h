/* SPDX-License-Identifier: Apache-2.0 */
/* stream: passes the body behind headers that were read from one connection to the other, run by
 * run, in one bounded buffer. */
#ifndef PAWL_GATEWAY_STREAM_H
#define PAWL_GATEWAY_STREAM_H

#include "http/call/call.h"

#define STREAM_RATE_LEAST 1024 /* bytes a second, of a body whose end is known */

struct stream {
    struct http_conn *from;
    struct http_conn *to;
    bool chunked;             /* write it chunked; else as it is */
    struct http_call *call;   /* instead of `to`: as the body of that request */
    struct slice begun;       /* bytes of the body that were read already */
    int64_t stall_us;         /* how long `from` may send nothing */
    bool paced;               /* and, that over, it must have sent STREAM_RATE_LEAST on average */
    int64_t write_timeout_us; /* for each run */
    enum http_read read;      /* out: how the reading side ended it; OK: it did not */
};

/* True: all of the body went through. False: one side broke off, as the receiver can see. */
bool stream_run(struct stream *stream);

#endif
