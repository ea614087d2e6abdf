/* SPDX-License-Identifier: Apache-2.0 */
#include "prober/prober.h"
#include "base/check.h"
#include "base/mem.h"
#include "base/text/uuid.h"
#include "core/request/trial.h"
#include "core/retry/probe_due.h"
#include "operator/keys.h"
#include "prober/hold_end.h"
#include "prober/inquiry_end.h"
#include "prober/probe.h"
#include "prober/round.h"

#define AT_ONCE 16                               /* probes at a time */
#define BODIES_MOST ((uint64_t)32 * 1024 * 1024) /* of their responses, in memory */
#define ROW_MAX ((size_t)1024 * 1024)            /* of one record's texts */
#define SLICE_MOST 256 /* records that are looked at in one second, of each kind */
#define FIBERS_SPARE 4
#define LOOK_US CLOCK_US_PER_S
#define REST_US (60 * CLOCK_US_PER_S) /* where nothing is probed, when all holds were looked at */

/* The settings of the probes that began under them: freed with the last. */
struct plan {
    size_t refs; /* the loop's, once it is in force */
    struct prober_settings settings;
    struct http_pool *pool;
    size_t wanted; /* how many rules want probes */
    bool ends_holds;
    bool asks_first; /* a rule does */
    char *host;
};

/* A probe under way: of a record of its own, as its slice may be gone before it ends. */
struct job {
    struct prober *prober; /* NULL: the place is free */
    struct plan *plan;     /* in force as it began: a reference */
    const struct rule *rule;
    struct arena arena; /* of the row's texts */
    struct store_row row;
    struct probe *probe; /* NULL: not acquired yet, or no more */
};

/* All but the config is the loop's. */
struct prober {
    struct service base;
    struct prober_config config;
    struct plan *plan;
    struct slice_of_records {
        int64_t after; /* where the next slice begins */
        struct keys_found found;
        struct keys_row *next; /* to be looked at */
    } unknown, lapsed;
    struct round round; /* over what is lapsed */
    int64_t look_at;    /* boot time */
    struct job jobs[AT_ONCE];
    size_t running;        /* of them */
    struct parker *parker; /* of the fiber that looks */
};

/* ---- plans ---- */

static void plan_drop(void *dropped)
{
    struct plan *plan = dropped;
    CHECK(!plan || plan->refs > 0);
    if (!plan || --plan->refs > 0)
        return;
    http_pool_unref(plan->pool);
    rule_set_unref(plan->settings.rules);
    mem_free(plan->host);
    mem_free(plan);
}

static size_t count_probing_rules(const struct rule_set *rules)
{
    size_t n = 0;
    for (size_t i = 0; i < rules->n; i++)
        n += rules->rules[i].probes_alone;
    return n;
}

static bool has_rule(const struct rule_set *rules, bool (*is_so)(const struct rule *rule))
{
    for (size_t i = 0; i < rules->n; i++)
        if (is_so(&rules->rules[i]))
            return true;
    return false;
}

bool prober_is_wanted(const struct rule_set *rules)
{
    return count_probing_rules(rules) > 0;
}

static struct plan *plan_make(const struct prober_settings *settings)
{
    struct plan *plan = mem_zalloc(1, sizeof *plan);
    if (!plan)
        return NULL;
    plan->refs = 1;
    plan->settings = *settings;
    plan->wanted = count_probing_rules(settings->rules);
    plan->ends_holds = has_rule(settings->rules, hold_has_end);
    plan->asks_first = has_rule(settings->rules, rule_asks_first);
    plan->host = mem_copy(settings->host.host.at, settings->host.host.len);
    plan->settings.host.host = slice_make(plan->host, settings->host.host.len);
    if (plan->wanted > 0)
        plan->pool = http_pool_new(&settings->upstream, 0, 0);
    rule_set_ref(plan->settings.rules);
    if (plan->host && (plan->pool || plan->wanted == 0))
        return plan;
    plan_drop(plan);
    return NULL;
}

/* ---- one probe ---- */

static void count_probe(const struct prober *prober, const struct plan *plan,
                        const struct probe *probe, enum metrics_probe result)
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
    if (probe->end == EXCHANGE_MALFORMED)
        log_line_str(&line, "malformed", slice_of(probe->call.malformed));
    log_line_str(&line, "result", slice_of(results[result]));
    log_line_str(&line, "to_state", slice_of(record_status_name(record->status)));
    if (record->status == RECORD_UNKNOWN)
        log_line_i64(&line, "next_probe_s",
                     clock_seconds_left(store_now(prober->config.store), probe_due(record)));
    log_line_end(prober->config.log, &line);
}

/* Stale: somebody acquired since, and settles it. */
static bool settle_probed(const struct job *job, struct probe *probe,
                          enum metrics_probe *ret_result)
{
    struct engine *engine = job->prober->config.engine;
    enum disposition_write write = probe_end(probe);
    bool is_believed = trial_of(job->plan->settings.rules, job->rule) != TRIAL_FAILED;
    struct outcome *outcome = NULL;
    int status = 0;
    if (write == WRITE_COMPLETE && is_believed)
        outcome = probe_outcome(probe, &status);
    struct slice data = SLICE("");
    if (write == WRITE_COMPLETE &&
        (!outcome || !origin_read_event_data(probe->row->origin, outcome->body, &data))) {
        outcome_unref(outcome);
        outcome = NULL;
        write = WRITE_DOUBT;
    }
    struct engine_act act = engine_act_of(write, true);
    act.http_status = status;
    act.outcome = outcome;
    act.event_data = data;
    enum engine_written written = engine_store(engine, &probe->attempt, &act, fiber_parker());
    outcome_unref(outcome);
    if (written == ENGINE_EARLY) {
        write = WRITE_DOUBT;
        act = engine_act_of(write, true);
        written = engine_store(engine, &probe->attempt, &act, fiber_parker());
    }
    *ret_result = write == WRITE_COMPLETE  ? METRICS_PROBE_DONE
                  : write == WRITE_RELEASE ? METRICS_PROBE_NOT_DONE
                                           : METRICS_PROBE_INCONCLUSIVE;
    return written == ENGINE_STORED;
}

static void aim_probe(const struct job *job, const struct store_row *row, struct probe *probe)
{
    probe->rule = job->rule;
    probe->row = row;
    probe->upstream = &job->plan->settings.host;
    probe->lines = job->rule->probe_headers;
    probe->connect_timeout_us = job->plan->settings.connect_timeout_us;
}

static bool acquire_for_probe(const struct prober *prober, struct probe *probe)
{
    struct attempt *attempt = &probe->attempt;
    probe_fill(probe);
    attempt->begin.paced = true;
    attempt->begin.probes_token = probe->row->record.token;
    enum engine_verdict verdict = engine_begin(prober->config.engine, attempt, fiber_parker(),
                                               clock_after(clock_boot_us(), KEYS_TIMEOUT_US));
    CHECK(verdict != ENGINE_PROCEED);
    attempt_fini(attempt);
    return verdict == ENGINE_PROBE;
}

/* As the first probe of its rule would be sent, for a key that cannot exist. */
static void try_prober_service(struct job *job)
{
    struct probe *probe MEM_AUTO = mem_zalloc(1, sizeof *probe);
    struct store_row row = job->row;
    char key[UUID_SIZE];
    if (!probe || job->prober->base.draining)
        return;
    uuid_make(key);
    row.key = slice_of(key);
    row.record.window = false;
    aim_probe(job, &row, probe);
    probe->attempt.send_by = CLOCK_NEVER;
    job->probe = probe;
    probe_send(probe, job->plan->pool);
    job->probe = NULL;
    struct trial_end end = {probe->end, probe->call.response.status, probe->not_found};
    trial_ends(job->plan->settings.rules, job->rule, end, job->prober->config.log);
    probe_fini(probe);
}

/* What a drain overtakes is not sent: its record is in doubt again at once. */
static void probe_record(struct job *job, struct probe *probe)
{
    const struct prober *prober = job->prober;
    enum metrics_probe result;
    aim_probe(job, &job->row, probe);
    if (!probe_has_target(probe))
        return;
    if (trial_is_due(job->plan->settings.rules, job->rule))
        try_prober_service(job);
    if (!acquire_for_probe(prober, probe))
        return;
    job->probe = probe;
    probe->end = EXCHANGE_NOT_SENT;
    if (!prober->base.draining)
        probe_send(probe, job->plan->pool);
    job->probe = NULL;
    if (settle_probed(job, probe, &result))
        count_probe(prober, job->plan, probe, result);
    probe_fini(probe);
}

/* ---- jobs ---- */

static void end_job(struct job *job)
{
    struct prober *prober = job->prober;
    CHECK(prober->running > 0 && !job->probe);
    plan_drop(job->plan);
    arena_fini(&job->arena);
    *job = (struct job){0};
    prober->running--;
    parker_wake(prober->parker);
}

static void run_probe_job(void *argument)
{
    struct job *job = argument;
    struct probe *probe MEM_AUTO = mem_zalloc(1, sizeof *probe); /* too large for a stack */
    if (probe)
        probe_record(job, probe);
    end_job(job);
}

/* False: no memory. */
static bool copy_probed_row(struct job *job, const struct store_row *row)
{
    job->arena = arena_make(ROW_MAX);
    job->row = *row;
    job->row.tenant = arena_copy(&job->arena, row->tenant);
    job->row.rule = arena_copy(&job->arena, row->rule);
    job->row.key = arena_copy(&job->arena, row->key);
    job->row.recipe = arena_copy(&job->arena, row->recipe);
    job->row.origin = arena_copy(&job->arena, row->origin);
    job->row.fingerprint = job->row.once = job->row.location = SLICE("");
    return !job->arena.failed;
}

/* Without memory the record is found again. */
static void start_job(struct prober *prober, const struct rule *rule, const struct store_row *row)
{
    struct job *job = prober->jobs;
    while (job->prober)
        job++;
    CHECK(prober->running < AT_ONCE && job < prober->jobs + AT_ONCE);
    *job = (struct job){.prober = prober, .plan = prober->plan, .rule = rule};
    job->plan->refs++;
    prober->running++;
    if (!copy_probed_row(job, row) || !fiber_spawn(prober->base.loop, "probe", run_probe_job, job))
        end_job(job);
}

/* How many probes a rule may have under way, so that one whose service hangs, or whose responses
 * are large, leaves the others theirs. One it may always have. */
static size_t share_of(const struct prober *prober, const struct rule *rule)
{
    size_t rules = prober->plan->wanted;
    CHECK(rules > 0); /* else nothing is probed */
    uint64_t body = rule->max_response_body > 0 ? rule->max_response_body : 1;
    uint64_t fit = BODIES_MOST / rules / body, share = AT_ONCE / rules;
    share = fit < share ? fit : share;
    return share > 0 ? (size_t)share : 1;
}

/* Whether a probe of this record may begin now: not while its last one runs. */
static bool has_probe_room(const struct prober *prober, const struct rule *rule,
                           const struct store_row *row)
{
    size_t n = 0;
    for (const struct job *job = prober->jobs; job < prober->jobs + AT_ONCE; job++) {
        if (job->prober && job->row.id == row->id)
            return false;
        n += job->prober && slice_eq(job->rule->name, rule->name);
    }
    return n < share_of(prober, rule);
}

/* ---- slices ---- */

static const struct rule *due_rule(const struct prober *prober, const struct keys_row *row)
{
    const struct record *record = &row->store.record;
    const struct rule *rule = rule_set_named(prober->plan->settings.rules, row->store.rule);
    bool due = probe_due(record) <= store_now(prober->config.store);
    return rule && rule->probes_alone && due ? rule : NULL;
}

/* Begins what is due and has room. What has none stays in the slice until there is, or until the
 * next slice takes its place: then it is found in the next round. */
static void start_slice(struct prober *prober, struct slice_of_records *slice)
{
    struct keys_row **at = &slice->next;
    while (*at && prober->running < AT_ONCE) {
        const struct rule *rule = due_rule(prober, *at);
        if (rule && !has_probe_room(prober, rule, &(*at)->store)) {
            at = &(*at)->next;
            continue;
        }
        if (rule)
            start_job(prober, rule, &(*at)->store);
        *at = (*at)->next;
    }
}

static void drop_slice(struct slice_of_records *slice)
{
    keys_found_fini(&slice->found);
    slice->found = (struct keys_found){0};
    slice->next = NULL;
}

/* False: the store did not list. */
static bool list_doubtful(struct prober *prober, struct slice_of_records *slice,
                          enum keys_status status)
{
    struct keys_wanted wanted = {.status = status,
                                 .lapsed = status == KEYS_PENDING,
                                 .after = slice->after,
                                 .limit = SLICE_MOST,
                                 .scans = 1};
    drop_slice(slice);
    enum store_status listed =
        keys_list(prober->config.store, &wanted, fiber_parker(), &slice->found);
    slice->next = listed == STORE_DONE ? slice->found.first : NULL;
    slice->after = listed == STORE_DONE ? slice->found.next : 0;
    return listed == STORE_DONE;
}

/* Of what was listed. The rules stay, whatever a reload brings meanwhile. */
static void end_holds(struct prober *prober, const struct slice_of_records *slice)
{
    struct plan *plan = prober->plan;
    struct store *store = prober->config.store;
    plan->refs++;
    for (const struct keys_row *row = slice->next; plan->ends_holds && row; row = row->next) {
        const struct rule *rule = rule_set_named(plan->settings.rules, row->store.rule);
        if (rule && hold_has_end(rule) && !prober->base.draining &&
            hold_end(store, rule, row, store_now(store), fiber_parker()))
            metrics_hold_ended(metrics_rule(prober->config.metrics, rule->name));
    }
    plan_drop(plan);
}

static bool is_settled_by(const struct rule *rule)
{
    return rule && (rule->probes_alone || hold_has_end(rule));
}

static void list_lapsed(struct prober *prober, int64_t stale)
{
    bool found = false;
    if (!list_doubtful(prober, &prober->lapsed, KEYS_PENDING))
        return;
    for (const struct keys_row *row = prober->lapsed.next; row; row = row->next) {
        const struct rule *rule = rule_set_named(prober->plan->settings.rules, row->store.rule);
        found |= is_settled_by(rule) || record_is_asking(&row->store.record);
    }
    for (const struct keys_row *row = prober->lapsed.next; row && !prober->base.draining;
         row = row->next)
        inquiry_end(prober->config.store, row, fiber_parker());
    end_holds(prober, &prober->lapsed);
    round_note(&prober->round, found, prober->lapsed.after == 0, clock_boot_us(), stale);
}

/* The next slices, unless all probes are under way: then those of before wait for them. */
static void look_for_records(struct prober *prober)
{
    struct store_counts counts = store_counts(prober->config.store);
    if (prober->running == AT_ONCE)
        return;
    bool settles = prober->plan->wanted > 0 || prober->plan->ends_holds;
    if (settles && counts.unknown > 0 && list_doubtful(prober, &prober->unknown, KEYS_UNKNOWN))
        end_holds(prober, &prober->unknown);
    if (round_is_due(&prober->round, clock_boot_us(), counts.stale))
        list_lapsed(prober, counts.stale);
}

static void start_slices(struct prober *prober)
{
    start_slice(prober, &prober->unknown);
    start_slice(prober, &prober->lapsed);
}

/* In a second, or where nothing is probed and all were looked at, in a minute. */
static int64_t next_look(const struct prober *prober)
{
    bool goes_on =
        prober->plan->wanted > 0 || prober->unknown.after != 0 || prober->lapsed.after != 0;
    return clock_after(clock_boot_us(), goes_on ? LOOK_US : REST_US);
}

static bool is_wanted_plan(const struct plan *plan)
{
    return plan->wanted > 0 || plan->ends_holds || plan->asks_first;
}

/* Between two looks refills what has ended. Without a rule that wants it, waits until a reload
 * brings one. */
static void run_prober(void *argument)
{
    struct prober *prober = argument;
    prober->parker = fiber_parker();
    service_taken(&prober->base);
    while (!prober->base.draining) {
        if (is_wanted_plan(prober->plan) && clock_boot_us() >= prober->look_at) {
            prober->look_at = CLOCK_NEVER; /* sooner, if a reload comes meanwhile */
            look_for_records(prober);
            prober->look_at = clock_first(prober->look_at, next_look(prober));
        }
        if (prober->plan->wanted > 0 && !prober->base.draining)
            start_slices(prober);
        if (!prober->base.draining)
            fiber_wait(NULL, 0, is_wanted_plan(prober->plan) ? prober->look_at : CLOCK_NEVER);
    }
    while (prober->running > 0)
        fiber_wait(NULL, 0, CLOCK_NEVER);
    drop_slice(&prober->unknown);
    drop_slice(&prober->lapsed);
}

/* ---- as a service ---- */

static void take_prober_plan(void *owner, void *plan)
{
    struct prober *prober = owner;
    plan_drop(prober->plan);
    prober->plan = plan;
    prober->round = (struct round){0};
    prober->look_at = 0;
    parker_wake(prober->parker);
    service_taken(&prober->base);
}

static void cut_probes(void *owner)
{
    struct prober *prober = owner;
    for (struct job *job = prober->jobs; job < prober->jobs + AT_ONCE; job++)
        if (job->probe)
            http_call_cut(&job->probe->call);
    parker_wake(prober->parker);
}

static void prober_fini(void *owner)
{
    const struct prober *prober = owner;
    CHECK(prober->running == 0);
    plan_drop(prober->plan);
}

static const struct service_kind prober_kind = {
    .name = "pawl-prober",
    .size = sizeof(struct prober),
    .max_fibers = AT_ONCE + FIBERS_SPARE,
    .fibers = {{"prober", run_prober}},
    .take = take_prober_plan,
    .drain = cut_probes,
    .drop = plan_drop,
    .fini = prober_fini,
};

struct service *prober_start(const struct prober_config *config,
                             const struct prober_settings *settings)
{
    struct prober *prober = service_new(&prober_kind);
    if (!prober)
        return NULL;
    prober->config = *config;
    prober->plan = plan_make(settings);
    return service_start(&prober->base, prober->plan);
}

bool prober_prepare(struct service *prober, const struct prober_settings *settings)
{
    return service_prepare(prober, plan_make(settings));
}
