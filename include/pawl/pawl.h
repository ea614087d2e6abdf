/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pawl/pawl.h: an operation's effect and the record of its response in one transaction of yours, on
 * SQLite or PostgreSQL. A retry gets the stored response, and the effect happens once: both commit
 * together, or neither does. Link with -lpawl (pkg-config: pawl).
 *
 *      BEGIN IMMEDIATE                                 on PostgreSQL: BEGIN
 *      pawl_begin(pawl, &operation, &begun)
 *          PAWL_PROCEED: the effect, by statements of yours on the same connection, then
 *                        pawl_complete(pawl, begun.token, &outcome, NULL), or pawl_release
 *          PAWL_REPLAY:  begun.http_code and begun.body are the first response
 *          any other:    nothing is to be done; see enum pawl_decision
 *      COMMIT
 *
 *      struct pawl *pawl = pawl_on_sqlite(db);         once for each connection
 *      struct pawl_operation refund = {.tenant = merchant, .rule = "refunds.create", .key = key};
 *      struct pawl_begun begun;
 *      exec(db, "BEGIN IMMEDIATE");
 *      enum pawl_error error = pawl_begin(pawl, &refund, &begun);
 *      if (!error && begun.decision == PAWL_PROCEED) {
 *          insert_refund(db);
 *          struct pawl_outcome done = {.http_code = 201, .body = "{\"id\":7}", .body_size = 8};
 *          error = pawl_complete(pawl, begun.token, &done, NULL);
 *      }
 *      if (error || exec(db, "COMMIT") != SQLITE_OK)   PAWL_AGAIN, SQLITE_BUSY: then
 *          exec(db, "ROLLBACK");                       from the start
 *
 * After an error roll back. A call works inside a transaction that you began; it neither begins nor
 * ends one. A handle belongs to its connection: one thread at a time. What a call returns in
 * pointers is the handle's, and valid until the next call on it.
 *
 * SQLite. The tables are made in your own file at the first call (pawl_install); its application_id
 * and user_version stay yours. Not in an attached file: a transaction over several is not atomic in
 * WAL mode. Transactions that write queue at BEGIN IMMEDIATE, for as long as your busy_timeout; one
 * that began by reading may get PAWL_AGAIN (SQLITE_BUSY_SNAPSHOT). With PRAGMA foreign_keys=ON a
 * COMMIT is refused while an operation is begun and neither completed nor released; without it such
 * an operation is `outcome unknown` from then on, and pawl_begin says so in `warning`. The calls
 * run statements on your connection: sqlite3_changes() is theirs afterwards, the last insert rowid
 * stays yours. Where PRAGMA synchronous is OFF or NORMAL, a crash of the machine takes back what
 * was committed, effect and record together.
 *
 * PostgreSQL. The schema is installed before (`pawl schema postgres | psql`), and its owner admits
 * your role. The calls are those of its functions pawl.begin, pawl.complete ...: a second
 * transaction with the key waits for the first, see `wait_ms`. SERIALIZABLE and REPEATABLE READ get
 * PAWL_AGAIN.
 *
 * Whoever brings no payload_hash gets the stored response to whatever request comes with the key.
 *
 * The same record, decisions and words as the gateway's: docs/contract.md, section 8. Its sources
 * are src/inside/pawl.c, src/inside/hash.c, src/inside/sqlite.c and src/inside/postgres.c.
 */
#ifndef PAWL_PAWL_H
#define PAWL_PAWL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum pawl_error {
    PAWL_OK = 0,
    PAWL_AGAIN,     /* another transaction was faster: roll back, then again from BEGIN */
    PAWL_STALE,     /* another attempt or transaction has the operation: roll back (PW001) */
    PAWL_MALFORMED, /* a key, tenant, rule or id that none can be (PW004) */
    PAWL_INVALID,   /* another argument (22023); or no transaction is open */
    PAWL_OTHER,     /* pawl_publish: the id was published with something else (23505) */
    PAWL_CLOSED,    /* a schema of another version, or a frozen store (PW003, PW005) */
    PAWL_FAILED,    /* the database said no: pawl_problem */
    PAWL_NO_MEMORY,
};

/* A connection, and what is known of it. */
struct pawl;

/* `db`: a sqlite3 *, of the library that this program is linked with. `connection`: a PGconn *,
 * blocking. Both stay yours. NULL: no memory; on PostgreSQL also: libpq cannot be loaded. */
struct pawl *pawl_on_sqlite(void *db);
struct pawl *pawl_on_postgres(void *connection);
/* Before the connection is closed. Accepts NULL. */
void pawl_free(struct pawl *pawl);

/* What the last call that failed met: one line, for people. */
const char *pawl_problem(const struct pawl *pawl);

/* Makes pawl's tables, in the open transaction, and does nothing where they are: the first call of
 * any other does the same. On PostgreSQL it does nothing. */
enum pawl_error pawl_install(struct pawl *pawl);

/* ---- an operation under a key ---- */

#define PAWL_FOREVER INT64_MAX /* in place of milliseconds */
#define PAWL_NO_WAIT (-1)      /* wait_ms: not at all */

enum pawl_duplicate { PAWL_DUPLICATE_REPLAY, PAWL_DUPLICATE_REJECT, PAWL_DUPLICATE_ACK };

/* All zero but for what is wanted; `rule` and `key` always are. */
struct pawl_operation {
    const char *tenant;       /* whose key it is; NULL: nobody's. At most 1024 bytes */
    const char *rule;         /* what is done, 1 to 100 of A-Z a-z 0-9 . _ - */
    const char *key;          /* 1 to 255 bytes of printable ASCII */
    const char *payload_hash; /* 64 hex digits, as `pawl hash` prints them; NULL: not compared */
    const char *target_hash;  /* likewise */
    int64_t ttl_ms;           /* how long the response is kept; 0: 24 hours */
    int64_t tombstone_ms;     /* and how long after that, that there was one */
    const char *once;         /* a second identity: what may be done once, whatever the key; NULL */
    int64_t once_ttl_ms;      /* for how long; 0: as ttl_ms */
    enum pawl_duplicate duplicate; /* what becomes of it then, or of a key without `once`: the
                                      response, PAWL_DUPLICATE, or 204 */
    int64_t wait_ms;               /* PostgreSQL: for another transaction with this key; 0: 10 s */
};

enum pawl_decision {
    PAWL_PROCEED = 1,     /* do it, then complete or release it */
    PAWL_REPLAY,          /* it was done: the stored response */
    PAWL_OTHER_REQUEST,   /* the key was used for another payload (mismatch): 409 or 422 */
    PAWL_IN_PROGRESS,     /* another attempt has it: 409, try later */
    PAWL_OUTCOME_UNKNOWN, /* begun, and nobody knows how it ended: a person, or `pawl keys` */
    PAWL_RESULT_EXPIRED,  /* it was done; the response is no longer kept: 410 */
    PAWL_RESULT_NOT_KEPT, /* it was done; its response was not kept: 410 */
    PAWL_REJECTED,        /* it was done, and `duplicate` says to refuse (duplicate): 409 */
    PAWL_BEGUN_HERE,      /* by this transaction, which has not completed it yet */
};

/* `proceed`, `replay`, `mismatch` ...: the words of the SQL functions, of logs and metrics. */
const char *pawl_decision_name(enum pawl_decision decision);

struct pawl_begun {
    enum pawl_decision decision;
    int64_t token;       /* PAWL_PROCEED: names the operation in complete and release */
    int http_code;       /* of the first response; 0: not known */
    const char *headers; /* its headers, a JSON object; NULL: none are kept */
    const void *body;    /* its bytes, with a NUL behind them; NULL: none is kept */
    size_t body_size;
    const char *result_ref; /* where its result is, such as its Location; NULL: none */
    int64_t first_at_us;    /* when the key was first begun, since 1970; 0: not known */
    int64_t lease_left_ms;  /* PAWL_IN_PROGRESS: of the other attempt's lease; 0: not known */
    const char *warning;    /* one line, or NULL */
};

enum pawl_error pawl_begin(struct pawl *pawl, const struct pawl_operation *operation,
                           struct pawl_begun *ret_begun);

struct pawl_outcome {
    int http_code;    /* 200 to 599; 4xx is kept as failed, and replayed like any other */
    const void *body; /* NULL: none */
    size_t body_size;
    const char *headers;    /* a JSON object of strings, numbers or arrays of them; NULL: none */
    const char *result_ref; /* NULL: the header Location, if there is one */
};

/* Stores the response. `*ret_already` (may be NULL): this token stored one before, which stays. */
enum pawl_error pawl_complete(struct pawl *pawl, int64_t token, const struct pawl_outcome *outcome,
                              bool *ret_already);

/* Surely not done: what the transaction did commits, and the next begin of the key proceeds.
 * `*ret_already` (may be NULL): it was released, or has ended. */
enum pawl_error pawl_release(struct pawl *pawl, int64_t token, bool *ret_already);

#define PAWL_HASH_SIZE 65

/* The payload_hash of a request's body, with a NUL behind it: two spellings of one JSON value have
 * the same; what is no JSON is hashed as it is. */
enum pawl_error pawl_payload_hash(const void *body, size_t size, char ret_hash[PAWL_HASH_SIZE]);

/* Before the begins of several keys: locks them in an order that all transactions share, so that
 * none of them waits in a circle. On SQLite, where one transaction writes at a time, nothing. */
enum pawl_error pawl_lock(struct pawl *pawl, const char *tenant, const char *rule,
                          const char *const *keys, size_t n);

/* ---- natural keys ---- */

struct pawl_claimed {
    bool claimed;         /* by this call; false: before */
    const char *existing; /* the row of the first claim, JSON; NULL: this is the first */
    int64_t at_us;        /* when that one came, since 1970 */
};

struct pawl_claim {
    const char *tenant; /* NULL: nobody's */
    const char *rule;
    const char *key;
    const char *row; /* JSON; NULL: null */
};

/* The first claim of a key keeps its row for ever; each later one gets that row. */
enum pawl_error pawl_claim(struct pawl *pawl, const struct pawl_claim *claim,
                           struct pawl_claimed *ret_claimed);

/* ---- state machines ---- */

/* Its states are rows of yours: INSERT INTO pawl_machine(name, from_state, action, to_state), on
 * PostgreSQL pawl.machine; from_state '': of what is not there yet. */
struct pawl_action {
    const char *tenant; /* NULL: none */
    const char *machine;
    const char *id; /* of what has a state */
    const char *action;
    const char *action_id; /* names this attempt: the same id gets the first result again */
    bool has_seq;          /* `seq` says how new the action is: an older one is stale */
    int64_t seq;
};

enum pawl_move {
    PAWL_MOVED = 1,
    PAWL_CONFLICT,     /* no such action leaves from_state: nothing changed */
    PAWL_OUTDATED,     /* it is not newer than the state (stale): nothing changed */
    PAWL_OTHER_ACTION, /* the id is another action's (mismatch) */
};

/* `moved`, `conflict`, `stale`, `mismatch`. */
const char *pawl_move_name(enum pawl_move move);

struct pawl_transition {
    enum pawl_move decision;
    bool replayed; /* the result of an earlier call with this action id */
    const char *from_state;
    const char *to_state; /* where nothing moved: from_state */
    int64_t at_us;        /* since 1970 */
};

enum pawl_error pawl_transition(struct pawl *pawl, const struct pawl_action *action,
                                struct pawl_transition *ret_transition);

/* ---- events ---- */

struct pawl_event {
    const char *type;   /* words joined by dots, such as refund.created */
    const char *id;     /* 1 to 255 of A-Z a-z 0-9 _ - */
    const char *data;   /* JSON; NULL: null */
    const char *tenant; /* NULL: none */
};

/* The outbox: an event is delivered by a `pawl serve` on this database once this transaction has
 * committed.
 * `*ret_already` (may be NULL): the same was published under the id before. */
enum pawl_error pawl_publish(struct pawl *pawl, const struct pawl_event *event, bool *ret_already);

struct pawl_incoming {
    const char *source;
    const char *event_id;     /* one of a source */
    const char *payload_hash; /* as of an operation; NULL: not compared */
    int64_t keep_ms;          /* how long its id is known; 0: 7 days */
};

struct pawl_received {
    enum pawl_decision decision; /* PAWL_PROCEED: handle it; PAWL_REPLAY: it was handled before;
                                    PAWL_OTHER_REQUEST: then it had another payload */
    int64_t received_at_us;      /* the first time, since 1970 */
    const char *result;          /* "ok" */
};

/* The inbox: an event that this transaction handles. */
enum pawl_error pawl_receive(struct pawl *pawl, const struct pawl_incoming *incoming,
                             struct pawl_received *ret_received);

#ifdef __cplusplus
}
#endif

#endif
