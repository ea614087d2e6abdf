/* SPDX-License-Identifier: Apache-2.0 */
#include "http/name.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/crash.h"
#include "base/mem.h"
#include "base/thread.h"
#include "fiber/fiber.h"
#include "http/call/resolver.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define APART_US CLOCK_US_PER_S /* two look-ups */

/* Shared by its users and the thread that looks it up. */
struct http_name {
    atomic_int refs;
    int64_t fresh_us;
    struct http_guard *guard;
    int ended; /* eventfd: a look-up has ended */
    struct mutex mutex;
    bool under_way;   /* a look-up */
    int64_t begun_us; /* the last one */
    int error;        /* of the last one, of netdb.h */
    struct http_addresses addresses;
    char port[8];
    char host[];
};

/* ---- looking up ---- */

/* The guard judges all of them, also those that are left out. */
static int ask_resolver(const struct http_name *name, struct http_addresses *ret_found)
{
    struct addrinfo *found = NULL;
    int error = resolver_ask(name->host, name->port, &found);
    *ret_found = (struct http_addresses){0};
    if (name->guard)
        ret_found->refused = http_guard_refusal(name->guard, found);
    for (struct addrinfo *at = found;
         at && !ret_found->refused && ret_found->n < HTTP_ADDRESSES_MAX; at = at->ai_next)
        memcpy(&ret_found->at[ret_found->n++], at->ai_addr, at->ai_addrlen);
    if (found)
        freeaddrinfo(found);
    return error;
}

static void look_up_name(void *argument)
{
    struct http_name *name = argument;
    struct http_addresses found = {0};
    uint64_t one = 1;
    CRASH_POINT(inside_look_up);
    int error = ask_resolver(name, &found);
    mutex_lock(&name->mutex);
    name->error = error;
    name->under_way = false;
    if (error == 0)
        name->addresses = found;
    mutex_unlock(&name->mutex);
    CHECK(write(name->ended, &one, sizeof one) == sizeof one);
    http_name_unref(name);
}

/* Under the lock. False: one is under way, or there is no thread for it. */
static bool begin_look_up(struct http_name *name, int64_t now_us)
{
    struct thread thread;
    if (name->under_way)
        return false;
    name->begun_us = now_us;
    name->under_way = thread_start(&thread, "pawl-resolve", look_up_name, http_name_ref(name));
    if (name->under_way)
        thread_detach(&thread);
    else
        http_name_unref(name);
    return name->under_way;
}

/* Under the lock. An address stays what it is. */
static void look_up_again(struct http_name *name, int64_t age_us)
{
    unsigned char bytes[sizeof(struct in6_addr)];
    int64_t now_us = clock_boot_us();
    if (now_us >= clock_after(name->begun_us, age_us) &&
        inet_pton(AF_INET, name->host, bytes) != 1 && inet_pton(AF_INET6, name->host, bytes) != 1)
        (void)begin_look_up(name, now_us);
}

void http_name_addresses(struct http_name *name, struct http_addresses *ret_addresses)
{
    mutex_lock(&name->mutex);
    look_up_again(name, name->fresh_us);
    *ret_addresses = name->addresses;
    mutex_unlock(&name->mutex);
}

void http_name_failed(struct http_name *name)
{
    mutex_lock(&name->mutex);
    look_up_again(name, APART_US);
    mutex_unlock(&name->mutex);
}

/* ---- birth and death ---- */

static struct http_name *name_new(const struct http_name_config *config)
{
    struct http_name *name = mem_zalloc(1, sizeof *name + config->host.len + 1);
    if (!name || (name->ended = eventfd(0, EFD_CLOEXEC)) < 0) {
        mem_free(name);
        return NULL;
    }
    atomic_init(&name->refs, 1);
    mutex_init(&name->mutex);
    name->fresh_us = config->fresh_us > APART_US ? config->fresh_us : APART_US;
    name->guard = http_guard_ref(config->guard);
    snprintf(name->port, sizeof name->port, "%u", (unsigned)config->port);
    memcpy(name->host, config->host.at, config->host.len);
    return name;
}

/* Whether the look-up ended before `stop_fd` had something to say. */
static bool await_look_up(const struct http_name *name, int stop_fd)
{
    struct pollfd ends[2] = {{.fd = name->ended, .events = POLLIN},
                             {.fd = stop_fd, .events = POLLIN}};
    while (poll(ends, 2, -1) < 0 && errno == EINTR)
        ;
    return (ends[0].revents & POLLIN) != 0;
}

static bool name_has_ended(const struct http_name *name)
{
    struct pollfd ended = {.fd = name->ended, .events = POLLIN};
    return poll(&ended, 1, 0) == 1;
}

/* The same before the deadline. Nobody reads `ended`: it stays readable. */
static bool await_in_fiber(const struct http_name *name, int64_t deadline_us)
{
    struct fiber_io io;
    struct fiber_source ended = {&io, FIBER_READ};
    int fd = fcntl(name->ended, F_DUPFD_CLOEXEC, 0);
    if (fd < 0 || !fiber_io_open(&io, fd)) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    enum fiber_wake wake = FIBER_READY;
    while (wake != FIBER_DEADLINE && !name_has_ended(name)) {
        io.readable = false; /* until the loop says otherwise */
        wake = fiber_wait(&ended, 1, deadline_us);
    }
    fiber_io_close(&io);
    return name_has_ended(name);
}

/* The first time. False: there is no thread for it. */
static bool begin_first(struct http_name *name)
{
    mutex_lock(&name->mutex);
    bool begun = begin_look_up(name, clock_boot_us());
    mutex_unlock(&name->mutex);
    return begun;
}

/* What came of the first time; gives the name back where that is nothing. */
static struct http_name *take_found(struct http_name *name, const char **ret_problem)
{
    mutex_lock(&name->mutex);
    bool found = name->addresses.n > 0 || name->addresses.refused;
    if (name->error != 0)
        *ret_problem = gai_strerror(name->error);
    mutex_unlock(&name->mutex);
    if (found)
        return name;
    http_name_unref(name);
    return NULL;
}

/* Nobody waits for its look-up any more. */
static struct http_name *give_up_name(struct http_name *name, const char *problem,
                                      const char **ret_problem)
{
    *ret_problem = problem;
    http_name_unref(name);
    return NULL;
}

struct http_name *http_name_find(const struct http_name_config *config, int stop_fd,
                                 const char **ret_problem)
{
    struct http_name *name = name_new(config);
    *ret_problem = NULL;
    if (!name)
        return NULL;
    if (begin_first(name) && !await_look_up(name, stop_fd))
        return give_up_name(name, "interrupted by a signal", ret_problem);
    return take_found(name, ret_problem);
}

struct http_name *http_name_find_in_fiber(const struct http_name_config *config,
                                          int64_t deadline_us, const char **ret_problem)
{
    struct http_name *name = name_new(config);
    *ret_problem = NULL;
    if (!name)
        return NULL;
    if (begin_first(name) && !await_in_fiber(name, deadline_us))
        return give_up_name(name, "the resolver did not respond in time", ret_problem);
    return take_found(name, ret_problem);
}

struct http_name *http_name_ref(struct http_name *name)
{
    if (name)
        CHECK(atomic_fetch_add(&name->refs, 1) > 0);
    return name;
}

void http_name_unref(struct http_name *name)
{
    if (!name || atomic_fetch_sub(&name->refs, 1) > 1)
        return;
    close(name->ended);
    http_guard_unref(name->guard);
    mutex_fini(&name->mutex);
    mem_free(name);
}

bool http_name_equals(const struct http_name *a, const struct http_name *b)
{
    if (!a || !b)
        return a == b;
    return strcmp(a->host, b->host) == 0 && strcmp(a->port, b->port) == 0 &&
           a->fresh_us == b->fresh_us && a->guard == b->guard;
}
