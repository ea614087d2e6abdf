/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/daemon.h"

#include "base/crash.h"
#include "base/mem.h"
#include "core/errors.h"
#include "daemon/check.h"
#include "daemon/fail_stop.h"
#include "daemon/limits.h"
#include "daemon/notify.h"
#include "daemon/operator.h"
#include "daemon/reread.h"
#include "daemon/resolve.h"
#include "engine/engine.h"
#include "fiber/fiber.h"
#include "gateway/gateway.h"
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define WORKER_THREADS 2
#define WORKER_QUEUE 256
#define LOG_RING_BYTES ((size_t)2 * 1024 * 1024)
#define DRAIN_POLL_MS 50
#define STORE_POLL_MS 1000
#define TRIM_LEAST ((uint64_t)8 * 1024 * 1024) /* bytes of bodies whose memory is given back */
#define PROBLEM_MAX ((size_t)1024)
#define READY_MAX ((size_t)8192) /* a path and three hosts */
#define IN_USE_TURNS 20          /* tries to open a store that another serve holds, and */
#define IN_USE_NS 50000000L      /* what lies between two of them */

struct parts {
    const struct daemon_options *options;
    struct config *reloaded; /* the config in force; NULL: the one it was started with */
    struct log *log;
    struct metrics *metrics;
    struct store *store;
    struct engine *engine;
    struct workers *workers;
    struct gateway *gateway;
    struct admin *admin; /* NULL: none */
    struct operator_view view;
    int signals; /* signalfd */
};

static int complain(char *problem)
{
    fprintf(stderr, "pawl serve: %s\n", problem ? problem : "out of memory");
    mem_free(problem);
    return EXIT_UNAVAILABLE;
}

/* Before any thread starts, so that all of them leave the signals to the main thread. */
static int block_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC);
}

/* Whoever holds it may be at its end: a process that was killed lets go a moment later. */
static enum store_open_result open_when_free(struct parts *parts, const struct store_config *wanted,
                                             char **ret_problem)
{
    enum store_open_result result = store_open(wanted, &parts->store, ret_problem);
    for (int turn = 0; turn < IN_USE_TURNS && result == STORE_OPEN_IN_USE; turn++) {
        nanosleep(&(struct timespec){.tv_nsec = IN_USE_NS}, NULL);
        mem_free(*ret_problem);
        *ret_problem = NULL;
        result = store_open(wanted, &parts->store, ret_problem);
    }
    return result;
}

static int open_store(struct parts *parts, const struct config *config, const char *path)
{
    struct store_config wanted = store_config_default();
    wanted.path = path;
    wanted.is_serve = true;
    wanted.limits = config->store_limits;
    wanted.fail_stop = fail_stop;
    wanted.fail_stop_argument = &parts->log;
    char *problem = NULL;
    parts->log = log_new(STDERR_FILENO, LOG_RING_BYTES);
    if (!parts->log)
        return complain(NULL);
    if (open_when_free(parts, &wanted, &problem) != STORE_OPENED)
        return complain(problem);
    parts->engine = engine_new(parts->store, config->cache);
    parts->workers = workers_new(WORKER_THREADS, WORKER_QUEUE);
    parts->metrics = metrics_new();
    return parts->engine && parts->workers && parts->metrics ? EXIT_DONE : complain(NULL);
}

static int start_gateway(struct parts *parts, const struct config *config)
{
    struct gateway_config wanted = {
        .store = parts->store,
        .engine = parts->engine,
        .log = parts->log,
        .metrics = parts->metrics,
        .workers = parts->workers,
    };
    struct http_upstream upstream;
    char *problem = NULL;
    if (!resolve_address(&config->listen, &wanted.listen, &problem) ||
        !resolve_upstream(&config->upstream, -1, &upstream, &problem))
        return complain(problem);
    parts->gateway = gateway_start(&wanted, &config->gateway, &upstream, &problem);
    return parts->gateway ? EXIT_DONE : complain(problem);
}

static int start_admin(struct parts *parts, const struct config *config)
{
    char *problem = NULL;
    parts->view.store = parts->store;
    parts->view.gateway = parts->gateway;
    parts->view.metrics = parts->metrics;
    parts->view.log = parts->log;
    bool started = operator_listen(config, &parts->view, &parts->admin, &problem);
    return started ? EXIT_DONE : complain(problem);
}

/* In one write, as the log's thread may write meanwhile. */
void daemon_say_notes(const struct config *config)
{
    if (config->notes.len > 0)
        fprintf(stderr, "pawl serve: note:\n%.*s", SLICE_ARG(config->notes));
}

static void warn_of_store(void *argument, struct slice line)
{
    (void)argument;
    fprintf(stderr, "pawl serve: warning: %.*s\n", SLICE_ARG(line));
}

static void say_ready(const struct parts *parts, const struct config *config, const char *path)
{
    struct store_counts counts = store_counts(parts->store);
    int64_t records =
        counts.pending + counts.released + counts.complete + counts.failed + counts.unknown;
    struct buf line BUF_AUTO = buf_make(READY_MAX);
    buf_printf(&line, "listening on %.*s:%d", SLICE_ARG(config->listen.host), config->listen.port);
    if (config->admin.host.len > 0)
        buf_printf(&line, ", admin on %.*s:%d", SLICE_ARG(config->admin.host), config->admin.port);
    buf_printf(&line, ", upstream %.*s:%d, store %s (%lld record%s), %zu rule%s",
               SLICE_ARG(config->upstream.host), config->upstream.port, path, (long long)records,
               records == 1 ? "" : "s", config->gateway.rules->n,
               config->gateway.rules->n == 1 ? "" : "s");
    /* At once: the log's thread may write meanwhile. */
    fprintf(stderr, "pawl: ready, %.*s\n", SLICE_ARG(buf_slice(&line)));
}

/* One line when the store goes down, one when it is back. */
static void log_store(const struct parts *parts, bool *up)
{
    struct log_line line;
    struct buf problem BUF_AUTO = buf_make(PROBLEM_MAX);
    bool is_up = admin_store_is_ready(parts->store, &problem);
    if (is_up == *up)
        return;
    *up = is_up;
    log_line_start(&line, is_up ? LOG_LEVEL_INFO : LOG_LEVEL_ERROR,
                   is_up ? "store_up" : "store_down");
    if (!is_up)
        log_line_str(&line, "problem", buf_slice(&problem));
    log_line_end(parts->log, &line);
}

/* What is told of the wall clock, so that each change is told once. */
struct clock_told {
    bool refused;
    uint64_t jumps;
};

/* Records that expired by a wrong clock stay so: store time never goes back. */
static void log_clock(const struct parts *parts, struct clock_told *told)
{
    struct store_counts counts = store_counts(parts->store);
    struct log_line line;
    if (counts.clock_jumps != told->jumps) {
        log_line_start(&line, LOG_LEVEL_ERROR, "clock_jumped");
        log_line_i64(&line, "ahead_s", counts.clock_jump_us / CLOCK_US_PER_S);
        log_line_end(parts->log, &line);
    }
    if (counts.clock_refused != told->refused) {
        log_line_start(&line, counts.clock_refused ? LOG_LEVEL_ERROR : LOG_LEVEL_INFO,
                       counts.clock_refused ? "clock_refused" : "clock_believed");
        log_line_end(parts->log, &line);
    }
    *told = (struct clock_told){counts.clock_refused, counts.clock_jumps};
}

/* The signal that came within `ms`, or 0. */
static int next_signal(const struct parts *parts, int ms)
{
    struct signalfd_siginfo info;
    struct pollfd signals = {.fd = parts->signals, .events = POLLIN};
    if (poll(&signals, 1, ms) <= 0 || read(parts->signals, &info, sizeof info) != sizeof info)
        return 0;
    return (int)info.ssi_signo;
}

static const struct config *config_in_force(const struct parts *parts)
{
    return parts->reloaded ? parts->reloaded : parts->options->config;
}

static void reload(struct parts *parts)
{
    const struct reread reread = {
        .path = parts->options->config_path,
        .started = parts->options->config,
        .signals = parts->signals,
        .store = parts->store,
        .engine = parts->engine,
        .gateway = parts->gateway,
        .log = parts->log,
    };
    notify_manager("RELOADING=1");
    struct config *config = reread_config(&reread);
    metrics_reloaded(parts->metrics, config);
    if (config) {
        config_free(parts->reloaded);
        parts->reloaded = config;
        if (parts->admin)
            admin_set_log_keys(parts->admin, config->gateway.log_keys_hashed);
    }
    notify_manager("READY=1");
}

/* Memory of bodies that are gone goes back to the system: the allocator keeps what lies between
 * blocks that live. `*most`: what was held since it was last done. */
static void give_memory_back(const struct parts *parts, uint64_t *most)
{
    uint64_t held = gateway_load(parts->gateway).buffered;
    if (held > *most)
        *most = held;
    if (*most < TRIM_LEAST || held > *most / 8)
        return;
    *most = 0;
    mem_trim();
}

/* Until SIGTERM or SIGINT. */
static void serve_on(struct parts *parts)
{
    bool up = true;
    struct clock_told told = {0};
    uint64_t most_held = 0;
    for (;;) {
        log_clock(parts, &told);
        int signal = next_signal(parts, STORE_POLL_MS);
        if (signal == SIGHUP)
            reload(parts);
        else if (signal != 0)
            return;
        log_store(parts, &up);
        give_memory_back(parts, &most_held);
    }
}

/* False: SIGTERM or SIGINT came a second time. */
static bool wait_while_leaving(const struct parts *parts, int64_t until_us)
{
    while (clock_boot_us() < until_us) {
        int signal = next_signal(parts, DRAIN_POLL_MS);
        if (signal != 0 && signal != SIGHUP)
            return false;
    }
    return true;
}

static void log_stopping(const struct parts *parts, const struct config *config)
{
    struct log_line line;
    log_line_start(&line, LOG_LEVEL_INFO, "stopping");
    log_line_i64(&line, "drain_delay_ms", config->drain_delay_us / CLOCK_US_PER_MS);
    log_line_i64(&line, "drain_ms", config->drain_us / CLOCK_US_PER_MS);
    log_line_end(parts->log, &line);
}

/* True: everything ended. False: the time for it is over, or a second signal came. */
static bool drain(struct parts *parts)
{
    const struct config *config = config_in_force(parts);
    int64_t drain_at = clock_after(clock_boot_us(), config->drain_delay_us);
    atomic_store(&parts->view.leaving, true);
    log_stopping(parts, config);
    notify_manager("STOPPING=1");
    if (!wait_while_leaving(parts, drain_at))
        return false;
    int64_t deadline = clock_after(clock_boot_us(), config->drain_us);
    CRASH_POINT(before_drain);
    gateway_drain(parts->gateway);
    while (!gateway_wait(parts->gateway, clock_boot_us())) {
        int64_t step = clock_after(clock_boot_us(), DRAIN_POLL_MS * CLOCK_US_PER_MS);
        if (!wait_while_leaving(parts, step) || clock_boot_us() >= deadline)
            return false;
    }
    CRASH_POINT(after_drain);
    return true;
}

/* The committer and the workers may still wake fibers: they end before the loops are freed. */
static void free_parts(struct parts *parts)
{
    admin_stop(parts->admin);
    store_close(parts->store);
    admin_free(parts->admin);
    workers_free(parts->workers);
    if (parts->gateway)
        gateway_free(parts->gateway);
    log_free(parts->log);
    metrics_free(parts->metrics);
    config_free(parts->reloaded);
    close(parts->signals);
}

static int serve(struct parts *parts)
{
    const struct config *config = parts->options->config;
    const char *store_path = parts->options->store_path;
    char *problem = NULL;
    if (!limits_fit(config, &problem)) {
        complain(problem);
        return EXIT_USAGE;
    }
    int failed = open_store(parts, config, store_path);
    if (failed == EXIT_DONE)
        failed = start_gateway(parts, config);
    if (failed != EXIT_DONE)
        return failed;
    failed = start_admin(parts, config);
    if (failed != EXIT_DONE) {
        gateway_drain(parts->gateway);
        (void)gateway_wait(parts->gateway, CLOCK_NEVER);
        return failed;
    }
    say_ready(parts, config, store_path);
    check_rules_known(parts->store, config, warn_of_store, NULL);
    daemon_say_notes(config);
    notify_manager("READY=1");
    serve_on(parts);
    bool drained = drain(parts);
    int code = store_is_dead(parts->store) ? EXIT_FAIL_STOP : EXIT_DONE;
    if (drained)
        return code;
    /* Exchanges still run: their records stay pending, and the next start settles them. */
    log_flush(parts->log);
    _exit(code);
}

int daemon_run(const struct daemon_options *options)
{
    struct parts parts = {.options = options, .signals = block_signals()};
    umask(077);
    fiber_install_guard_handler();
    int code = serve(&parts);
    struct engine *engine = parts.engine;
    free_parts(&parts);
    engine_free(engine);
    return code;
}
