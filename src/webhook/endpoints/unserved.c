/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/endpoints/unserved.h"

#include "base/check.h"
#include "base/text/utf8.h"
#include "observe/page.h"
#include "webhook/handler.h"
#include <assert.h>

#define LINES_MAX ((size_t)256 * 1024)
static_assert(CENSUS_STRAYS_MOST + 1 <= TABLE_BRINGS_MAX, "strays are written in one commit");

void unserved_init(struct unserved *unserved, struct store *store, struct log *log)
{
    *unserved = (struct unserved){.store = store, .log = log, .lines = buf_make(LINES_MAX)};
    mutex_init(&unserved->mutex);
}

void unserved_fini(struct unserved *unserved)
{
    mutex_fini(&unserved->mutex);
    buf_fini(&unserved->lines);
}

static bool is_served(const struct unserved_look *look, const struct census_entry *entry)
{
    return entry->n_living > 0 || (slice_eq(entry->row.kind, SLICE(WEBHOOK_KIND)) &&
                                   (roster_find(look->roster, entry->row.name) ||
                                    roster_holds(look->roster, entry->row.name)));
}

static void say_unserved(const struct unserved *unserved, const char *event, enum log_level level,
                         const struct store_roster *row)
{
    struct log_line line;
    log_line_start(&line, level, event);
    log_line_str(&line, "kind", row->kind);
    log_line_str(&line, "name", row->name);
    if (level == LOG_LEVEL_WARN && slice_eq(row->kind, SLICE(INBOX_KIND)))
        log_line_str(&line, "hint",
                     SLICE("if it was renamed, its new name needs `source:` with this one, so that "
                           "its events and ids stay known"));
    log_line_end(unserved->log, &line);
}

/* What there is to write of one. False: nothing. */
static bool judge_unserved(const struct unserved_look *look, const struct census_entry *entry,
                           struct store_roster *row)
{
    int64_t now = look->census->now;
    int64_t look_us = clock_first(look->gone_us, UNSERVED_LOOK_US);
    *row = entry->row;
    if (row->row.id == 0 || row->state == STORE_ROSTER_REMOVED)
        return false;
    if (is_served(look, entry)) {
        row->unserved_since = 0;
        return entry->row.unserved_since != 0;
    }
    if (row->unserved_since == 0) {
        row->unserved_since = now;
        return true;
    }
    if (now < clock_after(row->unserved_since, look->gone_us) ||
        now < clock_after(look->since, look_us))
        return false;
    row->state = STORE_ROSTER_REMOVED;
    row->gone_at = clock_after(now, CENSUS_REMOVED_US);
    return true;
}

/* Lanes from before there was a roster. */
static enum store_status add_strays(struct unserved *unserved, const struct unserved_look *look)
{
    struct census *census = look->census;
    const size_t n = census->n_strays; /* there may be more once they are written */
    struct store_roster strays[CENSUS_STRAYS_MOST];
    struct table_change changes[CENSUS_STRAYS_MOST + 1];
    struct rows rows = {.store = unserved->store,
                        .parker = look->parker,
                        .changes = changes,
                        .most = CENSUS_STRAYS_MOST + 1};
    for (size_t i = 0; i < n; i++) {
        strays[i] = (struct store_roster){.kind = census->strays[i].kind,
                                          .name = census->strays[i].name,
                                          .state = STORE_ROSTER_RETIRED,
                                          .unserved_since = census->now,
                                          .gone_at = CLOCK_NEVER};
        rows_put(&rows, TABLE_INSERT, &roster_table, &strays[i].row, NULL);
    }
    census_put_moved(census, &rows);
    enum store_status status = rows_save(&rows);
    for (size_t i = 0; status == STORE_DONE && i < n; i++)
        say_unserved(unserved, "roster_unserved", LOG_LEVEL_WARN, &strays[i]);
    return status == STORE_CONFLICT ? STORE_DONE : status;
}

/* One that conflicts is judged again with the next look. */
static enum store_status write_roster_row(struct unserved *unserved,
                                          const struct unserved_look *look,
                                          struct store_roster *row)
{
    struct rows rows = {.store = unserved->store, .parker = look->parker};
    rows_put(&rows, TABLE_UPDATE, &roster_table, &row->row, NULL);
    census_put_moved(look->census, &rows);
    enum store_status status = rows_save(&rows);
    if (status != STORE_DONE)
        return status == STORE_CONFLICT ? STORE_DONE : status;
    if (row->state == STORE_ROSTER_REMOVED)
        say_unserved(unserved, "roster_removed", LOG_LEVEL_ERROR, row);
    else if (row->unserved_since != 0)
        say_unserved(unserved, "roster_unserved", LOG_LEVEL_WARN, row);
    return STORE_DONE;
}

enum store_status unserved_tend(struct unserved *unserved, const struct unserved_look *look)
{
    enum store_status status = STORE_DONE;
    bool changed = look->census->n_strays > 0;
    CHECK(look->census->now != 0 && look->census->n_strays <= CENSUS_STRAYS_MOST);
    if (changed)
        status = add_strays(unserved, look);
    for (size_t i = 0; i < look->census->n && status == STORE_DONE; i++) {
        struct store_roster row;
        if (!judge_unserved(look, &look->census->entries[i], &row))
            continue;
        status = write_roster_row(unserved, look, &row);
        changed = true;
    }
    return changed && status == STORE_DONE
               ? census_read(look->census, unserved->store, look->parker)
               : status;
}

void unserved_show(struct unserved *unserved, const struct unserved_look *look)
{
    size_t n = 0;
    mutex_lock(&unserved->mutex);
    buf_clear(&unserved->lines);
    for (size_t i = 0; i < look->census->n && n < UNSERVED_MOST; i++) {
        const struct census_entry *entry = &look->census->entries[i];
        bool has_work = entry->is_due || entry->row.state == STORE_ROSTER_DECLARED;
        if (!has_work || is_served(look, entry) || entry->row.state == STORE_ROSTER_REMOVED ||
            !utf8_valid(entry->row.name)) /* which no pawl wrote */
            continue;
        buf_printf(&unserved->lines, "%s{", SERIES(ROSTER_UNSERVED)->name);
        page_label(&unserved->lines, "name", entry->row.name);
        buf_add_str(&unserved->lines, "} 1\n");
        n++;
    }
    mutex_unlock(&unserved->mutex);
}

void unserved_write(struct unserved *unserved, struct buf *page)
{
    mutex_lock(&unserved->mutex);
    page_begin(page, SERIES(ROSTER_UNSERVED));
    buf_add_slice(page, buf_slice(&unserved->lines));
    mutex_unlock(&unserved->mutex);
}
