/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl inbox remove`: a source that no config has any more. */
#include "base/check.h"
#include "cli/lib/print.h"
#include "cli/tasks/queue.h"
#include "operator/sources.h"
#include <stdio.h>

static int report_removed(const struct queue_session *session, enum sources_end end)
{
    CHECK(session->operand);
    BUF_AUTO struct buf name = buf_make(SIZE_MAX);
    print_escaped(&name, slice_of(session->operand));
    struct slice shown = buf_slice(&name);
    switch (end) {
    case SOURCES_REMOVED:
    case SOURCES_ALREADY:
        printf("source %.*s is %sremoved\n", SLICE_ARG(shown),
               end == SOURCES_REMOVED ? "" : "already ");
        return EXIT_DONE;
    case SOURCES_NOT_FOUND:
        return command_failed(session->command, EXIT_FINAL_ERROR,
                              "the store knows no source `%.*s`; it knows those of a config from "
                              "the first `pawl serve` on",
                              SLICE_ARG(shown));
    case SOURCES_SERVED:
        return command_failed(session->command, EXIT_BAD_DATA,
                              "`%.*s` is a source of a config that is in force; nothing was "
                              "changed (take it out of the config of every `pawl serve` first)",
                              SLICE_ARG(shown));
    }
    return EXIT_UNAVAILABLE;
}

static int end_source(void *given)
{
    struct queue_session *session = given;
    const struct store_actor actor = queue_actor(session);
    enum sources_end end = SOURCES_NOT_FOUND;
    int code = queue_open(session, STORE_COMMAND, false);
    if (code == EXIT_DONE)
        code = queue_complain(session, sources_remove(session->store, &session->parker.parker,
                                                      slice_of(session->operand), &actor, &end));
    return code == EXIT_DONE ? report_removed(session, end) : code;
}

/* ---- the rows ---- */

const struct command command_inbox = {
    .name = "inbox",
    .summary = "see the events that were received, and have them handled again",
    .synopsis = "SUBCOMMAND [OPTIONS]",
    .about = "Shows the events that the sources of `inbox:` have sent, and what became of their "
             "handling.",
    .is_group = true,
};

#define OPTIONS struct queue_session
const struct command command_inbox_remove = {
    .name = "inbox remove",
    .summary = "end what waits of a source that no config has any more",
    .synopsis = "SOURCE",
    .about = "What waits of the source is dead once it is next due, without waiting for "
             "`roster_gone`; `pawl inbox replay` has it handled after all once a running `pawl "
             "serve` has the source again. SOURCE is what its events are stored under: `source`, "
             "or else its name. One that a running `pawl serve` has in its config is not removed.",
    .operand = "SOURCE",
    .operands = {1, 1},
    .flags = FLAGS(FLAG_ACT_REASON(reason), FLAG_STORE(store_path)),
    .exits = {{EXIT_FINAL_ERROR, "there is no such source"},
              {EXIT_USAGE, NULL},
              {EXIT_BAD_DATA, "a running `pawl serve` has it in its config"},
              {NO_STORE}},
    ACTS(queue_run, end_source),
};
