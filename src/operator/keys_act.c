/* SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"
#include "base/crypto/random.h"
#include "base/json/json.h"
#include "core/request/payload.h"
#include "engine/host.h"
#include "operator/keys.h"
#include <assert.h>

#define SENTENCE_MAX ((size_t)1024)
#define CACHES_US (100 * CLOCK_US_PER_MS)
#define FIELDS_MAX ((size_t)64 * 1024)
#define ARENA_MAX ((size_t)640 * 1024 * 1024) /* understood JSON takes up to 32 times its text */

/* ---- what came of it ---- */

static void describe_done(const struct keys_act *act, struct buf *what)
{
    if (act->kind == KEYS_FORGET)
        buf_add_str(what, "forgotten; under this key the next request is a new operation");
    else if (act->kind == KEYS_RELEASE)
        buf_add_str(what, "released; the next attempt will run the operation");
    else if (act->is_exit)
        buf_printf(what, "resolved as %s with exit code %d; the next run gets this",
                   record_status_name(act->record.status), act->exit_code);
    else
        buf_printf(what, "resolved as %s with HTTP status %d; duplicates get this response",
                   record_status_name(act->record.status), act->http_status);
}

/* The same act again is done; another one came too late. */
static enum keys_end describe_already(const struct keys_act *act, struct buf *what)
{
    const struct record *record = &act->record;
    bool released = record->status == RECORD_PENDING;
    if (released) {
        buf_add_str(what, "is released already; nothing was changed");
        return KEYS_SAME;
    }
    buf_printf(what, "is %s already", record_status_name(record->status));
    if (record->http_status > 0)
        buf_printf(what, ", with HTTP status %d", record->http_status);
    buf_add_str(what, "; nothing was changed");
    bool as_said = act->is_exit ? (record->status == RECORD_FAILED) == (act->exit_code != 0)
                                : record->http_status == act->http_status;
    return act->kind == KEYS_RESOLVE && as_said ? KEYS_SAME : KEYS_LATE;
}

static void describe_stale(const struct keys_act *act, struct buf *what)
{
    if (record_is_absent(&act->record, act->now))
        buf_add_str(what, "the record has expired or was deleted; nothing was changed");
    else if (act->token == 0)
        buf_printf(what,
                   "it is still %s: give its token, %lld, if you know that it did not happen, or "
                   "%s; nothing was changed",
                   record_status_name(act->record.status), (long long)act->record.token,
                   act->insist);
    else
        buf_printf(what,
                   "token %lld is stale, the current one is %lld; run `pawl keys show` again; "
                   "nothing was changed",
                   (long long)act->token, (long long)act->record.token);
}

static void describe_early(const struct keys_act *act, struct buf *what)
{
    int64_t left = clock_seconds_left(act->now, act->record.quiet_at);
    buf_printf(what,
               "too early: a request may still be on its way and be done later; try again in "
               "%lld s",
               (long long)(left > 0 ? left : 1));
}

/* Appends a sentence for the operator. */
static enum keys_end describe_write(const struct keys_act *act, enum record_write write,
                                    struct buf *what)
{
    switch (write) {
    case RECORD_WRITTEN:
        describe_done(act, what);
        return KEYS_DONE;
    case RECORD_ALREADY:
        return describe_already(act, what);
    case RECORD_STALE:
        describe_stale(act, what);
        return KEYS_STALE;
    case RECORD_EARLY:
        describe_early(act, what);
        return KEYS_EARLY;
    case RECORD_LIVE:
        buf_printf(what,
                   "the record is in use (its lease expires in %lld s); wait, or %s if you are "
                   "certain that its owner is dead",
                   (long long)clock_seconds_left(0, act->lease_left_us), act->insist);
        return KEYS_LIVE;
    }
    UNREACHABLE();
}

const char *keys_end_name(enum keys_end end)
{
    static const char *const names[] = {
        [KEYS_DONE] = "done",    [KEYS_SAME] = "same",   [KEYS_LATE] = "late",
        [KEYS_STALE] = "stale",  [KEYS_EARLY] = "early", [KEYS_LIVE] = "live",
        [KEYS_OPEN] = "unknown", [KEYS_OTHER] = "other",
    };
    static_assert(COUNT_OF(names) == KEYS_OTHER + 1, "a word for each end");
    CHECK(end <= KEYS_OTHER);
    return names[end];
}

/* ---- doing it ---- */

/* So long a gateway may still replay from its cache. */
static void await_caches(struct parker *parker)
{
    int64_t until = clock_after(clock_boot_us(), CACHES_US);
    while (clock_boot_us() < until)
        parker->park(parker, until);
}

static struct store_op op_of(const struct keys_act *act, struct slice data)
{
    static const enum store_op_kind kinds[] = {
        [KEYS_RESOLVE] = STORE_RESOLVE, [KEYS_RELEASE] = STORE_RELEASE_SETTLED,
        [KEYS_FORGET] = STORE_FORGET,   [KEYS_FINISH] = STORE_FINISH,
        [KEYS_DOUBT] = STORE_DOUBT,
    };
    static_assert(COUNT_OF(kinds) == KEYS_DOUBT + 1, "an operation for each act");
    CHECK(act->kind <= KEYS_DOUBT && act->row);
    return (struct store_op){
        .kind = kinds[act->kind],
        .key_hash = act->row->store.key_hash,
        .row_hint = act->row->store.id,
        .brings = act->brings,
        .n_brings = act->n_brings,
        .writing = {.token = act->token,
                    .force = act->force,
                    .final = RECORD_COMPLETE,
                    .http_status = act->http_status,
                    .outcome = act->outcome,
                    .event_data = data,
                    .keeps = act->outcome,
                    .looked_at = act->looked_at,
                    .actor = act->actor,
                    .reason = act->reason},
    };
}

/* Its participant is at work, or somebody who looked at the table forgot to end a transaction. */
static void describe_held(struct keys_act *act)
{
    act->record = act->row->store.record;
    act->what = buf_make(SENTENCE_MAX);
    buf_add_str(&act->what, "a transaction of another session holds the record; try again when it "
                            "has ended; nothing was changed");
    act->end = KEYS_LIVE;
}

static bool is_job(const struct store_row *row)
{
    return slice_eq(row->recipe, SLICE(PAYLOAD_RECIPE_JOB));
}

static bool is_of_other_kind(const struct keys_act *act)
{
    return act->kind == KEYS_RESOLVE && act->is_exit != is_job(&act->row->store);
}

/* A job whose pawl has died, and whose command goes on, is no more settled than it is run again
 * (engine/host.h). Its record is as it was listed; another token is refused anyway. */
static bool goes_on_acting(const struct keys_act *act)
{
    const struct store_row *row = &act->row->store;
    bool settles = act->kind == KEYS_RESOLVE || act->kind == KEYS_RELEASE ||
                   (act->kind == KEYS_FORGET && act->token != 0);
    return settles && !act->force && is_job(row) && !record_is_final(row->record.status) &&
           !record_is_released(&row->record) &&
           host_goes_on(row->origin, row->key, row->record.token);
}

static void describe_going_on(struct keys_act *act)
{
    act->record = act->row->store.record;
    act->what = buf_make(SENTENCE_MAX);
    buf_printf(&act->what,
               "the pawl that began it, or what it started, still runs on this host; wait until it "
               "has ended, or %s; nothing was changed",
               act->insist);
    act->end = KEYS_LIVE;
}

static void describe_other(struct keys_act *act)
{
    act->record = act->row->store.record;
    act->what = buf_make(SENTENCE_MAX);
    buf_add_str(&act->what,
                act->is_exit
                    ? "it is a request, which ends with an HTTP status, not with an exit code; "
                      "nothing was changed"
                    : "it is a command, which ends with an exit code (`pawl keys resolve "
                      "--exit-code`), not with an HTTP status; nothing was changed");
    act->end = KEYS_OTHER;
}

enum store_status keys_act(struct store *store, struct keys_act *act, struct parker *parker)
{
    if (is_of_other_kind(act)) {
        describe_other(act);
        return STORE_DONE;
    }
    if (goes_on_acting(act)) {
        describe_going_on(act);
        return STORE_DONE;
    }
    struct slice data = SLICE("");
    if (act->outcome && !origin_read_event_data(act->row->store.origin, act->outcome->body, &data))
        return STORE_NO_MEMORY;
    struct store_op op = op_of(act, data);
    random_bytes(op.begin.attempt_id, RECORD_ATTEMPT_ID_SIZE);
    store_run(store, &op, parker, clock_after(clock_boot_us(), KEYS_TIMEOUT_US));
    outcome_unref(op.result.found);
    if (op.result.status == STORE_WITHDRAWN && op.result.held) {
        describe_held(act);
        return STORE_DONE;
    }
    if (op.result.status != STORE_DONE)
        return op.result.status;
    act->changed = op.result.write == RECORD_WRITTEN;
    act->record = op.result.record;
    act->lease = op.result.lease;
    act->lease_left_us = op.result.lease_left_us;
    act->now = op.result.store_now;
    if (act->kind == KEYS_FORGET && act->changed)
        await_caches(parker);
    act->what = buf_make(SENTENCE_MAX);
    act->end = describe_write(act, op.result.write, &act->what);
    return STORE_DONE;
}

void keys_act_fini(struct keys_act *act)
{
    buf_fini(&act->what);
}

const char *keys_act_name(const struct keys_act *act)
{
    if (act->kind == KEYS_FORGET)
        return store_act_name(STORE_ACT_FORGET);
    return store_act_name(act->kind == KEYS_RELEASE ? STORE_ACT_RELEASE : STORE_ACT_RESOLVE);
}

/* ---- the outcome an operator writes ---- */

/* That of a body which came without one. */
static void add_content_type(struct slice body, struct buf *fields)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct json *root;
    enum json_error error = json_parse(&arena, body, &root, NULL);
    if (error == JSON_OK)
        buf_add_str(fields, "Content-Type: application/json\r\n");
    fields->failed |= error == JSON_NO_MEMORY;
}

static bool make_fields(const struct keys_response *response, struct buf *problem,
                        struct buf *fields)
{
    for (size_t i = 0; i < response->headers.n; i++) {
        struct headers one = {.n = 1, .at = {response->headers.at[i]}};
        size_t before = fields->len;
        outcome_keep_fields(&one, OUTCOME_KEEPS_COOKIES, fields);
        if (!buf_ok(fields) || fields->len > before)
            continue;
        buf_printf(problem, "%.*s is not kept with a response", SLICE_ARG(one.at[0].name));
        return false;
    }
    if (response->body.len > 0 && !headers_find(&response->headers, SLICE("Content-Type")))
        add_content_type(response->body, fields);
    if (!buf_ok(fields))
        buf_add_str(problem, fields->too_large ? "the headers are too large" : "out of memory");
    return buf_ok(fields);
}

bool keys_make_outcome(const struct keys_response *response, struct buf *problem,
                       struct outcome **ret_outcome)
{
    BUF_AUTO struct buf fields = buf_make(FIELDS_MAX);
    int status = response->status;
    if (!make_fields(response, problem, &fields))
        return false;
    if (response->body.len > 0 && (status == 204 || status == 304)) {
        buf_printf(problem, "a response with status %d has no body", status);
        return false;
    }
    struct outcome *outcome = outcome_new(status, record_status_of(status) == RECORD_FAILED,
                                          buf_slice(&fields), response->body);
    if (!outcome) {
        buf_add_str(problem, "out of memory");
        return false;
    }
    COMPRESS_AUTO struct compress compress = {0};
    outcome_pack(outcome, &compress);
    *ret_outcome = outcome;
    return true;
}
