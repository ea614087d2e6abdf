/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fiber that runs out of stack touches its guard page. The handler runs on a stack of its own,
 * names the fiber, and lets the fault happen again with the default action: a core dump that shows
 * the overrun. Sanitizers bring a handler and an alternate stack of their own.
 */
#include "base/check.h"
#include "fiber/fiber_priv.h"
#include <signal.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#ifdef PAWL_SANITIZED

void guard_stack_use(char *signal_stack)
{
    CHECK(signal_stack);
}

void guard_stack_leave(void)
{
}

void fiber_install_guard_handler(void)
{
}

#else

void guard_stack_use(char *signal_stack)
{
    stack_t alternate = {.ss_sp = signal_stack, .ss_size = GUARD_STACK_BYTES};
    CHECK(sigaltstack(&alternate, NULL) == 0);
}

void guard_stack_leave(void)
{
    stack_t none = {.ss_flags = SS_DISABLE};
    CHECK(sigaltstack(&none, NULL) == 0);
}

static struct iovec iovec_of(const char *from)
{
    return (struct iovec){.iov_base = (char *)(uintptr_t)from, .iov_len = strlen(from)};
}

/* SA_RESETHAND: returning lets a fault happen again, now deadly; a signal that a process sent must
 * be raised again. */
static void guard_hit(int signal, siginfo_t *info, void *registers)
{
    (void)registers;
    const struct fiber *fiber = fiber_self();
    if (info->si_code > 0 && fiber && stack_guards(&fiber->stack, info->si_addr)) {
        struct iovec line[] = {iovec_of("fiber '"), iovec_of(fiber->name),
                               iovec_of("' ran out of stack\n")};
        ssize_t ignored = writev(STDERR_FILENO, line, sizeof line / sizeof *line);
        (void)ignored;
    }
    if (info->si_code <= 0)
        raise(signal);
}

void fiber_install_guard_handler(void)
{
    struct sigaction action = {
        .sa_sigaction = guard_hit,
        .sa_flags = SA_SIGINFO | SA_ONSTACK | (int)SA_RESETHAND,
    };
    CHECK(sigemptyset(&action.sa_mask) == 0);
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
}

#endif
