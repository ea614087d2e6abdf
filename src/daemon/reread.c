/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/reread.h"

#include "base/mem.h"
#include "config/options.h"
#include "daemon/check.h"
#include "daemon/limits.h"
#include "daemon/resolve.h"

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

/* What this process has opened by it stays open. */
static void tell_what_needs_a_restart(const struct reread *reread, const struct config *config)
{
    for (enum option_id id = 0; id < OPTION_COUNT; id++)
        if (option_needs_restart(id, reread->started, config))
            tell(reread, LOG_LEVEL_WARN, "config_needs_restart", option_at(id)->name);
}

static bool apply(const struct reread *reread, const struct config *config)
{
    struct http_upstream upstream;
    char *problem MEM_AUTO = NULL;
    if (limits_fit(config, &problem) &&
        resolve_upstream(&config->upstream, reread->signals, &upstream, &problem) &&
        store_make_room(reread->store, &config->store_limits) &&
        gateway_prepare(reread->gateway, &config->gateway, &upstream)) {
        store_configure(reread->store, &config->store_limits);
        gateway_reload(reread->gateway);
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
