/* SPDX-License-Identifier: Apache-2.0 */
#include "http/call/origins.h"

#include "base/check.h"
#include "base/mem.h"
#include "http/headers_out.h"
#include <sys/un.h>

#define ORIGIN_MAX (URL_HOST_MAX + sizeof "https://[]:65535")

struct origin {
    char *name; /* as url_write_origin writes it */
    struct http_pool *pool;
};

struct http_origins {
    struct http_origins_config config;
    size_t n;
    struct origin at[]; /* the one used last comes last */
};

struct http_origins *http_origins_new(const struct http_origins_config *config)
{
    CHECK(config->max > 0);
    struct http_origins *origins =
        mem_zalloc(1, sizeof *origins + config->max * sizeof *origins->at);
    if (!origins)
        return NULL;
    origins->config = *config;
    tls_client_ref(config->tls);
    http_guard_ref(config->guard);
    return origins;
}

void http_origins_set_tls(struct http_origins *origins, struct tls_client *tls)
{
    CHECK(!origins->config.tls);
    tls_client_ref(tls);
    origins->config.tls = tls;
}

static void origin_drop(struct origin *origin)
{
    http_pool_unref(origin->pool);
    mem_free(origin->name);
}

void http_origins_free(struct http_origins *origins)
{
    if (!origins)
        return;
    for (size_t i = 0; i < origins->n; i++)
        origin_drop(&origins->at[i]);
    tls_client_unref(origins->config.tls);
    http_guard_unref(origins->config.guard);
    mem_free(origins);
}

/* ---- finding ---- */

static void drop_origin(struct http_origins *origins, size_t i)
{
    origin_drop(&origins->at[i]);
    origins->n--;
    memmove(&origins->at[i], &origins->at[i + 1], (origins->n - i) * sizeof *origins->at);
}

/* Moves what it finds to the end. One that was refused is looked up anew. */
static struct http_pool *find_kept(struct http_origins *origins, struct slice name)
{
    for (size_t i = 0; i < origins->n; i++) {
        struct origin found = origins->at[i];
        if (!slice_eq(slice_of(found.name), name))
            continue;
        if (http_pool_refusal(found.pool)) {
            drop_origin(origins, i);
            return NULL;
        }
        size_t behind = origins->n - i - 1;
        memmove(&origins->at[i], &origins->at[i + 1], behind * sizeof *origins->at);
        origins->at[origins->n - 1] = found;
        return http_pool_ref(found.pool);
    }
    return NULL;
}

/* The longest unused makes way. */
static bool keep_pool(struct http_origins *origins, struct slice name, struct http_pool *pool)
{
    char *copy = mem_copy(name.at, name.len);
    if (!copy)
        return false;
    if (origins->n == origins->config.max)
        drop_origin(origins, 0);
    origins->at[origins->n++] = (struct origin){copy, http_pool_ref(pool)};
    return true;
}

static bool reach_socket(const char *path, struct http_addresses *addresses)
{
    struct sockaddr_un *address = (struct sockaddr_un *)&addresses->at[0];
    address->sun_family = AF_UNIX;
    if (strlen(path) >= sizeof address->sun_path)
        return false;
    memcpy(address->sun_path, path, strlen(path) + 1);
    addresses->n = 1;
    return true;
}

/* Fills in part of a zeroed upstream also where it fails. */
static enum http_call_result reach_origin(const struct http_origins_config *config,
                                          const struct url *url, int64_t until_us,
                                          struct http_upstream *upstream, const char **ret_problem)
{
    *ret_problem = NULL;
    if (config->unix_socket && !reach_socket(config->unix_socket, &upstream->addresses)) {
        *ret_problem = "the path of the unix socket is too long";
        return HTTP_CALL_UNREACHABLE;
    }
    if (!config->unix_socket) {
        const struct http_name_config wanted = {url->at.host, url->at.port, config->fresh_us,
                                                config->guard};
        upstream->name = http_name_find_in_fiber(&wanted, until_us, ret_problem);
        if (!upstream->name)
            return *ret_problem ? HTTP_CALL_UNREACHABLE : HTTP_CALL_NO_MEMORY;
        http_name_addresses(upstream->name, &upstream->addresses);
        *ret_problem = upstream->addresses.refused;
        if (*ret_problem)
            return HTTP_CALL_FORBIDDEN;
    }
    CHECK(!url->tls || config->tls);
    upstream->tls = url->tls ? tls_client_for(config->tls, url->at.host) : NULL;
    return upstream->tls || !url->tls ? HTTP_CALL_DONE : HTTP_CALL_NO_MEMORY;
}

/* Another fiber may have made one while the name was looked up: then both serve. */
static enum http_call_result make_pool(struct http_origins *origins, const struct url *url,
                                       int64_t until_us, struct http_pool **ret_pool,
                                       const char **ret_problem)
{
    HTTP_UPSTREAM_AUTO struct http_upstream upstream = {0};
    enum http_call_result result =
        reach_origin(&origins->config, url, until_us, &upstream, ret_problem);
    if (result != HTTP_CALL_DONE)
        return result;
    *ret_pool = http_pool_new(&upstream, origins->config.max_idle, origins->config.idle_us);
    return *ret_pool ? HTTP_CALL_DONE : HTTP_CALL_NO_MEMORY;
}

enum http_call_result http_origins_find(struct http_origins *origins, const struct url *url,
                                        int64_t until_us, struct http_pool **ret_pool,
                                        const char **ret_problem)
{
    char room[ORIGIN_MAX];
    BUF_AUTO struct buf name = buf_on(room, sizeof room, sizeof room);
    url_write_origin(&name, url);
    if (!buf_ok(&name))
        return HTTP_CALL_NO_MEMORY;
    *ret_problem =
        origins->config.guard ? http_guard_url_refusal(origins->config.guard, url) : NULL;
    if (*ret_problem)
        return HTTP_CALL_FORBIDDEN;
    *ret_pool = find_kept(origins, buf_slice(&name));
    if (*ret_pool)
        return HTTP_CALL_DONE;
    enum http_call_result result = make_pool(origins, url, until_us, ret_pool, ret_problem);
    if (result != HTTP_CALL_DONE || keep_pool(origins, buf_slice(&name), *ret_pool))
        return result;
    http_pool_unref(*ret_pool);
    return HTTP_CALL_NO_MEMORY;
}

/* ---- writing ---- */

void http_origins_write(struct buf *buf, const struct http_origins_request *request)
{
    const struct headers *headers = request->headers;
    buf_add_slice(buf, request->method);
    buf_add_char(buf, ' ');
    url_write_target(buf, request->url);
    buf_add_str(buf, " HTTP/1.1\r\n");
    if (!headers_find(headers, SLICE("Host"))) {
        buf_add_str(buf, "Host: ");
        url_write_authority(buf, request->url);
        buf_add_str(buf, "\r\n");
    }
    for (size_t i = 0; i < headers->n; i++)
        fields_add(buf, headers->at[i].name, headers->at[i].value);
    if (request->has_body)
        headers_write_number(buf, "Content-Length", request->body.len);
    buf_add_str(buf, "\r\n");
}
