/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this process notices that the store lacks what it saw committed: a row that nobody else
 * writes, compared and changed by each save in its own transaction. Those that begin, send and end
 * things for as long as they run have one (every role but STORE_COMMAND).
 *
 *      none -> new: its row may be missing -> kept: in [low, high] -> noticed: another one is new
 *
 * Each save writes another value, whatever becomes of it: of one that was not seen committed it may
 * be there, or any one before it down to `low`.
 *
 * Each session of a process has one, and shows the others what it last saw committed: a save reads
 * those rows, too, so that a process notices what any of its sessions lost. What was lacking then a
 * session compares no more: its next save says so (committer/back.c).
 */
#include "base/crypto/random.h"
#include "base/mem.h"
#include "store/postgres/postgres.h"

/* pawl.fold removes marks that were not written for seven days. */
#define AWAY_US (INT64_C(6) * 86400 * CLOCK_US_PER_S)

#define NUMBERS 8 /* of a mark alone; those of the held one, and of each other one, follow */

struct postgres_marks *postgres_marks_make(void)
{
    struct postgres_marks *marks = mem_zalloc(1, sizeof *marks);
    if (!marks)
        return NULL;
    mutex_init(&marks->mutex);
    marks->sessions = 1;
    return marks;
}

struct postgres_marks *postgres_marks_share(struct postgres_marks *marks)
{
    mutex_lock(&marks->mutex);
    marks->sessions++;
    mutex_unlock(&marks->mutex);
    return marks;
}

void postgres_marks_leave(struct postgres_marks *marks)
{
    if (!marks)
        return;
    mutex_lock(&marks->mutex);
    size_t left = --marks->sessions;
    mutex_unlock(&marks->mutex);
    if (left > 0)
        return;
    mutex_fini(&marks->mutex);
    mem_free(marks);
}

static struct postgres_mark new_mark(void)
{
    return (struct postgres_mark){.by = random_id()};
}

/* What the load of this batch found may be acknowledged by its save: what was unsure up to there,
 * too. So it is to be there where that one writes. */
static int64_t lowest_unsure(const struct postgres_mark *mark)
{
    return mark->low < mark->loaded ? mark->loaded : mark->low;
}

/* Nobody knows of a save under it whether it was, or will be, committed. */
static bool is_unsure(const struct postgres_mark *mark)
{
    return mark->unsure > mark->low;
}

/* Nothing is known of the row yet; or it may have been swept, so that what this process remembers
 * may be of a store that went back. */
static bool may_be_missing(const struct postgres_backend *postgres)
{
    return lowest_unsure(&postgres->mark) == 0 || postgres->now - postgres->written_at > AWAY_US;
}

static void begin_mark(struct postgres_backend *postgres)
{
    if (postgres->mark.by != 0 || postgres->backend.self.role == STORE_COMMAND)
        return;
    postgres->mark = new_mark();
    postgres->mark_token = postgres->version;
    postgres->mark_at = postgres->now;
}

/* While it noticed something of which the store does not say it yet, others are to notice it, too.
 */
static void show_mark(struct postgres_backend *postgres)
{
    struct postgres_marks *marks = postgres->marks;
    struct postgres_shown shown = {.by = postgres->mark.by,
                                   .low = postgres->mark.low,
                                   .token = postgres->mark_token,
                                   .at = postgres->mark_at,
                                   .seen_at = postgres->marked_at,
                                   .written_at = postgres->written_at,
                                   .highest = postgres->highest};
    if (postgres->backend.back.untold)
        return;
    mutex_lock(&marks->mutex);
    marks->shown[postgres->number - 1] = shown;
    marks->telling -= postgres->tells;
    mutex_unlock(&marks->mutex);
    postgres->tells = false;
}

/* What is to be there: not what this session knows to be lost, or what may have been swept. */
static size_t compare_others(struct postgres_backend *postgres)
{
    struct postgres_marks *marks = postgres->marks;
    size_t n = 0;
    memset(postgres->others, 0, sizeof postgres->others);
    mutex_lock(&marks->mutex);
    for (size_t i = 0; i < STORE_SESSIONS_MOST; i++) {
        const struct postgres_shown *shown = &marks->shown[i], *lost = &postgres->lost[i];
        bool is_lost = lost->by == shown->by && lost->low >= shown->low;
        bool is_kept = postgres->now - shown->written_at <= AWAY_US;
        if (i == postgres->number - 1 || is_lost || !is_kept)
            continue;
        postgres->others[i] = *shown;
        n++;
    }
    mutex_unlock(&marks->mutex);
    return n;
}

static void add_numbers(struct postgres_params *params, const int64_t *numbers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        postgres_item_number(params, numbers[i]);
}

/* As pawl.keep_mark has it. */
static void add_mark_param(struct postgres_backend *postgres, struct postgres_params *params,
                           int64_t value)
{
    const struct postgres_mark *mark = &postgres->mark, *held = &postgres->held_mark;
    const int64_t numbers[NUMBERS] = {
        mark->by,       lowest_unsure(mark),  mark->high,        value,
        postgres->lift, postgres->mark_token, postgres->mark_at, may_be_missing(postgres)};
    bool any = mark->by != 0 || postgres->lift != 0;
    size_t n = any ? compare_others(postgres) : 0;
    postgres_array_begin(params, POSTGRES_INT8);
    if (any)
        add_numbers(params, numbers, NUMBERS);
    if (any && (held->low != 0 || n > 0))
        add_numbers(params, (const int64_t[]){held->by, held->low, held->high}, 3);
    for (size_t i = 0; n > 0 && i < STORE_SESSIONS_MOST; i++) {
        const struct postgres_shown *other = &postgres->others[i];
        if (other->low != 0)
            add_numbers(params, (const int64_t[]){other->by, other->low, other->token, other->at},
                        4);
    }
    postgres_array_end(params);
}

void postgres_add_mark(struct postgres_backend *postgres, struct postgres_params *params)
{
    begin_mark(postgres);
    if (postgres->mark.low != 0 && may_be_missing(postgres))
        postgres->backend.back.blanks++;
    add_mark_param(postgres, params, ++postgres->mark.high);
}

/* NULL: it is this session's own. */
static struct postgres_shown *lacking_other(struct postgres_backend *postgres)
{
    for (size_t i = 0; i < STORE_SESSIONS_MOST; i++)
        if (postgres->others[i].low != 0 && postgres->others[i].by == postgres->failure.mark)
            return &postgres->others[i];
    return NULL;
}

static int64_t highest_drawn(const struct postgres_backend *postgres)
{
    int64_t highest = postgres->highest;
    for (size_t i = 0; i < STORE_SESSIONS_MOST; i++)
        highest = clock_last(highest, postgres->others[i].highest);
    return highest;
}

/* Returns whether no session of this process had noticed it. */
static bool note_incident(struct postgres_backend *postgres, size_t whose)
{
    struct postgres_marks *marks = postgres->marks;
    mutex_lock(&marks->mutex);
    struct postgres_shown *shown = &marks->shown[whose];
    bool is_shown = shown->by == postgres->failure.mark;
    bool is_first = marks->telling == 0 && !(is_shown && shown->is_lost);
    shown->is_lost |= is_shown;
    marks->telling += !postgres->tells;
    postgres->tells = true;
    mutex_unlock(&marks->mutex);
    return is_first;
}

/* Those of its own epoch that this process drew are below those that are drawn from now on. */
static void notice_drawn(struct postgres_backend *postgres)
{
    struct backend_back *back = &postgres->backend.back;
    const struct postgres_shown *other = lacking_other(postgres);
    size_t whose = other ? (size_t)(other - postgres->others) : postgres->number - 1;
    back->incidents += note_incident(postgres, whose);
    int64_t since = postgres->failure.since;
    int64_t seen_at = other ? other->seen_at : postgres->marked_at;
    back->times++;
    back->blanks++;
    back->since = back->untold ? clock_first(back->since, since) : since;
    back->seen_at = back->untold ? clock_last(back->seen_at, seen_at) : seen_at;
    back->above = highest_drawn(postgres);
    back->untold = true;
    postgres->lift = back->above;
    if (other)
        postgres->lost[whose] = *other;
    else
        postgres->mark = postgres->held_mark = (struct postgres_mark){0};
}

/* Not by what was unsure: then the connection led elsewhere in the middle of a batch, and the next
 * load finds out what is there. */
void postgres_mark_saved(struct postgres_backend *postgres, enum backend_status status)
{
    struct postgres_mark *mark = &postgres->mark;
    bool is_sure = lowest_unsure(mark) == mark->low;
    if (postgres->failure.went_back && is_sure)
        notice_drawn(postgres);
    if (status == BACKEND_UNSURE)
        mark->unsure = mark->high;
    if (status != BACKEND_OK)
        return;
    postgres->lift = 0;
    if (mark->by == 0)
        return;
    if (postgres->mark_token == 0) {
        postgres->mark_token = postgres->version;
        postgres->mark_at = postgres->now;
    }
    mark->low = mark->high;
    postgres->marked_at = postgres->written_at = postgres->now;
    postgres->held_mark = (struct postgres_mark){0};
    show_mark(postgres);
}

void postgres_queue_see_mark(struct postgres_backend *postgres)
{
    struct postgres_params *params = &postgres->params;
    postgres_params_clear(params);
    if (postgres->mark.by == 0) {
        postgres_queue(postgres, "SELECT 0::pg_catalog.int8", params);
        return;
    }
    add_mark_param(postgres, params, 0);
    postgres_queue(postgres, "SELECT pawl.see_mark($1)", params);
}

/* What was unsure up to there is committed, and may be acknowledged. Where none of it is, the row
 * is as old as it was. */
void postgres_mark_seen(struct postgres_backend *postgres, const PGresult *result)
{
    int64_t seen = postgres_number(result, 0, 0);
    if (seen == 0)
        return;
    if (seen != postgres->mark.low)
        postgres->written_at = postgres->now;
    postgres->mark.low = seen;
    postgres->marked_at = postgres->now;
    show_mark(postgres);
}

/* What was unsure under it is looked at, and may be acknowledged, only where it is the mark. */
void postgres_move_mark(struct postgres_backend *postgres)
{
    if (postgres->mark.by == 0 || is_unsure(&postgres->mark))
        return;
    if (!may_be_missing(postgres))
        postgres->held_mark = postgres->mark;
    postgres->mark = new_mark();
}
