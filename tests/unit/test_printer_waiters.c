/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits for room of the printer, with a pipe in the place of this program's own standard
 * streams. */
#include "base/check.h"
#include "job/printer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define PIECE (PRINTER_MOST / 4) /* and as much as a pipe holds */

static char piece[PIECE];
static int own[3]; /* the streams of this program, while they are others */
static int reads;  /* the other end of both */

/* Nothing may be asserted before give_back: its words would go into the pipe. */
static void take_streams(void)
{
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    CHECK(fcntl(ends[1], F_SETPIPE_SZ, (int)PIECE) == (int)PIECE);
    reads = ends[0];
    for (int fd = 1; fd < 3; fd++) {
        own[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 10);
        CHECK(own[fd] >= 0 && dup2(ends[1], fd) == fd);
    }
    close(ends[1]);
}

static void give_back(void)
{
    for (int fd = 1; fd < 3; fd++) {
        dup2(own[fd], fd);
        close(own[fd]);
    }
}

static void read_bytes(size_t n)
{
    static char bytes[PIECE];
    while (n > 0) {
        ssize_t got = read(reads, bytes, n < sizeof bytes ? n : sizeof bytes);
        CHECK(got > 0);
        n -= (size_t)got;
    }
}

struct sleeper {
    struct parker parker; /* first: the two are cast into each other */
    atomic_int woken;
};

static void wake(struct parker *parker)
{
    atomic_fetch_add(&((struct sleeper *)parker)->woken, 1);
}

static void add_pieces(struct printer *printer, int n)
{
    for (int i = 0; i < n; i++)
        printer_add(printer, CHILD_OUTPUT, slice_make(piece, sizeof piece));
}

/* Without waiting for it as a waiter does. */
static void await_room(struct printer *printer)
{
    struct printer_waiter none = {.waits = true};
    while (!printer_ask_room(printer, &none))
        poll(NULL, 0, 1);
}

static void await_wakes(struct sleeper *sleeper, int n)
{
    while (atomic_load(&sleeper->woken) < n)
        poll(NULL, 0, 1);
}

/* ---- */

static void whoever_waits_for_room_is_woken_once_there_is(void **state)
{
    struct sleeper sleeper = {.parker.wake = wake};
    struct printer_waiter waiter = {.parker = &sleeper.parker};
    (void)state;
    take_streams();
    struct printer *printer = printer_new();
    bool empty = printer_ask_room(printer, &waiter);
    add_pieces(printer, 6);
    bool full = !printer_ask_room(printer, &waiter) && !printer_ask_room(printer, &waiter);
    int early = atomic_load(&sleeper.woken);
    read_bytes(6 * PIECE);
    await_wakes(&sleeper, 1);
    bool again = printer_ask_room(printer, &waiter);
    printer_leave(printer, &waiter);
    printer_free(printer, NULL);
    give_back();
    close(reads);
    assert_true(empty && full && again);
    assert_int_equal(early, 0);
    assert_int_equal(sleeper.woken, 1);
}

/* A command may end while its fiber waits, and the next one wait with the same struct. */
static void who_has_left_is_not_woken_and_may_wait_anew(void **state)
{
    struct sleeper sleeper = {.parker.wake = wake};
    struct printer_waiter waiter = {.parker = &sleeper.parker};
    (void)state;
    take_streams();
    struct printer *printer = printer_new();
    add_pieces(printer, 6);
    bool full = !printer_ask_room(printer, &waiter);
    read_bytes(2 * PIECE);
    await_room(printer); /* it has room, and not so much that it wakes */
    int early = atomic_load(&sleeper.woken);
    printer_leave(printer, &waiter);
    waiter = (struct printer_waiter){.parker = &sleeper.parker};
    add_pieces(printer, 4);
    full = full && !printer_ask_room(printer, &waiter);
    read_bytes(8 * PIECE);
    await_wakes(&sleeper, 1);
    add_pieces(printer, 6);
    full = full && !printer_ask_room(printer, &waiter);
    printer_leave(printer, &waiter);
    printer_leave(printer, &waiter); /* does nothing */
    read_bytes(6 * PIECE);
    printer_free(printer, NULL);
    give_back();
    close(reads);
    assert_true(full);
    assert_int_equal(early, 0);
    assert_int_equal(sleeper.woken, 1);
}

static int ignore_closed_pipes(void **state)
{
    (void)state;
    return signal(SIGPIPE, SIG_IGN) == SIG_ERR;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_waits_for_room_is_woken_once_there_is),
        cmocka_unit_test(who_has_left_is_not_woken_and_may_wait_anew),
    };
    return cmocka_run_group_tests(tests, ignore_closed_pipes, NULL);
}
