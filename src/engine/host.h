/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host: which process of which host began an attempt, and whether it or something of it still runs
 * here. A job's processes have its token in their environment (PAWL_TOKEN), so that a child whose
 * pawl was killed is found: before it is overtaken, on this host, nothing of it may be left
 * (contract section 7, Jobs). From another host only its lease is visible. Linux: /proc.
 */
#ifndef PAWL_ENGINE_HOST_H
#define PAWL_ENGINE_HOST_H

#include "base/buf.h"

#define HOST_KEY "PAWL_KEY="
#define HOST_TOKEN "PAWL_TOKEN="

/* Appends what a claim stores of its client, this process:
 * "web1, pid 4711 since 902144, boot 5fe29fdc2647789a". */
void host_write(struct buf *buf);

/* Whether an attempt was begun on this host since it booted, by the origin that its claim stored
 * (core/web/origin.h), and the process that began it still lives, which may have been stopped, or
 * something that it started does. */
bool host_goes_on(struct slice origin, struct slice key, int64_t token);

/* Sends a signal, 0: none, to every other process with this token and key in its environment that
 * this user may see. How many there are. A token alone may be that of another store, too. */
size_t host_signal(struct slice key, int64_t token, int number);

#endif
