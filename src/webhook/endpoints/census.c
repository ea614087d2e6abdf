/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/endpoints/census.h"

#include "base/check.h"
#include "core/event_type.h"
#include <stdlib.h>

#define ARENA_MAX ((size_t)64 * 1024 * 1024)

struct census census_make(void)
{
    return (struct census){.arena = arena_make(ARENA_MAX)};
}

void census_fini(struct census *census)
{
    arena_fini(&census->arena);
}

/* ---- reading ---- */

/* What every change of the roster touches. */
static enum store_status read_head(struct rows *rows, struct store_roster *ret_head)
{
    *ret_head = (struct store_roster){.gone_at = CLOCK_NEVER};
    return rows_find_one(rows, &roster_table, &ret_head->row);
}

/* ---- putting it together ---- */

static int compare_census_entries(const void *a, const void *b)
{
    const struct store_roster *one = &((const struct census_entry *)a)->row;
    const struct store_roster *other = &((const struct census_entry *)b)->row;
    int order = slice_compare(one->kind, other->kind);
    return order != 0 ? order : slice_compare(one->name, other->name);
}

static int compare_serves(const void *a, const void *b)
{
    const struct store_serves *one = *(const struct store_serves *const *)a;
    const struct store_serves *other = *(const struct store_serves *const *)b;
    int order = slice_compare(one->kind, other->kind);
    if (order == 0)
        order = slice_compare(one->name, other->name);
    return order != 0 ? order : (one->row.id > other->row.id) - (one->row.id < other->row.id);
}

/* Both in the order of their ids. */
static bool note_living(const struct store_found *processes, int64_t id, int64_t now,
                        int64_t *until)
{
    for (size_t i = 0; i < processes->n; i++) {
        const struct store_process *process = (const struct store_process *)processes->rows[i];
        if (process->row.id != id || !process->is_in_force || process->lives_until <= now)
            continue;
        *until = clock_first(*until, process->lives_until);
        return true;
    }
    return false;
}

/* Drops the declarations of the dead, and orders the others by kind and name, the newest last. */
static void order_living(struct store_found *serves, const struct store_found *processes,
                         struct census *census)
{
    size_t n = 0;
    int64_t last = 0;
    bool lives = false;
    for (size_t i = 0; i < serves->n; i++) {
        int64_t process = ((const struct store_serves *)serves->rows[i])->process;
        if (process != last)
            lives = note_living(processes, process, census->now, &census->until);
        last = process;
        if (lives)
            serves->rows[n++] = serves->rows[i];
    }
    serves->n = n;
    if (n > 0)
        qsort(serves->rows, n, sizeof *serves->rows, compare_serves);
}

static bool is_entry_of(const struct census_entry *entry, const struct table_row *serves)
{
    const struct store_serves *row = (const struct store_serves *)serves;
    return slice_eq(entry->row.kind, row->kind) && slice_eq(entry->row.name, row->name);
}

/* Each name has a row of the roster, but for a moment in which it is being declared. */
static void take_living(struct census *census, struct store_found *serves)
{
    size_t known = census->n;
    for (size_t i = 0, n; i < serves->n; i += n) {
        const struct store_serves *first = (const struct store_serves *)serves->rows[i];
        struct census_entry like = {.row = {.kind = first->kind, .name = first->name}};
        struct census_entry *entry = known == 0 ? NULL
                                                : bsearch(&like, census->entries, known,
                                                          sizeof like, compare_census_entries);
        if (!entry) {
            entry = &census->entries[census->n++];
            *entry = like;
            entry->row.state = STORE_ROSTER_DECLARED;
        }
        for (n = 1; i + n < serves->n && is_entry_of(entry, serves->rows[i + n]); n++) {
        }
        entry->living = &serves->rows[i];
        entry->n_living = n;
    }
}

static const struct store_terms *terms_at(const struct census_entry *entry, size_t at)
{
    return &((const struct store_serves *)entry->living[at])->terms;
}

/* The newest that wants anything, as a former name does not; 0: none. */
static int64_t newest_of(const struct census_entry *entry)
{
    int64_t newest = 0;
    for (size_t i = 0; i < entry->n_living; i++)
        if (terms_at(entry, i)->types.len > 0)
            newest = entry->living[i]->id;
    return newest;
}

/* Whether events are told under the former name: one that lives declared it as its own after those
 * that have the new one; or nobody lives, and the last who did had it so. */
static bool is_back(const struct census_entry *former, const struct census_entry *heir)
{
    int64_t newest = newest_of(former);
    if (newest != newest_of(heir))
        return newest > newest_of(heir);
    return former->row.state == STORE_ROSTER_DECLARED && former->row.terms.types.len > 0;
}

/* Not in a circle, which configs that contradict each other may make. */
static void tell_as(struct census_entry *older, struct census_entry *newer)
{
    for (const struct census_entry *at = newer; at; at = at->told_as)
        if (at == older)
            return;
    if (!older->told_as || newest_of(older->told_as) < newest_of(newer))
        older->told_as = newer;
}

/* Where one process has an endpoint under a former name and another one under the new, each event
 * is told once, also if the process with the new name has ended: its row still says so. */
static void choose_names(struct census *census)
{
    for (size_t i = 0; i < census->n; i++) {
        struct census_entry *heir = &census->entries[i];
        struct slice names = census_terms(heir)->former, name;
        while (census_is_told(heir) && store_list_next(&names, &name)) {
            struct census_entry *former = census_find(census, heir->row.kind, name);
            if (former && is_back(former, heir))
                tell_as(heir, former);
            else if (former)
                tell_as(former, heir);
        }
    }
    for (size_t i = 0; i < census->n; i++) {
        struct census_entry *entry = &census->entries[i], *last = entry;
        while (last->told_as)
            last = last->told_as;
        if (last == entry)
            continue;
        entry->next = last->others;
        last->others = entry;
    }
}

static enum store_status build_census(struct census *census, struct store_found *serves,
                                      const struct store_found *names,
                                      const struct store_found *processes)
{
    order_living(serves, processes, census);
    census->entries =
        arena_alloc(&census->arena, (names->n + serves->n + 1) * sizeof *census->entries);
    if (!census->entries)
        return STORE_NO_MEMORY;
    for (size_t i = 0; i < names->n; i++) {
        const struct store_roster *row = (const struct store_roster *)names->rows[i];
        if (row->kind.len > 0)
            census->entries[census->n++] = (struct census_entry){.row = *row};
    }
    qsort(census->entries, census->n, sizeof *census->entries, compare_census_entries);
    take_living(census, serves);
    qsort(census->entries, census->n, sizeof *census->entries, compare_census_entries);
    choose_names(census);
    return STORE_DONE;
}

enum store_status census_read(struct census *census, struct store *store, struct parker *parker)
{
    struct census read = census_make();
    struct rows rows = {.store = store, .parker = parker, .arena = &read.arena};
    struct store_found serves, names, processes;
    enum store_status status = read_head(&rows, &read.head);
    read.now = rows.now;
    if (status == STORE_DONE)
        status = rows_find_all(&rows, &serves_table, &serves);
    if (status == STORE_DONE)
        status = rows_find_all(&rows, &process_table, &processes);
    if (status == STORE_DONE)
        status = rows_find_all(&rows, &roster_table, &names);
    if (status == STORE_DONE) {
        read.until = clock_after(read.now, CENSUS_EVERY_US);
        status = build_census(&read, &serves, &names, &processes);
    }
    if (status != STORE_DONE) {
        census_fini(&read);
        return status;
    }
    census_fini(census);
    *census = read;
    return STORE_DONE;
}

enum store_status census_refresh(struct census *census, struct store *store, struct parker *parker)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct rows rows = {.store = store, .parker = parker, .arena = &arena};
    struct store_roster head;
    enum store_status status = read_head(&rows, &head);
    bool is_same = census->now != 0 && rows.now < census->until &&
                   head.row.id == census->head.row.id &&
                   head.row.version == census->head.row.version;
    return status != STORE_DONE || is_same ? status : census_read(census, store, parker);
}

/* ---- what it says ---- */

struct census_entry *census_find(const struct census *census, struct slice kind, struct slice name)
{
    const struct census_entry like = {.row = {.kind = kind, .name = name}};
    return census->n == 0
               ? NULL
               : bsearch(&like, census->entries, census->n, sizeof like, compare_census_entries);
}

const struct census_entry *census_heir(const struct census_entry *entry)
{
    while (entry->told_as)
        entry = entry->told_as;
    return entry;
}

bool census_is_told(const struct census_entry *entry)
{
    return entry->n_living > 0 || entry->row.state == STORE_ROSTER_DECLARED;
}

static bool terms_want(const struct store_terms *terms, const struct store_event *event,
                       bool of_any_type)
{
    struct slice types = terms->types, tenants = terms->tenants, text;
    bool wants_type = of_any_type, wants_tenant = tenants.len == 0;
    while (store_list_next(&types, &text))
        wants_type |= event_type_matches(text, event->type);
    while (store_list_next(&tenants, &text))
        wants_tenant |= slice_eq(text, event->tenant);
    return wants_type && wants_tenant;
}

static bool wants_by_name(const struct census_entry *entry, const struct store_event *event,
                          bool of_any_type)
{
    bool wants = entry->n_living == 0 && census_is_told(entry) &&
                 terms_want(&entry->row.terms, event, of_any_type);
    for (size_t i = 0; i < entry->n_living; i++)
        wants |= terms_want(terms_at(entry, i), event, of_any_type);
    return wants;
}

bool census_wants(const struct census_entry *entry, const struct store_event *event,
                  bool of_any_type)
{
    entry = census_heir(entry);
    bool wants = wants_by_name(entry, event, of_any_type);
    for (const struct census_entry *at = entry->others; at; at = at->next)
        wants |= wants_by_name(at, event, of_any_type);
    return wants;
}

const struct store_terms *census_terms(const struct census_entry *entry)
{
    return entry->n_living > 0 ? terms_at(entry, entry->n_living - 1) : &entry->row.terms;
}

/* One of a newer version is as the default. */
enum retry_profile census_profile(const struct store_terms *terms)
{
    bool is_known = terms->retry >= 0 && terms->retry < RETRY_PROFILE_COUNT;
    return is_known ? (enum retry_profile)terms->retry : RETRY_PROFILE_webhook;
}

static void add_stray(struct census *census, struct slice kind, struct slice lane)
{
    for (size_t i = 0; i < census->n_strays; i++)
        if (slice_eq(census->strays[i].kind, kind) && slice_eq(census->strays[i].name, lane))
            return;
    if (census->now == 0 || census->n_strays == CENSUS_STRAYS_MOST)
        return; /* the others once these are known */
    struct slice name = arena_copy(&census->arena, lane);
    if (name.len == lane.len)
        census->strays[census->n_strays++] = (struct census_stray){kind, name};
}

bool census_gives_up(struct census *census, struct slice kind, struct slice lane)
{
    struct census_entry *entry = census_find(census, kind, lane);
    if (!entry) {
        add_stray(census, kind, lane);
        return false;
    }
    entry->is_due = true;
    return entry->row.state == STORE_ROSTER_REMOVED && entry->n_living == 0;
}

enum store_status census_ask(struct store *store, struct parker *parker, struct slice kind,
                             struct slice name, enum store_roster_state *ret_state)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct rows rows = {.store = store, .parker = parker, .arena = &arena};
    struct store_roster row = {.kind = kind, .name = name};
    enum store_status status = rows_find_one(&rows, &roster_table, &row.row);
    *ret_state = row.state; /* 0, where there is none */
    return status;
}

void census_put_removed(struct census_entry *entry, int64_t now, struct rows *rows)
{
    CHECK(entry->row.row.id != 0);
    entry->row.state = STORE_ROSTER_REMOVED;
    entry->row.gone_at = clock_after(now, CENSUS_REMOVED_US);
    rows_put(rows, TABLE_UPDATE, &roster_table, &entry->row.row, NULL);
}

void census_put_moved(struct census *census, struct rows *rows)
{
    CHECK(census->now != 0 && census->head.kind.len == 0);
    enum table_act act = census->head.row.id != 0 ? TABLE_TOUCH : TABLE_INSERT;
    rows_put(rows, act, &roster_table, &census->head.row, NULL);
}
