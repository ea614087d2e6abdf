/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl each --send`: a request for each item. */
#include "base/check.h"
#include "base/mem.h"
#include "cli/jobs/each.h"
#include "cli/lib/input.h"
#include "client/http.h"
#include "client/verdict.h"

#define PROBLEM_MAX ((size_t)1024)
#define SAID_MOST ((size_t)200)
#define SAMPLE_MAX ((size_t)1024 * 1024)

struct own {
    struct each_session *session;
    struct runner runner;
    struct client_http http;
    struct client_made made;
    struct arena arena;
    bool is_used; /* the request of an item before */
};

/* ---- the request of an item ---- */

static struct client_request request_of(const struct each_session *session,
                                        const char *const *texts, const char *key)
{
    struct client_request request = session->request.request;
    request.url = texts[EACH_URL];
    request.key = key;
    request.has_body = session->body;
    request.body = slice_of(session->body ? texts[EACH_BODY] : NULL);
    for (size_t i = 0; i < request.headers.n; i++)
        request.headers.at[i].value = slice_of(texts[EACH_HEADERS + i]);
    return request;
}

/* Values of an item could end a header's line. */
static bool check_headers(const struct headers *headers, struct buf *problem)
{
    for (size_t i = 0; i < headers->n; i++) {
        const struct header *header = &headers->at[i];
        if (header_is_valid(header->name, header->value))
            continue;
        buf_printf(problem, "the value of the header %.*s has a control character",
                   SLICE_QUOTED(header->name));
        return false;
    }
    return true;
}

/* Makes it, and what is compared of it. False: `problem` has a sentence. */
static bool make_request(const struct each_session *session, const struct each_item *item,
                         struct client_made *made, struct attempt *attempt, struct buf *problem)
{
    BUF_AUTO struct buf key = buf_make(KEY_TEXT_MAX + 1);
    buf_add_slice(&key, item->key);
    buf_add_char(&key, '\0');
    struct client_request request = request_of(session, item->texts, key.at);
    if (!buf_ok(&key) || !check_headers(&request.headers, problem) ||
        !client_make(&request, made, problem))
        return false;
    made->operation.key = arena_copy(&made->arena, made->operation.key);
    if (made->operation.key.at && client_name_record(&made->operation, &made->arena, attempt))
        return true;
    buf_add_str(problem, "the body takes too much memory to hash");
    return false;
}

static struct each_item *name(void *argument, const struct item *read, struct arena *scratch,
                              struct buf *problem)
{
    struct each_session *session = argument;
    struct each_item item;
    struct client_made *made = mem_zalloc(1, sizeof *made);
    struct attempt *attempt = mem_zalloc(1, sizeof *attempt);
    bool done = made && attempt && each_fill(session, read, scratch, &item, problem) &&
                make_request(session, &item, made, attempt, problem);
    if (done && !session->options.ignores_payload) {
        item.payload_hash = attempt->begin.payload_hash;
        item.target_hash = attempt->begin.target_hash;
    }
    if (made)
        client_made_fini(made);
    mem_free(made);
    mem_free(attempt);
    return done ? each_item_new(&item) : NULL;
}

/* ---- a worker's own ---- */

static void *open_own(void *argument)
{
    struct own *own = mem_zalloc(1, sizeof *own);
    if (!own)
        return NULL;
    own->session = argument;
    client_http_init(&own->http);
    return own;
}

static void clear_send_own(struct own *own)
{
    if (own->is_used)
        client_made_fini(&own->made);
    own->made = (struct client_made){0};
    own->runner = (struct runner){0};
    own->is_used = false;
}

static void close_own(void *at)
{
    struct own *own = at;
    clear_send_own(own);
    client_http_fini(&own->http);
    mem_free(own);
}

static void fill_runner(struct own *own, const struct each_item *item)
{
    struct runner *runner = &own->runner;
    job_fill_runner(runner, &own->session->options.job);
    runner->executor = &own->http.executor;
    runner->timeout_us = own->session->max_time_us;
    runner->attempt.begin.payload_hash = item->payload_hash;
    runner->attempt.begin.target_hash = item->target_hash;
    own->http.operation = &own->made.operation;
    own->http.origins = own->session->origins;
    own->http.connect_us = own->session->connect_us;
    own->http.max_body = CLIENT_BODY_MAX;
    own->http.choices = &own->session->request.choices;
}

static struct runner *prepare(void *at, const struct each_item *item)
{
    struct own *own = at;
    BUF_AUTO struct buf problem = buf_make(PROBLEM_MAX);
    clear_send_own(own);
    own->is_used = true;
    if (!make_request(own->session, item, &own->made, &own->runner.attempt, &problem))
        return NULL;
    fill_runner(own, item);
    return &own->runner;
}

/* A request goes on to its end, or its time. */
static void signal_own(void *at, int number)
{
    (void)at;
    (void)number;
}

void each_request_how(const struct each_end *end, struct each_how *ret_how)
{
    const struct own *own = end->own;
    const struct record *record = &own->runner.attempt.result.record;
    bool replayed = end->runner_result == RUNNER_REPLAYED;
    *ret_how = (struct each_how){
        .code =
            end->result == EACH_RUN || end->result == EACH_SKIPPED ? EXIT_DONE : EXIT_FINAL_ERROR,
        .clash = jobs_clash_of(&own->runner.attempt.result),
        .token = record->token,
        .said = slice_first(buf_slice(&own->http.body), SAID_MOST),
        .problem = own->runner.end.note,
        .http_status = replayed ? record->http_status : own->runner.end.status,
        .attempts = retry_course_sent(&own->runner.course),
        .is_out_of_budget =
            end->runner_result == RUNNER_ENDED && own->runner.ended_by == RETRY_ENDS_BUDGET};
}

const struct each_kind each_of_requests = {
    .check = each_check,
    .name = name,
    .open = open_own,
    .close = close_own,
    .prepare = prepare,
    .report = each_report,
    .ask_room = each_report_ask_room,
    .waits = each_report_waits,
    .signal = signal_own,
};

/* ---- the command line ---- */

static bool is_json_request(const struct headers *headers, const char *body)
{
    const struct header *type = headers_find(headers, SLICE("Content-Type"));
    struct slice essence = {0};
    if (type)
        (void)slice_cut(type->value, ';', &essence);
    return body && slice_eq_nocase(slice_trim(essence), SLICE("application/json"));
}

/* `METHOD URL`, or the URL alone. */
static int split_target(struct each_session *session, const char **ret_url)
{
    const char *space = strchr(session->send, ' ');
    struct slice method = slice_make(session->send, space ? (size_t)(space - session->send) : 0);
    *ret_url = space ? space + 1 : session->send;
    if (space && (!slice_is_word(method, SLICE_TOKEN_MARKS) || strchr(space + 1, ' ')))
        return command_misused(EACH_NAME, "--send wants `METHOD URL`, such as "
                                          "'POST https://api.example.com/users/{id}/offers'");
    if (space)
        session->request.request.method = arena_copy(&session->options.arena, method).at;
    return EXIT_DONE;
}

/* `@FILE`: all of it. */
static int read_each_body(struct each_session *session)
{
    BUF_AUTO struct buf bytes = buf_make(0);
    if (!session->body || session->body[0] != '@')
        return EXIT_DONE;
    int code = input_read(EACH_NAME, session->body + 1, &bytes);
    if (code != EXIT_DONE)
        return code;
    session->body = arena_copy(&session->options.arena, buf_slice(&bytes)).at;
    return session->body ? EXIT_DONE
                         : command_failed(EACH_NAME, EXIT_USAGE, "--data: the file is too large");
}

static void set_fillings(struct each_session *session)
{
    const struct headers *headers = &session->request.request.headers;
    bool has_type = headers_find(headers, SLICE("Content-Type"));
    session->texts[EACH_URL].filling = TEMPLATE_IN_URL;
    session->texts[EACH_BODY].filling = is_json_request(headers, session->body) ? TEMPLATE_IN_JSON
                                        : has_type                              ? TEMPLATE_RAW
                                                                                : TEMPLATE_IN_FORM;
}

static int compile_request(struct each_session *session, const char *url)
{
    const struct headers *headers = &session->request.request.headers;
    const char *words[EACH_HEADERS + HEADERS_MAX] = {url, session->body ? session->body : ""};
    for (size_t i = 0; i < headers->n; i++) {
        words[EACH_HEADERS + i] = arena_copy(&session->options.arena, headers->at[i].value).at;
        if (!words[EACH_HEADERS + i])
            return jobs_say(EXIT_UNAVAILABLE, "out of memory");
    }
    return each_compile(session, words, EACH_HEADERS + headers->n);
}

/* What a text is with `1` for every value. NULL: no memory. */
static const char *fill_sample(struct each_session *session, const struct template *template)
{
    BUF_AUTO struct buf text = buf_make(SAMPLE_MAX);
    for (size_t i = 0; i < template->n; i++) {
        const struct template_part *part = &template->parts[i];
        buf_add_slice(&text, part->source == TEMPLATE_LITERAL ? part->text : SLICE("1"));
    }
    return buf_ok(&text) ? arena_copy(&session->options.arena, buf_slice(&text)).at : NULL;
}

/* What is wrong with every request is said once, before any is made. A URL that an item begins is
 * the item's. */
static int try_request(struct each_session *session)
{
    const struct template *url = &session->texts[EACH_URL].template;
    struct client_made *made MEM_AUTO = mem_zalloc(1, sizeof *made);
    const char **texts MEM_AUTO = mem_zalloc(session->n_texts, sizeof *texts);
    BUF_AUTO struct buf problem = buf_make(PROBLEM_MAX);
    bool has_memory = made && texts;
    if (url->n == 0 || url->parts[0].source != TEMPLATE_LITERAL)
        return EXIT_DONE;
    for (size_t i = 0; i < session->n_texts && has_memory; i++)
        has_memory = (texts[i] = fill_sample(session, &session->texts[i].template));
    if (!has_memory)
        return jobs_say(EXIT_UNAVAILABLE, "out of memory");
    struct client_request request = request_of(session, texts, "1");
    bool good = client_make(&request, made, &problem);
    client_made_fini(made);
    return good ? EXIT_DONE
                : command_misused(EACH_NAME, "--send: %.*s", SLICE_ARG(buf_slice(&problem)));
}

int each_prepare_send(struct each_session *session)
{
    CHECK(session->send && session->max_time_us > 0 && session->connect_us > 0);
    const char *url = NULL;
    int code = read_each_body(session);
    if (code == EXIT_DONE)
        code = split_target(session, &url);
    if (code == EXIT_DONE)
        code = compile_request(session, url);
    if (code != EXIT_DONE)
        return code;
    set_fillings(session);
    session->request.route.max = 64;
    session->request.route.max_idle = session->n_jobs;
    return try_request(session);
}
