/* SPDX-License-Identifier: Apache-2.0 */
#include "fiber/stack.h"

#include "base/check.h"
#include "fiber/sanitizer.h"
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef PAWL_SANITIZED
#define STACK_BYTES ((size_t)256 * 1024)
#else
#define STACK_BYTES ((size_t)64 * 1024)
#endif

static size_t page_size(void)
{
    long bytes = sysconf(_SC_PAGESIZE);
    CHECK(bytes > 0 && STACK_BYTES % (size_t)bytes == 0);
    return (size_t)bytes;
}

bool stack_open(struct stack *ret_stack)
{
    size_t page = page_size();
    char *at = mmap(NULL, page + STACK_BYTES, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return false;
    if (mprotect(at + page, STACK_BYTES, PROT_READ | PROT_WRITE) != 0) {
        munmap(at, page + STACK_BYTES);
        return false;
    }
    sanitizer_stack_opened(at + page, STACK_BYTES);
    *ret_stack = (struct stack){.guard = at, .bottom = at + page, .size = STACK_BYTES};
    return true;
}

void stack_close(struct stack *stack)
{
    if (!stack->guard)
        return;
    sanitizer_stack_closed(stack->bottom, stack->size);
    size_t bytes = (size_t)(stack->bottom - stack->guard) + stack->size;
    CHECK(munmap(stack->guard, bytes) == 0);
    *stack = (struct stack){0};
}

bool stack_guards(const struct stack *stack, const void *address)
{
    uintptr_t at = (uintptr_t)address;
    return at >= (uintptr_t)stack->guard && at < (uintptr_t)stack->bottom;
}
