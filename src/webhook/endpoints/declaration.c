/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/endpoints/declaration.h"

#include "base/check.h"
#include "fiber/fiber.h"
#include "webhook/endpoints/endpoint.h"
#include "webhook/handler.h"
#include <assert.h>

#define ARENA_MAX ((size_t)64 * 1024 * 1024)
#define END_US CLOCK_US_PER_S /* for one operation of the store, at the end of the process */
#define PAGE ((size_t)24)     /* rows of one commit */

static_assert(DECLARATION_BEATS_US < DECLARATION_LIVES_US, "one that lives says so in time");
static_assert(PAGE <= TABLE_BRINGS_MAX, "a page is one commit");

/* `changes`: a page of them; NULL: it takes few. */
static struct rows rows_of_declaration(const struct declaration *declaration,
                                       struct table_change *changes)
{
    return (struct rows){.store = declaration->store,
                         .parker = fiber_parker(),
                         .changes = changes,
                         .most = changes ? PAGE : 0};
}

/* ---- what a config declares ---- */

struct declared {
    struct store_serves *at;
    size_t n;
};

static struct slice list_of(struct arena *arena, const struct slice *texts, size_t n)
{
    BUF_AUTO struct buf list = buf_make(SIZE_MAX);
    for (size_t i = 0; i < n; i++)
        store_list_add(&list, texts[i]);
    return arena_copy_buf(arena, &list);
}

static struct store_terms terms_of_target(struct arena *arena, const struct webhook_target *target,
                                          int64_t keep_us)
{
    const struct webhook_endpoint *endpoint = target->endpoint;
    return (struct store_terms){.types = list_of(arena, endpoint->types, endpoint->n_types),
                                .tenants = list_of(arena, endpoint->tenants, endpoint->n_tenants),
                                .ordered = endpoint->ordered,
                                .skips = endpoint->skips,
                                .retry = endpoint->retry,
                                .envelope = target->envelope,
                                .endpoint = target->state.row.id,
                                .keep_us = keep_us,
                                .former = list_of(arena, endpoint->former, endpoint->n_former)};
}

static bool gather_declared(struct arena *arena, const struct webhook_plan *plan,
                            struct declared *ret_declared)
{
    const struct webhook_settings *webhooks = &plan->wanted.webhooks;
    size_t most = webhooks->n_endpoints + plan->n_sources;
    *ret_declared =
        (struct declared){.at = arena_alloc(arena, (most + 1) * sizeof(struct store_serves))};
    for (size_t i = 0; ret_declared->at && i < webhooks->n_endpoints; i++) {
        const struct webhook_endpoint *endpoint = &webhooks->endpoints[i];
        ret_declared->at[ret_declared->n++] = (struct store_serves){
            .kind = SLICE(WEBHOOK_KIND),
            .name = endpoint->name,
            .terms = terms_of_target(arena, roster_find(plan->roster, endpoint->name),
                                     webhooks->keep_us)};
    }
    for (size_t i = 0; ret_declared->at && i < plan->n_sources; i++)
        ret_declared->at[ret_declared->n++] =
            (struct store_serves){.kind = SLICE(INBOX_KIND),
                                  .name = plan->sources[i].settings->source,
                                  .terms = {.keep_us = plan->sources[i].settings->keep_us}};
    return !arena->failed;
}

/* ---- writing it ---- */

/* Of a try that failed, so that many of them leave no more than one does. */
static enum store_status remove_half(struct declaration *declaration)
{
    struct rows rows = rows_of_declaration(declaration, NULL);
    if (declaration->half.row.id == 0)
        return STORE_DONE;
    rows_put(&rows, TABLE_REMOVE, &process_table, &declaration->half.row, NULL);
    enum store_status status = rows_save(&rows);
    if (status != STORE_DONE && status != STORE_CONFLICT)
        return status;
    declaration->half = (struct store_process){0};
    return STORE_DONE;
}

/* Alone on its store, it knows that those before it are dead. */
static void bury_dead(struct declaration *declaration)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct store_found found;
    struct table_change changes[PAGE];
    struct rows rows = rows_of_declaration(declaration, changes);
    const struct table_query query = {.table = &process_table, .limit = PAGE};
    rows.arena = &arena;
    if (!store_is_alone(declaration->store) || rows_find(&rows, &query, &found) != STORE_DONE)
        return;
    for (size_t i = 0; i < found.n; i++)
        rows_put(&rows, TABLE_REMOVE, &process_table, found.rows[i], NULL);
    (void)rows_save(&rows); /* else their time is soon over */
}

static enum store_status write_process(struct declaration *declaration)
{
    int64_t now = store_now(declaration->store);
    CHECK(declaration->process.row.id == 0 && declaration->half.row.id == 0);
    struct rows rows = rows_of_declaration(declaration, NULL);
    declaration->process = (struct store_process){
        .started_at = now, .lives_until = clock_after(now, DECLARATION_LIVES_US)};
    rows_put(&rows, TABLE_INSERT, &process_table, &declaration->process.row, NULL);
    return rows_save(&rows);
}

/* It lives. */
static enum store_status save_process(struct declaration *declaration, struct rows *rows,
                                      struct store_process process)
{
    CHECK(process.row.id != 0);
    process.lives_until = clock_after(store_now(declaration->store), DECLARATION_LIVES_US);
    rows_put(rows, TABLE_UPDATE, &process_table, &process.row, NULL);
    enum store_status status = rows_save(rows);
    if (status != STORE_DONE)
        return status;
    declaration->process = process;
    declaration->beat_at = clock_after(clock_boot_us(), DECLARATION_BEATS_US);
    return STORE_DONE;
}

static enum store_status write_serves(struct declaration *declaration, struct declared *declared)
{
    struct table_change changes[PAGE];
    struct rows rows = rows_of_declaration(declaration, changes);
    enum store_status status = STORE_DONE;
    for (size_t i = 0; i < declared->n && status == STORE_DONE;) {
        for (rows.n = 0; rows.n < PAGE && i < declared->n; i++) {
            declared->at[i].process = declaration->process.row.id;
            rows_put(&rows, TABLE_INSERT, &serves_table, &declared->at[i].row, NULL);
        }
        status = rows_save(&rows);
    }
    return status;
}

static bool are_same(const struct store_terms *a, const struct store_terms *b)
{
    return slice_eq(a->types, b->types) && slice_eq(a->tenants, b->tenants) &&
           a->ordered == b->ordered && a->skips == b->skips && a->retry == b->retry &&
           a->envelope == b->envelope && a->endpoint == b->endpoint && a->keep_us == b->keep_us &&
           slice_eq(a->former, b->former);
}

/* False: the roster says so already. */
static bool put_name(const struct census *census, const struct store_serves *declared,
                     struct store_roster *row, struct rows *rows)
{
    const struct census_entry *entry = census_find(census, declared->kind, declared->name);
    bool is_there = entry && entry->row.row.id != 0;
    if (is_there && entry->row.state == STORE_ROSTER_DECLARED && entry->row.unserved_since == 0 &&
        are_same(&entry->row.terms, &declared->terms))
        return false;
    *row = (struct store_roster){.row = is_there ? entry->row.row : (struct table_row){0},
                                 .kind = declared->kind,
                                 .name = declared->name,
                                 .state = STORE_ROSTER_DECLARED,
                                 .terms = declared->terms,
                                 .gone_at = CLOCK_NEVER};
    rows_put(rows, is_there ? TABLE_UPDATE : TABLE_INSERT, &roster_table, &row->row, NULL);
    return true;
}

/* STORE_CONFLICT: another process is at it, or there are more of them. */
static enum store_status write_declared_names(struct rows *rows, struct census *census,
                                              const struct declared *declared)
{
    struct store_roster names[PAGE];
    size_t n = 0;
    enum store_status status = census_read(census, rows->store, rows->parker);
    if (status != STORE_DONE)
        return status;
    for (size_t i = 0; i < declared->n && n < PAGE; i++)
        n += put_name(census, &declared->at[i], &names[n], rows);
    status = rows_save(rows);
    return status == STORE_DONE && n > 0 ? STORE_CONFLICT : status;
}

/* The last commit: from it on all of it counts. */
static enum store_status put_declared_in_force(struct declaration *declaration, struct rows *rows,
                                               struct census *census)
{
    struct store_process in_force = declaration->process;
    CHECK(!in_force.is_in_force && rows->n == 0);
    in_force.is_in_force = true;
    census_put_moved(census, rows);
    return save_process(declaration, rows, in_force);
}

static enum store_status write_declared(struct declaration *declaration, struct declared *declared)
{
    CENSUS_AUTO struct census census = census_make();
    struct table_change changes[PAGE];
    struct rows rows = rows_of_declaration(declaration, changes);
    enum store_status status = write_process(declaration);
    if (status == STORE_DONE)
        status = write_serves(declaration, declared);
    if (status != STORE_DONE)
        return status;
    status = STORE_CONFLICT;
    while (rows_try_again(&rows, &status)) {
        status = write_declared_names(&rows, &census, declared);
        if (status == STORE_DONE)
            status = put_declared_in_force(declaration, &rows, &census);
    }
    return status;
}

/* With the roster's own row, so that others see it at once. */
static enum store_status remove_process(struct declaration *declaration,
                                        struct store_process *process, int64_t for_us)
{
    CENSUS_AUTO struct census census = census_make();
    struct rows rows = rows_of_declaration(declaration, NULL);
    enum store_status status = STORE_CONFLICT;
    rows.within_us = for_us;
    while (rows_try_again(&rows, &status)) {
        status = census_read(&census, rows.store, rows.parker);
        if (status != STORE_DONE)
            return status;
        rows_put(&rows, TABLE_REMOVE, &process_table, &process->row, NULL);
        census_put_moved(&census, &rows);
        status = rows_save(&rows);
        if (status == STORE_CONFLICT && rows.changes[0].is_stale)
            status = STORE_DONE; /* it was swept */
    }
    return status;
}

enum store_status declaration_make(struct declaration *declaration, const struct webhook_plan *plan)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct store_process before = declaration->process;
    struct declared declared;
    if (!gather_declared(&arena, plan, &declared))
        return STORE_NO_MEMORY;
    if (remove_half(declaration) != STORE_DONE)
        return STORE_DOWN;
    if (before.row.id == 0)
        bury_dead(declaration);
    declaration->process = (struct store_process){0};
    enum store_status status = declared.n > 0 ? write_declared(declaration, &declared) : STORE_DONE;
    if (status != STORE_DONE) {
        declaration->half = declaration->process; /* where it stays, it ends by itself */
        declaration->process = before;
        return status;
    }
    if (before.row.id != 0)
        status = remove_process(declaration, &before, 0);
    if (status != STORE_DONE)
        declaration->half = before; /* while it is there, what was taken out counts as declared */
    return status;
}

enum store_status declaration_beat(struct declaration *declaration)
{
    struct rows rows = rows_of_declaration(declaration, NULL);
    if (declaration->process.row.id == 0 || clock_boot_us() < declaration->beat_at)
        return STORE_DONE;
    return save_process(declaration, &rows, declaration->process);
}

/* ---- what is declared no more ---- */

static enum store_status retire_one(struct declaration *declaration, struct slice name)
{
    CENSUS_AUTO struct census census = census_make();
    struct rows rows = rows_of_declaration(declaration, NULL);
    enum store_status status = STORE_CONFLICT;
    while (rows_try_again(&rows, &status)) {
        status = census_read(&census, rows.store, rows.parker);
        struct census_entry *entry =
            status == STORE_DONE ? census_find(&census, SLICE(WEBHOOK_KIND), name) : NULL;
        if (!entry || entry->n_living > 0 || entry->row.state != STORE_ROSTER_DECLARED)
            return status;
        entry->row.state = STORE_ROSTER_RETIRED;
        rows_put(&rows, TABLE_UPDATE, &roster_table, &entry->row.row, NULL);
        census_put_moved(&census, &rows);
        status = rows_save(&rows);
    }
    return status;
}

enum store_status declaration_retire(struct declaration *declaration,
                                     const struct webhook_plan *old,
                                     const struct webhook_plan *plan)
{
    const struct webhook_settings *webhooks = &old->wanted.webhooks;
    enum store_status status = STORE_DONE;
    for (size_t i = 0; i < webhooks->n_endpoints && status == STORE_DONE; i++)
        if (!webhook_is_configured(&plan->wanted.webhooks, webhooks->endpoints[i].name))
            status = retire_one(declaration, webhooks->endpoints[i].name);
    return status;
}

void declaration_end(struct declaration *declaration)
{
    if (declaration->process.row.id != 0 && store_is_up(declaration->store))
        (void)remove_process(declaration, &declaration->process, END_US);
    declaration->process = (struct store_process){0};
}
