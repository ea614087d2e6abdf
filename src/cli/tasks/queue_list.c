/* SPDX-License-Identifier: Apache-2.0 */
/* Queued operations for people and programs. Whatever came from outside is escaped. */
#include "base/check.h"
#include "cli/lib/print.h"
#include "cli/tasks/queue.h"
#include "webhook/fanout.h"
#include <stdio.h>

#define LANES_MAX ((size_t)4 * 1024 * 1024)

struct list_options {
    struct queue_session session;
    unsigned state; /* of TASKS_STATE_NAMES, from 1; 0: any */
    bool dead;
    const char *lane; /* endpoint or source; NULL: any */
    size_t limit;
};

/* ---- list ---- */

/* Behind which one it waits and, where that one fails, since when. */
static void add_held_text(struct buf *line, const struct store_task *head)
{
    int64_t since = tasks_held_since(head);
    if (!head)
        return;
    buf_printf(line, "  behind %lld", (long long)head->row.id);
    if (since == 0)
        return;
    buf_add_str(line, " since ");
    print_moment(line, since);
    buf_printf(line, ": %s", task_reason_text(store_task_reason(head)));
}

/* Columns of one width, but for what has none. */
static void add_task_line(struct buf *line, const struct tasks_row *row)
{
    const struct task *task = &row->stored->task;
    bool ended = task->ended_at != 0;
    int64_t due_at = task->due_at == CLOCK_NEVER ? 0 : task->due_at;
    buf_printf(line, "%-18lld %-8.*s %8d  ", (long long)row->stored->row.id,
               SLICE_ARG(tasks_state_name(row->stored, row->head)), task->attempts);
    size_t start = line->len;
    print_moment(line, ended ? task->ended_at : due_at);
    buf_printf(line, "%*s  ", (int)(line->len - start < 24 ? 24 - (line->len - start) : 0), "");
    print_text(line, row->stored->key);
    buf_add_str(line, "  ");
    if (row->url.len > 0) {
        print_text(line, row->stored->ord);
        buf_printf(line, "  %.*s ", SLICE_ARG(row->method));
        print_escaped(line, row->url);
    } else {
        print_escaped(line, row->stored->lane);
    }
    if (task->reason != TASK_REASON_NONE)
        buf_printf(line, "  %s", task_reason_text(store_task_reason(row->stored)));
    if (task->reason != TASK_REASON_NONE && task->status > 0)
        buf_printf(line, ": %d", task->status);
    add_held_text(line, row->head);
    buf_add_char(line, '\n');
}

static void add_heading(const struct queue_session *session, struct buf *buf)
{
    buf_printf(buf, "%-18s %-8s %8s  %-24s  %-36s  %s\n", "ID", "STATE", "ATTEMPTS", "DUE OR ENDED",
               session->kind->column, session->kind->heading);
}

/* What is paused: nobody would find out why nothing is sent. */
static int print_lanes(struct queue_session *session)
{
    struct arena arena = arena_make(LANES_MAX);
    BUF_AUTO struct buf text = buf_make(SIZE_MAX);
    struct store_found found = {0};
    int code = queue_complain(session, tasks_lanes(&session->source, &arena, &found));
    for (size_t i = 0; i < found.n && code == EXIT_DONE; i++) {
        const struct store_lane *lane = (const struct store_lane *)found.rows[i];
        if (lane->state != STORE_LANE_PAUSED || !slice_eq(lane->kind, session->source.kind))
            continue;
        buf_add_str(&text, lane->ord.len > 0 ? "group " : "");
        print_escaped(&text, lane->ord.len > 0 ? lane->ord : lane->lane);
        buf_add_str(&text, " is paused\n");
    }
    arena_fini(&arena);
    return code == EXIT_DONE ? print_buf(session->command, &text) : code;
}

static int print_page(struct queue_session *session, const struct tasks_page *page, size_t n)
{
    BUF_AUTO struct buf text = buf_make(SIZE_MAX);
    for (size_t i = 0; i < n; i++) {
        if (session->json) {
            tasks_add_json(&text, &page->rows[i]);
            buf_add_char(&text, '\n');
        } else {
            add_task_line(&text, &page->rows[i]);
        }
    }
    return print_buf(session->command, &text);
}

static int print_pages(struct list_options *options, struct tasks_wanted *wanted)
{
    struct queue_session *session = &options->session;
    size_t left = options->limit;
    int code = EXIT_DONE;
    do {
        TASKS_PAGE_AUTO struct tasks_page page = {0};
        code = queue_complain(session, tasks_list(&session->source, wanted, &page));
        size_t n = page.n < left ? page.n : left;
        if (code == EXIT_DONE)
            code = print_page(session, &page, n);
        left -= n;
        if (page.n > n)
            fprintf(stderr, "pawl %s: only the first %zu are shown; see --limit\n",
                    session->command, options->limit);
        wanted->after = page.n > n ? 0 : page.next;
    } while (code == EXIT_DONE && wanted->after != 0);
    return code;
}

static int list_tasks(void *given)
{
    struct list_options *options = given;
    CHECK(options->limit > 0);
    struct queue_session *session = &options->session;
    BUF_AUTO struct buf heading = buf_make(SIZE_MAX);
    struct tasks_wanted wanted = {.ord = slice_of(session->group), .lane = slice_of(options->lane)};
    int code = queue_open(session, STORE_COMMAND, false);
    if (options->dead && options->state)
        return command_misused(session->command, "--dead and --state exclude each other");
    if (options->dead || options->state)
        tasks_want_state(&wanted, options->dead ? TASK_DEAD : options->state - 1);
    add_heading(session, &heading);
    if (code == EXIT_DONE && !session->json)
        code = print_lanes(session);
    if (code == EXIT_DONE && !session->json)
        code = print_buf(session->command, &heading);
    return code == EXIT_DONE ? print_pages(options, &wanted) : code;
}

/* ---- show ---- */

static void print_attempt(struct buf *buf, const struct store_attempt *attempt)
{
    buf_printf(buf, "attempt %-6d", attempt->n);
    print_moment(buf, attempt->at);
    buf_printf(buf, "  %lld ms after it was due, took %lld ms: ",
               (long long)(attempt->wait_us / CLOCK_US_PER_MS),
               (long long)(attempt->took_us / CLOCK_US_PER_MS));
    if (attempt->status > 0)
        buf_printf(buf, "%d, ", attempt->status);
    buf_add_str(buf,
                attempt->reason == TASK_REASON_NONE ? "done" : task_reason_text(attempt->reason));
    buf_add_char(buf, '\n');
    if (attempt->answer.len > 0)
        print_fact(buf, "  response:", attempt->answer);
}

static void print_request(struct buf *buf, const struct store_request *request, struct slice body)
{
    print_label(buf, "request:");
    buf_printf(buf, "%.*s ", SLICE_ARG(request->method));
    print_escaped(buf, request->url);
    buf_add_char(buf, '\n');
    print_fields(buf, request->fields);
    if (body.len > 0)
        print_fact(buf, "body:", body);
    if (request->response.len > 0)
        print_fact(buf, "response:", request->response);
    for (struct slice lines = request->answers, line;
         lines.len > 0 && slice_next(&lines, '\n', &line);)
        print_fact(buf, "answers:", line);
}

/* By a word of its kind. */
static void print_own_fact(struct buf *buf, const char *word, struct slice value)
{
    char name[16];
    snprintf(name, sizeof name, "%s:", word);
    print_fact(buf, name, value);
}

static void add_state(const struct tasks_kind *kind, struct buf *buf,
                      const struct tasks_whole *whole)
{
    const struct store_task *stored = whole->stored;
    const struct task *task = &stored->task;
    print_fact_number(buf, "id:", stored->row.id);
    print_own_fact(buf, kind->key, stored->key);
    print_fact(buf, "state:", tasks_state_name(stored, whole->head));
    if (task->reason != TASK_REASON_NONE)
        print_fact(buf, "reason:", slice_of(task_reason_text(store_task_reason(stored))));
    print_own_fact(buf, kind->lane, stored->lane);
    if (stored->ord.len > 0)
        print_own_fact(buf, kind->order, stored->ord);
    if (task_is_held(task))
        print_fact(buf, "due:", SLICE("when those before it in its group have ended"));
    else if (task->state == TASK_WAITING)
        print_fact_moment(buf, "due:", task->due_at);
    print_fact_number(buf, "attempts:", task->attempts);
    if (task->in_doubt)
        print_fact(buf, "in doubt:", SLICE("yes, an attempt may have taken effect"));
    if (task->status > 0)
        print_fact_number(buf, "http status:", task->status);
    print_fact_moment(buf, "created:", task->created_at);
    if (task->deadline_at != CLOCK_NEVER)
        print_fact_moment(buf, "deadline:", task->deadline_at);
    if (task->ended_at != 0)
        print_fact_moment(buf, "ended:", task->ended_at);
}

static void print_list_of_task(struct buf *buf, const struct tasks_whole *whole)
{
    const struct store_task *stored = whole->stored;
    bool is_reverse = stored->step < 0;
    if (!whole->list)
        return;
    print_label(buf, "list:");
    buf_printf(buf, "%lld, %.*s\n", (long long)stored->list_id,
               SLICE_ARG(steps_state_name(whole->list->state)));
    print_fact(buf, "list name:", whole->list->name);
    print_fact_number(
        buf, is_reverse ? "undoes step:" : "step:", is_reverse ? -stored->step : stored->step);
    if (!whole->request || whole->request->undo.len == 0)
        return;
    print_fact(buf, "undo:", whole->request->undo);
    print_fact(buf, "undo key:", whole->request->undo_key);
}

static int print_whole(struct queue_session *session, const struct tasks_whole *whole)
{
    BUF_AUTO struct buf text = buf_make(SIZE_MAX);
    if (session->json) {
        tasks_add_whole_json(&text, whole);
        buf_add_char(&text, '\n');
        return print_buf(session->command, &text);
    }
    add_state(session->kind, &text, whole);
    print_list_of_task(&text, whole);
    if (whole->request)
        print_request(&text, whole->request, whole->body);
    if (whole->n_attempts < (size_t)whole->stored->task.tries) {
        print_label(&text, "tries:");
        buf_printf(&text, "%d; shown are the first 5 and the last 15 that reached somebody\n",
                   whole->stored->task.tries);
    }
    for (size_t i = 0; i < whole->n_attempts; i++)
        print_attempt(&text, (const struct store_attempt *)whole->attempts[i]);
    return print_buf(session->command, &text);
}

static int show_task(void *given)
{
    struct queue_session *session = given;
    TASKS_WHOLE_AUTO struct tasks_whole whole = {0};
    int code = queue_open(session, STORE_COMMAND, false);
    if (code == EXIT_DONE)
        code = queue_complain(session, tasks_read(&session->source, session->id, &whole));
    if (code != EXIT_DONE)
        return code;
    if (whole.stored)
        return print_whole(session, &whole);
    return command_failed(session->command, EXIT_FINAL_ERROR, "there is no %s %lld",
                          session->kind->noun, (long long)session->id);
}

/* ---- the rows ---- */

#define STATE_FLAGS                                                                                \
    FLAG(state, "state", 0, "S", WORDS(TASKS_STATE_NAMES), "only those in this state"),            \
        SWITCH(dead, "dead", 0, "only those that failed finally, as `--state dead`")

#define OPTIONS struct list_options
const struct command command_queue_list = {
    .name = "queue list",
    .summary = "list operations, oldest first",
    .synopsis = "[OPTIONS]",
    .about =
        "Lists the operations of the queue, oldest first. What waits in its group behind one that "
        "is tried again is listed with that one's ID and since when; behind one that failed "
        "finally it is `parked`. With --json each one is an object on a line of its own.",
    .flags = FLAGS(STATE_FLAGS, FLAG_LISTED_GROUP(session.group), FLAG_LIMIT(limit),
                   FLAG_JSON(session.json), FLAG_STORE(session.store_path)),
    .exits = {{EXIT_USAGE, NULL}, {NO_STORE}},
    ACTS(queue_run, list_tasks, .limit = LIMIT_DEFAULT),
};

const struct command command_queue_show = {
    .name = "queue show",
    .summary = "print one operation with its attempts",
    .synopsis = "ID [OPTIONS]",
    .about = "Prints everything about one operation: what is sent, and how its attempts ended.",
    .operand = "ID",
    .operands = {1, 1},
    .flags = FLAGS(FLAG_JSON(session.json), FLAG_STORE(session.store_path)),
    .exits = {{EXIT_FINAL_ERROR, "no such operation"}, {EXIT_USAGE, NULL}, {NO_STORE}},
    ACTS(queue_run, show_task),
};

const struct command command_webhook_list = {
    .name = "webhook list",
    .summary = "list deliveries, oldest first",
    .synopsis = "[OPTIONS]",
    .about = "Lists deliveries, one for each event and endpoint, oldest first. With --json each "
             "one is an object on a line of its own.",
    .flags = FLAGS(STATE_FLAGS, FLAG_ENDPOINT(lane), FLAG_LIMIT(limit), FLAG_JSON(session.json),
                   FLAG_STORE(session.store_path)),
    .exits = {{EXIT_USAGE, NULL}, {NO_STORE}},
    ACTS(queue_run, list_tasks, .limit = LIMIT_DEFAULT),
};

const struct command command_webhook_show = {
    .name = "webhook show",
    .summary = "print one delivery with its attempts",
    .synopsis = "ID [OPTIONS]",
    .about = "Prints everything about one delivery: its event, its endpoint, and how its attempts "
             "ended.",
    .operand = "ID",
    .operands = {1, 1},
    .flags = FLAGS(FLAG_JSON(session.json), FLAG_STORE(session.store_path)),
    .exits = {{EXIT_FINAL_ERROR, "no such delivery"}, {EXIT_USAGE, NULL}, {NO_STORE}},
    ACTS(queue_run, show_task),
};

const struct command command_inbox_list = {
    .name = "inbox list",
    .summary = "list received events, oldest first",
    .synopsis = "[OPTIONS]",
    .about = "Lists received events, oldest first, with the state of their handling. With --json "
             "each one is an object on a line of its own.",
    .flags = FLAGS(STATE_FLAGS, FLAG_SOURCE(lane), FLAG_LIMIT(limit), FLAG_JSON(session.json),
                   FLAG_STORE(session.store_path)),
    .exits = {{EXIT_USAGE, NULL}, {NO_STORE}},
    ACTS(queue_run, list_tasks, .limit = LIMIT_DEFAULT),
};

const struct command command_inbox_show = {
    .name = "inbox show",
    .summary = "print one event with the attempts to handle it",
    .synopsis = "ID [OPTIONS]",
    .about = "Prints everything about one received event: its source, its body, and how the "
             "attempts of its handler ended.",
    .operand = "ID",
    .operands = {1, 1},
    .flags = FLAGS(FLAG_JSON(session.json), FLAG_STORE(session.store_path)),
    .exits = {{EXIT_FINAL_ERROR, "no such event"}, {EXIT_USAGE, NULL}, {NO_STORE}},
    ACTS(queue_run, show_task),
};
