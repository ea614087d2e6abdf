/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process over scripted parts: in which order it starts, reloads, drains and ends them, in a
 * child, which writes each call down. Of the product's parts only what they all need is there: a
 * store, the toy's.
 */
#include "base/mem.h"
#include "daemon/daemon.h"
#include "store/store.h"
#include "toy/toy.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define CONFIG "tenant: none\nlisten: 127.0.0.1:1\nupstream: http://127.0.0.1:2\n"
#define OTHER CONFIG "drain: 20s\n"
#define NO_CONFIG "listen: nowhere\n"
#define CALLS_MAX ((size_t)4096)

/* What happens at each watch of the last part: a signal, before which the config may change. */
struct moment {
    int signal;
    const char *config; /* NULL: as it was */
};

static struct script {
    const char *refuses; /* the part that cannot start, */
    const char *wont;    /* that cannot serve by another config, */
    const char *goes_on; /* that never ends what runs */
    bool is_impatient;   /* a second signal comes during the drain */
    struct moment moments[4];
} script;

static int calls[2]; /* a pipe: the child's calls */
static char path[] = "/tmp/pawl-test-daemon-XXXXXX";
static size_t n_moments;

static void note(const char *call, const char *name)
{
    dprintf(calls[1], "%s %s\n", call, name);
}

static void write_config(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void do_next(void)
{
    const struct moment *moment = &script.moments[n_moments++];
    if (moment->config)
        write_config(moment->config);
    kill(getpid(), moment->signal);
}

static int start_drain(const char *name)
{
    note("drain", name);
    if (script.is_impatient)
        kill(getpid(), SIGTERM);
    return eventfd(script.goes_on && strcmp(script.goes_on, name) == 0 ? 0 : 1, EFD_CLOEXEC);
}

/* ---- the parts ---- */

static struct daemon *process;

static bool start_one(const char *name, char **ret_problem)
{
    (void)ret_problem;
    note("start", name);
    return !script.refuses || strcmp(script.refuses, name) != 0;
}

static bool start_store(void **self, struct daemon *daemon, char **ret_problem)
{
    struct store_config config = store_config_default();
    (void)self;
    process = daemon;
    return store_open_over(&config, toy_open(NULL), &daemon->store, ret_problem) == STORE_OPENED &&
           start_one("store", ret_problem);
}

static void free_store(void *self)
{
    (void)self;
    note("free", "store");
    store_close(process->store);
}

static void watch_last(void *self)
{
    (void)self;
    note(process->config == process->options->config ? "watch old" : "watch new", "last");
    do_next();
}

#define SCRIPTED(name)                                                                             \
    static bool start_##name(void **self, struct daemon *daemon, char **ret_problem)               \
    {                                                                                              \
        (void)self;                                                                                \
        (void)daemon;                                                                              \
        return start_one(#name, ret_problem);                                                      \
    }                                                                                              \
    static bool prepare_##name(void *self, const struct daemon *daemon,                            \
                               const struct config *config, char **ret_problem)                    \
    {                                                                                              \
        (void)self;                                                                                \
        (void)config;                                                                              \
        (void)ret_problem;                                                                         \
        assert_ptr_not_equal(daemon->config, config);                                              \
        note("prepare", #name);                                                                    \
        return !script.wont || strcmp(script.wont, #name) != 0;                                    \
    }                                                                                              \
    static void reload_##name(void *self, const struct config *config)                             \
    {                                                                                              \
        (void)self;                                                                                \
        note(config ? "reload" : "forget", #name);                                                 \
    }                                                                                              \
    static int drain_##name(void *self)                                                            \
    {                                                                                              \
        (void)self;                                                                                \
        return start_drain(#name);                                                                 \
    }                                                                                              \
    static void stop_##name(void *self)                                                            \
    {                                                                                              \
        (void)self;                                                                                \
        note("stop", #name);                                                                       \
    }                                                                                              \
    static void free_##name(void *self)                                                            \
    {                                                                                              \
        (void)self;                                                                                \
        note("free", #name);                                                                       \
    }
SCRIPTED(first)
SCRIPTED(last)
#undef SCRIPTED

static bool is_unwanted(const struct config *config)
{
    (void)config;
    return false;
}

static const struct part store_only = {.name = "store", .start = start_store, .free = free_store};
static const struct part absent = {.name = "absent", .is_wanted = is_unwanted};
static const struct part first = {.name = "first",
                                  .start = start_first,
                                  .prepare = prepare_first,
                                  .reload = reload_first,
                                  .drain = drain_first,
                                  .stop = stop_first,
                                  .free = free_first};
static const struct part last = {.name = "last",
                                 .start = start_last,
                                 .prepare = prepare_last,
                                 .reload = reload_last,
                                 .watch = watch_last,
                                 .drain = drain_last,
                                 .stop = stop_last,
                                 .free = free_last};
static const struct part *const parts[] = {&store_only, &first, &absent, &last, NULL};

/* ---- the child ---- */

static void run_daemon(void)
{
    const struct config_sections sections = part_sections(parts);
    char *complaints = NULL;
    alarm(60);
    dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
    struct config *config = config_read(path, &sections, &complaints);
    if (!config)
        abort();
    const struct daemon_options options = {.parts = parts, .config_path = path, .config = config};
    int code = daemon_run(&options);
    config_free(config);
    mem_free(complaints);
    exit(code);
}

/* Its exit code, and its calls in `ret_calls`. */
static int run_child(char ret_calls[CALLS_MAX])
{
    int status = 0;
    size_t n = 0;
    ssize_t got;
    assert_int_equal(pipe2(calls, O_CLOEXEC), 0);
    write_config(CONFIG);
    pid_t child = fork();
    if (child == 0)
        run_daemon();
    close(calls[1]);
    while ((got = read(calls[0], ret_calls + n, CALLS_MAX - 1 - n)) > 0)
        n += (size_t)got;
    ret_calls[n] = '\0';
    close(calls[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void expect_calls(const struct script *given, int code, const char *expected)
{
    char got[CALLS_MAX];
    script = *given;
    int exited = run_child(got);
    assert_string_equal(got, expected);
    assert_int_equal(exited, code);
}

#define STARTED "start store\nstart first\nstart last\n"
#define DRAINED "drain last\ndrain first\n"
#define ENDED "stop last\nstop first\nfree last\nfree first\nfree store\n"

/* ---- tests ---- */

static void parts_end_in_reverse_and_none_is_freed_before_all_have_stopped(void **state)
{
    (void)state;
    expect_calls(&(struct script){.moments = {{SIGTERM, NULL}}}, EXIT_DONE,
                 STARTED "watch old last\n" DRAINED ENDED);
    expect_calls(&(struct script){.moments = {{SIGINT, NULL}}}, EXIT_DONE,
                 STARTED "watch old last\n" DRAINED ENDED);
}

static void where_one_cannot_start_those_before_it_end(void **state)
{
    (void)state;
    expect_calls(&(struct script){.refuses = "last"}, EXIT_UNAVAILABLE,
                 STARTED "stop first\nfree first\nfree store\n");
    expect_calls(&(struct script){.refuses = "first"}, EXIT_UNAVAILABLE,
                 "start store\nstart first\nfree store\n");
}

static void all_prepare_before_any_reloads(void **state)
{
    (void)state;
    expect_calls(&(struct script){.moments = {{SIGHUP, OTHER}, {SIGTERM, NULL}}}, EXIT_DONE,
                 STARTED "watch old last\n"
                         "prepare first\nprepare last\nreload first\nreload last\n"
                         "watch new last\n" DRAINED ENDED);
}

static void a_refused_reload_changes_nothing(void **state)
{
    (void)state;
    expect_calls(&(struct script){.wont = "last", .moments = {{SIGHUP, OTHER}, {SIGTERM, NULL}}},
                 EXIT_DONE,
                 STARTED "watch old last\n"
                         "prepare first\nprepare last\nforget first\n"
                         "watch old last\n" DRAINED ENDED);
    expect_calls(&(struct script){.wont = "first", .moments = {{SIGHUP, OTHER}, {SIGTERM, NULL}}},
                 EXIT_DONE,
                 STARTED "watch old last\nprepare first\nwatch old last\n" DRAINED ENDED);
    expect_calls(&(struct script){.moments = {{SIGHUP, NO_CONFIG}, {SIGTERM, NULL}}}, EXIT_DONE,
                 STARTED "watch old last\nwatch old last\n" DRAINED ENDED);
    expect_calls(
        &(struct script){.moments = {{SIGHUP, NO_CONFIG}, {SIGHUP, OTHER}, {SIGTERM, NULL}}},
        EXIT_DONE,
        STARTED "watch old last\nwatch old last\n"
                "prepare first\nprepare last\nreload first\nreload last\n"
                "watch new last\n" DRAINED ENDED);
}

static void a_second_signal_leaves_what_still_runs(void **state)
{
    (void)state;
    expect_calls(
        &(struct script){.goes_on = "first", .is_impatient = true, .moments = {{SIGTERM, NULL}}},
        EXIT_DONE, STARTED "watch old last\n" DRAINED);
}

static int make_file(void **state)
{
    (void)state;
    int file = mkstemp(path);
    close(file);
    return file < 0;
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_end_in_reverse_and_none_is_freed_before_all_have_stopped),
        cmocka_unit_test(where_one_cannot_start_those_before_it_end),
        cmocka_unit_test(all_prepare_before_any_reloads),
        cmocka_unit_test(a_refused_reload_changes_nothing),
        cmocka_unit_test(a_second_signal_leaves_what_still_runs),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
