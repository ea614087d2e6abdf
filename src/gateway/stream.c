/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/stream.h"

#include "base/check.h"
#include "base/crash.h"
#include <stdio.h>
#include <sys/uio.h>

#define PACED_MAX (UINT64_C(1) << 40) /* bytes; a sender of so much is not slow on purpose */
#define SIZE_LINE_MAX 24              /* 16 hex digits and CR LF */

static bool write_parts(struct stream *stream, struct iovec *parts, size_t n)
{
    int64_t deadline = clock_after(clock_boot_us(), stream->write_timeout_us);
    if (stream->call)
        return http_call_write(stream->call, parts, n, deadline);
    return http_conn_write(stream->to, parts, n, deadline) == 0;
}

static bool write_run(struct stream *stream, struct slice data)
{
    char size[SIZE_LINE_MAX];
    static const char line_end[] = "\r\n";
    struct iovec parts[3] = {
        {size, 0}, {(void *)(uintptr_t)data.at, data.len}, {(void *)(uintptr_t)line_end, 0}};
    if (stream->chunked) {
        parts[0].iov_len = (size_t)snprintf(size, sizeof size, "%zx\r\n", data.len);
        parts[2].iov_len = 2;
    }
    return write_parts(stream, parts, 3);
}

static bool write_end(struct stream *stream)
{
    static const char last_chunk[] = "0\r\n\r\n";
    struct iovec part = {(void *)(uintptr_t)last_chunk, sizeof last_chunk - 1};
    return write_parts(stream, &part, 1);
}

/* Time that `from` may still take: what it waited for already counts, and what it sent. */
static int64_t time_left(const struct stream *stream, uint64_t passed, int64_t waited)
{
    if (!stream->paced || passed > PACED_MAX)
        return stream->stall_us;
    int64_t earned = (int64_t)passed * CLOCK_US_PER_S / STREAM_RATE_LEAST;
    int64_t left = clock_after(stream->stall_us, earned) - waited;
    if (left < 0)
        return 0;
    return left < stream->stall_us ? left : stream->stall_us;
}

bool stream_run(struct stream *stream)
{
    CHECK(stream->from && !stream->to == !!stream->call);
    uint64_t passed = 0;
    int64_t waited = 0;
    if (stream->begun.len > 0 && !write_run(stream, stream->begun))
        return false;
    while (http_conn_body_left(stream->from)) {
        struct slice data = {0};
        int64_t began = clock_boot_us();
        int64_t left = time_left(stream, passed, waited);
        stream->read = http_conn_read_some(stream->from, clock_after(began, left), &data);
        waited += clock_boot_us() - began;
        passed += data.len;
        if (stream->read != HTTP_READ_OK)
            return false;
        if (data.len > 0 && !write_run(stream, data))
            return false;
        CRASH_POINT(between_response_writes);
    }
    return !stream->chunked || write_end(stream);
}
