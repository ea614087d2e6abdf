/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/endpoints/declaration.h"

#include "base/check.h"
#include "fiber/fiber.h"
#include "webhook/handler.h"

#define ARENA_MAX ((size_t)64 * 1024 * 1024)
#define STORE_US (10 * CLOCK_US_PER_S) /* for one operation of the store */
#define END_US CLOCK_US_PER_S          /* the same, at the end of the process */
#define PAGE ((size_t)24)              /* rows of one commit */
#define TRIES_MOST 100                 /* somebody else was first each time */

static enum store_status save_declared(const struct declaration *declaration,
                                       struct table_change *changes, size_t n, int64_t for_us)
{
    struct store_op op = {.kind = STORE_ROWS, .brings = changes, .n_brings = n};
    return store_run(declaration->store, &op, fiber_parker(), clock_after(clock_boot_us(), for_us));
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
    arena->failed |= !buf_ok(&list);
    return arena_copy(arena, buf_slice(&list));
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
    struct table_change change = {
        .table = &process_table, .act = TABLE_REMOVE, .row = &declaration->half.row};
    if (declaration->half.row.id == 0)
        return STORE_DONE;
    enum store_status status = save_declared(declaration, &change, 1, STORE_US);
    if (status != STORE_DONE && status != STORE_CONFLICT)
        return status;
    declaration->half = (struct store_process){0};
    return STORE_DONE;
}

/* Alone on its store, it knows that those before it are dead. */
static void bury(struct declaration *declaration)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct store_found found = {.arena = &arena};
    struct table_change changes[PAGE];
    const struct table_query query = {.table = &process_table, .limit = PAGE};
    if (!store_is_alone(declaration->store) ||
        store_find_rows(declaration->store, &query, fiber_parker(),
                        clock_after(clock_boot_us(), STORE_US), &found) != STORE_DONE)
        return;
    for (size_t i = 0; i < found.n; i++)
        changes[i] = (struct table_change){.table = &process_table,
                                           .act = TABLE_REMOVE,
                                           .row = (struct table_row *)(uintptr_t)found.rows[i]};
    if (found.n > 0)
        (void)save_declared(declaration, changes, found.n,
                            STORE_US); /* else their time is soon over */
}

static enum store_status write_process(struct declaration *declaration)
{
    int64_t now = store_now(declaration->store);
    struct store_process *process = &declaration->process;
    *process = (struct store_process){.started_at = now,
                                      .lives_until = clock_after(now, DECLARATION_LIVES_US)};
    struct table_change change = {
        .table = &process_table, .act = TABLE_INSERT, .row = &process->row};
    enum store_status status = save_declared(declaration, &change, 1, STORE_US);
    process->row.version = change.version;
    return status;
}

static enum store_status write_serves(struct declaration *declaration, struct declared *declared)
{
    struct table_change changes[PAGE];
    enum store_status status = STORE_DONE;
    for (size_t i = 0, n; i < declared->n && status == STORE_DONE; i += n) {
        for (n = 0; n < PAGE && i + n < declared->n; n++) {
            declared->at[i + n].process = declaration->process.row.id;
            changes[n] = (struct table_change){
                .table = &serves_table, .act = TABLE_INSERT, .row = &declared->at[i + n].row};
        }
        status = save_declared(declaration, changes, n, STORE_US);
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
static bool fill_name(const struct census *census, const struct store_serves *declared,
                      struct store_roster *row, struct table_change *change)
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
    *change = (struct table_change){
        .table = &roster_table, .act = is_there ? TABLE_UPDATE : TABLE_INSERT, .row = &row->row};
    return true;
}

/* STORE_CONFLICT: another process is at it, or there are more of them. */
static enum store_status write_declared_names(struct declaration *declaration,
                                              struct census *census,
                                              const struct declared *declared)
{
    struct store_roster rows[PAGE];
    struct table_change changes[PAGE];
    size_t n = 0;
    enum store_status status = census_read(census, declaration->store, fiber_parker());
    if (status != STORE_DONE)
        return status;
    for (size_t i = 0; i < declared->n && n < PAGE; i++)
        n += fill_name(census, &declared->at[i], &rows[n], &changes[n]);
    if (n > 0)
        status = save_declared(declaration, changes, n, STORE_US);
    return status == STORE_DONE && n > 0 ? STORE_CONFLICT : status;
}

/* The last commit: from it on all of it counts. */
static enum store_status put_declared_in_force(struct declaration *declaration,
                                               struct census *census)
{
    struct store_process in_force = declaration->process;
    in_force.is_in_force = true;
    in_force.lives_until = clock_after(store_now(declaration->store), DECLARATION_LIVES_US);
    struct table_change changes[] = {
        {.table = &process_table, .act = TABLE_UPDATE, .row = &in_force.row}, census_moved(census)};
    enum store_status status = save_declared(declaration, changes, 2, STORE_US);
    if (status != STORE_DONE)
        return status;
    in_force.row.version = changes[0].version;
    declaration->process = in_force;
    declaration->beat_at = clock_after(clock_boot_us(), DECLARATION_BEATS_US);
    return STORE_DONE;
}

static enum store_status write_declared(struct declaration *declaration, struct declared *declared)
{
    struct census census = census_make();
    enum store_status status = write_process(declaration);
    if (status == STORE_DONE)
        status = write_serves(declaration, declared);
    bool is_written = status == STORE_DONE;
    for (int try = 0; try < TRIES_MOST && is_written; try++) {
        status = write_declared_names(declaration, &census, declared);
        if (status == STORE_DONE)
            status = put_declared_in_force(declaration, &census);
        if (status != STORE_CONFLICT)
            break;
    }
    census_fini(&census);
    return status;
}

/* With the roster's own row, so that others see it at once. */
static enum store_status remove_process(struct declaration *declaration,
                                        struct store_process *process, int64_t for_us)
{
    struct census census = census_make();
    enum store_status status = STORE_CONFLICT;
    for (int try = 0; try < TRIES_MOST && status == STORE_CONFLICT; try++) {
        status = census_read(&census, declaration->store, fiber_parker());
        struct table_change changes[] = {
            {.table = &process_table, .act = TABLE_REMOVE, .row = &process->row},
            census_moved(&census)};
        if (status == STORE_DONE)
            status = save_declared(declaration, changes, 2, for_us);
        if (status == STORE_CONFLICT && changes[0].is_stale)
            status = STORE_DONE; /* it was swept */
    }
    census_fini(&census);
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
        bury(declaration);
    declaration->process = (struct store_process){0};
    enum store_status status = declared.n > 0 ? write_declared(declaration, &declared) : STORE_DONE;
    if (status != STORE_DONE) {
        declaration->half = declaration->process; /* where it stays, it ends by itself */
        declaration->process = before;
        return status;
    }
    if (before.row.id != 0)
        status = remove_process(declaration, &before, STORE_US);
    if (status != STORE_DONE)
        declaration->half = before; /* while it is there, what was taken out counts as declared */
    return status;
}

enum store_status declaration_beat(struct declaration *declaration)
{
    struct store_process process = declaration->process;
    if (process.row.id == 0 || clock_boot_us() < declaration->beat_at)
        return STORE_DONE;
    process.lives_until = clock_after(store_now(declaration->store), DECLARATION_LIVES_US);
    struct table_change change = {
        .table = &process_table, .act = TABLE_UPDATE, .row = &process.row};
    enum store_status status = save_declared(declaration, &change, 1, STORE_US);
    if (status != STORE_DONE)
        return status;
    process.row.version = change.version;
    declaration->process = process;
    declaration->beat_at = clock_after(clock_boot_us(), DECLARATION_BEATS_US);
    return STORE_DONE;
}

/* ---- what is declared no more ---- */

static bool has_endpoint(const struct webhook_plan *plan, struct slice name)
{
    for (size_t i = 0; i < plan->wanted.webhooks.n_endpoints; i++)
        if (slice_eq(plan->wanted.webhooks.endpoints[i].name, name))
            return true;
    return false;
}

static enum store_status retire_one(struct declaration *declaration, struct slice name)
{
    struct census census = census_make();
    enum store_status status = STORE_CONFLICT;
    for (int try = 0; try < TRIES_MOST && status == STORE_CONFLICT; try++) {
        status = census_read(&census, declaration->store, fiber_parker());
        struct census_entry *entry =
            status == STORE_DONE ? census_find(&census, SLICE(WEBHOOK_KIND), name) : NULL;
        if (!entry || entry->n_living > 0 || entry->row.state != STORE_ROSTER_DECLARED)
            break;
        entry->row.state = STORE_ROSTER_RETIRED;
        struct table_change changes[] = {
            {.table = &roster_table, .act = TABLE_UPDATE, .row = &entry->row.row},
            census_moved(&census)};
        status = save_declared(declaration, changes, 2, STORE_US);
    }
    census_fini(&census);
    return status;
}

enum store_status declaration_retire(struct declaration *declaration,
                                     const struct webhook_plan *old,
                                     const struct webhook_plan *plan)
{
    const struct webhook_settings *webhooks = &old->wanted.webhooks;
    enum store_status status = STORE_DONE;
    for (size_t i = 0; i < webhooks->n_endpoints && status == STORE_DONE; i++)
        if (!has_endpoint(plan, webhooks->endpoints[i].name))
            status = retire_one(declaration, webhooks->endpoints[i].name);
    return status;
}

void declaration_end(struct declaration *declaration)
{
    if (declaration->process.row.id != 0 && store_is_up(declaration->store))
        (void)remove_process(declaration, &declaration->process, END_US);
    declaration->process = (struct store_process){0};
}
