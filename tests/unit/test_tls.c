/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two fibers on one loop: a call, and a server that does what no decent one does once hands are
 * shaken. What tests/blackbox/test_upstream_tls.py cannot bring about at a given moment.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "http/call/call.h"

#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

#define LONG_US (60 * CLOCK_US_PER_S)
#define REQUEST SLICE("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
#define FLOOD_TICKETS 8 /* written at a time */

struct play {
    /* After the handshake, until it returns. */
    void (*serve)(struct play *play);
    void (*ask)(struct play *play);
    int listener;
    SSL_CTX *context;
    SSL *server;
    struct fiber_io peer;
    struct http_upstream upstream;
    struct http_pool *pool;
    struct http_call *call;
    bool over;
};

static int64_t later(void)
{
    return clock_boot_us() + LONG_US;
}

/* ---- the server ---- */

static void write_pem(const char *path, X509 *certificate)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(PEM_write_X509(file, certificate), 1);
    fclose(file);
}

/* Signed by itself for 127.0.0.1; trusted by whoever has `path` for its CA. */
static SSL_CTX *serve_as(const char *path)
{
    X509 *certificate = X509_new();
    EVP_PKEY *key = EVP_EC_gen("P-256");
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    X509_EXTENSION *name = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "IP:127.0.0.1");
    assert_true(certificate && key && context && name);
    X509_set_version(certificate, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_add_ext(certificate, name, -1);
    X509_set_pubkey(certificate, key);
    assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
    write_pem(path, certificate);
    SSL_CTX_set_num_tickets(context, 0);
    assert_int_equal(SSL_CTX_use_certificate(context, certificate), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(context, key), 1);
    X509_EXTENSION_free(name);
    X509_free(certificate);
    EVP_PKEY_free(key);
    return context;
}

/* Until the call it serves is over. */
static bool wait_for_more(struct play *play, int result)
{
    int error = SSL_get_error(play->server, result);
    bool reads = error == SSL_ERROR_WANT_READ, writes = error == SSL_ERROR_WANT_WRITE;
    play->peer.readable = play->peer.readable && !reads;
    play->peer.writable = play->peer.writable && !writes;
    struct fiber_source source = {&play->peer, reads ? FIBER_READ : FIBER_WRITE};
    if (reads || writes)
        fiber_wait(&source, 1, clock_after(clock_boot_us(), 10 * CLOCK_US_PER_MS));
    return (reads || writes) && !play->over;
}

static void run_server(void *argument)
{
    struct play *play = argument;
    struct fiber_io listener;
    int result = 0;
    assert_true(fiber_io_open(&listener, play->listener));
    int fd = fiber_accept(&listener, NULL, later());
    assert_true(fd >= 0 && fiber_io_open(&play->peer, fd));
    play->server = SSL_new(play->context);
    SSL_set_fd(play->server, fd);
    do
        result = SSL_accept(play->server);
    while (result != 1 && wait_for_more(play, result));
    if (result == 1)
        play->serve(play);
    SSL_free(play->server);
    fiber_io_close(&play->peer);
    fiber_io_close(&listener);
}

/* ---- the call ---- */

static void run_call(void *argument)
{
    struct play *play = argument;
    play->call->pool = play->pool;
    play->call->method = SLICE("GET");
    play->call->headers = REQUEST;
    assert_int_equal(http_call_connect(play->call, later()), HTTP_CALL_DONE);
    play->ask(play);
    play->over = true;
    http_call_close(play->call);
    http_pool_unref(play->pool);
}

static void perform(void (*serve)(struct play *play), void (*ask)(struct play *play))
{
    char path[] = "/tmp/pawl-test-tls-XXXXXX";
    struct play play = {.serve = serve, .ask = ask};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    struct tls_config config = {.server = "127.0.0.1", .ca = path};
    struct tls_complaint complaint;
    close(mkstemp(path));
    play.context = serve_as(path);
    play.upstream.tls = tls_client_new(&config, &complaint);
    assert_non_null(play.upstream.tls);
    play.listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(play.listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(play.listener, 1), 0);
    assert_int_equal(getsockname(play.listener, (struct sockaddr *)&address, &size), 0);
    play.upstream.addresses.n = 1;
    memcpy(&play.upstream.addresses.at[0], &address, size);
    play.pool = http_pool_new(&play.upstream, 2, LONG_US);
    play.call = mem_zalloc(1, sizeof *play.call);
    struct loop *loop = loop_new(2);
    assert_true(fiber_spawn(loop, "server", run_server, &play));
    assert_true(fiber_spawn(loop, "call", run_call, &play));
    loop_stop(loop);
    loop_run(loop);
    loop_free(loop);
    mem_free(play.call);
    tls_client_unref(play.upstream.tls);
    SSL_CTX_free(play.context);
    unlink(path);
}

/* ---- a server that never ends to say nothing ---- */

static void flood_with_tickets(struct play *play)
{
    int result = 1;
    do {
        for (int i = 0; i < FLOOD_TICKETS; i++)
            SSL_new_session_ticket(play->server);
        result = SSL_do_handshake(play->server);
        fiber_yield();
    } while (!play->over && (result == 1 || wait_for_more(play, result)));
}

static void await_response(struct play *play)
{
    assert_int_equal(http_call_send(play->call, later()), HTTP_CALL_DONE);
    int64_t until = clock_after(clock_boot_us(), 20 * CLOCK_US_PER_MS);
    assert_int_equal(http_call_receive(play->call, until), HTTP_CALL_TIMEOUT);
}

static void test_a_server_that_sends_tickets_without_end_does_not_put_off_a_deadline(void **state)
{
    (void)state;
    perform(flood_with_tickets, await_response);
}

/* ---- a response before the request ---- */

static void respond_unasked(struct play *play)
{
    static const char text[] = "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n";
    assert_int_equal(SSL_write(play->server, text, sizeof text - 1), (int)sizeof text - 1);
    while (!play->over)
        fiber_sleep_until(clock_boot_us() + CLOCK_US_PER_MS);
}

/* Its next read or write gives way to others first. */
static void use_turn_up(void)
{
    int ends[2];
    struct fiber_io io;
    assert_int_equal(pipe(ends), 0);
    assert_true(fiber_io_open(&io, ends[1]));
    fiber_yield();
    for (int i = 0; i < 63; i++) {
        struct iovec part = {(char[]){'x'}, 1};
        assert_int_equal(fiber_write(&io, &part, 1, later(), NULL), 0);
    }
    close(ends[0]);
    fiber_io_close(&io);
}

static void send_too_late(struct play *play)
{
    struct fiber_source source = {&play->call->conn->io, FIBER_READ};
    play->call->conn->io.readable = false;
    fiber_wait(&source, 1, later());
    use_turn_up();
    assert_int_equal(http_call_send(play->call, later()), HTTP_CALL_BROKEN);
    assert_int_equal(play->call->sent, 0);
}

static void test_a_response_that_comes_before_a_byte_was_sent_breaks_the_call(void **state)
{
    (void)state;
    perform(respond_unasked, send_too_late);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_server_that_sends_tickets_without_end_does_not_put_off_a_deadline),
        cmocka_unit_test(test_a_response_that_comes_before_a_byte_was_sent_breaks_the_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
