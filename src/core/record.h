/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record: what the store knows of one (tenant, rule, key), and the only code that decides on it.
 *
 *              acquire (new token)           complete / fail (token)
 *    (absent) ------------------> pending -------------------------> complete | failed --.
 *                                 |  ^  \                                  ^    expires  |
 *        doubt: response lost or  |  |   \ release: surely not done        |             v
 *        lapsed under `hold`      v  |    `-> pending without lease        |       (tombstone)
 *                                unknown ---- resolve, probe, late owner --'             |
 *                                   '--- the hold ends: pending without lease            |
 *                                                                                        v
 *                                                                                     (absent)
 *
 * A participant completes it inside its own transaction (`unknown: participant`). Its outcome is
 * provisional: as long as it was reported to nobody, the owner may fill in fields and body, once.
 *
 *    pending --participant--> provisional --- owner fills in ------------> complete | failed
 *                                   '--- replay (lapsed), release, doubt: as it is ---^
 *
 * Pure: time, tokens and the state of other processes come as arguments. Each function looks at one
 * record (status RECORD_ABSENT for none), may change it in place, and says what happened. Backends
 * load a record, call one function, and store what changed in one atomic step; no backend decides.
 * The protocol is model-checked (docs/model). All times are store time in microseconds.
 */
#ifndef PAWL_CORE_RECORD_H
#define PAWL_CORE_RECORD_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/crypto/digest.h"
#include "core/retry/cause.h"

enum record_status {
    RECORD_ABSENT,
    RECORD_PENDING,
    RECORD_COMPLETE,
    RECORD_FAILED,
    RECORD_UNKNOWN,
};

/* What becomes of an operation whose outcome nobody knows (contract section 5, `unknown:`). */
enum record_unknown {
    RECORD_UNKNOWN_HOLD,
    RECORD_UNKNOWN_RETRY,
    RECORD_UNKNOWN_PROBE,
    RECORD_UNKNOWN_PARTICIPANT, /* as retry: what is not complete did not happen, once its token was
                                   replaced */
};

/* Whether what is not known to have been sent is asked about before it is (`first:`, under
 * `probe`). */
enum record_first {
    RECORD_FIRST_OFF,
    RECORD_FIRST_RESTORED, /* while the store may lack records (record_world.restored_at) */
    RECORD_FIRST_ALWAYS,
};

#define RECORD_ATTEMPT_ID_SIZE 16

struct record {
    enum record_status status;
    struct digest payload_hash; /* one that an application in SQL did not bring is none, and is not
                                   compared; the same with the next */
    struct digest target_hash;
    int64_t token;                                    /* of the last acquisition */
    unsigned char attempt_id[RECORD_ATTEMPT_ID_SIZE]; /* which begin acquired it */
    int64_t attempts;                                 /* acquisitions in this life of the key */
    int64_t created_at;                               /* first begin of this life */
    int64_t started_at;                               /* last acquisition */
    int64_t lease_until; /* 0: no lease (released, unknown, final). Given with the row: its end by
                            what its owner's process has said of itself, too */
    int64_t lease_us;
    int64_t lapsed_at; /* given with the row: since when its lease has lapsed; 0: it lives */
    int64_t owner;     /* incarnation of the process that acquired it */
    bool odd; /* given with the row: no pawl wrote it. It is held (record_hold) until a person acts,
                 or its owner says what became of it */
    bool probing;   /* the current acquisition is a probe */
    int64_t asking; /* the token of an acquisition that asks whether it was done before, and sends
                       nothing: record_is_asking. 0, or any other token: none does */
    bool doubt;  /* an earlier attempt may have had its effect: until an outcome, a conclusive probe
                    or an operator clears it. A later "not done" says nothing of the earlier one.
                    The attempt of this token: once its owner has given up, or was overtaken. */
    int cause;   /* with doubt: enum record_cause, or the status of a response */
    bool window; /* expiry counts from created_at */
    bool kept;   /* final: the response is kept; false: only that there was one */
    bool provisional; /* final, by a participant: its lease goes on, and it does not expire */
    enum record_unknown unknown;
    int64_t hold_us; /* begun under `hold`: how long that lasts; 0: it has no end */
    int64_t settle_us;
    int64_t quiet_at;   /* from then on "it did not happen" can be believed; 0: no doubt yet */
    int64_t ttl_us;     /* CLOCK_NEVER: forever */
    int64_t least_us;   /* it lasts at least so long from now, whatever its ttl or window says:
                           for as long as a client may wait for it */
    int64_t doubted_us; /* released in doubt it lasts so long: the rule's ttl, with a window too */
    int64_t tombstone_us; /* 0: none */
    int64_t completed_at; /* final */
    int64_t expires_at;   /* final, released: the response is kept until then */
    int64_t gone_at;      /* final: its keys are absent from then on; expires_at + tombstone */
    int64_t once_ttl_us;  /* how long its once value blocks others (core/once.h); 0: it has none */
    int64_t once_until;   /* complete: until then it does */
    bool once_window;     /* that counts from created_at, and completion does not move it */
    bool once_replay;     /* until then the value may replay the response, too */
    int http_status;      /* final */
};

/* What a decision needs to know beside the record. */
struct record_world {
    int64_t now;            /* store time */
    int64_t self;           /* incarnation of the deciding process: what it owns never lapses */
    int64_t restored_at;    /* since when an operator says that records are missing; 0: none are */
    int64_t restored_until; /* and until when; 0: for as long as each rule keeps its own */
};

enum record_lease {
    RECORD_LEASE_NONE,
    RECORD_LEASE_LIVE,
    RECORD_LEASE_LAPSED,
};

/* Of a pending record. `ret_lapsed_at` (may be NULL) gets the moment, with LAPSED. */
enum record_lease record_lease(const struct record *record, const struct record_world *world,
                               int64_t *ret_lapsed_at);

/* Whether its last acquisition asked before its first send, and found out nothing: nothing was sent
 * by it, and what has lapsed so counts as released. */
static inline bool record_is_asking(const struct record *record)
{
    return record->status == RECORD_PENDING && !record->doubt && record->asking != 0 &&
           record->asking == record->token;
}

/* Whether the operation may have happened although no outcome is known: a try ended in doubt, or
 * its lease (of now) has lapsed, whether or not that made it unknown. */
bool record_in_doubt(const struct record *record, enum record_lease lease);

struct record_begin;
/* When the hold of what is in doubt ends (`unknown: {hold: 10m}`), in store time: from then on a
 * begin proceeds as on what was released, once more. Counted from quiet_at, by the longer one of
 * the record's hold and of today's rule. CLOCK_NEVER: it has no end, or is no hold's. */
int64_t record_held_until(const struct record *record, const struct record_begin *begin,
                          enum record_lease lease);

/* Pending, and nobody runs it. */
bool record_is_released(const struct record *record);
/* The process that owns its lease; 0: it has none. */
int64_t record_holder(const struct record *record);

/* Absent, or expired so that it counts as absent whether or not the sweeper came by: no name leads
 * to it any more. */
bool record_is_absent(const struct record *record, int64_t now);
/* The same for its keys alone: its once value may live longer. */
bool record_key_is_absent(const struct record *record, int64_t now);

/* Longer than a save may stay unsure, as far as anybody can say: an owner that stores its outcome
 * again finds that it was stored, however short the ttl. */
#define RECORD_ROW_LEAST_US 60000000 /* SQL uses it, too */

/* Of a final record: until when its response may be replayed, and when its row is to go. */
int64_t record_body_until(const struct record *record);
int64_t record_row_until(const struct record *record);

/* What a begin brings. */
struct record_begin {
    struct digest payload_hash;
    struct digest target_hash;
    bool recipe_differs; /* the record's recipe is not the one these hashes were made with */
    unsigned char attempt_id[RECORD_ATTEMPT_ID_SIZE];
    int64_t lease_us;
    int64_t ttl_us;
    int64_t least_us;
    int64_t doubted_us;
    int64_t tombstone_us;
    int64_t settle_us;
    int64_t hold_us; /* as in struct record; of today's rule */
    bool window;
    int64_t once_ttl_us; /* as in struct record */
    bool once_window;
    bool once_replay;
    int64_t key_at;         /* when its key says that it was made, in time of day */
    int64_t key_max_age_us; /* how old that may be where a life of the key would start; 0: any */
    bool spent;  /* bytes of this exchange went out, and no probe or not-done response cleared them:
                    it acquires nothing (contract section 2, invariant 12) */
    bool waited; /* it was parked on a live lease: it does not probe what it wakes up to */
    bool asks_first;   /* what has lapsed may still be run by a process that its owner left behind:
                          it is IN_PROGRESS (its lease: LAPSED) unless its token is this one, */
    int64_t overtakes; /*   of which the caller knows that nothing is left; 0: none */
    bool replaces;     /* it takes the place of another operation that was released without a doubt:
                          the record starts a new life. Not with a once value */
    bool paced;        /* its rule probes in the background, too (core/retry/probe_due.h) */
    int64_t probes_token; /* it is such a probe: it acquires only for a probe, and only the record
                             that has this token; 0: it is none */
    enum record_unknown unknown; /* the rule's policy of today */
    enum record_first first;
};

enum record_verdict {
    RECORD_PROCEED,     /* acquired: forward it under the record's token */
    RECORD_PROBE,       /* acquired: probe under the record's token */
    RECORD_INQUIRE,     /* acquired: ask under the record's token whether it was done before, and
                           send nothing until record_turn has said so */
    RECORD_REPLAY,      /* the response is kept */
    RECORD_MISMATCH,    /* another request under this key */
    RECORD_IN_PROGRESS, /* another attempt runs it */
    RECORD_OUTCOME_UNKNOWN, /* in doubt */
    RECORD_RESULT_EXPIRED,  /* done; the response expired, its tombstone is left */
    RECORD_RESULT_NOT_KEPT, /* done; the response was too large or streamed */
    RECORD_OTHER_RECIPE,    /* hash again by the record's recipe, then begin again */
    RECORD_DUPLICATE,       /* another record holds the once value, and is complete */
    RECORD_KEY_EXPIRED,     /* a life would start, under a key that is too old: a record that it may
                               have had can have expired since */
    RECORD_KEY_AHEAD,       /* the same, under a key of a time that has not come */
    RECORD_UNPROVED,        /* a life would start under `hold`, of a key that is older than the
                               restore of a store which lacks records */
};

static inline bool record_verdict_acquires(enum record_verdict verdict)
{
    return verdict <= RECORD_INQUIRE;
}

/* Acquired to be sent, at once or once an inquiry has found nothing. */
static inline bool record_verdict_runs(enum record_verdict verdict)
{
    return verdict == RECORD_PROCEED || verdict == RECORD_INQUIRE;
}

/* What a key that says when it was made may be ahead of store time: of clocks that differ. */
#define RECORD_KEY_AHEAD_US (INT64_C(300) * CLOCK_US_PER_S)

/* Whether the key of this begin may start a life now: PROCEED, KEY_EXPIRED or KEY_AHEAD. Asked only
 * where one would start: what lives answers however old its key is. */
enum record_verdict record_judge_key(const struct record_begin *begin, int64_t now);

/* The same, and UNPROVED: whether a life may start now. */
enum record_verdict record_judge_start(const struct record_begin *begin,
                                       const struct record_world *world);

/* The ttl of what this begin starts or binds at `since`: the rule's, and no shorter than the key
 * could start another life. */
int64_t record_ttl_us(const struct record_begin *begin, int64_t since);

/* Whether what is in doubt runs again unasked. */
static inline bool record_repeats(enum record_unknown policy)
{
    return policy == RECORD_UNKNOWN_RETRY || policy == RECORD_UNKNOWN_PARTICIPANT;
}

/* The policy for this record's doubts: what the config says today may make its own stricter, never
 * laxer. What lapsed or was released in doubt runs again unasked only if it began under one that
 * repeats, and still is. */
enum record_unknown record_policy(const struct record *record, enum record_unknown of_rule);

/* The decision table (contract section 2). Where it says proceed or probe, a spent begin gets
 * OUTCOME_UNKNOWN, and changes nothing. `next_token` is used up when the record's token
 * equals it afterwards. `*ret_changed`: the record must be stored. A begin whose attempt id
 * acquired this record already gets the same token again. An absent record starts a new life: its
 * old row is deleted. */
enum record_verdict record_begin(struct record *record, const struct record_begin *begin,
                                 const struct record_world *world, int64_t next_token,
                                 bool *ret_changed);

/* Whether records are missing that this begin might have met. */
bool record_may_be_missing(const struct record_begin *begin, const struct record_world *world);

/* Whether a begin that would proceed on the record asks first. Only a look, or an acquisition that
 * may send, since records are missing, shows that it need not. */
bool record_inquires(const struct record *record, const struct record_begin *begin,
                     const struct record_world *world);

/* An inquiry that has lapsed is released since then. False: it is none. */
bool record_end_inquiry(struct record *record, const struct record_world *world);

/* What the owner of this record acquired it for: PROCEED, PROBE or INQUIRE. */
enum record_verdict record_acquired_for(const struct record *record);

/* From when on a look at what became of it is believed. */
int64_t record_believed_from(const struct record *record, const struct record_world *world);

/* Where its rule probes in the background, clients probe a record once in PACE, and what a probe
 * finds is kept for LATER at least, as it may be found long after they have left. */
#define RECORD_PROBE_PACE_US CLOCK_US_PER_S
#define RECORD_PROBE_LATER_US (INT64_C(3600) * CLOCK_US_PER_S)

/* How long clients wait at most between inconclusive probes from quiet_at on. */
#define RECORD_PROBE_APART_US (INT64_C(60) * CLOCK_US_PER_S)

/* Somebody's open transaction holds the record, and nothing of what was decided on it was saved: a
 * begin gets IN_PROGRESS, whatever was read of it, and a write is tried again. Both look again
 * after so long. Fills in the record to report. */
#define RECORD_LOCKED_US (INT64_C(100) * CLOCK_US_PER_MS)
enum record_verdict record_begin_locked(struct record *ret_record, int64_t now);

enum record_write {
    RECORD_WRITTEN,
    RECORD_STALE,   /* the token is not the last one, or the record is absent: nothing changed */
    RECORD_ALREADY, /* this token's act was stored before, and the record says what: nothing
                       changed, but that what was provisional may have been frozen */
    RECORD_EARLY, /* not before record->quiet_at: nothing but quiet_at changed; a turn: released */
    RECORD_LIVE,  /* its lease is live and `force` was not given: nothing changed */
};

/* Stores an outcome: COMPLETE or FAILED, with its HTTP status; `kept` as in struct record. Accepted
 * under the last token also when lapsed, unknown or released: a late response is the truth.
 * Repeated, it is ALREADY for as long as the row is there, expired or not. What is provisional is
 * filled in: WRITTEN; with another status the participant's outcome stays as it is: ALREADY. */
struct record_final {
    enum record_status status;
    int http_status;
    bool kept;
};
enum record_write record_finish(struct record *record, int64_t token,
                                const struct record_final *final, int64_t now);

/* The same by a participant, in the transaction that holds the effect: provisional, unless its
 * owner has given up. */
enum record_write record_complete(struct record *record, int64_t token,
                                  const struct record_final *final, int64_t now);

/* What is provisional stays as it is from now on: done before it is reported. Whether it was. */
bool record_freeze(struct record *record, int64_t now);

/* The owner's "surely not done": of its own try, so an earlier doubt stays. Of a probe it says only
 * that it was not sent: unknown. */
enum record_write record_release(struct record *record, int64_t token, int64_t now);

/* An inquiry found nothing, by a look that began at `looked_at`: it goes on as an acquisition that
 * sends, under the same token and with a whole lease. Released where its lease is over, and where
 * the look came too early to be believed, or never is (below 0): EARLY. */
enum record_write record_turn(struct record *record, int64_t token, int64_t looked_at,
                              const struct record_world *world);

/* "It did not happen", found out by looking (probe 404, operator): believed only of a look that
 * began at quiet_at or later, and then ends all doubt. `looked_at` is a store time before the look.
 */
enum record_write record_release_settled(struct record *record, int64_t token, int64_t looked_at,
                                         bool force, const struct record_world *world);

/* The owner's "surely not done, and to be done elsewhere" (a redirect): the record becomes ABSENT
 * (the caller deletes it, and uses up a token), so that the request may go there under its key.
 * Where an earlier try is in doubt it is released. */
enum record_write record_drop(struct record *record, int64_t token, int64_t now);

/* The owner gave up with the outcome in doubt: unknown, or under `retry` released. */
enum record_write record_doubt(struct record *record, int64_t token, int64_t now);

/* The same, and where that makes the record unknown its owner acquires it at once, for a probe
 * under `begin`: nobody comes between the two. Whether it did, `probing` and the attempt id say. */
enum record_write record_doubt_and_probe(struct record *record, int64_t token,
                                         const struct record_begin *begin,
                                         const struct record_world *world, int64_t next_token);

/* The hold is over, for whoever knows the rule (as `begin` says it): released as of its end, and
 * without a doubt; a late response counts until somebody acquires. EARLY: not yet, or never. */
enum record_write record_end_hold(struct record *record, int64_t token,
                                  const struct record_begin *begin,
                                  const struct record_world *world);

/* Whether a begin acquired it behind the end of a hold; `met`: as it was before. */
bool record_outlived_hold(const struct record *met, const struct record *acquired);

/* Whether the record is held by the acquisition that this begin made, for a probe. */
bool record_is_probing(const struct record *record, const struct record_begin *begin);

/* Renews a lease, lapsed or not. Changes nothing where there is none. */
enum record_write record_extend(struct record *record, int64_t token, int64_t now);

/* Another key of a final record gets its response: its keys live on for at least `ttl_us` from
 * now. What may have been swept of the response does not come back. */
void record_lengthen(struct record *record, int64_t ttl_us, int64_t tombstone_us, int64_t now);

/* What a response with this status makes of a record: 4xx is failed, all else complete. */
enum record_status record_status_of(int http_status);

/* An operator's outcome for an unknown, lapsed or released record. */
enum record_write record_resolve(struct record *record, int64_t token,
                                 const struct record_final *final, bool force,
                                 const struct record_world *world);

/* An operator deletes it: WRITTEN (it is ABSENT; the caller deletes, and uses up a token), STALE
 * when `token` is not the last one or the record is absent. `token` 0 takes any that is final. What
 * is pending or unknown is forgotten by its token and once quiet, as it is released, or by force.
 */
enum record_write record_forget(struct record *record, int64_t token, bool force,
                                const struct record_world *world);

/* The next token of a store: grows at every use and never repeats (contract section 1). */
int64_t record_next_token(int64_t last_token, int64_t now);

/* Tokens stay below 2^53 and are times: a wall clock past the year 2200 is wrong, and is not
 * believed. */
#define RECORD_TIME_MOST (INT64_C(7258118400) * CLOCK_US_PER_S)
#define RECORD_TOKEN_MOST ((INT64_C(1) << 53) - 1)

/* Store time: never behind the wall clock, or the high-water mark plus the boot time passed since
 * it was read. */
int64_t record_store_time(int64_t wall_us, int64_t high_water, int64_t boot_since_mark_us);

/* Whether it can be: what must hold of any record, whoever wrote it. */
bool record_is_sound(const struct record *record);

/* Of a row that no pawl wrote, nobody knows what happened: unknown under `hold`, whatever the rule
 * says, so that it is in nobody's way but its own key's. `id` of its row is a token that it had. */
void record_hold(struct record *record, int64_t id);

/* Notes why the try that has just ended left a doubt; without a doubt, or with none, nothing. */
void record_note_cause(struct record *record, int cause);

/* Complete or failed. */
static inline bool record_is_final(enum record_status status)
{
    return status == RECORD_COMPLETE || status == RECORD_FAILED;
}

/* As the config calls it: "hold", "retry", "probe", "participant". */
const char *record_unknown_name(enum record_unknown policy);

/* The name of a status as stores and logs show it. */
const char *record_status_name(enum record_status status);

#endif
