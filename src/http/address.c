/* SPDX-License-Identifier: Apache-2.0 */
#include "http/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

void address_write_host(char text[ADDRESS_HOST_SIZE], const struct sockaddr_storage *address)
{
    const struct in_addr *v4 = &((const struct sockaddr_in *)address)->sin_addr;
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)address)->sin6_addr;
    bool is_v6 = address->ss_family == AF_INET6;
    if (!inet_ntop(address->ss_family, is_v6 ? (const void *)v6 : v4, text, ADDRESS_HOST_SIZE))
        memcpy(text, "unknown", sizeof "unknown");
}

/* In both families the port is at the same offset. */
void address_write(struct buf *text, const struct sockaddr_storage *address)
{
    char host[ADDRESS_HOST_SIZE];
    address_write_host(host, address);
    buf_printf(text, address->ss_family == AF_INET6 ? "[%s]:%u" : "%s:%u", host,
               (unsigned)ntohs(((const struct sockaddr_in *)address)->sin_port));
}

bool address_read_host(struct slice host, struct sockaddr_storage *ret_address)
{
    char text[ADDRESS_HOST_SIZE];
    struct sockaddr_storage address = {.ss_family = AF_INET};
    void *bytes = &((struct sockaddr_in *)&address)->sin_addr;
    if (slice_eq_nocase(host, SLICE("localhost")))
        host = SLICE("127.0.0.1");
    if (host.len > 2 && host.at[0] == '[' && host.at[host.len - 1] == ']') {
        host = slice_make(host.at + 1, host.len - 2);
        address.ss_family = AF_INET6;
        bytes = &((struct sockaddr_in6 *)&address)->sin6_addr;
    }
    if (host.len == 0 || host.len >= sizeof text)
        return false;
    memcpy(text, host.at, host.len);
    text[host.len] = '\0';
    if (inet_pton(address.ss_family, text, bytes) != 1)
        return false;
    *ret_address = address;
    return true;
}

bool address_is_loopback(const struct sockaddr_storage *address)
{
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)address)->sin6_addr;
    if (address->ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 ==
               IN_LOOPBACKNET;
    return address->ss_family == AF_INET6 &&
           (IN6_IS_ADDR_LOOPBACK(v6) ||
            (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == IN_LOOPBACKNET));
}
