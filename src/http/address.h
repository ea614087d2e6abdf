/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of sockets, of either family. */
#ifndef PAWL_HTTP_ADDRESS_H
#define PAWL_HTTP_ADDRESS_H

#include "base/buf.h"
#include <sys/socket.h>

/* Appends `127.0.0.1:80` or `[::1]:80`. */
void address_write(struct buf *text, const struct sockaddr_storage *address);

/* Writes the host alone, `unknown` for another family. */
#define ADDRESS_HOST_SIZE 46
void address_write_host(char text[ADDRESS_HOST_SIZE], const struct sockaddr_storage *address);

/* Reads `127.0.0.1`, `[::1]` or `localhost`, which is 127.0.0.1; no resolver is asked. False: it is
 * none of these. */
bool address_read_host(struct slice host, struct sockaddr_storage *ret_address);

/* Whether it can be reached from this machine only. */
bool address_is_loopback(const struct sockaddr_storage *address);

#endif
