/* SPDX-License-Identifier: Apache-2.0 */
/*
 * task: one thing that must arrive later, whatever it is (contract section 9). Pure decisions: what
 * state follows on an event, and when the next attempt is due. Times are store time; the same task
 * and event give the same result on every machine, so that a crash changes no time.
 *
 *      waiting --claim--> sending --end--> done
 *         ^  |               |  |
 *         |  |               |  '--final response, attempts or deadline used up--> dead
 *         |  '--drop--.      |                                                      |  |
 *         |           v      |                                                      |  |
 *         |        dropped <-|----------------------drop----------------------------'  |
 *         '---end, lose---------------------------------------retry, edit--------------'
 *
 * An operator may have what is dropped sent again (a retry), and what is done, too (a replay); and
 * may say of what waits, is dead or dropped that it was done (a settlement).
 *
 * An attempt counts from its claim on: a payload that kills its sender ends as dead. No attempt is
 * due after the deadline; one that was due is made however late.
 */
#ifndef PAWL_CORE_TASK_H
#define PAWL_CORE_TASK_H

#include "core/retry/retry.h"

enum task_state { TASK_WAITING, TASK_SENDING, TASK_DONE, TASK_DEAD, TASK_DROPPED };
#define TASK_STATE_COUNT 5

/* X(NAME, name, text): why a task, or an attempt, ended as it did, or waits. The store keeps the
 * numbers: new ones go to the end. */
#define TASK_REASONS(X)                                                                            \
    X(NONE, "", "")                                                                                \
    X(FINAL, "final", "the response is final")                                                     \
    X(ATTEMPTS, "attempts", "no attempt is left")                                                  \
    X(DEADLINE, "deadline", "no time is left before the deadline")                                 \
    X(LOST, "lost", "the process that sent it died")                                               \
    X(PAYLOAD_MISMATCH, "payload_mismatch", "the key was used with another request")               \
    X(ADDRESS_REFUSED, "address_refused", "requests to this address are not allowed")              \
    X(DROPPED, "dropped", "dropped by an operator")                                                \
    X(ALREADY, "already", "the operation had succeeded before")                                    \
    X(NOT_REACHED, "not_reached", "no connection to the target")                                   \
    X(BROKE, "broke", "the connection ended before the response did")                              \
    X(TIMED_OUT, "timed_out", "no response in time")                                               \
    X(NOT_DONE, "not_done", "the response asks for another attempt")                               \
    X(IN_PROGRESS, "in_progress", "the same operation is running elsewhere")                       \
    X(BREAKER, "breaker", "too many attempts at this target failed")                               \
    X(BUDGET, "budget", "too many retries to this target")                                         \
    X(UNREADABLE, "unreadable", "the request could not be made from what is stored")               \
    X(LIST, "list", "a step before it in its list failed")                                         \
    X(DISABLED, "endpoint_disabled", "the endpoint is disabled")                                   \
    X(REMOVED, "endpoint_removed", "there is no such endpoint any more")                           \
    X(GONE, "gone", "the endpoint says that it is gone (410)")                                     \
    X(ODD_ROW, "odd_row", "its row, or that of its list, is none that pawl wrote")                 \
    X(NOT_WANTED, "not_wanted", "the endpoint does not want such events any more")                 \
    X(IN_DOUBT, "in_doubt", "it ended, and an earlier attempt may be why: it may have been done")  \
    X(CREDENTIALS, "credentials", "the service refuses who sends it: renew the credentials")       \
    X(KEY_EXPIRED, "key_expired",                                                                  \
      "its key is too old: it may have been done, look before you edit it")                        \
    X(PORTAL, "portal", "the response was a portal's: over http a redirect, or HTML for JSON")     \
    X(HAPPENED, "happened",                                                                        \
      "the service says that it was done before: look there, then settle it as done")

enum task_reason {
#define X(name, word, text) TASK_REASON_##name,
    TASK_REASONS(X)
#undef X
        TASK_REASON_COUNT
};

/* Its name as JSON and labels have it, and what it says to a person. */
struct slice task_reason_name(enum task_reason reason);
const char *task_reason_text(enum task_reason reason);

/* Why an attempt that ended so is not done; NONE: it is. */
enum task_reason task_reason_of_end(enum exchange_end ended, enum retry_class class);

/* Its name as lists have it: waiting, sending, done, dead, dropped. */
struct slice task_state_name(enum task_state state);

struct task {
    enum task_state state;
    bool holds;          /* dead, and its order waits */
    int64_t due_at;      /* waiting; CLOCK_NEVER: held behind the first of its order */
    int64_t first_at;    /* of its first attempt; 0: none began */
    int64_t deadline_at; /* CLOCK_NEVER: none */
    enum retry_profile profile;
    int attempts;        /* that count; `edit` and `retry` reset them */
    int tries;           /* ever begun */
    bool replay;         /* by an operator: does not count for the breaker */
    int64_t lease_until; /* sending */
    int64_t owner;       /* sending: which process */
    int64_t busy_since;  /* when the first of the last answers said that it is busy; 0: none did */
    bool in_doubt;       /* an attempt may have had its effect */
    int status;          /* of the last response; 0: none */
    enum task_reason reason;
    int64_t created_at;
    int64_t ended_at; /* 0: it has not */
    int64_t gone_at;  /* when it is swept; CLOCK_NEVER: it has not ended */
};

/* Of one whose row no pawl wrote: dead until a person retries or drops it, whatever it was, and
 * never swept. */
void task_hold(struct task *task, bool holds);

/* How a task goes on, and what is left of it. */
struct task_terms {
    int64_t done_us;                       /* how long it is kept once it is done */
    int64_t dead_us;                       /* or has ended otherwise */
    bool holds;                            /* its death holds its order */
    const struct retry_schedule *schedule; /* NULL: its profile's */
    int attempts;                          /* it has at most so many; 0: as many as that says */
    const struct task *before; /* the attempt that ends; NULL: it cannot be given back */
};
/* Of profile `queue` a task has any number of attempts, for so long after the first one. */
#define TASK_QUEUE_LASTS_US (INT64_C(7) * 86400 * CLOCK_US_PER_S)
#define TASK_ATTEMPTS_MOST 1000000000
#define TASK_STATUS_MOST 999
#define TASK_KEEP_DONE_US (INT64_C(7) * 86400 * CLOCK_US_PER_S)
#define TASK_KEEP_DEAD_US (INT64_C(30) * 86400 * CLOCK_US_PER_S)

/* Those of what a person, or its list, ends: it holds nothing. */
extern const struct task_terms task_terms_of_acts;

/* A lease is the timeout of an attempt, and this. */
#define TASK_LEASE_EXTRA_US (INT64_C(15) * CLOCK_US_PER_S)

enum task_event {
    TASK_CLAIM,
    TASK_END,
    TASK_LOSE,
    TASK_PUT_OFF,
    TASK_SETTLE,
    TASK_DROP,
    TASK_RETRY,
    TASK_REPLAY, /* the same, and of what is done */
    TASK_EDIT,
    TASK_EVENT_COUNT,
};

/* Whether the event may happen in that state: the functions below assert it. */
bool task_allows(enum task_state state, enum task_event event);

/* Whether it is due: waiting, and not held behind another one. */
bool task_is_due(const struct task *task, int64_t now);

/* Whether it waits for one before it in its order, and so has no time. */
static inline bool task_is_held(const struct task *task)
{
    return task->state == TASK_WAITING && task->due_at == CLOCK_NEVER;
}

/* Whether those behind it in its order wait for it. */
bool task_is_open(const struct task *task);

/* Who makes an attempt, and for how long. */
struct task_claim {
    int64_t owner;
    int64_t lease_us;
    int64_t lasts_us; /* from the first attempt to the deadline; 0: as the schedule says;
                         CLOCK_NEVER: there is none */
    const struct retry_schedule *schedule; /* NULL: the profile's */
};

/* Due: an attempt begins, and counts. The first one sets the deadline of a task that has none. */
void task_claim(struct task *task, const struct task_claim *claim, int64_t now);

/* How an attempt ended. */
struct task_result {
    enum retry_class class;
    enum task_reason reason; /* of the attempt; of the task, too, if it is final, or happened */
    int64_t hint_us;         /* of its Retry-After; RETRY_NO_HINT: none. Of RETRY_CREDENTIALS: how
                                long it waits */
    int status;              /* 0: no response */
    bool is_unreached;       /* no byte left (task_gives_back) */
    bool is_in_doubt;        /* it may have had its effect */
    bool is_settled;         /* nothing is in doubt any more, whatever was */
};

/* Whether the attempt that ended so is given back, with the time that it began: days without a
 * network end nothing, and leave no trace. */
bool task_gives_back(const struct task *task, const struct task_result *result);

/* An attempt ended: done, waiting for the next one, or dead. `id`: of the task; the spread of the
 * next attempt's time follows from it and the number of this one. */
void task_end(struct task *task, int64_t id, const struct task_result *result,
              const struct task_terms *terms, int64_t now);

/* The owner of the attempt died: it counts, and the next one is due at once (by its schedule where
 * the attempt before was lost, too, and that counts delays), or it is dead. */
void task_lose(struct task *task, const struct task_terms *terms, int64_t now);

/* Waiting: not before that time, but no later than its deadline. One that was held stays held. */
void task_put_off(struct task *task, int64_t until, enum task_reason reason);

/* Waiting, and not held: due now. False: it was so already. */
bool task_wake(struct task *task, int64_t now);

/* Without a further attempt it is done, or dead, for that reason. */
void task_settle(struct task *task, enum task_state state, enum task_reason reason,
                 const struct task_terms *terms, int64_t now);

/* An operator's: dropped. */
void task_drop(struct task *task, const struct task_terms *terms, int64_t now);

/* An operator's: due then (held ones stay held), with all attempts and a deadline of its own again.
 * `is_replay`: it does not count for the breaker, and may be done. */
void task_retry(struct task *task, bool is_replay, int64_t due_at);

/* An operator's: it sends something else now, under another key: all begins again. */
void task_edit(struct task *task, int64_t now);

#endif
