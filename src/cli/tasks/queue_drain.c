/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl queue drain`: the courier in the foreground, with the caller's network and credentials. */
#include "base/check.h"
#include "base/crypto/random.h"
#include "base/mem.h"
#include "base/thread.h"
#include "cli/lib/request.h"
#include "cli/tasks/queue.h"
#include "client/queue_send.h"
#include "client/request.h"
#include "fiber/fiber.h"
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define IN_FLIGHT_DEFAULT 4
#define ORIGINS_MOST 64
#define FIBERS_BESIDE 16 /* those of deliveries are as many as may be under way */
#define PROGRESS_US (200 * CLOCK_US_PER_MS)
#define CONNECT_US (5 * CLOCK_US_PER_S)
#define WATCH_US (500 * CLOCK_US_PER_MS) /* between two looks at files of headers */
#define ARENA_MAX ((size_t)64 * 1024 * 1024)

#define MAX_TIME_US (30 * CLOCK_US_PER_S)

struct drain_options {
    struct queue_session session;
    struct client_route route;
    bool only_new; /* the exit code says nothing of what was dead before */
    bool once;
    bool follow;
    size_t in_flight;    /* 0: not given */
    int64_t max_time_us; /* of an attempt */
};

struct drain {
    struct drain_options *options;
    struct queue_sender sender;
    const struct courier_kind *kinds[1];
    struct courier *courier;
    struct loop *loop;
    struct thread thread;
    enum courier_mode mode;
    enum courier_end end;
    struct courier_counts counts;
    bool has_ended;
};

/* ---- the loop's thread ---- */

static bool is_paused_task(const struct store_task *stored, const struct store_found *lanes)
{
    for (size_t i = 0; i < lanes->n; i++) {
        const struct store_lane *said = (const struct store_lane *)lanes->rows[i];
        if (said->state == STORE_LANE_PAUSED && slice_eq(said->kind, stored->kind) &&
            (said->ord.len > 0 ? slice_eq(said->ord, stored->ord)
                               : slice_eq(said->lane, stored->lane)))
            return true;
    }
    return false;
}

/* By a person, by the one before it, or for want of credentials. */
static bool is_held_up_task(const struct store_task *stored, const struct store_found *lanes,
                            int64_t now)
{
    bool lacks_credentials =
        store_task_reason(stored) == TASK_REASON_CREDENTIALS && stored->task.due_at > now;
    return stored->task.due_at == CLOCK_NEVER || lacks_credentials || is_paused_task(stored, lanes);
}

static void print_progress(const struct drain *drain)
{
    struct courier_counts counts = courier_count(drain->courier);
    fprintf(stderr, "\r%llu done, %llu failed, %llu retries, %d being sent ",
            (unsigned long long)counts.done, (unsigned long long)counts.dead,
            (unsigned long long)counts.retries, counts.lanes.in_flight);
    fflush(stderr);
}

static void show_drain_progress(void *argument)
{
    struct drain *drain = argument;
    while (!drain->has_ended) {
        print_progress(drain);
        fiber_sleep_until(clock_after(clock_boot_us(), PROGRESS_US));
    }
    fputs("\r\033[K", stderr);
}

/* Whether nothing goes on before somebody renews credentials, or resumes what is paused. */
static bool is_all_held_up(const struct drain *drain)
{
    struct tasks_source source = drain->options->session.source;
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct tasks_wanted wanted = {.has_state = true, .state = TASK_WAITING};
    struct store_found paused = {0};
    source.parker = fiber_parker();
    if (courier_count(drain->courier).lanes.in_flight > 0 ||
        tasks_lanes(&source, &arena, &paused) != STORE_DONE)
        return false;
    do {
        TASKS_PAGE_AUTO struct tasks_page page = {0};
        if (tasks_list(&source, &wanted, &page) != STORE_DONE)
            return false;
        for (size_t i = 0; i < page.n; i++)
            if (!is_held_up_task(page.rows[i].stored, &paused,
                                 store_now(drain->options->session.store)))
                return false;
        wanted.after = page.next;
    } while (wanted.after > 0);
    return true;
}

/* What waits for credentials is due when the drain begins, and when they are taken again. */
static void watch_credentials(void *argument)
{
    struct drain *drain = argument;
    struct credentials *credentials = drain->sender.credentials;
    bool wakes = false;
    while (!drain->has_ended) {
        wakes = credentials_look(credentials) || wakes;
        bool is_woken =
            wakes && credentials_wake(drain->options->session.store, fiber_parker()) == STORE_DONE;
        if (is_woken)
            courier_wake(drain->courier);
        bool ends = drain->mode == COURIER_UNTIL_EMPTY && !wakes && credentials_any(credentials);
        if (ends && is_all_held_up(drain))
            courier_drain(drain->courier);
        wakes = wakes && !is_woken;
        fiber_sleep_until(clock_after(clock_boot_us(), WATCH_US));
    }
}

static void run_drain_courier(void *argument)
{
    struct drain *drain = argument;
    (void)credentials_wake(drain->options->session.store, fiber_parker());
    drain->end = courier_run(drain->courier, drain->mode);
    drain->counts = courier_count(drain->courier);
    drain->has_ended = true;
}

static void run_drain_loop(void *argument)
{
    struct drain *drain = argument;
    bool shows = isatty(STDERR_FILENO);
    drain->end = COURIER_DRAINED;
    if (fiber_spawn(drain->loop, "courier", run_drain_courier, drain) &&
        fiber_spawn(drain->loop, "credentials", watch_credentials, drain) &&
        (!shows || fiber_spawn(drain->loop, "progress", show_drain_progress, drain))) {
        loop_stop(drain->loop);
        loop_run(drain->loop);
    }
    kill(getpid(), SIGUSR1);
}

/* ---- the main thread ---- */

static sigset_t blocked_signals(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGUSR1); /* run_drain_loop: it has ended */
    return signals;
}

/* The first signal lets what is under way end, the second one does not. */
static void wait_for_end(struct drain *drain, const sigset_t *signals)
{
    int signal, asked = 0;
    while (sigwait(signals, &signal) == 0 && signal != SIGUSR1) {
        if (asked++ > 0)
            _exit(EXIT_TRY_AGAIN);
        courier_drain(drain->courier);
    }
    thread_join(&drain->thread);
}

/* What is there when the drain ends, by state. */
static int count_states(struct queue_session *session, size_t ret_n[TASK_STATE_COUNT])
{
    static const enum task_state states[] = {TASK_WAITING, TASK_SENDING, TASK_DEAD};
    int code = EXIT_DONE;
    for (size_t i = 0; i < sizeof states / sizeof *states && code == EXIT_DONE; i++)
        code = queue_complain(session, tasks_count(&session->source, states[i], &ret_n[states[i]]));
    return code;
}

static void say_credentials(const struct drain *drain)
{
    BUF_AUTO struct buf lines = buf_make(SIZE_MAX);
    credentials_describe(drain->sender.credentials, &lines);
    for (struct slice rest = buf_slice(&lines), line;
         rest.len > 0 && slice_next(&rest, '\n', &line);)
        fprintf(stderr, "pawl %s: %.*s\n", drain->options->session.command, SLICE_ARG(line));
}

static int report_drain(struct drain *drain)
{
    struct drain_options *options = drain->options;
    struct queue_session *session = &options->session;
    const struct courier_counts *counts = &drain->counts;
    size_t n[TASK_STATE_COUNT] = {0};
    if (drain->end == COURIER_STORE_DEAD)
        return queue_complain(session, STORE_DEAD);
    int code = count_states(session, n);
    bool left = n[TASK_WAITING] + n[TASK_SENDING] > 0;
    enum store_status closed = store_closed(session->store); /* as those looks found it */
    if (code == EXIT_DONE && closed == STORE_WENT_BACK)
        code = queue_complain(session, closed);
    if (code != EXIT_DONE)
        return code;
    printf("%llu done, %llu failed%s\n", (unsigned long long)counts->done,
           (unsigned long long)counts->dead, left ? "; some are left" : "");
    if (n[TASK_DEAD] > counts->dead)
        fprintf(stderr, "pawl %s: dead: %zu; see `pawl queue list --dead`\n", session->command,
                n[TASK_DEAD]);
    say_credentials(drain);
    if (left && closed != STORE_DONE)
        (void)queue_complain(session, closed);
    bool failed = counts->dead > 0 || (!options->only_new && n[TASK_DEAD] > 0);
    return failed ? EXIT_FINAL_ERROR : left ? EXIT_TRY_AGAIN : EXIT_DONE;
}

/* ---- what it takes ---- */

static int fail_drain(const struct queue_session *session)
{
    return command_failed(session->command, EXIT_UNAVAILABLE, "out of memory");
}

static int connect_sender(struct drain *drain)
{
    struct drain_options *options = drain->options;
    struct queue_session *session = &options->session;
    BUF_AUTO struct buf problem = buf_make(SIZE_MAX);
    struct client_route *route = &options->route;
    size_t at_a_time = options->in_flight > 0 ? options->in_flight : IN_FLIGHT_DEFAULT;
    route->max = ORIGINS_MOST;
    route->max_idle = at_a_time;
    drain->sender = (struct queue_sender){.store = session->store,
                                          .engine = engine_new(session->store, 0),
                                          .origins = client_connect(route, NULL, &problem),
                                          .credentials = credentials_new(),
                                          .timeout_us = options->max_time_us,
                                          .connect_us = CONNECT_US,
                                          .in_flight = (int)at_a_time};
    queue_sender_init(&drain->sender);
    if (!drain->sender.origins)
        return command_failed(session->command, EXIT_USAGE, "%.*s", SLICE_ARG(buf_slice(&problem)));
    bool has_memory = drain->sender.engine && drain->sender.credentials;
    return has_memory ? EXIT_DONE : fail_drain(session);
}

static int make_courier(struct drain *drain)
{
    struct drain_options *options = drain->options;
    drain->kinds[0] = &drain->sender.kind;
    struct courier_config config = {.store = options->session.store,
                                    .kinds = drain->kinds,
                                    .n_kinds = COUNT_OF(drain->kinds),
                                    .overall = (int)options->in_flight,
                                    .owner = (int64_t)(random_u64() >> 1 | 1)};
    drain->mode = options->follow ? COURIER_FOLLOW
                  : options->once ? COURIER_ONCE
                                  : COURIER_UNTIL_EMPTY;
    drain->courier = courier_new(&config);
    size_t fibers = options->in_flight > 0 ? options->in_flight : LANES_OVERALL;
    drain->loop = loop_new(fibers * 2 + FIBERS_BESIDE);
    return drain->courier && drain->loop ? EXIT_DONE : fail_drain(&options->session);
}

static void free_drain(struct drain *drain)
{
    courier_free(drain->courier);
    http_origins_free(drain->sender.origins);
    credentials_free(drain->sender.credentials);
    loop_free(drain->loop);
    engine_free(drain->sender.engine);
    mem_free(drain);
}

static int run_drain(struct drain *drain)
{
    sigset_t signals = blocked_signals();
    sigprocmask(SIG_BLOCK, &signals, NULL);
    int code = queue_open(&drain->options->session, STORE_DRAINER, true);
    if (code == EXIT_DONE)
        code = connect_sender(drain);
    if (code == EXIT_DONE)
        code = make_courier(drain);
    if (code != EXIT_DONE)
        return code;
    if (!thread_start(&drain->thread, "pawl-loop", run_drain_loop, drain))
        return fail_drain(&drain->options->session);
    wait_for_end(drain, &signals);
    return report_drain(drain);
}

static int drain_queue(void *given)
{
    struct drain_options *options = given;
    CHECK(options->max_time_us > 0);
    struct drain *drain = mem_zalloc(1, sizeof *drain);
    if (options->once && options->follow)
        return command_misused(options->session.command, "--once and --follow exclude each other");
    if (!drain)
        return fail_drain(&options->session);
    drain->options = options;
    int code = run_drain(drain);
    free_drain(drain);
    return code;
}

/* ---- the row ---- */

#define OPTIONS struct drain_options
const struct command command_queue_drain = {
    .name = "queue drain",
    .summary = "send what is queued, until nothing waits",
    .synopsis = "[--once | --follow] [-j N] [OPTIONS]",
    .about = "Sends the operations of the queue, each under its key, those of a group in order, "
             "and tries again what may yet be done, by the profile `queue` (see `pawl backoff "
             "queue`). Without a network it costs no attempt. SIGTERM or SIGINT lets what is being "
             "sent end; on a second signal it exits at once. It may be killed at any moment: the "
             "next drain goes on under the same keys. On a file there is one drain at a time, on "
             "PostgreSQL they share the work.",
    .flags = FLAGS(
        SWITCH(once, "once", 0, "until nothing is due now"),
        SWITCH(follow, "follow", 0, "until it is stopped by a signal"),
        SWITCH(only_new, "new", 0, "the exit code says nothing of what had failed finally before"),
        FLAG(in_flight, "jobs", 'j', "N", INT(1, 256),
             "at most N operations at a time (default 4 to one target, 256 in all)"),
        FLAG_MAX_TIME(max_time_us), ROUTE_FLAGS(route), FLAG_STORE(session.store_path)),
    .exits = {{EXIT_FINAL_ERROR,
               "some are dead, also from before (--new): `pawl queue list --dead`"},
              {EXIT_USAGE, NULL},
              {NO_STORE},
              {EXIT_FAIL_STOP, NULL},
              {EXIT_TRY_AGAIN, "some are left, or another drain runs"}},
    ACTS(queue_run, drain_queue, .max_time_us = MAX_TIME_US),
};
