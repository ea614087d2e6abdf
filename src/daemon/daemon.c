/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/daemon.h"

#include "base/check.h"
#include "base/compress/container.h"
#include "base/crash.h"
#include "base/mem.h"
#include "config/moved.h"
#include "config/option.h"
#include "core/errors.h"
#include "daemon/build.h"
#include "daemon/check.h"
#include "daemon/limits.h"
#include "daemon/notify.h"
#include "daemon/part.h"
#include "fiber/fiber.h"
#include "gateway/gateway.h"
#include "store/store.h"
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define WORKER_THREADS 2
#define WORKER_QUEUE 256
#define LOG_RING_BYTES ((size_t)2 * 1024 * 1024)
#define WATCH_US CLOCK_US_PER_S
#define OTHER_READY (-1)         /* instead of a signal */
#define READY_MAX ((size_t)8192) /* a path and three hosts */

/* Which file the config's path leads to, and how it is; inode 0: none. A volume of Kubernetes has a
 * link on the way, which leads to another file after a change. */
struct config_look {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec at; /* when it was changed */
};

struct config_watch {
    struct config_look read; /* by the last reload, or at the start */
    struct config_look seen; /* at the last look */
    int64_t looked_at;
    bool is_other; /* than what was read; whether it stays so is not known */
};

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

/* ---- parts ---- */

static bool start_part(struct daemon *daemon, const struct part *part, char **ret_problem)
{
    size_t n = atomic_load(&daemon->n_started);
    CHECK(n < PARTS_MAX && part->name && part->start);
    void *self = part->size > 0 ? mem_zalloc(1, part->size) : NULL;
    if ((part->size > 0 && !self) || !part->start(&self, daemon, ret_problem)) {
        mem_free(self);
        return false;
    }
    daemon->started[n] = (struct daemon_part){part, self};
    atomic_store(&daemon->n_started, n + 1);
    return true;
}

/* False: `*ret_problem` says why, or is NULL; what started is still to be stopped. */
static bool start_parts(struct daemon *daemon, char **ret_problem)
{
    bool started = true;
    for (const struct part *const *part = daemon->options->parts; *part && started; part++)
        if (part_is_wanted(*part, daemon->config))
            started = start_part(daemon, *part, ret_problem);
    return started;
}

static void watch_parts(struct daemon *daemon)
{
    for (size_t i = 0; i < daemon->n_started; i++)
        if (daemon->started[i].part->watch)
            daemon->started[i].part->watch(daemon->started[i].self);
}

bool daemon_is_ready(const struct daemon *daemon, struct buf *why)
{
    if (atomic_load(&daemon->leaving)) {
        buf_add_str(why, "pawl is shutting down");
        return false;
    }
    for (size_t i = 0; i < daemon->n_started; i++) {
        const struct daemon_part *at = &daemon->started[i];
        if (at->part->ready && !at->part->ready(at->self, why))
            return false;
    }
    return true;
}

void daemon_write_metrics(struct daemon *daemon, struct buf *page)
{
    page_metrics(page, daemon->metrics);
    page_build(page, this_build.version, this_build.commit);
    for (size_t i = 0; i < daemon->n_started; i++)
        if (daemon->started[i].part->metrics)
            daemon->started[i].part->metrics(daemon->started[i].self, page);
    page_value(page, SERIES(LOG_DROPPED), (double)log_dropped(daemon->log));
    page_process(page);
}

static void stop_parts(struct daemon *daemon)
{
    for (size_t i = daemon->n_started; i-- > 0;)
        if (daemon->started[i].part->stop)
            daemon->started[i].part->stop(daemon->started[i].self);
    workers_free(daemon->workers);
    for (size_t i = daemon->n_started; i-- > 0;)
        if (daemon->started[i].part->free)
            daemon->started[i].part->free(daemon->started[i].self);
    for (size_t i = 0; i < daemon->n_started; i++)
        if (daemon->started[i].part->size > 0)
            mem_free(daemon->started[i].self);
}

/* ---- start ---- */

/* In one write, as the log's thread may write meanwhile. */
void daemon_say_notes(const struct config *config)
{
    if (config->notes.len > 0)
        fprintf(stderr, "pawl serve: note:\n%.*s", SLICE_ARG(config->notes));
}

void daemon_say_warning(void *argument, struct slice line)
{
    (void)argument;
    fprintf(stderr, "pawl serve: warning: %.*s\n", SLICE_ARG(line));
}

/* How many loops, and why they are no more, where the config does not say. */
static void add_threads(struct buf *line, const struct gateway_settings *settings)
{
    struct container container = container_read();
    size_t loops = gateway_loops(settings);
    buf_printf(line, ", %zu thread%s", loops, loops == 1 ? "" : "s");
    if (settings->threads > 0)
        return;
    if (loops < container.affine)
        buf_printf(line, " (cpu quota %.3g)", container.quota);
    else if (loops < container.online)
        buf_printf(line, " (%zu of %zu processors)", loops, container.online);
}

static void say_ready(const struct daemon *daemon)
{
    const struct config *config = daemon->config;
    struct store_counts counts = store_counts(daemon->store);
    int64_t records =
        counts.pending + counts.released + counts.complete + counts.failed + counts.unknown;
    struct buf line BUF_AUTO = buf_make(READY_MAX);
    bool gateway = config_has_gateway(config);
    if (gateway)
        buf_printf(&line, "listening on %.*s:%d", SLICE_ARG(config->listen.host),
                   config->listen.port);
    else
        buf_add_str(&line, "delivering webhooks only");
    if (config->admin.host.len > 0)
        buf_printf(&line, ", admin on %.*s:%d", SLICE_ARG(config->admin.host), config->admin.port);
    if (gateway)
        buf_printf(&line, ", upstream %s%.*s:%d", config->upstream_tls.on ? "https://" : "",
                   SLICE_ARG(config->upstream.host), config->upstream.port);
    buf_printf(&line, ", store %s (%lld record%s)", store_place(daemon->store), (long long)records,
               records == 1 ? "" : "s");
    if (gateway) {
        buf_printf(&line, ", %zu rule%s", config->gateway.rules->n,
                   config->gateway.rules->n == 1 ? "" : "s");
        add_threads(&line, &config->gateway);
    }
    /* At once: the log's thread may write meanwhile. */
    fprintf(stderr, "pawl: ready, %.*s\n", SLICE_ARG(buf_slice(&line)));
}

static void say_weaker(const struct daemon *daemon)
{
    struct buf line BUF_AUTO = buf_make(READY_MAX);
    struct weakness weakness = store_weakness(daemon->store);
    if (!check_weakness_is_told(&weakness, daemon->config))
        return;
    buf_printf(&line, "the store %s%s: ", store_place(daemon->store),
               weakness.kind == WEAKNESS_LOSES ? " may lose what it acknowledged" : "");
    check_weakness_write(&weakness, &line);
    if (weakness.kind == WEAKNESS_UNREAD)
        fprintf(stderr, "pawl serve: note: %.*s\n", SLICE_ARG(buf_slice(&line)));
    else
        daemon_say_warning(NULL, buf_slice(&line));
}

/* ---- signals ---- */

/* The signal that came; OTHER_READY: `other` is readable (-1: there is none); 0: the deadline has
 * passed. */
static int next_signal(const struct daemon *daemon, int other, int64_t deadline_us)
{
    struct signalfd_siginfo info;
    struct pollfd fds[] = {{.fd = daemon->signals, .events = POLLIN},
                           {.fd = other, .events = POLLIN}};
    do {
        int n = poll(fds, 2, clock_poll_ms(deadline_us));
        if (n > 0 && fds[1].revents)
            return OTHER_READY;
        if (n > 0 && read(daemon->signals, &info, sizeof info) == sizeof info)
            return (int)info.ssi_signo;
    } while (clock_boot_us() < deadline_us);
    return 0;
}

/* ---- reload ---- */

static void log_config(const struct daemon *daemon, enum log_level level, const char *event,
                       struct slice problem)
{
    struct log_line line;
    log_line_start(&line, level, event);
    log_line_str(&line, "config", slice_of(daemon->options->config_path));
    if (problem.len > 0)
        log_line_str(&line, "problem", problem);
    log_line_end(daemon->log, &line);
}

static void log_config_lines(const struct daemon *daemon, enum log_level level, const char *event,
                             const char *lines)
{
    struct slice rest = slice_of(lines);
    while (rest.len > 0) {
        struct slice line;
        rest = slice_cut(rest, '\n', &line);
        log_config(daemon, level, event, line);
    }
}

/* What this process has opened by it stays open. */
static void log_needed_restarts(const struct daemon *daemon, const struct config *config)
{
    for (enum option_id id = 0; id < OPTION_COUNT; id++)
        if (option_needs_restart(option_at(id), daemon->options->config, config))
            log_config(daemon, LOG_LEVEL_WARN, "config_needs_restart", option_at(id)->name);
}

/* Makes the first `n` parts apply what they prepared for `config`; NULL: they discard it. */
static void reload_parts(struct daemon *daemon, size_t n, const struct config *config)
{
    for (size_t i = 0; i < n; i++)
        if (daemon->started[i].part->reload)
            daemon->started[i].part->reload(daemon->started[i].self, config);
}

/* A gateway starts and ends with the process. */
static bool stays_what_it_is(const struct daemon *daemon, const struct config *config,
                             char **ret_problem)
{
    static const char problem[] = "upstream: added or removed since the start (restart pawl)";
    if (config_has_gateway(config) == config_has_gateway(daemon->options->config))
        return true;
    *ret_problem = mem_copy(problem, strlen(problem));
    return false;
}

static bool apply_config(struct daemon *daemon, const struct config *config)
{
    size_t n = atomic_load(&daemon->n_started), ready = 0;
    char *problem MEM_AUTO = NULL;
    bool can = stays_what_it_is(daemon, config, &problem) && limits_fit(config, &problem);
    while (can && ready < n) {
        const struct daemon_part *at = &daemon->started[ready];
        can = !at->part->prepare || at->part->prepare(at->self, daemon, config, &problem);
        ready += can;
    }
    can = can && check_adopt_identities(daemon->store, config, daemon->config, &problem);
    reload_parts(daemon, ready, can ? config : NULL);
    if (!can)
        log_config(daemon, LOG_LEVEL_ERROR, "config_refused",
                   slice_of(problem ? problem : "out of memory"));
    return can;
}

static void log_warning(void *daemon, struct slice line)
{
    log_config(daemon, LOG_LEVEL_WARN, "config_warning", line);
}

static void log_note(void *daemon, struct slice line)
{
    log_config(daemon, LOG_LEVEL_INFO, "config_note", line);
}

/* The config that is in force from now on, or NULL: it was refused. */
static struct config *reload_config(struct daemon *daemon)
{
    char *complaints MEM_AUTO = NULL;
    struct config_sections sections = part_sections(daemon->options->parts);
    struct config *config = config_read(daemon->options->config_path, &sections, &complaints);
    if (!config) {
        log_config_lines(daemon, LOG_LEVEL_ERROR, "config_refused",
                         complaints ? complaints : "out of memory");
        return NULL;
    }
    log_config_lines(daemon, LOG_LEVEL_WARN, "config_warning", complaints);
    if (!apply_config(daemon, config)) {
        config_free(config);
        return NULL;
    }
    log_needed_restarts(daemon, config);
    check_rules_known(daemon->store, config, log_warning, daemon);
    moved_report_paths(daemon->config, config, log_warning, daemon);
    moved_report_targets(daemon->config, config, log_note, daemon);
    log_config(daemon, LOG_LEVEL_INFO, "config_reloaded", slice_of(NULL));
    return config;
}

static void reload_daemon(struct daemon *daemon)
{
    CHECK(daemon->config == (daemon->reloaded ? daemon->reloaded : daemon->options->config));
    notify_manager("RELOADING=1");
    struct config *config = reload_config(daemon);
    metrics_reloaded(daemon->metrics, config);
    if (config) {
        config_free(daemon->reloaded);
        daemon->reloaded = config;
        daemon->config = config;
    }
    notify_manager("READY=1");
}

static struct config_look look_at_config(const struct daemon *daemon)
{
    struct stat info;
    struct config_look file = {.inode = 0};
    if (stat(daemon->options->config_path, &info) == 0)
        file = (struct config_look){info.st_dev, info.st_ino, info.st_size, info.st_mtim};
    return file;
}

static bool is_same_look(const struct config_look *one, const struct config_look *other)
{
    return one->device == other->device && one->inode == other->inode && one->size == other->size &&
           one->at.tv_sec == other->at.tv_sec && one->at.tv_nsec == other->at.tv_nsec;
}

/* Whether the config is to be read again: it is not what was read last, and has been the same for a
 * second at least, so that nobody is in the midst of writing it. What was refused is not read again
 * before it changes. */
static bool find_other_config(const struct daemon *daemon, struct config_watch *watch)
{
    int64_t now = clock_boot_us(), span = daemon->config->reload_us;
    if (span == 0 || (now < watch->looked_at + span && !watch->is_other))
        return false;
    struct config_look file = look_at_config(daemon);
    bool is_still = is_same_look(&file, &watch->seen);
    watch->looked_at = now;
    watch->seen = file;
    watch->is_other = file.inode != 0 && !is_same_look(&file, &watch->read);
    return watch->is_other && is_still;
}

/* Until SIGTERM or SIGINT. */
static void serve_on(struct daemon *daemon, struct config_watch *watch)
{
    int signal = 0;
    while (signal == 0 || signal == SIGHUP) {
        if (signal == SIGHUP || find_other_config(daemon, watch)) {
            watch->read = look_at_config(daemon);
            watch->is_other = false;
            reload_daemon(daemon);
        }
        watch_parts(daemon);
        signal = next_signal(daemon, -1, clock_after(clock_boot_us(), WATCH_US));
    }
}

/* As next_signal, but for SIGHUP: nothing is reloaded any more. */
static int wait_while_leaving(const struct daemon *daemon, int other, int64_t deadline_us)
{
    int signal = SIGHUP;
    while (signal == SIGHUP)
        signal = next_signal(daemon, other, deadline_us);
    return signal;
}

static void log_stopping(const struct daemon *daemon)
{
    struct log_line line;
    log_line_start(&line, LOG_LEVEL_INFO, "stopping");
    log_line_i64(&line, "drain_delay_ms", daemon->config->drain_delay_us / CLOCK_US_PER_MS);
    log_line_i64(&line, "drain_ms", daemon->config->drain_us / CLOCK_US_PER_MS);
    log_line_end(daemon->log, &line);
}

/* All begin before any is waited for: what one is still at keeps no other from draining. False: not
 * until `deadline_us`, or a second signal came. */
static bool drain_parts(struct daemon *daemon, int64_t deadline_us)
{
    int ended[PARTS_MAX];
    size_t n = 0;
    for (size_t i = daemon->n_started; i-- > 0;)
        if (daemon->started[i].part->drain)
            ended[n++] = daemon->started[i].part->drain(daemon->started[i].self);
    for (size_t i = 0; i < n; i++)
        if (wait_while_leaving(daemon, ended[i], deadline_us) != OTHER_READY)
            return false;
    return true;
}

/* True: everything ended. False: the time for it is over, or a second signal came. */
static bool drain_daemon(struct daemon *daemon)
{
    int64_t drain_at = clock_after(clock_boot_us(), daemon->config->drain_delay_us);
    atomic_store(&daemon->leaving, true);
    log_stopping(daemon);
    notify_manager("STOPPING=1");
    if (wait_while_leaving(daemon, -1, drain_at) != 0)
        return false;
    int64_t deadline = clock_after(clock_boot_us(), daemon->config->drain_us);
    CRASH_POINT(before_drain);
    if (!drain_parts(daemon, deadline))
        return false;
    CRASH_POINT(after_drain);
    return true;
}

static int complain_of_start(char *problem, int code)
{
    fprintf(stderr, "pawl serve: %s\n", problem ? problem : "out of memory");
    mem_free(problem);
    return code;
}

static bool start_daemon(struct daemon *daemon, char **ret_problem)
{
    daemon->log = log_new(STDERR_FILENO, LOG_RING_BYTES);
    daemon->metrics = metrics_new();
    daemon->workers = workers_new(WORKER_THREADS, WORKER_QUEUE);
    return daemon->log && daemon->metrics && daemon->workers && start_parts(daemon, ret_problem);
}

static int serve_until_signal(struct daemon *daemon, struct config_watch *watch)
{
    char *problem = NULL;
    if (!limits_fit(daemon->config, &problem))
        return complain_of_start(problem, EXIT_USAGE);
    if (!start_daemon(daemon, &problem))
        return complain_of_start(problem, EXIT_UNAVAILABLE);
    say_ready(daemon);
    say_weaker(daemon);
    check_rules_known(daemon->store, daemon->config, daemon_say_warning, NULL);
    check_lanes_served(daemon->store, daemon->config, daemon_say_warning, NULL);
    daemon_say_notes(daemon->config);
    notify_manager("READY=1");
    serve_on(daemon, watch);
    bool drained = drain_daemon(daemon);
    int code = store_is_dead(daemon->store) ? EXIT_FAIL_STOP : EXIT_DONE;
    if (drained)
        return code;
    /* Exchanges still run: their records stay pending, and the next start settles them. */
    log_flush(daemon->log);
    _exit(code);
}

int daemon_run(const struct daemon_options *options)
{
    struct daemon daemon = {.options = options, .config = options->config};
    daemon.signals = block_signals();
    umask(077);
    fiber_install_guard_handler();
    struct config_watch watch = {.read = look_at_config(&daemon)};
    int code = serve_until_signal(&daemon, &watch);
    stop_parts(&daemon);
    log_free(daemon.log);
    metrics_free(daemon.metrics);
    config_free(daemon.reloaded);
    close(daemon.signals);
    return code;
}
