/* SPDX-License-Identifier: Apache-2.0 */
/* POST /events: events for the outbox, one as JSON or several as NDJSON, in one commit. */
#include "admin/admin_priv.h"
#include "base/check.h"
#include "base/json/json.h"
#include "webhook/event.h"
#include <assert.h>

#define ARENA_MAX ((size_t)256 * 1024 * 1024) /* understood JSON takes up to 64 times its text */
#define MANY_MOST WEBHOOK_BATCH_MOST

/* What a request publishes. */
struct batch {
    struct webhook_event events[WEBHOOK_BATCH_MOST];
    struct webhook_published published[WEBHOOK_BATCH_MOST];
    size_t n;
    bool is_lines;
};

static void refuse_event_line(struct reply *reply, size_t line, const char *problem)
{
    if (line > 0)
        reply_coded(reply, ERROR_EVENT_MALFORMED, "line %zu: the event %s", line, problem);
    else
        reply_coded(reply, ERROR_EVENT_MALFORMED, "the event %s", problem);
}

static bool read_lines(struct batch *batch, struct slice body, struct arena *arena,
                       struct reply *reply)
{
    const char *problem;
    size_t number = 0;
    while (body.len > 0) {
        struct slice line;
        body = slice_cut(body, '\n', &line);
        number++;
        line = slice_trim(line);
        if (line.len == 0)
            continue;
        if (batch->n == MANY_MOST) {
            reply_problem(reply, 413, "more than %zu events in one request", MANY_MOST);
            return false;
        }
        if (!webhook_event_read(line, arena, &batch->events[batch->n++], &problem)) {
            refuse_event_line(reply, number, problem);
            return false;
        }
    }
    if (batch->n == 0)
        reply_coded(reply, ERROR_EVENT_MALFORMED, "there is no event in the body");
    return batch->n > 0;
}

static bool read_batch(struct session *session, struct batch *batch, struct slice body,
                       struct arena *arena, struct reply *reply)
{
    const char *problem;
    batch->is_lines = session_body_is(session, SLICE("application/x-ndjson"));
    if (batch->is_lines)
        return read_lines(batch, body, arena, reply);
    if (!session_body_is(session, SLICE("application/json"))) {
        reply_problem(reply, 415,
                      "send one event as application/json, or several as application/x-ndjson");
        return false;
    }
    batch->n = 1;
    if (webhook_event_read(body, arena, batch->events, &problem))
        return true;
    if (batch->events[0].data.len > EVENT_DATA_MAX)
        reply_problem(reply, 413, "the event %s", problem);
    else
        refuse_event_line(reply, 0, problem);
    return false;
}

static const char *word_of(enum webhook_publish_end end)
{
    static const char *const words[] = {[WEBHOOK_STORED] = "stored",
                                        [WEBHOOK_REPLAYED] = "replayed",
                                        [WEBHOOK_MISMATCH] = "mismatch"};
    static_assert(COUNT_OF(words) == WEBHOOK_MISMATCH + 1, "a word for each end");
    return words[end];
}

static void write_published(struct reply *reply, const struct batch *batch)
{
    reply->status = 202;
    reply->type = batch->is_lines ? "application/x-ndjson" : "application/json";
    if (!batch->is_lines)
        buf_printf(&reply->fields, "Idempotency-Status: %s\r\n", word_of(batch->published[0].end));
    for (size_t i = 0; i < batch->n; i++) {
        buf_add_char(&reply->body, '{');
        json_add_text(&reply->body, "id", slice_of(batch->published[i].id));
        json_add_text(&reply->body, "status", slice_of(word_of(batch->published[i].end)));
        buf_add_str(&reply->body, "}\n");
    }
}

static void publish_batch(struct session *session, struct batch *batch, struct reply *reply)
{
    CHECK(batch->n > 0 && batch->n <= MANY_MOST);
    enum store_status status = webhook_publish(session->admin->config.store, batch->events,
                                               batch->n, fiber_parker(), batch->published);
    if (reply_store_failure(reply, status))
        return;
    session_tell_published(session);
    if (!batch->is_lines && batch->published[0].end == WEBHOOK_MISMATCH)
        reply_coded(reply, ERROR_PAYLOAD_MISMATCH,
                    "%s was published with another type, tenant or other data",
                    batch->published[0].id);
    else
        write_published(reply, batch);
}

void events_reply(struct session *session, struct reply *reply)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    BUF_AUTO struct buf body = buf_make(ADMIN_BODY_MAX);
    struct batch *batch = arena_alloc(&arena, sizeof *batch);
    if (!batch) {
        reply_problem(reply, 503, "out of memory");
        return;
    }
    memset(batch, 0, sizeof *batch);
    if (session_read_body(session, &body, reply) &&
        read_batch(session, batch, buf_slice(&body), &arena, reply))
        publish_batch(session, batch, reply);
}
