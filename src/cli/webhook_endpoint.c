/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl webhook endpoint`: which ones are disabled, or fail; enabling and disabling one. */
#include "base/json.h"
#include "base/timestamp.h"
#include "cli/print.h"
#include "cli/queue.h"
#include "webhook/state.h"
#include <stdio.h>

#define ARENA_MAX ((size_t)16 * 1024 * 1024)

static void add_json(struct buf *text, const struct store_endpoint *state)
{
    buf_add_char(text, '{');
    json_add_text(text, "name", state->name);
    json_add_bool(text, "enabled", !state->is_disabled);
    json_add_known_text(text, "reason", state->why);
    json_add_time(text, "failing_since", state->failing_since);
    json_add_time(text, "changed_at", state->changed_at);
    buf_add_str(text, "}\n");
}

static void add_line(struct buf *text, const struct store_endpoint *state)
{
    print_escaped(text, state->name);
    buf_add_str(text, state->is_disabled ? "  disabled" : "  enabled");
    if (state->is_disabled && state->why.len > 0) {
        buf_add_str(text, ": ");
        print_escaped(text, state->why);
    }
    if (state->failing_since != 0) {
        buf_add_str(text, "; fails since ");
        (void)timestamp_print(text, state->failing_since);
    }
    buf_add_char(text, '\n');
}

static int list(struct queue_session *session)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    BUF_AUTO struct buf text = buf_make(SIZE_MAX);
    struct store_found found = {.arena = &arena};
    int code =
        queue_complain(session, webhook_states(session->store, &session->parker.parker, &found));
    for (size_t i = 0; i < found.n && code == EXIT_DONE; i++) {
        const struct store_endpoint *state = (const struct store_endpoint *)found.rows[i];
        if (session->json)
            add_json(&text, state);
        else if (state->is_disabled || state->failing_since != 0)
            add_line(&text, state);
    }
    if (code == EXIT_DONE && !buf_ok(&text))
        return command_failed(session->command, EXIT_UNAVAILABLE, "out of memory");
    fwrite(text.at, 1, text.len, stdout);
    return code;
}

static int set(struct queue_session *session, bool disabled)
{
    BUF_AUTO struct buf name = buf_make(SIZE_MAX);
    bool changed = false;
    struct slice endpoint = slice_of(session->operands.at[1]);
    int code = queue_complain(session, webhook_state_set(session->store, &session->parker.parker,
                                                         endpoint, disabled, &changed));
    if (code != EXIT_DONE)
        return code;
    print_escaped(&name, endpoint);
    printf("endpoint %.*s is %s%s\n", SLICE_ARG(buf_slice(&name)), changed ? "" : "already ",
           disabled ? "disabled" : "enabled");
    return EXIT_DONE;
}

int webhook_run_endpoint(struct queue_session *session)
{
    ptrdiff_t act = slice_item(SLICE("list|enable|disable"), '|', slice_of(session->operand));
    if (act < 0)
        return command_misused(session->command, "wants list, enable or disable, not `%s`",
                               session->operand);
    if ((act == 0) != (session->operands.n == 1))
        return command_misused(session->command,
                               act == 0 ? "`list` takes no name" : "needs the name of an endpoint");
    int code = queue_open(session, STORE_COMMAND, false);
    if (code != EXIT_DONE)
        return code;
    return act == 0 ? list(session) : set(session, act == 2);
}
