/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/event.h"

#include "base/check.h"
#include "base/crypto/random.h"
#include "base/mem.h"
#include "base/time/timestamp.h"
#include "store/rows.h"
#include <stdio.h>

#define ARENA_MAX ((size_t)256 * 1024 * 1024)

/* ---- reading ---- */

static size_t skip_string(struct slice text, size_t at)
{
    for (at++; text.at[at] != '"'; at++)
        at += text.at[at] == '\\';
    return at + 1;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* The bytes of the nth member's value of an object that was parsed. */
static struct slice value_text(struct slice text, size_t nth)
{
    size_t at = 0, member = 0, start = 0, depth = 0;
    for (; at < text.len; at++) {
        char c = text.at[at];
        if (c == '"') {
            at = skip_string(text, at) - 1;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if (c == ':' && depth == 1 && member == nth && start == 0) {
            start = at + 1;
        } else if (depth == 1 && (c == ',' || c == '}')) {
            if (member++ == nth)
                break;
        } else if (c == '}' || c == ']') {
            depth--;
        }
    }
    CHECK(start > 0 && at < text.len);
    while (is_space(text.at[start]))
        start++;
    while (is_space(text.at[at - 1]))
        at--;
    return slice_make(text.at + start, at - start);
}

/* NULL: the event has no such member. */
static struct slice *member_of(struct webhook_event *event, struct slice name)
{
    const struct {
        struct slice name;
        struct slice *field;
    } members[] = {{{"id", 2}, &event->id},
                   {{"type", 4}, &event->type},
                   {{"time", 4}, &event->time},
                   {{"tenant", 6}, &event->tenant}};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (slice_eq(members[i].name, name))
            return members[i].field;
    return NULL;
}

bool webhook_event_read(struct slice text, struct arena *arena, struct webhook_event *ret_event,
                        const char **ret_problem)
{
    struct json *root;
    size_t nth = 0;
    enum json_error error = json_parse(arena, text, &root, NULL);
    *ret_event = (struct webhook_event){0};
    *ret_problem = error == JSON_NO_MEMORY     ? "does not fit into memory"
                   : error != JSON_OK          ? "is no JSON"
                   : root->type != JSON_OBJECT ? "is no JSON object"
                                               : NULL;
    if (*ret_problem)
        return false;
    for (const struct json *one = root->first; one; one = one->next, nth++) {
        struct slice *field = member_of(ret_event, one->name);
        if (slice_eq(one->name, SLICE("data"))) {
            ret_event->data = value_text(text, nth);
        } else if (!field) {
            *ret_problem = "has a member that is none of type, data, id, time and tenant";
        } else if (one->type != JSON_STRING) {
            *ret_problem = "has an id, type, time or tenant that is no string";
        } else {
            *field = one->text;
        }
    }
    if (!*ret_problem)
        *ret_problem = webhook_event_problem(ret_event);
    return !*ret_problem;
}

/* ---- publishing ---- */

/* Events on their way into the store. */
struct publishing {
    const struct webhook_event *events;
    struct webhook_published *published;
    size_t n;
    struct arena arena;
    bool ended[WEBHOOK_BATCH_MOST];                /* it is there, or another one is */
    struct store_event stored[WEBHOOK_BATCH_MOST]; /* as they will be */
    struct table_change changes[WEBHOOK_BATCH_MOST];
    char now[TIMESTAMP_LEN + 1];
};

static void mint_id(char id[EVENT_ID_MAX + 1])
{
    snprintf(id, WEBHOOK_ID_SIZE, "evt_%016llx%016llx", (unsigned long long)random_u64(),
             (unsigned long long)random_u64());
}

static void make_row(struct publishing *publishing, size_t i, int64_t now)
{
    const struct webhook_event *event = &publishing->events[i];
    publishing->stored[i] = (struct store_event){
        .id = slice_of(publishing->published[i].id),
        .tenant = event->tenant,
        .type = event->type,
        .time = event->time.len > 0 ? event->time : slice_of(publishing->now),
        .data = event->data.len > 0 ? event->data : SLICE("null"),
        .created_at = now,
        .is_new = true,
        .gone_at = CLOCK_NEVER,
    };
}

static enum store_status end_published(struct publishing *publishing, size_t i,
                                       const struct store_event *there)
{
    bool same = false;
    CHECK(!publishing->ended[i]);
    enum store_status status =
        webhook_event_same(&publishing->stored[i], there, &publishing->arena, &same)
            ? STORE_DONE
            : STORE_NO_MEMORY;
    publishing->ended[i] = status == STORE_DONE;
    publishing->published[i].end = same ? WEBHOOK_REPLAYED : WEBHOOK_MISMATCH;
    return status;
}

/* One with an id that an earlier one of the batch has, too. */
static enum store_status end_repeated(struct publishing *publishing)
{
    enum store_status status = STORE_DONE;
    for (size_t i = 1; i < publishing->n && status == STORE_DONE; i++)
        for (size_t k = 0; k < i && !publishing->ended[i] && status == STORE_DONE; k++)
            if (slice_eq(publishing->stored[i].id, publishing->stored[k].id))
                status = end_published(publishing, i, &publishing->stored[k]);
    return status;
}

/* One that did not fit, if it is as an event of that id is there. */
static enum store_status end_stale(struct rows *rows, struct publishing *publishing, size_t i)
{
    struct store_event there = publishing->stored[i];
    enum store_status status = rows_find_one(rows, &event_table, &there.row);
    return status == STORE_DONE && there.row.id != 0 ? end_published(publishing, i, &there)
                                                     : status;
}

/* STORE_CONFLICT: try again, some of them were settled. */
static enum store_status try_rows(struct rows *rows, struct publishing *publishing)
{
    size_t places[WEBHOOK_BATCH_MOST];
    for (size_t i = 0; i < publishing->n; i++) {
        if (publishing->ended[i])
            continue;
        places[rows->n] = i;
        rows_put(rows, TABLE_INSERT, &event_table, &publishing->stored[i].row, NULL);
    }
    enum store_status saved = rows_save(rows), status = saved;
    for (size_t k = 0; k < rows->n && saved == STORE_CONFLICT && status == saved; k++)
        if (rows->changes[k].is_stale) {
            enum store_status read = end_stale(rows, publishing, places[k]);
            status = read == STORE_DONE ? status : read;
        }
    return status;
}

/* A frozen store takes no event, and knows those that it has. */
static enum store_status end_known(struct rows *rows, struct publishing *publishing)
{
    for (size_t i = 0; i < publishing->n; i++) {
        enum store_status status = STORE_DONE;
        if (!publishing->ended[i])
            status = end_stale(rows, publishing, i);
        if (status != STORE_DONE || !publishing->ended[i])
            return status == STORE_DONE ? STORE_FROZEN : status;
    }
    return STORE_DONE;
}

static enum store_status publish_events(struct rows *rows, struct publishing *publishing)
{
    BUF_AUTO struct buf now = buf_make(SIZE_MAX);
    int64_t at = store_now(rows->store);
    if (timestamp_print(&now, at) && buf_ok(&now))
        memcpy(publishing->now, now.at, now.len);
    for (size_t i = 0; i < publishing->n; i++) {
        struct webhook_published *published = &publishing->published[i];
        CHECK(!webhook_event_problem(&publishing->events[i])); /* checked, its data too */
        published->end = WEBHOOK_STORED;
        if (publishing->events[i].id.len > 0)
            snprintf(published->id, sizeof published->id, "%.*s",
                     SLICE_ARG(publishing->events[i].id));
        else
            mint_id(published->id);
        make_row(publishing, i, at);
    }
    enum store_status status = end_repeated(publishing);
    if (status == STORE_DONE)
        status = STORE_CONFLICT;
    while (rows_try_again(rows, &status))
        status = try_rows(rows, publishing);
    return status == STORE_FROZEN ? end_known(rows, publishing) : status;
}

enum store_status webhook_publish(struct store *store, const struct webhook_event *events, size_t n,
                                  struct parker *parker, struct webhook_published *published)
{
    CHECK(n > 0 && n <= WEBHOOK_BATCH_MOST);
    struct publishing *publishing = mem_zalloc(1, sizeof *publishing);
    if (!publishing)
        return STORE_NO_MEMORY;
    struct rows rows = {.store = store,
                        .parker = parker,
                        .arena = &publishing->arena,
                        .changes = publishing->changes,
                        .most = WEBHOOK_BATCH_MOST,
                        .begins = true};
    publishing->events = events;
    publishing->published = published;
    publishing->n = n;
    publishing->arena = arena_make(ARENA_MAX);
    enum store_status status = publish_events(&rows, publishing);
    arena_fini(&publishing->arena);
    mem_free(publishing);
    return status;
}
