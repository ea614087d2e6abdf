/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl store`: freezes a store, thaws it, and says how it is (operator/freeze.h). */
#include "base/check.h"
#include "base/json/json.h"
#include "base/time/timestamp.h"
#include "cli/command/command.h"
#include "cli/keys/keys.h"
#include "cli/lib/actor.h"
#include "cli/lib/print.h"
#include "client/queue.h"
#include "operator/freeze.h"
#include "webhook/fanout.h"
#include "webhook/handler.h"
#include <stdio.h>
#include <time.h>

#define LOOK_NS 200000000L /* between two looks at what is in flight */

struct store_options {
    struct keys_options keys; /* first: what opens the store */
    int64_t wait_us;          /* 0: not; CLOCK_NEVER: for as long as it takes */
};

/* ---- how it is ---- */

static int look_at_freeze(struct keys_session *session, struct freeze_view *ret_view)
{
    return keys_complain(session, freeze_look(session->store, &session->parker.parker, ret_view));
}

static bool is_quiet_view(const struct freeze_view *view)
{
    return view->operations == 0 && view->deliveries == 0;
}

static void add_in_flight(struct buf *text, const struct freeze_view *view)
{
    buf_printf(text, "%zu operation%s and %zu deliver%s", view->operations,
               view->operations == 1 ? "" : "s", view->deliveries,
               view->deliveries == 1 ? "y" : "ies");
}

static void add_freeze_text(struct buf *text, const struct freeze_view *view)
{
    buf_add_str(text, view->is_frozen ? "frozen" : "open");
    if (view->since != 0) {
        buf_add_str(text, " since ");
        timestamp_print(text, view->since);
    }
    buf_add_str(text, ", in flight: ");
    add_in_flight(text, view);
    buf_add_char(text, '\n');
}

static void add_freeze_json(struct buf *text, const struct freeze_view *view)
{
    buf_add_char(text, '{');
    json_add_bool(text, "frozen", view->is_frozen);
    if (view->since == 0)
        json_add_null(text, "frozen_at");
    else
        json_add_time(text, "frozen_at", view->since);
    json_add_i64(text, "operations", (int64_t)view->operations);
    json_add_i64(text, "deliveries", (int64_t)view->deliveries);
    buf_add_str(text, "}\n");
}

static int print_freeze_view(const struct keys_session *session, const struct freeze_view *view)
{
    BUF_AUTO struct buf text = buf_make(SIZE_MAX);
    if (session->options->json)
        add_freeze_json(&text, view);
    else
        add_freeze_text(&text, view);
    return print_buf(session->options->command, &text);
}

static int show_store(void *given)
{
    struct keys_session *session = given;
    struct freeze_view view;
    int code = look_at_freeze(session, &view);
    return code == EXIT_DONE ? print_freeze_view(session, &view) : code;
}

/* ---- freeze, thaw ---- */

static int set_frozen(struct keys_session *session, bool frozen, bool *ret_changed)
{
    BUF_AUTO struct buf name = buf_make(STORE_ACTOR_MAX);
    const struct store_actor actor = actor_of(session->options->reason, &name);
    return keys_complain(
        session, freeze_set(session->store, &actor, frozen, &session->parker.parker, ret_changed));
}

static int say_in_flight(const struct keys_session *session, const struct freeze_view *view)
{
    BUF_AUTO struct buf text = buf_make(SIZE_MAX);
    add_in_flight(&text, view);
    return command_failed(session->options->command, EXIT_TRY_AGAIN,
                          "the store is frozen, but %.*s are still in flight; run it again, or "
                          "with --wait, until they have ended",
                          SLICE_ARG(buf_slice(&text)));
}

/* Until nothing is in flight, or the time is over. Somebody may thaw it meanwhile. */
static int wait_until_quiet(struct keys_session *session, int64_t until,
                            struct freeze_view *ret_view)
{
    int code = look_at_freeze(session, ret_view);
    while (code == EXIT_DONE && ret_view->is_frozen && !is_quiet_view(ret_view) &&
           clock_boot_us() < until) {
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
        code = look_at_freeze(session, ret_view);
    }
    return code;
}

static int freeze(void *given)
{
    struct keys_session *session = given;
    const struct store_options *options = (const struct store_options *)session->options;
    CHECK(options->wait_us >= 0);
    struct freeze_view view = {0};
    bool changed;
    int code = set_frozen(session, true, &changed);
    if (code == EXIT_DONE)
        code = wait_until_quiet(session, clock_after(clock_boot_us(), options->wait_us), &view);
    if (code != EXIT_DONE)
        return code;
    if (!view.is_frozen)
        return command_failed(session->options->command, EXIT_TRY_AGAIN,
                              "somebody thawed the store meanwhile (see `pawl store audit`)");
    return is_quiet_view(&view) ? print_freeze_view(session, &view) : say_in_flight(session, &view);
}

static int thaw(void *given)
{
    struct keys_session *session = given;
    bool changed;
    int code = set_frozen(session, false, &changed);
    if (code == EXIT_DONE)
        puts(changed ? "the store is open again" : "the store was not frozen");
    return code;
}

static int run_store(const struct command *command, struct operands at)
{
    struct store_options options = {.keys = {.command = command->name, .owns = true}};
    KEYS_SESSION_AUTO struct keys_session session = {0};
    int code = command_read(command, &at, &options);
    if (code == EXIT_DONE)
        code = keys_open(&session, &options.keys);
    return code == EXIT_DONE ? command->act(&session) : code;
}

/* ---- the rows ---- */

const struct command command_store = {
    .name = "store",
    .summary = "back a store up, freeze it, mark one that was restored",
    .synopsis = "SUBCOMMAND [OPTIONS]",
    .about = "Freezes and thaws a store, copies one and checks a copy, and marks one that was "
             "restored, or that lost what it had acknowledged in a failover.",
    .is_group = true,
};

#define OPTIONS struct store_options
const struct command command_store_freeze = {
    .name = "store freeze",
    .summary = "stop new operations in a store, until `pawl store thaw`",
    .synopsis = "[--wait[=D]] [--reason TEXT] [--json] [--store PATH]",
    .about = "Freezes a store. From then on no process begins, claims or adds anything in it: "
             "gateways refuse new operations, events and webhooks with 503, under `store_down: "
             "pass`, too; commands exit with 75; what is in the queue and in the outbox waits. "
             "What began before ends and is stored, and stored responses are replayed.\n\n"
             "Exit code 0 means that the store is frozen and nothing is in flight; with 75 it is "
             "frozen, and the command says what is not over yet. It may be run again. On "
             "PostgreSQL, transactions of applications that are open already are not counted: wait "
             "for them as well.",
    .flags = FLAGS(
        FLAG(wait_us, "wait", 0, "[=D]", SPAN(0, FOREVER),
             "wait until nothing is in flight, for D at most (default: for as long as it takes)"),
        FLAG_ACT_REASON(keys.reason), FLAG_JSON(keys.json), FLAG_STORE(keys.store)),
    .exits = {{EXIT_USAGE, NULL},
              {EXIT_UNAVAILABLE, "the store cannot be used"},
              {EXIT_TRY_AGAIN, "it is frozen, and something is still in flight"}},
    .run = run_store,
    .act = freeze,
};

const struct command command_store_thaw = {
    .name = "store thaw",
    .summary = "let operations begin again in a store",
    .synopsis = "[--reason TEXT] [--store PATH]",
    .about = "Ends what `pawl store freeze` began: gateways, commands and the queue go on within a "
             "second.",
    .flags = FLAGS(FLAG_ACT_REASON(keys.reason), FLAG_STORE(keys.store)),
    .exits = {{EXIT_USAGE, NULL}, {EXIT_UNAVAILABLE, "the store cannot be used"}},
    .run = run_store,
    .act = thaw,
};

const struct command command_store_show = {
    .name = "store show",
    .summary = "say whether a store is frozen, and what is in flight",
    .synopsis = "[--json] [--store PATH]",
    .about = "Prints whether the store is frozen, since when, and how many operations and "
             "deliveries are in flight: those that an owner runs or sends at this moment.",
    .flags = FLAGS(FLAG_JSON(keys.json), FLAG_STORE(keys.store)),
    .exits = {{EXIT_USAGE, NULL}, {EXIT_UNAVAILABLE, "the store cannot be used"}},
    .run = run_store,
    .act = show_store,
};
