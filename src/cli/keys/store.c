/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl store`: freezes a store, thaws it, and says how it is (operator/freeze.h). */
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

#define PLACE(member) FLAG_PLACE(struct store_options, member)
static const struct flag_place places[FLAG_COUNT] = {
    [FLAG_STORE] = PLACE(keys.store),
    [FLAG_JSON] = PLACE(keys.json),
    [FLAG_ACT_REASON] = PLACE(keys.reason),
    [FLAG_FREEZE_WAIT] = PLACE(wait_us),
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

static int show_store(struct keys_session *session, const struct store_options *options)
{
    struct freeze_view view;
    (void)options;
    int code = look_at_freeze(session, &view);
    return code == EXIT_DONE ? print_freeze_view(session, &view) : code;
}

/* ---- freeze, thaw ---- */

static int set(struct keys_session *session, bool frozen, bool *ret_changed)
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

static int freeze(struct keys_session *session, const struct store_options *options)
{
    struct freeze_view view = {0};
    bool changed;
    int code = set(session, true, &changed);
    if (code == EXIT_DONE)
        code = wait_until_quiet(session, clock_after(clock_boot_us(), options->wait_us), &view);
    if (code != EXIT_DONE)
        return code;
    if (!view.is_frozen)
        return command_failed(session->options->command, EXIT_TRY_AGAIN,
                              "somebody thawed the store meanwhile (see `pawl store audit`)");
    return is_quiet_view(&view) ? print_freeze_view(session, &view) : say_in_flight(session, &view);
}

static int thaw(struct keys_session *session, const struct store_options *options)
{
    bool changed;
    (void)options;
    int code = set(session, false, &changed);
    if (code == EXIT_DONE)
        puts(changed ? "the store is open again" : "the store was not frozen");
    return code;
}

static int (*const acts[COMMAND_COUNT])(struct keys_session *session,
                                        const struct store_options *options) = {
    [COMMAND_store_freeze] = freeze,
    [COMMAND_store_thaw] = thaw,
    [COMMAND_store_show] = show_store,
};

int command_store(enum command_id id, struct operands at)
{
    struct store_options options = {.keys = {.command = command_at(id)->name, .owns = true}};
    KEYS_SESSION_AUTO struct keys_session session = {0};
    int code = command_read(id, &at, places, &options);
    if (code == EXIT_DONE)
        code = keys_open(&session, &options.keys);
    return code == EXIT_DONE ? acts[id](&session, &options) : code;
}
