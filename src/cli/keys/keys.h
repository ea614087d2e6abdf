/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pawl keys`: inspects a store and settles its records, while a gateway may be running on it.
 * What the parts of the command share: keys.c (command line, list, show, stats), keys_settle.c
 * (resolve, release, forget), keys_probe.c (resolve by a probe), keys_store.c (the store),
 * keys_print.c (output), keys_audit.c (the audit). What programs read, and the message of an
 * act, is operator/keys.h: the admin listener says the same.
 */
#ifndef PAWL_CLI_KEYS_H
#define PAWL_CLI_KEYS_H

#include "base/headers.h"
#include "cli/command/command.h"
#include "operator/keys.h"
#include <stdio.h>

/* What the options of all subcommands begin with. */
struct keys_options {
    const char *command; /* "keys list": for complaints */
    const char *store;   /* NULL: the default */
    bool owns;           /* a store of pawl's own, no file of an application's */
    bool counts_others;  /* processes that have it open */
    bool json;
    struct slice tenant; /* `.at` NULL: any */
    struct slice rule;
    struct slice key;
    struct slice once;
    struct slice reason; /* acts: why; may be empty */
};

/* resolve, release, forget */
struct keys_settle_options {
    struct keys_options keys;
    int64_t token;  /* 0: not given */
    bool unknown;   /* resolve, release: all of the rule in doubt, */
    int64_t before; /* last tried before this; 0: not given */
    bool force;
    bool released;      /* resolve */
    bool probe;         /* resolve */
    const char *config; /* resolve --probe; NULL: not given */
    int http_status;    /* resolve; 0: not given */
    int exit_code;      /* resolve: of a command; -1: not given */
    const char *body;   /* resolve: @FILE or text; NULL: none */
    struct headers headers;
};

#define KEYS_LIMIT_DEFAULT 1000

/* Flags, and ends of commands. */
#define FLAG_TENANT(member)                                                                        \
    FLAG(member, "tenant", 0, "T", ANY,                                                            \
         "only records of this tenant, or of the tenant with this tenant_hash in the log (\"\": "  \
         "no tenant)")
#define FLAG_RULE(member) FLAG(member, "rule", 0, "R", ANY, "only records of this rule")
#define WHICH_FLAGS                                                                                \
    FLAG_TENANT(keys.tenant), FLAG_RULE(keys.rule),                                                \
        FLAG(keys.once, "once", 0, "VALUE", ANY,                                                   \
             "only records with this once value, as the log shows it or as the client sent it")
#define WHICH_ONE " If several records match, --tenant and --rule select one."
#define WHICH_RECORD EXIT_USAGE, "usage, or several records match"

/* ---- keys.c ---- */

/* Runs a command of the room: reads its options, which begin with struct keys_options, and acts on
 * them. */
command_fn keys_run;

/* ---- keys_store.c ---- */

/* An open store, and the parker that waits on it, which must outlive every wake. */
struct keys_session {
    const struct keys_options *options;
    struct store *store;
    struct thread_parker parker;
};
#define KEYS_SESSION_AUTO __attribute__((cleanup(keys_close)))

/* Opens the store, which must exist. An exit code; anything but 0 was explained. */
int keys_open(struct keys_session *session, const struct keys_options *options);

/* Accepts a session that is all zero, or whose keys_open failed. */
void keys_close(struct keys_session *session);

/* An exit code; anything but 0 it explains. */
int keys_complain(const struct keys_session *session, enum store_status status);

/* Lists the records that fit the options, and of `wanted` what else is said there. An exit code;
 * what went wrong was said. */
int keys_collect(struct keys_session *session, struct keys_wanted wanted,
                 struct keys_found *ret_found);

/* Opens the store and finds the one record that the options name. None: 1. Several: they are
 * listed, 2. */
int keys_open_one(struct keys_session *session, const struct keys_options *options,
                  struct keys_found *found, struct keys_row **ret_row);

/* ---- keys_print.c ---- */

/* A table with a line of headings. */
void keys_print_table(FILE *to, const struct keys_found *found, int64_t now);

/* Appends all of one record, a line for each fact. */
void keys_print_record(struct buf *to, const struct keys_view *view);

/* `rule "key" of tenant "tenant"`, for a sentence. */
void keys_add_name(struct buf *buf, const struct store_row *row);

/* ---- keys_settle.c ---- */

/* Says that nothing was done to a record, and why: `end` is the exit code's reason. One line,
 * `RULE "KEY": WHAT`, on stderr, or on stdout where the code is 0; or as JSON. Returns the code. */
int keys_say(struct keys_session *session, const struct keys_row *row, enum keys_end end,
             const char *what);

/* Acts on a record of an open session, under the name of who runs the command, and says what came
 * of it, as keys_say does. */
int keys_settle(struct keys_session *session, const struct keys_row *row, struct keys_act act);

/* ---- keys_probe.c ---- */

/* `keys resolve --probe`: probes the upstream, and settles the record by its response. */
int keys_probe(const struct keys_settle_options *options);

#endif
