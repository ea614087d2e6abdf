/* SPDX-License-Identifier: Apache-2.0 */
/* Tells the service manager that started this process how it does (sd_notify(3)): a datagram to
 * $NOTIFY_SOCKET, which is a path or, after '@', an abstract name. */
#ifndef PAWL_DAEMON_NOTIFY_H
#define PAWL_DAEMON_NOTIFY_H

/* Sends `state`, such as "READY=1". Without $NOTIFY_SOCKET, or where nobody listens, nothing
 * happens: the daemon does not depend on being watched. */
void notify_manager(const char *state);

#endif
