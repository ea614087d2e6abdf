/* SPDX-License-Identifier: Apache-2.0 */
/* What an operator does to lists of the queue, and to their steps and undos. */
#include "cli/tasks/queue_lists.h"

#include "base/check.h"
#include "cli/lib/print.h"
#include <stdio.h>

static const char *noun_of(const struct queue_session *session)
{
    return session->lists ? "list" : "operation";
}

/* What people may do in a list that is so. */
static const char *hint_of(enum steps_state state)
{
    switch (state) {
    case STEPS_RUNNING:
        return "only steps that have not begun can be edited, and the whole list dropped (--list)";
    case STEPS_UNDOING:
    case STEPS_PARKED:
        return "only what parked a list can be touched, and in one that is being undone its undos";
    default:
        return "it is over";
    }
}

static int refuse_list_act(const struct queue_session *session,
                           const struct queue_steps_acted *acted)
{
    const char *noun = noun_of(session);
    long long id = session->lists ? (long long)acted->list : (long long)session->id;
    switch (acted->answer) {
    case STEPS_IN_SENDING:
        return command_failed(session->command, EXIT_TRY_AGAIN,
                              session->lists
                                  ? "a step or an undo of %s %lld is being sent; nothing "
                                    "was changed"
                                  : "%s %lld is being sent; nothing was changed",
                              noun, id);
    case STEPS_IN_DOUBT:
        return command_failed(
            session->command, EXIT_OUTCOME_UNKNOWN,
            "an attempt of %s %lld may have taken effect, and nothing was changed; "
            "look there, then `pawl queue settle` that step, or use --force",
            noun, id);
    case STEPS_UNMADE:
        return command_failed(
            session->command, EXIT_FINAL_ERROR,
            "there is nothing to send for %s %lld, as its step's response does "
            "not fill it in: give it by `pawl queue edit %lld --url URL`, or drop "
            "it",
            noun, id, id);
    default:
        break;
    }
    BUF_AUTO struct buf of = buf_make(SIZE_MAX);
    if (!session->lists)
        buf_printf(&of, "operation %lld is a step of ", id);
    buf_printf(&of, "list %lld", (long long)acted->list);
    return command_failed(session->command, EXIT_FINAL_ERROR,
                          "%.*s%s is %.*s: %s; nothing was changed", SLICE_ARG(buf_slice(&of)),
                          session->lists ? "" : ", which",
                          SLICE_ARG(steps_state_name(acted->before)), hint_of(acted->before));
}

int queue_lists_report(const struct queue_session *session, enum store_status status,
                       const struct queue_steps_acted *acted, const char *done)
{
    int code = queue_complain(session, status);
    if (code != EXIT_DONE)
        return code;
    if (acted->end == QUEUE_STEPS_NONE)
        return command_failed(session->command, EXIT_FINAL_ERROR,
                              session->lists ? "there is no list %s"
                                             : "operation %s is in no list, or is not there",
                              session->lists ? session->lists : session->operand);
    if (acted->end == QUEUE_STEPS_REFUSED)
        return refuse_list_act(session, acted);
    if (!session->lists)
        printf("operation %lld %s; ", (long long)session->id, done);
    printf("list %lld is %.*s\n", (long long)acted->list,
           SLICE_ARG(steps_state_name(acted->after)));
    return EXIT_DONE;
}

enum store_status queue_lists_try(struct queue_session *session, struct queue_steps_wish *wish,
                                  struct queue_steps_acted *ret_acted)
{
    CHECK(session->id > 0 && wish->id == 0);
    wish->id = session->id;
    wish->actor = queue_actor(session);
    return queue_steps_act(session->store, wish, &session->parker.parker, ret_acted);
}

static int act_on_list(struct queue_session *session, struct queue_steps_wish *wish,
                       const char *done)
{
    struct queue_steps_acted acted = {0};
    enum store_status status = queue_lists_try(session, wish, &acted);
    return queue_lists_report(session, status, &acted, done);
}

int queue_lists_act(struct queue_session *session, enum steps_act wanted, const char *done)
{
    struct queue_steps_wish wish = {.act = wanted};
    return act_on_list(session, &wish, done);
}

int queue_lists_edit(struct queue_session *session, const struct queue_operation *operation)
{
    struct queue_steps_wish wish = {.act = STEPS_EDIT, .operation = operation};
    return act_on_list(session, &wish, "is another one now, under a key of its own");
}

int queue_lists_drop(struct queue_session *session, bool keep)
{
    CHECK(session->lists && session->operands.n == 0);
    struct queue_steps_acted acted = {0};
    int code = queue_open(session, STORE_COMMAND, false);
    if (code != EXIT_DONE)
        return code;
    const struct queue_steps_drop wish = {slice_of(session->lists), keep, queue_actor(session)};
    enum store_status status =
        queue_steps_drop(session->store, &wish, &session->parker.parker, &acted);
    return queue_lists_report(session, status, &acted, "");
}
