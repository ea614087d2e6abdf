/* SPDX-License-Identifier: Apache-2.0 */
#include "job/printer.h"

#include "base/check.h"
#include "base/mem.h"
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define STREAMS 2

struct piece {
    struct piece *next;
    enum child_stream stream;
    size_t len;
    char bytes[];
};

struct printer {
    struct mutex mutex;
    struct cond more;
    struct thread thread;
    bool has_thread;                 /* mutex */
    struct piece *first, *last;      /* mutex: not taken yet */
    size_t n_bytes;                  /* mutex: not written yet */
    struct printer_waiter *waiters;  /* mutex */
    bool ends;                       /* mutex */
    int error;                       /* mutex: of the first failed write or allocation */
    char status[PRINTER_STATUS_MAX]; /* mutex: the line that is to be shown */
    size_t status_len;               /* mutex */
    bool status_changed;             /* mutex */
    bool status_shown;               /* the thread's */
    bool is_closed[STREAMS];         /* the thread's: nothing more is written there */
};

/* ---- its thread ---- */

/* 0 or an error's number. A standard stream may have been made non-blocking by others. */
static int write_all_bytes(int fd, const char *at, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, at, len);
        if (n < 0 && errno == EAGAIN)
            (void)poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
        else if (n < 0 && errno != EINTR)
            return errno;
        at += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static int write_piece(struct printer *printer, const struct piece *piece)
{
    static const int fds[STREAMS] = {STDOUT_FILENO, STDERR_FILENO};
    if (printer->is_closed[piece->stream])
        return 0;
    int error = write_all_bytes(fds[piece->stream], piece->bytes, piece->len);
    printer->is_closed[piece->stream] = error != 0;
    return error == EPIPE ? 0 : error;
}

static void wake_printer_waiters(struct printer *printer)
{
    struct printer_waiter *waiter = printer->waiters;
    printer->waiters = NULL;
    while (waiter) {
        struct printer_waiter *next = waiter->next;
        waiter->waits = false;
        parker_wake(waiter->parker);
        waiter = next;
    }
}

/* The thread alone: takes the status line away. */
static void erase_status(struct printer *printer)
{
    static const char erase[] = "\r\033[K";
    if (printer->status_shown)
        (void)write_all_bytes(STDERR_FILENO, erase, sizeof erase - 1);
    printer->status_shown = false;
}

/* Under the mutex, before and after. */
static void draw_status(struct printer *printer)
{
    char line[PRINTER_STATUS_MAX];
    size_t len = printer->status_len;
    memcpy(line, printer->status, len);
    printer->status_changed = false;
    mutex_unlock(&printer->mutex);
    erase_status(printer);
    if (len > 0)
        (void)write_all_bytes(STDERR_FILENO, line, len);
    printer->status_shown = len > 0;
    mutex_lock(&printer->mutex);
}

/* Under the mutex, before and after. */
static void write_next(struct printer *printer)
{
    struct piece *piece = printer->first;
    printer->first = piece->next;
    printer->last = printer->first ? printer->last : NULL;
    mutex_unlock(&printer->mutex);
    erase_status(printer);
    int error = write_piece(printer, piece);
    mutex_lock(&printer->mutex);
    CHECK(printer->n_bytes >= piece->len);
    printer->n_bytes -= piece->len;
    if (printer->error == 0)
        printer->error = error;
    printer->status_changed |= printer->status_len > 0;
    if (printer->n_bytes < PRINTER_MOST / 2)
        wake_printer_waiters(printer);
    mem_free(piece);
}

static void run_printer(void *argument)
{
    struct printer *printer = argument;
    mutex_lock(&printer->mutex);
    while (printer->first || printer->status_changed || !printer->ends)
        if (printer->first)
            write_next(printer);
        else if (printer->status_changed)
            draw_status(printer);
        else
            cond_wait(&printer->more, &printer->mutex);
    mutex_unlock(&printer->mutex);
}

/* ---- for others ---- */

/* Under the mutex: something is to be written. The thread starts with the first of it, as most
 * commands that are run once print nothing. */
static bool wake_thread(struct printer *printer)
{
    if (!printer->has_thread)
        printer->has_thread = thread_start(&printer->thread, "printer", run_printer, printer);
    cond_signal(&printer->more);
    return printer->has_thread;
}

struct printer *printer_new(void)
{
    struct printer *printer = mem_zalloc(1, sizeof *printer);
    if (!printer)
        return NULL;
    mutex_init(&printer->mutex);
    cond_init(&printer->more);
    return printer;
}

void printer_free(struct printer *printer, int *ret_error)
{
    if (!printer)
        return;
    mutex_lock(&printer->mutex);
    printer->ends = true;
    cond_signal(&printer->more);
    mutex_unlock(&printer->mutex);
    if (printer->has_thread)
        thread_join(&printer->thread);
    if (ret_error)
        *ret_error = printer->error;
    cond_fini(&printer->more);
    mutex_fini(&printer->mutex);
    mem_free(printer);
}

bool printer_ask_room(struct printer *printer, struct printer_waiter *waiter)
{
    mutex_lock(&printer->mutex);
    bool has_room = printer->n_bytes < PRINTER_MOST;
    if (!has_room && !waiter->waits) {
        waiter->waits = true;
        waiter->next = printer->waiters;
        printer->waiters = waiter;
    }
    mutex_unlock(&printer->mutex);
    return has_room;
}

void printer_leave(struct printer *printer, struct printer_waiter *waiter)
{
    mutex_lock(&printer->mutex);
    for (struct printer_waiter **at = &printer->waiters; *at; at = &(*at)->next)
        if (*at == waiter) {
            *at = waiter->next;
            break;
        }
    waiter->waits = false;
    mutex_unlock(&printer->mutex);
}

void printer_show_status(struct printer *printer, struct slice line)
{
    line = slice_first(line, PRINTER_STATUS_MAX);
    mutex_lock(&printer->mutex);
    if (line.len > 0)
        memcpy(printer->status, line.at, line.len);
    printer->status_len = line.len;
    printer->status_changed = true;
    (void)wake_thread(printer);
    mutex_unlock(&printer->mutex);
}

void printer_add(struct printer *printer, enum child_stream stream, struct slice bytes)
{
    CHECK(stream < STREAMS);
    struct piece *piece = mem_alloc(sizeof *piece + bytes.len);
    mutex_lock(&printer->mutex);
    if (piece && wake_thread(printer)) {
        *piece = (struct piece){.stream = stream, .len = bytes.len};
        memcpy(piece->bytes, bytes.at, bytes.len);
        if (printer->last)
            printer->last->next = piece;
        else
            printer->first = piece;
        printer->last = piece;
        printer->n_bytes += bytes.len;
    } else {
        printer->error = printer->error ? printer->error : piece ? EAGAIN : ENOMEM;
        mem_free(piece);
    }
    mutex_unlock(&printer->mutex);
}
