/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl queue settle`: what a person found out of an operation, or of a step or an undo of a list.
 * The record that `pawl send` looks at is written in the commit of the act. */
#include "base/check.h"
#include "cli/lib/input.h"
#include "cli/tasks/queue_lists.h"
#include "client/fields.h"
#include "client/operation.h"
#include "client/queue_send.h"
#include "client/request.h"
#include "client/undo.h"
#include "client/verdict.h"
#include "operator/keys.h"

#define SETTLED_STATUS 200 /* of the record of what a person says was done */
#define MADE_LEASE_US (10 * CLOCK_US_PER_S)
#define NAMING_MAX (CLIENT_BODY_MAX * 42) /* client_name_record */

struct settle_options {
    struct queue_session session;
    bool settles_done;
    bool settles_undone;
    const char *response; /* NULL: none */
};

struct settling {
    struct store_saver saver; /* first */
    struct settle_options *options;
    struct tasks_whole whole;
    struct buf response;
    struct outcome *outcome; /* NULL: it was not done */
    int64_t made;            /* token of the record that was begun for it; 0: none was */
    int code;                /* with which it was refused, and explained */
};

static enum store_status refuse_settling(struct settling *settling, int code, struct slice why)
{
    settling->code =
        command_failed(settling->options->session.command, code, "operation %lld: %.*s",
                       (long long)settling->options->session.id, SLICE_ARG(why));
    return STORE_WITHDRAWN;
}

/* ---- its record ---- */

/* What nobody sent has none: it is begun, and ended with the act. Whoever dies in between leaves
 * one in doubt, which a second settlement ends. */
static enum store_status begin_record(struct settling *settling, struct attempt *attempt,
                                      struct arena *arena)
{
    struct store *store = settling->options->session.store;
    const struct tasks_whole *whole = &settling->whole;
    struct headers *headers = arena_alloc(arena, sizeof *headers);
    struct client_operation operation = {.key = whole->stored->key, .body = whole->body};
    const char *problem;
    if (!headers)
        return STORE_NO_MEMORY;
    if (!whole->request || !client_fields_split(whole->request->fields, headers) ||
        !url_read(whole->request->url, &operation.url, &problem))
        return STORE_DONE; /* nor can it be sent */
    operation.method = whole->request->method;
    operation.headers = headers;
    struct engine *engine = engine_new(store, 0);
    if (!engine || !client_name_record(&operation, arena, attempt)) {
        engine_free(engine);
        return STORE_NO_MEMORY;
    }
    attempt->key_hash = engine_key_hash(engine, attempt->tenant, attempt->rule, attempt->key);
    attempt->begin.lease_us = MADE_LEASE_US;
    attempt->begin.ttl_us = attempt->begin.doubted_us =
        queue_remembers_us(whole->stored, whole->request);
    attempt->begin.unknown = RECORD_UNKNOWN_RETRY;
    enum engine_verdict verdict =
        engine_begin(engine, attempt, &settling->options->session.parker.parker,
                     clock_after(clock_boot_us(), KEYS_TIMEOUT_US));
    engine_free(engine);
    settling->made = attempt->token;
    if (verdict == ENGINE_PROCEED)
        return STORE_DONE;
    return attempt->result.status == STORE_DONE ? STORE_CONFLICT : attempt->result.status;
}

static enum store_status make_record(struct settling *settling)
{
    struct arena arena = arena_make(NAMING_MAX);
    struct attempt *attempt = arena_alloc(&arena, sizeof *attempt);
    if (!attempt) {
        arena_fini(&arena);
        return STORE_NO_MEMORY;
    }
    memset(attempt, 0, sizeof *attempt);
    enum store_status status = begin_record(settling, attempt, &arena);
    attempt_fini(attempt);
    arena_fini(&arena);
    return status;
}

static enum store_status find_record(struct settling *settling, struct keys_found *found)
{
    struct queue_session *session = &settling->options->session;
    const struct keys_wanted wanted = {.tenant = SLICE(""),
                                       .rule = SLICE(CLIENT_RULE),
                                       .key = settling->whole.stored->key,
                                       .by_name = true,
                                       .limit = 1};
    return keys_list(session->store, &wanted, &session->parker.parker, found);
}

static bool is_there(const struct settling *settling, const struct keys_found *found)
{
    return found->first && !record_is_absent(&found->first->store.record,
                                             store_now(settling->options->session.store));
}

/* ---- one commit ---- */

/* A record that has ended is left as it is, unless it says that what was not done was. */
static enum store_status save_beside(struct settling *settling, const struct record *record,
                                     struct rows *rows)
{
    bool was_done = record->status == RECORD_COMPLETE && !client_is_refusal(record);
    if (was_done && !settling->outcome)
        return refuse_settling(
            settling, EXIT_FINAL_ERROR,
            SLICE("its key is remembered as done; nothing was changed (`pawl keys list "
                  "--rule send --key`)"));
    return rows_save(rows);
}

static enum store_status save_record(struct settling *settling, const struct keys_row *row,
                                     struct rows *rows)
{
    const struct store_actor actor = queue_actor(&settling->options->session);
    int64_t token = row->store.record.token;
    bool is_done = settling->outcome, is_own = settling->made != 0 && settling->made == token;
    KEYS_ACT_AUTO struct keys_act act = {.row = row,
                                         .kind = is_own    ? KEYS_FINISH
                                                 : is_done ? KEYS_RESOLVE
                                                           : KEYS_RELEASE,
                                         .token = token,
                                         .http_status = is_done ? SETTLED_STATUS : 0,
                                         .outcome = settling->outcome,
                                         .actor = actor.name,
                                         .reason = actor.reason,
                                         .insist = "wait",
                                         .brings = rows->changes,
                                         .n_brings = rows->n};
    enum store_status status =
        keys_act(settling->options->session.store, &act, &settling->options->session.parker.parker);
    if (status != STORE_DONE)
        return status;
    switch (act.end) {
    case KEYS_DONE:
        return STORE_DONE;
    case KEYS_SAME:
    case KEYS_LATE:
        return save_beside(settling, &act.record, rows);
    case KEYS_STALE:
        return STORE_CONFLICT;
    default:
        return refuse_settling(settling, EXIT_TRY_AGAIN, buf_slice(&act.what));
    }
}

/* Whether it is still the operation that was read. */
static bool is_edited(const struct settling *settling, const struct rows *rows)
{
    for (size_t i = 0; i < rows->n; i++) {
        const struct table_change *change = &rows->changes[i];
        if (change->table == &task_table && change->row->id == settling->options->session.id)
            return !slice_eq(((const struct store_task *)change->row)->key,
                             settling->whole.stored->key);
    }
    return true;
}

static enum store_status save_settled(struct store_saver *saver, struct rows *rows)
{
    struct settling *settling = (struct settling *)saver;
    KEYS_FOUND_AUTO struct keys_found found = {0};
    if (is_edited(settling, rows))
        return refuse_settling(settling, EXIT_TRY_AGAIN,
                               SLICE("it was edited meanwhile; nothing was changed"));
    enum store_status status = find_record(settling, &found);
    if (status == STORE_DONE && !is_there(settling, &found) && settling->outcome) {
        keys_found_fini(&found);
        found = (struct keys_found){0};
        status = make_record(settling);
        if (status == STORE_DONE)
            status = find_record(settling, &found);
    }
    if (status != STORE_DONE)
        return status;
    return is_there(settling, &found) ? save_record(settling, found.first, rows) : rows_save(rows);
}

/* ---- the command ---- */

static int read_settled_response(struct settling *settling)
{
    const struct settle_options *options = settling->options;
    const char *given = options->response;
    BUF_AUTO struct buf problem = buf_make(SIZE_MAX);
    if (given && given[0] == '@') {
        int code = input_read(options->session.command, given + 1, &settling->response);
        if (code != EXIT_DONE)
            return code;
    } else if (given) {
        buf_add_str(&settling->response, given);
    }
    if (settling->response.len > UNDO_RESPONSE_MOST)
        return command_misused(options->session.command, "--response is larger than 256 KiB");
    const struct keys_response response = {.status = SETTLED_STATUS,
                                           .body = buf_slice(&settling->response)};
    if (options->settles_done && !keys_make_outcome(&response, &problem, &settling->outcome))
        return command_failed(options->session.command, EXIT_UNAVAILABLE, "%.*s",
                              SLICE_ARG(buf_slice(&problem)));
    return EXIT_DONE;
}

static int settle_list_step(struct settling *settling)
{
    struct queue_steps_wish wish = {.act = settling->outcome ? STEPS_SETTLE_DONE
                                                             : STEPS_SETTLE_NOT_DONE,
                                    .response = buf_slice(&settling->response),
                                    .saver = &settling->saver};
    struct queue_steps_acted acted = {0};
    enum store_status status = queue_lists_try(&settling->options->session, &wish, &acted);
    if (settling->code != EXIT_DONE)
        return settling->code;
    return queue_lists_report(&settling->options->session, status, &acted,
                              settling->outcome ? "is done" : "was not done");
}

static int settle_alone(struct settling *settling)
{
    struct queue_session *session = &settling->options->session;
    struct tasks_acted acted = {0};
    const struct tasks_wish wish = {.id = session->id,
                                    .act = settling->outcome ? TASKS_SETTLE_DONE : TASKS_SETTLE_NOT,
                                    .actor = queue_actor(session),
                                    .response = buf_slice(&settling->response),
                                    .saver = &settling->saver};
    enum store_status status = tasks_act(&session->source, &wish, &acted);
    if (settling->code != EXIT_DONE)
        return settling->code;
    int code = queue_complain(session, status);
    if (code != EXIT_DONE)
        return code;
    return queue_report_act(
        session, &acted, settling->outcome ? "is done" : "was not done, and is in doubt no more");
}

static int settle_operation(struct settling *settling)
{
    struct queue_session *session = &settling->options->session;
    int code = read_settled_response(settling);
    if (code == EXIT_DONE)
        code = queue_open(session, STORE_COMMAND, false);
    if (code == EXIT_DONE)
        code = queue_complain(session, tasks_read(&session->source, session->id, &settling->whole));
    if (code != EXIT_DONE)
        return code;
    CHECK(!settling->outcome == !settling->options->settles_done);
    const struct store_task *stored = settling->whole.stored;
    return stored && stored->list_id != 0 ? settle_list_step(settling) : settle_alone(settling);
}

static int settle_task(void *given)
{
    struct settle_options *options = given;
    struct settling settling = {
        .saver = {save_settled}, .options = options, .response = buf_make(SIZE_MAX)};
    if (options->settles_done == options->settles_undone)
        return command_misused(options->session.command, "needs either --done or --not-done");
    if (options->response && !options->settles_done)
        return command_misused(options->session.command, "--response goes with --done");
    int code = settle_operation(&settling);
    outcome_unref(settling.outcome);
    buf_fini(&settling.response);
    tasks_whole_fini(&settling.whole);
    return code;
}

/* ---- the row ---- */

#define OPTIONS struct settle_options
const struct command command_queue_settle = {
    .name = "queue settle",
    .summary = "say whether an operation was done",
    .synopsis = "ID --done [--response @FILE] [--reason TEXT]\n"
                "ID --not-done [--reason TEXT]",
    .about = "Says what a person found out of an operation that waits, is dead or dropped. With "
             "--done it is done, its key is that of a success, and its group goes on. With "
             "--not-done it is in doubt no more: it stays, and may be sent, edited or dropped.\n\n"
             "Of the step that parked a list: the list goes on, with its undo filled in from the "
             "response, or is undone. Of an undo: it was done by hand, or is given up.",
    .operand = "ID",
    .operands = {1, 1},
    .flags = FLAGS(SWITCH(settles_done, "done", 0, "it was done"),
                   SWITCH(settles_undone, "not-done", 0, "it was not done"),
                   FLAG(response, "response", 0, "BODY", ANY,
                        "with --done: the body of its response: shown, replayed under its key, and "
                        "what fills in its undo; @FILE, @- from stdin"),
                   FLAG_ACT_REASON(session.reason), FLAG_STORE(session.store_path)),
    .exits = {{NO_OPERATION},
              {EXIT_USAGE, NULL},
              {NO_STORE},
              {EXIT_TRY_AGAIN, "it is being sent, or may still be on its way"}},
    ACTS(queue_run, settle_task),
};
