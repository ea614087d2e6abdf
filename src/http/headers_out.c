/* SPDX-License-Identifier: Apache-2.0 */
#include "http/headers_out.h"

#include "base/clock.h"
#include "base/time/http_date.h"

void headers_write_status(struct buf *buf, int status, struct slice reason)
{
    buf_add_str(buf, "HTTP/1.1 ");
    buf_add_i64(buf, status);
    buf_add_char(buf, ' ');
    buf_add_slice(buf, reason.len > 0 ? reason : slice_of(http_reason(status)));
    buf_add(buf, "\r\n", 2);
}

void headers_write_field(struct buf *buf, const char *name, struct slice value)
{
    fields_add(buf, slice_of(name), value);
}

void headers_write_number(struct buf *buf, const char *name, uint64_t value)
{
    buf_add_str(buf, name);
    buf_add(buf, ": ", 2);
    buf_add_u64(buf, value);
    buf_add(buf, "\r\n", 2);
}

void headers_write_date(struct buf *buf)
{
    char text[HTTP_DATE_LEN + 1];
    http_date_write(clock_wall_us(), text);
    headers_write_field(buf, "Date", slice_of(text));
}

void headers_end_response(struct buf *buf, const struct http_request *request, bool keep_alive)
{
    if (!keep_alive)
        headers_write_field(buf, "Connection", SLICE("close"));
    else if (request && request->minor_version == 0)
        headers_write_field(buf, "Connection", SLICE("keep-alive"));
    buf_add(buf, "\r\n", 2);
}

bool headers_allow_body(int status)
{
    return status >= 200 && status != 204 && status != 304;
}
