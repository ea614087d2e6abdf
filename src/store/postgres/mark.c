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
 */
#include "base/crypto/random.h"
#include "store/postgres/postgres.h"

/* pawl.fold removes marks that were not written for seven days. */
#define AWAY_US (INT64_C(6) * 86400 * CLOCK_US_PER_S)

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

static void add_mark_param(struct postgres_backend *postgres, struct postgres_params *params,
                           int64_t value)
{
    const struct postgres_mark *mark = &postgres->mark, *held = &postgres->held_mark;
    const int64_t numbers[] = {mark->by,          lowest_unsure(mark),
                               mark->high,        value,
                               postgres->lift,    postgres->mark_token,
                               postgres->mark_at, may_be_missing(postgres),
                               held->by,          held->low,
                               held->high};
    size_t n = sizeof numbers / sizeof *numbers - (held->low == 0 ? 3 : 0);
    postgres_array_begin(params, POSTGRES_INT8);
    for (size_t i = 0; i < n && (mark->by != 0 || postgres->lift != 0); i++)
        postgres_item_number(params, numbers[i]);
    postgres_array_end(params);
}

void postgres_add_mark(struct postgres_backend *postgres, struct postgres_params *params)
{
    begin_mark(postgres);
    if (postgres->mark.low != 0 && may_be_missing(postgres))
        postgres->backend.back.blanks++;
    add_mark_param(postgres, params, ++postgres->mark.high);
}

/* Those of its own epoch that this process drew are below those that are drawn from now on. */
static void notice_drawn(struct postgres_backend *postgres)
{
    struct backend_back *back = &postgres->backend.back;
    back->times++;
    back->blanks++;
    back->since = postgres->failure.since;
    back->above = postgres->highest;
    back->seen_at = postgres->marked_at;
    postgres->lift = postgres->highest;
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
    mark->low = mark->high;
    postgres->marked_at = postgres->written_at = postgres->now;
    postgres->held_mark = (struct postgres_mark){0};
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
