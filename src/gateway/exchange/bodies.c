/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/exchange/bodies.h"

#include "base/check.h"
#include "base/compress/inflate.h"
#include "fiber/offload.h"
#include "gateway/stream.h"

#define PART_LEAST ((size_t)64 * 1024) /* of a body, counted before it is read */
#define WINDOW_US (INT64_C(5) * CLOCK_US_PER_S)
#define WINDOW_LEAST ((uint64_t)5 * STREAM_RATE_LEAST) /* bytes of a body in a window */

bool bodies_count(struct exchange *x, uint64_t more)
{
    atomic_ullong *buffered = &x->server->shared->buffered;
    uint64_t held = x->body.len + x->response.body.len + x->response.coded.len +
                    x->failed.body.len + x->failed.coded.len + more;
    unsigned long long all = held >= x->held
                                 ? atomic_fetch_add(buffered, held - x->held) + (held - x->held)
                                 : atomic_fetch_sub(buffered, x->held - held) - (x->held - held);
    x->held = held;
    return all <= x->plan->settings.max_buffered;
}

bool bodies_would_fit(const struct exchange *x, uint64_t more)
{
    return atomic_load(&x->server->shared->buffered) + more <= x->plan->settings.max_buffered;
}

void bodies_release(struct exchange *x)
{
    unsigned long long all = atomic_fetch_sub(&x->server->shared->buffered, x->held);
    CHECK(all >= x->held);
    x->held = 0;
}

bool bodies_hold(struct exchange *x, struct outcome *outcome)
{
    atomic_ullong *buffered = &x->server->shared->buffered;
    return !outcome_hold(outcome, buffered) ||
           atomic_load(buffered) <= x->plan->settings.max_buffered;
}

void bodies_drop(struct exchange *x, struct outcome *outcome)
{
    outcome_drop(outcome, &x->server->shared->buffered);
    outcome_unref(outcome);
}

/* ---- packed ---- */

struct packing {
    struct outcome *outcome;
    struct compress *compress;
    enum outcome_unpacked result;
};

static void pack_outcome_body(void *argument)
{
    struct packing *packing = argument;
    outcome_pack(packing->outcome, packing->compress);
}

static void unpack_found(void *argument)
{
    struct packing *packing = argument;
    packing->result = outcome_unpack(packing->outcome, packing->compress);
}

/* By a worker where it takes long. */
static void run_packing(struct exchange *x, void (*run)(void *), struct packing *packing)
{
    COMPRESS_AUTO struct compress of_worker = {0};
    packing->compress = &of_worker;
    bool large = packing->outcome->body.len >= OFFLOAD_LEAST;
    if (large && fiber_offload(x->server->config->workers, run, packing))
        return;
    packing->compress = &x->server->compress;
    run(packing);
}

void bodies_pack(struct exchange *x, struct outcome *outcome)
{
    CHECK(x->step == EXCHANGE_SETTLE && outcome);
    run_packing(x, pack_outcome_body, &(struct packing){.outcome = outcome});
    bodies_count(x, outcome->packed.len); /* never refused: the effect has happened */
}

enum outcome_unpacked bodies_unpack_found(struct exchange *x)
{
    struct packing packing = {.outcome = x->attempt.result.found};
    CHECK(x->step == EXCHANGE_DECIDE && packing.outcome && x->attempt.result.holds);
    run_packing(x, unpack_found, &packing);
    return packing.result;
}

/* ---- bodies while they arrive ---- */

/* How much a buffer grows: it doubles, but never beyond what may still arrive. */
static uint64_t next_part(const struct exchange *x, uint64_t room)
{
    const struct http_conn *conn = &x->client->session.conn;
    uint64_t left = conn->framing == HTTP_FRAMING_LENGTH ? conn->left : room;
    uint64_t part = x->body.len > PART_LEAST ? x->body.len : PART_LEAST;
    return left < part ? left : part;
}

/* What came of a body by a moment; it is looked at again WINDOW_US later. */
struct window {
    int64_t until;
    uint64_t len;
};

/* Whether a body that did not end in its window may go on: while more than half of the memory is
 * taken, one that stalls is not to hold its part for all of body_timeout. */
static bool next_window(const struct exchange *x, struct window *window)
{
    uint64_t buffered = atomic_load(&x->server->shared->buffered);
    bool tight = buffered > x->plan->settings.max_buffered / 2;
    if (tight && x->body.len - window->len < WINDOW_LEAST)
        return false;
    *window = (struct window){clock_after(clock_boot_us(), WINDOW_US), x->body.len};
    return true;
}

enum http_read bodies_read_request(struct exchange *x, int64_t deadline_us, bool *ret_fits)
{
    CHECK(x->step == EXCHANGE_IDENTIFY && !x->has_body && x->body.len == 0);
    enum http_read read = HTTP_READ_OK;
    struct window window = {clock_after(x->started, WINDOW_US), 0};
    *ret_fits = true;
    while (read == HTTP_READ_OK && http_conn_body_left(&x->client->session.conn)) {
        uint64_t room = x->rule->max_request_body - x->body.len;
        uint64_t part = next_part(x, room);
        *ret_fits = bodies_count(x, part);
        if (!*ret_fits)
            break;
        int64_t until = deadline_us < window.until ? deadline_us : window.until;
        read = http_conn_read_body(&x->client->session.conn, room, part > 0 ? part : 1, until,
                                   &x->body);
        if (read == HTTP_READ_TIMEOUT && clock_boot_us() < deadline_us && next_window(x, &window))
            read = HTTP_READ_OK;
    }
    bodies_count(x, 0);
    return read;
}

enum http_call_result bodies_read_response(struct exchange *x, int64_t deadline_us)
{
    CHECK(x->call.state == HTTP_CALL_RESPONDED && !x->response.stale);
    enum http_call_result result = HTTP_CALL_DONE;
    struct buf *body = &x->response.body;
    while (result == HTTP_CALL_DONE && http_conn_body_left(x->call.conn)) {
        uint64_t room = x->rule->max_response_body - body->len;
        result = http_call_read_body(&x->call, room, PART_LEAST, deadline_us, body);
        bodies_count(x, 0);
    }
    return result;
}

/* ---- a coding that only its client asked for ---- */

struct decoding {
    enum inflate_format format;
    const struct buf *from;
    struct buf *to;
    bool ok;
};

static void run_decoding(void *argument)
{
    struct decoding *decoding = argument;
    decoding->ok = inflate_decode(decoding->format, buf_slice(decoding->from), decoding->to->max,
                                  decoding->to) == INFLATE_OK;
}

static bool decode_body(struct exchange *x, struct slice coding)
{
    struct decoding decoding = {.from = &x->response.coded, .to = &x->response.body};
    if (!inflate_format_read(coding, &decoding.format))
        return false;
    exchange_work(x, decoding.from->len >= OFFLOAD_LEAST, run_decoding, &decoding);
    return decoding.ok;
}

bool bodies_decode_response(struct exchange *x, struct slice coding)
{
    struct upstream_response *response = &x->response;
    CHECK(response->whole && response->coded.len == 0 && response->body.len > 0);
    CHECK(x->keeps_encoding && coding.len > 0);
    response->coded = response->body;
    response->body = buf_make(x->rule->max_response_body);
    response->unkept = !decode_body(x, coding);
    bodies_count(x, 0);
    return !response->unkept;
}
