/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaving one stack and going on on another, within one thread.
 *
 *            context_init             context_switch to it
 *   (unused) ------------> prepared --------------------> running
 *       ^                                   ^   context_switch from it |
 *       |                                   '--------- left <----------'
 *       '------ context_fini ------ done <--- context_leave -----------'
 *
 * ucontext starts a context; every later switch is _setjmp and _longjmp, as swapcontext asks the
 * kernel for the signal mask at each switch (166 ns against 12 ns).
 */
#ifndef PAWL_FIBER_SWITCH_H
#define PAWL_FIBER_SWITCH_H

#include "fiber/stack.h"
#include <setjmp.h>

struct context {
    /* The frame that left this context: the saved frame pointer lies there, the return address
     * above it. scripts/gdb-fibers.py begins here. NULL: not left yet. */
    void *frame;
    bool started;
    jmp_buf registers;
    void (*run)(void *argument);
    void *argument;
    char *stack_bottom; /* of a thread's own context known to sanitizers only */
    size_t stack_size;
    struct context *came_from; /* the context that switched here last */
    void *fake_stack;          /* AddressSanitizer's */
    void *tsan_fiber;          /* ThreadSanitizer's */
};

/* The calling thread's own stack, to come back to. Needs no fini. */
void context_init_thread(struct context *context);

/* The first switch to it calls `run(argument)`, which ends with context_leave, never returns. */
void context_init(struct context *context, const struct stack *stack, void (*run)(void *),
                  void *argument);

/* After its context_leave, or when it never ran. Not on its own stack. */
void context_fini(struct context *context);

/* Leaves `from` (the running one) for `to`; returns when another switches back. */
void context_switch(struct context *from, struct context *to);

/* Leaves `from` for good. */
_Noreturn void context_leave(struct context *from, struct context *to);

#endif
