/* SPDX-License-Identifier: Apache-2.0 */
/* The library: client.h over what `pawl send` is made of. */
#include <pawl/client.h>

#include "base/check.h"
#include "base/crypto/random.h"
#include "base/mem.h"
#include "client/http.h"
#include "client/request.h"
#include "client/run.h"
#include "client/succeeded.h"
#include "client/verdict.h"
#include <stdio.h>

#define REMEMBER_MS (INT64_C(7) * 86400 * 1000)
#define TIMEOUT_MS (INT64_C(30) * 1000)
#define CONNECT_MS (INT64_C(5) * 1000)
#define CODE_MAX 64 /* as SLICE_QUOTED cuts it */
#define TEXT_MAX ((size_t)8 * 1024)

_Static_assert((int)PAWL_REFUSED == EXIT_FINAL_ERROR && (int)PAWL_USAGE == EXIT_USAGE &&
                   (int)PAWL_MISMATCH == EXIT_BAD_DATA &&
                   (int)PAWL_UNAVAILABLE == EXIT_UNAVAILABLE &&
                   (int)PAWL_FAIL_STOP == EXIT_FAIL_STOP && (int)PAWL_TRY_AGAIN == EXIT_TRY_AGAIN &&
                   (int)PAWL_UNKNOWN == EXIT_OUTCOME_UNKNOWN && (int)PAWL_DEADLINE == EXIT_DEADLINE,
               "verdicts are exit codes");
_Static_assert((int)PAWL_NOT_REMEMBERED == EXIT_FINAL_ERROR &&
                   (int)PAWL_NOT_KNOWN == EXIT_UNAVAILABLE &&
                   (int)PAWL_ON_ITS_WAY == EXIT_TRY_AGAIN &&
                   (int)PAWL_LEFT_IN_DOUBT == EXIT_OUTCOME_UNKNOWN,
               "so are these");

struct pawl_store {
    struct store *store;
    struct engine *engine;
};

/* What the response's texts lie in. */
struct reply {
    struct pawl_response response; /* first: the two are cast into each other */
    struct buf key;
    struct buf code;
    struct buf problem;
    struct buf headers;
    struct buf body;
};

/* One call. */
struct sending {
    const struct pawl_request *asked;
    const struct pawl_answers *answers; /* NULL: it has none of its own */
    struct client_request request;
    struct client_route route;
    struct client_made made;
    struct client_http http;
    struct retry_choices choices;
    struct runner runner;
    enum runner_result result;
};

/* ---- the store ---- */

struct pawl_store *pawl_store_open(const char *path, char *problem, size_t size)
{
    char *why MEM_AUTO = NULL;
    struct store_config config = store_config_default();
    struct pawl_store *made = mem_zalloc(1, sizeof *made);
    config.path = path;
    if (made && store_open(&config, &made->store, &why) == STORE_OPENED) {
        made->engine = engine_new(made->store, 0);
        if (made->engine)
            return made;
        store_close(made->store);
    }
    mem_free(made);
    snprintf(problem, size, "%s", why ? why : "out of memory");
    return NULL;
}

void pawl_store_close(struct pawl_store *store)
{
    if (!store)
        return;
    engine_free(store->engine);
    store_close(store->store);
    mem_free(store);
}

enum pawl_success pawl_succeeded(struct pawl_store *store, const char *key)
{
    struct thread_parker parker;
    enum exit_code code = EXIT_UNAVAILABLE;
    thread_parker_init(&parker);
    if (client_succeeded(store->store, slice_of(key), &parker.parker, &code) != STORE_DONE)
        code = EXIT_UNAVAILABLE;
    thread_parker_fini(&parker);
    return (enum pawl_success)code;
}

bool pawl_make_key(int version, char ret_key[37])
{
    _Static_assert(CLIENT_KEY_SIZE == 37, "as client.h says");
    if (version != 4 && version != 7)
        return false;
    client_mint_key(version == 7, ret_key);
    return true;
}

/* ---- the request ---- */

static bool add_caller_headers(const char *const *headers, struct headers *ret_headers,
                               struct buf *problem)
{
    for (size_t i = 0; headers && headers[i]; i++) {
        struct slice name, value = slice_cut(slice_of(headers[i]), ':', &name);
        if (value.at && header_is_valid(name, value) &&
            headers_add(ret_headers, name, slice_trim(value)))
            continue;
        buf_printf(problem, "header %zu is not `Name: value`, or one too many", i + 1);
        return false;
    }
    return true;
}

static bool take_request(struct sending *sending, struct buf *problem)
{
    const struct pawl_request *asked = sending->asked;
    struct client_request *request = &sending->request;
    request->method = asked->method;
    request->url = asked->url;
    request->key = asked->key;
    request->body = slice_make(asked->body, asked->body ? asked->body_size : 0);
    request->has_body = asked->body;
    request->is_json = asked->is_json;
    sending->route = (struct client_route){asked->ca, asked->cert, asked->cert_key,
                                           asked->unix_socket, asked->insecure};
    if (request->body.len <= CLIENT_BODY_MAX)
        return add_caller_headers(asked->headers, &request->headers, problem);
    buf_add_str(problem, "the body is larger than 64 MiB");
    return false;
}

static int64_t or_else(int64_t ms, int64_t otherwise_ms)
{
    ms = ms > 0 ? ms : otherwise_ms;
    return ms > CLOCK_NEVER / CLOCK_US_PER_MS ? CLOCK_NEVER : ms * CLOCK_US_PER_MS;
}

static void report_attempt(void *argument, const struct runner_report *report)
{
    const struct pawl_request *asked = argument;
    char code[CODE_MAX];
    bool again = report->end->class >= RETRY_LATER && report->next.end == RETRY_GOES_ON;
    int64_t left = again && report->next.at > report->now ? report->next.at - report->now : 0;
    snprintf(code, sizeof code, "%.*s", SLICE_QUOTED(report->end->code));
    struct pawl_attempt attempt = {.number = report->attempt->number,
                                   .delay_ms = report->attempt->delay_us / CLOCK_US_PER_MS,
                                   .status = report->end->status,
                                   .code = code,
                                   .problem = report->end->note,
                                   .next_ms = again ? left / CLOCK_US_PER_MS : -1};
    asked->report(asked->argument, &attempt);
}

static bool take_choices(struct sending *sending, struct buf *problem)
{
    const struct pawl_answers *answers = sending->answers;
    struct retry_choices *choices = &sending->choices;
    if (!answers)
        return true;
    sending->http.choices = choices;
    for (size_t i = 0; answers->not_done && answers->not_done[i]; i++)
        if (!retry_choose_not_done(choices, slice_of(answers->not_done[i]))) {
            buf_add_str(problem,
                        "`not_done` wants at most 16 of `/POINTER=VALUE` or `Name: value`");
            return false;
        }
    if ((!answers->done || retry_choose(choices, slice_of(answers->done), RETRY_CHOICE_DONE)) &&
        (!answers->later || retry_choose(choices, slice_of(answers->later), RETRY_CHOICE_LATER)))
        return true;
    buf_add_str(problem, "`done` and `later` want statuses from 300 on, such as 409,422, and none "
                         "in both");
    return false;
}

static bool prepare_sending(struct sending *sending, struct buf *problem)
{
    const struct pawl_request *asked = sending->asked;
    struct runner *runner = &sending->runner;
    enum retry_profile profile = RETRY_PROFILE_user_facing;
    if (asked->profile && !retry_profile_find(slice_of(asked->profile), &profile)) {
        buf_printf(problem, "there is no profile `%s`", asked->profile);
        return false;
    }
    runner->engine = asked->store ? asked->store->engine : NULL;
    runner->executor = &sending->http.executor;
    runner->schedule = retry_profile_schedule(profile);
    runner->profile = profile;
    runner->seed = random_u64();
    runner->total_us = or_else(asked->deadline_ms, CLOCK_NEVER);
    runner->timeout_us = or_else(asked->timeout_ms, TIMEOUT_MS);
    runner->wait_us = CLOCK_NEVER;
    runner->attempt.begin.unknown = RECORD_UNKNOWN_RETRY;
    runner->report = asked->report ? report_attempt : NULL;
    runner->argument = (void *)(uintptr_t)asked;
    runner->attempt.begin.ttl_us = or_else(asked->remember_ms, REMEMBER_MS);
    sending->http.operation = &sending->made.operation;
    sending->http.connect_us = or_else(asked->connect_ms, CONNECT_MS);
    sending->http.max_body = CLIENT_BODY_MAX;
    if (!take_choices(sending, problem) || !take_request(sending, problem) ||
        !client_make(&sending->request, &sending->made, problem))
        return false;
    sending->http.origins = client_connect(&sending->route, &sending->made.operation.url, problem);
    return sending->http.origins;
}

/* ---- the response ---- */

static const char *text_of_reply(struct buf *buf)
{
    buf_add_char(buf, '\0');
    return buf_ok(buf) ? buf->at : "";
}

static bool take_kept(struct sending *sending, struct reply *reply)
{
    struct outcome *kept = sending->runner.outcome;
    COMPRESS_AUTO struct compress compress = {0};
    reply->response.replayed = true;
    if (!kept || outcome_unpack(kept, &compress) != OUTCOME_UNPACKED)
        return true;
    reply->response.status = kept->status;
    buf_add_slice(&reply->headers, kept->fields);
    buf_add_slice(&reply->body, kept->body);
    return buf_ok(&reply->headers) && buf_ok(&reply->body);
}

/* Hands over what the executor has. */
static bool take_last(struct sending *sending, struct reply *reply)
{
    struct client_http *http = &sending->http;
    reply->response.status = http->status;
    reply->response.truncated = http->truncated;
    reply->response.attempts = retry_course_sent(&sending->runner.course);
    buf_add_slice(&reply->code, sending->runner.end.code);
    if (sending->runner.end.note)
        buf_add_str(&reply->problem, sending->runner.end.note);
    buf_add_slice(&reply->headers, buf_slice(&http->fields));
    buf_add_slice(&reply->body, buf_slice(&http->body));
    return buf_ok(&reply->headers) && buf_ok(&reply->body);
}

static void take_sent_result(struct sending *sending, struct reply *reply)
{
    bool replayed = sending->result == RUNNER_REPLAYED;
    bool ran = sending->result <= RUNNER_ENDED && !replayed;
    reply->response.verdict =
        (enum pawl_verdict)client_exit_code(sending->result, &sending->runner);
    bool fits = true;
    if (replayed)
        fits = take_kept(sending, reply);
    else if (ran)
        fits = take_last(sending, reply);
    if (fits)
        return;
    buf_clear(&reply->body); /* what was done is said all the same */
    reply->response.truncated = true;
}

static void end_reply(struct reply *reply)
{
    struct pawl_response *response = &reply->response;
    response->body_size = reply->body.len;
    response->key = text_of_reply(&reply->key);
    response->code = text_of_reply(&reply->code);
    response->problem = text_of_reply(&reply->problem);
    response->headers = text_of_reply(&reply->headers);
    response->body = text_of_reply(&reply->body);
}

static struct reply *make_reply(void)
{
    struct reply *reply = mem_zalloc(1, sizeof *reply);
    if (!reply)
        return NULL;
    reply->key = reply->code = reply->problem = buf_make(TEXT_MAX);
    reply->headers = reply->body = buf_make(SIZE_MAX);
    return reply;
}

void pawl_response_free(struct pawl_response *response)
{
    struct reply *reply = (struct reply *)response;
    if (!reply)
        return;
    buf_fini(&reply->key);
    buf_fini(&reply->code);
    buf_fini(&reply->problem);
    buf_fini(&reply->headers);
    buf_fini(&reply->body);
    mem_free(reply);
}

/* ---- all of it ---- */

static void close_sending(struct sending *sending)
{
    http_origins_free(sending->http.origins);
    outcome_unref(sending->runner.outcome);
    if (sending->result == RUNNER_NOT_STORED) /* the store writes from it still */
        return;
    client_http_fini(&sending->http);
    client_made_fini(&sending->made);
    mem_free(sending);
}

/* False: no memory. */
static bool run_sending(struct sending *sending, struct reply *reply)
{
    if (!prepare_sending(sending, &reply->problem)) {
        reply->response.verdict = PAWL_USAGE;
        return true;
    }
    buf_add_slice(&reply->key, sending->made.operation.key);
    if (sending->runner.engine &&
        !client_name_record(&sending->made.operation, &sending->made.arena,
                            &sending->runner.attempt))
        return false;
    if (!client_run(&sending->runner, &sending->result))
        return false;
    take_sent_result(sending, reply);
    return true;
}

struct pawl_response *pawl_send(const struct pawl_request *request)
{
    return pawl_send_by(request, NULL);
}

struct pawl_response *pawl_send_by(const struct pawl_request *request,
                                   const struct pawl_answers *answers)
{
    struct sending *sending = mem_zalloc(1, sizeof *sending);
    struct reply *reply = sending ? make_reply() : NULL;
    if (!reply) {
        mem_free(sending);
        return NULL;
    }
    sending->asked = request;
    sending->answers = answers;
    client_http_init(&sending->http);
    bool done = run_sending(sending, reply);
    close_sending(sending);
    end_reply(reply);
    if (done)
        return &reply->response;
    pawl_response_free(&reply->response);
    return NULL;
}
