/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job: a command under a key: its record, and the runner that runs it (runner/runner.h) by
 * job/process.h. Records have no tenant; their rule is `job`, or the name that was given. What is
 * compared is the command line (or a payload, or nothing); the working folder and the environment
 * are not (contract section 7, Jobs).
 */
#ifndef PAWL_JOB_JOB_H
#define PAWL_JOB_JOB_H

#include "job/process.h"

#define JOB_RULE "job"
#define JOB_LEASE_US (INT64_C(15) * CLOCK_US_PER_S) /* the process renews it (store/store.h) */

/* What all jobs of a process have in common; borrowed. */
struct job_settings {
    struct process_settings process;
    struct engine *engine;
    struct runner_gate *gate; /* NULL: none */
    struct slice rule;
    struct slice client;        /* host_write */
    enum retry_profile profile; /* RETRY_PROFILE_COUNT: one attempt */
    enum record_unknown unknown;
    int64_t ttl_us;
    bool is_window; /* which counts from the first begin */
    int64_t wait_us;
    int64_t timeout_us; /* for an attempt; CLOCK_NEVER: none */
};

/* What is compared: the arguments. */
struct digest job_payload_of(const char *const *argv);

/* Large: not for a fiber's stack. Zeroed. */
struct job {
    struct runner runner;
    struct process process; /* the caller fills in argv, key and input */
    struct buf origin;
    struct buf command; /* the command line, for people */
};

/* What all runners of such jobs have in common, whatever their executor; `*runner` is zeroed. */
void job_fill_runner(struct runner *runner, const struct job_settings *settings);

/* Makes the runner ready, once the command's part is filled in; `payload` as of job_payload_of, all
 * zero: nothing is compared. False: no memory. */
bool job_prepare(struct job *job, const struct job_settings *settings, struct digest payload);

/* Gives its memory back, but the runner's outcome. */
void job_fini(struct job *job);

/* The exit code of a run that has ended so, as `pawl run` returns it. */
int job_exit_code(const struct job *job, enum runner_result result);

/* A parker around a fiber's, whose waits for other attempts end once the gate is closed (and the
 * fiber woken). */
struct job_parker {
    struct parker parker; /* first: the two are cast into each other */
    const struct runner_gate *gate;
};
void job_parker_init(struct job_parker *parker, struct parker *fiber,
                     const struct runner_gate *gate);

/* Adds to the counters of the store (TALLY_JOB_SKIPPED, TALLY_JOB_DOUBT), in a commit of its own.
 * What fails is not counted. */
void job_count(struct store *store, enum tally_event event, int64_t n, struct parker *parker);

#endif
