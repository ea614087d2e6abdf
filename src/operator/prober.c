/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/prober.h"
#include "base/check.h"
#include "base/mem.h"
#include "base/thread.h"
#include "core/probe_due.h"
#include "operator/keys.h"
#include "operator/probe.h"
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define AT_ONCE 16     /* probes at a time */
#define SLICE_MOST 256 /* records that are looked at in one second, of each kind */
#define FIBERS_SPARE 4
#define LOOK_US CLOCK_US_PER_S

/* The settings of the probes that began under them: freed with the last. */
struct plan {
    size_t refs; /* the loop's, once it is in force */
    struct prober_settings settings;
    struct http_pool *pool;
    bool wanted; /* some rule wants it */
    char *host;
};

struct prober {
    struct prober_config config;
    struct loop *loop;
    struct thread thread;
    int ended;         /* eventfd: the loop has ended */
    bool stopping;     /* main's */
    bool draining;     /* the loop's */
    struct plan *next; /* prepared, main's */
    struct loop_post reload_post;
    struct loop_post drain_post;
    struct thread_parker reloaded;
    atomic_bool reloading;

    /* the loop's */
    struct plan *plan;
    struct slice_of_records {
        int64_t after; /* where the next slice begins */
        struct keys_found found;
        struct keys_row *next; /* to be looked at */
    } unknown, lapsed;
    size_t running;        /* fibers that help with the slices under way */
    struct parker *parker; /* of the fiber that looks */
};

/* ---- plans ---- */

static void plan_drop(struct plan *plan)
{
    if (!plan || --plan->refs > 0)
        return;
    http_pool_unref(plan->pool);
    rule_set_unref(plan->settings.rules);
    mem_free(plan->host);
    mem_free(plan);
}

bool prober_is_wanted(const struct rule_set *rules)
{
    for (size_t i = 0; i < rules->n; i++)
        if (rules->rules[i].probes_alone)
            return true;
    return false;
}

static struct plan *plan_make(const struct prober_settings *settings)
{
    struct plan *plan = mem_zalloc(1, sizeof *plan);
    if (!plan)
        return NULL;
    plan->refs = 1;
    plan->settings = *settings;
    plan->wanted = prober_is_wanted(settings->rules);
    plan->host = mem_copy(settings->host.host.at, settings->host.host.len);
    plan->settings.host.host = slice_make(plan->host, settings->host.host.len);
    if (plan->wanted)
        plan->pool = http_pool_new(&settings->upstream, 0, 0);
    rule_set_ref(plan->settings.rules);
    if (plan->host && (plan->pool || !plan->wanted))
        return plan;
    plan_drop(plan);
    return NULL;
}

/* ---- one probe ---- */

static void note(const struct prober *prober, const struct plan *plan, const struct probe *probe,
                 enum metrics_probe result)
{
    static const char *const results[] = {
#define X(name, text) text,
        METRICS_PROBES(X)
#undef X
    };
    const struct digest_key *key = store_digest_key(prober->config.store);
    const struct record *record = &probe->attempt.result.record;
    struct log_line line;
    metrics_probed(prober->config.metrics, result);
    log_line_start(&line, LOG_LEVEL_INFO, "probe");
    log_line_str(&line, "rule", probe->rule->name);
    if (probe->row->tenant.len > 0)
        log_line_keyed(&line, "tenant_hash", key, probe->row->tenant);
    if (plan->settings.log_keys_hashed)
        log_line_keyed(&line, "idempotency_key", key, probe->row->key);
    else
        log_line_str(&line, "idempotency_key", probe->row->key);
    log_line_i64(&line, "token", probe->attempt.token);
    if (probe->end == EXCHANGE_RESPONDED)
        log_line_i64(&line, "status", probe->call.response.status);
    log_line_str(&line, "result", slice_of(results[result]));
    log_line_str(&line, "to_state", slice_of(record_status_name(record->status)));
    if (record->status == RECORD_UNKNOWN)
        log_line_i64(&line, "next_probe_s",
                     keys_seconds_left(store_now(prober->config.store), probe_due(record)));
    log_line_end(prober->config.log, &line);
}

static enum engine_written write_act(const struct prober *prober, struct probe *probe,
                                     const struct engine_act *act)
{
    struct engine *engine = prober->config.engine;
    engine_write(engine, &probe->attempt, act, fiber_parker());
    while (!engine_wait(&probe->attempt, fiber_parker(), CLOCK_NEVER))
        ;
    return engine_written(engine, &probe->attempt);
}

/* Stale: somebody acquired since, and settles it. */
static bool settle(const struct prober *prober, struct probe *probe, enum metrics_probe *ret_result)
{
    struct engine_act act = {.kind = ENGINE_DOUBT};
    enum disposition_write write = probe_end(probe);
    *ret_result = METRICS_PROBE_INCONCLUSIVE;
    if (write == WRITE_COMPLETE)
        act.outcome = probe_outcome(probe, &act.http_status);
    if (act.outcome) {
        act.kind = ENGINE_FINISH;
        act.final = RECORD_COMPLETE;
        *ret_result = METRICS_PROBE_DONE;
    } else if (write == WRITE_RELEASE) {
        act.kind = ENGINE_RELEASE_SETTLED;
        *ret_result = METRICS_PROBE_NOT_DONE;
    }
    enum engine_written written = write_act(prober, probe, &act);
    outcome_unref(act.outcome);
    if (written == ENGINE_EARLY) {
        *ret_result = METRICS_PROBE_INCONCLUSIVE;
        written = write_act(prober, probe, &(struct engine_act){.kind = ENGINE_DOUBT});
    }
    return written == ENGINE_STORED;
}

static bool acquire(const struct prober *prober, struct probe *probe)
{
    struct attempt *attempt = &probe->attempt;
    probe_fill(probe);
    attempt->begin.paced = true;
    attempt->begin.probes_token = probe->row->record.token;
    enum engine_verdict verdict = engine_begin(prober->config.engine, attempt, fiber_parker(),
                                               clock_after(clock_boot_us(), KEYS_TIMEOUT_US));
    CHECK(verdict != ENGINE_PROCEED);
    outcome_unref(attempt->result.found);
    mem_free(attempt->result.found_recipe);
    mem_free(attempt->result.found_key);
    attempt->result.found = NULL;
    attempt->result.found_recipe = attempt->result.found_key = NULL;
    return verdict == ENGINE_PROBE;
}

static void probe_record(const struct prober *prober, const struct plan *plan,
                         const struct rule *rule, const struct store_row *row)
{
    struct probe *probe MEM_AUTO = mem_zalloc(1, sizeof *probe); /* too large for a stack */
    enum metrics_probe result;
    if (!probe)
        return;
    probe->rule = rule;
    probe->row = row;
    probe->upstream = &plan->settings.host;
    probe->lines = rule->probe_headers;
    probe->connect_timeout_us = plan->settings.connect_timeout_us;
    if (!probe_has_target(probe) || !acquire(prober, probe))
        return;
    probe_send(probe, plan->pool);
    if (settle(prober, probe, &result))
        note(prober, plan, probe, result);
    probe_fini(probe);
}

/* ---- a slice ---- */

static const struct rule *due_rule(const struct prober *prober, const struct keys_row *row)
{
    const struct record *record = &row->store.record;
    const struct rule *rule = rule_set_named(prober->plan->settings.rules, row->store.rule);
    bool due = probe_due(record) <= store_now(prober->config.store);
    return rule && rule->probes_alone && due ? rule : NULL;
}

static struct keys_row *take_row(struct slice_of_records *slice)
{
    struct keys_row *row = slice->next;
    slice->next = row ? row->next : NULL;
    return row;
}

/* By the plan in force as it begins, whatever the slice was listed under. */
static void probe_by_plan(struct prober *prober, const struct rule *rule,
                          const struct store_row *row)
{
    struct plan *plan = prober->plan;
    plan->refs++;
    probe_record(prober, plan, rule, row);
    plan_drop(plan);
}

static void probe_slice(struct prober *prober, struct slice_of_records *slice)
{
    struct keys_row *row;
    while (!prober->draining && (row = take_row(slice))) {
        const struct rule *rule = due_rule(prober, row);
        if (rule)
            probe_by_plan(prober, rule, &row->store);
    }
}

static void run_helper(void *argument)
{
    struct prober *prober = argument;
    probe_slice(prober, &prober->unknown);
    probe_slice(prober, &prober->lapsed);
    if (--prober->running == 0)
        parker_wake(prober->parker);
}

static void list(struct prober *prober, struct slice_of_records *slice, enum keys_status status)
{
    struct keys_wanted wanted = {.status = status,
                                 .lapsed = status == KEYS_PENDING,
                                 .after = slice->after,
                                 .limit = SLICE_MOST,
                                 .scans = 1};
    slice->found = (struct keys_found){0};
    enum store_status listed =
        keys_list(prober->config.store, &wanted, fiber_parker(), &slice->found);
    slice->next = listed == STORE_DONE ? slice->found.first : NULL;
    slice->after = listed == STORE_DONE ? slice->found.next : 0;
}

static size_t count_due(const struct prober *prober, const struct slice_of_records *slice)
{
    size_t n = 0;
    for (const struct keys_row *row = slice->next; row; row = row->next)
        n += due_rule(prober, row) != NULL;
    return n;
}

static void probe_slices(struct prober *prober)
{
    size_t due = count_due(prober, &prober->unknown) + count_due(prober, &prober->lapsed);
    for (size_t i = 0; i < due && i < AT_ONCE; i++)
        prober->running += fiber_spawn(prober->loop, "probe", run_helper, prober);
    while (prober->running > 0)
        fiber_wait(NULL, 0, CLOCK_NEVER);
}

static void look(struct prober *prober)
{
    struct store_counts counts = store_counts(prober->config.store);
    if (counts.unknown > 0)
        list(prober, &prober->unknown, KEYS_UNKNOWN);
    if (counts.stale > 0)
        list(prober, &prober->lapsed, KEYS_PENDING);
    probe_slices(prober);
    keys_found_fini(&prober->unknown.found);
    keys_found_fini(&prober->lapsed.found);
    prober->unknown.found = prober->lapsed.found = (struct keys_found){0};
    prober->unknown.next = prober->lapsed.next = NULL;
}

/* Without a rule that wants it, until a reload brings one. */
static void run_prober(void *argument)
{
    struct prober *prober = argument;
    prober->parker = fiber_parker();
    while (!prober->draining) {
        int64_t next = CLOCK_NEVER;
        if (prober->plan->wanted) {
            look(prober);
            next = clock_after(clock_boot_us(), LOOK_US);
        }
        if (!prober->draining)
            fiber_wait(NULL, 0, next);
    }
}

/* ---- on the loop, by posts ---- */

static void wake_prober(const struct prober *prober)
{
    if (prober->parker)
        parker_wake(prober->parker);
}

static void take_plan(void *argument)
{
    struct prober *prober = argument;
    plan_drop(prober->plan);
    prober->plan = prober->next;
    prober->next = NULL;
    wake_prober(prober);
    atomic_store(&prober->reloading, false);
    parker_wake(&prober->reloaded.parker);
}

static void start_drain(void *argument)
{
    struct prober *prober = argument;
    prober->draining = true;
    wake_prober(prober);
}

static void run_thread(void *argument)
{
    struct prober *prober = argument;
    const uint64_t one = 1;
    loop_run(prober->loop);
    CHECK(prober->running == 0);
    ssize_t written = write(prober->ended, &one, sizeof one);
    CHECK(written == sizeof one);
}

/* ---- on the main thread ---- */

static void prober_drop(struct prober *prober)
{
    plan_drop(prober->plan);
    plan_drop(prober->next);
    loop_free(prober->loop);
    if (prober->ended >= 0)
        close(prober->ended);
    thread_parker_fini(&prober->reloaded);
    mem_free(prober);
}

struct prober *prober_start(const struct prober_config *config,
                            const struct prober_settings *settings)
{
    struct prober *prober = mem_zalloc(1, sizeof *prober);
    if (!prober)
        return NULL;
    prober->config = *config;
    thread_parker_init(&prober->reloaded);
    prober->ended = eventfd(0, EFD_CLOEXEC);
    prober->loop = loop_new(AT_ONCE + FIBERS_SPARE);
    prober->plan = plan_make(settings);
    if (prober->ended >= 0 && prober->loop && prober->plan &&
        fiber_spawn(prober->loop, "prober", run_prober, prober) &&
        thread_start(&prober->thread, "pawl-prober", run_thread, prober))
        return prober;
    prober_drop(prober);
    return NULL;
}

bool prober_prepare(struct prober *prober, const struct prober_settings *settings)
{
    CHECK(!prober->next);
    prober->next = plan_make(settings);
    return prober->next;
}

void prober_reload(struct prober *prober, bool keep)
{
    if (!keep) {
        plan_drop(prober->next);
        prober->next = NULL;
        return;
    }
    CHECK(prober->next);
    atomic_store(&prober->reloading, true);
    prober->reload_post = (struct loop_post){.run = take_plan, .argument = prober};
    loop_post(prober->loop, &prober->reload_post);
    while (atomic_load(&prober->reloading))
        prober->reloaded.parker.park(&prober->reloaded.parker, CLOCK_NEVER);
}

int prober_drain(struct prober *prober)
{
    prober->stopping = true;
    prober->drain_post = (struct loop_post){.run = start_drain, .argument = prober};
    loop_post(prober->loop, &prober->drain_post);
    loop_stop(prober->loop);
    return prober->ended;
}

void prober_stop(struct prober *prober)
{
    if (!prober->stopping)
        (void)prober_drain(prober);
    thread_join(&prober->thread);
}

void prober_free(struct prober *prober)
{
    prober_drop(prober);
}
