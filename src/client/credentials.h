/* SPDX-License-Identifier: Apache-2.0 */
/*
 * credentials: which headers a service refuses (401, 407), as far as this process knows. A set is
 * the header lines of an operation and the files they name, at one origin; those of a refused one
 * wait, and one of them tries it again: when a file has changed, else after a while.
 *
 *      refused ---> waits, 1 s doubling to 5 min ---> tried ---> accepted: forgotten
 *         ^             |  a file has changed: forgotten  |
 *         '-------------------------------------------- refused
 *
 * In one thread. What waits is in the store (TASK_REASON_CREDENTIALS), and is due when its time is
 * over, or when somebody wakes it.
 */
#ifndef PAWL_CLIENT_CREDENTIALS_H
#define PAWL_CLIENT_CREDENTIALS_H

#include "base/buf.h"
#include "store/store.h"

#define CREDENTIALS_LEAST_US CLOCK_US_PER_S
#define CREDENTIALS_MOST_US (INT64_C(300) * CLOCK_US_PER_S)

struct credentials;

/* NULL: no memory. */
struct credentials *credentials_new(void);
/* Accepts NULL. */
void credentials_free(struct credentials *credentials);

/* Borrowed. */
struct credentials_set {
    struct slice lane;
    struct slice fields; /* header lines; `@FILE` is that file's */
    uint64_t stamp;      /* credentials_stamp, from before the files were read */
};

/* Another one after a file that `fields` names was written. */
uint64_t credentials_stamp(struct slice fields);

/* How long an operation of the set waits if nobody wakes it. 0: it may be sent; of a set that was
 * refused it is the one that tries it (`*ret_tries`), until one of the next three calls. */
int64_t credentials_wait_us(struct credentials *credentials, const struct credentials_set *set,
                            bool *ret_tries);
/* It was refused, with this status: how long until it is tried again. */
int64_t credentials_refuse(struct credentials *credentials, const struct credentials_set *set,
                           int status);
/* It was not. */
void credentials_accept(struct credentials *credentials, const struct credentials_set *set);
/* Its try says nothing. */
void credentials_give_back(struct credentials *credentials, const struct credentials_set *set);

/* Whether since the last look a set that was refused is so no more, as far as one can see. */
bool credentials_look(struct credentials *credentials);

/* Whether some are refused; and a line for each, with the file or headers that are to be renewed.
 */
bool credentials_any(const struct credentials *credentials);
void credentials_describe(const struct credentials *credentials, struct buf *lines);

/* Makes due what waits for credentials in the queue. */
enum store_status credentials_wake(struct store *store, struct parker *parker);

#endif
