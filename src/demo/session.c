/* SPDX-License-Identifier: Apache-2.0 */
#include "demo/session.h"

#include "base/clock.h"
#include "demo/service.h"
#include "http/head.h"
#include <sys/uio.h>

#define IDLE_US (300 * CLOCK_US_PER_S)
#define READ_US (30 * CLOCK_US_PER_S)
#define WRITE_US (30 * CLOCK_US_PER_S)
#define REQUEST_BODY_MAX ((size_t)64 * 1024)
#define HEAD_MAX ((size_t)8 * 1024)
#define ARENA_MAX ((size_t)8 * 1024 * 1024)

/* ---- answers ---- */

static void answer_fini(struct service_answer *answer)
{
    buf_fini(&answer->fields);
    buf_fini(&answer->body);
}
#define ANSWER_AUTO __attribute__((cleanup(answer_fini)))

/* `half`: the head and half of the body. */
static bool send_answer(struct http_session *session, const struct http_request *request,
                        const struct service_answer *answer, bool half)
{
    bool keep = request && request->keep_alive && !half && http_session_may_go_on(session, request);
    BUF_AUTO struct buf head = buf_make(HEAD_MAX);
    head_write_status(&head, answer->status, slice_of(NULL));
    head_write_date(&head);
    head_write_field(&head, "Content-Type", SLICE("application/json"));
    head_write_number(&head, "Content-Length", answer->body.len);
    if (answer->allow != NULL)
        head_write_field(&head, "Allow", slice_of(answer->allow));
    buf_add_slice(&head, buf_slice(&answer->fields));
    head_end_answer(&head, request, keep);
    struct slice body = slice_first(buf_slice(&answer->body), answer->body.len / (half ? 2 : 1));
    return buf_ok(&answer->fields) && buf_ok(&answer->body) &&
           http_session_write(session, request, &head, body) && keep;
}

static void refuse(struct http_session *session, const struct http_complaint *complaint)
{
    ANSWER_AUTO struct service_answer answer = service_answer_make();
    service_refuse(&answer, complaint->status, complaint->text);
    (void)send_answer(session, NULL, &answer, false);
}

/* ---- one request ---- */

/* A gateway that asks what became of a lost answer sends its client's headers along: questions
 * are answered. False: the header asks for something that does not exist. */
static bool choose_faults(const struct demo *demo, const struct http_request *request,
                          struct demo_faults *ret_faults)
{
    if (!slice_eq(request->method, SLICE("POST")))
        return true;
    const struct header *header = headers_find(&request->headers, SLICE("Demo-Fault"));
    if (header != NULL)
        return demo_faults_read(header->value, ret_faults);
    *ret_faults = demo->faults;
    return true;
}

/* False: the demo stops. */
static bool delay(struct http_session *session, int64_t delay_ms)
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
static bool act(struct http_session *session, const struct http_request *request, struct slice body,
                const struct demo_faults *faults, struct service_answer *answer)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct demo *demo = session->data;
    if ((faults->delay_ms > 0 && !delay(session, faults->delay_ms)) || faults->lose_before)
        return false;
    if (faults->status != 0) {
        service_refuse(answer, faults->status, "a fault was asked for");
        return true;
    }
    service_handle(demo->ledger, request, body, &arena, answer);
    if (answer->effect && !sync_ledger(demo))
        service_refuse(answer, 500, "the entry may be lost: the disk did not take it");
    return !faults->lose;
}

static bool serve(struct http_session *session, const struct http_request *request,
                  struct arena *arena)
{
    ANSWER_AUTO struct service_answer answer = service_answer_make();
    BUF_AUTO struct buf body = buf_make(REQUEST_BODY_MAX);
    struct demo_faults faults = {0};
    struct http_complaint complaint;
    (void)arena; /* smaller than what a body takes to be read */
    if (!http_session_read_body(session, request, &body, &complaint)) {
        refuse(session, &complaint);
        return false;
    }
    if (!choose_faults(session->data, request, &faults))
        service_refuse(&answer, 400,
                       "Demo-Fault: delay=MS, status=400..599, lose, lose-before, "
                       "half");
    else if (!act(session, request, buf_slice(&body), &faults, &answer))
        return false;
    return send_answer(session, request, &answer, faults.half);
}

static struct http_limits limits(const struct http_session *session)
{
    (void)session;
    return (struct http_limits){
        .idle_us = IDLE_US, .head_us = READ_US, .body_us = READ_US, .write_us = WRITE_US};
}

const struct http_service demo_service = {
    .session_size = sizeof(struct http_session),
    .limits = limits,
    .serve = serve,
    .refuse = refuse,
};
