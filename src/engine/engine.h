/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine: the front door to the records: core + store + a cache of outcomes, behind calls that read
 * as blocking ones. What blocks is the parker's affair (base/park.h): threads, fibers and the
 * simulation call the same functions.
 *
 * An attempt is one arrival of an operation. Its life:
 *
 *      filled in -> engine_begin -> proceed | probe -> (engine_may_send, forward)
 *                    ^   '-> replay, mismatch, ...                |
 *                    |  stale: decide again                       v
 *                    '------------------------ engine_write, engine_wait: stored
 *
 * With STORE_ASK the write is a new acquisition, for a probe (ENGINE_ASKS).
 *
 * engine_begin may be called again at any time after the attempt's last write ended: it is then a
 * new attempt id, as the protocol wants it.
 */
#ifndef PAWL_ENGINE_ENGINE_H
#define PAWL_ENGINE_ENGINE_H

#include "core/retry/disposition.h"
#include "store/store.h"

struct engine;
struct attempt;

/* On an open store, which must outlive it. `cache_bytes` of recent outcomes; 0: none. NULL: no
 * memory. */
struct engine *engine_new(struct store *store, uint64_t cache_bytes);
/* Accepts NULL. */
void engine_free(struct engine *engine);

/* Another size of the cache from now on, from any thread. */
void engine_set_cache(struct engine *engine, uint64_t cache_bytes);

/* Which record: the keyed hash of (tenant, key space, key). Where rules share no keys, the space is
 * the rule's name. */
struct digest engine_key_hash(const struct engine *engine, struct slice tenant, struct slice space,
                              struct slice key);

/* Fills in the names of `once`: its value is `text`, in the rule and, but for what `former_values`
 * say, under its former names. */
void engine_name_once(const struct engine *engine, const struct attempt *attempt, struct slice text,
                      const struct slice *former, struct store_once *once);

/* Which record, where the client sent no key: the once value is its name. */
struct digest engine_value_hash(const struct engine *engine, struct slice tenant, struct slice rule,
                                struct slice text);

/* One arrival. The caller's memory; texts and hashes are borrowed until it is done. */
struct attempt {
    struct digest key_hash;
    struct digest former[STORE_FORMER_MAX]; /* the same key under former names of the rule */
    size_t n_former;
    struct store_once once; /* with has_once: the rule's second identity */
    bool has_once;
    struct slice tenant; /* as shown: a credential only as its keyed hash */
    struct slice rule;
    struct slice key;                      /* key text */
    struct slice recipe;                   /* of the payload hash */
    const struct fingerprint *fingerprint; /* of the request; NULL: none */
    struct fingerprint
        *found_fingerprint;      /* gets the first request's, with a mismatch; NULL: none */
    struct slice origin;         /* which request this is (core/web/origin.h); may be empty */
    bool has_epoch;              /* its names are of a config's rule (engine/identities.h), */
    int64_t epoch;               /* as compared with the store in this epoch */
    struct record_begin begin;   /* hashes and policies; attempt_id is engine_begin's to fill */
    struct store_room room;      /* what an outcome to replay must fit into */
    int64_t wait_us;             /* how long to wait for a running first attempt; 0: not at all */
    struct table_change *brings; /* rows that the next begin or write saves with what it does, or
                                    neither; borrowed until it has ended (store/table.h) */
    size_t n_brings;

    int64_t token;              /* after proceed and probe */
    int64_t asked_at;           /* store time then: no probe looks earlier */
    struct store_result result; /* of the last begin or act; all zero while one is under way.
                                   What it found is the attempt's: attempt_fini */

    /* the engine's own */
    int64_t send_by;           /* boot time: the last moment at which a request may leave */
    bool uncached;             /* after a begin: its key alone does not say what it gets */
    struct digest record_hash; /* after a begin: names the record it was decided on */
    struct store_op op;        /* the last operation */
};

/* X(verdict, class). What core/record.h decides, under the same name: */
#define ENGINE_DECIDED(X)                                                                          \
    X(PROCEED, PROCEED) /* forward it under attempt->token and, where there is one, found_key */   \
    X(PROBE, PROBE)     /* ask the upstream under the same */                                      \
    X(INQUIRE, PROBE)   /* the same, before anything is sent: then STORE_TURN, or its outcome */   \
    X(REPLAY, DONE)     /* replay result.found */                                                  \
    X(MISMATCH, MISMATCH)                                                                          \
    X(IN_PROGRESS, WAIT)                                                                           \
    X(OUTCOME_UNKNOWN, HELD)                                                                       \
    X(RESULT_EXPIRED, DONE)                                                                        \
    X(RESULT_NOT_KEPT, DONE)                                                                       \
    X(OTHER_RECIPE, MISMATCH) /* hash again by result.found_recipe, begin again */                 \
    X(DUPLICATE, DONE)        /* another record holds the once value, and is complete */           \
    X(KEY_EXPIRED, REFUSED)   /* nothing acquired: begin.key_max_age_us */                         \
    X(KEY_AHEAD, REFUSED)                                                                          \
    X(UNPROVED, REFUSED) /* it may have been done: its record may be missing, and nobody knows */

/* Where it is not asked, or what it says cannot be followed: */
#define ENGINE_UNDECIDED(X)                                                                        \
    X(LIMITED, DOWN)    /* too many wait, or are queued */                                         \
    X(NO_ROOM, DOWN)    /* there is an outcome, which does not fit into attempt->room now */       \
    X(TOO_LARGE, DOWN)  /* nor ever */                                                             \
    X(MOVED, REFUSED)   /* identities have changed since attempt->epoch: nothing acquired */       \
    X(STORE_DOWN, DOWN) /* not decided, nothing acquired */                                        \
    X(GONE, DOWN)       /* the parker was interrupted, or the deadline passed: nothing acquired */

enum engine_verdict {
#define X(name, class) ENGINE_##name,
    ENGINE_DECIDED(X) ENGINE_UNDECIDED(X)
#undef X
};

enum verdict_class {
    VERDICT_PROCEED,
    VERDICT_PROBE,
    VERDICT_DONE,     /* result.record says when, and how */
    VERDICT_MISMATCH, /* the key is another operation's */
    VERDICT_WAIT,     /* another attempt runs it */
    VERDICT_HELD,     /* in doubt */
    VERDICT_REFUSED,  /* for what the begin brings beside its key: none of a begin without it */
    VERDICT_DOWN,     /* come again */
};

enum verdict_class engine_class_of(enum engine_verdict verdict);

/* Frees what its last result found, as the next begin or act does. What that says of the record
 * stays. */
void attempt_fini(struct attempt *attempt);

/* Replaces the outcome that was found by another one, to which it takes the reference. False: with
 * it more is held in attempt->room than there is room for. */
bool attempt_replace_found(struct attempt *attempt, struct outcome *outcome);

/* Takes over what the last result found: the attempt keeps nothing of it. */
struct outcome *attempt_take_found(struct attempt *attempt);
char *attempt_take_key(struct attempt *attempt);

/* Whether an undecided begin has waited for a record, or may have met one. */
bool attempt_may_have_met(const struct attempt *attempt);

/* Whether the cache could decide a begin that came now. */
bool engine_look_for_copy(struct engine *engine, const struct attempt *attempt);

/* Decides. Returns when decided, at `deadline_us` (boot time), or when the parker is interrupted;
 * what was being applied then is waited for, so that nothing is acquired unseen. Of a replay from
 * the cache attempt->result.record has only its status, its times and that it is kept. */
enum engine_verdict engine_begin(struct engine *engine, struct attempt *attempt,
                                 struct parker *parker, int64_t deadline_us);

/* Whether a begin waits for another attempt at this moment. Its parker was woken then. */
bool engine_waits(const struct attempt *attempt);

/* The send check (invariant 13): whether the first byte of a try may leave now. */
bool engine_may_send(const struct attempt *attempt);

/* What an owner writes. */
struct engine_act {
    enum store_op_kind kind;  /* from STORE_FINISH to STORE_ASK; COMPLETE is a participant's */
    enum record_status final; /* finish */
    int http_status;          /* finish */
    int cause;                /* doubt: record_note_cause */
    struct slice event_data;  /* finish: struct store_op; borrowed until it ended */
    struct outcome *outcome;  /* finish: what is kept, packed (outcome_pack) and borrowed until it
                                 ended; NULL: nothing is */
};

/* The act that writes a disposition; its status, its outcome and its cause are the caller's. Where
 * the record has not moved on, what refused the token is wrong: WRITE_NOTHING is a doubt. */
struct engine_act engine_act_of(enum disposition_write write, bool is_probe);

/* Submits the act under attempt->token. It is never refused and never given up while the process
 * lives: an outcome that cannot be stored is tried again by the store until it is. */
void engine_write(struct engine *engine, struct attempt *attempt, const struct engine_act *act,
                  struct parker *parker);

/* Parks until the act ended or the deadline passed. True: it ended. May be called again. */
bool engine_wait(struct attempt *attempt, struct parker *parker, int64_t deadline_us);

enum engine_written {
    ENGINE_STORED, /* durable, or it was already so: it may be sent */
    ENGINE_ASKS,   /* STORE_ASK: the doubt is stored; probe under attempt->token, a new one */
    ENGINE_STALE,  /* the record says something else: decide again (invariant 12) */
    ENGINE_EARLY,  /* "it did not happen" is not believed before the record's quiet_at */
    ENGINE_LOST,   /* the store stopped: report nothing */
};

/* What became of an act that ended. */
enum engine_written engine_written(struct engine *engine, struct attempt *attempt);

/* All three: writes, waits for as long as it takes, and says what became of it. */
enum engine_written engine_store(struct engine *engine, struct attempt *attempt,
                                 const struct engine_act *act, struct parker *parker);

#endif
