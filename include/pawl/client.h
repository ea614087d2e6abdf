/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pawl/client.h: one request, sent again by a retry profile under one idempotency key until it is
 * done, and done once. It blocks, from any thread; several may send at the same time. What `pawl
 * send` is to a script, this is to a program. Link with -lpawl (pkg-config: pawl). Its source is
 * src/client/client.c.
 *
 *      struct pawl_request request = {.url = "https://api.example.com/refunds",
 *                                     .body = "{\"amount\":5}", .body_size = 12, .is_json = true,
 *                                     .store = store};
 *      struct pawl_response *response = pawl_send(&request);
 *      if (response && response->verdict == PAWL_DONE)
 *          use(response->body, response->body_size);
 *      pawl_response_free(response);
 */
#ifndef PAWL_CLIENT_H
#define PAWL_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What came of it; the numbers are the exit codes of `pawl send`. */
enum pawl_verdict {
    PAWL_DONE = 0,         /* done, now or before (response->replayed) */
    PAWL_REFUSED = 1,      /* the service refused it, and would again: a 3xx, 4xx, 501 or 505 */
    PAWL_USAGE = 2,        /* the request cannot be sent: response->problem */
    PAWL_MISMATCH = 65,    /* the key was used for another request */
    PAWL_UNAVAILABLE = 69, /* no attempt reached the service, or the store did not respond */
    PAWL_FAIL_STOP = 74,   /* the store stopped after a disk error */
    PAWL_TRY_AGAIN = 75,   /* it may pass by itself, or it is in progress elsewhere */
    PAWL_UNKNOWN = 76,     /* it may have been done: repeat it, under the same key alone */
    PAWL_DEADLINE = 124,   /* the time was over */
};

/* Where keys and responses are kept: a SQLite file, which is made 0600 if it is not there, or
 * postgres://USER@HOST/DATABASE. It may be the store of a gateway or of `pawl send`. Threads share
 * one. NULL: `problem` (of `size` bytes, cut off) says why. A store that may lose what it
 * acknowledged (fsync = off, NFS, tmpfs) is refused unless the environment has
 * PAWL_ACCEPT_WEAKER=true. */
struct pawl_store;
struct pawl_store *pawl_store_open(const char *path, char *problem, size_t size);
/* After all calls that use it. Accepts NULL. */
void pawl_store_close(struct pawl_store *store);

/* An attempt that has ended. */
struct pawl_attempt {
    int number;          /* from 1 */
    int64_t delay_ms;    /* waited before it */
    int status;          /* of HTTP; 0: no response */
    const char *code;    /* the response's error code; "" without one */
    const char *problem; /* why there is no response; NULL: there is one */
    int64_t next_ms;     /* until the next one; -1: it was the last */
};

/* What is to be sent; all zero but for what is wanted. Borrowed until the call returns. */
struct pawl_request {
    const char *url;    /* http:// or https:// */
    const char *method; /* NULL: POST with a body, else GET */
    const char *key;    /* 1 to 255 bytes of printable ASCII; NULL: a new UUID, response->key */
    const char *const *headers; /* "Name: value", the last one NULL; NULL: none. Without a value it
                                   takes one of pawl's own away */
    const void *body;           /* NULL: none */
    size_t body_size;           /* at most 64 MiB */
    bool is_json;               /* application/json, where no header says what it is; else a form */

    struct pawl_store *store; /* NULL: nothing is known once the call has returned */
    int64_t remember_ms;      /* how long a success is kept there; 0: 7 days */
    const char *profile;      /* as `pawl backoff` knows them; NULL: user_facing */
    int64_t deadline_ms;      /* for all attempts; 0: the profile's. No longer than that */
    int64_t timeout_ms;       /* for one attempt; 0: 30 s */
    int64_t connect_ms;       /* for one connection; 0: 5 s */

    const char *ca;          /* PEM file; NULL: the system's */
    const char *cert;        /* of the client; NULL: none */
    const char *cert_key;    /* NULL: in the same file */
    const char *unix_socket; /* connect there; NULL: to the URL's host */
    bool insecure;           /* whatever certificate the server has */

    /* Called after each attempt, on the calling thread and its stack. */
    void (*report)(void *argument, const struct pawl_attempt *attempt);
    void *argument;
};

struct pawl_response {
    enum pawl_verdict verdict;
    bool replayed; /* by an earlier call: nothing was sent */
    int attempts;
    const char *key;     /* that it was sent under */
    const char *code;    /* the last response's error code; "" without one */
    const char *problem; /* PAWL_USAGE: what is wrong; else why there was no response, or "" */
    int status;          /* of the last response; 0: there was none, or it was not kept */
    const char *headers; /* its lines, each with its CR LF; of a replay those that were kept */
    const char *body;    /* with a NUL behind it, which does not count */
    size_t body_size;
    bool truncated; /* the body had more than 64 MiB */
};

/* Sends it. NULL: out of memory, nothing was sent. The response is the caller's. */
struct pawl_response *pawl_send(const struct pawl_request *request);

/* What this service says in its own way; all zero but for that. Borrowed until the call returns. */
struct pawl_answers {
    const char *done;  /* statuses, such as "409" or "409,422": it was done before */
    const char *later; /* those by which it asks to come again */
    /* It was not done, whatever the status: "/errors/0/code=THROTTLED" of a JSON body, or "Name:
     * value". The last one NULL, at most 16. */
    const char *const *not_done;
};
/* The same as pawl_send, of such a service. `answers` NULL: as pawl_send. */
struct pawl_response *pawl_send_by(const struct pawl_request *request,
                                   const struct pawl_answers *answers);

/* What is remembered of an operation; the numbers are the exit codes of `pawl keys succeeded`. */
enum pawl_success {
    PAWL_REMEMBERED = 0,     /* it was done */
    PAWL_NOT_REMEMBERED = 1, /* no success is: it may have been done, and forgotten */
    PAWL_NOT_KNOWN = 69,     /* the store did not respond */
    PAWL_ON_ITS_WAY = 75,    /* it is being sent, or waits in the queue of the store */
    PAWL_LEFT_IN_DOUBT = 76, /* it may have been done */
};
/* Of the operation under this key, as pawl_send, `pawl send` and `pawl queue` keep it. */
enum pawl_success pawl_succeeded(struct pawl_store *store, const char *key);

/* A key that nobody else makes, to be kept with the operation: a UUID of version 4, or of version
 * 7, which says when it was made. False: of another version none is made. */
bool pawl_make_key(int version, char ret_key[37]);

/* Accepts NULL. */
void pawl_response_free(struct pawl_response *response);

#ifdef __cplusplus
}
#endif

#endif
