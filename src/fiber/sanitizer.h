/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What AddressSanitizer, LeakSanitizer and ThreadSanitizer must know about fibers; nothing in
 * other builds. gcc and clang each say differently which one is on.
 */
#ifndef PAWL_FIBER_SANITIZER_H
#define PAWL_FIBER_SANITIZER_H

#include <stddef.h>

#ifdef __has_feature
#define SANITIZER_FEATURE(name) __has_feature(name)
#else
#define SANITIZER_FEATURE(name) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || SANITIZER_FEATURE(address_sanitizer)
#define FIBER_ASAN 1
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#else
#define FIBER_ASAN 0
#endif

#if defined(__SANITIZE_THREAD__) || SANITIZER_FEATURE(thread_sanitizer)
#define FIBER_TSAN 1
#include <sanitizer/tsan_interface.h>
#else
#define FIBER_TSAN 0
#endif

/* A parked fiber's stack may hold the only pointer to an allocation. */
static inline void sanitizer_stack_opened(void *bottom, size_t size)
{
#if FIBER_ASAN
    __lsan_register_root_region(bottom, size);
#else
    (void)bottom, (void)size;
#endif
}

/* The next user of these addresses must not find the old frames' red zones. */
static inline void sanitizer_stack_closed(void *bottom, size_t size)
{
#if FIBER_ASAN
    __lsan_unregister_root_region(bottom, size);
    __asan_unpoison_memory_region(bottom, size);
#else
    (void)bottom, (void)size;
#endif
}

#endif
