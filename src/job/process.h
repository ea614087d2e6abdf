/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process: the executor of the runner that runs a command. It succeeds with exit code 0; what it
 * writes goes on as it comes, and is kept.
 *
 *      exit code            class                                  stored
 *      0                    done                                   complete, with its output
 *      among `final`        final                                  failed, with its output
 *      126, 127             final: it could not be run             released
 *      any other            tried again, as the profile says       released
 *      signal n: 128+n; time over: 124 (its group was killed)      the same
 *
 * In its environment are PAWL_KEY, PAWL_TOKEN, PAWL_ATTEMPT (acquisitions of the record, from 1)
 * and IDEMPOTENCY_KEY (the key again, for the calls that it makes).
 */
#ifndef PAWL_JOB_PROCESS_H
#define PAWL_JOB_PROCESS_H

#include "job/output.h"
#include "job/printer.h"
#include "runner/runner.h"

#define PROCESS_CODES 256
#define PROCESS_TIMED_OUT 124
#define PROCESS_NOT_RUN 126
#define PROCESS_NOT_FOUND 127
#define PROCESS_SIGNALLED 128

/* What all commands of a process have in common; borrowed. */
struct process_settings {
    struct printer *printer;   /* where what they write goes on to; NULL: nowhere */
    bool by_lines;             /* line by line, since others write there, too */
    bool final[PROCESS_CODES]; /* exit codes that are kept as failures */
    size_t keep_output;        /* bytes kept of each stream */
    enum child_group group;
    const char *probe; /* of `unknown: probe`: a command for `sh -c` */
};

/* In a fiber. Zeroed by the caller, who fills in its part before process_init. */
struct process {
    struct runner_executor executor; /* first: the two are cast into each other */
    struct child_listener listener;

    /* The caller's, borrowed. */
    const struct process_settings *settings;
    const char *const *argv;
    struct slice command; /* the same for people, kept with what it wrote; may be empty */
    struct slice key;
    enum child_input input;
    struct slice input_bytes;

    /* The last attempt's. */
    struct output output;
    int exit_code; /* 0 to 255 */
    int signal;    /* that ended it; 0: none */
    bool timed_out;
    char *problem; /* why it could not be run, in a phrase; NULL: it was */
    pid_t pid;     /* while it runs; else 0 */
    bool probed;   /* the last attempt was a probe */

    /* Its own. */
    struct child_spec spec;
    struct printer_waiter waiter;
    bool is_quiet;                   /* a probe: what it writes is only kept */
    struct buf line[OUTPUT_STREAMS]; /* by lines: the beginning of one */
    struct compress compress;
};

void process_init(struct process *process);
void process_fini(struct process *process);

/* Sends a signal to what runs, if anything does. */
void process_signal(struct process *process, int number);

#endif
