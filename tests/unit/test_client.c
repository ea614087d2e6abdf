/* SPDX-License-Identifier: Apache-2.0 */
/* The shared library as a program sees it: what pawl/client.h declares, and a service on a thread.
 */
#include "base/clock.h"
#include "base/thread.h"
#include <pawl/client.h>

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define THREADS 4
#define URL_SIZE 64

/* Responds to each request with the next of its statuses, and the last one for ever. */
struct service {
    int listener;
    char url[URL_SIZE];
    const int *statuses;
    atomic_int n_requests;
    char first[4096]; /* the first request */
    struct thread thread;
};

static void respond(struct service *service, int connection)
{
    char request[4096], response[256];
    ssize_t n = recv(connection, request, sizeof request - 1, 0);
    if (n <= 0)
        return;
    request[n] = '\0';
    int i = atomic_fetch_add(&service->n_requests, 1);
    if (i == 0)
        memcpy(service->first, request, (size_t)n + 1);
    while (*service->statuses && service->statuses[1] && i-- > 0)
        service->statuses++;
    snprintf(response, sizeof response,
             "HTTP/1.1 %d X\r\nContent-Length: 5\r\nX-A: b\r\nConnection: close\r\n\r\nbody\n",
             service->statuses[0]);
    (void)!write(connection, response, strlen(response));
}

static void serve(void *argument)
{
    struct service *service = argument;
    for (;;) {
        int connection = accept(service->listener, NULL, NULL);
        if (connection < 0)
            return;
        respond(service, connection);
        close(connection);
    }
}

static void start(struct service *service, const int *statuses)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    *service = (struct service){.listener = socket(AF_INET, SOCK_STREAM, 0), .statuses = statuses};
    assert_int_equal(bind(service->listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(service->listener, 16), 0);
    assert_int_equal(getsockname(service->listener, (struct sockaddr *)&address, &size), 0);
    snprintf(service->url, URL_SIZE, "http://127.0.0.1:%d/refunds", ntohs(address.sin_port));
    assert_true(thread_start(&service->thread, "service", serve, service));
}

static void stop(struct service *service)
{
    shutdown(service->listener, SHUT_RDWR);
    thread_join(&service->thread);
    close(service->listener);
}

/* ---- */

static void count(void *argument, const struct pawl_attempt *attempt)
{
    int *n = argument;
    assert_int_equal(attempt->number, ++*n);
    assert_int_equal(attempt->next_ms < 0, attempt->status == 201);
}

static void test_without_a_store_a_request_is_sent_until_it_is_done(void **state)
{
    (void)state;
    static const int statuses[] = {503, 502, 201, 0};
    static const char *const headers[] = {"X-Mine: 1", NULL};
    struct service service;
    int n = 0;
    start(&service, statuses);
    struct pawl_request request = {.url = service.url,
                                   .headers = headers,
                                   .body = "a=1",
                                   .body_size = 3,
                                   .report = count,
                                   .argument = &n};
    struct pawl_response *response = pawl_send(&request);
    assert_non_null(response);
    assert_int_equal(response->verdict, PAWL_DONE);
    assert_int_equal(response->status, 201);
    assert_int_equal(response->attempts, 3);
    assert_int_equal(n, 3);
    assert_string_equal(response->body, "body\n");
    assert_int_equal(response->body_size, 5);
    assert_non_null(strstr(response->headers, "X-A: b\r\n"));
    assert_non_null(strstr(service.first, response->key));
    assert_non_null(strstr(service.first, "X-Mine: 1\r\n"));
    assert_int_equal(strlen(response->key), 36);
    pawl_response_free(response);
    stop(&service);
}

static void test_answers_of_a_service_mean_what_its_caller_says(void **state)
{
    (void)state;
    static const int statuses[] = {422, 201, 409, 0};
    static const char *const not_done[] = {"/state=queued", NULL};
    static const char *const nothing[] = {"state", NULL};
    const struct pawl_answers wrong[] = {
        {.done = "99"}, {.done = "409", .later = "409"}, {.not_done = nothing}};
    const struct pawl_answers answers = {.done = "409", .later = "422", .not_done = not_done};
    struct service service;
    start(&service, statuses);
    struct pawl_request request = {.url = service.url, .method = "PUT"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct pawl_response *response = pawl_send_by(&request, &wrong[i]);
        assert_int_equal(response->verdict, PAWL_USAGE);
        pawl_response_free(response);
    }
    static const int attempts[] = {2, 1};
    for (size_t i = 0; i < 2; i++) {
        struct pawl_response *response = pawl_send_by(&request, &answers);
        assert_int_equal(response->verdict, PAWL_DONE);
        assert_int_equal(response->attempts, attempts[i]);
        assert_int_equal(response->status, statuses[i + 1]);
        pawl_response_free(response);
    }
    stop(&service);
}

static void test_what_a_portal_responds_has_reached_nobody(void **state)
{
    (void)state;
    static const int statuses[] = {302, 201, 302, 0};
    struct service service;
    start(&service, statuses);
    struct pawl_request request = {.url = service.url};
    struct pawl_response *response = pawl_send(&request);
    assert_int_equal(response->verdict, PAWL_DONE);
    assert_int_equal(response->attempts, 2);
    pawl_response_free(response);
    request.profile = "webhook"; /* the second attempt would be after 5 s */
    request.deadline_ms = 4000;
    response = pawl_send(&request);
    assert_int_equal(response->verdict, PAWL_UNAVAILABLE);
    assert_int_equal(response->status, 0);
    assert_int_equal(response->body_size, 0);
    assert_non_null(strstr(response->problem, "portal"));
    pawl_response_free(response);
    stop(&service);
}

static void a_key_is_made_before_the_call(void **state)
{
    char key[37], dated[37];
    (void)state;
    assert_true(pawl_make_key(4, key) && pawl_make_key(7, dated));
    assert_true(strlen(key) == 36 && key[14] == '4' && strlen(dated) == 36 && dated[14] == '7');
    /* The upper 32 of 48 bits of milliseconds. */
    int64_t unit = 65536 * CLOCK_US_PER_MS;
    assert_true(llabs((int64_t)strtoul(dated, NULL, 16) - clock_wall_us() / unit) <= 1);
    assert_false(pawl_make_key(5, key));
}

struct sender {
    struct service *service;
    struct pawl_store *store;
    struct pawl_response *response;
    struct thread thread;
};

static void send_once(void *argument)
{
    struct sender *sender = argument;
    struct pawl_request request = {
        .url = sender->service->url, .method = "PUT", .key = "k1", .store = sender->store};
    sender->response = pawl_send(&request);
}

static void test_threads_that_send_the_same_have_one_effect_and_one_response(void **state)
{
    (void)state;
    static const int statuses[] = {201, 0};
    char folder[] = "/tmp/pawl-test-client-XXXXXX", path[64], problem[256];
    struct service service;
    struct sender senders[THREADS];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/pawl.db", folder);
    start(&service, statuses);
    struct pawl_store *store = pawl_store_open(path, problem, sizeof problem);
    assert_non_null(store);
    for (int i = 0; i < THREADS; i++) {
        senders[i] = (struct sender){.service = &service, .store = store};
        assert_true(thread_start(&senders[i].thread, "sender", send_once, &senders[i]));
    }
    int replayed = 0;
    for (int i = 0; i < THREADS; i++) {
        thread_join(&senders[i].thread);
        assert_int_equal(senders[i].response->verdict, PAWL_DONE);
        assert_string_equal(senders[i].response->body, "body\n");
        replayed += senders[i].response->replayed;
        pawl_response_free(senders[i].response);
    }
    assert_int_equal(replayed, THREADS - 1);
    assert_int_equal(service.n_requests, 1);
    struct pawl_request other = {.url = service.url, .key = "k1", .store = store};
    struct pawl_response *response = pawl_send(&other);
    assert_int_equal(response->verdict, PAWL_MISMATCH);
    pawl_response_free(response);
    assert_int_equal(pawl_succeeded(store, "k1"), PAWL_REMEMBERED);
    assert_int_equal(pawl_succeeded(store, "k2"), PAWL_NOT_REMEMBERED);
    pawl_store_close(store);
    stop(&service);
    assert_int_equal(unlink(path), 0);
    rmdir(folder);
}

static void test_what_cannot_be_sent_is_said(void **state)
{
    (void)state;
    static const char *const nameless[] = {"X-Mine", NULL};
    char problem[256];
    struct pawl_request wrong[] = {{.url = "ftp://a/"},
                                   {.url = "http://a/", .method = "get"},
                                   {.url = "http://a/", .key = ""},
                                   {.url = "http://a/", .profile = "often"},
                                   {.url = "http://a/", .headers = nameless},
                                   {.url = "https://a/", .ca = "/nowhere"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct pawl_response *response = pawl_send(&wrong[i]);
        assert_int_equal(response->verdict, PAWL_USAGE);
        assert_true(strlen(response->problem) > 0 && response->status == 0);
        pawl_response_free(response);
    }
    struct pawl_request unreached = {.url = "http://127.0.0.1:1/", .deadline_ms = 50};
    struct pawl_response *response = pawl_send(&unreached);
    assert_int_equal(response->verdict, PAWL_UNAVAILABLE);
    assert_true(strlen(response->problem) > 0);
    pawl_response_free(response);
    assert_null(pawl_store_open("/nowhere/pawl.db", problem, sizeof problem));
    assert_true(strlen(problem) > 0);
    pawl_store_close(NULL);
    pawl_response_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_a_store_a_request_is_sent_until_it_is_done),
        cmocka_unit_test(test_what_a_portal_responds_has_reached_nobody),
        cmocka_unit_test(a_key_is_made_before_the_call),
        cmocka_unit_test(test_answers_of_a_service_mean_what_its_caller_says),
        cmocka_unit_test(test_threads_that_send_the_same_have_one_effect_and_one_response),
        cmocka_unit_test(test_what_cannot_be_sent_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
