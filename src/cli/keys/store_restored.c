/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl store restored`: an operator says that a store lacks what it had acknowledged. */
#include "base/check.h"
#include "base/time/timestamp.h"
#include "cli/command/command.h"
#include "cli/keys/keys.h"
#include "cli/lib/actor.h"
#include "operator/restored.h"
#include <inttypes.h>
#include <stdio.h>

#define AHEAD_MOST_US (INT64_C(365) * 86400 * CLOCK_US_PER_S) /* of tokens, of the clock */

struct restored_options {
    struct keys_options keys; /* first: what opens the store */
    int64_t since;
    int64_t until;
    int64_t above;
    bool live;
    bool clear;
};

static int check_options(const struct restored_options *options)
{
    const char *command = options->keys.command;
    bool marks = options->until || options->above;
    if (options->clear ? options->since || marks : !options->since)
        return command_misused(command, "needs --since T, or --clear alone");
    if (options->until && options->until <= options->since)
        return command_misused(command, "--until is not after --since");
    return EXIT_DONE;
}

/* By the store's time. */
static int check_times(const struct restored_options *options, int64_t now)
{
    const char *command = options->keys.command;
    if (options->since > now)
        return command_misused(command, "--since is in the future");
    if (options->until && options->until <= now)
        return command_misused(command, "--until is over already");
    if (options->above > now + AHEAD_MOST_US)
        return command_misused(command, "--above %" PRId64 " is no token of this store: too large",
                               options->above);
    return EXIT_DONE;
}

static int check_others(const struct keys_session *session, const struct restored_options *options)
{
    size_t others = store_others(session->store);
    if (others == 0 || options->live)
        return EXIT_DONE;
    return command_failed(options->keys.command, EXIT_TRY_AGAIN,
                          "gateways or other processes of pawl have the store open (%zu); stop "
                          "them first, or use --live if it went back under them",
                          others);
}

static void report_restored(const struct restored_options *options)
{
    BUF_AUTO struct buf text = buf_make(SIZE_MAX);
    if (options->clear) {
        puts("the store is not marked as restored any more");
        return;
    }
    buf_add_str(&text, "the store is marked: what was acknowledged since ");
    (void)timestamp_print(&text, options->since);
    buf_add_str(&text, " may be missing");
    if (options->until)
        buf_add_str(&text, "; the mark ends at ");
    if (options->until)
        (void)timestamp_print(&text, options->until);
    buf_add_char(&text, '\n');
    fwrite(text.at, 1, text.len, stdout);
}

static int mark_restored(struct keys_session *session, const struct restored_options *options)
{
    CHECK(options->clear == (options->since == 0));
    CHECK(!options->until || options->until > options->since);
    BUF_AUTO struct buf name = buf_make(STORE_ACTOR_MAX);
    const struct store_actor actor = actor_of(options->keys.reason, &name);
    const struct restored_mark mark = {options->since, options->until, options->above};
    bool changed;
    int code = keys_complain(
        session, restored_set(session->store, &actor, &mark, &session->parker.parker, &changed));
    if (code == EXIT_DONE && !changed)
        return command_failed(options->keys.command, EXIT_FINAL_ERROR,
                              "the store went back, and nobody has said since when; use --since");
    if (code == EXIT_DONE)
        report_restored(options);
    return code;
}

static int run_restored(const struct command *command, struct operands at)
{
    struct restored_options options = {
        .keys = {.command = command->name, .owns = true, .counts_others = true}};
    KEYS_SESSION_AUTO struct keys_session session = {0};
    int code = command_read(command, &at, &options);
    if (code == EXIT_DONE)
        code = check_options(&options);
    if (code == EXIT_DONE)
        code = keys_open(&session, &options.keys);
    if (code == EXIT_DONE)
        code = check_times(&options, store_now(session.store));
    if (code == EXIT_DONE)
        code = check_others(&session, &options);
    return code == EXIT_DONE ? mark_restored(&session, &options) : code;
}

/* ---- the row ---- */

#define OPTIONS struct restored_options
const struct command command_store_restored = {
    .name = "store restored",
    .summary = "say that a store lacks what it had acknowledged since some time",
    .synopsis = "--since T [--until U] [--above N] [--live] [--reason TEXT] [--store PATH]\n"
                "--clear [--reason TEXT] [--store PATH]",
    .about = "Marks a store in whose place a backup was put, or that lost what it had acknowledged "
             "in a failover. Run it after the restore and before the first gateway starts. Where a "
             "gateway noticed itself that the store went back, nothing begins in it until this "
             "command is run; the gateway's log has the whole line.\n\n"
             "The mark says since when operations may be missing, and opens the store again. With "
             "--above no token at or below N is given out again. --clear takes the mark back. Each "
             "of these is written into the audit of the store.",
    .flags =
        FLAGS(FLAG(since, "since", 0, "T", TIME,
                   "what was acknowledged at T (2026-01-31T12:00:00Z) or later may be missing"),
              FLAG(until, "until", 0, "U", TIME,
                   "when the mark ends (default: when no rule can miss anything any more)"),
              FLAG(above, "above", 0, "N", INT(1, KEYS_TOKEN_MOST),
                   "the highest token that is known; those given out from now on are above it"),
              SWITCH(live, "live", 0, "go on even though gateways have the store open"),
              SWITCH(clear, "clear", 0, "take the mark back"), FLAG_ACT_REASON(keys.reason),
              FLAG_STORE(keys.store)),
    .exits = {{EXIT_FINAL_ERROR, "--clear would open a store that went back"},
              {EXIT_USAGE, NULL},
              {EXIT_UNAVAILABLE, "the store cannot be used"},
              {EXIT_TRY_AGAIN, "processes of pawl have the store open (see --live)"}},
    .run = run_restored,
};
