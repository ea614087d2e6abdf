/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl inbox remove`: a source that no config has any more. */
#include "cli/lib/print.h"
#include "cli/tasks/queue.h"
#include "operator/sources.h"
#include <stdio.h>

static int report_removed(const struct queue_session *session, enum sources_end end)
{
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

int inbox_run_remove(struct queue_session *session)
{
    const struct store_actor actor = queue_actor(session);
    enum sources_end end = SOURCES_NOT_FOUND;
    int code = queue_open(session, STORE_COMMAND, false);
    if (code == EXIT_DONE)
        code = queue_complain(session, sources_remove(session->store, &session->parker.parker,
                                                      slice_of(session->operand), &actor, &end));
    return code == EXIT_DONE ? report_removed(session, end) : code;
}
