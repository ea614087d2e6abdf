/* SPDX-License-Identifier: Apache-2.0 */
/* The fortified longjmp takes a jump to another stack for an overrun and aborts. */
#undef _FORTIFY_SOURCE
#include "fiber/switch.h"

#include "base/check.h"
#include "fiber/sanitizer.h"
#include <stdint.h>
#include <ucontext.h>

/* It and context_enter are inlined for ThreadSanitizer, which would count the entry of a function
 * for one fiber and its exit for the other, or (_longjmp is none of its interceptors) never. */
__attribute__((always_inline)) static inline void before_switch(struct context *to,
                                                                void **fake_stack)
{
#if FIBER_ASAN
    __sanitizer_start_switch_fiber(fake_stack, to->stack_bottom, to->stack_size);
#endif
#if FIBER_TSAN
    __tsan_switch_to_fiber(to->tsan_fiber, 0);
#endif
    (void)to, (void)fake_stack;
}

/* AddressSanitizer reports the bounds of the stack just left, the only way to learn a thread's. */
static void after_switch(struct context *here)
{
#if FIBER_ASAN
    const void *bottom;
    __sanitizer_finish_switch_fiber(here->fake_stack, &bottom, &here->came_from->stack_size);
    here->came_from->stack_bottom = (char *)(uintptr_t)bottom;
#endif
    (void)here;
}

static void context_main(unsigned high, unsigned low)
{
    struct context *context = (struct context *)((uintptr_t)high << 32 | (uintptr_t)low);
    after_switch(context);
    context->run(context->argument);
    UNREACHABLE();
}

/* A frame of its own: a ucontext_t is 1 KiB that context_switch's frame need not carry. Nothing
 * ever returns through it, so AddressSanitizer must not leave red zones there. */
__attribute__((noinline, no_sanitize_address)) static _Noreturn void context_start(
    struct context *context)
{
    ucontext_t start;
    CHECK(getcontext(&start) == 0);
    start.uc_stack.ss_sp = context->stack_bottom;
    start.uc_stack.ss_size = context->stack_size;
    start.uc_link = NULL;
    uint64_t at = (uint64_t)(uintptr_t)context;
    makecontext(&start, (void (*)(void))context_main, 2, (unsigned)(at >> 32), (unsigned)at);
    context->started = true;
    setcontext(&start);
    UNREACHABLE();
}

__attribute__((always_inline)) static inline _Noreturn void context_enter(struct context *context)
{
    if (!context->started)
        context_start(context);
    _longjmp(context->registers, 1);
}

void context_init_thread(struct context *context)
{
    *context = (struct context){.started = true};
#if FIBER_TSAN
    context->tsan_fiber = __tsan_get_current_fiber();
#endif
}

void context_init(struct context *context, const struct stack *stack, void (*run)(void *),
                  void *argument)
{
    *context = (struct context){
        .run = run,
        .argument = argument,
        .stack_bottom = stack->bottom,
        .stack_size = stack->size,
    };
#if FIBER_TSAN
    context->tsan_fiber = __tsan_create_fiber(0);
#endif
}

void context_fini(struct context *context)
{
#if FIBER_TSAN
    if (context->tsan_fiber)
        __tsan_destroy_fiber(context->tsan_fiber);
#endif
    *context = (struct context){0};
}

__attribute__((noinline)) void context_switch(struct context *from, struct context *to)
{
    CHECK(from != to);
    from->frame = __builtin_frame_address(0);
    to->came_from = from;
    if (_setjmp(from->registers) == 0) {
        before_switch(to, &from->fake_stack);
        context_enter(to);
    }
    from->frame = NULL;
    after_switch(from);
}

_Noreturn void context_leave(struct context *from, struct context *to)
{
    CHECK(from != to && to->started);
    to->came_from = from;
    before_switch(to, NULL);
    context_enter(to);
}
