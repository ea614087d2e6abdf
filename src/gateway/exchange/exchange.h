/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange: one ruled request, from its head to its answer. exchange_run reads in the order in
 * which things happen:
 *
 *   identify (tenant, key)          identify.c    400, 413, 415
 *   read body, hash                 identify.c
 *   may it act as this tenant?      authorize.c   503, 504, what the service says
 *   decide                          engine
 *     proceed  -> forward, settle   forward.c, settle.c
 *     probe    -> ask, settle       probe.c, settle.c
 *     else     -> answer            answer.c
 *
 * A step returns what comes next. The client's socket is not read while the exchange runs: a client
 * that leaves changes nothing (contract section 2, invariant 4).
 */
#ifndef PAWL_GATEWAY_EXCHANGE_EXCHANGE_H
#define PAWL_GATEWAY_EXCHANGE_EXCHANGE_H

#include "core/fate.h"
#include "core/fingerprint.h"
#include "core/problem.h"
#include "gateway/result.h"
#include "gateway/server.h"
#include "http/call.h"

#define EXCHANGE_TURNS 32 /* decisions for one request */
#define PAYLOAD_ARENA_MAX                                                                          \
    ((size_t)256 * 1024 * 1024)           /* understood JSON takes up to 32 times its text */
#define OFFLOAD_LEAST ((size_t)64 * 1024) /* bytes of a body that a worker hashes */
#define ANSWER_FIELDS_MAX ((size_t)64 * 1024)

struct exchange;

/* The parker of a begin: woken by the store, by its client leaving, by a drain. */
struct client_parker {
    struct parker parker; /* first: the two are cast into each other */
    struct exchange *exchange;
    int64_t tell_at; /* boot time: a client whose begin is still being applied is told so */
};

/* What it has of the limits on requests in flight. */
struct flight {
    bool taken;         /* a place of max_in_flight */
    bool shares;        /* and one of its tenant's */
    struct peer tenant; /* with max_in_flight_per_tenant */
};

/* An upstream's complete answer. */
struct answer {
    int status;
    struct buf fields; /* for the first client: every end-to-end line */
    struct buf kept;   /* for the record: outcome_keep_fields */
    struct buf body;
    bool whole; /* false: too large or a stream; the rest is still to be read */
    bool stale; /* it refuses the token: no more of it was read */
};

/* What comes next. */
enum step {
    STEP_DECIDE, /* ask the store (again) */
    STEP_PROBE,  /* it is acquired for a probe */
    STEP_DONE,   /* answered, or nobody to answer */
};

struct exchange {
    struct server *server;
    struct client *client;
    const struct http_request *request;
    struct plan *plan; /* one reference: what it began with */
    const struct rule *rule;
    struct rule_found found;
    struct arena *arena;        /* the request's: this struct lies in it, too */
    struct buf body;            /* the request's, as sent */
    uint64_t held;              /* of shared->buffered */
    struct arena payload_arena; /* of the understood body; empty but between open and close */
    struct payload payload;
    struct slice client_key; /* the Idempotency-Key line as sent; `.at` NULL: none */
    struct buf tenant;       /* as shown */
    struct buf key;          /* key text */
    bool keyless;            /* the client sent no key: its once value is its name */
    struct buf once;         /* the once value; empty: the rule has none */
    bool once_lacking;       /* what is refused is the once value, not the key */
    struct slice holder_key; /* of the record that it goes on in, if that is another one's */
    bool holder_lost;        /* there was no memory for that: nothing may be sent */
    struct buf shown_key;    /* key text with its window */
    struct buf sent_key;     /* as the upstream sees it */
    char payload_hex[DIGEST_HEX_SIZE + 1];
    struct fingerprint fingerprint;
    struct fingerprint found_fingerprint; /* with a mismatch: of the first request */
    struct attempt attempt;
    struct client_parker parker;
    struct flight flight;
    int64_t started;  /* boot time */
    int64_t patience; /* boot time: until then the client waits; CLOCK_NEVER: its own affair */
    int64_t deadline; /* boot time: the exchange with the upstream ends */
    int64_t asked_us; /* what `authorize` took of the rule's timeout */
    struct answer answer;
    bool has_body;    /* it was read whole */
    bool owned;       /* a request or a probe went upstream, or was about to */
    bool rehashed;    /* by the recipe of a record that was found */
    bool unprotected; /* the store cannot decide, and the rule says pass */
    bool kept;        /* the outcome that was stored holds the answer */
    bool authorizing; /* it is asked whether the caller may act as this tenant */
    bool probing;     /* what is under way upstream is a probe */
    bool has_failure; /* a probe follows a failure: what to answer if it settles nothing */
    struct fate failure;
    struct answer failed;   /* with has_failure: the upstream's answer in doubt, if it gave one */
    bool goes_on;           /* the client was told before the exchange ended: it is recorded yet */
    bool at_store;          /* its record is being decided on: what it was is not told */
    bool withdrawn;         /* the client was told that nothing was done: a claim is given back */
    bool answered;          /* the client has its answer, or is gone */
    bool keep_alive;        /* the client connection may go on afterwards */
    int status;             /* what was answered; for the log */
    enum error error;       /* with it */
    int cause;              /* of the last try: record_note_cause */
    enum result result;     /* and what the request came to */
    const char *from_state; /* of the record when it was found; NULL: not looked at */
    struct http_call call;  /* to the upstream; last: not all of it is zeroed */
};

/* An empty buffer whose first `size` bytes lie in the request's arena. */
struct buf exchange_buf(struct exchange *x, size_t size, size_t max);

/* Runs a request that `found` says a rule covers. True: the connection may be used again. */
bool exchange_run(struct client *client, const struct http_request *request,
                  const struct rule_found *found);

/* ---- steps; each answers by itself when it fails ---- */

/* Tenant, key, body (unless it was read before), hashes: fills exchange->attempt. False: answered
 * (or the client is gone); `*ret_bypass` when the request has no key and the rule does not ask for
 * one.
 */
bool identify(struct exchange *x, bool *ret_bypass);

/* Understands the request's body (found.facts.payload; `as_json`: whatever its type), and lets go
 * of that again: understood JSON takes up to 32 times its text, so it is held for as long as it is
 * looked at, and no wait. */
enum payload_error payload_open(struct exchange *x, bool as_json);
void payload_close(struct exchange *x);

/* Appends in what this request differs from the first one under its key, for the answer to a
 * mismatch of the target, or of the body. */
void identify_difference(struct exchange *x, bool target, struct buf *buf);

/* Hashes again by the recipe of the record. False: answered. */
bool identify_again(struct exchange *x, struct slice recipe);

/* Sends the request upstream under the attempt's token, reads the answer, stores what became of it
 * and tells it. */
enum step forward_run(struct exchange *x);

/* Releases a claim of which nobody has sent anything. */
enum step forward_give_back(struct exchange *x);

/* Sends the request without any record and passes the answer on: `store_down: pass`. */
enum step forward_unprotected(struct exchange *x);

/* Asks the upstream what became of the operation. */
enum step probe_run(struct exchange *x);

/* Asks the upstream whether this caller may act as its tenant, where the rule says so. False:
 * answered. */
bool authorize(struct exchange *x);

/* Stores the fate of an exchange with the upstream, and tells what is then true. */
enum step settle(struct exchange *x, struct fate fate);

/* The key as it is shown, and as probes ask by it: the key text; with {window:} the window's begin
 * behind it, so that two windows are two keys to the upstream, too. */
struct slice operation_key(struct exchange *x);

/* The Idempotency-Key line for the upstream: operation_key in the rule's one spelling. Of a record
 * from before there was one (its recipe says so) it is as the client wrote it: so the upstream
 * knows an operation that is in doubt. */
struct slice upstream_key(struct exchange *x);

/* The key of the record that the exchange owns, with its window: this client's or, where it goes on
 * in another one's record, that one's, which no client is told. */
struct slice holder_key(struct exchange *x);

/* The caller's request without what speaks of its body, asks for an answer in part or overrides the
 * method: the head of a GET of pawl's own. In x->arena; NULL: no memory. */
const struct http_request *upstream_get_request(struct exchange *x);

/* Sends a head and a body (may be empty) upstream, and reads the answer to `method`: its head and,
 * unless it is too large or a stream, its body into x->answer. x->call holds the connection, and
 * the head of what it answered with it, until it is closed. */
enum exchange_end upstream_exchange(struct exchange *x, struct slice method, struct slice head,
                                    struct slice body);
/* What a call's last result means for the operation. `stale`: the answer refuses the token. */
enum exchange_end upstream_end_of(const struct http_call *call, enum http_call_result result,
                                  bool stale);

/* ---- memory of bodies ---- */

/* Counts the bodies that are held now, and `more` bytes that are about to come. True: all bodies
 * together are within max_buffered. */
bool bodies_count(struct exchange *x, uint64_t more);
/* Whether they would be, counting nothing. */
bool bodies_would_fit(const struct exchange *x, uint64_t more);
void bodies_release(struct exchange *x);

/* Counts an outcome while it is on its way, once however many hold it. False: with it they are not
 * within max_buffered (it is held all the same). Drop also gives the reference back. */
bool bodies_hold(struct exchange *x, struct outcome *outcome);
void bodies_drop(struct exchange *x, struct outcome *outcome);

/* The outcome that a begin found: holds it, or gives it back and says so; gives it back. */
enum engine_verdict bodies_hold_found(struct exchange *x, enum engine_verdict verdict);
void bodies_drop_found(struct exchange *x);

/* Packs the body of an outcome for the store (outcome_pack), and counts that until the bodies are
 * counted next. */
void bodies_pack(struct exchange *x, struct outcome *outcome);
/* Unpacks the one that a begin found. False: it cannot be told, for want of memory; or it is
 * damaged, and the store has stopped. */
bool bodies_unpack_found(struct exchange *x);

/* Reads the request's body into x->body, counting as it grows: a client that sends slowly, or
 * announces more than it sends, holds no more than came. `*ret_fits` false: there was no room for
 * all of it. */
enum http_read bodies_read_request(struct exchange *x, int64_t deadline_us, bool *ret_fits);

/* Reads the upstream's body into x->answer. Counted too, but never refused: the effect has
 * happened, and its answer is not to be lost. New requests are, meanwhile. */
enum http_call_result bodies_read_answer(struct exchange *x, int64_t deadline_us);

/* ---- answers ---- */

/* Writes an upstream's answer as the first one. One that is not whole is read on from x->call and
 * passed live. */
void answer_first(struct exchange *x, const struct answer *answer, enum result result);

/* Writes pawl's own error; `detail` (may be empty) is a sentence about this case. */
void answer_error(struct exchange *x, enum error error, struct slice detail);
void answer_result(struct exchange *x, enum error error, struct slice detail, enum result result);

/* The same where max_buffered leaves no room for a body. */
void answer_no_room(struct exchange *x);

/* Answers a verdict that ends the request. */
void answer_verdict(struct exchange *x, enum engine_verdict verdict);

/* ---- requests in flight ---- */

/* Takes a place, before anything is acquired. False: there is none, answered. */
bool flight_take(struct exchange *x);
/* An owner that gave its place back while it waited takes one, whatever the limit. */
void flight_take_beyond(struct exchange *x);
void flight_give_back(struct exchange *x);

#endif
