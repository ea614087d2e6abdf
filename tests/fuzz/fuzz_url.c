/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A URL: what is read and written is read as the same again, and a request for it is one request to
 * the parser of the gateway, for the same host and target.
 */
#include "base/check.h"
#include "fuzz.h"
#include "http/call/origins.h"

#include <stdlib.h>

#define TEXT_MAX ((size_t)1 << 20)

static void write_url(const struct url *url, struct buf *text)
{
    url_write_origin(text, url);
    url_write_target(text, url);
    CHECK(buf_ok(text));
}

static void check_request(const struct url *url)
{
    static struct headers none;
    static struct http_request read;
    BUF_AUTO struct buf text = buf_make(TEXT_MAX), host = buf_make(TEXT_MAX);
    struct http_origins_request request = {SLICE("GET"), url, &none, SLICE(""), false};
    BUF_AUTO struct buf target = buf_make(TEXT_MAX);
    size_t scan = 0;
    http_origins_write(&text, &request);
    url_write_authority(&host, url);
    url_write_target(&target, url);
    if (text.len > HTTP_HEADERS_SIZE_MAX)
        return;
    CHECK(http_parse_request(buf_slice(&text), &scan, &read) == HTTP_PARSE_DONE);
    CHECK(read.headers_len == text.len);
    CHECK(slice_eq(read.authority, buf_slice(&host)) && slice_eq(read.target, buf_slice(&target)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    BUF_AUTO struct buf once = buf_make(TEXT_MAX), twice = buf_make(TEXT_MAX);
    struct url url, again;
    const char *problem;
    if (!url_read(slice_make(data, size), &url, &problem)) {
        CHECK(problem);
        return 0;
    }
    CHECK(!problem && url.at.port > 0 && url.at.host.len > 0);
    write_url(&url, &once);
    CHECK(url_read(buf_slice(&once), &again, &problem));
    CHECK(again.tls == url.tls && again.at.port == url.at.port && !again.userinfo.at);
    write_url(&again, &twice);
    CHECK(slice_eq(buf_slice(&once), buf_slice(&twice)));
    check_request(&url);
    return 0;
}
