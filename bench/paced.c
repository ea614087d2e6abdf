/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Load at a fixed rate, for latency below saturation: wrk sends as fast as answers come, and so
 * waits politely whenever the proxy stands still. Here requests fall due by a schedule that no
 * answer can hold up, at random like those of many clients that know nothing of each other (gaps
 * of an exponential distribution, always the same ones).
 *
 *   falls due -> waits for a free connection -> sent -> answered
 *   |<------------------- what is measured ------------------->|
 *
 * So the latency of a request counts from when it should have been sent, and a stall is paid for by
 * every request that fell due in it (no coordinated omission). Requests are those of load.lua,
 * every one under a key of its own. Prints one JSON object.
 */
#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS 64
#define REQUESTS_MAX ((size_t)4 * 1024 * 1024)
#define ANSWER_MAX 8192
#define REQUEST_MAX 1024
#define SALT_MAX 40
#define LATE_MAX_US (10 * CLOCK_US_PER_S) /* for the last answers, once all is sent */

/* One connection; free while no answer is awaited. */
struct connection {
    int fd;
    bool busy;
    size_t request; /* whose answer is awaited */
    size_t have;
    char answer[ANSWER_MAX];
};

struct load {
    int epoll;
    const char *salt;
    size_t n;        /* requests in all */
    int64_t *due;    /* of each request, boot time */
    uint32_t *spans; /* of those answered, in microseconds */
    size_t fallen_due;
    size_t sent;
    size_t answered;
    size_t queued; /* found no free connection when they fell due */
    size_t not_2xx;
    size_t broken;
    struct connection connections[CONNECTIONS];
};

/* ---- the schedule ---- */

/* From 0 (excluded) to 1; the same numbers in each run. */
static double next_share(uint64_t *state)
{
    uint64_t mixed = *state += UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    mixed ^= mixed >> 31;
    return ((double)(mixed >> 11) + 1) / 9007199254740992.0;
}

static void schedule(struct load *load, double rate)
{
    uint64_t state = 1;
    double at = (double)clock_boot_us() + 1000;
    for (size_t i = 0; i < load->n; i++) {
        at += -log(next_share(&state)) * 1e6 / rate;
        load->due[i] = (int64_t)at;
    }
}

/* ---- one request and its answer ---- */

static size_t request_write(const struct load *load, char *at)
{
    char body[REQUEST_MAX / 2], key[SALT_MAX + 16];
    snprintf(key, sizeof key, "%s-%012zu", load->salt, load->sent + 1);
    int size = snprintf(body, sizeof body,
                        "{\"order\": \"%s\", \"amount\": 12500, \"currency\": \"EUR\", "
                        "\"customer\": {\"id\": \"cus_8731\", \"name\": \"Ada Lovelace\"}, "
                        "\"method\": {\"type\": \"card\", \"token\": \"tok_4f1d0a77\"}, "
                        "\"capture\": true}",
                        key);
    int all = snprintf(at, REQUEST_MAX,
                       "POST /payments HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n"
                       "Content-Type: application/json\r\nIdempotency-Key: %s\r\n\r\n%s",
                       size, key, body);
    CHECK(all > 0 && all < REQUEST_MAX);
    return (size_t)all;
}

static void send_next(struct load *load, struct connection *connection)
{
    char request[REQUEST_MAX];
    size_t size = request_write(load, request);
    connection->busy = true;
    connection->request = load->sent++;
    connection->have = 0;
    if (send(connection->fd, request, size, MSG_NOSIGNAL) != (ssize_t)size)
        load->broken++;
}

/* Bytes of the whole answer; 0: its head is not complete. */
static size_t answer_size(const struct connection *connection)
{
    const char *end = strstr(connection->answer, "\r\n\r\n");
    const char *length = strcasestr(connection->answer, "\r\nContent-Length:");
    if (!end)
        return 0;
    size_t head = (size_t)(end - connection->answer) + 4;
    return head + (length && length < end ? strtoul(length + 17, NULL, 10) : 0);
}

static void answer_complete(struct load *load, struct connection *connection, size_t size)
{
    if (connection->have != size || strncmp(connection->answer, "HTTP/1.1 2", 10) != 0)
        load->not_2xx++;
    int64_t span = clock_boot_us() - load->due[connection->request];
    load->spans[load->answered++] = (uint32_t)(span > 0 ? span : 0);
    connection->busy = false;
}

/* False: the connection is of no more use. */
static bool read_answer(struct load *load, struct connection *connection)
{
    char *at = connection->answer + connection->have;
    ssize_t got = recv(connection->fd, at, ANSWER_MAX - 1 - connection->have, MSG_DONTWAIT);
    if (got <= 0)
        return got < 0 && errno == EAGAIN;
    connection->have += (size_t)got;
    connection->answer[connection->have] = '\0';
    size_t size = answer_size(connection);
    if (size > 0 && connection->have >= size)
        answer_complete(load, connection, size);
    return connection->have < ANSWER_MAX - 1;
}

/* ---- the load ---- */

static struct connection *free_connection(struct load *load)
{
    for (size_t i = 0; i < CONNECTIONS; i++)
        if (!load->connections[i].busy)
            return &load->connections[i];
    return NULL;
}

/* Sends what is due, as far as connections are free. Returns when to look again. */
static int64_t send_due(struct load *load)
{
    int64_t now = clock_boot_us();
    while (load->sent < load->n && load->due[load->sent] <= now) {
        struct connection *connection = free_connection(load);
        if (!connection)
            break;
        send_next(load, connection);
    }
    if (load->fallen_due < load->sent)
        load->fallen_due = load->sent;
    for (; load->fallen_due < load->n && load->due[load->fallen_due] <= now; load->fallen_due++)
        load->queued++;
    return load->fallen_due < load->n ? load->due[load->fallen_due] : now + CLOCK_US_PER_S;
}

static void await_answers(struct load *load, int64_t until)
{
    int64_t left = until - clock_boot_us();
    struct timespec timeout = {.tv_nsec = left <= 0 ? 0 : left % CLOCK_US_PER_S * 1000,
                               .tv_sec = left <= 0 ? 0 : left / CLOCK_US_PER_S};
    struct epoll_event events[CONNECTIONS];
    int n = epoll_pwait2(load->epoll, events, CONNECTIONS, &timeout, NULL);
    CHECK(n >= 0 || errno == EINTR);
    for (int i = 0; i < n; i++) {
        struct connection *connection = events[i].data.ptr;
        if (!read_answer(load, connection)) {
            load->broken++;
            epoll_ctl(load->epoll, EPOLL_CTL_DEL, connection->fd, NULL);
        }
    }
}

static void run(struct load *load)
{
    int64_t end = load->due[load->n - 1] + LATE_MAX_US;
    while (load->answered < load->n && load->broken == 0 && clock_boot_us() < end)
        await_answers(load, send_due(load));
    load->broken += load->n - load->answered;
}

static bool connect_all(struct load *load, unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    load->epoll = epoll_create1(EPOLL_CLOEXEC);
    for (size_t i = 0; i < CONNECTIONS; i++) {
        struct connection *connection = &load->connections[i];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
        int one = 1;
        connection->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(connection->fd, (struct sockaddr *)&address, sizeof address) != 0)
            return false;
        setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        CHECK(epoll_ctl(load->epoll, EPOLL_CTL_ADD, connection->fd, &event) == 0);
    }
    return true;
}

/* ---- what is printed ---- */

static int by_span(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return left < right ? -1 : left > right;
}

static unsigned percentile(const struct load *load, unsigned per_cent)
{
    return load->answered ? load->spans[(load->answered - 1) * per_cent / 100] : 0;
}

static void print(struct load *load, int64_t span_us)
{
    qsort(load->spans, load->answered, sizeof *load->spans, by_span);
    printf("{\"requests\": %zu, \"us\": %lld, \"p50_us\": %u, \"p99_us\": %u, \"queued\": %zu, "
           "\"not_2xx\": %zu, \"broken\": %zu}\n",
           load->answered, (long long)span_us, percentile(load, 50), percentile(load, 99),
           load->queued, load->not_2xx, load->broken);
}

int main(int argc, char **argv)
{
    long port = argc == 5 ? strtol(argv[1], NULL, 10) : 0;
    double rate = argc == 5 ? strtod(argv[2], NULL) : 0;
    double requests = argc == 5 ? rate * strtod(argv[3], NULL) : 0;
    if (port < 1 || port > 65535 || rate < 1 || requests < 1 || requests > (double)REQUESTS_MAX ||
        strlen(argv[4]) > SALT_MAX) {
        fputs("usage: paced PORT RATE SECONDS SALT\n", stderr);
        return 2;
    }
    struct load *load = mem_zalloc(1, sizeof *load);
    CHECK(load);
    load->salt = argv[4];
    load->n = (size_t)requests;
    load->due = mem_alloc(load->n * sizeof *load->due);
    load->spans = mem_alloc(load->n * sizeof *load->spans);
    CHECK(load->due && load->spans);
    if (!connect_all(load, (unsigned)port)) {
        perror("paced: connect");
        return 69;
    }
    schedule(load, rate);
    run(load);
    print(load, clock_boot_us() - load->due[0]);
    mem_free(load->spans);
    mem_free(load->due);
    mem_free(load);
    return 0;
}
