/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keys: records as operators inspect and settle them, for `pawl keys` and the admin listener
 * alike: lists, JSON, and what came of an act. core/record.h decides whether an act may be done.
 */
#ifndef PAWL_OPERATOR_KEYS_H
#define PAWL_OPERATOR_KEYS_H

#include "base/arena.h"
#include "base/log.h"
#include "core/errors.h"
#include "core/web/origin.h"
#include "engine/engine.h"

#define KEYS_TOKEN_MOST ((INT64_C(1) << 53) - 1)
#define KEYS_TIMEOUT_US (10 * CLOCK_US_PER_S) /* for one operation of the store */

/* ---- lists: keys_list.c ---- */

/* What operators and store_counts call the status of a record. */
enum keys_status {
    KEYS_ANY,
    KEYS_PENDING,  /* an owner runs it, or did until its lease lapsed */
    KEYS_RELEASED, /* pending, and nobody runs it */
    KEYS_COMPLETE,
    KEYS_FAILED,
    KEYS_UNKNOWN,
};

/* The words for them, from KEYS_PENDING on, divided by '|'. */
#define KEYS_STATUS_NAMES "pending|released|complete|failed|unknown"

/* Which records. Slices: `.at` NULL: any. */
struct keys_wanted {
    struct slice tenant; /* or, where no record has it, the hash that log lines have for it */
    struct slice rule;
    struct slice key;  /* the record's, or one bound to it */
    struct slice once; /* as stored; or with its %XX decoded, where none has it, or it has a '%' */
    bool by_name; /* tenant, rule and key are the whole name: nothing is looked for where the store
                     finds no record by that */
    enum keys_status status;
    bool lapsed;            /* only those */
    int64_t doubted_before; /* only those in doubt without a live lease, last acquired before this,
                               whatever `status` says; 0: any */
    int64_t after;          /* row ids above this one */
    size_t limit;
    size_t scans; /* the store is queried at most so often, each time for a few milliseconds; 0:
                     until its end */
};

/* One record, its texts copied. */
struct keys_row {
    struct keys_row *next;
    struct store_row store;
    enum record_lease lease;
};

/* Records as listed, oldest first. */
struct keys_found {
    struct arena arena; /* failed: too many records to list */
    struct keys_row *first;
    struct keys_row *last;
    size_t n;
    int64_t next;            /* row id after which to go on; 0: the end was reached */
    struct keys_row *before; /* the last one of earlier slices; NULL: none */
    size_t n_before;
    const struct keys_wanted *wanted; /* while listing */
    /* Of the store, to hash tenants with; NULL: it picks tenant and once value itself. */
    const struct digest_key *digest_key;
};
#define KEYS_FOUND_AUTO __attribute__((cleanup(keys_found_fini)))

/* Frees the copies. Accepts a struct that is all zero. */
void keys_found_fini(struct keys_found *found);

/* Drops all but the first `n` rows; nothing is added any more. */
void keys_found_cut(struct keys_found *found, size_t n);

/* Lists; `*ret_found` is to be given back whatever the result. STORE_NO_MEMORY: too much at once.
 */
enum store_status keys_list(struct store *store, const struct keys_wanted *wanted,
                            struct parker *parker, struct keys_found *ret_found);

/* One scan of the store, as `list` says; `*ret_seen`: up to which row id, 0: to the end. */
enum store_status keys_scan(struct store *store, const struct store_list *list,
                            struct parker *parker, int64_t *ret_seen);

/* What to say of an operation that was not applied; NULL: it was. */
const char *keys_status_text(enum store_status status);

/* With which exit code a command says so. */
enum exit_code keys_status_code(enum store_status status);

/* ---- one record: keys_json.c ---- */

/* A record at `now`, and the stored response (NULL: none). */
struct keys_view {
    const struct store_row *row;
    const struct record *record;
    enum record_lease lease;
    int64_t now;
    struct outcome *outcome;
    const struct digest_key *digest_key; /* of the store */
};

/* Loads the record of a row anew into the row. ret_view->outcome is the
 * caller's, and its body may be packed. */
enum store_status keys_look(struct store *store, struct keys_row *row, struct parker *parker,
                            struct keys_view *ret_view);

/* What log lines have in place of the tenant; empty without one. */
struct slice keys_tenant_hash(const struct keys_view *view, char ret_hex[LOG_KEYED_SIZE]);

/* Which request claimed it last. False: its outcome is known, or that was never stored. */
bool keys_origin(const struct keys_view *view, struct origin *ret_origin);

/* When a record in doubt is probed next (core/retry/probe_due.h), if its rule probes in the
 * background; 0: it is not in doubt, or under another policy, or somebody holds it. */
int64_t keys_probe_due(const struct keys_view *view);

/* A pending record's "live", "lapsed" or "released"; of others NULL. */
const char *keys_lease_name(const struct keys_view *view);

/* Appends one JSON object; `whole` adds what is shown of a single record only. */
void keys_add_json(struct buf *buf, const struct keys_view *view, bool whole);

/* ---- acts: keys_act.c ---- */

enum keys_act_kind {
    KEYS_RESOLVE,
    KEYS_RELEASE, /* as not done: only once quiet */
    KEYS_FORGET,
    KEYS_FINISH, /* a resolve by what a probe found, which holds the record */
    KEYS_DOUBT,  /* that probe was inconclusive: its lease ends; no act of an operator */
};

/* What became of an act that was applied. */
enum keys_end {
    KEYS_DONE,
    KEYS_SAME,  /* it was so already */
    KEYS_LATE,  /* it ended otherwise before */
    KEYS_STALE, /* the token is not the record's, or the record expired or was deleted */
    KEYS_EARLY, /* "it did not happen" cannot be known yet */
    KEYS_LIVE,  /* the record is in use */
    KEYS_OPEN,  /* a probe was inconclusive: still unknown */
    KEYS_OTHER, /* an outcome of a command for a request, or the other way round */
};

/* For programs: "done", "same", ... */
const char *keys_end_name(enum keys_end end);

/* An act on one record, and what came of it. */
struct keys_act {
    const struct keys_row *row; /* the record as it was listed */
    enum keys_act_kind kind;
    int64_t token; /* the record's; forget: 0: any */
    bool force;
    int http_status;             /* resolve, finish; */
    bool is_exit;                /*   or, in place of it, resolve: `outcome` is a command's */
    int exit_code;               /*     and ended with this */
    struct outcome *outcome;     /* the same, packed (outcome_pack); NULL: only http_status */
    int64_t looked_at;           /* release: store time when the probe was sent; 0: now */
    struct slice actor;          /* for the audit */
    struct slice reason;         /* the same; may be empty */
    const char *insist;          /* how to, for the sentence: "use --force" */
    struct table_change *brings; /* kept if the record is written */
    size_t n_brings;

    enum keys_end end;
    struct buf what;      /* a sentence for the operator */
    bool changed;         /* the record, by this */
    struct record record; /* afterwards */
    enum record_lease lease;
    int64_t lease_left_us;
    int64_t now; /* store time */
};
#define KEYS_ACT_AUTO __attribute__((cleanup(keys_act_fini)))

/* Does it, within KEYS_TIMEOUT_US. STORE_DONE: `end` and `what` say what came of it. Once it says
 * that a record is forgotten, no gateway replays it from its cache any more. */
enum store_status keys_act(struct store *store, struct keys_act *act, struct parker *parker);

/* Gives `what` back. Accepts what is all zero. */
void keys_act_fini(struct keys_act *act);

/* "resolve", "release", "forget". */
const char *keys_act_name(const struct keys_act *act);

/* Appends one JSON object: the record as keys_add_json shows it, as it is afterwards (forgotten: as
 * it was), and what came of the act. */
void keys_add_act_json(struct buf *buf, const struct keys_act *act, const struct digest_key *key);

/* ---- acts on many records: keys_many.c ---- */

#define KEYS_MANY_MOST 1000 /* acts of one call */

/* All records of a rule that are in doubt, without a live lease, and last acquired before a
 * moment. Each is acted on by the token that the list shows, as if it were named alone. */
struct keys_many {
    struct slice rule;
    struct slice tenant; /* as in keys_wanted; `.at` NULL: any */
    int64_t before;
    int64_t after;       /* `next` of the call before; 0: from the start */
    size_t limit;        /* acts, at most KEYS_MANY_MOST */
    size_t scans;        /* as in keys_wanted */
    struct keys_act act; /* all but row and token */
    /* Told of each. False: stop behind this one. */
    bool (*each)(void *argument, const struct keys_act *act);
    void *argument;
};

struct keys_tally {
    size_t settled;
    size_t too_early;
    size_t changed;  /* acquired or settled in the meantime */
    size_t in_use;   /* somebody holds it, or what it began still runs */
    size_t other;    /* a request, where commands are settled, or the other way round */
    int64_t seconds; /* until the last of those that are too early can be settled */
    int64_t next;    /* row id after which to go on; 0: the end was reached */
};

/* Acts on them, and counts. Whatever the status, what `*ret_tally` counts was done. */
enum store_status keys_act_on_many(struct store *store, const struct keys_many *many,
                                   struct parker *parker, struct keys_tally *ret_tally);

/* Looks whether some record is of the rule, in at most so many scans (0: until the store's end).
 * None is: `problem` gets a sentence, which names the rule that was probably meant. */
enum store_status keys_know_rule(struct store *store, struct slice rule, size_t scans,
                                 struct parker *parker, struct buf *problem);

/* An outcome that an operator writes. */
struct keys_response {
    int status; /* 200 to 599 */
    struct headers headers;
    struct slice body;
};

/* Makes it: a JSON body needs no Content-Type to be replayed as what it is. False: `problem` has
 * one sentence. */
bool keys_make_outcome(const struct keys_response *response, struct buf *problem,
                       struct outcome **ret_outcome);

#endif
