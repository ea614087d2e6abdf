/* SPDX-License-Identifier: Apache-2.0 */
/* Header sections as they leave, line by line, at the end of a buf: a sticky failure is looked at
 * once. */
#ifndef PAWL_HTTP_HEADERS_OUT_H
#define PAWL_HTTP_HEADERS_OUT_H

#include "base/buf.h"
#include "http/message.h"

/* Appends a status line; `reason` empty: the standard phrase. */
void headers_write_status(struct buf *buf, int status, struct slice reason);

/* Appends `name: value` CR LF. */
void headers_write_field(struct buf *buf, const char *name, struct slice value);
void headers_write_number(struct buf *buf, const char *name, uint64_t value);

/* Appends Date now. */
void headers_write_date(struct buf *buf);

/* Appends what the headers of a response end with: Connection where it is needed, the empty line.
 * `request` NULL: it could not be read. */
void headers_end_response(struct buf *buf, const struct http_request *request, bool keep_alive);

/* Whether a response with this status has a body at all (RFC 9110 6.4.1). */
bool headers_allow_body(int status);

#endif
