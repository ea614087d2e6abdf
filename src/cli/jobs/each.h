/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pawl each`: what its parts share. each.c: command line, run, progress, exit code;
 * each_items.c: from an item to its key, group and texts; each_command.c: a command for each item;
 * each_send.c: a request; each_report.c: what is written of each.
 */
#ifndef PAWL_CLI_EACH_H
#define PAWL_CLI_EACH_H

#include "cli/jobs/jobs.h"
#include "cli/lib/request.h"
#include "http/call/origins.h"
#include "job/each.h"
#include <stdio.h>

#define EACH_NAME "each"

/* Of a request: which text is what. */
enum { EACH_URL, EACH_BODY, EACH_HEADERS /* one for each */ };

/* A text that is filled in from an item. */
struct each_text {
    struct template template;
    enum template_filling filling;
};

/* How an item was run. */
struct each_how {
    int code;              /* exit code; of a request 0 or 1 */
    int signal;            /* that ended it; 0: none */
    const char *problem;   /* NULL: the code says it */
    int http_status;       /* 0: none */
    int64_t attempts;      /* now; 0: it was not run */
    enum jobs_clash clash; /* EACH_CHANGED */
    int64_t token;         /* of its record */
    struct slice said;     /* the beginning of what a request got */
    bool timed_out;
    bool is_out_of_budget; /* it would be tried again, but for the budget for retries */
};

/* Large: not for the stack. */
struct each_session {
    struct jobs_options options;
    const char *input;
    const char *group;
    const char *joblog_path;
    const char *failed_path;
    const char *payload;
    bool nul, csv, jsonl;
    size_t n_jobs;
    int64_t apart_us; /* of --rate */
    bool keeps_going;
    bool fails_fast;
    bool is_dry;
    bool json;
    bool silent;

    /* --send: */
    struct request_options request; /* its URL and body are `texts` */
    const char *send;               /* NULL: commands are run */
    const char *body;               /* NULL: none */
    int64_t max_time_us;
    int64_t connect_us;

    /* Once the command line was read: */
    struct template group_template;
    struct each_text *texts; /* of an item: the arguments of its command; URL, body, headers */
    size_t n_texts;
    struct template_facts facts;
    struct payload payload_of; /* of `facts` */
    struct printer *printer;
    struct printer_waiter waiter; /* the feeder */
    void (*how)(const struct each_end *end, struct each_how *ret_how);
    uint64_t said[EACH_RESULTS]; /* complaints */
    bool has_waited;             /* which was said */
    FILE *joblog;
    FILE *failed;
    uint64_t input_size; /* bytes; 0: not known */
    int64_t started_at;  /* boot time */
    struct each each;
    bool has_ended;
    struct parker *ender; /* waits for that */
    int signals;          /* that asked it to stop */
    struct http_origins *origins;
    struct loop *loop; /* has ended; freed once no thread is left that wakes its fibers */
};

/* ---- each_items.c ---- */

/* Compiles what items are made of. An exit code; anything but 0 was explained. */
int each_compile(struct each_session *session, const char *const *words, size_t n);

/* The columns that templates name. See struct each_kind. */
bool each_check(void *argument, const struct items *items, struct buf *problem);

/* Key, group and texts of an item, all in `scratch`; its hashes are the kind's. False: `problem`
 * says why not, or is empty without memory. */
bool each_fill(struct each_session *session, const struct item *read, struct arena *scratch,
               struct each_item *ret_item, struct buf *problem);

/* ---- each_command.c, each_send.c ---- */

extern const struct each_kind each_of_commands, each_of_requests;

void each_command_how(const struct each_end *end, struct each_how *ret_how);
void each_request_how(const struct each_end *end, struct each_how *ret_how);

/* Compiles `METHOD URL` and the body, and reads what the requests have in common. An exit code. */
int each_prepare_send(struct each_session *session);

/* ---- each_report.c ---- */

int each_open_files(struct each_session *session);

/* Empties them: the run begins. Until then they hold what the one before wrote. */
void each_begin_files(const struct each_session *session);

/* False: what was written to one of them may be lost, which was said. */
bool each_close_files(struct each_session *session);

/* See struct each_kind. */
void each_report(void *argument, const struct each_end *end);
bool each_report_ask_room(void *argument, struct parker *parker);
void each_report_waits(void *argument, size_t n);

/* The last line. */
void each_sum_up(struct each_session *session);

/* The status line: a bar, how fast, and how long it will take. */
void each_show_progress(struct each_session *session);

#endif
