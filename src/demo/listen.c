/* SPDX-License-Identifier: Apache-2.0 */
#include "demo/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 1024

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static bool read_host(struct slice host, union address *address)
{
    char text[INET6_ADDRSTRLEN] = "127.0.0.1";
    bool brackets = host.len > 2 && host.at[0] == '[' && host.at[host.len - 1] == ']';
    if (brackets)
        host = slice_make(host.at + 1, host.len - 2);
    if (host.len == 0 || host.len >= sizeof text)
        return false;
    if (brackets || !slice_eq(host, SLICE("localhost"))) {
        memcpy(text, host.at, host.len);
        text[host.len] = '\0';
    }
    if (brackets) {
        address->v6.sin6_family = AF_INET6;
        return inet_pton(AF_INET6, text, &address->v6.sin6_addr) == 1 &&
               IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
    }
    address->v4.sin_family = AF_INET;
    return inet_pton(AF_INET, text, &address->v4.sin_addr) == 1 &&
           ntohl(address->v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

static bool read_address(struct slice text, union address *address)
{
    size_t colon = text.len;
    while (colon > 0 && text.at[colon - 1] != ':')
        colon--;
    uint64_t port;
    if (colon == 0 || !slice_to_u64(slice_skip(text, colon), 65535, &port) ||
        !read_host(slice_make(text.at, colon - 1), address))
        return false;
    /* In both families the port stands at the same place. */
    address->v4.sin_port = htons((uint16_t)port);
    return true;
}

static socklen_t address_size(const union address *address)
{
    return address->any.sa_family == AF_INET6 ? sizeof address->v6 : sizeof address->v4;
}

static void print_address(const union address *address, struct buf *text)
{
    char host[INET6_ADDRSTRLEN] = "";
    bool v6 = address->any.sa_family == AF_INET6;
    const void *bytes = v6 ? (const void *)&address->v6.sin6_addr : &address->v4.sin_addr;
    inet_ntop(address->any.sa_family, bytes, host, sizeof host);
    buf_printf(text, v6 ? "[%s]:%u" : "%s:%u", host, (unsigned)ntohs(address->v4.sin_port));
}

int listen_on_loopback(struct slice text, struct buf *ret_text)
{
    union address address = {0};
    if (!read_address(text, &address)) {
        buf_add_str(ret_text, "not a loopback address and port");
        return -1;
    }
    int on = 1;
    socklen_t size = address_size(&address);
    int fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd, &address.any, size) != 0 || listen(fd, BACKLOG) != 0 ||
        getsockname(fd, &address.any, &size) != 0) {
        buf_add_str(ret_text, strerror(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    print_address(&address, ret_text);
    return fd;
}
