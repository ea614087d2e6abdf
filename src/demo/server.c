/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries are written on the loop (into the page cache), so they stand in the order of their ids,
 * and are forced to the disk by workers, several at a time. The main thread waits for a signal.
 */
#include "demo/server.h"

#include "base/clock.h"
#include "demo/faults.h"
#include "demo/listener.h"
#include "demo/service.h"
#include "fiber/offload.h"
#include "http/headers_out.h"
#include <stdio.h>
#include <unistd.h>

#define REQUEST_BODY_MAX ((size_t)64 * 1024)
#define HEAD_MAX ((size_t)8 * 1024)
#define ARENA_MAX ((size_t)8 * 1024 * 1024)
#define WORKERS ((size_t)4)

struct demo {
    struct ledger *ledger;     /* on the loop's thread */
    struct workers *workers;   /* for ledger_sync */
    struct demo_faults faults; /* of POSTs that name none */
    struct listener listener;
};

/* ---- responses ---- */

static void service_response_fini(struct service_response *response)
{
    buf_fini(&response->fields);
    buf_fini(&response->body);
}
#define RESPONSE_AUTO __attribute__((cleanup(service_response_fini)))

/* `half`: the head and half of the body. */
static bool send_demo_response(struct http_session *session,
                               const struct service_response *response, bool half)
{
    bool keep = !half && http_session_may_go_on(session);
    BUF_AUTO struct buf head = buf_make(HEAD_MAX);
    headers_write_status(&head, response->status, slice_of(NULL));
    headers_write_date(&head);
    headers_write_field(&head, "Content-Type", SLICE("application/json"));
    headers_write_number(&head, "Content-Length", response->body.len);
    buf_add_slice(&head, buf_slice(&response->fields));
    headers_end_response(&head, session->request, keep);
    struct slice body =
        slice_first(buf_slice(&response->body), response->body.len / (half ? 2 : 1));
    return buf_ok(&response->fields) && buf_ok(&response->body) &&
           http_session_write(session, &head, body) && keep;
}

static void refuse_demo_request(struct http_session *session,
                                const struct http_complaint *complaint)
{
    RESPONSE_AUTO struct service_response response = service_response_make();
    service_refuse(&response, complaint->status, complaint->text);
    (void)send_demo_response(session, &response, false);
}

/* ---- one request ---- */

/* A gateway that probes after a lost response sends its client's headers along: a GET has no fault.
 * False: the header names a fault that does not exist. */
static bool choose_faults(const struct http_session *session, struct demo_faults *ret_faults)
{
    const struct http_request *request = session->request;
    const struct demo *demo = session->data;
    if (!slice_eq(request->method, SLICE("POST")))
        return true;
    const struct header *header = headers_find(&request->headers, SLICE("Demo-Fault"));
    if (header)
        return demo_faults_read(header->value, ret_faults);
    *ret_faults = demo->faults;
    return true;
}

/* False: the demo stops. */
static bool delay_response(struct http_session *session, int64_t delay_ms)
{
    struct parker parker = {.waker = fiber_parker()};
    int64_t deadline_us = clock_after(clock_boot_us(), delay_ms * CLOCK_US_PER_MS);
    bool over = false;
    session->waiting = &parker;
    while (!over && !parker.interrupted && !http_session_is_draining(session))
        over = fiber_wait(NULL, 0, deadline_us) == FIBER_DEADLINE;
    session->waiting = NULL;
    return over;
}

struct sync_job {
    const struct ledger *ledger;
    bool done;
};

static void run_sync(void *argument)
{
    struct sync_job *job = argument;
    job->done = ledger_sync(job->ledger);
}

static bool sync_ledger(const struct demo *demo)
{
    struct sync_job job = {.ledger = demo->ledger};
    return fiber_offload(demo->workers, run_sync, &job) && job.done;
}

/* Acts on the request. False: nothing is to be answered. */
static bool act_on_faults(struct http_session *session, struct slice body,
                          const struct demo_faults *faults, struct service_response *response)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct demo *demo = session->data;
    if ((faults->delay_ms > 0 && !delay_response(session, faults->delay_ms)) || faults->lose_before)
        return false;
    if (faults->status != 0) {
        service_refuse(response, faults->status, "the request asked for this fault");
        return true;
    }
    service_handle(demo->ledger, session->request, body, &arena, response);
    if (response->effect && !sync_ledger(demo))
        service_refuse(response, 500, "the entry may be lost: it could not be written to disk");
    return !faults->lose;
}

static bool serve_demo_request(struct http_session *session, struct arena *arena)
{
    RESPONSE_AUTO struct service_response response = service_response_make();
    BUF_AUTO struct buf body = buf_make(REQUEST_BODY_MAX);
    struct demo_faults faults = {0};
    struct http_complaint complaint;
    (void)arena; /* smaller than what a body takes to be read */
    if (!http_session_read_body(session, &body, &complaint)) {
        refuse_demo_request(session, &complaint);
        return false;
    }
    if (!choose_faults(session, &faults))
        service_refuse(&response, 400,
                       "Demo-Fault: delay=MS, status=400..599, lose, lose-before, "
                       "half");
    else if (!act_on_faults(session, buf_slice(&body), &faults, &response))
        return false;
    return send_demo_response(session, &response, faults.half);
}

static const struct http_service demo_service = {
    .session_size = sizeof(struct http_session),
    .serve = serve_demo_request,
    .refuse = refuse_demo_request,
};

/* ---- start and end ---- */

static bool report_failure(const char *what, const char *why)
{
    fprintf(stderr, "pawl demo: %s: %s\n", what, why);
    return false;
}

static bool open_ledger(struct demo *demo, const char *path)
{
    BUF_AUTO struct buf problem = buf_make(1024);
    demo->ledger = ledger_open(path, &problem);
    if (demo->ledger)
        return true;
    fprintf(stderr, "pawl demo: ledger %s: %.*s\n", path, SLICE_ARG(buf_slice(&problem)));
    return false;
}

static bool start_demo(struct demo *demo, const struct demo_config *config)
{
    BUF_AUTO struct buf address = buf_make(1024);
    if (!demo_faults_read(slice_of(config->faults), &demo->faults))
        return report_failure("not a list of faults", config->faults);
    if (!open_ledger(demo, config->ledger))
        return false;
    demo->workers = workers_new(WORKERS, LISTENER_CONNECTIONS_MAX);
    if (!demo->workers)
        return report_failure("cannot start", "no resources");
    if (!listener_start(&demo->listener, &address))
        return false;
    fprintf(stderr, "pawl demo: listening on %.*s, ledger %s, pid %ld\n",
            SLICE_ARG(buf_slice(&address)), config->ledger, (long)getpid());
    return true;
}

int demo_run(const struct demo_config *config)
{
    struct demo demo = {
        .listener = {
            .command = "demo", .listen = config->listen, .service = &demo_service, .data = &demo}};
    listener_init(&demo.listener);
    bool started = start_demo(&demo, config);
    if (started)
        listener_wait(&demo.listener);
    workers_free(demo.workers);
    listener_fini(&demo.listener);
    ledger_close(demo.ledger);
    return started ? 0 : 1;
}
