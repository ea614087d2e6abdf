/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/resolve.h"

#include "base/buf.h"
#include "base/check.h"
#include "base/crash.h"
#include "base/mem.h"
#include "base/thread.h"
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define PROBLEM_MAX ((size_t)16 * 1024) /* two paths */

/* NULL: `*ret_problem` says why; freeaddrinfo. */
static struct addrinfo *look_up(const struct config_address *address, bool passive,
                                char **ret_problem)
{
    char port[8];
    char *host MEM_AUTO = mem_copy(address->host.at, address->host.len);
    struct addrinfo *found = NULL;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = passive ? AI_PASSIVE : 0};
    snprintf(port, sizeof port, "%u", (unsigned)address->port);
    if (!host)
        return NULL;
    int failed = getaddrinfo(host, port, &hints, &found);
    if (failed == 0)
        return found;
    struct buf text = buf_make(PROBLEM_MAX);
    buf_printf(&text, "cannot resolve %s of %s: %s", host,
               passive ? "`listen:` or `admin:`" : "`upstream:`", gai_strerror(failed));
    *ret_problem = buf_take(&text);
    return NULL;
}

bool resolve_address(const struct config_address *address, struct sockaddr_storage *ret_address,
                     char **ret_problem)
{
    struct addrinfo *found = look_up(address, true, ret_problem);
    if (!found)
        return false;
    memcpy(ret_address, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return true;
}

char *listen_problem(const char *option, const struct config_address *address, int error,
                     const char *denied)
{
    struct buf text = buf_make(PROBLEM_MAX);
    buf_printf(&text, "cannot listen on %.*s:%u (`%s:`): ", SLICE_ARG(address->host),
               (unsigned)address->port, option);
    if (error == -EADDRINUSE)
        buf_printf(&text,
                   "the address is in use; stop the process that uses it (perhaps another pawl), "
                   "or choose another `%s:`",
                   option);
    else
        buf_add_str(&text, error == -EACCES && denied ? denied : strerror(-error));
    return buf_take(&text);
}

/* ---- on a thread of its own ---- */

/* Belongs to two threads, whichever of them ends last. */
struct look_up {
    atomic_int refs;
    struct config_address address;
    struct addrinfo *found; /* with `done`, as the problem */
    char *problem;
    int done;    /* eventfd */
    char host[]; /* the address's */
};

static void look_up_unref(struct look_up *job)
{
    if (atomic_fetch_sub(&job->refs, 1) > 1)
        return;
    if (job->found)
        freeaddrinfo(job->found);
    close(job->done);
    mem_free(job->problem);
    mem_free(job);
}

static void run_look_up(void *argument)
{
    struct look_up *job = argument;
    uint64_t one = 1;
    CRASH_POINT(inside_look_up);
    job->found = look_up(&job->address, false, &job->problem);
    CHECK(write(job->done, &one, sizeof one) == sizeof one);
    look_up_unref(job);
}

static struct look_up *look_up_new(const struct config_address *address)
{
    size_t host_len = address->host.len;
    struct look_up *job = mem_zalloc(1, sizeof *job + host_len);
    if (!job || (job->done = eventfd(0, EFD_CLOEXEC)) < 0) {
        mem_free(job);
        return NULL;
    }
    atomic_init(&job->refs, 2);
    job->address = *address;
    job->address.host = slice_make(memcpy(job->host, address->host.at, host_len), host_len);
    return job;
}

/* Whether it ended before `stop_fd` had something to say. */
static bool await(const struct look_up *job, int stop_fd)
{
    struct pollfd ends[2] = {{.fd = job->done, .events = POLLIN},
                             {.fd = stop_fd, .events = POLLIN}};
    while (poll(ends, 2, -1) < 0 && errno == EINTR)
        ;
    uint64_t count = 0; /* read, so that the result is seen behind it */
    return (ends[0].revents & POLLIN) && read(job->done, &count, sizeof count) == sizeof count;
}

static struct http_upstream first_two(const struct addrinfo *found)
{
    struct http_upstream upstream = {0};
    memcpy(&upstream.address, found->ai_addr, found->ai_addrlen);
    if (found->ai_next)
        memcpy(&upstream.other, found->ai_next->ai_addr, found->ai_next->ai_addrlen);
    return upstream;
}

/* A file that is no good is told as the config's own complaints are. */
static bool secure(const struct config *config, struct http_upstream *upstream, char **ret_problem)
{
    const struct config_tls *tls = &config->upstream_tls;
    const struct config_file *files[] = {&tls->ca, &tls->cert, &tls->key};
    struct slice server = tls->server_name.len > 0 ? tls->server_name : config->upstream.host;
    struct tls_config wanted = {server.at, tls->ca.path.at, tls->cert.path.at, tls->key.path.at};
    struct tls_complaint complaint;
    upstream->tls = tls->on ? tls_client_new(&wanted, &complaint) : NULL;
    if (!tls->on || upstream->tls)
        return true;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (!complaint.file || files[i]->path.at != complaint.file)
            continue;
        struct buf text = buf_make(PROBLEM_MAX);
        buf_printf(&text, "%.*s: upstream_tls: %s: %s", SLICE_ARG(files[i]->at), complaint.file,
                   complaint.text);
        *ret_problem = buf_take(&text);
    }
    return false;
}

bool resolve_upstream(const struct config *config, int stop_fd, struct http_upstream *ret_upstream,
                      char **ret_problem)
{
    static const char left[] = "a signal came while the name of `upstream:` was looked up";
    struct thread thread;
    struct look_up *job = look_up_new(&config->upstream);
    if (!job)
        return false;
    if (!thread_start(&thread, "pawl-resolve", run_look_up, job)) {
        look_up_unref(job);
        look_up_unref(job);
        return false;
    }
    thread_detach(&thread);
    bool ended = await(job, stop_fd);
    bool found = ended && job->found;
    const char *problem = ended ? job->problem : left;
    if (found)
        *ret_upstream = first_two(job->found);
    else if (problem)
        *ret_problem = mem_copy(problem, strlen(problem));
    look_up_unref(job);
    return found && secure(config, ret_upstream, ret_problem);
}
