/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors: each is given to epoll once, for all events, by edge. A call first tries, and parks
 * only after EAGAIN, so a request costs no epoll_ctl. Every edge that comes after an EAGAIN sets
 * the flag again, so a cleared flag is never stale.
 */
#include "base/check.h"
#include "base/clock.h"
#include "fiber/fiber_priv.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define IO_EVENTS (EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET)

void io_event(struct fiber_io *io, uint32_t events)
{
    if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0)
        io->hung_up = io->readable = true;
    if ((events & EPOLLIN) != 0)
        io->readable = true;
    if ((events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0)
        io->writable = true;
    if (io->waiter && fiber_sources_ready(io->waiter))
        loop_ready(io->waiter);
}

/* ---- open and close ---- */

static bool is_stream_socket(int fd)
{
    int type = 0;
    socklen_t size = sizeof type;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

static void make_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    CHECK(flags >= 0);
    if ((flags & O_NONBLOCK) == 0)
        CHECK(fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0);
}

bool fiber_io_open(struct fiber_io *io, int fd)
{
    struct loop *loop = loop_current();
    CHECK(loop && fd >= 0);
    make_nonblocking(fd);
    struct epoll_event event = {.events = IO_EVENTS, .data.ptr = io};
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        CHECK(errno == ENOMEM || errno == ENOSPC);
        return false;
    }
    *io = (struct fiber_io){
        .fd = fd,
        .readable = true,
        .writable = true,
        .stream_socket = is_stream_socket(fd),
        .loop = loop,
    };
    return true;
}

/* Not left to close(): a child between fork and exec may hold the same open file, and epoll would
 * go on reporting it into memory that is the owner's again. */
void fiber_io_close(struct fiber_io *io)
{
    if (io->fd < 0)
        return;
    CHECK(!io->waiter);
    CHECK(epoll_ctl(io->loop->epoll_fd, EPOLL_CTL_DEL, io->fd, NULL) == 0);
    close(io->fd);
    *io = (struct fiber_io){.fd = -1};
}

/* ---- trying and waiting ---- */

/* After EAGAIN. 0: try again. */
static int io_wait(struct fiber_io *io, unsigned want, int64_t deadline_us)
{
    struct fiber_source source = {io, want};
    return fiber_block(&source, 1, deadline_us, false) == FIBER_READY ? 0 : -ETIMEDOUT;
}

/* Before each call: a fiber whose descriptors are always ready never parks, so it would keep the
 * loop to itself and never meet its deadline. 0: go on. */
static int io_give_way(int64_t deadline_us)
{
    struct fiber *self = fiber_self();
    CHECK(self);
    if (++self->run_calls < FIBER_RUN_CALLS)
        return 0;
    fiber_yield();
    return deadline_us != CLOCK_NEVER && clock_boot_us() >= deadline_us ? -ETIMEDOUT : 0;
}

/* Waits until `want` may be tried. */
static int io_ready(struct fiber_io *io, unsigned want, int64_t deadline_us)
{
    CHECK(io->fd >= 0);
    bool ready = want == FIBER_READ ? io->readable : io->writable;
    return ready ? io_give_way(deadline_us) : io_wait(io, want, deadline_us);
}

/* A read that gave less than asked has emptied a stream socket (epoll(7), question 9), so the next
 * read would meet EAGAIN; bytes or an end that come later are a new edge. One thing may lie behind
 * the bytes without a new edge: an end of stream or error already reported together with them,
 * which is what `hung_up` remembers; then the flag stays until a read has seen it. An end that came
 * but is not yet reported still waits in epoll. Pipes are left to EAGAIN. */
static void io_read_short(struct fiber_io *io)
{
    if (io->stream_socket && !io->hung_up)
        io->readable = false;
}

ptrdiff_t fiber_read(struct fiber_io *io, void *ret_bytes, size_t n, int64_t deadline_us)
{
    CHECK(n > 0);
    for (;;) {
        int failed = io_ready(io, FIBER_READ, deadline_us);
        if (failed != 0)
            return failed;
        ssize_t got =
            io->stream_socket ? recv(io->fd, ret_bytes, n, 0) : read(io->fd, ret_bytes, n);
        if (got > 0 && (size_t)got < n)
            io_read_short(io);
        if (got >= 0)
            return got;
        if (errno == EAGAIN)
            io->readable = false;
        else if (errno != EINTR)
            return -errno;
    }
}

void fiber_parts_advance(struct iovec **parts, size_t *n_parts, size_t n)
{
    while (*n_parts > 0 && n >= (*parts)->iov_len) {
        n -= (*parts)->iov_len;
        (*parts)->iov_len = 0;
        (*parts)++;
        (*n_parts)--;
    }
    if (n == 0)
        return;
    CHECK(*n_parts > 0);
    (*parts)->iov_base = (char *)(*parts)->iov_base + n;
    (*parts)->iov_len -= n;
}

static ssize_t write_some_parts(const struct fiber_io *io, struct iovec *parts, size_t n_parts)
{
    size_t n = n_parts < IOV_MAX ? n_parts : IOV_MAX;
    if (!io->stream_socket)
        return writev(io->fd, parts, (int)n);
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = n};
    return sendmsg(io->fd, &message, MSG_NOSIGNAL);
}

int fiber_write(struct fiber_io *io, struct iovec *parts, size_t n_parts, int64_t deadline_us,
                size_t *ret_sent)
{
    size_t sent = 0;
    int failed = 0;
    fiber_parts_advance(&parts, &n_parts, 0);
    while (n_parts > 0 && failed == 0) {
        failed = io_ready(io, FIBER_WRITE, deadline_us);
        if (failed != 0)
            break;
        ssize_t took = write_some_parts(io, parts, n_parts);
        if (took >= 0) {
            sent += (size_t)took;
            fiber_parts_advance(&parts, &n_parts, (size_t)took);
        } else if (errno == EAGAIN) {
            io->writable = false;
        } else if (errno != EINTR) {
            failed = -errno;
        }
    }
    if (ret_sent)
        *ret_sent = sent;
    return failed;
}

/* ---- connections ---- */

/* accept(2): the connection failed before it was accepted; the next one may be fine. */
static bool accept_lost_one(int error)
{
    switch (error) {
    case EINTR:
    case ECONNABORTED:
    case EPERM:
    case EPROTO:
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH:
    case ETIMEDOUT:
        return true;
    default:
        return false;
    }
}

int fiber_accept(struct fiber_io *listener, struct sockaddr_storage *ret_peer, int64_t deadline_us)
{
    for (;;) {
        int failed = io_ready(listener, FIBER_READ, deadline_us);
        if (failed != 0)
            return failed;
        struct sockaddr_storage peer = {0};
        socklen_t size = sizeof peer;
        int fd =
            accept4(listener->fd, (struct sockaddr *)&peer, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            if (ret_peer)
                *ret_peer = peer;
            return fd;
        }
        if (errno == EAGAIN)
            listener->readable = false;
        else if (!accept_lost_one(errno))
            return -errno;
    }
}

static int connect_result(int fd)
{
    int error = 0;
    socklen_t size = sizeof error;
    CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0);
    return -error;
}

/* Puts the socket under watch and waits until the handshake has ended. */
static int connect_finish(struct fiber_io *io, int fd, bool in_progress, int64_t deadline_us)
{
    if (!fiber_io_open(io, fd)) {
        close(fd);
        return -ENOMEM;
    }
    if (!in_progress)
        return 0;
    io->readable = io->writable = false;
    int failed = io_wait(io, FIBER_WRITE, deadline_us);
    if (failed == 0)
        failed = connect_result(fd);
    if (failed != 0)
        fiber_io_close(io);
    return failed;
}

int fiber_connect(struct fiber_io *io, const struct sockaddr *address, unsigned address_len,
                  int64_t deadline_us)
{
    *io = (struct fiber_io){.fd = -1};
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    /* Interrupted, a non-blocking connect goes on as one in progress (connect(2)). */
    bool in_progress = connect(fd, address, address_len) != 0;
    if (in_progress && errno != EINPROGRESS && errno != EINTR) {
        int failed = -errno;
        close(fd);
        return failed;
    }
    return connect_finish(io, fd, in_progress, deadline_us);
}
