/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/resolve.h"

#include "base/buf.h"
#include "base/mem.h"
#include <netdb.h>
#include <stdio.h>

#define PROBLEM_MAX ((size_t)1024)

bool resolve_address(const struct config_address *address, bool passive,
                     struct sockaddr_storage *ret_address, unsigned *ret_len, char **ret_problem)
{
    char port[8];
    char *host MEM_AUTO = mem_copy(address->host.at, address->host.len);
    struct addrinfo *found = NULL;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = passive ? AI_PASSIVE : 0};
    snprintf(port, sizeof port, "%u", (unsigned)address->port);
    if (!host)
        return false;
    int failed = getaddrinfo(host, port, &hints, &found);
    if (failed != 0) {
        struct buf text = buf_make(PROBLEM_MAX);
        buf_printf(&text, "cannot resolve %s of %s: %s", host,
                   passive ? "`listen:` or `admin:`" : "`upstream:`", gai_strerror(failed));
        *ret_problem = buf_take(&text);
        return false;
    }
    memcpy(ret_address, found->ai_addr, found->ai_addrlen);
    *ret_len = found->ai_addrlen;
    freeaddrinfo(found);
    return true;
}
