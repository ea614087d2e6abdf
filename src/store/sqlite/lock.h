/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock file beside an embedded store, FILE-pawl: it keeps the processes of one store apart.
 *
 * SQLite's WAL-reset bug (to 3.51.2) strikes when two connections write or checkpoint at one
 * moment, so every pawl process holds the batch lock from BEGIN until after the checkpoint. Open
 * file description locks, bytes of the file:
 *   0 turnstile, 1 batch: take the turnstile, take the batch lock (both at once where both are
 *     free), free the turnstile; so that a second process is served between two batches of a
 *     saturated first one;
 *   2 life of a `serve`, 3 life of a drainer: held until it ends. The holder writes its pid into
 * the file. Waiting is bounded polling: F_OFD_SETLKW has no timeout, and a stopped holder must not
 * stop everybody for ever.
 */
#ifndef PAWL_STORE_LOCK_H
#define PAWL_STORE_LOCK_H

#include "store/settings.h"
#include <stdbool.h>
#include <stdint.h>

struct store_lock {
    int fd;               /* -1: closed */
    enum store_role role; /* whose life lock this one holds; STORE_COMMAND: none */
};

/* Opens (creates, 0600) `path`. 0 or -errno. */
int store_lock_open(struct store_lock *lock, const char *path);
void store_lock_close(struct store_lock *lock);

/* Whether its file has no name any more: another process would lock another file. */
bool store_lock_is_unlinked(const struct store_lock *lock);

/* Takes the batch lock within `span_us`: 0, -EAGAIN (somebody holds it), -errno. */
int store_lock_take(struct store_lock *lock, int64_t span_us);
void store_lock_free(struct store_lock *lock);

/* Takes the life lock of a role at once and writes the pid: 0, -EAGAIN, -errno. */
int store_lock_life(struct store_lock *lock, enum store_role role);

/* Whether some process holds the life lock of a role. The lock's own holder sees true. */
bool store_lock_life_held(struct store_lock *lock, enum store_role role);

/* The pid that its last holder wrote, 0 when there is none to read. */
int64_t store_lock_holder(struct store_lock *lock, enum store_role role);

#endif
