/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What requests and responses share: where headers end, their lines, fields, framing. Internal
 * to http; users include message.h.
 */
#ifndef PAWL_HTTP_FIELDS_H
#define PAWL_HTTP_FIELDS_H

#include "http/message.h"

enum http_line_ends {
    HTTP_LINE_ENDS_CRLF,  /* requests */
    HTTP_LINE_ENDS_ALIKE, /* responses: all CR LF, or all a bare LF */
};

/* Searches `bytes` for the empty line that ends the headers, from `*scan` onwards, and moves
 * `*scan`. DONE: the headers are the first `*scan + 1` bytes. REFUSED: a line end that is none of
 * `ends`, a bare CR or a NUL was met at `*scan`, or HTTP_HEADERS_SIZE_MAX bytes hold no end;
 * `*ret_refusal` says which. `*scan` never moves back, and a further call after DONE or REFUSED
 * gives the same verdict at once. The first offending byte decides, so the verdict does not depend
 * on how the bytes arrived. */
enum http_parse http_headers_scan(struct slice bytes, size_t *scan, enum http_line_ends ends,
                                  enum http_refusal *ret_refusal);

/* The first line of `*rest` without its end; moves `*rest` behind it. Only for bytes that
 * http_headers_scan let through: there, CR stands at the end of a line alone. */
struct slice http_next_line(struct slice *rest);

/* Reads `HTTP/1.x`: `malformed` when it has not that form, VERSION when x or 1 are others. */
enum http_refusal http_version_read(struct slice s, enum http_refusal malformed, int *ret_minor);

/* Reads field lines up to the empty line. */
enum http_refusal http_fields_read(struct slice lines, struct headers *ret_headers);

/* How the fields frame a body: NONE, LENGTH or CHUNKED (RFC 9112 6.3, without its leniencies). */
enum http_refusal http_framing_read(const struct headers *headers, int minor_version,
                                    enum http_framing *ret_framing, uint64_t *ret_length);

/* Whether the peer lets the connection live on (RFC 9112 9.3). */
bool http_persists(const struct headers *headers, int minor_version);

/* Whether pawl's judgement of a request rests on this field: it must not be dropped on the way
 * (named by Connection), nor arrive when it was already judged (in a trailer). */
bool http_is_load_bearing(struct slice name);

#endif
