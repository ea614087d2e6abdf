/* SPDX-License-Identifier: Apache-2.0 */
/* Puts operations on disk, from the command line or from lines of JSON. */
#include "base/mem.h"
#include "cli/lib/lines.h"
#include "cli/lib/request.h"
#include "cli/tasks/queue.h"
#include "client/fields.h"
#include "client/queue_steps.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define ARENA_MAX ((size_t)512 * 1024 * 1024)
#define BATCH_BYTES ((size_t)8 * 1024 * 1024) /* of lines that are added together */

struct add_options {
    struct queue_session session;
    struct request_options request;
    const char *linked;  /* the file of a list; NULL: none */
    unsigned on_failure; /* 0 or 1: park; 2: skip */
    int64_t lasts_us;    /* 0: as the profile says; CLOCK_NEVER: no deadline */
    size_t attempts;     /* 0: any number */
    int64_t remember_us; /* 0: not given */
    int64_t dedupe_us;   /* 0: nothing is compared */
    size_t most;         /* 0: any number */
};

/* ---- what the options say ---- */

void queue_add_field(struct buf *fields, const struct header *line)
{
    if (slice_eq(line->name, SLICE("@")))
        buf_printf(fields, "@%.*s\r\n", SLICE_ARG(line->value));
    else
        fields_add(fields, line->name, line->value);
}

static struct queue_operation from_options(const struct add_options *options)
{
    return (struct queue_operation){.method = slice_of(options->request.request.method),
                                    .group = slice_of(options->session.group),
                                    .skips = options->on_failure == 2,
                                    .dated = request_dates_key(&options->request),
                                    .answers = buf_slice(&options->request.answers),
                                    .attempts = (int)options->attempts,
                                    .remember_us = options->remember_us,
                                    .lasts_us = options->lasts_us};
}

/* ---- adding ---- */

/* Operations that are added together, as they come. */
struct adder {
    struct add_options *options;
    struct queue_operation operations[QUEUE_BATCH_MOST];
    struct queue_added added[QUEUE_BATCH_MOST];
    size_t lines[QUEUE_BATCH_MOST]; /* of which line each is; 0: of the command line */
    size_t n;
    size_t n_added;     /* before those */
    struct arena arena; /* what they borrow */
};

/* Where the IDs go to a file. */
static bool shows_progress(const struct adder *adder)
{
    return adder->lines[0] > 0 && isatty(STDERR_FILENO) && !isatty(STDOUT_FILENO);
}

static void show_added_progress(const struct adder *adder)
{
    if (shows_progress(adder))
        fprintf(stderr, "\r%zu added ", adder->n_added);
}

static void end_progress(const struct adder *adder)
{
    if (shows_progress(adder))
        fputs("\r\033[K", stderr);
}

static int refuse_other(const struct adder *adder, size_t i)
{
    const struct queue_added *added = &adder->added[i];
    BUF_AUTO struct buf where = buf_make(SIZE_MAX);
    if (adder->lines[i] > 0)
        buf_printf(&where, "line %zu: ", adder->lines[i]);
    return command_failed(adder->options->session.command, EXIT_BAD_DATA,
                          "%.*sthe key \"%s\" belongs to another operation, %lld, which is %.*s",
                          SLICE_ARG(buf_slice(&where)), added->key, (long long)added->id,
                          SLICE_ARG(task_state_name(added->state)));
}

static int refuse_full(const struct adder *adder, size_t i)
{
    BUF_AUTO struct buf where = buf_make(SIZE_MAX);
    bool is_line = adder->lines[i] > 0 && !adder->options->linked;
    if (is_line)
        buf_printf(&where, "line %zu: ", adder->lines[i]);
    return command_failed(adder->options->session.command, EXIT_TRY_AGAIN,
                          "%.*sthe queue is full, as --most %zu says; nothing %swas added",
                          SLICE_ARG(buf_slice(&where)), adder->options->most,
                          is_line ? "of it and behind it " : "");
}

/* The one that sends the same, in place of it. */
static int report_same(const struct adder *adder, size_t i)
{
    const struct queue_added *added = &adder->added[i];
    BUF_AUTO struct buf where = buf_make(SIZE_MAX);
    if (adder->lines[i] > 0)
        buf_printf(&where, "line %zu: ", adder->lines[i]);
    printf("%lld %s\n", (long long)added->id, added->key);
    fprintf(stderr,
            "pawl %s: %.*soperation %lld sends the same, and is %.*s; nothing was added "
            "(--dedupe-payload)\n",
            adder->options->session.command, SLICE_ARG(buf_slice(&where)), (long long)added->id,
            SLICE_ARG(task_state_name(added->state)));
    return EXIT_DONE;
}

/* What became of one: printed, or an exit code that was explained. */
static int report_added_line(struct adder *adder, size_t i)
{
    const struct queue_added *added = &adder->added[i];
    if (added->end == QUEUE_OTHER)
        return refuse_other(adder, i);
    if (added->end == QUEUE_FULL)
        return refuse_full(adder, i);
    if (added->end == QUEUE_SAME)
        return report_same(adder, i);
    adder->n_added++;
    printf("%lld %s\n", (long long)added->id, added->key);
    if (added->end != QUEUE_KNOWN || added->state < TASK_DONE)
        return EXIT_DONE;
    bool is_done = added->state == TASK_DONE;
    BUF_AUTO struct buf advice = buf_make(SIZE_MAX);
    if (!is_done)
        buf_printf(&advice, ": pawl queue retry %lld", (long long)added->id);
    fprintf(stderr, "pawl %s: operation %lld was added before, and is %.*s%.*s\n",
            adder->options->session.command, (long long)added->id,
            SLICE_ARG(task_state_name(added->state)), SLICE_ARG(buf_slice(&advice)));
    return is_done ? EXIT_DONE : EXIT_FINAL_ERROR;
}

/* Stores what has gathered, and prints which operations they are. */
static int store_gathered(struct adder *adder)
{
    struct queue_adding adding = {.operations = adder->operations,
                                  .n = adder->n,
                                  .added = adder->added,
                                  .most = adder->options->most,
                                  .dedupe_us = adder->options->dedupe_us};
    int code = EXIT_DONE;
    if (adder->n == 0)
        return EXIT_DONE;
    enum store_status status =
        queue_add(adder->options->session.store, &adding, &adder->options->session.parker.parker);
    for (size_t i = 0; i < adding.n_added; i++) {
        int reported = report_added_line(adder, i);
        code = reported == EXIT_DONE ? code : reported;
    }
    fflush(stdout);
    show_added_progress(adder);
    adder->n = 0;
    arena_reset(&adder->arena);
    int failed = queue_complain(&adder->options->session, status);
    return failed != EXIT_DONE ? failed : code;
}

static struct adder *new_adder(struct add_options *options)
{
    struct adder *adder = mem_zalloc(1, sizeof *adder);
    if (!adder) {
        (void)command_failed(options->session.command, EXIT_UNAVAILABLE, "out of memory");
        return NULL;
    }
    adder->options = options;
    adder->arena = arena_make(ARENA_MAX);
    return adder;
}

static void free_adder(struct adder *adder)
{
    arena_fini(&adder->arena);
    mem_free(adder);
}

/* ---- from the command line ---- */

/* The operation of the options. */
static bool make_added_operation(struct add_options *options, struct client_made *made,
                                 struct buf *fields, struct buf *problem)
{
    request_options_end(&options->request, options->session.operand);
    if (!client_make(&options->request.request, made, problem))
        return false;
    for (size_t i = 0; i < made->sent.n; i++)
        queue_add_field(fields, &made->sent.at[i]);
    return true;
}

/* What no service would take is better told now than when nobody looks. */
static bool is_json_body(struct slice body)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct json *root;
    enum json_error error = json_parse(&arena, body, &root, NULL);
    return error == JSON_OK || error == JSON_NO_MEMORY || json_error_is_refusal(error);
}

static int add_one(struct adder *adder, struct client_made *made)
{
    struct add_options *options = adder->options;
    struct queue_session *session = &options->session;
    struct queue_operation *operation = &adder->operations[0];
    BUF_AUTO struct buf fields = buf_make(SIZE_MAX), problem = buf_make(SIZE_MAX);
    if (!make_added_operation(options, made, &fields, &problem))
        return command_misused(session->command, "%.*s", SLICE_ARG(buf_slice(&problem)));
    *operation = from_options(options);
    operation->key = made->minted[0] ? SLICE("") : made->operation.key;
    operation->method = made->operation.method;
    operation->url = slice_of(session->operand);
    operation->fields = buf_slice(&fields);
    operation->body = made->operation.body;
    operation->has_body = made->operation.has_body;
    if (!queue_check(operation, &problem))
        return command_misused(session->command, "%.*s", SLICE_ARG(buf_slice(&problem)));
    if (options->request.request.is_json && !is_json_body(operation->body))
        return command_failed(session->command, EXIT_BAD_DATA,
                              "what --json gives is no JSON; nothing was added");
    int code = queue_open(session, STORE_COMMAND, true);
    adder->n = 1;
    return code == EXIT_DONE ? store_gathered(adder) : code;
}

static int add_from_options(struct adder *adder)
{
    struct client_made *made = mem_zalloc(1, sizeof *made);
    if (!made)
        return command_failed(adder->options->session.command, EXIT_UNAVAILABLE, "out of memory");
    int code = add_one(adder, made);
    client_made_fini(made);
    mem_free(made);
    return code;
}

/* ---- from lines ---- */

static int refuse_line(const struct adder *adder, size_t line, struct slice problem)
{
    return command_failed(adder->options->session.command, EXIT_BAD_DATA,
                          "line %zu: %.*s; nothing %swas added", line, SLICE_ARG(problem),
                          adder->options->linked ? "" : "of it and behind it ");
}

/* Borrows nothing of `text`. */
static int take_line(struct adder *adder, const struct queue_operation *defaults, struct slice text,
                     size_t line)
{
    struct queue_operation *operation = &adder->operations[adder->n];
    struct slice problem, copy = arena_copy(&adder->arena, text);
    BUF_AUTO struct buf wrong = buf_make(SIZE_MAX);
    *operation = *defaults;
    if (!copy.at)
        return refuse_line(adder, line, SLICE("out of memory"));
    if (!queue_line_read(copy, &adder->arena, operation, &problem))
        return refuse_line(adder, line, problem);
    if (!queue_check(operation, &wrong))
        return refuse_line(adder, line, buf_slice(&wrong));
    adder->lines[adder->n++] = line;
    return EXIT_DONE;
}

static int refuse_unreadable(const struct adder *adder, const struct lines *lines, const char *name)
{
    return command_failed(adder->options->session.command, EXIT_USAGE,
                          "cannot read line %zu of %s: %s", lines->n + 1, name,
                          strerror(-lines->error));
}

static int take_lines(struct adder *adder, const struct queue_operation *defaults)
{
    struct lines lines = lines_of(STDIN_FILENO);
    struct slice text;
    int code = EXIT_DONE;
    while (code == EXIT_DONE && lines_next(&lines, &text)) {
        bool is_blank = slice_trim(text).len == 0;
        if (!is_blank)
            code = take_line(adder, defaults, text, lines.n);
        if (!is_blank && code == EXIT_DONE && adder->operations[adder->n - 1].undo.len > 0) {
            adder->n--;
            code = refuse_line(adder, lines.n, SLICE("\"undo\" is for the steps of --linked"));
        }
        bool is_full = adder->n == QUEUE_BATCH_MOST || adder->arena.used > BATCH_BYTES ||
                       adder->options->dedupe_us > 0;
        if (code == EXIT_DONE && is_full)
            code = store_gathered(adder);
    }
    if (lines.error != 0)
        code = refuse_unreadable(adder, &lines, "standard input");
    lines_fini(&lines);
    int flushed = store_gathered(adder);
    return code != EXIT_DONE ? code : flushed;
}

/* ---- a list ---- */

static int check_step(struct adder *adder, size_t line)
{
    const struct queue_operation *step = &adder->operations[adder->n - 1];
    struct slice problem;
    if (step->group.len > 0 || step->skips)
        return refuse_line(adder, line,
                           SLICE("a step has no \"group\" and no \"on_failure\": the list is one"));
    if (step->undo.len == 0 || undo_check(step->undo, &adder->arena, &problem))
        return EXIT_DONE;
    BUF_AUTO struct buf text = buf_make(SIZE_MAX);
    buf_printf(&text, "\"undo\": %.*s", SLICE_ARG(problem));
    return refuse_line(adder, line, buf_slice(&text));
}

/* What a first line says of the list as a whole: an object with `dedupes` alone. */
static bool take_list_line(struct adder *adder, struct slice text, struct queue_list *list)
{
    struct json *root = NULL;
    bool is_one = adder->n == 0 && json_parse(&adder->arena, text, &root, NULL) == JSON_OK &&
                  root->type == JSON_OBJECT && root->first && !root->first->next &&
                  slice_eq(root->first->name, SLICE("dedupes")) &&
                  (root->first->type == JSON_TRUE || root->first->type == JSON_FALSE);
    list->dedupes = is_one ? root->first->type == JSON_TRUE : list->dedupes;
    return is_one;
}

static int take_steps(struct adder *adder, const struct queue_operation *defaults, int fd,
                      struct queue_list *list)
{
    struct lines lines = lines_of(fd);
    struct slice text;
    int code = EXIT_DONE;
    while (code == EXIT_DONE && lines_next(&lines, &text)) {
        if (slice_trim(text).len == 0 || take_list_line(adder, text, list))
            continue;
        if (adder->n == STEPS_MOST)
            code = refuse_line(adder, lines.n, SLICE("a list has at most 32 steps"));
        if (code == EXIT_DONE)
            code = take_line(adder, defaults, text, lines.n);
        if (code == EXIT_DONE)
            code = check_step(adder, lines.n);
    }
    if (lines.error != 0)
        code = refuse_unreadable(adder, &lines, adder->options->linked);
    lines_fini(&lines);
    if (code == EXIT_DONE && adder->n == 0)
        code = command_failed(adder->options->session.command, EXIT_BAD_DATA, "%s holds no step",
                              adder->options->linked);
    return code;
}

static void print_list(const struct adder *adder, int64_t list)
{
    printf("list %lld\n", (long long)list);
    for (size_t i = 0; i < adder->n; i++)
        printf("%lld %s\n", (long long)adder->added[i].id, adder->added[i].key);
}

/* Who does not know whether a list was stored adds it again. */
static int report_again(struct adder *adder, struct queue_list *list)
{
    struct queue_session *session = &adder->options->session;
    struct queue_adding adding = {adder->operations, adder->n, adder->added, 0, 0};
    bool failed = false;
    int code = queue_complain(
        session, queue_find_list(session->store, &adding, &session->parker.parker, list));
    if (code != EXIT_DONE)
        return code;
    if (list->id == 0)
        return command_failed(session->command, EXIT_BAD_DATA,
                              "one of the keys belongs to another operation; nothing was added");
    print_list(adder, list->id);
    for (size_t i = 0; i < adder->n; i++)
        failed = failed || adder->added[i].state >= TASK_DEAD;
    fprintf(stderr, "pawl %s: list %lld was added before%s\n", session->command,
            (long long)list->id,
            failed ? ", and a step of it failed or was dropped: see `pawl queue list`" : "");
    return failed ? EXIT_FINAL_ERROR : EXIT_DONE;
}

static int add_linked_list(struct adder *adder, struct queue_list *list)
{
    struct add_options *options = adder->options;
    struct queue_adding adding = {.operations = adder->operations,
                                  .n = adder->n,
                                  .added = adder->added,
                                  .most = options->most};
    enum store_status status =
        queue_add_linked(options->session.store, &adding, &options->session.parker.parker, list);
    if (status == STORE_CONFLICT)
        return report_again(adder, list);
    int code = queue_complain(&options->session, status);
    if (code != EXIT_DONE)
        return code;
    if (adder->added[0].end == QUEUE_FULL)
        return refuse_full(adder, 0);
    print_list(adder, list->id);
    return EXIT_DONE;
}

static int open_list(const struct add_options *options, int *ret_fd)
{
    bool is_stdin = slice_eq(slice_of(options->linked), SLICE("-"));
    *ret_fd = is_stdin ? STDIN_FILENO : open(options->linked, O_RDONLY | O_CLOEXEC);
    if (*ret_fd >= 0)
        return EXIT_DONE;
    return command_failed(options->session.command, EXIT_USAGE, "cannot read %s: %s",
                          options->linked, strerror(errno));
}

static int add_linked(struct adder *adder, const struct queue_operation *defaults)
{
    struct add_options *options = adder->options;
    struct queue_list list = {0};
    int fd = -1;
    int code = open_list(options, &fd);
    if (code == EXIT_DONE)
        code = take_steps(adder, defaults, fd, &list);
    if (fd > STDIN_FILENO)
        close(fd);
    if (code == EXIT_DONE)
        code = queue_open(&options->session, STORE_COMMAND, true);
    return code == EXIT_DONE ? add_linked_list(adder, &list) : code;
}

static int add_queue_lines(struct adder *adder)
{
    struct add_options *options = adder->options;
    struct queue_session *session = &options->session;
    BUF_AUTO struct buf fields = buf_make(SIZE_MAX);
    struct queue_operation defaults = from_options(options);
    if (options->request.request.has_body || options->request.request.key)
        return command_misused(session->command, "a body or a key is said on each line");
    if (options->linked && (session->operand || options->dedupe_us > 0))
        return command_misused(session->command, "--linked takes no URL and no --dedupe-payload");
    for (size_t i = 0; i < options->request.request.headers.n; i++)
        queue_add_field(&fields, &options->request.request.headers.at[i]);
    defaults.fields = buf_slice(&fields);
    if (options->linked)
        return add_linked(adder, &defaults);
    int code = queue_open(session, STORE_COMMAND, true);
    return code == EXIT_DONE ? take_lines(adder, &defaults) : code;
}

static int add_to_queue(void *given)
{
    struct add_options *options = given;
    if (!options->linked && !options->session.operand)
        return command_misused(options->session.command, "needs a URL, `-`, or --linked FILE");
    struct adder *adder = new_adder(options);
    if (!adder)
        return EXIT_UNAVAILABLE;
    bool from_lines = options->linked || slice_eq(slice_of(options->session.operand), SLICE("-"));
    int code = from_lines ? add_queue_lines(adder) : add_from_options(adder);
    end_progress(adder);
    free_adder(adder);
    return code;
}

static void forget_added_request(void *given)
{
    request_options_fini(&((struct add_options *)given)->request);
}

/* ---- the row ---- */

#define OPTIONS struct add_options
const struct command command_queue_add = {
    .name = "queue add",
    .summary = "put an operation on disk, to be sent later",
    .synopsis = "[-X METHOD] [-d DATA] [-H H]... [--group G] [OPTIONS] URL\n"
                "[OPTIONS] - < OPERATIONS\n"
                "[OPTIONS] --linked FILE",
    .about = "Stores an operation with its key before it returns, and prints its ID and key. The "
             "same operation under the same --key is stored once. A header given as -H @FILE is "
             "read from that file at each attempt.\n\n"
             "With `-` it reads operations from standard input, an object of JSON on each line: "
             "url, method, headers, header_files, json or data, key, group, on_failure, deadline, "
             "attempts. What a line omits is as the options say. After a bad line, which is named, "
             "it stops; the operations before it are stored.\n\n"
             "With --linked the operations are the steps of a list, sent one after the other, all "
             "or nothing. A step may have an \"undo\": an object with method, url, headers, and "
             "json or data, in which {response:/POINTER} and {location} stand for what its step's "
             "response said. If a step fails finally, those that are done are undone, the last one "
             "first. If one ends in doubt, the list is parked: retry, drop or settle that step. "
             "After a first line {\"dedupes\": true} a refusal behind a doubt is undone, too: the "
             "services of the list answer a known key as they did first.",
    .operand = "URL",
    .operands = {0, 1},
    .flags = FLAGS(
        REQUEST_FLAGS(request), ACCOUNT_FLAGS(request),
        FLAG(linked, "linked", 0, "FILE", ANY,
             "add the lines of FILE (`-`: standard input) as the steps of a list, all or nothing"),
        FLAG(session.group, "group", 0, "G", ANY, "operations of one group are sent in order"),
        FLAG(on_failure, "on-failure", 0, "A", WORDS("park|skip"),
             "after a final failure its group waits for a person, or goes on (default park)"),
        FLAG(lasts_us, "deadline", 0, "D", SPAN_OR("none", 1, FOREVER - 1),
             "no attempt begins later than D (30m, 30d) from now on; none: whenever (default: 7d "
             "from the first attempt that reached the service)"),
        FLAG(attempts, "attempts", 0, "N", INT(1, 1000000),
             "at most N attempts (default: any number)"),
        FLAG_REMEMBER(remember_us), ANSWER_FLAGS(request),
        FLAG_BY(request, request_take_wait_on, "wait-on", 0, "CODES", ANY,
                "statuses (403 or 403,423) that wait for other credentials, as 401 and 407 do"),
        FLAG_BY(request, request_take_final_on, "final-on", 0, "CODES", ANY,
                "statuses (401) that do not, and are final"),
        FLAG(dedupe_us, "dedupe-payload", 0, "D", SPAN(1, FOREVER - 1),
             "add nothing where the same was added so within D (10m), or waits: print that one"),
        FLAG(most, "most", 0, "N", INT(1, 100000000),
             "refuse an operation if more than N would then be waiting; concurrent adds count each "
             "other only if all use --most"),
        FLAG_KEY_VERSION(request), FLAG_STORE(session.store_path)),
    .exits = {{EXIT_FINAL_ERROR, "it was added before, and is dead or dropped"},
              {EXIT_USAGE, NULL},
              {EXIT_BAD_DATA, "a bad line, no JSON behind --json, or the key of another operation"},
              {NO_STORE},
              {EXIT_TRY_AGAIN, "the queue is full (--most)"}},
    ACTS(queue_run, add_to_queue, .request = REQUEST_OPTIONS("queue add", .keeps_files = true)),
    .fini = forget_added_request,
};
