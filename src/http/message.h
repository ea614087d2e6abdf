/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 messages and their strict parser (RFC 9112, RFC 9110).
 *
 * A pull parser over one contiguous buffer: no callback, no copy, no state but the scan position.
 * The caller reads bytes into its buffer and calls http_parse_request (or _response) again until it
 * says done or refused. Slices point into the caller's buffer; when the buffer moves (grows), parse
 * again: parsing is pure and headers are scanned for their end only from *scan onwards, so that a
 * client that drips bytes costs linear work.
 *
 * Strict: whatever two implementations could read in two ways is refused (RFC 9112 section 11):
 *   bare LF, bare CR, NUL, obs-fold, white space before the colon or around the request line's
 *   parts, Content-Length with Transfer-Encoding, more than one Content-Length line or a list,
 *   Transfer-Encoding other than exactly one `chunked`, chunked on HTTP/1.0, Host absent (1.1),
 *   twice, or not a valid host[:port], absolute-form whose authority differs from Host, fragments,
 *   bytes outside VCHAR in the target, methods that are no token or hold a lower-case letter (some
 *   servers read `post` as POST; a rule for POST must not be walked around), versions other than
 *   HTTP/1.0 and HTTP/1.1, names that are no token, control bytes in values (HTAB excepted), HTAB
 *   in the lines of Content-Length, Transfer-Encoding and Host, and in requests Content_Length,
 *   Transfer_Encoding, Idempotency_Key, _Token and _Attempt, which CGI-like servers take for the
 *   names with dashes.
 * Responses are read with the leniency that their other receivers have, where all of these
 * understand the same: see http_parse_response.
 * A host is letters, digits and `-._~`, or an IP literal in brackets; a port has 1 to 5 digits.
 * Bytes 0x80-0xFF in field values are passed on unchanged (obs-text).
 *
 * request.c and response.c parse, chunks.c reads bodies in chunks, status.c names statuses and
 * refusals; fields.c reads single values.
 */
#ifndef PAWL_HTTP_MESSAGE_H
#define PAWL_HTTP_MESSAGE_H

#include "base/buf.h"
#include "base/headers.h"

enum http_parse {
    HTTP_PARSE_MORE, /* the headers are not complete yet */
    HTTP_PARSE_DONE, /* the headers are complete; `headers_len` bytes of the buffer are its own */
    HTTP_PARSE_REFUSED, /* see `refusal`; answer and close */
};

/* Why a message was refused, with the status to answer. One table; text is fit for a response. */
#define HTTP_REFUSALS(X)                                                                           \
    X(REQUEST_LINE, 400, "malformed request line")                                                 \
    X(METHOD, 400, "the method is not an upper-case token")                                        \
    X(TLS, 400, "this looks like TLS, but this port speaks plain HTTP: terminate TLS before pawl") \
    X(TARGET, 400, "the request target is neither a /path nor an http:// URL")                     \
    X(TARGET_HTTPS, 400, "the request target is an https:// URL; http:// or a /path is served")    \
    X(TARGET_BYTE, 400,                                                                            \
      "the request target contains a byte outside printable ASCII; percent-encode it")             \
    X(TARGET_FRAGMENT, 400, "the request target contains a #; percent-encode it")                  \
    X(VERSION, 505, "only HTTP/1.0 and HTTP/1.1 are served")                                       \
    X(HTTP2, 505, "this is HTTP/2; only HTTP/1.0 and HTTP/1.1 are served")                         \
    X(STATUS_LINE, 502, "malformed status line")                                                   \
    X(LINE_FIRST, 502, "a line end comes before the status line")                                  \
    X(LINE_END, 400, "a line does not end with CR LF, or contains a bare CR or NUL")               \
    X(LINE_ENDS_MIXED, 502, "some lines end with CR LF, and others with LF")                       \
    X(FIELD_NAME, 400, "a header field name is not a token, or has _ instead of -")                \
    X(FIELD_VALUE, 400, "a header field value contains a control byte or a misplaced tab")         \
    X(OBS_FOLD, 400, "a header field is folded over two lines")                                    \
    X(TOO_MANY_FIELDS, 431, "too many header fields")                                              \
    X(HEADERS_TOO_LARGE, 431, "the header section is too large")                                   \
    X(HOST, 400, "exactly one valid Host is required")                                             \
    X(CONTENT_LENGTH, 400, "Content-Length is not one decimal number")                             \
    X(TRANSFER_ENCODING, 400, "Transfer-Encoding is not exactly one `chunked`")                    \
    X(FRAMING, 400, "Content-Length and Transfer-Encoding together")                               \
    X(CHUNK, 400, "malformed chunk")                                                               \
    X(TRAILER, 400, "malformed or forbidden trailer")                                              \
    X(CONNECTION_LIST, 400, "Connection lists more than 32 members")                               \
    X(CONNECTION, 400, "Connection names a field that must not be dropped")

enum http_refusal {
    HTTP_REFUSAL_NONE,
#define X(name, status, text) HTTP_REFUSAL_##name,
    HTTP_REFUSALS(X)
#undef X
};

/* The status to answer to a client, and one line that says what was wrong. */
int http_refusal_status(enum http_refusal refusal);
const char *http_refusal_text(enum http_refusal refusal);

/* The field that CONNECTION or FIELD_NAME is about, as far as the headers were understood; may be
 * empty. */
struct http_request;
struct slice http_refused_field(const struct http_request *request, enum http_refusal refusal);

enum http_framing {
    HTTP_FRAMING_NONE,    /* no body */
    HTTP_FRAMING_LENGTH,  /* content_length bytes */
    HTTP_FRAMING_CHUNKED, /* until the last chunk */
    HTTP_FRAMING_CLOSE,   /* responses only: until the peer closes */
};

#define HTTP_HEADERS_SIZE_MAX ((size_t)32 * 1024) /* bytes of the headers, start line included */
/* Field lines of a request: what pawl adds must not take it over the 100 that many servers allow,
 * the empty line included. */
#define HTTP_REQUEST_FIELDS_MAX 90
#define HTTP_LENGTH_MAX (UINT64_C(1) << 53)

/* The slots of `headers`, which come last, are left as they were: `n` guards them. */
struct http_request {
    struct slice method;
    struct slice target;    /* as it stood in the request line */
    struct slice path;      /* of the target, as sent: starts with '/', or is "*"; absolute-form
                             * without a path: "/" ("*" for OPTIONS); CONNECT host:port: empty */
    struct slice query;     /* behind the '?', without it; `at` NULL when there is no '?' */
    struct slice authority; /* of Host, or of the target; empty on HTTP/1.0 without either */
    int minor_version;      /* 0 or 1 */
    bool keep_alive;        /* the connection may be used again after this exchange */
    bool expect_continue;   /* Expect: 100-continue on HTTP/1.1; other values count as absent */
    enum http_framing framing;
    uint64_t content_length; /* with HTTP_FRAMING_LENGTH */
    size_t headers_len;      /* bytes of the buffer, the empty line included */
    enum http_refusal refusal;
    struct headers headers;
};

struct http_response {
    int status;          /* 100 to 999 */
    struct slice reason; /* may be empty */
    int minor_version;
    bool keep_alive;
    bool is_odd;     /* taken for all that, but on a connection that nothing may follow on */
    bool line_first; /* a line end came before the status line: also is_odd */
    enum http_framing framing;
    uint64_t content_length;
    size_t headers_len;
    enum http_refusal refusal;
    struct headers headers; /* at most one Content-Length, and none beside Transfer-Encoding */
};

/* Parses the headers of a request at the start of `bytes`. `*scan` starts at 0 for each message and
 * remembers how far the end of the headers was searched: after n bytes, however they came, n bytes
 * were searched. `*ret` is whole on DONE; on REFUSED it holds what was understood, the rest empty
 * and keep_alive false; on MORE it is empty. A bare LF, a bare CR and NUL are refused when they are
 * met, anything else once the
 * headers are complete. It is about 3 KiB: it does not belong on a fiber's stack.
 * Empty lines before the request line: one CR LF is skipped (RFC 9112 2.2) and counted in
 * headers_len. Also refuses a Connection field that names Content-Length, Host, Transfer-Encoding,
 * Idempotency-Key, Authorization, Content-Type or Content-Encoding. */
enum http_parse http_parse_request(struct slice bytes, size_t *scan, struct http_request *ret);

/* Parses the headers of a response to `method`. HEAD, 1xx, 204 and 304 have no body whatever the
 * fields say; a 1xx is returned like any response (the caller reads on). One of them that announces
 * a body is not kept alive: the bytes may come. Refusals of responses are the gateway's 502.
 * Odd, and taken (`is_odd`): bare LFs as all line ends; one line end before the status line; up to
 * 8 blanks in it; a status above 599; lengths of equal digits, in lines or lists; a length beside
 * `chunked` on HTTP/1.1, where chunked counts; `identity` alone. */
enum http_parse http_parse_response(struct slice bytes, size_t *scan, struct slice method,
                                    struct http_response *ret);

/* Appends why http_parse_response refused `bytes`, with `scan` as it left it: the field and the
 * byte, not its value; of a line without a colon the start, escaped. */
void http_response_refused(struct slice bytes, size_t scan, const struct http_response *response,
                           struct buf *ret_text);

/* ---- chunked bodies (RFC 9112 section 7.1) ---- */

/* The decoder between two calls. Zeroed at the start, but for `is_response`. */
struct http_chunks {
    uint64_t left;      /* data bytes left in the current chunk */
    int state;          /* the decoder's */
    char name[24];      /* how the current trailer's name starts; NUL behind it if it is shorter */
    size_t line_len;    /* bytes of the current size or trailer line, bounded */
    size_t n_blanks;    /* behind the current size, bounded */
    size_t trailer_len; /* bytes of all trailers, bounded by HTTP_HEADERS_SIZE_MAX */
    bool is_response;   /* the caller's: LF may end all lines, and blanks follow a size */
    bool is_odd;        /* it did, or they do: nothing may follow on the connection */
    char line_end;      /* of a response, the first byte of its first one: CR or LF; 0: none yet */
    char byte;          /* the refused one */
    enum http_refusal refusal;
};

/* Decodes from `bytes`: consumes `*ret_used` bytes and yields at most one run of data as
 * `*ret_data` (a slice of `bytes`, perhaps empty). DONE: the last chunk and the trailers (checked,
 * dropped) are consumed. MORE: everything usable was consumed; call again for the next run (also
 * when bytes are left and data was yielded). REFUSED: nothing is written but `refusal`. DONE and
 * REFUSED are given again to every further call. Sizes have at most 16 hex digits and are at most
 * HTTP_LENGTH_MAX; extensions are skipped, a line holds at most 4096 bytes. Trailers must not be of
 * the names that Connection must not list (see http_parse_request). In responses, up to 16 blanks
 * may follow a size, and bare LFs may end all lines. */
enum http_parse http_chunks_decode(struct http_chunks *chunks, struct slice bytes, size_t *ret_used,
                                   struct slice *ret_data);

/* Appends why it was refused, as http_response_refused. */
void http_chunks_refused(const struct http_chunks *chunks, struct buf *ret_text);

/* ---- small readers shared by both ends ---- */

/* Whether there are servers that leave the body of such a request unread, and take it for the next
 * request on its connection (RFC 9110 9.3.1): such a connection carries no other one. */
bool http_body_may_be_ignored(struct slice method);

/* The standard phrase of a status, "" for an unknown one. */
const char *http_reason(int status);

#endif
