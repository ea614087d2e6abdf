/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/daemon.h"

#include "base/mem.h"
#include "core/errors.h"
#include "daemon/resolve.h"
#include "engine/engine.h"
#include "fiber/fiber.h"
#include "gateway/gateway.h"
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define WORKER_THREADS 2
#define WORKER_QUEUE 256
#define LOG_RING_BYTES ((size_t)4 * 1024 * 1024)
#define DRAIN_POLL_MS 50
#define STORE_POLL_MS 1000
#define PROBLEM_MAX ((size_t)1024)

struct parts {
    struct log *log;
    struct store *store;
    struct engine *engine;
    struct workers *workers;
    struct gateway *gateway;
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
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN); /* no reload in this version; and no end without a drain */
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC);
}

/* Every client takes a descriptor and every exchange one more. */
static void raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static int open_store(struct parts *parts, const struct config *config, const char *path)
{
    struct store_config wanted = store_config_default();
    wanted.path = path;
    wanted.is_serve = true;
    wanted.max_waiting = config->max_waiting;
    wanted.max_waiting_per_key = config->max_waiting_per_key;
    wanted.timeout_us = config->store_timeout_us;
    wanted.disk_reserve = config->disk_reserve;
    char *problem = NULL;
    if (store_open(&wanted, &parts->store, &problem) != STORE_OPENED)
        return complain(problem);
    parts->engine = engine_new(parts->store, config->cache);
    parts->workers = workers_new(WORKER_THREADS, WORKER_QUEUE);
    parts->log = log_new(STDERR_FILENO, LOG_RING_BYTES);
    return parts->engine && parts->workers && parts->log ? EXIT_DONE : complain(NULL);
}

static size_t loop_threads(const struct config *config)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (config->threads > 0)
        return config->threads;
    return cores > 0 ? (size_t)cores : 1;
}

static int start_gateway(struct parts *parts, const struct config *config)
{
    struct gateway_config wanted = {
        .store = parts->store,
        .engine = parts->engine,
        .log = parts->log,
        .workers = parts->workers,
        .rules = config->rules,
        .threads = loop_threads(config),
        .max_connections = config->max_connections,
        .max_in_flight = config->max_in_flight,
        .max_buffered = config->max_buffered,
        .head_timeout_us = config->head_timeout_us,
        .body_timeout_us = config->body_timeout_us,
        .idle_timeout_us = config->idle_timeout_us,
        .write_timeout_us = config->write_timeout_us,
        .connect_timeout_us = config->connect_timeout_us,
        .upstream_idle_us = config->upstream_idle_us,
        .retry_after_us = config->retry_after_us,
        .unmatched_refuse = config->unmatched_refuse,
    };
    char *problem = NULL;
    if (!resolve_address(&config->listen, true, &wanted.listen, &wanted.listen_len, &problem) ||
        !resolve_address(&config->upstream, false, &wanted.upstream.address,
                         &wanted.upstream.address_len, &problem))
        return complain(problem);
    parts->gateway = gateway_start(&wanted, &problem);
    return parts->gateway ? EXIT_DONE : complain(problem);
}

static void say_ready(const struct parts *parts, const struct config *config, const char *path)
{
    struct store_counts counts = store_counts(parts->store);
    int64_t records = counts.pending + counts.complete + counts.failed + counts.unknown;
    fprintf(stderr,
            "pawl: ready, listening on %.*s:%d, upstream %.*s:%d, store %s (%lld records), "
            "%zu rules\n",
            SLICE_ARG(config->listen.host), config->listen.port, SLICE_ARG(config->upstream.host),
            config->upstream.port, path, (long long)records, config->rules->n);
}

/* One line when the store goes down, one when it is back. */
static void log_store(const struct parts *parts, bool up)
{
    struct log_line line;
    struct buf problem BUF_AUTO = buf_make(PROBLEM_MAX);
    log_line_start(&line, up ? LOG_LEVEL_INFO : LOG_LEVEL_ERROR, up ? "store_up" : "store_down");
    store_problem(parts->store, &problem);
    if (!up)
        log_line_str(&line, "problem", buf_slice(&problem));
    log_line_end(parts->log, &line);
}

static void wait_for_signal(const struct parts *parts)
{
    bool up = true;
    struct signalfd_siginfo info;
    struct pollfd signals = {.fd = parts->signals, .events = POLLIN};
    while (poll(&signals, 1, STORE_POLL_MS) <= 0) {
        if (store_is_up(parts->store) == up)
            continue;
        up = !up;
        log_store(parts, up);
    }
    (void)!read(parts->signals, &info, sizeof info);
}

/* True: everything ended. False: the time for it is over, or a second signal came. */
static bool drain(const struct parts *parts, const struct config *config)
{
    int64_t deadline = clock_after(clock_boot_us(), config->drain_us);
    gateway_drain(parts->gateway);
    for (;;) {
        if (gateway_wait(parts->gateway, clock_boot_us()))
            return true;
        struct pollfd signals = {.fd = parts->signals, .events = POLLIN};
        bool again = poll(&signals, 1, DRAIN_POLL_MS) > 0;
        if (again || clock_boot_us() >= deadline)
            return false;
    }
}

/* The committer may still wake fibers: it ends before their loops are freed. */
static void free_parts(struct parts *parts)
{
    store_close(parts->store);
    if (parts->gateway)
        gateway_free(parts->gateway);
    workers_free(parts->workers);
    log_free(parts->log);
    close(parts->signals);
}

static int serve(struct parts *parts, const struct config *config, const char *store_path)
{
    int failed = open_store(parts, config, store_path);
    if (failed == EXIT_DONE)
        failed = start_gateway(parts, config);
    if (failed != EXIT_DONE)
        return failed;
    say_ready(parts, config, store_path);
    wait_for_signal(parts);
    if (drain(parts, config))
        return EXIT_DONE;
    /* Exchanges still run: their records stay pending, and the next start settles them. */
    log_flush(parts->log);
    _exit(EXIT_DONE);
}

int daemon_run(const struct config *config, const char *store_path)
{
    struct parts parts = {.signals = block_signals()};
    umask(077);
    raise_descriptors();
    fiber_install_guard_handler();
    int code = serve(&parts, config, store_path);
    struct engine *engine = parts.engine;
    free_parts(&parts);
    engine_free(engine);
    return code;
}
