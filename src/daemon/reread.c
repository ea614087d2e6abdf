/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/reread.h"

#include "base/mem.h"
#include "daemon/check.h"
#include "daemon/limits.h"
#include "daemon/settings.h"

static void tell(const struct reread *reread, enum log_level level, const char *event,
                 struct slice problem)
{
    struct log_line line;
    log_line_start(&line, level, event);
    log_line_str(&line, "config", slice_of(reread->path));
    if (problem.len > 0)
        log_line_str(&line, "problem", problem);
    log_line_end(reread->log, &line);
}

static void tell_lines(const struct reread *reread, enum log_level level, const char *event,
                       const char *lines)
{
    struct slice rest = slice_of(lines);
    while (rest.len > 0) {
        struct slice line;
        rest = slice_cut(rest, '\n', &line);
        tell(reread, level, event, line);
    }
}

static bool same_address(const struct config_address *a, const struct config_address *b)
{
    return a->port == b->port && slice_eq(a->host, b->host);
}

/* What this process has opened by it stays open. */
static void tell_what_needs_a_restart(const struct reread *reread, const struct config *config)
{
    const struct config *old = reread->started;
    const struct {
        const char *option;
        bool same;
    } fixed[] = {
        {"listen", same_address(&old->listen, &config->listen)},
        {"admin", same_address(&old->admin, &config->admin)},
        {"admin_token", slice_eq(old->admin_token, config->admin_token)},
        {"store", slice_eq(old->store, config->store)},
        {"threads", old->threads == config->threads},
        {"max_connections", old->max_connections == config->max_connections},
    };
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (!fixed[i].same)
            tell(reread, LOG_LEVEL_WARN, "config_needs_restart", slice_of(fixed[i].option));
}

static bool apply(const struct reread *reread, const struct config *config)
{
    struct gateway_settings settings;
    struct store_limits limits = limits_of(config);
    char *problem MEM_AUTO = NULL;
    if (limits_fit(config, reread->threads, &problem) &&
        settings_of(config, reread->signals, &settings, &problem) &&
        store_configure(reread->store, &limits) && gateway_reload(reread->gateway, &settings)) {
        engine_set_cache(reread->engine, config->cache);
        return true;
    }
    tell(reread, LOG_LEVEL_ERROR, "config_refused", slice_of(problem ? problem : "out of memory"));
    return false;
}

static void warn_of_store(void *argument, struct slice line)
{
    tell(argument, LOG_LEVEL_WARN, "config_warning", line);
}

struct config *reread_config(const struct reread *reread)
{
    char *complaints MEM_AUTO = NULL;
    struct config *config = config_read(reread->path, &complaints);
    if (!config) {
        tell_lines(reread, LOG_LEVEL_ERROR, "config_refused",
                   complaints ? complaints : "out of memory");
        return NULL;
    }
    tell_lines(reread, LOG_LEVEL_WARN, "config_warning", complaints);
    if (!apply(reread, config)) {
        config_free(config);
        return NULL;
    }
    tell_what_needs_a_restart(reread, config);
    check_rules_known(reread->store, config, warn_of_store, (void *)(uintptr_t)reread);
    tell(reread, LOG_LEVEL_INFO, "config_reloaded", slice_of(NULL));
    return config;
}
