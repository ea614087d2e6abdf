/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the daemon that starts, reloads and stops the gateway. */
#include "gateway/gateway.h"
#include "base/check.h"
#include "base/mem.h"
#include "base/time/timestamp.h"
#include "core/request/trial.h"
#include "daemon/check.h"
#include "daemon/parts/parts.h"
#include "daemon/resolve.h"
#include "webhook/service.h"

#define MOVED "another gateway moved its keys; reload this one"
#define FINDS_ALL "its probe finds what cannot exist, and nothing it finds is believed"
#define NAMES_MAX ((size_t)1024)
#define TRIM_LEAST ((uint64_t)8 * 1024 * 1024) /* bytes of bodies whose memory is given back */

struct gateway_part {
    struct daemon *daemon;
    struct gateway *gateway;
    uint64_t most_held;     /* bytes of bodies, since memory was last given back */
    struct mutex mutex;     /* of `rules` */
    struct rule_set *rules; /* in force */
    struct buf moved;       /* names of moved rules that the log says already, a line each */
    int64_t restored_at;    /* the restore of which the log has said what it means for them */
};

/* Before their part has started it looks for itself. */
static void event_came(void *argument)
{
    struct service *webhooks = atomic_load(&((struct daemon *)argument)->webhooks);
    if (webhooks)
        webhook_service_wake(webhooks);
}

/* ---- rules whose keys another gateway moved ---- */

/* The caller's reference, from any thread. */
static struct rule_set *take_rules(struct gateway_part *part)
{
    mutex_lock(&part->mutex);
    struct rule_set *rules = rule_set_ref(part->rules);
    mutex_unlock(&part->mutex);
    return rules;
}

static void set_rules(struct gateway_part *part, struct rule_set *rules)
{
    mutex_lock(&part->mutex);
    struct rule_set *before = part->rules;
    part->rules = rule_set_ref(rules);
    mutex_unlock(&part->mutex);
    rule_set_unref(before);
}

static bool is_logged(const struct gateway_part *part, struct slice name)
{
    for (struct slice rest = buf_slice(&part->moved), line; slice_next(&rest, '\n', &line);)
        if (slice_eq(line, name))
            return true;
    return false;
}

static void log_moved(struct gateway_part *part)
{
    for (size_t i = 0; i < part->rules->n; i++) {
        struct slice name = part->rules->rules[i].name;
        struct log_line line;
        if (!atomic_load(&part->rules->moved[i]) || is_logged(part, name))
            continue;
        log_line_start(&line, LOG_LEVEL_ERROR, "identity_moved");
        log_line_str(&line, "rule", name);
        log_line_str(&line, "problem", SLICE(MOVED));
        log_line_end(part->daemon->log, &line);
        buf_add_slice(&part->moved, name);
        buf_add_char(&part->moved, '\n');
    }
}

/* Whether the service is asked, or a key says whether it is older. */
static bool knows_repeats(const struct rule *rule)
{
    bool dated = rule->unknown == RECORD_UNKNOWN_HOLD && rule->key_format_kind == KEY_FORMAT_UUID7;
    return rule_asks_first(rule) || dated || !rule->protect;
}

/* Of which rules a repeat of what the store lacks is done again. */
static void log_restored(struct gateway_part *part)
{
    const struct terms terms = store_terms(part->daemon->store);
    BUF_AUTO struct buf since = buf_make(SIZE_MAX), names = buf_make(NAMES_MAX);
    struct log_line line;
    if (terms.restored_at == part->restored_at)
        return;
    part->restored_at = terms.restored_at;
    if (terms.restored_at == 0)
        return;
    for (size_t i = 0; i < part->rules->n && buf_ok(&names); i++)
        if (!knows_repeats(&part->rules->rules[i]))
            buf_printf(&names, "%s%.*s", names.len > 0 ? ", " : "",
                       SLICE_ARG(part->rules->rules[i].name));
    timestamp_print(&since, terms.restored_since);
    log_line_start(&line, LOG_LEVEL_WARN, "store_restored");
    log_line_str(&line, "since", buf_slice(&since));
    log_line_str(&line, "rules_not_asked", buf_ok(&names) ? buf_slice(&names) : SLICE("many"));
    log_line_end(part->daemon->log, &line);
}

static bool has_moved(const struct rule_set *rules, size_t at)
{
    return atomic_load(&rules->moved[at]);
}

static bool finds_all(const struct rule_set *rules, size_t at)
{
    return trial_of(rules, &rules->rules[at]) == TRIAL_FAILED;
}

/* Other rules go on: it is ready all the same. */
static bool is_ready(void *self, struct buf *why)
{
    struct rule_set *rules = take_rules(self);
    for (size_t i = 0; i < rules->n; i++) {
        struct slice name = rules->rules[i].name;
        if (has_moved(rules, i))
            buf_printf(why, "but for rule '%.*s': " MOVED "\n", SLICE_ARG(name));
        if (finds_all(rules, i))
            buf_printf(why, "but for rule '%.*s': " FINDS_ALL "\n", SLICE_ARG(name));
    }
    rule_set_unref(rules);
    return true;
}

/* A line for each rule of which it is so. */
static void write_flags(struct gateway_part *part, const struct page_series *series,
                        bool (*is_so)(const struct rule_set *rules, size_t at), struct buf *page)
{
    struct rule_set *rules = take_rules(part);
    page_begin(page, series);
    for (size_t i = 0; i < rules->n; i++) {
        if (!is_so(rules, i))
            continue;
        buf_printf(page, "%s{", series->name);
        page_label(page, "rule", rules->rules[i].name);
        buf_add_str(page, "} 1\n");
    }
    rule_set_unref(rules);
}

/* ---- life ---- */

static bool check(const struct config *config, char **ret_problem)
{
    struct http_upstream upstream HTTP_UPSTREAM_AUTO = {0};
    struct sockaddr_storage address;
    return resolve_address(&config->listen, &address, ret_problem) &&
           resolve_upstream(config, -1, &upstream, ret_problem);
}

static bool start(void **self, struct daemon *daemon, char **ret_problem)
{
    struct gateway_part *part = *self;
    const struct config *config = daemon->config;
    struct http_upstream upstream HTTP_UPSTREAM_AUTO = {0};
    struct gateway_config wanted = {
        .store = daemon->store,
        .engine = daemon->engine,
        .log = daemon->log,
        .metrics = daemon->metrics,
        .workers = daemon->workers,
        .has_events = event_came,
        .argument = daemon,
    };
    int error = 0;
    CHECK(daemon->store && daemon->engine);
    if (!resolve_address(&config->listen, &wanted.listen, ret_problem) ||
        !resolve_upstream(config, -1, &upstream, ret_problem) ||
        !check_adopt_identities(daemon->store, config, NULL, ret_problem))
        return false;
    part->daemon = daemon;
    part->gateway = gateway_start(&wanted, &config->gateway, &upstream, &error);
    if (!part->gateway) {
        *ret_problem = listen_problem("listen", &config->listen, error, NULL);
        return false;
    }
    mutex_init(&part->mutex);
    part->rules = rule_set_ref(config->gateway.rules);
    part->moved = buf_make(SIZE_MAX);
    return true;
}

static bool prepare(void *self, const struct daemon *daemon, const struct config *config,
                    char **ret_problem)
{
    struct gateway_part *part = self;
    struct http_upstream upstream HTTP_UPSTREAM_AUTO = {0};
    return resolve_upstream(config, daemon->signals, &upstream, ret_problem) &&
           gateway_prepare(part->gateway, &config->gateway, &upstream);
}

static void reload(void *self, const struct config *config)
{
    struct gateway_part *part = self;
    if (!config) {
        gateway_forget(part->gateway);
        return;
    }
    gateway_reload(part->gateway);
    set_rules(part, config->gateway.rules);
    buf_clear(&part->moved);
    part->restored_at = 0;
}

/* Memory of released bodies goes back to the system: the allocator keeps what lies between
 * blocks that live. */
static void give_memory_back(void *self)
{
    struct gateway_part *part = self;
    uint64_t held = gateway_load(part->gateway).buffered;
    if (held > part->most_held)
        part->most_held = held;
    if (part->most_held < TRIM_LEAST || held > part->most_held / 8)
        return;
    part->most_held = 0;
    mem_trim();
}

static void watch(void *self)
{
    log_moved(self);
    log_restored(self);
    give_memory_back(self);
}

static void write_metrics(void *self, struct buf *page)
{
    struct gateway_load load = gateway_load(((struct gateway_part *)self)->gateway);
    page_value(page, SERIES(IN_FLIGHT), (double)load.in_flight);
    page_value(page, SERIES(CONNECTIONS), (double)load.connections);
    page_value(page, SERIES(BUFFERED), (double)load.buffered);
    write_flags(self, SERIES(IDENTITY_MOVED), has_moved, page);
    write_flags(self, SERIES(PROBE_FINDS_ALL), finds_all, page);
}

static int drain(void *self)
{
    return gateway_drain(((struct gateway_part *)self)->gateway);
}

static void stop(void *self)
{
    gateway_stop(((struct gateway_part *)self)->gateway);
}

static void free_gateway(void *self)
{
    struct gateway_part *part = self;
    gateway_free(part->gateway);
    rule_set_unref(part->rules);
    mutex_fini(&part->mutex);
    buf_fini(&part->moved);
}

const struct part gateway_part = {
    .name = "gateway",
    .size = sizeof(struct gateway_part),
    .is_wanted = config_has_gateway,
    .check = check,
    .start = start,
    .prepare = prepare,
    .reload = reload,
    .watch = watch,
    .ready = is_ready,
    .metrics = write_metrics,
    .drain = drain,
    .stop = stop,
    .free = free_gateway,
};
