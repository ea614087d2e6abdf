/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runner: one operation under one key, from its record's begin to what is stored of it, tried again
 * by a policy (contract section 6). What an attempt does is an executor's affair: a request here, a
 * command there. Runs in a fiber or in a thread, depending on how its parker waits.
 *
 *      begin ---> replay, mismatch, in progress, ...: ends without an attempt
 *       ^  | proceed
 *       |  v
 *       | executor->run ---> complete, release or doubt is stored ---> done, final: ends
 *       |                                |  to be tried again
 *       '------- waits until then <------'---> none is left, or no time: RUNNER_ENDED
 *
 * Each attempt is an acquisition of its own, with a token of its own: while the runner waits it
 * holds nothing, and a process that dies then leaves nothing to be waited for. What is in doubt
 * goes by the record's policy (attempt.begin.unknown): under `retry` it is done again under the
 * same key, under `probe` the executor finds out, under `hold` nobody does it before that is
 * settled. Where the store lacks records, the executor finds out before the first attempt, too
 * (attempt.begin.first).
 */
#ifndef PAWL_RUNNER_RUNNER_H
#define PAWL_RUNNER_RUNNER_H

#include "core/retry/retry.h"
#include "engine/engine.h"
#include "runner/tally.h"

/* What an executor gets to know of an attempt. */
struct runner_attempt {
    int number;       /* from 1 */
    int64_t delay_us; /* waited before it, as planned */
    int64_t until;    /* boot time: it must have ended; CLOCK_NEVER: none */
    int64_t send_by;  /* boot time: its effect must not begin later (invariant 13) */
    int64_t token;
    int64_t acquired; /* how often the record was, in this life of the key; 0: there is none */
    bool in_doubt;    /* an earlier attempt under this key may have had its effect */
};

/* How it ended. */
struct runner_end {
    enum retry_class class;
    enum disposition_write write; /* COMPLETE with RETRY_DONE; RELEASE, DROP or DOUBT where it is
                                     to be tried again; NOTHING: the token is not the last one */
    enum exchange_end ended;      /* of HTTP */
    bool reached;                 /* the target was there, whatever it did */
    bool is_settled;              /* nothing is in doubt any more, although it is not done */
    int cause;                    /* of a doubt: record_note_cause */
    int status;                   /* of HTTP; 0: none */
    struct slice code;       /* the error code; borrowed until the next attempt; may be empty */
    int64_t hint_us;         /* RETRY_NO_HINT, or how long it asks to wait */
    const char *note;        /* for people: a literal; NULL: the status says it */
    struct outcome *outcome; /* what is to be kept of it, with COMPLETE: one reference is the
                                runner's. NULL: nothing is */
};

/* What is written of it. */
struct engine_act runner_act(const struct runner_end *end, bool is_probe);

struct runner_executor {
    /* Runs one attempt to its end. The struct is the beginning of the executor's own. */
    void (*run)(struct runner_executor *executor, const struct runner_attempt *attempt,
                struct runner_end *ret_end);
    /* Finds out what became of an earlier attempt: COMPLETE, RELEASE (it was not done) or DOUBT.
     * NULL: no record of its policy is `probe`. */
    void (*probe)(struct runner_executor *executor, const struct runner_attempt *attempt,
                  struct runner_end *ret_end);
    /* Whether an attempt goes on although its owner's lease has lapsed, as far as can be seen from
     * here: then it is in progress. NULL: the lease alone decides. */
    bool (*goes_on)(struct runner_executor *executor, struct slice origin, int64_t token);
};

/* What attempts of several runners have to pass; one loop's. The struct is the beginning of its
 * owner's own. */
struct runner_gate {
    /* Waits until the next attempt may begin. False: none may any more. */
    bool (*enter)(struct runner_gate *gate, struct parker *parker);
    /* It has ended, and what is stored of it is on its way; or it did not begin. */
    void (*leave)(struct runner_gate *gate);
    bool closed;     /* no attempt begins any more, and none is waited for */
    bool fails_fast; /* an operation that fails closes it before its last attempt leaves; its owner
                        lets those go that wait in `enter` */
};

/* An attempt that has ended, and what is stored of it; `next` counts where it is tried again. */
struct runner_report {
    const struct runner_attempt *attempt;
    const struct runner_end *end;
    struct retry_next next;
    int64_t now;
};

struct runner {
    /* The caller's, borrowed until runner_run returns. */
    struct engine *engine; /* NULL: nothing is stored, and nothing known of other runs */
    struct parker *parker;
    struct runner_executor *executor;
    const struct retry_schedule *schedule;
    enum retry_profile profile; /* under which the store counts it; RETRY_PROFILE_COUNT: none */
    bool is_job; /* it is counted as one, too, and the end of all its time cuts no attempt off */
    uint64_t seed;
    int64_t total_us;            /* for all of it; CLOCK_NEVER: the schedule's own */
    int64_t timeout_us;          /* for one attempt; CLOCK_NEVER: none */
    int64_t wait_us;             /* for an attempt of others that is under way; CLOCK_NEVER: as long
                                    as there is time */
    struct retry_budget *budget; /* of the target; NULL: none is kept */
    struct runner_gate *gate;    /* NULL: there is none */
    void (*report)(void *argument, const struct runner_report *report); /* NULL: nobody listens */
    void *argument;
    struct attempt attempt; /* its rule, key, recipe, both hashes, and in `begin` ttl and policy;
                               lease and settle, where the lease is not as long as an attempt may
                               take */

    /* The runner's. */
    int64_t deadline; /* boot time: of all of it */
    int64_t wait_until;
    int64_t due;      /* boot time: of the attempt that comes next, */
    int64_t delay_us; /*   this long after the one before */
    struct retry_course course;
    struct tally tally; /* of the attempt under way */
    int decisions;

    /* What came of it. */
    int64_t began_at, ended_at; /* wall time: of the last attempt */
    struct runner_end end;      /* of the last attempt; all zero: there was none */
    enum retry_end ended_by;    /* RUNNER_ENDED */
    bool in_doubt;              /* an attempt, perhaps of an earlier run, may have had its effect */
    bool reached;               /* the target was, at least once */
    bool unproved;              /* it ran although records are missing, and nobody was asked */
    bool out_of_time;           /* the last attempt was cut off by `deadline` */
    struct outcome *outcome;    /* DONE: of the last attempt; REPLAYED: the kept one, whose body may
                                   be packed. One reference is the caller's; NULL: there is none */
};

enum runner_result {
    RUNNER_DONE,
    RUNNER_REPLAYED,    /* an earlier run was: attempt.result.record says when */
    RUNNER_FINAL,       /* it failed, and would fail again */
    RUNNER_ENDED,       /* no attempt or no time is left: ended_by */
    RUNNER_FOUND,       /* an earlier run was done, as a probe found out now */
    RUNNER_STOPPED,     /* the gate was closed: no further attempt */
    RUNNER_HELD,        /* in doubt, and by its policy not run before that is settled */
    RUNNER_UNPROVED,    /* nothing was run: records are missing, and a probe did not find out, or
                           too soon, whether it was done before */
    RUNNER_MISMATCH,    /* the key was used for something else */
    RUNNER_IN_PROGRESS, /* elsewhere; attempt.result.lease_left_us */
    RUNNER_STORE_DOWN,  /* the store did not decide: nothing was begun */
    RUNNER_NOT_STORED,  /* the attempt has ended, its outcome is not stored, and the store may still
                           be writing it: neither may be given up before the process ends, and no
                           outcome is the caller's */
    RUNNER_LOST,        /* the same; the store has stopped for good */
};

/* Runs it. `*runner` is large: not for a fiber's stack. */
enum runner_result runner_run(struct runner *runner);

#endif
