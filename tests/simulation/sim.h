/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulation: two processes with the real store and engine over one toy table, a simulated
 * upstream, clients, an operator, and faults, all moved by one seeded generator under a virtual
 * clock. One seed always gives one run.
 *
 *   sim.c           generator, clock, processes, faults
 *   sim_shadow.c    what is durable, and what must hold of it after every batch
 *   sim_upstream.c  requests in flight, effects
 *   sim_actor.c     attempts: the gateway's protocol as a state machine
 *   sim_retry.c     further tries under one token
 *   sim_operator.c  an operator who looks, thinks, and acts
 *   sim_once.c      rules with a second identity: several keys, one once value, renamed rules
 *   sim_participant.c  upstreams that complete records in their own transactions
 *
 * A mutant breaks one rule of the protocol on purpose (docs/model): then a property that does not
 * hold is noted instead of ending the program.
 */
#ifndef PAWL_TESTS_SIM_H
#define PAWL_TESTS_SIM_H

#include "engine/engine.h"
#include "toy/hostile.h"

#define MS CLOCK_US_PER_MS
#define SECOND CLOCK_US_PER_S

#define SIM_PROCS 2
#define SIM_ACTORS 14
#define SIM_FLIGHTS 64
#define SIM_LIVES 256
#define SIM_TOKENS ((size_t)1 << 21)

/* States that a run must reach, or it tests less than it says: X(name, text). */
#define SIM_RARE(X)                                                                                \
    X(PROCEED, "proceeded")                                                                        \
    X(REPLAY, "replayed")                                                                          \
    X(CACHED, "replayed from the cache")                                                           \
    X(WOKEN_REPLAY, "a waiter replayed")                                                           \
    X(WOKEN_PROCEED, "a waiter proceeded after a release")                                         \
    X(WOKEN_LAPSE, "a waiter was woken by a lapse")                                                \
    X(WOKEN_UNKNOWN, "a waiter was woken to an unknown record")                                    \
    X(TIME_OVER, "a waiter's own time was over")                                                   \
    X(TAKEOVER, "a lapsed attempt was taken over")                                                 \
    X(DEAD_SERVE, "a dead serve's lease lapsed before its time")                                   \
    X(HELD, "a lapse made the record unknown")                                                     \
    X(ASK, "asked")                                                                                \
    X(BACKGROUND_ASK, "asked in the background")                                                   \
    X(ASK_LAPSED, "asked about a lapsed probe")                                                    \
    X(ASK_AT_ONCE, "doubted and asked in one commit")                                              \
    X(SPENT, "an exchange that had sent acquired nothing again")                                   \
    X(EARLY, "a 404 was not believed yet")                                                         \
    X(SETTLED, "a 404 released")                                                                   \
    X(PROBE_FOUND, "a probe found the outcome")                                                    \
    X(INCONCLUSIVE, "a probe settled nothing")                                                     \
    X(STALE_FINISH, "an outcome was stale")                                                        \
    X(STALE_OTHER, "a release or doubt was stale")                                                 \
    X(LATE_UNKNOWN, "a late answer on an unknown record")                                          \
    X(ALREADY, "a write repeated after a lost commit")                                             \
    X(SAME_TOKEN, "a begin repeated after a lost commit")                                          \
    X(SEND_CHECK, "the send check stopped a request")                                              \
    X(TRIED_AGAIN, "sent again under its token what was not done")                                 \
    X(TRIED_IN_DOUBT, "sent again under its token what was in doubt")                              \
    X(DOUBT_KEPT, "a later try was not done, and the doubt of an earlier one stayed")              \
    X(TRY_LATE, "the send check stopped a later try")                                              \
    X(FENCED, "the upstream refused an old token")                                                 \
    X(DEDUPED, "the upstream deduped")                                                             \
    X(LATE_FLIGHT, "a request arrived after its owner gave up")                                    \
    X(MISMATCH, "a mismatch")                                                                      \
    X(EXPIRED, "a tombstone answered")                                                             \
    X(KEY_EXPIRED, "a key was too old to begin")                                                   \
    X(NEW_LIFE, "a key started another life")                                                      \
    X(HELD_RELEASED, "what was released in doubt was held under a stricter rule")                  \
    X(ASK_RELEASED, "what was released in doubt was asked about under a stricter rule")            \
    X(HOLD_ENDED, "a hold ended")                                                                  \
    X(HOLD_ENDED_DONE, "a hold ended, and what had been done was done once more")                  \
    X(HOLD_ENDED_ALONE, "a hold ended without a begin")                                            \
    X(FREED_LATE, "a late release freed what was unknown")                                         \
    X(OUTLIVED, "a record outlived its window")                                                    \
    X(DROPPED, "a redirect deleted the record")                                                    \
    X(DROP_IN_DOUBT, "a redirect released what was in doubt")                                      \
    X(LIMITED, "too many waited")                                                                  \
    X(FULL, "refused for want of space")                                                           \
    X(WITHDRAWN, "withdrawn")                                                                      \
    X(UNSURE, "what may be committed was not taken back")                                          \
    X(CRASH_HOLDING, "a process was killed while it held a lease")                                 \
    X(STALL_HOLDING, "a process was stopped while it held a lease")                                \
    X(COMMIT_FULL, "a commit found no space")                                                      \
    X(COMMIT_LOST, "a commit failed")                                                              \
    X(COMMIT_AMBIGUOUS, "a commit failed though it was done")                                      \
    X(FAIL_STOP, "a process stopped itself")                                                       \
    X(RESOLVED, "an operator resolved")                                                            \
    X(OPERATOR_RELEASED, "an operator released")                                                   \
    X(OPERATOR_STALE, "an operator was too late")                                                  \
    X(FORGOTTEN, "an operator forgot")                                                             \
    X(FORGOTTEN_LIVE, "an operator forgot a live lease")                                           \
    X(BEAT_LATE, "a beat came late, and its lease lived again")                                    \
    X(BEAT_TAKEN, "an owner beat after its record was taken over")                                 \
    X(TAKEN_BETWEEN, "a lease that beats had kept was taken over between two of them")             \
    X(SERVE_AGAIN, "a dead serve's lease lapsed under the next serve")                             \
    X(CLOCK_BACK, "the wall clock went back")

/* The same of a run whose rules have a second identity. */
#define SIM_ONCE_RARE(X)                                                                           \
    X(ONCE_DUPLICATE, "a value's duplicate was refused")                                           \
    X(ONCE_REPLAY, "a value's duplicate was told the first answer, and bound")                     \
    X(ONCE_ACKED, "a value's duplicate was told that it was done")                                 \
    X(ONCE_BOUND, "a bound key was replayed")                                                      \
    X(ONCE_BOUND_OWNER, "a bound key acquired")                                                    \
    X(ONCE_WAITED, "waited for a record of another key")                                           \
    X(ONCE_TAKEN_FAILED, "a value was taken over from a failed record")                            \
    X(ONCE_TAKEN_RELEASED, "a value was taken over from a released record, which ended")           \
    X(ONCE_CONTINUED, "went on in the record of another key")                                      \
    X(ONCE_UNKNOWN, "a value's holder was in doubt")                                               \
    X(ONCE_MISMATCH, "another request brought the value")                                          \
    X(ONCE_KEY_FIRST, "a key expired before its value")                                            \
    X(ONCE_VALUE_FIRST, "a value expired before its key")                                          \
    X(ONCE_AGAIN, "a value had its effect in another life")                                        \
    X(ONCE_FORGOTTEN, "a value's holder was forgotten")                                            \
    X(ONCE_RENAMED, "a rule got another name")                                                     \
    X(ONCE_FORMER_KEY, "a key was found under a former name")                                      \
    X(ONCE_FORMER_VALUE, "a value was found under a former name")                                  \
    X(ONCE_REFUSED, "the upstream refused for good")

/* The same of a run whose upstreams are participants. */
#define SIM_PARTICIPANT_RARE(X)                                                                    \
    X(FILLED_IN, "filled in what a participant had stored")                                        \
    X(FILLED_LATE, "a fill-in came too late")                                                      \
    X(STATUS_DIFFERED, "a participant's status was another one")                                   \
    X(OWN_ANSWER, "a participant's own answer was replayed")                                       \
    X(FROZEN_BY_OWNER, "a release or a doubt froze what was provisional")                          \
    X(LAPSED_PROVISIONAL, "a lease lapsed before the fill-in")                                     \
    X(WOKEN_PROVISIONAL, "a waiter replayed what was filled in")                                   \
    X(PARTICIPANT_STALE, "a participant's token was replaced: it rolled back")                     \
    X(PARTICIPANT_ROLLED_BACK, "a participant rolled back")                                        \
    X(LOCKED, "met what a transaction held")                                                       \
    X(LOCKED_BEGIN, "a begin was told of a transaction")

enum sim_rare {
#define X(name, text) SIM_##name,
    SIM_RARE(X) SIM_ONCE_RARE(X) SIM_PARTICIPANT_RARE(X)
#undef X
        SIM_RARES
};

/* Rules of the model that attempts and operators can break: X(name). */
#define SIM_MUTANTS_OF(X)                                                                          \
    X(SEND_UNCHECKED)       /* S: sends after its lease */                                         \
    X(DOUBT_RELEASES)       /* L: a 5xx that does not say "nothing was done" releases */           \
    X(NOT_FOUND_FINAL)      /* Q: a 404 is believed at once */                                     \
    X(NO_SETTLE_TIME)       /* Q: records settle at once */                                        \
    X(LOOK_MISDATED)        /* Q: a look counts from its answer, not from before it */             \
    X(OWN_PROBE)            /* P: probes under the token of its own request (M_OWNPROBE) */        \
    X(STALE_TELLS)          /* a stale owner tells its own answer (M_STALETELL) */                 \
    X(TOLD_EARLY)           /* told before the commit (M_EARLY) */                                 \
    X(CANCEL_RELEASES)      /* a disconnect releases the record (M_CANCEL) */                      \
    X(ERROR_RELEASES)       /* a store error on complete releases (M_ERRFREE) */                   \
    X(ERROR_SENDS)          /* a store error on begin sends all the same (M_PASS) */               \
    X(RESEND)               /* an exchange that has sent may acquire again (M_RESEND) */           \
    X(TRY_WASHES)           /* a try that was not done undoes an earlier one's doubt */            \
    X(TRY_STRICT)           /* tries again in doubt, whatever the policy */                        \
    X(BORN_EXPIRED)         /* a record does not outlast those who wait for it (M_BORN) */         \
    X(UNNAMED_TOKEN)        /* an operator acts on the key, not on what was seen (M_RESOLVE) */    \
    X(NO_VALUE)             /* a begin leaves its once value out, now and then */                  \
    X(NO_FORMER)            /* a renamed rule forgets its former names */                          \
    X(PARTICIPANT_UNLOCKED) /* looks at its token before it locks the row (M_CHECK) */             \
    X(PARTICIPANT_APART)    /* commits its effect before its outcome */

enum sim_mutant {
    SIM_NO_MUTANT,
#define X(name) SIM_MUTANT_##name,
    SIM_MUTANTS_OF(X)
#undef X
};

/* Properties of the model, to be noted together. */
enum sim_property {
    SIM_ONE_EFFECT = 1,  /* (a), (h) */
    SIM_ONE_OUTCOME = 2, /* (b) */
    SIM_DURABLE = 4,     /* (f) */
    SIM_RELEASED = 8,    /* nothing comes of a token that was released */
    SIM_WAITED = 16,     /* (i) who waited for a record runs in no later life of its key */
    SIM_LEFT = 32,       /* nothing comes of a record that a redirect deleted */
    SIM_ONE_HOLDER = 64, /* a name leads to one record, until that one has ended */
};

struct sim_config {
    uint64_t seed;
    enum sim_mutant mutant;
    bool notes;        /* what does not hold is noted: true with a mutant */
    bool once;         /* the rules have a second identity (sim_once.c) */
    bool participants; /* the upstreams complete records (sim_participant.c) */
    bool loads;        /* no batch goes without: for a trace that counts them */
};

enum upstream_kind { UPSTREAM_PLAIN, UPSTREAM_DEDUPE, UPSTREAM_FENCE, UPSTREAM_PARTICIPANT };

/* A rule with one key. */
struct sim_rule {
    enum record_unknown unknown;
    enum upstream_kind upstream;
    int64_t settle;
    int64_t ttl;
    int64_t tombstone;
    int64_t delay_most; /* of a request on its way */
    bool changes;       /* the config changes between this policy, hold and probe */
    bool window;        /* ttl is a window's */
    int64_t hold;       /* how long a hold lasts; 0: it has no end */
};
#define SIM_RULES 6
extern const struct sim_rule sim_rules[SIM_RULES];
extern const struct sim_rule sim_participant_rules[SIM_RULES];
/* Of a run with once values: each rule has SIM_KEYS keys, which take the place of rules. */
#define SIM_KEYS 3
#define SIM_VALUES (SIM_RULES / SIM_KEYS)
#define SIM_NAMES 64 /* that one rule may have, one after the other */
extern const struct sim_rule sim_once_rules[SIM_VALUES];

struct proc {
    struct store *store;
    struct engine *engine;
    struct hostile_faults *faults;
    int64_t self;    /* its incarnation */
    int64_t beat_at; /* store time of its last beat; 0: none yet */
    bool robbed;     /* a record of its own was taken over */
    int64_t stalled_until;
    bool stopped;    /* by itself */
    uint64_t errors; /* commits that failed */
};

/* One row id: one life of a key, as upstream and clients know it. */
struct life {
    int64_t row;
    int effects;
    int before;   /* of them, before its hold ended last */
    bool dropped; /* by a redirect */
    bool refused; /* for good: it has no effect */
    bool strict;  /* it had its effect under hold or probe */
    bool forgotten;
    int64_t fence; /* highest token seen */
    char told[24]; /* the outcome clients were told; "": none yet */
};

/* How a request fares at the upstream. */
enum flight_end {
    FLIGHT_ANSWERED,
    FLIGHT_ANSWER_LOST,
    FLIGHT_LOST,
    FLIGHT_TRANSIENT,   /* surely not done, and says so */
    FLIGHT_ELSEWHERE,   /* a redirect: the same */
    FLIGHT_REFUSED,     /* not done, and never will be */
    FLIGHT_BAD_GATEWAY, /* done, but the answer does not say so */
};

struct flight {
    bool used;
    bool probe;
    bool inside; /* its participant's transaction is open */
    bool strict; /* sent under hold or probe */
    enum flight_end end;
    int rule;
    int64_t row;
    int64_t token;
    int64_t arrive_at;
    size_t actor;
    uint64_t serial;  /* of the actor's try */
    uint64_t arrival; /* of the actor's request */
};

enum answer {
    ANSWER_NONE,
    ANSWER_DONE,
    ANSWER_OTHER, /* done, with another status than the participant's */
    ANSWER_NOT_DONE,
    ANSWER_ELSEWHERE,
    ANSWER_REFUSED,
    ANSWER_NOT_FOUND,
    ANSWER_DOUBT,
    ANSWER_FENCED
};

enum actor_phase { ACTOR_IDLE, ACTOR_BEGINNING, ACTOR_HOLDING, ACTOR_EXCHANGE, ACTOR_WRITING };

struct actor {
    enum actor_phase phase;
    size_t proc;
    int rule;
    unsigned rounds; /* begins of this arrival */
    struct attempt attempt;
    struct parker parker;
    int64_t row;
    bool probing;
    bool doubted;       /* a try under its token may have had its effect */
    int tries;          /* under its token */
    int64_t not_before; /* it does nothing till then */
    int64_t give_up_at; /* beginning */
    int64_t began_at;   /* beginning */
    int64_t wait_until; /* beginning: its own time, 0: it does not wait */
    int64_t timeout;    /* exchange */
    int64_t unwoken_at; /* it waits on what is not held since then; 0: no */
    uint64_t serial;
    uint64_t arrival; /* one client request */
    int effects;      /* of it */
    uint64_t errors;  /* of its process when it began to write */
    enum answer answer;
    struct engine_act act;
};

struct operator_act {
    bool planned;
    bool submitted;
    size_t proc;
    int rule;
    int64_t at;
    struct store_op op;
};

/* A once value: the record under which it last had its effect, as it was last seen. */
struct value {
    int64_t row; /* 0: it has had none, or that one was forgotten */
    struct record record;
};

struct token_use {
    int64_t token;
    unsigned char attempt_id[RECORD_ATTEMPT_ID_SIZE];
};

/* The last record that was seen without its owner. */
struct orphan {
    int64_t token;
    int64_t since; /* store time */
};

struct sim {
    uint64_t seed;
    enum sim_mutant mutant;
    bool notes;
    unsigned broken; /* enum sim_property, noted */
    uint64_t random;
    uint64_t step;
    int64_t boot;
    int64_t wall_back;
    struct backend *keeper; /* keeps the table while no process lives */
    struct store
        *participant; /* by which transactions of participants write; NULL: there is none */
    struct proc procs[SIM_PROCS];
    struct store_row shadow[SIM_RULES]; /* durable, as of the last batch; without its texts */
    struct backend_read read;           /* as of the last look */
    int64_t deleted_at[SIM_RULES];      /* boot time: forgotten, or left by a redirect */
    bool dropping[SIM_RULES];           /* a redirect's write is under way, or was */
    int64_t lapsed_at[SIM_RULES];       /* store time of the batch that last found a lease lapsed */
    struct orphan orphans[SIM_RULES];
    struct life lives[SIM_RULES][SIM_LIVES]; /* the last ones */
    size_t newest_life[SIM_RULES];
    struct flight flights[SIM_FLIGHTS];
    struct actor actors[SIM_ACTORS];
    struct operator_act operator;
    bool once;
    bool loads;
    struct value values[SIM_VALUES];
    int n_names; /* of each rule, the last one is its own */
    int64_t renamed_at;
    struct token_use *tokens;
    uint64_t reached[SIM_RARES];
};

/* Ends the program with the seed when `belief` is false. */
#define SIM_CHECK(sim, belief)                                                                     \
    do {                                                                                           \
        if (!(belief))                                                                             \
            sim_broken(sim, __FILE__, __LINE__, #belief);                                          \
    } while (0)
_Noreturn void sim_broken(const struct sim *sim, const char *file, int line, const char *belief);

/* The same for a property that a mutant may break. */
#define SIM_HOLDS(sim, property, belief)                                                           \
    do {                                                                                           \
        if (belief)                                                                                \
            break;                                                                                 \
        if (!(sim)->notes)                                                                         \
            sim_broken(sim, __FILE__, __LINE__, #belief);                                          \
        (sim)->broken |= (unsigned)(property);                                                     \
    } while (0)

struct sim *sim_new(const struct sim_config *config);
void sim_free(struct sim *sim);
void sim_step(struct sim *sim);

/* Uniform below `n`; true `per_million` times in a million. */
uint64_t sim_below(struct sim *sim, uint64_t n);
bool sim_chance(struct sim *sim, unsigned per_million);
void sim_advance(struct sim *sim, int64_t duration);

/* Ends an operation of a process that is being killed: nothing of it is written any more. */
void proc_end(struct sim *sim, size_t proc, struct store_op *op);

bool proc_runs(const struct sim *sim, size_t proc);
/* One batch of a process, and what must hold after it. */
bool proc_step(struct sim *sim, size_t proc);

struct digest sim_key(int rule);
const struct sim_rule *sim_rule(const struct sim *sim, int rule);
bool row_is_final(const struct store_row *row);
bool row_is_held(const struct store_row *row);
/* Of the key by which the row was found. */
bool key_is_gone(const struct store_row *row, int64_t now);

/* Reads what is durable and compares it with what was. */
void shadow_check(struct sim *sim);
/* Process `proc` has just beaten. */
void shadow_beat(struct sim *sim, size_t proc, const struct store_row *before);
/* Counts what the batch that process `proc` just did has changed since `before`. */
void shadow_count(struct sim *sim, size_t proc, const struct store_row *before);
/* Every acquisition: a token is one attempt's. */
void shadow_acquired(struct sim *sim, const struct attempt *attempt);
/* A client is told `body` as the outcome of `row`. */
void shadow_told(struct sim *sim, int rule, int64_t row, struct slice body);

struct life *life_of(struct sim *sim, int rule, int64_t row);
void upstream_send(struct sim *sim, size_t actor);
void upstream_move(struct sim *sim);
/* The effect of a request that has arrived. */
void upstream_execute(struct sim *sim, const struct flight *flight);
/* How long a request is on its way, or a transaction open. */
int64_t upstream_delay(struct sim *sim, int rule);

/* A request arrived at a participant, or its transaction ends. False: it comes back later. */
bool participant_serve(struct sim *sim, struct flight *flight, enum answer *ret_answer);
/* Whether a transaction holds the key. */
bool participant_holds(const struct sim *sim, int rule);

void actor_move(struct sim *sim, size_t actor);
/* After a try that was no probe: whether another one follows under its token, after a wait. If not,
 * its answer is what all of them came to. */
bool retry_follows(struct sim *sim, struct actor *actor);
/* Its process died: whatever it was doing is lost. */
void actor_drop(struct sim *sim, size_t actor);

/* ---- runs with once values: a rule is one of SIM_KEYS keys ---- */

/* The name of the key under the rule's `name`. */
struct digest once_key(int rule, int name);
/* Names a begin that is about to be submitted: key, value, and both under former names. */
void once_name(struct sim *sim, struct actor *actor);
/* After every batch, over what was before it: invariants of both identities. */
void once_check(struct sim *sim, const struct store_row *before, bool forgotten);
void once_acquired(struct sim *sim, struct actor *actor);
void once_effect(struct sim *sim, const struct flight *flight);
/* Counts what a begin was told by its value. */
void once_count(struct sim *sim, const struct actor *actor);
/* Now and then all rules get a new name. */
void once_rename(struct sim *sim);

void operator_move(struct sim *sim);
void operator_drop(struct sim *sim, size_t proc);

#endif
