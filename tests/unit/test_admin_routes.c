/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The admin listener without its sockets: requests as bytes, through admin_service to the bytes of
 * the responses, over the toy store. The linker wraps what a session has of its connection, and
 * who parks does the store's work.
 */
#include "admin/admin_priv.h"
#include "base/mem.h"
#include "http/message.h"
#include "operator/keys.h"
#include "toy/toy.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define HOST "Host: localhost\r\n"
#define JSON HOST "Content-Type: application/json\r\n"
#define ALL_PAGES                                                                                  \
    "not found; this listener serves /livez, /readyz, /metrics, /audit, /keys, /keys/ID, "         \
    "/keys/ID/{resolve,release,forget}, /keys/{resolve,release}, /events, /deliveries, "           \
    "/deliveries/ID, /deliveries/ID/{replay,drop}, the same of /inbox, "                           \
    "/inbox/sources/NAME/remove, /endpoints, /endpoints/NAME, "                                    \
    "/endpoints/NAME/{enable,disable,rotate,remove}"

static struct store *store;
static struct parker parker;
static struct admin admin;
static struct buf written; /* the response under way */
static struct slice request_body;
static int n_published;
static bool is_ready;
static long long row_id; /* of the record */

/* ---- the connection ---- */

struct parker *__wrap_fiber_parker(void);
bool __wrap_http_session_is_draining(const struct http_session *session);
bool __wrap_http_session_may_go_on(const struct http_session *session);
bool __wrap_http_session_read_body(struct http_session *session, struct buf *body,
                                   struct http_complaint *ret_complaint);
bool __wrap_http_session_write(struct http_session *session, const struct buf *headers,
                               struct slice body);

struct parker *__wrap_fiber_parker(void)
{
    return &parker;
}

bool __wrap_http_session_is_draining(const struct http_session *session)
{
    (void)session;
    return false;
}

bool __wrap_http_session_may_go_on(const struct http_session *session)
{
    return session->request->keep_alive;
}

bool __wrap_http_session_read_body(struct http_session *session, struct buf *body,
                                   struct http_complaint *ret_complaint)
{
    (void)session;
    buf_add_slice(body, request_body);
    *ret_complaint = (struct http_complaint){HTTP_BODY_LARGE, 413, "the body is too large", NULL};
    return buf_ok(body);
}

bool __wrap_http_session_write(struct http_session *session, const struct buf *headers,
                               struct slice body)
{
    (void)session;
    buf_add_slice(&written, buf_slice(headers));
    buf_add_slice(&written, body);
    return true;
}

static bool do_work(struct parker *own, int64_t deadline_us)
{
    (void)own;
    (void)deadline_us;
    (void)store_step(store);
    return false;
}

static void ignore_wake(struct parker *own)
{
    (void)own;
}

/* ---- one request ---- */

/* `line` is the method and the path, '#' in it the record's id. True: the connection may be used
 * again. */
static bool ask(const char *line, const char *fields, const char *body)
{
    ARENA_AUTO struct arena arena = arena_make((size_t)8 * 1024 * 1024);
    BUF_AUTO struct buf bytes = buf_make(64 * 1024);
    struct http_request *request = arena_alloc(&arena, sizeof *request);
    size_t scan = 0;
    assert_non_null(request);
    struct slice head, tail = slice_cut(slice_of(line), '#', &head);
    buf_add_slice(&bytes, head);
    if (tail.at)
        buf_printf(&bytes, "%lld%.*s", row_id, SLICE_ARG(tail));
    buf_printf(&bytes, " HTTP/1.1\r\n%s\r\n", fields);
    assert_int_equal(http_parse_request(buf_slice(&bytes), &scan, request), HTTP_PARSE_DONE);
    struct session session = {.http = {.request = request, .data = &admin, .peer = "127.0.0.1"}};
    request_body = slice_of(body);
    buf_clear(&written);
    admin_service.open(&session.http, NULL);
    bool goes_on = admin_service.serve(&session.http, &arena);
    buf_add_char(&written, '\0');
    assert_true(buf_ok(&written));
    assert_int_equal(admin.store_busy, 0);
    return goes_on;
}

static long long number_at(const char *at)
{
    return strtoll(at, NULL, 10);
}

static int status_of_response(void)
{
    return (int)number_at(written.at + strlen("HTTP/1.1 "));
}

static void expect_response(const char *line, int status, const char *has)
{
    if (status_of_response() != status || !strstr(written.at, has))
        fail_msg("%s: expected %d and '%s' in\n%s", line, status, has, written.at);
}

static void expect(const char *line, const char *fields, const char *body, int status,
                   const char *has)
{
    ask(line, fields, body);
    expect_response(line, status, has);
}

static long long number_of(const char *name)
{
    const char *at = strstr(written.at, name);
    assert_non_null(at);
    return number_at(at + strlen(name));
}

/* ---- the process around it ---- */

static bool answer_ready(const void *argument, struct buf *why)
{
    (void)argument;
    buf_add_str(why, is_ready ? "2 loops" : "the store is behind");
    return is_ready;
}

static void write_page(void *argument, struct buf *page)
{
    (void)argument;
    buf_add_str(page, "pawl_up 1\n");
}

static void count_published(void *argument)
{
    (void)argument;
    n_published++;
}

/* Rule "send", key "k1", in doubt. */
static void store_doubt(void)
{
    struct engine *engine = engine_new(store, 0);
    struct attempt *attempt = mem_zalloc(1, sizeof *attempt);
    struct engine_act doubt = {.kind = STORE_DOUBT};
    assert_true(engine && attempt);
    attempt->rule = SLICE("send");
    attempt->key = SLICE("k1");
    attempt->recipe = SLICE("2 all");
    attempt->begin.ttl_us = INT64_C(86400) * CLOCK_US_PER_S;
    attempt->begin.lease_us = 30 * CLOCK_US_PER_S;
    attempt->begin.unknown = RECORD_UNKNOWN_HOLD;
    assert_int_equal(engine_begin(engine, attempt, &parker, CLOCK_NEVER), ENGINE_PROCEED);
    engine_write(engine, attempt, &doubt, &parker);
    assert_true(engine_wait(attempt, &parker, CLOCK_NEVER));
    assert_int_equal(engine_written(engine, attempt), ENGINE_STORED);
    attempt_fini(attempt);
    mem_free(attempt);
    engine_free(engine);
}

static int open_admin(void **state)
{
    struct store_config config = store_config_default();
    char *problem = NULL;
    (void)state;
    config.no_thread = true;
    parker = (struct parker){.park = do_work, .wake = ignore_wake};
    assert_int_equal(store_open_over(&config, toy_open(NULL), &store, &problem), STORE_OPENED);
    admin = (struct admin){.config = {.store = store,
                                      .metrics = metrics_new(),
                                      .log = log_new(open("/dev/null", O_WRONLY), 64 * 1024),
                                      .is_ready = answer_ready,
                                      .write_metrics = write_page,
                                      .published = count_published}};
    written = buf_make((size_t)16 * 1024 * 1024);
    n_published = 0;
    is_ready = true;
    store_doubt();
    ask("GET /keys", HOST, "");
    row_id = number_of("\"id\":");
    return 0;
}

static int close_admin(void **state)
{
    (void)state;
    buf_fini(&written);
    log_free(admin.config.log);
    metrics_free(admin.config.metrics);
    store_close(store);
    return 0;
}

/* ---- tests ---- */

static void what_there_is_and_by_which_method_is_one_table(void **state)
{
    static const struct {
        const char *path;
        int get, post, delete;
    } rows[] = {
        {"/livez", 200, 405, 405},
        {"/readyz", 200, 405, 405},
        {"/metrics", 200, 405, 405},
        {"/audit", 200, 405, 405},
        {"/keys", 200, 405, 405},
        {"/keys/#", 200, 405, 405},
        {"/keys/3", 404, 405, 405},
        {"/keys/resolve", 405, 415, 405},
        {"/keys/release", 405, 415, 405},
        {"/keys/#/resolve", 405, 415, 405},
        {"/keys/#/forget", 405, 415, 405},
        {"/events", 405, 415, 405},
        {"/deliveries", 200, 405, 405},
        {"/deliveries/7", 404, 405, 405},
        {"/deliveries/7/replay", 405, 404, 405},
        {"/inbox", 200, 405, 405},
        {"/inbox/7", 404, 405, 405},
        {"/inbox/7/drop", 405, 404, 405},
        {"/inbox/sources/bank/remove", 405, 404, 405},
        {"/endpoints", 200, 415, 405},
        {"/endpoints/billing", 404, 405, 405},
        {"/endpoints/billing/rotate", 405, 404, 405},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static const char *const methods[] = {"GET", "POST", "DELETE"};
        const int expected[] = {rows[i].get, rows[i].post, rows[i].delete};
        for (size_t j = 0; j < 3; j++) {
            char line[128];
            snprintf(line, sizeof line, "%s %s", methods[j], rows[i].path);
            const char *allow =
                rows[i].get == 405 ? "\r\nAllow: POST\r\n" : "\r\nAllow: GET, HEAD\r\n";
            expect(line, HOST, "", expected[j], expected[j] == 405 ? allow : "\r\n\r\n");
            assert_false(strstr(written.at, "not found; this listener"));
        }
    }
}

static void any_other_path_is_no_page_whatever_the_method(void **state)
{
    static const char *const paths[] = {
        "/",
        "/livez/",
        "/keys/",
        "/keys/0",
        "/keys/x",
        "/keys/#/",
        "/keys/forget",
        "/keys/#/destroy",
        "/keys/#/forget/1",
        "/keys/9223372036854775808",
        "/deliveries/0",
        "/deliveries/7/fly",
        "/deliveries/7/replay/",
        "/deliveriesx",
        "/inbox/sources",
        "/inbox/sources/bank",
        "/inbox/sources//remove",
        "/inbox/sources/bank/fly",
        "/endpoints/",
        "/endpointsx",
        "/endpoints//enable",
        "/endpoints/%zz",
        "/endpoints/billing/",
        "/endpoints/billing/fly",
    };
    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char line[128];
        snprintf(line, sizeof line, "GET %s", paths[i]);
        expect(line, HOST, "", 404, ALL_PAGES "\"}\n");
        snprintf(line, sizeof line, "POST %s", paths[i]);
        expect(line, JSON, "{}", 404, ALL_PAGES "\"}\n");
    }
}

static void a_name_in_a_path_is_decoded(void **state)
{
    (void)state;
    expect("GET /endpoints/a%2Fb%20c", HOST, "", 404, "there is no endpoint a/b c\"");
    expect("POST /inbox/sources/b%61nk/remove", HOST, "", 404, "there is no source bank\"");
}

static void health_is_open_and_all_else_is_guarded_first(void **state)
{
    (void)state;
    expect("GET /livez", "Host: evil.example\r\nOrigin: https://evil.example\r\n", "", 200,
           "\r\n\r\nalive\n");
    expect("GET /readyz", "Host: evil.example\r\n", "", 200, "ready\n2 loops");
    is_ready = false;
    expect("GET /readyz", HOST, "", 503, "the store is behind");
    expect("POST /livez", "Host: evil.example\r\n", "", 405, "use GET here");
    expect("GET /keys", HOST "Origin: null\r\n", "", 403, "from web pages");
    expect("DELETE /keys", "Host: evil.example\r\n", "", 403, "Host must be localhost");
    expect("GET /nothing", "Host: evil.example\r\n", "", 403, "Host must be localhost");
    expect("GET /metrics", "Host: [::1]:9\r\n", "", 200, "\r\n\r\npawl_up 1\n");
    expect("GET /nothing", HOST "X-Operator: a b\r\n", "", 400, "X-Operator: expected");
    admin.config.token = SLICE("secret");
    expect("GET /keys", HOST, "", 401, "\r\nWWW-Authenticate: Bearer\r\n");
    expect("GET /keys", HOST "Authorization: Bearer secreT\r\n", "", 401, "admin_token");
    expect("GET /keys", "Host: pawl.example\r\nAuthorization: bearer secret\r\n", "", 200, "k1");
    expect("GET /livez", HOST, "", 200, "alive");
}

static void a_record_is_read_settled_and_forgotten(void **state)
{
    (void)state;
    expect("GET /keys?status=unknown", HOST, "", 200, "\"key\":\"k1\"");
    expect("GET /keys?status=complete", HOST, "", 200, "\r\n\r\n{\"keys\":[],\"next\":null}\n");
    expect("GET /keys?color=red", HOST, "", 400, "`color=red` in the query: expected tenant");
    expect("GET /keys/#", HOST, "", 200, "\"in_doubt\":true");
    char body[128];
    snprintf(body, sizeof body, "{\"token\": %lld, \"status\": 201, \"reason\": \"seen\"}",
             number_of("\"token\":"));
    expect("POST /keys/#/resolve", JSON, "[]", 400, "is not a JSON object");
    expect("POST /keys/#/resolve", JSON, "{\"status\": 201}", 400, "`token` is missing");
    expect("POST /keys/#/resolve", JSON, "{\"token\": 1, \"status\": 99}", 400, "200 to 599");
    expect("POST /keys/#/release", JSON, "{\"status\": 201}", 400, "token, reason and force only");
    expect("POST /keys/3/resolve", JSON, body, 404, "there is no record 3");
    expect("POST /keys/#/resolve", JSON, body, 200, "\"changed\":true");
    expect("GET /keys/#", HOST, "", 200, "\"http_code\":201");
    expect("GET /audit", HOST, "", 200, "\"reason\":\"seen\"");
    expect("POST /keys/#/forget", JSON, "{}", 200, "\"key\":null");
    expect("GET /keys/#", HOST, "", 404, "there is no record");
}

static void many_are_settled_by_their_rule(void **state)
{
    (void)state;
    expect("POST /keys/release", JSON, "{\"before\": \"2100-01-01T00:00:00Z\"}", 400,
           "`rule` is missing");
    expect("POST /keys/release", JSON, "{\"rule\": \"sent\", \"before\": \"2100-01-01T00:00:00Z\"}",
           404, "sent");
    expect("POST /keys/release", JSON, "{\"rule\": \"send\", \"before\": \"2000-01-01T00:00:00Z\"}",
           200, "\"settled\":0");
    expect("POST /keys/release", JSON, "{\"rule\": \"send\", \"before\": \"2100-01-01T00:00:00Z\"}",
           200, "\"settled\":1");
}

static void events_are_published_once_and_told_of(void **state)
{
    static const char event[] = "{\"id\": \"e1\", \"type\": \"paid\", \"data\": {\"n\": 1}}";
    (void)state;
    expect("POST /events", JSON, event, 202, "\r\nIdempotency-Status: stored\r\n");
    expect("POST /events", JSON, event, 202, "\"status\":\"replayed\"");
    assert_int_equal(n_published, 2);
    expect("POST /events", JSON, "{\"id\": \"e1\", \"type\": \"paid\", \"data\": {\"n\": 2}}", 409,
           "Error-Code: ");
    expect("POST /events", JSON, "{}", 400, "the event ");
    expect("POST /events", HOST "Content-Type: application/x-ndjson\r\n", "\n{}\n", 400,
           "line 2: ");
    expect("POST /events", HOST "Content-Type: application/x-ndjson\r\n", "\n", 400, "no event");
    assert_int_equal(n_published, 3);
}

static void a_body_that_cannot_be_read_ends_the_connection(void **state)
{
    (void)state;
    BUF_AUTO struct buf long_body = buf_make((size_t)16 * 1024);
    while (long_body.len < (size_t)9 * 1024)
        buf_add_char(&long_body, ' ');
    buf_add_char(&long_body, '\0');
    assert_false(ask("POST /deliveries/7/drop", JSON, long_body.at));
    expect_response("drop", 413, "\r\nConnection: close\r\n");
    assert_true(ask("POST /deliveries/7/drop", JSON, "{\"reason\": \"\"}"));
    expect_response("drop", 400, "1 to 1024 bytes");
    assert_true(ask("POST /deliveries/7/drop", HOST, "{\"reason\": \"x\"}"));
    expect_response("drop", 415, "send the reason as application/json");
    assert_true(ask("POST /deliveries/7/drop", JSON, "{\"reason\": \"x\"}"));
    expect_response("drop", 404, "there is no delivery 7");
}

#ifdef PAWL_HOOKS

/* found: without memory to look at it, it was kept without its type */
static void a_response_that_is_given_is_kept_with_its_type_or_not_at_all(void **state)
{
    const struct keys_response response = {.status = 201, .body = SLICE("{\"id\":[1,{}]}")};
    (void)state;
    int fired = 1;
    for (long n = 1; fired; n++) {
        char room[200];
        struct buf problem = buf_on(room, sizeof room, sizeof room - 1);
        struct outcome *outcome = NULL;
        mem_fail_nth(n);
        bool made = keys_make_outcome(&response, &problem, &outcome);
        fired = mem_fail_fired();
        mem_fail_nth(0);
        assert_true(made == !fired && made == (problem.len == 0));
        assert_true(!made ||
                    slice_eq(outcome->fields, SLICE("Content-Type: application/json\r\n")));
        outcome_unref(outcome);
    }
}

#endif

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_admin, close_admin)
    const struct CMUnitTest tests[] = {
        TEST(what_there_is_and_by_which_method_is_one_table),
#ifdef PAWL_HOOKS
        cmocka_unit_test(a_response_that_is_given_is_kept_with_its_type_or_not_at_all),
#endif
        TEST(any_other_path_is_no_page_whatever_the_method),
        TEST(a_name_in_a_path_is_decoded),
        TEST(health_is_open_and_all_else_is_guarded_first),
        TEST(a_record_is_read_settled_and_forgotten),
        TEST(many_are_settled_by_their_rule),
        TEST(events_are_published_once_and_told_of),
        TEST(a_body_that_cannot_be_read_ends_the_connection),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
