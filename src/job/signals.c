/* SPDX-License-Identifier: Apache-2.0 */
#include "job/signals.h"

#include "base/clock.h"
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* By nohup, or by a shell for what a script has in the background: it stays so. */
static bool is_ignored(int number)
{
    struct sigaction now;
    bool may_be = number == SIGHUP || number == SIGINT || number == SIGQUIT;
    return may_be && sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

static sigset_t held_back(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!is_ignored(numbers[i]))
            sigaddset(&set, numbers[i]);
    return set;
}

void signals_hold_back(void)
{
    sigset_t set = held_back();
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

void signals_let_go(void)
{
    sigset_t set = held_back();
    sigdelset(&set, SIGUSR1);
    sigdelset(&set, SIGUSR2);
    (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static void read_signals(void *argument)
{
    struct signals *signals = argument;
    struct signalfd_siginfo info;
    struct fiber_source source = {&signals->io, FIBER_READ};
    signals->parker = fiber_parker();
    while (!signals->ends) {
        (void)fiber_wait(&source, 1, CLOCK_NEVER);
        while (!signals->ends && signals->io.readable &&
               fiber_read(&signals->io, &info, sizeof info, 0) == sizeof info)
            signals->got(signals->argument, (int)info.ssi_signo, info.ssi_code == SI_KERNEL);
    }
    fiber_io_close(&signals->io);
}

/* The descriptor comes under watch in a fiber of its loop. What cannot be heard is not held back.
 */
static void watch_and_read(void *argument)
{
    struct signals *signals = argument;
    int fd = signals->io.fd;
    if (fiber_io_open(&signals->io, fd)) {
        read_signals(signals);
        return;
    }
    close(fd);
    signals_let_go();
}

bool signals_watch(struct loop *loop, struct signals *signals)
{
    sigset_t set = held_back();
    signals->io.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals->io.fd < 0)
        return false;
    if (fiber_spawn(loop, "signals", watch_and_read, signals))
        return true;
    close(signals->io.fd);
    return false;
}

void signals_end(struct signals *signals)
{
    signals->ends = true;
    if (signals->parker)
        parker_wake(signals->parker);
}
