/* SPDX-License-Identifier: Apache-2.0 */
/* What conn.c and conn_body.c share. Internal to http; users include conn.h. */
#ifndef PAWL_HTTP_CONN_PRIV_H
#define PAWL_HTTP_CONN_PRIV_H

#include "http/conn.h"

/* Reads at most `n` bytes to `at` and counts them. As fiber_read: > 0 bytes, 0 end of stream,
 * -ETIMEDOUT, -errno. */
ptrdiff_t http_conn_receive(struct http_conn *conn, char *at, size_t n, int64_t deadline_us);

#endif
