/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl webhook publish`. */
#include "cli/tasks/queue.h"
#include "webhook/event.h"
#include <stdio.h>

#define ARENA_MAX ((size_t)64 * 1024 * 1024)

static int report_published(const struct queue_session *session,
                            const struct webhook_published *published)
{
    if (published->end == WEBHOOK_MISMATCH)
        return command_failed(session->command, EXIT_BAD_DATA,
                              "%s was published with another type, tenant or other data",
                              published->id);
    puts(published->id);
    if (published->end == WEBHOOK_REPLAYED)
        fprintf(stderr, "pawl %s: it was published before\n", session->command);
    return EXIT_DONE;
}

int webhook_run_publish(struct queue_session *session)
{
    struct arena arena = arena_make(ARENA_MAX);
    struct webhook_published published;
    const char *problem;
    const struct webhook_event event = {.id = slice_of(session->event_id),
                                        .tenant = slice_of(session->tenant),
                                        .type = slice_of(session->operand),
                                        .time = slice_of(session->event_time),
                                        .data = slice_trim(buf_slice(&session->request.data))};
    bool good = webhook_event_check(&event, &arena, &problem);
    arena_fini(&arena);
    if (!good)
        return command_failed(session->command, EXIT_BAD_DATA, "the event %s", problem);
    int code = queue_open(session, STORE_COMMAND, true);
    if (code == EXIT_DONE)
        code = queue_complain(session, webhook_publish(session->store, &event, 1,
                                                       &session->parker.parker, &published));
    return code == EXIT_DONE ? report_published(session, &published) : code;
}
