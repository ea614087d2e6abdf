/* SPDX-License-Identifier: Apache-2.0 */
#include "http/tls.h"

#include "base/buf.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/crypto/openssl.h"
#include "base/mem.h"
#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define READ_AT_ONCE ((size_t)SSL3_RT_MAX_PACKET_SIZE)
#define WRITE_AT_ONCE ((size_t)64 * 1024) /* of the parts, before the kernel is asked */
#define BYTES_MAX ((size_t)1024 * 1024)   /* of either buffer; never reached */
#define LOOKS_MAX 8 /* at what a silent server sends: tickets, new keys; one may only give way */

struct tls_client {
    atomic_int refs;
    SSL_CTX *context;
    BIO_METHOD *method;
    char *server; /* without the dot at its end; NULL: only for tls_client_for */
};

struct tls {
    SSL *ssl;
    struct fiber_io *io;
    struct buf in; /* received, taken by OpenSSL as far as `used` */
    size_t used;
    struct buf out; /* to be sent */
    size_t held;    /* bytes of the writer's that lie in `out` and do not count as sent yet */
    bool asked;     /* the server wants to see a client certificate */
    bool heard;     /* a byte has come from the application behind it */
    const char *refusal;
};

/* ---- words ---- */

struct cause {
    int code;
    const char *text;
};

#define UNKNOWN_CA "TLS: the service's certificate is from an unknown CA"
#define OTHER_NAME "TLS: the service's certificate is for another host name"
#define TOO_OLD "TLS: the service speaks neither TLS 1.2 nor TLS 1.3"
#define CLIENT_REFUSED "TLS: the service refused the client certificate"
#define CLOSED "TLS: the service closed the connection in the handshake"

static const struct cause verdicts[] = {
    {X509_V_ERR_CERT_HAS_EXPIRED, "TLS: the service's certificate has expired"},
    {X509_V_ERR_CERT_NOT_YET_VALID, "TLS: the service's certificate is not valid yet"},
    {X509_V_ERR_HOSTNAME_MISMATCH, OTHER_NAME},
    {X509_V_ERR_IP_ADDRESS_MISMATCH, OTHER_NAME},
    {X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, "TLS: the service's certificate is self-signed"},
    {X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, UNKNOWN_CA},
    {X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, UNKNOWN_CA},
    {X509_V_ERR_CERT_SIGNATURE_FAILURE, UNKNOWN_CA}, /* of the same name */
    {X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, UNKNOWN_CA},
    {X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, UNKNOWN_CA},
};

static const struct cause reasons[] = {
    {SSL_R_WRONG_VERSION_NUMBER, "TLS: the service does not speak TLS on this port"},
    {SSL_R_UNSUPPORTED_PROTOCOL, TOO_OLD},
    {SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, TOO_OLD},
};

/* Alerts of a handshake by which a server refuses a client certificate, or that there is none (RFC
 * 8446 6.2). */
static const struct cause refusals[] = {
    {SSL_AD_CERTIFICATE_REQUIRED, "TLS: the service requires a client certificate"},
    {SSL_AD_BAD_CERTIFICATE, CLIENT_REFUSED},
    {SSL_AD_UNSUPPORTED_CERTIFICATE, CLIENT_REFUSED},
    {SSL_AD_CERTIFICATE_REVOKED, CLIENT_REFUSED},
    {SSL_AD_CERTIFICATE_EXPIRED, CLIENT_REFUSED},
    {SSL_AD_CERTIFICATE_UNKNOWN, CLIENT_REFUSED},
    {SSL_AD_UNKNOWN_CA, CLIENT_REFUSED},
    {SSL_AD_ACCESS_DENIED, CLIENT_REFUSED},
    {SSL_AD_DECRYPT_ERROR, CLIENT_REFUSED}, /* a signature is wrong */
};

static const char *find_cause(const struct cause *causes, size_t n, int code)
{
    for (size_t i = 0; i < n; i++)
        if (causes[i].code == code)
            return causes[i].text;
    return NULL;
}
#define FIND(causes, code) find_cause(causes, sizeof causes / sizeof *(causes), code)

static const char *tls_refusal_of(unsigned long error)
{
    return FIND(refusals, ERR_GET_REASON(error) - SSL_AD_REASON_OFFSET);
}

/* What OpenSSL has just failed at, in a handshake. */
static const char *tls_problem_of(const struct tls *tls)
{
    long verdict = SSL_get_verify_result(tls->ssl);
    unsigned long error = ERR_peek_error();
    const char *text = FIND(verdicts, (int)verdict);
    if (verdict != X509_V_OK)
        return text ? text : X509_verify_cert_error_string(verdict);
    text = FIND(reasons, ERR_GET_REASON(error));
    if (!text && tls->asked)
        text = tls_refusal_of(error);
    if (!text)
        text = ERR_reason_error_string(error);
    return text ? text : CLOSED;
}

/* ---- the client ---- */

/* Ours, never OpenSSL's question on the terminal. */
static int have_no_password(char *buf, int size, int rwflag, void *argument)
{
    (void)buf, (void)size, (void)rwflag, (void)argument;
    return -1;
}

static int note_request(SSL *ssl, void *argument)
{
    struct tls *tls = SSL_get_app_data(ssl);
    (void)argument;
    tls->asked = true;
    return 1;
}

static int take_bio_bytes(BIO *bio, char *ret_bytes, int n)
{
    struct tls *tls = BIO_get_data(bio);
    size_t left = tls->in.len - tls->used;
    size_t some = left < (size_t)n ? left : (size_t)n;
    BIO_clear_retry_flags(bio);
    if (some == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    memcpy(ret_bytes, tls->in.at + tls->used, some);
    tls->used += some;
    if (some == left) {
        buf_fini(&tls->in);
        tls->used = 0;
    }
    return (int)some;
}

static int put_bytes(BIO *bio, const char *bytes, int n)
{
    struct tls *tls = BIO_get_data(bio);
    buf_add(&tls->out, bytes, (size_t)n);
    return buf_ok(&tls->out) ? n : -1;
}

static long control_bytes(BIO *bio, int command, long number, void *argument)
{
    (void)bio, (void)number, (void)argument;
    return command == BIO_CTRL_FLUSH;
}

static bool make_method(struct tls_client *client)
{
    client->method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "pawl");
    return client->method && BIO_meth_set_read(client->method, take_bio_bytes) &&
           BIO_meth_set_write(client->method, put_bytes) &&
           BIO_meth_set_ctrl(client->method, control_bytes);
}

static bool name_server(struct tls_client *client, struct slice server)
{
    server.len -= server.len > 1 && server.at[server.len - 1] == '.';
    client->server = mem_copy(server.at, server.len);
    return client->server;
}

static bool make_context(struct tls_client *client, bool insecure)
{
    static const unsigned char protocols[] = "\x08http/1.1";
    client->context = SSL_CTX_new(TLS_client_method());
    if (!client->context)
        return false;
    SSL_CTX_set_verify(client->context, insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_options(client->context, SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(client->context, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(client->context, 1);
    SSL_CTX_set_session_cache_mode(client->context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_default_passwd_cb(client->context, have_no_password);
    SSL_CTX_set_cert_cb(client->context, note_request, NULL);
    return SSL_CTX_set_min_proto_version(client->context, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_alpn_protos(client->context, protocols, sizeof protocols - 1) == 0;
}

/* ---- its files ---- */

static bool complain_of_tls(struct tls_complaint *complaint, const char *file, const char *text)
{
    unsigned long error = ERR_get_error();
    bool unread = ERR_SYSTEM_ERROR(error);
    complaint->file = file;
    complaint->text = unread ? strerrordesc_np(ERR_GET_REASON(error)) : text;
    return false;
}

/* Without a CA file: the system's roots. What the file holds is trusted, root or not. */
static bool read_roots(SSL_CTX *context, const char *ca, struct tls_complaint *complaint)
{
    if (!ca)
        return SSL_CTX_set_default_verify_paths(context) == 1;
    X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context), X509_V_FLAG_PARTIAL_CHAIN);
    return SSL_CTX_load_verify_file(context, ca) == 1 ||
           complain_of_tls(complaint, ca, "contains no PEM certificate");
}

static bool read_identity(SSL_CTX *context, const struct tls_config *config,
                          struct tls_complaint *complaint)
{
    if (!config->cert)
        return true;
    if (SSL_CTX_use_certificate_chain_file(context, config->cert) != 1)
        return complain_of_tls(complaint, config->cert, "contains no PEM certificate");
    if (SSL_CTX_use_PrivateKey_file(context, config->key, SSL_FILETYPE_PEM) == 1)
        return true;
    bool misfit = ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH ||
                  ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_TYPE_MISMATCH;
    return complain_of_tls(complaint, config->key,
                           misfit ? "does not match the certificate"
                                  : "contains no unencrypted PEM private key");
}

struct tls_client *tls_client_new(const struct tls_config *config,
                                  struct tls_complaint *ret_complaint)
{
    const char *problem = openssl_load();
    *ret_complaint = (struct tls_complaint){problem ? "TLS" : NULL, problem};
    struct tls_client *client = problem ? NULL : mem_zalloc(1, sizeof *client);
    if (!client)
        return NULL;
    atomic_init(&client->refs, 1);
    ERR_clear_error();
    bool made = make_method(client) && make_context(client, config->insecure) &&
                (!config->server || name_server(client, slice_of(config->server))) &&
                read_roots(client->context, config->ca, ret_complaint) &&
                read_identity(client->context, config, ret_complaint);
    ERR_clear_error();
    if (made)
        return client;
    tls_client_unref(client);
    return NULL;
}

struct tls_client *tls_client_for(const struct tls_client *like, struct slice server)
{
    struct tls_client *client = mem_zalloc(1, sizeof *client);
    if (!client)
        return NULL;
    atomic_init(&client->refs, 1);
    CHECK(SSL_CTX_up_ref(like->context) == 1);
    client->context = like->context;
    if (make_method(client) && name_server(client, server))
        return client;
    tls_client_unref(client);
    return NULL;
}

struct tls_client *tls_client_ref(struct tls_client *client)
{
    if (client)
        CHECK(atomic_fetch_add(&client->refs, 1) > 0);
    return client;
}

void tls_client_unref(struct tls_client *client)
{
    if (!client || atomic_fetch_sub(&client->refs, 1) > 1)
        return;
    SSL_CTX_free(client->context);
    BIO_meth_free(client->method);
    mem_free(client->server);
    mem_free(client);
}

/* ---- bytes ---- */

/* As fiber_read, into `in`. */
static ptrdiff_t fill_from_socket(struct tls *tls, int64_t deadline_us)
{
    CHECK(tls->in.len == 0);
    char *at = buf_room(&tls->in, READ_AT_ONCE);
    if (!at)
        return -ENOMEM;
    ptrdiff_t got = fiber_read(tls->io, at, READ_AT_ONCE, deadline_us);
    if (got > 0)
        buf_added(&tls->in, (size_t)got);
    else
        buf_fini(&tls->in);
    return got;
}

/* As fiber_write, of `out`; `*ret_sent`: bytes that were held and count from now on. */
static int drain_to_socket(struct tls *tls, int64_t deadline_us, size_t *ret_sent)
{
    struct iovec part = {tls->out.at, tls->out.len};
    size_t took = 0;
    int failed = fiber_write(tls->io, &part, 1, deadline_us, &took);
    bool all = took == tls->out.len;
    *ret_sent = took == 0 ? 0 : all ? tls->held : tls->held - (tls->held > 0);
    tls->held -= *ret_sent;
    if (all)
        buf_fini(&tls->out);
    else
        buf_drop(&tls->out, took);
    return failed;
}

/* What OpenSSL has to say by itself, an alert or new keys, leaves when it can. */
static void send_own(struct tls *tls)
{
    size_t none;
    if (tls->held == 0 && tls->out.len > 0)
        (void)drain_to_socket(tls, 0, &none);
}

static void note_tls_refusal(struct tls *tls)
{
    if (tls->asked && !tls->heard && SSL_version(tls->ssl) == TLS1_3_VERSION)
        tls->refusal = tls_refusal_of(ERR_peek_error());
}

/* What comes may be no byte for the reader, without end: the deadline counts between two reads. */
ptrdiff_t tls_read(struct tls *tls, void *ret_bytes, size_t n, int64_t deadline_us)
{
    for (bool again = false;; again = true) {
        size_t got = 0;
        ERR_clear_error();
        int error = SSL_get_error(tls->ssl, SSL_read_ex(tls->ssl, ret_bytes, n, &got));
        if (error == SSL_ERROR_SSL)
            note_tls_refusal(tls);
        send_own(tls);
        if (error == SSL_ERROR_NONE) {
            tls->heard = true;
            tls->io->readable |= tls->in.len > 0 || SSL_has_pending(tls->ssl);
            return (ptrdiff_t)got;
        }
        if (error != SSL_ERROR_WANT_READ)
            return error == SSL_ERROR_ZERO_RETURN ? 0 : -EPROTO;
        if (again && clock_boot_us() >= deadline_us)
            return -ETIMEDOUT;
        ptrdiff_t filled = fill_from_socket(tls, deadline_us);
        if (filled <= 0)
            return filled == 0 ? -ECONNRESET : filled;
    }
}

/* Makes records of the next bytes. */
static int encrypt_records(struct tls *tls, const struct iovec *parts, size_t n_parts)
{
    for (size_t i = 0; i < n_parts && tls->held < WRITE_AT_ONCE; i++) {
        size_t room = WRITE_AT_ONCE - tls->held, done = 0;
        size_t some = parts[i].iov_len < room ? parts[i].iov_len : room;
        ERR_clear_error();
        if (some > 0 && SSL_write_ex(tls->ssl, parts[i].iov_base, some, &done) != 1)
            return -EPROTO;
        CHECK(done == some);
        tls->held += some;
    }
    return 0;
}

int tls_write(struct tls *tls, struct iovec *parts, size_t n_parts, int64_t deadline_us,
              size_t *ret_sent)
{
    int failed = 0;
    *ret_sent = 0;
    fiber_parts_advance(&parts, &n_parts, 0);
    while (failed == 0 && (tls->out.len > 0 || n_parts > 0)) {
        size_t sent = 0;
        if (tls->out.len == 0)
            failed = encrypt_records(tls, parts, n_parts);
        if (failed == 0)
            failed = drain_to_socket(tls, deadline_us, &sent);
        fiber_parts_advance(&parts, &n_parts, sent);
        *ret_sent += sent;
    }
    return failed;
}

/* ---- connections ---- */

/* Which names and certifiers of the server count. OpenSSL takes a name that is not const. */
static bool expect_server(SSL *ssl, char *server)
{
    X509_VERIFY_PARAM *expected = SSL_get0_param(ssl);
    X509_VERIFY_PARAM_set_hostflags(expected, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT |
                                                  X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (X509_VERIFY_PARAM_set1_ip_asc(expected, server) == 1)
        return true;
    ERR_clear_error();
    return X509_VERIFY_PARAM_set1_host(expected, server, 0) == 1 &&
           SSL_set_tlsext_host_name(ssl, server) == 1;
}

static struct tls *tls_new(struct tls_client *client, struct fiber_io *io)
{
    CHECK(client->server);
    struct tls *tls = mem_zalloc(1, sizeof *tls);
    BIO *bio = tls ? BIO_new(client->method) : NULL;
    if (!bio) {
        mem_free(tls);
        return NULL;
    }
    tls->io = io;
    tls->in = tls->out = buf_make(BYTES_MAX);
    BIO_set_data(bio, tls);
    BIO_set_init(bio, 1);
    tls->ssl = SSL_new(client->context);
    if (!tls->ssl) {
        BIO_free(bio);
        mem_free(tls);
        return NULL;
    }
    SSL_set_bio(tls->ssl, bio, bio);
    SSL_set_app_data(tls->ssl, tls);
    SSL_set_connect_state(tls->ssl);
    if (expect_server(tls->ssl, client->server))
        return tls;
    tls_free(tls);
    return NULL;
}

/* 0, -errno. */
static int shake_hands(struct tls *tls, int64_t deadline_us, const char **ret_problem)
{
    for (;;) {
        size_t none;
        ERR_clear_error();
        int error = SSL_get_error(tls->ssl, SSL_do_handshake(tls->ssl));
        bool failed = error != SSL_ERROR_NONE && error != SSL_ERROR_WANT_READ;
        if (failed)
            *ret_problem = tls_problem_of(tls);
        ptrdiff_t moved = drain_to_socket(tls, failed ? 0 : deadline_us, &none);
        if (failed)
            return -EPROTO;
        if (moved == 0 && error == SSL_ERROR_NONE)
            return 0;
        if (moved == 0)
            moved = fill_from_socket(tls, deadline_us);
        if (moved <= 0) {
            *ret_problem = moved == -ETIMEDOUT ? "TLS: no handshake in time" : CLOSED;
            return moved == 0 ? -ECONNRESET : (int)moved;
        }
    }
}

int tls_connect(struct tls_client *client, struct fiber_io *io, int64_t deadline_us,
                struct tls **ret_tls, const char **ret_problem)
{
    struct tls *tls = tls_new(client, io);
    if (!tls) {
        *ret_problem = "TLS: out of memory";
        return -ENOMEM;
    }
    int failed = shake_hands(tls, deadline_us, ret_problem);
    if (failed == 0)
        *ret_tls = tls;
    else
        tls_free(tls);
    return failed;
}

bool tls_stays_silent(struct tls *tls)
{
    char byte;
    ptrdiff_t got = -ETIMEDOUT;
    tls->io->readable = true; /* the loop may not have seen the latest bytes yet */
    for (int i = 0; i < LOOKS_MAX && got == -ETIMEDOUT && tls->io->readable; i++)
        got = tls_read(tls, &byte, 1, 0);
    return got == -ETIMEDOUT && !tls->io->readable;
}

const char *tls_refusal(const struct tls *tls)
{
    return tls->refusal;
}

/* Not by fiber_write: what is kept may be closed outside any fiber. */
void tls_end(struct tls *tls)
{
    if (tls->out.len > 0)
        return;
    ERR_clear_error();
    (void)SSL_shutdown(tls->ssl);
    if (tls->out.len > 0)
        (void)send(tls->io->fd, tls->out.at, tls->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    buf_clear(&tls->out);
}

void tls_free(struct tls *tls)
{
    if (!tls)
        return;
    SSL_free(tls->ssl);
    buf_fini(&tls->in);
    buf_fini(&tls->out);
    mem_free(tls);
}
