/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/plan.h"

#include "base/check.h"
#include "base/mem.h"
#include "store/rows.h"
#include <assert.h>
#include <stdlib.h>

#define ARENA_MAX ((size_t)64 * 1024 * 1024)
#define ORIGINS_MOST 256
#define INTRODUCED_MOST 32
#define IDLE_MOST 4
#define IDLE_US (INT64_C(5) * CLOCK_US_PER_S)
#define FRESH_US (INT64_C(30) * CLOCK_US_PER_S) /* of a host's addresses */

static_assert(INTRODUCED_MOST <= TABLE_BRINGS_MAX, "they are introduced in one commit");

/* That trusts the system's roots: to read them takes longer than all else. NULL: no memory. */
static struct tls_client *make_tls(void)
{
    const struct tls_config trusted = {0};
    struct tls_complaint complaint;
    return tls_client_new(&trusted, &complaint);
}

/* With `tls` for https. */
static struct http_origins *make_origins(struct http_guard *guard, bool tls)
{
    struct http_origins_config config = {.max = ORIGINS_MOST,
                                         .max_idle = IDLE_MOST,
                                         .idle_us = IDLE_US,
                                         .fresh_us = FRESH_US,
                                         .guard = guard,
                                         .tls = tls ? make_tls() : NULL};
    struct http_origins *origins = config.tls || !tls ? http_origins_new(&config) : NULL;
    tls_client_unref(config.tls);
    return origins;
}

/* It was checked by the config's reader. */
static struct url read_endpoint_address(struct slice text)
{
    const char *problem;
    struct url url;
    bool is_good = url_read(text, &url, &problem);
    CHECK(is_good);
    return url;
}

static bool make_targets(struct webhook_plan *plan)
{
    const struct webhook_settings *settings = &plan->wanted.webhooks;
    const struct http_guard_config judged = {settings->allow, settings->allow_http};
    plan->roster = roster_new(settings, NULL, plan->wanted.read);
    if (!plan->roster)
        return false;
    plan->has_tls = plan->roster->needs_tls;
    struct http_guard *guard = http_guard_new(&judged);
    plan->origins = guard ? make_origins(guard, plan->has_tls) : NULL;
    http_guard_unref(guard);
    return plan->origins;
}

static bool make_sources(struct webhook_plan *plan, const struct http_upstream *upstream)
{
    const struct inbox_settings *settings = &plan->wanted.inbox;
    bool tls = false, at_upstream = false;
    plan->sources = mem_zalloc(settings->n_sources + 1, sizeof *plan->sources);
    if (!plan->sources)
        return false;
    for (size_t i = 0; i < settings->n_sources; i++) {
        struct webhook_source *source = &plan->sources[plan->n_sources++];
        source->settings = &settings->sources[i];
        source->url = read_endpoint_address(source->settings->handler);
        tls = tls || (!source->settings->at_upstream && source->url.tls);
        at_upstream = at_upstream || source->settings->at_upstream;
    }
    plan->handlers = make_origins(NULL, tls);
    plan->upstream = at_upstream ? http_pool_new(upstream, IDLE_MOST, IDLE_US) : NULL;
    return plan->handlers && (plan->upstream || !at_upstream);
}

struct webhook_plan *webhook_plan_new(const struct webhook_wanted *wanted)
{
    struct webhook_plan *plan = mem_zalloc(1, sizeof *plan);
    if (!plan)
        return NULL;
    plan->refs = 1;
    plan->others_arena = arena_make(ARENA_MAX);
    plan->wanted = *wanted;
    plan->wanted.upstream = (struct http_upstream){0};
    rule_set_ref(wanted->rules);
    if (make_targets(plan) && make_sources(plan, &wanted->upstream))
        return plan;
    webhook_plan_unref(plan);
    return NULL;
}

struct webhook_plan *webhook_plan_ref(struct webhook_plan *plan)
{
    CHECK(plan->refs > 0);
    plan->refs++;
    return plan;
}

void webhook_plan_unref(struct webhook_plan *plan)
{
    CHECK(!plan || plan->refs > 0);
    if (!plan || --plan->refs > 0)
        return;
    http_origins_free(plan->origins);
    http_origins_free(plan->handlers);
    http_pool_unref(plan->upstream);
    roster_unref(plan->roster);
    mem_free(plan->sources);
    arena_fini(&plan->others_arena);
    rule_set_unref(plan->wanted.rules);
    mem_free(plan);
}

const struct webhook_source *webhook_plan_source(const struct webhook_plan *plan, struct slice name)
{
    for (size_t i = 0; i < plan->n_sources; i++)
        if (slice_eq(plan->sources[i].settings->source, name))
            return &plan->sources[i];
    return NULL;
}

/* ---- the registry ---- */

/* As it was under the former name that changed last, if it had one. */
static struct store_endpoint first_state(const struct webhook_endpoint *endpoint,
                                         const struct registry *registry)
{
    struct store_endpoint state = {.name = endpoint->name, .changed_at = registry->now};
    const struct store_endpoint *last = NULL;
    for (size_t i = 0; i < endpoint->n_former; i++) {
        const struct registry_entry *former = registry_find(registry, endpoint->former[i]);
        if (former && (!last || former->state->changed_at > last->changed_at))
            last = former->state;
    }
    if (!last)
        return state;
    state.is_disabled = last->is_disabled;
    state.failing_since = last->failing_since;
    state.why = last->why;
    return state;
}

/* Endpoints of the config that the store does not know, as many as one commit brings. */
static size_t gather_new(const struct webhook_plan *plan, const struct registry *registry,
                         struct store_endpoint *states, struct rows *rows)
{
    const struct webhook_settings *settings = &plan->wanted.webhooks;
    size_t n = 0;
    for (size_t i = 0; i < settings->n_endpoints && n < INTRODUCED_MOST; i++) {
        if (registry_find(registry, settings->endpoints[i].name))
            continue;
        states[n] = first_state(&settings->endpoints[i], registry);
        rows_put(rows, TABLE_INSERT, &endpoint_table, &states[n++].row, NULL);
    }
    return n;
}

/* Where the first endpoint that is https is a stored one, what that needs is read now. */
static bool provide_plan(struct webhook_plan *plan, const struct roster *roster)
{
    if (!roster->needs_tls || plan->has_tls)
        return true;
    struct tls_client *tls = make_tls();
    http_origins_set_tls(plan->origins, tls);
    tls_client_unref(tls);
    plan->has_tls = tls;
    return plan->has_tls;
}

static enum store_status take_others(struct webhook_plan *plan, const struct registry *registry)
{
    arena_reset(&plan->others_arena);
    plan->n_others = 0;
    struct slice *others = arena_alloc(&plan->others_arena, (registry->n + 1) * sizeof *others);
    plan->others = others;
    for (size_t i = 0; others && i < registry->n; i++) {
        struct slice name = registry->at[i].state->name;
        if (!roster_find(plan->roster, name))
            others[plan->n_others++] = arena_copy(&plan->others_arena, name);
    }
    return plan->others_arena.failed ? STORE_NO_MEMORY : STORE_DONE;
}

struct envelope_rule webhook_plan_rule(const struct webhook_plan *plan,
                                       const struct webhook_endpoint *endpoint)
{
    return (struct envelope_rule){endpoint->envelope, plan->wanted.webhooks.source};
}

/* As most endpoints have the same few rules, each of these is looked up once. */
static enum store_status name_envelopes(const struct webhook_plan *plan, struct roster *roster,
                                        struct store *store, struct parker *parker)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    BUF_AUTO struct buf text = buf_make(SIZE_MAX);
    struct store_envelope *known = arena_alloc(&arena, (roster->n + 1) * sizeof *known);
    size_t n = 0;
    for (size_t i = 0; known && i < roster->n; i++) {
        const struct envelope_rule rule = webhook_plan_rule(plan, roster->targets[i].endpoint);
        size_t at = 0;
        buf_clear(&text);
        envelope_rule_write(&rule, &text);
        known[n].rule = arena_copy(&arena, buf_slice(&text));
        if (!buf_ok(&text) || arena.failed)
            return STORE_NO_MEMORY;
        while (!slice_eq(known[at].rule, known[n].rule))
            at++;
        enum store_status status =
            at < n ? STORE_DONE : envelope_name(store, parker, known[n].rule, &known[n].row.id);
        if (status != STORE_DONE)
            return status;
        roster->targets[i].envelope = known[at].row.id;
        n += at == n;
    }
    return known ? STORE_DONE : STORE_NO_MEMORY;
}

/* NULL in `*ret_roster`: the one in force is of that registry. */
static enum store_status make_roster(struct webhook_plan *plan, const struct registry *registry,
                                     struct store *store, struct parker *parker,
                                     struct roster **ret_roster)
{
    *ret_roster = NULL;
    if (roster_is_of(plan->roster, registry))
        return STORE_DONE;
    struct roster *roster = roster_new(&plan->wanted.webhooks, registry, plan->wanted.read);
    enum store_status status = roster && provide_plan(plan, roster)
                                   ? name_envelopes(plan, roster, store, parker)
                                   : STORE_NO_MEMORY;
    if (status == STORE_DONE)
        *ret_roster = roster;
    else
        roster_unref(roster);
    return status;
}

static enum store_status take_registry(struct webhook_plan *plan, const struct registry *registry,
                                       struct roster *roster)
{
    if (roster) {
        roster_unref(plan->roster);
        plan->roster = roster;
    }
    roster_take_states(plan->roster, registry);
    enum store_status status = take_others(plan, registry);
    if (status == STORE_DONE)
        plan->read_at = registry->now;
    return status;
}

/* A look at the registry. */
struct look {
    struct arena arena;
    struct registry registry;
    uint64_t number;
    bool is_partial; /* what it lacked was made: there may be more */
};

static enum store_status try_read_registry(struct rows *rows, struct webhook_plan *plan,
                                           struct look *look)
{
    arena_reset(&look->arena);
    look->number = ++plan->looks;
    struct store_endpoint states[INTRODUCED_MOST];
    enum store_status status =
        registry_read(rows->store, rows->parker, &look->arena, &look->registry);
    if (status != STORE_DONE)
        return status;
    look->is_partial = gather_new(plan, &look->registry, states, rows) > 0;
    return rows_save(rows);
}

/* What another fiber read later is not taken back. */
static enum store_status take_look(struct webhook_plan *plan, const struct look *look,
                                   struct roster *roster)
{
    CHECK(look->number > 0 && look->number <= plan->looks);
    if (look->number < plan->taken) {
        roster_unref(roster);
        return STORE_DONE;
    }
    plan->taken = look->number;
    return take_registry(plan, &look->registry, roster);
}

/* Named in the log, and counted. */
static void tell_held(const struct roster *roster, struct store *store)
{
    BUF_AUTO struct buf lines = buf_make(SIZE_MAX);
    for (size_t i = 0; i < roster->n_held; i++)
        buf_printf(&lines, "%s %lld\n", endpoint_settings_table.name,
                   (long long)roster->held[i].state.row.id);
    if (buf_ok(&lines))
        store_hold_rows(store, buf_slice(&lines));
}

enum store_status webhook_plan_refresh(struct webhook_plan *plan, struct store *store,
                                       struct parker *parker)
{
    struct look look = {.arena = arena_make(ARENA_MAX)};
    struct table_change changes[INTRODUCED_MOST];
    struct rows rows = {
        .store = store, .parker = parker, .changes = changes, .most = INTRODUCED_MOST};
    struct roster *roster = NULL;
    enum store_status status;
    do {
        status = STORE_CONFLICT;
        while (rows_try_again(&rows, &status))
            status = try_read_registry(&rows, plan, &look);
    } while (status == STORE_DONE && look.is_partial);
    if (status == STORE_DONE)
        status = make_roster(plan, &look.registry, store, parker, &roster);
    if (status == STORE_DONE)
        status = take_look(plan, &look, roster);
    if (status == STORE_DONE && plan->roster == roster)
        tell_held(roster, store);
    arena_fini(&look.arena);
    return status;
}

static int compare_names(const void *a, const void *b)
{
    return slice_compare(*(const struct slice *)a, *(const struct slice *)b);
}

bool webhook_plan_is_of_others(const struct webhook_plan *plan, struct slice name)
{
    return plan->n_others > 0 &&
           bsearch(&name, plan->others, plan->n_others, sizeof name, compare_names);
}
