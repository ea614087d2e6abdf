/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/pass/tunnel.h"

#include "base/check.h"
#include "base/clock.h"
#include <errno.h>
#include <sys/uio.h>

/* ---- the handshake ---- */

static bool says_websocket(const struct headers *headers)
{
    const struct header *line = headers_find(headers, SLICE("Upgrade"));
    return line && headers_count(headers, SLICE("Upgrade")) == 1 &&
           slice_eq_nocase(line->value, SLICE("websocket")) &&
           headers_connection_has(headers, SLICE("upgrade"));
}

bool tunnel_asked_for(const struct http_request *request)
{
    bool has_body = request->framing != HTTP_FRAMING_NONE && request->content_length > 0;
    return request->minor_version == 1 && slice_eq(request->method, SLICE("GET")) && !has_body &&
           request->framing != HTTP_FRAMING_CHUNKED && says_websocket(&request->headers);
}

bool tunnel_agreed(const struct http_response *response)
{
    return response->status == 101 && says_websocket(&response->headers);
}

/* ---- bytes ---- */

#define READ_MOST ((size_t)16 * 1024)

struct direction {
    struct http_conn *from;
    struct http_conn *to;
    struct buf bytes; /* read and not written yet */
    bool ended;       /* `from` sends no more */
    bool shut;        /* and this side of `to` was ended */
};

enum moved {
    MOVED_NOTHING,
    MOVED_SOME,
    MOVED_BROKE,
};

static enum moved read_direction(struct direction *d)
{
    char *at = buf_room(&d->bytes, READ_MOST);
    if (!at)
        return MOVED_BROKE;
    ptrdiff_t got = http_conn_receive(d->from, at, READ_MOST, 0);
    if (got == -ETIMEDOUT)
        return MOVED_NOTHING;
    if (got < 0)
        return MOVED_BROKE;
    d->ended = got == 0;
    buf_added(&d->bytes, (size_t)got);
    return MOVED_SOME;
}

static enum moved write_some(struct direction *d)
{
    uint64_t before = d->to->sent;
    struct iovec part = {d->bytes.at, d->bytes.len};
    int failed = http_conn_write(d->to, &part, 1, 0);
    if (failed != 0 && failed != -ETIMEDOUT)
        return MOVED_BROKE;
    buf_drop(&d->bytes, (size_t)(d->to->sent - before));
    return d->to->sent > before ? MOVED_SOME : MOVED_NOTHING;
}

static enum moved end_direction(struct direction *d)
{
    d->shut = true;
    return http_conn_end(d->to) ? MOVED_SOME : MOVED_BROKE;
}

/* One step, as far as it goes without waiting. */
static enum moved move_bytes(struct direction *d)
{
    if (d->bytes.len > 0)
        return d->to->io.writable ? write_some(d) : MOVED_NOTHING;
    if (!d->ended)
        return d->from->io.readable ? read_direction(d) : MOVED_NOTHING;
    return d->shut ? MOVED_NOTHING : end_direction(d);
}

/* What `from` waits for at the peer it reads from, to which `to` writes: bytes, where none lie
 * ready, and room, where some do. */
static unsigned wanted_events(const struct direction *from, const struct direction *to)
{
    return (from->bytes.len == 0 && !from->ended ? FIBER_READ : 0) |
           (to->bytes.len > 0 ? FIBER_WRITE : 0);
}

static bool wait_for_peers(struct direction *out, struct direction *in, int64_t deadline)
{
    struct fiber_source sources[2];
    size_t n = 0;
    if (wanted_events(out, in) != 0)
        sources[n++] = (struct fiber_source){&out->from->io, wanted_events(out, in)};
    if (wanted_events(in, out) != 0)
        sources[n++] = (struct fiber_source){&in->from->io, wanted_events(in, out)};
    if (out->bytes.len == 0)
        buf_fini(&out->bytes);
    if (in->bytes.len == 0)
        buf_fini(&in->bytes);
    enum fiber_wake wake = FIBER_WOKEN;
    while (wake == FIBER_WOKEN)
        wake = fiber_wait(sources, n, deadline);
    return wake == FIBER_READY;
}

static bool pass_bytes(struct direction *out, struct direction *in, int64_t idle_us)
{
    int64_t deadline = clock_after(clock_boot_us(), idle_us);
    while (!out->shut || !in->shut) {
        enum moved there = move_bytes(out);
        enum moved back = there == MOVED_BROKE ? MOVED_BROKE : move_bytes(in);
        if (back == MOVED_BROKE)
            return false;
        if (there == MOVED_SOME || back == MOVED_SOME)
            deadline = clock_after(clock_boot_us(), idle_us);
        else if (!wait_for_peers(out, in, deadline))
            return true;
    }
    return true;
}

static struct direction direction_make(struct http_conn *from, struct http_conn *to)
{
    struct direction d = {.from = from, .to = to, .bytes = buf_make(TUNNEL_ROOM)};
    buf_add_slice(&d.bytes, http_conn_take_rest(from));
    return d;
}

bool tunnel_run(struct http_conn *client, struct http_conn *upstream, int64_t idle_us)
{
    CHECK(client != upstream);
    struct direction out = direction_make(client, upstream);
    struct direction in = direction_make(upstream, client);
    bool well = buf_ok(&out.bytes) && buf_ok(&in.bytes) && pass_bytes(&out, &in, idle_us);
    buf_fini(&out.bytes);
    buf_fini(&in.bytes);
    return well;
}
