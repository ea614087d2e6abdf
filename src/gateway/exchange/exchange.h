/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange: one ruled request, from its headers to its response, in named steps (run.c takes them):
 *
 *   IDENTIFY --> ADMIT --> AUTHORIZE --> JUDGE --> DECIDE <-----------------.
 *    |  ^                                 |         |  |  `-> UNPROTECTED    |
 *    |  `-- by the rules of now ----------'         |  |    RETRY <--> (waits, then forwards again,
 *    |                                              |  `----> FORWARD --.    | or, after a probe,
 *    `--> BYPASS                                    |                   |    | decides again)
 *                                                   `-------> PROBE --. |    | the record says
 *                                                               ^    v v    | something else
 *                                             ask what became   `-- SETTLE -'
 *                                             of it
 *   IDENTIFY, ADMIT, AUTHORIZE, DECIDE, UNPROTECTED, RETRY and SETTLE may also go
 *   --> RESPOND --> DONE; DECIDE goes back to JUDGE where a reload moves the rule's keys
 *
 * A step asserts what it begins with, does one thing, and returns the next; exchange_move asserts
 * that this is a move of the table in exchange.c. What the client gets is decided by a
 * step (reply.h) and written by RESPOND alone, once; the client of a step that takes longer than it
 * waits gets an error by reply_early, and the exchange goes on: what the client does changes
 * nothing (contract section 2, invariant 4). What the log and the record say of it is in log.c.
 */
#ifndef PAWL_GATEWAY_EXCHANGE_EXCHANGE_H
#define PAWL_GATEWAY_EXCHANGE_EXCHANGE_H

#include "core/request/fingerprint.h"
#include "core/retry/disposition.h"
#include "core/retry/retry.h"
#include "gateway/result.h"
#include "gateway/server.h"
#include "http/call/call.h"

#define OFFLOAD_LEAST ((size_t)64 * 1024) /* bytes of a body that a worker hashes or verifies */

/* X(STEP, what may come next). A core dump names the step of each exchange. */
#define EXCHANGE_STEPS(X)                                                                          \
    X(IDENTIFY, TO(ADMIT) | TO(RESPOND) | TO(BYPASS)) /* tenant, key, body, hashes */              \
    X(ADMIT, TO(AUTHORIZE) | TO(RESPOND))             /* one of max_in_flight */                   \
    X(AUTHORIZE, TO(JUDGE) | TO(RESPOND))             /* may this caller act as this tenant? */    \
    X(JUDGE, TO(IDENTIFY) | TO(DECIDE))               /* by the rules of now, after a reload */    \
    X(DECIDE, TO(FORWARD) | TO(PROBE) | TO(UNPROTECTED) | TO(DECIDE) | TO(RESPOND) | TO(JUDGE) |   \
                  TO(INQUIRE))         /* which begins the attempt, or finds what there is */      \
    X(FORWARD, TO(SETTLE) | TO(RETRY)) /* sends once and reads, under a token */                   \
    X(RETRY, TO(FORWARD) | TO(SETTLE) | TO(DECIDE) | TO(RESPOND)) /* waits before the next try */  \
    X(PROBE, TO(SETTLE))        /* asks the upstream what became of it */                          \
    X(INQUIRE, TO(SETTLE))      /* asks it whether it was done before, and sends nothing */        \
    X(UNPROTECTED, TO(RESPOND)) /* sends without a record: `store_down: pass` */                   \
    X(SETTLE, TO(DECIDE) | TO(FORWARD) | TO(PROBE) | TO(RETRY) |                                   \
                  TO(RESPOND)) /* stores what became of it */                                      \
    X(RESPOND, TO(DONE))       /* writes what is then true */                                      \
    X(BYPASS, 0)               /* no key, and none required: it passes */                          \
    X(DONE, 0)

enum exchange_step {
#define X(name, next) EXCHANGE_##name,
    EXCHANGE_STEPS(X)
#undef X
};

/* What the client knows. */
enum exchange_client {
    CLIENT_WAITS,
    CLIENT_SERVED,  /* it has its response */
    CLIENT_REFUSED, /* it has the error that nothing was done: a claim is given back */
    CLIENT_LEFT,    /* it left, or gets no response any more */
};

/* What the client gets: pawl's own error, an upstream's response, or a kept one. */
struct reply {
    enum error error;                         /* ERROR_NONE: no error of pawl's own */
    const struct upstream_response *response; /* an upstream's response; else NULL */
    enum result result;
    enum exchange_step step; /* which decided it */
    bool early;              /* and goes on */
    bool late;               /* the client's own time was over */
    bool not_done;           /* its failure: of an attempt that a probe found not to be done */
    bool of_once;            /* what it refuses is the once value, not the key */
};

/* What it has of the limits on requests in flight. */
struct flight {
    bool taken;         /* a slot of max_in_flight */
    bool shares;        /* and one of its tenant's */
    struct peer tenant; /* with max_in_flight_per_tenant */
};

/* An upstream's complete response. */
struct upstream_response {
    int status;
    struct buf fields; /* for the first client: every end-to-end line */
    struct buf kept;   /* for the record: outcome_keep_fields */
    struct buf body;   /* as it is judged and kept */
    struct buf coded; /* for the first client, where that is another: it alone asked for a coding */
    bool unkept;      /* that could not be decoded: `body` is empty, and none is kept */
    bool whole;       /* false: too large or a stream; the rest is still to be read */
    bool stale;       /* it refuses the token: no more of it was read */
    int64_t hint_at;  /* boot time: as its Retry-After says; 0: it says none */
};

struct exchange {
    struct parker parker; /* of a begin: woken by the store, by its client leaving, by a drain;
                             first: the two are cast into each other */
    int64_t respond_at;   /* boot time: a client whose begin is still being applied gets an error */
    enum exchange_step step;
    enum exchange_step before; /* it came from there */
    int decisions;             /* so far */
    enum exchange_client client_state;
    struct reply reply;
    struct server *server;
    struct client *client;
    const struct http_request *request;
    struct plan *plan; /* one reference: what it began with */
    const struct rule *rule;
    struct rule_found found;
    struct arena *arena;        /* the request's: this struct lies in it, too */
    struct buf body;            /* the request's, as sent */
    bool has_body;              /* it was read whole */
    uint64_t held;              /* of shared->buffered */
    struct arena payload_arena; /* of the understood body; empty but between open and close */
    struct payload payload;
    struct slice client_key; /* the Idempotency-Key line as sent; `.at` NULL: none */
    bool keyless;            /* the client sent no key: its once value is its name */
    struct buf tenant;       /* as shown */
    struct buf key;          /* key text */
    struct buf once;         /* the once value; empty: the rule has none */
    char *holder_key;        /* of the record that it goes on in, if that is another one's */
    struct slice no_key;     /* one that cannot exist, asked for in place of it; empty: none is */
    struct buf shown_key;    /* key text with its window */
    struct buf sent_key;     /* as the upstream sees it */
    struct buf headers;      /* of the request to the upstream, made for the first one */
    struct buf detail;       /* of the reply: a sentence about this case; may be empty */
    /* In doubt: how its key was spelled to the service; else KEY_FORWARD_BY_SYNTAX. */
    enum key_forward spelling;
    char payload_hex[DIGEST_HEX_SIZE + 1];
    struct fingerprint fingerprint;
    struct fingerprint found_fingerprint; /* with a mismatch: of the first request */
    struct attempt attempt;
    bool met; /* a record, its own or another's: what it would send may have happened */
    struct flight flight;
    int64_t started;         /* boot time */
    int64_t client_deadline; /* boot time, by X-Request-Timeout; CLOCK_NEVER: it named none */
    int64_t deadline;        /* boot time: this one exchange with the upstream ends */
    int64_t tries_by;        /* boot time: so do all tries together */
    int64_t authorize_us;    /* what `authorize` took of the rule's timeout */
    struct upstream_response response;   /* the upstream's last */
    enum response_says says;             /* that one, of the operation */
    int cause;                           /* of the last try: record_note_cause */
    bool keeps_encoding;                 /* the request went out with its own Accept-Encoding */
    char malformed[HTTP_MALFORMED_SIZE]; /* of the last response that was; else "" */
    struct retry_course course;          /* its tries, where the rule retries; attempts 0: none */
    int further;                         /* those of them that no begin counted */
    enum exchange_end try_end;           /* of the last one */
    int64_t retry_at;                    /* boot time of the next one */
    bool tried_in_doubt;                 /* one under this token may have had its effect, */
    int doubt_cause;                     /*   for this cause */
    struct disposition disposition;      /* what FORWARD and PROBE came to: for SETTLE */
    enum error failure;              /* a probe follows it: the error if that is inconclusive, */
    struct upstream_response failed; /*   or with a status the upstream's response in doubt */
    struct slice unprobed;           /* the source whose value keeps a probe from being sent */
    enum filled_fault unprobed_by;   /* what is wrong with it */
    const char *unverified;          /* for the log: why the signature of an event is none */
    const char *participant;         /* for the log: "missing" or "overruled"; else NULL */
    int64_t hint_at;                 /* boot time: the latest of its Retry-After; 0: none */
    bool not_found_yet;              /* the probe found nothing, before that is believed */
    bool keep_alive;                 /* the client connection may go on afterwards */
    int status;                      /* of the response; for the log */
    enum error error;                /* with it */
    enum result result;              /* and what the request came to */
    const char *from_state;          /* of the record when it was found; NULL: not looked at */
    struct http_call call;           /* to the upstream; last: not all of it is zeroed */
};

/* One for a request that `found` says a rule covers, at its first step, with all that most requests
 * need, in one arena. NULL: no memory. */
struct exchange *exchange_new(struct client *client, const struct http_request *request,
                              const struct rule_found *found);
void exchange_free(struct exchange *x);

/* Does what may take long: on a worker where it does and one is free, beside the loop. */
void exchange_work(const struct exchange *x, bool takes_long, void (*work)(void *), void *argument);

/* An empty buffer whose first `size` bytes lie in the request's arena. */
struct buf exchange_buf(struct exchange *x, size_t size, size_t max);

/* JUDGE: a reload came while the request was read: nothing has begun, so it is judged by the rules
 * of now. A request that has no rule any more ends under the one it came with. */
enum exchange_step exchange_judge_anew(struct exchange *x);

/* Whether what it sent bars it from acquiring anything again, while no owner is known to run the
 * operation: its client's next request is a new one (contract section 2, invariant 12). */
static inline bool exchange_is_spent(const struct exchange *x)
{
    return x->attempt.begin.spent && x->attempt.result.record.status != RECORD_UNKNOWN;
}

/* The key as it is shown, and as probes ask by it: the key text; with {window:} the window's begin
 * behind it, so that two windows are two keys to the upstream, too. */
struct slice operation_key(struct exchange *x);

/* The key of the record that the exchange owns, with its window: this client's or, where it goes on
 * in another one's record, that one's, which no client sees. */
struct slice holder_key(struct exchange *x);

/* The Idempotency-Key line for the upstream: holder_key in the rule's one spelling, or in the one
 * in which an attempt that is in doubt was sent. Of a record from before there was one (its recipe
 * says so) it is as the client wrote it: so the upstream knows an operation that is in doubt. */
struct slice upstream_key(struct exchange *x);

/* How often the operation was tried: acquisitions, and this exchange's further tries. */
static inline int64_t exchange_tries(const struct exchange *x)
{
    return x->attempt.result.record.attempts + x->further;
}

/* run.c: runs a request that `found` says a rule covers. True: the connection may be used again. */
bool exchange_run(struct client *client, const struct http_request *request,
                  const struct rule_found *found);
/* Behind its last step: writes its log line and frees it. True: as exchange_run. */
bool exchange_end(struct exchange *x);

/* Moves on; asserts that the table has this move. */
void exchange_move(struct exchange *x, enum exchange_step next);

/* ---- log.c: what the log and the record say of it ---- */

/* Remembers the state in which the record was found, at the first decision. */
void exchange_note_state(struct exchange *x, enum engine_verdict verdict);

/* Makes attempt.origin: which request this is, for an operator who finds its record unknown. False:
 * no memory, and it has to say which event follows. */
bool exchange_note_origin(struct exchange *x);

/* One log line about a try after which another one could have followed: when one does (`ended_by`
 * NULL), or why none does. */
void exchange_log_retry(const struct exchange *x, int64_t wait_us, const char *ended_by);

/* One log line about how it ended. */
void exchange_log(const struct exchange *x);
/* What the store kept of the response cannot be unpacked, in its row. */
void exchange_log_damaged(const struct exchange *x);
/* The store lost the record under which it was sent, or was about to be: what it came to, with the
 * status of the response (0: none), is known by this line alone. */
void exchange_log_lost(const struct exchange *x, int status);
/* Its response could not be decoded. */
void exchange_log_unkept(const struct exchange *x, struct slice coding);

#endif
