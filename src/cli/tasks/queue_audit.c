/* SPDX-License-Identifier: Apache-2.0 */
/* Who did what by hand to the tasks of a kind, to where they go, and to endpoints. */
#include "base/check.h"
#include "base/json/json.h"
#include "base/time/timestamp.h"
#include "cli/lib/print.h"
#include "cli/tasks/queue.h"
#include "operator/audit.h"
#include <stdio.h>

struct audit_options {
    struct queue_session session;
    size_t limit;
};

static void add_task_act_json(struct buf *line, const struct store_task_audit *audit,
                              struct slice reason)
{
    buf_add_char(line, '{');
    json_add_i64(line, "id", audit->row.id);
    json_add_time(line, "at", audit->at);
    json_add_text(line, "actor", audit->actor);
    json_add_text(line, "act", audit->act);
    json_add_text(line, "kind", audit->kind);
    json_add_known_i64(line, "task", audit->task);
    json_add_known_text(line, "lane", audit->lane);
    json_add_known_text(line, "key", audit->key);
    json_add_known_text(line, "from", audit->from);
    json_add_known_text(line, "to", audit->to);
    json_add_bool(line, "forced", audit->force);
    json_add_known_text(line, "reason", reason);
    buf_add_str(line, "}\n");
}

static void add_word(struct buf *line, const char *before, struct slice word)
{
    if (word.len == 0)
        return;
    buf_add_str(line, before);
    print_escaped(line, word);
}

static void add_task_act_text(struct buf *line, const struct store_task_audit *audit,
                              struct slice reason, const char *noun)
{
    timestamp_print(line, audit->at);
    add_word(line, " ", audit->actor);
    add_word(line, " ", audit->act);
    if (audit->task != 0)
        buf_printf(line, " %s %lld", noun, (long long)audit->task);
    add_word(line, " ", audit->lane);
    add_word(line, " ", audit->key);
    add_word(line, ": ", audit->from);
    add_word(line, audit->from.len > 0 ? " -> " : ": ", audit->to);
    buf_add_str(line, audit->force ? ", forced" : "");
    add_word(line, ": ", reason);
    buf_add_char(line, '\n');
}

static int print_task_act(const struct queue_session *session, const struct store_task_audit *audit,
                          struct slice reason)
{
    BUF_AUTO struct buf line = buf_make(SIZE_MAX);
    if (session->json)
        add_task_act_json(&line, audit, reason);
    else
        add_task_act_text(&line, audit, reason, session->kind->noun);
    return print_buf(session->command, &line);
}

/* Walks over all acts and prints those behind the first `skip`; `*ret_n`: how many there are. */
static int walk_task_acts(struct queue_session *session, size_t skip, size_t *ret_n)
{
    AUDIT_PAGE_AUTO struct audit_page page = {.table = &task_audit_table, .limit = AUDIT_PAGE_MOST};
    size_t n = 0;
    int code = EXIT_DONE;
    do {
        code = queue_complain(session, audit_read(session->store, &session->parker.parker, &page));
        for (size_t i = 0; i < page.acts.n && code == EXIT_DONE; i++) {
            const struct store_task_audit *act = (const struct store_task_audit *)page.acts.rows[i];
            if (slice_eq(act->kind, session->source.kind) && n++ >= skip)
                code = print_task_act(session, act, page.reasons[i]);
        }
    } while (code == EXIT_DONE && page.next != 0);
    *ret_n = n;
    return code;
}

static int list_task_acts(void *given)
{
    struct audit_options *options = given;
    CHECK(options->limit > 0);
    size_t n = 0;
    int code = queue_open(&options->session, STORE_COMMAND, false);
    if (code == EXIT_DONE)
        code = walk_task_acts(&options->session, SIZE_MAX, &n);
    size_t skip = n > options->limit ? n - options->limit : 0;
    if (code == EXIT_DONE)
        code = walk_task_acts(&options->session, skip, &n);
    if (code == EXIT_DONE && skip > 0)
        fprintf(stderr, "pawl %s: these are the last %zu of %zu; see --limit\n",
                options->session.command, n - skip, n);
    return code;
}

/* ---- the rows ---- */

#define OPTIONS struct audit_options
#define AUDIT_ROW(id, of_name, of_summary, what)                                                   \
    const struct command command_##id = {                                                          \
        .name = of_name,                                                                           \
        .summary = of_summary,                                                                     \
        .synopsis = "[OPTIONS]",                                                                   \
        .about = "Prints who " what                                                                \
                 ", oldest first; if there are more acts than --limit, the last ones. Acts are "   \
                 "kept for 400 days. With --json each act is an object on a line of its own.",     \
        .flags =                                                                                   \
            FLAGS(FLAG_LIMIT(limit), FLAG_JSON(session.json), FLAG_STORE(session.store_path)),     \
        .exits = {{EXIT_USAGE, NULL}, {NO_STORE}},                                                 \
        ACTS(queue_run, list_task_acts, .limit = LIMIT_DEFAULT)}
AUDIT_ROW(queue_audit, "queue audit", "list who acted on queued operations by hand",
          "did what to queued operations, targets and groups");
AUDIT_ROW(webhook_audit, "webhook audit", "list who acted on deliveries and endpoints by hand",
          "did what to deliveries and endpoints");
AUDIT_ROW(inbox_audit, "inbox audit", "list who acted on received events and sources by hand",
          "did what to received events and sources");
AUDIT_ROW(store_audit, "store audit", "list who froze, thawed or marked a store",
          "froze, thawed or marked the store");
