/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fibers and their loop: straight-line code on one thread, many at a time.
 *
 * A loop belongs to the thread that runs it (loop_run). A fiber never leaves its loop. Between two
 * calls below no other fiber of the loop runs, so fibers of one loop share data without locks.
 *
 *           fiber_spawn                    what it waits for came, or its deadline
 *   (none) ------------> runnable <---------------------------------- parked
 *                           |  ^___ scheduled in order of readiness      ^
 *                           v                                            |
 *                        running ---- fiber_wait, park, sleep -----------'
 *                           |
 *                           '-- its function returns --> (stack goes back to the pool)
 *
 * Limits: `max_fibers` per loop (spawn fails beyond it). Stacks are 64 KiB (256 under
 * sanitizers) and a guard page; a handler on an alternate stack names a fiber that runs into it.
 * Times are microseconds on the boot clock (base/clock.h).
 *
 * loop.c is the loop; io.c reads, writes, accepts and connects; guard.c is that handler.
 */
#ifndef PAWL_FIBER_FIBER_H
#define PAWL_FIBER_FIBER_H

#include "base/park.h"
#include <stddef.h>

struct loop;
struct fiber;

/* A loop of at most `max_fibers` fibers at a time; NULL: no memory or descriptors. */
struct loop *loop_new(size_t max_fibers);

/* Every fiber must have ended, and no other thread may still be within, or about to call, wake on a
 * parker of its fibers, loop_post or loop_stop. Accepts NULL. */
void loop_free(struct loop *loop);

/* Runs fibers on the calling thread until loop_stop was called and no fiber is left. Marks the
 * thread as a loop thread (thread_is_loop). */
void loop_run(struct loop *loop);

/* From any thread: lets loop_run return once the last fiber has ended and every post was called.
 * Stays in force if loop_run is called again. */
void loop_stop(struct loop *loop);

/* From any thread: `run(argument)` is called on the loop's thread, outside any fiber, in the order
 * posted. It must not block. `post` is the caller's memory until the call happened. */
struct loop_post {
    void (*run)(void *argument);
    void *argument;
    struct loop_post *next; /* the loop's */
};
void loop_post(struct loop *loop, struct loop_post *post);

/* The loop of the calling thread, NULL outside loop_run. */
struct loop *loop_current(void);

/* Starts a fiber that runs `run(argument)`. On the loop's thread, or before loop_run. `name` is a
 * literal. False: too many fibers, or no memory for a stack. The fiber runs later, not within. */
bool fiber_spawn(struct loop *loop, const char *name, void (*run)(void *), void *argument);

/* The running fiber; NULL outside one. */
struct fiber *fiber_self(void);

/* The parker of the running fiber (base/park.h). A wake that comes after its fiber has ended does
 * no harm until loop_free: fibers are pooled, and the next one may see a spurious wake. Of the
 * calls below only fiber_wait and park use wakes up; the others leave them to the next of these. */
struct parker *fiber_parker(void);

/* Gives way to the other runnable fibers. */
void fiber_yield(void);

/* Parks until the deadline. */
void fiber_sleep_until(int64_t deadline_us);

/* A socket or pipe end watched by the loop. Non-blocking. `fd` is -1 when closed. The struct is
 * its owner's memory and must not move while open. Readiness is edge-triggered: the flags say what
 * may be tried; a call that met EAGAIN clears its flag. */
struct fiber_io {
    int fd;
    bool readable;        /* a read may give bytes, end of stream or an error */
    bool writable;        /* a write may take bytes */
    bool hung_up;         /* the peer closed or reset (EPOLLRDHUP, EPOLLHUP, EPOLLERR) */
    bool stream_socket;   /* the loop's */
    struct fiber *waiter; /* the loop's */
    struct loop *loop;    /* the loop's */
};

/* Puts an open descriptor under the current loop's watch and makes it non-blocking. False: no
 * memory in the kernel (the descriptor stays the caller's). */
bool fiber_io_open(struct fiber_io *io, int fd);

/* Closes the descriptor; nothing may wait on it. Accepts a closed one. */
void fiber_io_close(struct fiber_io *io);

/* What a fiber may wait for. At most four sources; each asks for any of read, write, hang-up. */
enum {
    FIBER_READ = 1,   /* io->readable */
    FIBER_WRITE = 2,  /* io->writable */
    FIBER_HANGUP = 4, /* io->hung_up: the peer has closed, whatever it left to read */
};
struct fiber_source {
    struct fiber_io *io;
    unsigned want;
};

enum fiber_wake {
    FIBER_READY,    /* a source is ready (look at its flags) */
    FIBER_WOKEN,    /* another called wake on the fiber's parker */
    FIBER_DEADLINE, /* the deadline passed */
};

/* Parks until the first of: a source is ready (returned at once if one is), the parker is woken
 * (the wake is used up), the deadline passed. `sources` may be NULL with n = 0. */
enum fiber_wake fiber_wait(const struct fiber_source *sources, size_t n, int64_t deadline_us);

/* The calls below may give way to other fibers even when there is something to read or room to
 * write. Pipes: a program that writes to one must ignore SIGPIPE (sockets raise none).
 *
 * Reads at most `n` bytes: > 0 bytes, 0 end of stream, -ETIMEDOUT the deadline passed, -errno. */
ptrdiff_t fiber_read(struct fiber_io *io, void *ret_bytes, size_t n, int64_t deadline_us);

/* Writes all parts in order (it advances the array). 0 done, -ETIMEDOUT, -errno. `*ret_sent` gets
 * how many bytes were handed to the kernel, also on failure; may be NULL. */
struct iovec;
int fiber_write(struct fiber_io *io, struct iovec *parts, size_t n_parts, int64_t deadline_us,
                size_t *ret_sent);

/* Takes `n` bytes, and what is empty, off the front of the parts. */
void fiber_parts_advance(struct iovec **parts, size_t *n_parts, size_t n);

/* Accepts one connection (close-on-exec, non-blocking): its descriptor, -ETIMEDOUT, -errno.
 * -EMFILE, -ENFILE, -ENOBUFS, -ENOMEM leave the connection in the queue: sleep before trying again.
 * `ret_peer` may be NULL. */
struct sockaddr_storage;
int fiber_accept(struct fiber_io *listener, struct sockaddr_storage *ret_peer, int64_t deadline_us);

/* Connects a new TCP socket and opens `io` on it: 0, -ETIMEDOUT, -errno (then io is closed). */
struct sockaddr;
int fiber_connect(struct fiber_io *io, const struct sockaddr *address, unsigned address_len,
                  int64_t deadline_us);

/* For the whole process: on SIGSEGV, a loop thread whose fiber ran into its guard page says on
 * stderr which; then the default action follows. Nothing in sanitized builds. */
void fiber_install_guard_handler(void);

#endif
