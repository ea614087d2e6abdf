/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/resolve.h"

#include "base/buf.h"
#include "base/check.h"
#include "base/mem.h"
#include <errno.h>
#include <netdb.h>
#include <stdio.h>

#define PROBLEM_MAX ((size_t)16 * 1024) /* two paths */

bool resolve_address(const struct url_authority *address, struct sockaddr_storage *ret_address,
                     char **ret_problem)
{
    char port[8];
    char *host MEM_AUTO = mem_copy(address->host.at, address->host.len);
    struct addrinfo *found = NULL;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    snprintf(port, sizeof port, "%u", (unsigned)address->port);
    if (!host)
        return false;
    int failed = getaddrinfo(host, port, &hints, &found);
    if (failed != 0) {
        struct buf text = buf_make(PROBLEM_MAX);
        buf_printf(&text, "cannot resolve %s of `listen:` or `admin:`: %s", host,
                   gai_strerror(failed));
        *ret_problem = buf_take(&text);
        return false;
    }
    memcpy(ret_address, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return true;
}

char *listen_problem(const char *option, const struct url_authority *address, int error,
                     const char *denied)
{
    struct buf text = buf_make(PROBLEM_MAX);
    buf_printf(&text, "cannot listen on %.*s:%u (`%s:`): ", SLICE_ARG(address->host),
               (unsigned)address->port, option);
    if (error == -EADDRINUSE)
        buf_printf(&text,
                   "the address is in use; stop the process that uses it (perhaps another pawl), "
                   "or choose another `%s:`",
                   option);
    else
        buf_add_str(&text, error == -EACCES && denied ? denied : strerror(-error));
    return buf_take(&text);
}

/* ---- upstream ---- */

/* Complains of an unusable file in the form of the config's own complaints. */
static bool load_tls(const struct config *config, struct http_upstream *upstream,
                     char **ret_problem)
{
    const struct config_tls *tls = &config->upstream_tls;
    const struct config_file *files[] = {&tls->ca, &tls->cert, &tls->key};
    struct slice server = tls->server_name.len > 0 ? tls->server_name : config->upstream.host;
    struct tls_config wanted = {server.at, tls->ca.path.at, tls->cert.path.at, tls->key.path.at};
    struct tls_complaint complaint;
    upstream->tls = tls->on ? tls_client_new(&wanted, &complaint) : NULL;
    if (!tls->on || upstream->tls)
        return true;
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        if (!complaint.file || files[i]->path.at != complaint.file)
            continue;
        struct buf text = buf_make(PROBLEM_MAX);
        buf_printf(&text, "%.*s: upstream_tls: %s: %s", SLICE_ARG(files[i]->at), complaint.file,
                   complaint.text);
        *ret_problem = buf_take(&text);
        return false;
    }
    if (complaint.file)
        *ret_problem = mem_copy(complaint.text, strlen(complaint.text));
    return false;
}

bool resolve_upstream(const struct config *config, int stop_fd, struct http_upstream *ret_upstream,
                      char **ret_problem)
{
    const struct url_authority *address = &config->upstream;
    const struct http_name_config wanted = {
        .host = address->host, .port = address->port, .fresh_us = config->resolve_us};
    const char *problem;
    CHECK(config_has_gateway(config));
    ret_upstream->name = http_name_find(&wanted, stop_fd, &problem);
    if (ret_upstream->name) {
        http_name_addresses(ret_upstream->name, &ret_upstream->addresses);
        return load_tls(config, ret_upstream, ret_problem);
    }
    struct buf text = buf_make(PROBLEM_MAX);
    buf_printf(&text, "cannot resolve %.*s of `upstream:`: %s", SLICE_ARG(address->host), problem);
    if (problem)
        *ret_problem = buf_take(&text);
    else
        buf_fini(&text);
    return false;
}
