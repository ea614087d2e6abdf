/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/resolve.h"

#include "base/buf.h"
#include "base/mem.h"
#include <netdb.h>
#include <stdio.h>

#define PROBLEM_MAX ((size_t)1024)

/* NULL: `*ret_problem` says why; freeaddrinfo. */
static struct addrinfo *look_up(const struct config_address *address, bool passive,
                                char **ret_problem)
{
    char port[8];
    char *host MEM_AUTO = mem_copy(address->host.at, address->host.len);
    struct addrinfo *found = NULL;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = passive ? AI_PASSIVE : 0};
    snprintf(port, sizeof port, "%u", (unsigned)address->port);
    if (!host)
        return NULL;
    int failed = getaddrinfo(host, port, &hints, &found);
    if (failed == 0)
        return found;
    struct buf text = buf_make(PROBLEM_MAX);
    buf_printf(&text, "cannot resolve %s of %s: %s", host,
               passive ? "`listen:` or `admin:`" : "`upstream:`", gai_strerror(failed));
    *ret_problem = buf_take(&text);
    return NULL;
}

bool resolve_address(const struct config_address *address, struct sockaddr_storage *ret_address,
                     unsigned *ret_len, char **ret_problem)
{
    struct addrinfo *found = look_up(address, true, ret_problem);
    if (!found)
        return false;
    memcpy(ret_address, found->ai_addr, found->ai_addrlen);
    *ret_len = found->ai_addrlen;
    freeaddrinfo(found);
    return true;
}

bool resolve_upstream(const struct config_address *address, struct http_upstream *ret_upstream,
                      char **ret_problem)
{
    struct addrinfo *found = look_up(address, false, ret_problem);
    if (!found)
        return false;
    struct http_upstream upstream = {.address_len = found->ai_addrlen};
    memcpy(&upstream.address, found->ai_addr, found->ai_addrlen);
    if (found->ai_next) {
        upstream.other_len = found->ai_next->ai_addrlen;
        memcpy(&upstream.other, found->ai_next->ai_addr, upstream.other_len);
    }
    freeaddrinfo(found);
    *ret_upstream = upstream;
    return true;
}
