/* SPDX-License-Identifier: Apache-2.0 */
#include "job/feed.h"

#include "base/check.h"
#include "base/mem.h"
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#define PIECE_MAX ((size_t)64 * 1024)

/* Two halves: one is read into while the other one is used. */
struct feed {
    struct mutex mutex;
    struct cond taken;
    struct thread thread;
    int fd;
    char *halves[2];
    size_t at;             /* mutex: the half that is being read into, or is full */
    size_t len;            /* mutex: bytes of that half; 0: not full */
    bool has_ended;        /* mutex: nothing more comes behind those */
    bool is_abandoned;     /* mutex: nobody takes any more */
    int error;             /* mutex: why it ended; 0: the end of the input */
    struct parker *parker; /* mutex: who waits */
};

static void destroy_feed(struct feed *feed)
{
    cond_fini(&feed->taken);
    mutex_fini(&feed->mutex);
    mem_free(feed->halves[0]);
    mem_free(feed->halves[1]);
    mem_free(feed);
}

/* Under the mutex: whoever waits has something to take. */
static void announce_item(struct feed *feed)
{
    if (feed->parker)
        parker_wake(feed->parker);
    feed->parker = NULL;
}

static ssize_t read_feed(int fd, char *room)
{
    for (;;) {
        ssize_t n = read(fd, room, PIECE_MAX);
        if (n >= 0 || (errno != EINTR && errno != EAGAIN))
            return n;
        if (errno == EAGAIN) /* others made it non-blocking */
            (void)poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, -1);
    }
}

static void run_feed(void *argument)
{
    struct feed *feed = argument;
    mutex_lock(&feed->mutex);
    while (!feed->has_ended && !feed->is_abandoned) {
        char *room = feed->halves[feed->at];
        mutex_unlock(&feed->mutex);
        ssize_t n = read_feed(feed->fd, room);
        int error = n < 0 ? errno : 0;
        mutex_lock(&feed->mutex);
        feed->has_ended = n <= 0;
        feed->error = error;
        feed->len = n > 0 ? (size_t)n : 0;
        announce_item(feed);
        while (feed->len > 0 && !feed->is_abandoned)
            cond_wait(&feed->taken, &feed->mutex);
    }
    feed->has_ended = true;
    bool left = feed->is_abandoned;
    mutex_unlock(&feed->mutex);
    if (left)
        destroy_feed(feed);
}

struct feed *feed_new(int fd)
{
    struct feed *feed = mem_zalloc(1, sizeof *feed);
    if (!feed)
        return NULL;
    feed->fd = fd;
    feed->halves[0] = mem_alloc(PIECE_MAX);
    feed->halves[1] = mem_alloc(PIECE_MAX);
    mutex_init(&feed->mutex);
    cond_init(&feed->taken);
    if (feed->halves[0] && feed->halves[1] && thread_start(&feed->thread, "feed", run_feed, feed))
        return feed;
    destroy_feed(feed);
    return NULL;
}

enum feed_result feed_take(struct feed *feed, struct parker *parker, struct slice *ret_bytes,
                           int *ret_error)
{
    enum feed_result result = FEED_BYTES;
    mutex_lock(&feed->mutex);
    CHECK(!feed->is_abandoned && (!feed->parker || feed->parker == parker)); /* one takes */
    if (feed->len > 0) {
        *ret_bytes = slice_make(feed->halves[feed->at], feed->len);
        feed->at = 1 - feed->at;
        feed->len = 0;
        cond_signal(&feed->taken);
    } else if (feed->has_ended) {
        *ret_error = feed->error;
        result = feed->error == 0 ? FEED_END : FEED_FAILED;
    } else {
        feed->parker = parker;
        result = FEED_NOTHING;
    }
    mutex_unlock(&feed->mutex);
    return result;
}

void feed_free(struct feed *feed)
{
    if (!feed)
        return;
    mutex_lock(&feed->mutex);
    bool has_ended = feed->has_ended;
    feed->is_abandoned = !has_ended;
    feed->parker = NULL;
    cond_signal(&feed->taken);
    struct thread thread = feed->thread;
    mutex_unlock(&feed->mutex);
    if (!has_ended) {
        thread_detach(&thread);
        return;
    }
    thread_join(&thread);
    destroy_feed(feed);
}
