/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory a fiber runs on: a guard page that nothing may touch, above it the stack, growing
 * down towards the guard. Two mappings each, so vm.max_map_count (65,530) bounds the stacks of a
 * process to about 32,000.
 */
#ifndef PAWL_FIBER_STACK_H
#define PAWL_FIBER_STACK_H

#include <stdbool.h>
#include <stddef.h>

struct stack {
    char *guard;  /* the mapping begins here; NULL: none */
    char *bottom; /* lowest usable byte */
    size_t size;  /* usable bytes */
};

/* False: no memory or no mappings left. */
bool stack_open(struct stack *ret_stack);
void stack_close(struct stack *stack);

/* Whether `address` lies in the guard page. Safe in a signal handler. */
bool stack_guards(const struct stack *stack, const void *address);

#endif
