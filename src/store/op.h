/* SPDX-License-Identifier: Apache-2.0 */
/*
 * op: an operation on a store, and its results. store.h draws its states; committer/submit.c
 * reports them.
 */
#ifndef PAWL_STORE_OP_H
#define PAWL_STORE_OP_H

#include "base/park.h"
#include "core/once.h"
#include "core/outcome.h"
#include "core/record.h"
#include "core/request/fingerprint.h"
#include "core/template/template.h"
#include "store/table.h"
#include "store/tables/terms.h"

struct backend_group;

enum store_op_kind {
    STORE_BEGIN,
    STORE_FINISH,          /* an outcome: `outcome` with `kept`, or only its status */
    STORE_COMPLETE,        /* the same by a participant, inside its own transaction */
    STORE_RELEASE,         /* the owner: surely not done */
    STORE_RELEASE_SETTLED, /* found out by looking: only once quiet */
    STORE_TURN,            /* the owner of an inquiry: it was not done, and is sent now */
    STORE_DROP,            /* the owner: surely not done, and to be done elsewhere */
    STORE_DOUBT,           /* the owner: nobody knows */
    STORE_ASK,             /* the same, and acquires it for a probe under `begin` */
    STORE_EXTEND,
    STORE_RESOLVE,  /* an operator's outcome */
    STORE_FORGET,   /* an operator deletes the record */
    STORE_END_HOLD, /* released, as its hold has ended by the rule that `begin` says */
    STORE_LOOK,     /* read one record, and its outcome */
    STORE_LIST,     /* read many: `list` is called for each, on the committer's thread */
    STORE_QUERY,    /* read rows of a table: `query` */
    STORE_ROWS,     /* write them: what it `brings`, alone; and `terms` */
};

enum store_status {
    STORE_DONE,      /* decided and durable: verdict or write says what */
    STORE_DOWN,      /* not applied: the store cannot be written in time, or is gone */
    STORE_FULL,      /* not applied: no space for what begin would write */
    STORE_FROZEN,    /* not applied: an operator froze the store; nothing begins, or is added */
    STORE_WENT_BACK, /* likewise: it lost what it had acknowledged, and nobody said yet what then */
    STORE_MOVED,     /* not applied: names are of another epoch by now */
    STORE_LIMITED,   /* not applied: too many queued or waiting */
    STORE_NO_MEMORY,
    STORE_NO_ROOM,   /* decided; its outcome would not fit into op.room now */
    STORE_TOO_LARGE, /* decided; its outcome would never fit */
    STORE_DEAD,      /* fail-stop: whether it was applied nobody knows */
    STORE_WITHDRAWN,
    STORE_CONFLICT, /* not applied: what it brings did not fit (table_change.is_stale), or the
                       terms are not what it expected */
};

/* One row as STORE_LIST shows it; slices are valid during the call. */
struct store_row {
    int64_t id;      /* its first token; one from before format 5: a smaller number */
    int64_t version; /* the backend's: another one, another row */
    int found_at;    /* the backend's: where it is in what its batch loaded */
    struct digest key_hash;
    struct slice tenant;
    struct slice rule;
    struct slice key;
    struct slice recipe;
    struct slice fingerprint; /* core/request/fingerprint.h; may be empty */
    struct slice
        origin; /* pending, unknown: of the last attempt (core/web/origin.h); may be empty */
    struct slice location;   /* result_ref of a final record */
    struct slice once;       /* its once value; empty: it has none */
    int64_t once_template;   /* by which it was made (struct store_once) */
    int64_t bound;           /* found by a bound key: that one's id, and its hashes; else 0 */
    int64_t bound_until;     /* of that key: then it is gone */
    bool bound_acknowledges; /* of that key: its duplicates are acknowledged, not replayed */
    struct record record;
};

/* A batch holds the store against all other processes, so a long list is asked for in slices:
 * op.row says up to which id it looked, 0: to the end. A batch may be tried again: what was shown
 * before `restart` counts no more. */
struct store_list {
    int64_t after;       /* row ids above this one */
    size_t most;         /* rows to look at, shown or not */
    bool newest;         /* the last so many instead, in any order; op.row says nothing */
    struct slice tenant; /* `.at` NULL: any */
    struct slice rule;
    struct slice key; /* the record's, or one bound to it */
    struct slice once;
    unsigned statuses; /* 1 << each enum record_status that is wanted; 0: any */
    bool lapsed_only;
    void (*restart)(void *argument); /* before the first row of each try; NULL: not called */
    /* Shown a row. False: look no further. */
    bool (*each)(void *argument, const struct store_row *row, enum record_lease lease);
    void *argument;
};

/* Memory that outcomes are loaded into: `held` counts what is in use, by all threads; NULL: not
 * counted. */
struct store_room {
    atomic_ullong *held;
    uint64_t most;
};

#define STORE_FORMER_MAX 4 /* former names of one rule */

/* The once value as a former name of its rule made it, where {route} is in the template. */
struct store_former_value {
    struct slice rule;
    struct slice text;
    struct template_clocks clocks;
};

/* The once value that a begin brings (core/once.h). A record from before its rule had `once` is
 * found by the value as a key text, if it has no value of its own. */
struct store_once {
    struct slice text;
    int64_t template_id; /* a retry is not compared with a value that another template made */
    struct template_clocks clocks; /* of the text: for the record's own key they do not count */
    struct digest hash;            /* store_once_hash */
    struct digest as_key;          /* of the text as a key */
    struct digest former[STORE_FORMER_MAX]; /* the same under former names of the rule */
    struct digest former_as_key[STORE_FORMER_MAX];
    const struct store_former_value *former_values; /* n_former; NULL: all are `text` */
    size_t n_former;
    bool reject;      /* what becomes of a duplicate: 409; else a replay, or that */
    bool acknowledge; /* it was done, and no more */
    bool any_payload; /* every request with the value has the same hashes */
    bool keyless;     /* the client sent no key: the value is the record's name */
};

/* Names the holder of a once value: the key is the store's. */
struct digest store_once_hash(const struct digest_key *key, struct slice tenant, struct slice rule,
                              struct slice text);

/* What a begin brings. It may bring the hashes of former names. When the record it names is gone,
 * the first of them under which a record lives is the operation's: it is decided on that one, waits
 * for that one, and `key_hash` says so once it has ended. A begin under an old name knows nothing
 * of the new one. */
struct store_arrival {
    const struct digest *former; /* at most STORE_FORMER_MAX, borrowed until ended */
    size_t n_former;
    const struct store_once *once; /* borrowed until ended; NULL: none */
    struct slice tenant;           /* as shown */
    struct slice rule;
    struct slice key;
    struct slice recipe;                   /* of the hashes */
    const struct fingerprint *fingerprint; /* kept with a new record; NULL: none */
    struct fingerprint *found_fingerprint; /* NULL: not asked for: gets the record's, with a
                                              mismatch under its own key */
    struct slice origin;                   /* core/web/origin.h */
    bool has_epoch; /* it was named by what identities were made of in `epoch` */
    int64_t epoch;
    int64_t wait_until; /* how long to wait on a live lease, boot time; 0: not at all */
};

/* What is written on a record. */
struct store_writing {
    int64_t token;            /* forget 0: any */
    struct outcome *outcome;  /* finish, complete, resolve: borrowed until ended, and packed before
                                 (outcome_pack); NULL: only http_status */
    enum record_status final; /* finish, complete */
    int http_status;          /* finish, complete, resolve */
    struct slice event_data;  /* finish, complete, resolve: what an event that the record asks for
                                 says (core/emit.h); empty: null */
    /* finish: what the acquisition came to that it ends, which nothing of this process changed
     * since: with a version its row need not be loaded. Borrowed until ended; NULL: not known. */
    const struct store_result *claim;
    bool keeps;          /* finish, complete: fields and body are to be kept */
    bool force;          /* release_settled, resolve, forget */
    int cause;           /* doubt: why; record_note_cause */
    int64_t looked_at;   /* release_settled, turn: store time before the look; 0: now */
    struct slice actor;  /* resolve, release_settled, forget, and the finish of an operator's
                            probe: who does it, for the audit; empty: an owner, who is not
                            audited */
    struct slice reason; /* with an actor: why, as they say it; may be empty */
};

/* What rows are beside those that it brings. */
struct store_bringing {
    bool begins; /* they claim or add something, as a begin does: only under the terms that they
                    were decided under */
    const struct terms_change *terms; /* sets them, too; borrowed until ended; NULL: not */
};

/* What it came to, valid once it has ended. */
struct store_result {
    enum store_status status;
    enum record_verdict verdict; /* begin */
    enum record_write write;     /* all others that write */
    struct record record;        /* as it is afterwards; RECORD_ABSENT: none */
    enum record_lease lease;     /* of that record, now */
    int64_t lease_left_us;       /* of a live lease */
    int64_t store_now;           /* when it was decided */
    int64_t row;                 /* row id; 0: none; list: see struct store_list */
    int64_t version;             /* begin that acquired: of that row, as it was surely saved; 0: not
                                    known, or its end needs more of the row than `record` */
    int64_t next_due;            /* query of what is due: when one that was left out is */
    int64_t forgets;             /* store_forgets before its batch */
    int64_t decided_at;          /* boot time, not after the decision */
    struct outcome *found;       /* replay, look: a reference of the caller's; NULL: none. To
                                    send its body unpack it (outcome_unpack) */
    bool holds;                  /* `found` is held in room, by its caller (outcome_hold) */
    char *found_recipe;          /* RECORD_OTHER_RECIPE: the record's; mem_free */
    char *found_key;             /* acquired under another key text: the record's; mem_free */
    char *found_origin;          /* RECORD_IN_PROGRESS, with a lease that has lapsed
                                    (begin.asks_first): the record's; mem_free */
    bool by_bound;               /* found by a key that is bound to it */
    bool by_once;                /* decided by the once value, not by the record of its own key */
    bool acknowledges;           /* replay: that it was done, and no more */
    bool outlived_hold;          /* begin: acquired behind the end of a hold */
    bool unproved;               /* begin: it started a life where a record may be missing */
    bool kept;                   /* finish, complete: its outcome could be kept */
    bool alone;                  /* finish: no participant had completed what it stored */
    bool is_lost;                /* stale: the store lost what this owner had acquired */
    bool held;                   /* withdrawn: when last tried, another transaction held its row */
    /* Acquired in doubt: how its key was spelled to the service; else KEY_FORWARD_BY_SYNTAX. */
    enum key_forward spelling;
};

/* The committer's own: where an operation is, and what is known of earlier tries. */
struct store_links {
    struct digest named; /* key_hash as it was submitted */
    atomic_int state;
    atomic_size_t committer; /* whose queue or batch it is in: of the store's, by its place */
    struct store_op *next;
    struct store_op *prev;
    int64_t wake_at;      /* waiting, locked: when it is decided again */
    int64_t locked_until; /* begin: a lock that it met counts as in progress from then on; 0: it met
                             none */
    size_t heap_index;
    struct store_op *key_next;   /* in the list of waiters of one key */
    struct store_op *key_prev;   /* of the first one: the last */
    struct store_op *other_key;  /* of the first one: that of the next key of its bucket */
    size_t same_key;             /* of the first one: how many its key has */
    struct backend_group *group; /* what it changed, in its batch */
    int64_t act; /* the row of the audit that says that it was done; 0: it was not tried yet */
    bool ended;  /* it changed its record: whoever waits for that decides again */
    bool unsure; /* under the mutex: it may have been committed: it is not taken back */
    bool loads;  /* it was decided without a load, and what was assumed is not so */
    bool waits;
};

struct store_op {
    enum store_op_kind kind;
    struct digest key_hash; /* engine_key_hash: names the record; ended begin: of the one it met */
    int64_t row_hint;       /* row id from an earlier op on this record; 0: not known */
    struct record_begin begin;   /* with begin, ask and end_hold; of an act its attempt id */
    struct store_room room;      /* what its outcome must fit into; it is asked before a load */
    struct table_change *brings; /* rows, begins, and writes on records: kept if the record was
                                    acquired, or written; borrowed until ended */
    size_t n_brings;             /* at most TABLE_BRINGS_MAX */
    struct parker *parker;       /* woken when it has ended */
    union {
        struct store_arrival arrival; /* begin */
        struct store_writing writing; /* from finish to end_hold */
        bool record_alone;            /* look: its outcome is not read */
        const struct store_list *list;
        const struct table_query *query;
        struct store_bringing rows;
    };
    struct store_result result;
    struct store_links own;
};

/* Whether it has ended (acquire: results may be read). */
bool store_op_ended(const struct store_op *op);

/* Frees what was found, which is held in no other room. What it says of the record stays. */
void store_result_fini(struct store_result *result, const struct store_room *room);

/* Which of STORE_FROZEN and STORE_WENT_BACK refused it; STORE_DONE: none. */
enum store_status store_closed_by(const struct store_result *result);

/* Whether it is a begin that waits for another attempt at this moment. Its owner was woken then. */
bool store_op_waits(const struct store_op *op);

#endif
