/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl queue edit`: changes what an operation sends, or with which headers. */
#include "cli/lib/request.h"
#include "cli/tasks/queue_lists.h"
#include "client/fields.h"
#include <stdio.h>

struct edit_options {
    struct queue_session session;
    struct request_options request;
    const char *url; /* NULL: as it is */
    const char *to;  /* all below this URL; NULL: the ID */
};

/* The lines of the operation as it is, save those that the new ones replace, and these. */
static bool merge_fields(const struct edit_options *options, struct slice before,
                         struct buf *fields)
{
    const struct client_request *request = &options->request.request;
    struct headers lines = {0};
    struct slice type =
        request->is_json ? SLICE("application/json") : SLICE("application/x-www-form-urlencoded");
    if (!client_fields_split(before, &lines))
        return false;
    for (size_t i = 0; i < lines.n; i++)
        if (!slice_eq_nocase(lines.at[i].name, SLICE("Content-Type")))
            queue_add_field(fields, &lines.at[i]);
    queue_add_field(fields, &(struct header){SLICE("Content-Type"), type});
    return buf_ok(fields);
}

/* Whether a line of the operation gives way to those of the command line: to one of its name, there
 * or in a file; a file to a file. */
static bool is_replaced(const struct header *line, const struct headers *given,
                        const struct headers *read)
{
    if (slice_eq(line->name, SLICE("@")))
        return headers_find(given, SLICE("@"));
    return headers_find(given, line->name) || headers_find(read, line->name);
}

/* The same where the headers alone change. Those by which it is another operation do not. */
static int merge_headers(struct edit_options *options, struct slice before, struct buf *fields)
{
    static const struct slice fixed[] = {
        {"Content-Type", 12}, {"If-Match", 8}, {"Idempotency-Key", 15}};
    struct request_options *request = &options->request;
    const struct headers *given = &request->request.headers;
    struct headers lines = {0}, read = {0};
    struct slice problem;
    bool fits = client_fields_split(before, &lines);
    for (size_t i = 0; i < given->n; i++) {
        if (slice_eq(given->at[i].name, SLICE("@")) &&
            !client_fields_add_file(given->at[i].value, &request->arena, &read, &problem))
            return command_misused(options->session.command, "%.*s", SLICE_ARG(problem));
        if (HEADERS_AMONG(given->at[i].name, fixed))
            return command_misused(options->session.command,
                                   "the header %.*s is part of what is sent; add another operation",
                                   SLICE_ARG(given->at[i].name));
    }
    for (size_t i = 0; i < lines.n; i++)
        if (!is_replaced(&lines.at[i], given, &read))
            queue_add_field(fields, &lines.at[i]);
    for (size_t i = 0; i < given->n; i++)
        queue_add_field(fields, &given->at[i]);
    return fits && buf_ok(fields)
               ? EXIT_DONE
               : command_failed(options->session.command, EXIT_UNAVAILABLE, "out of memory");
}

static int refuse_doubt(const struct queue_session *session, const struct store_task *stored)
{
    long long id = (long long)session->id;
    if (store_task_reason(stored) == TASK_REASON_HAPPENED)
        return command_failed(session->command, EXIT_OUTCOME_UNKNOWN,
                              "the service says that operation %lld was done before; look there, "
                              "then `pawl queue settle %lld --done`, or if the new one may be done "
                              "as well, use --force",
                              id, id);
    return command_failed(session->command, EXIT_OUTCOME_UNKNOWN,
                          "an attempt of operation %lld may have taken effect; if the new one may "
                          "be done as well, use --force",
                          id);
}

static int report_edit(const struct queue_session *session, const struct tasks_whole *whole,
                       const struct queue_added *added)
{
    long long id = (long long)session->id;
    switch (added->end) {
    case QUEUE_ADDED:
        printf("%lld %s\n", id, added->key);
        return EXIT_DONE;
    case QUEUE_SENDING:
        return command_failed(session->command, EXIT_TRY_AGAIN,
                              "operation %lld is being sent; nothing was changed", id);
    case QUEUE_IN_DOUBT:
        return refuse_doubt(session, whole->stored);
    case QUEUE_LINKED:
        return command_failed(session->command, EXIT_FINAL_ERROR,
                              "operation %lld is a step of a list; nothing was changed", id);
    case QUEUE_ENDED:
        return command_failed(session->command, EXIT_FINAL_ERROR,
                              "operation %lld is %.*s; nothing was changed", id,
                              SLICE_ARG(task_state_name(added->state)));
    default:
        return command_failed(session->command, EXIT_FINAL_ERROR, "there is no operation %lld", id);
    }
}

static int edit_whole(struct edit_options *options, const struct tasks_whole *whole)
{
    struct queue_session *session = &options->session;
    BUF_AUTO struct buf fields = buf_make(SIZE_MAX);
    struct queue_added added = {.end = QUEUE_NOT_FOUND};
    if (!whole->stored || !whole->request)
        return report_edit(session, whole, &added);
    bool has_body = options->request.request.has_body;
    int code = EXIT_DONE;
    if (!has_body)
        code = merge_headers(options, whole->request->fields, &fields);
    else if (!merge_fields(options, whole->request->fields, &fields))
        code = command_failed(session->command, EXIT_UNAVAILABLE, "out of memory");
    if (code != EXIT_DONE)
        return code;
    struct queue_operation operation = {.url = slice_of(options->url),
                                        .method = slice_of(options->request.request.method),
                                        .fields = buf_slice(&fields),
                                        .body = buf_slice(&options->request.data),
                                        .has_body = has_body};
    bool becomes_another = has_body || options->url || whole->stored->task.state == TASK_DEAD;
    if (whole->stored->list_id != 0 && becomes_another)
        return queue_lists_edit(session, &operation);
    if (options->url)
        return command_misused(session->command, "--url is for undos and steps of a list; drop the "
                                                 "operation, and add another one");
    struct queue_edit edit = {session->id, &operation, queue_actor(session)};
    code =
        queue_complain(session, queue_edit(session->store, &edit, &session->parker.parker, &added));
    return code == EXIT_DONE ? report_edit(session, whole, &added) : code;
}

static int edit_one(struct edit_options *options, int64_t id)
{
    TASKS_WHOLE_AUTO struct tasks_whole whole = {0};
    options->session.id = id;
    int code = queue_complain(&options->session, tasks_read(&options->session.source, id, &whole));
    return code == EXIT_DONE ? edit_whole(options, &whole) : code;
}

/* All that wait: each an edit of its own. */
static int edit_all(struct edit_options *options)
{
    struct queue_session *session = &options->session;
    struct tasks_wanted wanted = {
        .has_state = true, .state = TASK_WAITING, .to = slice_of(options->to)};
    int code = EXIT_DONE;
    do {
        TASKS_PAGE_AUTO struct tasks_page page = {0};
        int failed = queue_complain(session, tasks_list(&session->source, &wanted, &page));
        if (failed != EXIT_DONE)
            return failed;
        for (size_t i = 0; i < page.n; i++) {
            failed = edit_one(options, page.rows[i].stored->row.id);
            code = failed == EXIT_DONE ? code : failed;
        }
        wanted.after = page.next;
    } while (wanted.after > 0);
    return code;
}

static int check_url(const struct edit_options *options)
{
    BUF_AUTO struct buf problem = buf_make(SIZE_MAX);
    const struct queue_operation operation = {.url = slice_of(options->url)};
    if (!options->url && options->request.request.method)
        return command_misused(options->session.command, "-X goes with --url");
    if (options->url && options->to)
        return command_misused(options->session.command, "--url and --to exclude each other");
    if (options->url && !queue_check(&operation, &problem))
        return command_misused(options->session.command, "%.*s", SLICE_ARG(buf_slice(&problem)));
    return EXIT_DONE;
}

static int edit_operation(void *given)
{
    struct edit_options *options = given;
    struct queue_session *session = &options->session;
    bool has_body = options->request.request.has_body;
    if ((session->operands.n != 1) == !options->to)
        return command_misused(session->command, "needs either an ID or --to PREFIX");
    if (options->to && (has_body || options->to[0] == '\0'))
        return command_misused(session->command, "--to wants a URL, and goes with -H alone");
    bool has_headers = options->request.request.headers.n > 0;
    if (has_body == has_headers && (has_body || !options->url))
        return command_misused(session->command, "needs either a body (--data, --data-binary, "
                                                 "--json) or headers (-H)");
    int code = check_url(options);
    if (code == EXIT_DONE)
        code = queue_open(session, STORE_COMMAND, false);
    if (code != EXIT_DONE)
        return code;
    return options->to ? edit_all(options) : edit_one(options, session->id);
}

static void forget_edited_request(void *given)
{
    request_options_fini(&((struct edit_options *)given)->request);
}

/* ---- the row ---- */

#define OPTIONS struct edit_options
const struct command command_queue_edit = {
    .name = "queue edit",
    .summary = "change what an operation sends; it gets a new key",
    .synopsis = "ID -d DATA [--force] [--reason TEXT]\n"
                "{ID | --to PREFIX} -H H [--reason TEXT]\n"
                "ID --url URL [-X METHOD] [-d DATA | -H H] [--force] [--reason TEXT]",
    .about = "Gives an operation another body and a new key, which it prints; its attempts count "
             "from the start. If one may have taken effect, that needs --force. With -H it stays "
             "what it was, under its key, and is sent with these credentials. With --url an undo "
             "becomes what is given, and a step of a list that has not begun goes elsewhere.",
    .operand = "ID",
    .operands = {0, 1},
    .flags = FLAGS(REQUEST_FLAGS(request),
                   FLAG(to, "to", 0, "PREFIX", ANY,
                        "all that wait to be sent to this URL, or below it (with -H alone)"),
                   FLAG(url, "url", 0, "URL", ANY,
                        "of an undo, or of a step that has not begun: send it there"),
                   FLAG_EDIT_FORCE(session.force), FLAG_ACT_REASON(session.reason),
                   FLAG_STORE(session.store_path)),
    .exits = {{NO_OPERATION},
              {EXIT_USAGE, NULL},
              {NO_STORE},
              {EXIT_TRY_AGAIN, "it is being sent"},
              {EXIT_OUTCOME_UNKNOWN, "an attempt may have taken effect"}},
    ACTS(queue_run, edit_operation, .request = REQUEST_OPTIONS("queue edit", .keeps_files = true)),
    .fini = forget_edited_request,
};
