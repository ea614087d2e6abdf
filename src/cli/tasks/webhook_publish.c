/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl webhook publish`. */
#include "base/check.h"
#include "cli/lib/request.h"
#include "cli/tasks/queue.h"
#include "webhook/event.h"
#include <stdio.h>

#define ARENA_MAX ((size_t)64 * 1024 * 1024)

struct publish_options {
    struct queue_session session;
    struct request_options request; /* its data */
    const char *event_id;           /* NULL: one is minted */
    const char *tenant;             /* NULL: none */
    const char *event_time;         /* NULL: now */
};

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

static int publish_event(void *given)
{
    struct publish_options *options = given;
    struct queue_session *session = &options->session;
    CHECK(session->operand && options->request.data.max > 0);
    struct arena arena = arena_make(ARENA_MAX);
    struct webhook_published published;
    const char *problem;
    const struct webhook_event event = {.id = slice_of(options->event_id),
                                        .tenant = slice_of(options->tenant),
                                        .type = slice_of(session->operand),
                                        .time = slice_of(options->event_time),
                                        .data = slice_trim(buf_slice(&options->request.data))};
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

static void forget_published_request(void *given)
{
    request_options_fini(&((struct publish_options *)given)->request);
}

/* ---- the row ---- */

#define OPTIONS struct publish_options
const struct command command_webhook_publish = {
    .name = "webhook publish",
    .summary = "publish an event, which `pawl serve` sends to the endpoints",
    .synopsis = "TYPE [-d DATA] [--id ID] [--tenant T] [--time TIME]",
    .about = "Publishes an event of a type such as refund.created, with JSON as its data, and "
             "prints its id. It is on disk then, and a `pawl serve` on the same store delivers it. "
             "The same id again, with the same type, tenant and data, is the same event.",
    .operand = "TYPE",
    .operands = {1, 1},
    .flags = FLAGS(
        FLAG_BY(request, request_take_data, "data", 'd', "DATA", ANY,
                "the event's data, JSON; @FILE reads it from a file, @- from standard input "
                "(default: null)"),
        FLAG(event_id, "id", 0, "ID", ANY,
             "the event's id, 1 to 255 of A-Za-z0-9_- (default: a new one, which is printed)"),
        FLAG(tenant, "tenant", 0, "T", ANY,
             "the tenant whose event it is, where endpoints select by `tenants`"),
        FLAG(event_time, "time", 0, "TIME", ANY, "when it happened, RFC 3339 (default: now)"),
        FLAG_STORE(session.store_path)),
    .exits = {{EXIT_USAGE, NULL},
              {EXIT_BAD_DATA, "no event, or its id has another event"},
              {NO_STORE}},
    ACTS(queue_run, publish_event,
         .request = REQUEST_OPTIONS("webhook publish", .keeps_files = true)),
    .fini = forget_published_request,
};
