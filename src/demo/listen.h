/* SPDX-License-Identifier: Apache-2.0 */
/* Listening on a loopback address. */
#ifndef PAWL_DEMO_LISTEN_H
#define PAWL_DEMO_LISTEN_H

#include "base/buf.h"

/* Listens on `127.0.0.1:9000`, `localhost:9000` or `[::1]:9000` (see demo/server.h). The
 * descriptor, or -1: `text` says why. On success `text` is the address with the port taken. */
int listen_on_loopback(struct slice address, struct buf *text);

#endif
