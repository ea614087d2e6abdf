/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include "base/check.h"
#include "base/crypto/random.h"
#include "base/mem.h"
#include "store/committer/committer.h"
#include "store/committer/sessions.h"
#include "store/same.h"
#include "store/tables/events.h"
#include "store/tables/identity.h"
#include "store/tables/receipts.h"
#include "store/tables/roster.h"
#include "store/tables/task_audit.h"
#include "store/tables/tasks.h"
#include <stdio.h>
#include <stdlib.h>

/* Until what was being applied when its time was over is looked at again. */
#define WITHDRAW_AGAIN_US (INT64_C(100) * 1000)

/* Those of all modules, NULL behind the last. */
static const struct table *const tables[] = {&audit_table,
                                             &task_table,
                                             &request_table,
                                             &attempt_table,
                                             &lane_table,
                                             &task_list_table,
                                             &counter_table,
                                             &event_table,
                                             &endpoint_table,
                                             &receipt_table,
                                             &reason_table,
                                             &task_audit_table,
                                             &endpoint_settings_table,
                                             &process_table,
                                             &serves_table,
                                             &roster_table,
                                             &envelope_table,
                                             &identity_table,
                                             &same_table,
                                             NULL};

const struct table *const *store_tables(void)
{
    return tables;
}

struct store_config store_config_default(void)
{
    const char *accepts = getenv("PAWL_ACCEPT_WEAKER");
    return (struct store_config){
        .max_queued = 16384,
        .sessions = 1,
        .limits = {.max_waiting = 10000,
                   .max_waiting_per_key = 2000,
                   .timeout_us = 10 * CLOCK_US_PER_S},
        .tables = tables,
        .accepts_weaker = accepts && strcmp(accepts, "true") == 0,
    };
}

static bool register_first(struct store *store, char **ret_problem)
{
    struct committer *first = store->committers[0];
    int64_t until = clock_after(clock_boot_us(), store->config.limits.timeout_us);
    enum backend_status status = committer_register(first);
    while ((status == BACKEND_BUSY || status == BACKEND_UNSURE) && clock_boot_us() < until)
        status = committer_register(first);
    if (status == BACKEND_OK || status == BACKEND_FULL)
        return committer_may_go_on(first, ret_problem);
    *ret_problem = mem_copy(first->backend->problem, strlen(first->backend->problem));
    return false;
}

/* Commands do one thing after the other. */
static bool add_committers(struct store *store)
{
    struct backend *backend = store->committers[0]->backend;
    size_t wanted = store->config.sessions > 0 ? store->config.sessions : STORE_SESSIONS_MOST;
    if (!backend->ops->another || store->config.role == STORE_COMMAND)
        wanted = 1;
    CHECK(wanted <= STORE_SESSIONS_MOST);
    while (store->n < wanted) {
        struct backend *another = backend->ops->another(backend, store->n + 1);
        if (another && committer_new(store, another))
            continue;
        if (another)
            another->ops->close(another);
        return false;
    }
    return true;
}

static bool start_store(struct store *store, char **ret_problem)
{
    struct backend *backend = store->committers[0]->backend;
    store->key = digest_key_of(store_secret(store));
    if (!register_first(store, ret_problem) || !add_committers(store))
        return false;
    if (store->config.counts_others && backend->ops->others)
        store->others = backend->ops->others(backend);
    return sessions_start(store->committers[0]);
}

static struct store *new_store(const struct store_config *config)
{
    struct store *store = mem_zalloc(1, sizeof *store);
    if (!store)
        return NULL;
    store->config = *config;
    store->self = random_id();
    atomic_init(&store->active, 1);
    atomic_init(&store->timeout_us, config->limits.timeout_us);
    atomic_init(&store->disk_reserve, config->limits.disk_reserve);
    atomic_init(&store->offset, -clock_boot_us());
    return store;
}

enum store_open_result store_open_over(const struct store_config *config, struct backend *backend,
                                       struct store **ret_store, char **ret_problem)
{
    *ret_problem = NULL;
    struct store *store = new_store(config);
    bool made = store && committer_new(store, backend);
    if (!made)
        backend->ops->close(backend);
    if (!made || !start_store(store, ret_problem)) {
        store_close(store);
        return STORE_OPEN_FAILED;
    }
    *ret_store = store;
    return STORE_OPENED;
}

bool store_is_url(const char *path)
{
    static const char *const schemes[] = {"postgres://", "postgresql://"};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (strncmp(path, schemes[i], strlen(schemes[i])) == 0)
            return true;
    return false;
}

const char *store_place(const struct store *store)
{
    return store->committers[0]->backend->place;
}

void store_schema(struct buf *sql)
{
    postgres_schema_write(tables, sizeof tables / sizeof *tables - 1, sql);
}

enum store_open_result store_open(const struct store_config *config, struct store **ret_store,
                                  char **ret_problem)
{
    CHECK(config->max_queued > 0 && config->limits.timeout_us > 0);
    enum store_open_result result = STORE_OPEN_FAILED;
    struct backend *backend = store_is_url(config->path)
                                  ? postgres_backend_open(config, &result, ret_problem)
                                  : sqlite_backend_open(config, &result, ret_problem);
    return backend ? store_open_over(config, backend, ret_store, ret_problem) : result;
}

void store_close(struct store *store)
{
    if (!store)
        return;
    sessions_end(store);
    mem_free(store);
}

void store_await(struct store *store, struct store_op *op, struct parker *parker,
                 int64_t deadline_us)
{
    int64_t look_at = deadline_us;
    while (!store_op_ended(op)) {
        parker->park(parker, look_at);
        if (store_op_ended(op))
            return;
        int64_t boot = clock_boot_us();
        bool late = boot >= deadline_us;
        if ((late || parker->interrupted) && store_withdraw(store, op, !late))
            return;
        if (late)
            look_at = clock_after(boot, WITHDRAW_AGAIN_US);
    }
}

enum store_status store_run(struct store *store, struct store_op *op, struct parker *parker,
                            int64_t deadline_us)
{
    op->parker = parker;
    store_submit(store, op);
    store_await(store, op, parker, deadline_us);
    return op->result.status;
}

int64_t store_now(const struct store *store)
{
    return store_now_at(store, clock_boot_us());
}

int64_t store_now_at(const struct store *store, int64_t boot_us)
{
    int64_t marked = atomic_load(&store->offset) + boot_us;
    if (store->committers[0]->backend->has_clock)
        return marked;
    return record_store_time(clock_wall_us(), marked, 0);
}

struct slice store_secret(const struct store *store)
{
    return slice_make(store->committers[0]->backend->secret, DIGEST_SIZE);
}

const struct digest_key *store_digest_key(const struct store *store)
{
    return &store->key;
}

struct digest store_key_hash(const struct store *store, struct slice tenant, struct slice rule,
                             struct slice key)
{
    const struct slice parts[] = {tenant, rule, key};
    return digest_keyed(&store->key, parts, 3);
}

int64_t store_forgets(const struct store *store, int64_t *ret_seen_at)
{
    /* The marks are read first: a newer count with an older mark only asks the store once more. */
    *ret_seen_at = atomic_load(&store->committers[0]->seen_at);
    for (size_t i = 1; i < store->n; i++)
        *ret_seen_at = clock_last(*ret_seen_at, atomic_load(&store->committers[i]->seen_at));
    return committer_memory(store, NULL);
}

size_t store_others(const struct store *store)
{
    return store->others;
}

bool store_is_alone(const struct store *store)
{
    return store->committers[0]->backend->is_alone;
}

bool store_is_dead(const struct store *store)
{
    for (size_t i = 0; i < store->n; i++)
        if (committer_state(store->committers[i]) == COMMITTER_DEAD)
            return true;
    return false;
}

/* Of the first one that is not up; else what it was last. */
void store_problem(struct store *store, struct buf *buf)
{
    struct committer *c = store->committers[0];
    for (size_t i = store->n; i-- > 0;)
        if (committer_state(store->committers[i]) != COMMITTER_UP)
            c = store->committers[i];
    mutex_lock(&c->mutex);
    buf_add_str(buf, c->problem);
    mutex_unlock(&c->mutex);
}

bool store_step(struct store *store)
{
    bool worked = false;
    for (size_t i = 0; i < store->started; i++)
        worked = sessions_step(store->committers[i]) || worked;
    return worked;
}
