/* SPDX-License-Identifier: Apache-2.0 */
#include "demo/receiver.h"

#include "base/clock.h"
#include "base/json/json.h"
#include "demo/listener.h"
#include "http/headers_out.h"
#include <stdio.h>
#include <unistd.h>

#define BODY_MAX ((size_t)1024 * 1024)
#define HEAD_MAX ((size_t)8 * 1024)

struct receiver {
    const struct receiver_config *config;
    struct listener listener;
};

static bool send_receiver_response(struct http_session *session, int status, const char *text)
{
    bool keep = http_session_may_go_on(session);
    BUF_AUTO struct buf head = buf_make(HEAD_MAX), body = buf_make(HEAD_MAX);
    if (text) {
        buf_add_char(&body, '{');
        json_add_text(&body, "error", slice_of(text));
        buf_add_str(&body, "}\n");
    }
    headers_write_status(&head, status, slice_of(NULL));
    headers_write_date(&head);
    if (text)
        headers_write_field(&head, "Content-Type", SLICE("application/json"));
    if (status != 204 && status != 304)
        headers_write_number(&head, "Content-Length", body.len);
    headers_end_response(&head, session->request, keep);
    return http_session_write(session, &head, buf_slice(&body)) && keep;
}

static void refuse_event_request(struct http_session *session,
                                 const struct http_complaint *complaint)
{
    (void)send_receiver_response(session, complaint->status, complaint->text);
}

/* ---- one request ---- */

static const char *verdict_on_event(const struct receiver_config *config,
                                    const struct http_request *request, struct slice body,
                                    bool *ret_good)
{
    const struct signature_received received = {&request->headers, body, clock_wall_us(),
                                                config->tolerance_us};
    if (config->keys.n == 0)
        return NULL;
    enum signature_verdict verdict = signature_verify(config->scheme, &config->keys, &received);
    *ret_good = verdict == SIGNATURE_GOOD;
    return signature_verdict_name(verdict);
}

static void print_event(const struct receiver_config *config, const struct http_request *request,
                        struct slice body, const char *verdict)
{
    BUF_AUTO struct buf line = buf_make(SIZE_MAX);
    const struct header *id =
        config->scheme->id.len > 0 ? headers_find(&request->headers, config->scheme->id) : NULL;
    buf_add_char(&line, '{');
    json_add_time(&line, "time", clock_wall_us());
    json_add_text(&line, "method", request->method);
    json_add_text(&line, "target", request->target);
    json_add_known_text(&line, "id", id ? id->value : SLICE(""));
    json_add_known_text(&line, "signature", slice_of(verdict));
    json_add_text(&line, "body", body);
    buf_add_str(&line, "}\n");
    if (!buf_ok(&line))
        return;
    fwrite(line.at, 1, line.len, stdout);
    fflush(stdout);
}

static bool serve_event(struct http_session *session, struct arena *arena)
{
    const struct receiver *receiver = session->data;
    BUF_AUTO struct buf body = buf_make(BODY_MAX);
    struct http_complaint complaint;
    bool good = true;
    (void)arena; /* smaller than what a body takes to be read */
    if (!http_session_read_body(session, &body, &complaint)) {
        refuse_event_request(session, &complaint);
        return false;
    }
    const char *verdict =
        verdict_on_event(receiver->config, session->request, buf_slice(&body), &good);
    print_event(receiver->config, session->request, buf_slice(&body), verdict);
    return good ? send_receiver_response(session, receiver->config->status, NULL)
                : send_receiver_response(session, 401, verdict);
}

static const struct http_service service = {
    .session_size = sizeof(struct http_session),
    .serve = serve_event,
    .refuse = refuse_event_request,
};

int receiver_run(const struct receiver_config *config)
{
    BUF_AUTO struct buf address = buf_make(HEAD_MAX);
    struct receiver receiver = {.config = config,
                                .listener = {.command = "webhook listen",
                                             .listen = config->listen,
                                             .service = &service,
                                             .data = &receiver}};
    listener_init(&receiver.listener);
    bool started = listener_start(&receiver.listener, &address);
    if (started) {
        fprintf(stderr, "pawl webhook listen: listening on %.*s, pid %ld\n",
                SLICE_ARG(buf_slice(&address)), (long)getpid());
        listener_wait(&receiver.listener);
    }
    listener_fini(&receiver.listener);
    return started ? 0 : 1;
}
