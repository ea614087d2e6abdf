/* SPDX-License-Identifier: Apache-2.0 */
#include "client/request.h"

#include "base/check.h"
#include "base/text/ascii.h"
#include "base/text/base64.h"
#include "base/text/percent.h"

#define ARENA_MAX (CLIENT_BODY_MAX * 41) /* client_name_record */
#define USER_MAX ((size_t)8 * 1024)
#define FRESH_US (INT64_C(30) * CLOCK_US_PER_S)
#define IDLE_US (INT64_C(5) * CLOCK_US_PER_S) /* one that is kept longer may have died unused */
#define NO_MEMORY "out of memory"
#define TOO_MANY "there are too many headers"

void client_made_fini(struct client_made *made)
{
    arena_fini(&made->arena);
}

static bool complain_of_request(struct buf *problem, const char *text)
{
    buf_add_str(problem, text);
    return false;
}

/* ---- headers ---- */

bool client_is_reserved(const struct headers *headers, struct slice name)
{
    static const struct slice own[] = {
        {"Content-Length", 14}, {"Idempotency-Token", 17}, {"Idempotency-Attempt", 19}};
    return HEADERS_AMONG(name, own) || headers_is_hop_by_hop(headers, name);
}

static bool add_default(const struct client_request *request, struct client_made *made,
                        struct slice name, struct slice value)
{
    return headers_find(&request->headers, name) || headers_add(&made->sent, name, value);
}

/* `.at` NULL: no memory. */
static struct slice make_basic(struct slice user, struct arena *arena)
{
    BUF_AUTO struct buf value = buf_make(USER_MAX);
    buf_add_str(&value, "Basic ");
    base64_add(&value, user);
    return buf_ok(&value) ? arena_copy(arena, buf_slice(&value)) : slice_of(NULL);
}

/* Of the request, else of the URL: `http://user:secret@host/`. */
static bool add_authorization(const struct client_request *request, struct client_made *made)
{
    const struct url *url = &made->operation.url;
    struct slice user = request->user;
    if (user.len == 0 && url->userinfo.at)
        user = percent_decode(url->userinfo, false, &made->arena);
    else if (user.len == 0)
        return true;
    struct slice value = make_basic(user, &made->arena);
    return value.at && add_default(request, made, SLICE("Authorization"), value);
}

static bool add_defaults(const struct client_request *request, struct client_made *made)
{
    struct slice json = SLICE("application/json"),
                 form = SLICE("application/x-www-form-urlencoded");
    return add_default(request, made, SLICE("User-Agent"), SLICE("pawl/" PAWL_VERSION)) &&
           add_default(request, made, SLICE("Accept"), request->is_json ? json : SLICE("*/*")) &&
           (!request->has_body ||
            add_default(request, made, SLICE("Content-Type"), request->is_json ? json : form)) &&
           add_authorization(request, made);
}

static bool gather_caller_headers(const struct client_request *request, struct client_made *made,
                                  struct buf *problem)
{
    bool fits = add_defaults(request, made);
    for (size_t i = 0; i < request->headers.n; i++) {
        const struct header *given = &request->headers.at[i];
        if (client_is_reserved(&request->headers, given->name)) {
            buf_printf(problem, "the header %.*s is set by pawl", SLICE_QUOTED(given->name));
            return false;
        }
        if (given->value.len > 0 && !slice_eq_nocase(given->name, SLICE("Idempotency-Key")))
            fits = fits && headers_add(&made->sent, given->name, given->value);
    }
    bool room = made->sent.n + 2 <= HEADERS_MAX; /* for the key and the attempt */
    return (fits && room) ||
           complain_of_request(problem, made->arena.failed ? NO_MEMORY : TOO_MANY);
}

/* ---- the key ---- */

static bool find_key(const struct client_request *request, struct client_made *made,
                     struct buf *problem)
{
    static const struct slice name = {"Idempotency-Key", 15};
    struct slice *key = &made->operation.key;
    enum key_header result =
        key_header_read(&request->headers, name, KEY_SYNTAX_LENIENT, &made->arena, key);
    if (request->key && result != KEY_HEADER_ABSENT)
        return complain_of_request(problem,
                                   "a key and a header Idempotency-Key exclude each other");
    if (request->dated && (request->key || result != KEY_HEADER_ABSENT))
        return complain_of_request(problem,
                                   "--key-version is of a key that pawl makes, and one is given");
    if (request->key) {
        *key = slice_of(request->key);
    } else if (result == KEY_HEADER_ABSENT) {
        client_mint_key(request->dated, made->minted);
        *key = slice_of(made->minted);
    } else if (result != KEY_HEADER_OK) {
        return complain_of_request(problem, key_header_text(result));
    }
    return client_is_key(*key) ||
           complain_of_request(problem, "a key is 1 to 255 bytes of printable ASCII");
}

/* ---- all of it ---- */

static bool is_method(struct slice method)
{
    for (size_t i = 0; i < method.len; i++)
        if (ascii_is_lower(method.at[i]))
            return false;
    return header_is_token(method);
}

bool client_make(const struct client_request *request, struct client_made *made,
                 struct buf *problem)
{
    static const struct slice with_body[] = {{"POST", 4}, {"PUT", 3}, {"PATCH", 5}};
    const char *wrong;
    struct slice method = slice_of(request->method     ? request->method
                                   : request->has_body ? "POST"
                                                       : "GET");
    bool wants_body = SLICE_AMONG(method, with_body);
    CHECK(made->sent.n == 0 && made->minted[0] == '\0'); /* zeroed */
    made->arena = arena_make(ARENA_MAX);
    made->operation = (struct client_operation){.method = method,
                                                .headers = &made->sent,
                                                .body = request->body,
                                                .has_body = request->has_body || wants_body};
    if (!is_method(method))
        return complain_of_request(problem, "a method is a word of capital letters");
    if (!url_read(slice_of(request->url), &made->operation.url, &wrong)) {
        buf_printf(problem, "the URL %s", wrong);
        return false;
    }
    return find_key(request, made, problem) && gather_caller_headers(request, made, problem);
}

/* ---- connections ---- */

static bool read_tls(const struct client_route *route, struct tls_client **ret_tls,
                     struct buf *problem)
{
    struct tls_config config = {.ca = route->ca,
                                .cert = route->cert,
                                .key = route->cert_key ? route->cert_key : route->cert,
                                .insecure = route->insecure};
    struct tls_complaint complaint;
    if (route->cert_key && !route->cert)
        return complain_of_request(problem,
                                   "the key of a certificate needs the certificate (--cert)");
    *ret_tls = tls_client_new(&config, &complaint);
    if (!*ret_tls && complaint.file)
        buf_printf(problem, "%s: %s", complaint.file, complaint.text);
    else if (!*ret_tls)
        complain_of_request(problem, NO_MEMORY);
    return *ret_tls;
}

struct http_origins *client_connect(const struct client_route *route, const struct url *url,
                                    struct buf *problem)
{
    struct tls_client *tls = NULL;
    CHECK(url || route->max > 0);
    if ((!url || url->tls) && !read_tls(route, &tls, problem))
        return NULL;
    struct http_origins_config config = {.tls = tls,
                                         .unix_socket = route->unix_socket,
                                         .max = route->max > 0 ? route->max : 1,
                                         .max_idle = route->max_idle,
                                         .idle_us = IDLE_US,
                                         .fresh_us = FRESH_US};
    struct http_origins *origins = http_origins_new(&config);
    tls_client_unref(tls);
    if (!origins)
        complain_of_request(problem, NO_MEMORY);
    return origins;
}
