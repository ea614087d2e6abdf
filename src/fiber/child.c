/* SPDX-License-Identifier: Apache-2.0 */
#include "fiber/child.h"

#include "base/check.h"
#include "base/clock.h"
#include "fiber/fiber_priv.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define READ_MAX ((size_t)16 * 1024)
#define HEAR_MAX ((size_t)4 * 1024) /* on the fiber's stack */
#define PROBLEM_MAX ((size_t)4096)
#define DRAINED_MOST ((size_t)256 * 1024) /* what pipes hold that the child has left */
#define RETRY_US (10 * CLOCK_US_PER_MS)

enum stream { INPUT, OUTPUT, ERROR, STREAMS };

enum state { RUNNING, ENDING, KILLED, EXITED, OVER };

struct child {
    const struct child_spec *spec;
    struct child_result *result;
    enum state state;
    pid_t pid;      /* and its group's; reaped last, so that it stays theirs */
    int64_t due_us; /* of the present state */
    struct fiber_io process;
    struct fiber_io streams[STREAMS]; /* this end of its pipes; closed: ended, or not piped */
    int theirs[STREAMS];              /* the child's ends until it has started, or -1 */
    struct slice unsent;
    size_t drained; /* bytes for the listener since the child has exited */
};

/* Says what is wrong; returns `error`. */
static int fail_spawn(char **ret_problem, const char *what, const char *name, int error)
{
    struct buf text = buf_make(PROBLEM_MAX);
    buf_printf(&text, "cannot %s %s: %s", what, name, strerror(error));
    *ret_problem = buf_take(&text);
    buf_fini(&text);
    return error;
}

/* ---- start ---- */

/* The same descriptor above those of the standard streams, which the child's are made over; -1 and
 * errno: there is no other. */
static int raise_above_streams(int fd)
{
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    int raised = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    close(fd);
    return raised;
}

static bool open_pipe(struct child *child, enum stream stream)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    bool child_reads = stream == INPUT;
    child->theirs[stream] = raise_above_streams(ends[!child_reads]);
    int ours = raise_above_streams(ends[child_reads]);
    if (ours < 0 || child->theirs[stream] < 0 || !fiber_io_open(&child->streams[stream], ours)) {
        int error = errno;
        if (ours >= 0)
            close(ours);
        errno = error;
        return false;
    }
    return true;
}

static bool open_pipes(struct child *child)
{
    bool keeps = child->spec->output_max > 0 || child->spec->listener;
    return (child->spec->input != CHILD_INPUT_BYTES || open_pipe(child, INPUT)) &&
           (!keeps || (open_pipe(child, OUTPUT) && open_pipe(child, ERROR)));
}

static void close_theirs(struct child *child)
{
    for (int i = 0; i < STREAMS; i++)
        if (child->theirs[i] >= 0)
            close(child->theirs[i]);
}

static void close_ours(struct child *child)
{
    for (int i = 0; i < STREAMS; i++)
        fiber_io_close(&child->streams[i]);
    fiber_io_close(&child->process);
}

/* Inherited, an ignored SIGCHLD would let the kernel throw exit statuses away. */
static void keep_exit_statuses(void)
{
    struct sigaction now;
    CHECK(sigaction(SIGCHLD, NULL, &now) == 0);
    if (now.sa_handler == SIG_IGN || (now.sa_flags & SA_NOCLDWAIT) != 0)
        signal(SIGCHLD, SIG_DFL);
}

/* `folder` < 0: this process's. 0 or an error's number. */
static int add_actions(const struct child *child, int folder, posix_spawn_file_actions_t *actions)
{
    int error = folder < 0 ? 0 : posix_spawn_file_actions_addfchdir_np(actions, folder);
    if (error == 0 && child->spec->input == CHILD_INPUT_NONE)
        error = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    for (int i = 0; i < STREAMS && error == 0; i++)
        if (child->theirs[i] >= 0)
            error = posix_spawn_file_actions_adddup2(actions, child->theirs[i], i);
    return error;
}

static const char *program_of(const struct child_spec *spec)
{
    return spec->program ? spec->program : spec->argv[0];
}

/* All but what this process was told to ignore when it was started, as nohup and shells do. */
static sigset_t reset_signals(void)
{
    static const int inherited[] = {SIGHUP, SIGINT, SIGQUIT};
    struct sigaction now;
    sigset_t set;
    sigfillset(&set);
    for (size_t i = 0; i < sizeof inherited / sizeof *inherited; i++)
        if (sigaction(inherited[i], NULL, &now) == 0 && now.sa_handler == SIG_IGN)
            sigdelset(&set, inherited[i]);
    return set;
}

static int spawn_in_folder(struct child *child, int folder)
{
    static const int leads[] = {[CHILD_GROUP_OWN] = POSIX_SPAWN_SETPGROUP,
                                [CHILD_GROUP_SHARED] = 0,
                                [CHILD_GROUP_SESSION] = POSIX_SPAWN_SETSID};
    const struct child_spec *spec = child->spec;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, reset = reset_signals();
    CHECK(posix_spawn_file_actions_init(&actions) == 0 && posix_spawnattr_init(&attributes) == 0);
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &reset);
    posix_spawnattr_setflags(
        &attributes, (short)(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | leads[spec->group]));
    int error = add_actions(child, folder, &actions);
    char *const *environment = (char *const *)(uintptr_t)spec->environment;
    if (error == 0)
        error =
            posix_spawnp(&child->pid, program_of(spec), &actions, &attributes,
                         (char *const *)(uintptr_t)spec->argv, environment ? environment : environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* 0 or an error's number. */
static int start_child(struct child *child, char **ret_problem)
{
    const struct child_spec *spec = child->spec;
    int folder = -1;
    if (spec->folder) {
        folder = raise_above_streams(open(spec->folder, O_PATH | O_DIRECTORY | O_CLOEXEC));
        if (folder < 0)
            return fail_spawn(ret_problem, "enter", spec->folder, errno);
    }
    int error = open_pipes(child) ? spawn_in_folder(child, folder) : errno;
    if (folder >= 0)
        close(folder);
    close_theirs(child);
    if (error == 0)
        return 0;
    close_ours(child);
    return fail_spawn(ret_problem, "run", program_of(spec), error);
}

/* It runs: that there is no descriptor left to watch it by may not be reported as "not started". */
static void watch_process(struct child *child)
{
    for (;;) {
        int fd = pidfd_open(child->pid, 0);
        if (fd >= 0 && fiber_io_open(&child->process, fd))
            return;
        CHECK(fd >= 0 || errno == EMFILE || errno == ENFILE || errno == ENOMEM);
        if (fd >= 0)
            close(fd);
        fiber_sleep_until(clock_after(clock_boot_us(), RETRY_US));
    }
}

/* ---- while it runs ---- */

static void send_input(struct child *child)
{
    struct fiber_io *io = &child->streams[INPUT];
    struct iovec part = {(char *)(uintptr_t)child->unsent.at, child->unsent.len};
    size_t sent = 0;
    if (io->fd < 0 || !io->writable)
        return;
    int failed = fiber_write(io, &part, 1, 0, &sent);
    if (sent > 0)
        child->unsent = slice_make(child->unsent.at + sent, child->unsent.len - sent);
    if (failed != -ETIMEDOUT)
        fiber_io_close(io); /* all of it, or its reader has closed */
}

/* Whether its listener takes more. What an exited child has left in its pipes is taken whoever
 * stands still: how it ended is not to wait for that. */
static bool listener_takes_more(const struct child *child)
{
    struct child_listener *listener = child->spec->listener;
    bool is_left = child->state == EXITED && child->drained < DRAINED_MOST;
    return !listener || listener->ask_room(listener) || is_left;
}

/* To the listener, as long as it takes more. */
static void pass_on_stream(struct child *child, enum child_stream stream)
{
    struct child_listener *listener = child->spec->listener;
    struct fiber_io *io = &child->streams[OUTPUT + stream];
    char bytes[HEAR_MAX];
    while (io->fd >= 0 && io->readable && listener_takes_more(child)) {
        ptrdiff_t got = fiber_read(io, bytes, sizeof bytes, 0);
        if (got > 0)
            listener->hear(listener, stream, slice_make(bytes, (size_t)got));
        else if (got != -ETIMEDOUT)
            fiber_io_close(io);
        child->drained += child->state == EXITED && got > 0 ? (size_t)got : 0;
        if (got < (ptrdiff_t)sizeof bytes)
            return; /* what else there is to do comes first */
    }
}

static void read_output(struct fiber_io *io, struct child_output *output)
{
    char dropped[1024];
    struct buf *kept = &output->bytes;
    if (io->fd < 0 || !io->readable)
        return;
    size_t n = kept->max - kept->len < READ_MAX ? kept->max - kept->len : READ_MAX;
    char *room = n > 0 ? buf_room(kept, n) : NULL;
    ptrdiff_t got = fiber_read(io, room ? room : dropped, room ? n : sizeof dropped, 0);
    if (got > 0 && room)
        buf_added(kept, (size_t)got);
    else if (got > 0)
        output->truncated = true;
    else if (got != -ETIMEDOUT)
        fiber_io_close(io);
}

/* Not reaped yet: its group keeps its number for a last kill. */
static bool poll_exit(struct child *child)
{
    siginfo_t info = {0};
    if (!child->process.readable)
        return false;
    CHECK(waitid(P_PIDFD, (id_t)child->process.fd, &info, WEXITED | WNOHANG | WNOWAIT) == 0);
    child->process.readable = info.si_pid != 0;
    return info.si_pid != 0;
}

static void enter_child_state(struct child *child, enum state state, int64_t due_us)
{
    CHECK(child->state < state);
    child->state = state;
    child->due_us = due_us;
}

/* One that changed its user cannot be reached. */
static void signal_group(const struct child *child, int number)
{
    CHECK(child->pid > 1);
    (void)kill(child->spec->group == CHILD_GROUP_SHARED ? child->pid : -child->pid, number);
}

void child_signal(const struct child_spec *spec, int number)
{
    struct child child = {.spec = spec, .pid = *spec->pid};
    signal_group(&child, number);
}

/* What was due in the present state did not come. */
static void escalate_kill(struct child *child, int64_t now_us)
{
    switch (child->state) {
    case RUNNING:
        child->result->timed_out = true;
        signal_group(child, SIGTERM);
        enter_child_state(child, ENDING, clock_after(now_us, child->spec->grace_us));
        return;
    case ENDING:
        signal_group(child, SIGKILL);
        enter_child_state(child, KILLED, CLOCK_NEVER);
        return;
    case EXITED:
        if (!listener_takes_more(child) &&
            !child->result->timed_out) { /* who is slow to take it is not cut off */
            child->due_us = clock_after(now_us, child->spec->grace_us);
            return;
        }
        child->result->output.truncated |= child->streams[OUTPUT].fd >= 0;
        child->result->error.truncated |= child->streams[ERROR].fd >= 0;
        enter_child_state(child, OVER, CLOCK_NEVER);
        return;
    case KILLED:
    case OVER:
        UNREACHABLE();
    }
}

/* One look at everything: what can be moved is moved, what happened is noted. */
static void step_child(struct child *child)
{
    int64_t now_us = clock_boot_us();
    bool late = now_us >= child->due_us;
    if (child->state < EXITED && poll_exit(child)) {
        fiber_io_close(&child->streams[INPUT]);
        enter_child_state(child, EXITED, clock_after(now_us, child->spec->grace_us));
    } else if (late) {
        escalate_kill(child, now_us);
    }
    send_input(child);
    if (child->spec->listener) {
        pass_on_stream(child, CHILD_OUTPUT);
        pass_on_stream(child, CHILD_ERROR);
    } else {
        read_output(&child->streams[OUTPUT], &child->result->output);
        read_output(&child->streams[ERROR], &child->result->error);
    }
    bool ended = child->streams[OUTPUT].fd < 0 && child->streams[ERROR].fd < 0;
    if (child->state == EXITED && ended)
        enter_child_state(child, OVER, CLOCK_NEVER);
}

static void wait_for_more(struct child *child)
{
    struct fiber_source sources[FIBER_SOURCES_MAX];
    bool reads = listener_takes_more(child);
    size_t n = 0;
    for (int i = 0; i < STREAMS; i++)
        if (child->streams[i].fd >= 0 && (reads || i == INPUT))
            sources[n++] =
                (struct fiber_source){&child->streams[i], i == INPUT ? FIBER_WRITE : FIBER_READ};
    if (child->state < EXITED)
        sources[n++] = (struct fiber_source){&child->process, FIBER_READ};
    CHECK(n > 0 || !reads);
    fiber_block(sources, n, child->due_us, child->spec->listener);
}

/* ---- end ---- */

static void reap_child(struct child *child)
{
    siginfo_t info = {0};
    if (child->result->timed_out)
        signal_group(child, SIGKILL);
    CHECK(waitid(P_PIDFD, (id_t)child->process.fd, &info, WEXITED) == 0);
    bool exited = info.si_code == CLD_EXITED;
    child->result->exit_code = exited ? info.si_status : -1;
    child->result->signal = exited ? 0 : info.si_status;
}

void child_result_fini(struct child_result *result)
{
    buf_fini(&result->output.bytes);
    buf_fini(&result->error.bytes);
}

static struct child child_of(const struct child_spec *spec)
{
    struct child child = {.spec = spec, .process.fd = -1, .unsent = spec->bytes};
    CHECK(spec->argv && spec->argv[0]);
    for (int i = 0; i < STREAMS; i++)
        child.streams[i].fd = child.theirs[i] = -1;
    return child;
}

static void tell_pid(const struct child *child, pid_t pid)
{
    if (child->spec->pid)
        *child->spec->pid = pid;
}

int child_run(const struct child_spec *spec, struct child_result *ret_result, char **ret_problem)
{
    struct child_result result = {.output.bytes = buf_make(spec->output_max),
                                  .error.bytes = buf_make(spec->output_max)};
    struct child child = child_of(spec);
    CHECK(fiber_self() && spec->grace_us >= 0);
    keep_exit_statuses();
    tell_pid(&child, 0);
    int error = start_child(&child, ret_problem);
    if (error != 0)
        return error;
    child.result = &result;
    child.due_us = spec->deadline_us;
    tell_pid(&child, child.pid);
    watch_process(&child);
    for (step_child(&child); child.state != OVER; step_child(&child))
        wait_for_more(&child);
    tell_pid(&child, 0);
    reap_child(&child);
    close_ours(&child);
    *ret_result = result;
    return 0;
}

bool child_spawn_detached(const struct child_spec *spec, char **ret_problem)
{
    struct child child = child_of(spec);
    CHECK(spec->input != CHILD_INPUT_BYTES && spec->output_max == 0 && !spec->listener);
    CHECK(spec->group == CHILD_GROUP_SESSION);
    return start_child(&child, ret_problem) == 0;
}
