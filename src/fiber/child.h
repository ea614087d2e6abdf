/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Children: other programs, started, fed, read and waited for, while the loop goes on.
 *
 * child_run is one call for all of it, in a fiber (a command runs it on a loop of its own, as
 * src/cli/keys/keys_probe.c does with its call). It returns once the child is reaped, and nothing
 * of it is left: no zombie, no descriptor.
 *
 *                deadline: TERM to the group        grace: KILL to the group
 *      RUNNING ---------------------------> ENDING ------------------------> KILLED
 *         |                                   |                                |
 *         |            the child exited       v                                |
 *         '-------------------------------> EXITED <---------------------------'
 *                                             | both streams ended, or the grace is over
 *                                             v
 *                                            OVER   (the rest of a group that timed out: KILL;
 * reaped)
 *
 * What the child gets: standard input, output and error as asked for, and of all other descriptors
 * only those that this process did not open itself (it opens all close-on-exec); default signal
 * handling, none blocked (a HUP, INT or QUIT that this process was started to ignore, as by nohup,
 * stays ignored); by default a process group of its own, so that a kill reaches its
 * children too, and the terminal's signals do not reach it. A reader of the terminal in such a
 * group is stopped.
 *
 * The start takes the calling thread for as long as the kernel needs to load the program.
 * Times are microseconds on the boot clock (base/clock.h). A process that gives CHILD_INPUT_BYTES
 * must ignore SIGPIPE.
 */
#ifndef PAWL_FIBER_CHILD_H
#define PAWL_FIBER_CHILD_H

#include "base/buf.h"
#include <sys/types.h>

enum child_input {
    CHILD_INPUT_NONE,    /* /dev/null */
    CHILD_INPUT_INHERIT, /* this process's */
    CHILD_INPUT_BYTES,   /* `bytes`, then the end; a child that does not read them is no error */
};

enum child_group {
    CHILD_GROUP_OWN,    /* it leads a process group of its own */
    CHILD_GROUP_SHARED, /* it is in this process's, and has its terminal; a kill reaches it alone */
    CHILD_GROUP_SESSION, /* it leads a session of its own, without a terminal, and a group */
};

enum child_stream { CHILD_OUTPUT, CHILD_ERROR };

/* Who gets what a child writes as it comes, in the calling fiber. The struct is the beginning of
 * the listener's own. */
struct child_listener {
    void (*hear)(struct child_listener *listener, enum child_stream stream, struct slice bytes);
    /* Whether it takes more now; the child's pipes fill meanwhile, and what they hold at its exit
     * comes all the same. It wakes the calling fiber once it does. */
    bool (*ask_room)(struct child_listener *listener);
};

/* All memory is the caller's, until the call returns. */
struct child_spec {
    const char *program;     /* looked for in PATH if it has no slash, else from `folder` on; NULL:
                                argv[0] */
    const char *const *argv; /* ends with NULL */
    const char *const *environment; /* ends with NULL; NULL: this process's */
    const char *folder;             /* to work in; NULL: this process's */
    enum child_input input;
    struct slice bytes;
    size_t output_max; /* bytes kept of each of output and error; what comes after is read, too,
                          and dropped. 0: both are the listener's or, without one, this process's
                        */
    struct child_listener *listener; /* gets both; NULL: nobody */
    enum child_group group;
    pid_t *pid; /* gets the child's process id while it runs, for signals from another fiber
                   (child_signal); 0 before and afterwards; NULL: not wanted */
    int64_t deadline_us; /* CLOCK_NEVER: none */
    int64_t grace_us;    /* from TERM to KILL; and from the child's exit to the end of its streams,
                            which children of its own may hold open */
};

struct child_output {
    struct buf bytes;
    bool truncated; /* there was or may be more: `output_max`, memory or the grace cut it off */
};

struct child_result {
    int exit_code;  /* -1: a signal ended it */
    int signal;     /* 0: it exited */
    bool timed_out; /* the deadline came first, whatever the child made of its TERM */
    struct child_output output;
    struct child_output error;
};
void child_result_fini(struct child_result *result);

/* Runs a child from its start to its end. An error's number (errno): none was started;
 * `*ret_problem` says why in a phrase (mem_free; NULL: no memory), with the system's words for the
 * error. 0: the result is the caller's, and is to be given to child_result_fini. */
int child_run(const struct child_spec *spec, struct child_result *ret_result, char **ret_problem);

/* Sends a signal to a child that runs, and to its group where it leads one. */
void child_signal(const struct child_spec *spec, int number);

/* From any thread: starts a child in a session of its own, which outlives this process and its
 * terminal, and is not waited for. Neither bytes for it nor from it, no deadline. */
bool child_spawn_detached(const struct child_spec *spec, char **ret_problem);

#endif
