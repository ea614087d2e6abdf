/* SPDX-License-Identifier: Apache-2.0 */
/* What `pawl run` and `pawl each` have in common: their flags, the key, the store. */
#ifndef PAWL_CLI_JOBS_H
#define PAWL_CLI_JOBS_H

#include "cli/command/command.h"
#include "core/template/template.h"
#include "job/job.h"

/* A member of the options of a command; zeroed. Large: not for the stack. */
struct jobs_options {
    const char *command; /* "run": for complaints */
    const char *store_path;
    const char *key;
    const char *name;
    const char *at;
    bool ignores_payload;
    struct job_settings job;
    int64_t ttl_us; /* 0: not given */

    /* Once the flags were read: */
    struct arena arena;
    struct template key_template;
    struct zones zones;
    int64_t instant_us; /* of the sources of time: --at, or now */
    struct buf client;
    struct store *store;
};

void jobs_init(struct jobs_options *options, const char *command);

/* Readers of flags, of a struct jobs_options. */
int jobs_take_unknown(void *jobs_options, const char *text);
int jobs_take_final(void *jobs_options, const char *text);
int jobs_take_keep(void *jobs_options, const char *text);

/* Flags that both have; `of`: the member of OPTIONS that takes them. */
#define FLAG_RETRY(of)                                                                             \
    FLAG(of.job.profile, "retry", 0, "PROFILE", PROFILE,                                           \
         "try again after a failure, by this profile (see `pawl backoff`; default: one attempt)")
#define END_FLAGS(of)                                                                              \
    FLAG_BY(of, jobs_take_final, "final", 0, "CODES", ANY,                                         \
            "exit codes after which trying again is useless, such as 2,64-78, or all: the "        \
            "failure is stored and replayed (default: none)"),                                     \
        FLAG(of.job.timeout_us, "timeout", 0, "D", SPAN(1, FOREVER),                               \
             "kill an attempt of CMD after D, with all that it started")
#define FLAG_KEEP_OUTPUT(of)                                                                       \
    FLAG_BY(of, jobs_take_keep, "keep-output", 0, "SIZE", ANY,                                     \
            "keep at most SIZE of standard output, and of standard error (default 1MiB)")
#define NAME_FLAGS(of)                                                                             \
    FLAG(of.name, "name", 0, "NAME", ANY,                                                          \
         "jobs of different names never share a key (default job)"),                               \
        FLAG(of.at, "at", 0, "TIME", ANY,                                                          \
             "make the key as at TIME, 2026-02-19T22:00:00-05:00 (default: now)")

/* Compiles the key, reads the zones it names and the time it is made of. An exit code; anything but
 * 0 was explained. */
int jobs_prepare(struct jobs_options *options, enum template_use use);

/* Reads the time zones that a template names; all there are, where an item names one. An exit code.
 */
int jobs_read_zones(struct jobs_options *options, const struct template *template);

/* The environment variables that a template names are set, and in a key not empty. An exit code.
 * `what`: the template, for the complaint. */
int jobs_check_variables(const struct jobs_options *options, const struct template *template,
                         const char *what);

/* Makes the key from what is known; `facts` is completed. An exit code; the explanation goes to
 * `problem`. */
int jobs_make_key(const struct jobs_options *options, struct template_facts *facts,
                  struct arena *arena, struct slice *ret_key, struct buf *problem);

/* Opens the store. An exit code. */
int jobs_open(struct jobs_options *options);

/* Closes it, and frees what is its own. While the store may still write, as after
 * RUNNER_NOT_STORED, it is not called. */
void jobs_close(struct jobs_options *options);

/* Prints `pawl: what` to stderr: what the command says itself begins otherwise. Returns `code`. */
int jobs_say(enum exit_code code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Appends that an attempt has timed out. */
void jobs_add_timeout(const struct jobs_options *options, struct buf *buf);

/* Appends a command for the record of a key, as a shell reads it: `pawl keys show --rule job KEY`.
 * `verb`: what stands behind `pawl keys`; `key.at` NULL: none. */
void jobs_add_keys_command(const struct jobs_options *options, const char *verb, struct slice key,
                           struct buf *buf);

/* Appends the two commands that settle a job in doubt, each on a line of pawl's. */
void jobs_add_settling(const struct jobs_options *options, struct slice key, int64_t token,
                       struct buf *buf);

/* What a key is in use for, whose hashes differ. */
enum jobs_clash { JOBS_IN_USE, JOBS_IN_DOUBT, JOBS_DONE };
enum jobs_clash jobs_clash_of(const struct store_result *result);

/* Writes kept output to the printer, and says on stderr where it was cut off. False: it is
 * damaged. */
bool jobs_print_kept(struct printer *printer, struct outcome *outcome);

#endif
