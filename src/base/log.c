/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time/timestamp.h"

#include <errno.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

/* A pipe that polls writable takes this much without blocking (POSIX's PIPE_BUF is at least 512,
 * Linux has 4096): so the thread notices log_free while the reader sleeps. A file has no reader. */
#define PIPE_PIECE ((size_t)4096)
#define FILE_PIECE ((size_t)64 * 1024)
/* Lines are gathered for so long, or until so many bytes wait (of a small ring, a quarter): a wake
 * and a write for each would cost more than all else about a line. */
#define GATHER_US (INT64_C(5) * CLOCK_US_PER_MS)
#define GATHER_BYTES ((size_t)64 * 1024)
#define POLL_MS 50
#define KEYED_BYTES 8 /* of a keyed hash: enough to tell values apart */
/* What log_free waits beyond the flush for a thread that a terminal or another writer holds. */
#define GIVE_UP_US (LOG_FLUSH_US + INT64_C(500000))

/*
 * The ring's bytes from `first` on, `used` of them, belong to the writer thread, which writes them
 * without the lock; all others belong to whoever holds the lock.
 */
struct log {
    struct mutex mutex;
    struct cond changed; /* lines came, enough came, log_free began, the thread ended */
    size_t first;
    size_t used;
    uint64_t dropped;
    int64_t stop_at_us; /* boot clock; CLOCK_NEVER until log_free */
    bool idle;          /* the thread waits for the first line */
    bool ended;
    int fd;
    bool is_file;  /* takes any piece without blocking on a reader */
    size_t enough; /* bytes at which the thread gathers no longer */
    size_t round;  /* of what it gathered: bytes not yet written; the thread's own */
    struct thread thread;
    size_t size;
    char ring[];
};

static uint64_t lines_in(struct slice bytes)
{
    uint64_t n = 0;
    for (size_t i = 0; i < bytes.len; i++)
        n += bytes.at[i] == '\n';
    return n;
}

/* Under the lock. */
static void await_lines(struct log *log)
{
    while (log->used == 0 && log->stop_at_us == CLOCK_NEVER) {
        log->idle = true;
        cond_wait(&log->changed, &log->mutex);
        log->idle = false;
    }
    int64_t until_us = clock_boot_us() + GATHER_US, now_us;
    while (log->used < log->enough && log->stop_at_us == CLOCK_NEVER &&
           (now_us = clock_boot_us()) < until_us)
        cond_wait_for(&log->changed, &log->mutex, until_us - now_us);
}

/* The next bytes that lie in one piece; empty: log_free and nothing more to write. */
static struct slice await_piece(struct log *log)
{
    size_t most = log->is_file ? FILE_PIECE : PIPE_PIECE;
    mutex_lock(&log->mutex);
    if (log->round == 0) {
        await_lines(log);
        log->round = log->used;
    }
    size_t n = log->size - log->first;
    if (n > log->round)
        n = log->round;
    if (n > most)
        n = most;
    mutex_unlock(&log->mutex);
    return slice_make(log->ring + log->first, n);
}

static void piece_done(struct log *log, size_t n, uint64_t dropped)
{
    mutex_lock(&log->mutex);
    CHECK(n <= log->used && n <= log->round);
    log->round -= n;
    log->first = (log->first + n) % log->size;
    log->used -= n;
    log->dropped += dropped;
    mutex_unlock(&log->mutex);
}

static bool is_late(struct log *log)
{
    mutex_lock(&log->mutex);
    bool late = log->stop_at_us != CLOCK_NEVER && clock_boot_us() >= log->stop_at_us;
    mutex_unlock(&log->mutex);
    return late;
}

/* False: log_free's time is up. */
static bool await_reader(struct log *log)
{
    while (!is_late(log)) {
        struct pollfd wait = {.fd = log->fd, .events = POLLOUT};
        int n = poll(&wait, 1, POLL_MS);
        CHECK(n >= 0 || errno == EINTR);
        if (n > 0)
            return true;
    }
    return false;
}

static void write_log_piece(struct log *log, struct slice piece)
{
    ssize_t n = write(log->fd, piece.at, piece.len);
    if (n >= 0)
        piece_done(log, (size_t)n, 0);
    else if (errno != EINTR && errno != EAGAIN)
        piece_done(log, piece.len, lines_in(piece));
}

static void log_main(void *argument)
{
    struct log *log = argument;
    struct slice piece;
    while ((piece = await_piece(log)).len > 0 && await_reader(log))
        write_log_piece(log, piece);
    mutex_lock(&log->mutex);
    log->ended = true;
    cond_broadcast(&log->changed);
    mutex_unlock(&log->mutex);
}

static void log_discard(struct log *log)
{
    cond_fini(&log->changed);
    mutex_fini(&log->mutex);
    mem_free(log);
}

struct log *log_new(int fd, size_t ring_bytes)
{
    CHECK(ring_bytes > 0);
    struct log *log = ring_bytes < SIZE_MAX / 2 ? mem_alloc(sizeof(struct log) + ring_bytes) : NULL;
    if (!log)
        return NULL;
    *log = (struct log){.fd = fd, .size = ring_bytes, .stop_at_us = CLOCK_NEVER};
    struct stat stat;
    log->is_file = fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode);
    log->enough = ring_bytes / 4 < GATHER_BYTES ? ring_bytes / 4 : GATHER_BYTES;
    mutex_init(&log->mutex);
    cond_init(&log->changed);
    if (thread_start(&log->thread, "log", log_main, log))
        return log;
    log_discard(log);
    return NULL;
}

static bool await_end(struct log *log)
{
    mutex_lock(&log->mutex);
    int64_t now_us = clock_boot_us();
    int64_t give_up_us = now_us + GIVE_UP_US;
    log->stop_at_us = now_us + LOG_FLUSH_US;
    cond_broadcast(&log->changed);
    while (!log->ended && (now_us = clock_boot_us()) < give_up_us)
        cond_wait_for(&log->changed, &log->mutex, give_up_us - now_us);
    bool ended = log->ended;
    mutex_unlock(&log->mutex);
    return ended;
}

void log_free(struct log *log)
{
    if (!log)
        return;
    if (!await_end(log)) {
        /* write() itself hangs: the thread keeps the log for the rest of the process. */
        thread_detach(&log->thread);
        return;
    }
    thread_join(&log->thread);
    log_discard(log);
}

void log_flush(struct log *log)
{
    if (log)
        (void)await_end(log);
}

static void ring_put(struct log *log, struct slice bytes)
{
    size_t at = (log->first + log->used) % log->size;
    size_t n = log->size - at < bytes.len ? log->size - at : bytes.len;
    memcpy(log->ring + at, bytes.at, n);
    memcpy(log->ring, bytes.at + n, bytes.len - n);
    log->used += bytes.len;
}

static void drop_one(struct log *log)
{
    mutex_lock(&log->mutex);
    log->dropped++;
    mutex_unlock(&log->mutex);
}

void log_write(struct log *log, struct slice line)
{
    if (!log)
        return;
    mutex_lock(&log->mutex);
    size_t before = log->used;
    if (line.len < log->size - log->used) {
        if (line.len)
            ring_put(log, line);
        ring_put(log, SLICE("\n"));
    } else {
        log->dropped++;
    }
    bool wake =
        log->used > before && (log->idle || (before < log->enough && log->used >= log->enough));
    if (wake)
        log->idle = false;
    mutex_unlock(&log->mutex);
    if (wake)
        cond_signal(&log->changed);
}

uint64_t log_dropped(struct log *log)
{
    if (!log)
        return 0;
    mutex_lock(&log->mutex);
    uint64_t dropped = log->dropped;
    mutex_unlock(&log->mutex);
    return dropped;
}

static const char *level_text(enum log_level level)
{
    static const char *const texts[] = {
#define X(name, text) [LOG_LEVEL_##name] = text,
        LOG_LEVELS(X)
#undef X
    };
    CHECK(level < sizeof texts / sizeof *texts);
    return texts[level];
}

void log_line_start(struct log_line *line, enum log_level level, const char *event)
{
    line->buf = buf_on(line->room, sizeof line->room, LOG_LINE_MAX);
    buf_add_str(&line->buf, "{\"time\":\"");
    CHECK(timestamp_print(&line->buf, clock_wall_us()));
    buf_add_char(&line->buf, '"');
    log_line_str(line, "level", slice_of(level_text(level)));
    log_line_str(line, "event", slice_of(event));
}

void log_line_str(struct log_line *line, const char *name, struct slice value)
{
    json_add_text(&line->buf, name, value);
}

void log_line_i64(struct log_line *line, const char *name, int64_t value)
{
    json_add_i64(&line->buf, name, value);
}

void log_line_bool(struct log_line *line, const char *name, bool value)
{
    json_add_bool(&line->buf, name, value);
}

void log_line_keyed(struct log_line *line, const char *name, const struct digest_key *key,
                    struct slice value)
{
    char hex[LOG_KEYED_SIZE];
    log_keyed_hex(name, key, value, hex);
    log_line_str(line, name, slice_of(hex));
}

void log_keyed_hex(const char *name, const struct digest_key *key, struct slice value,
                   char ret_hex[LOG_KEYED_SIZE])
{
    _Static_assert(2 * KEYED_BYTES + 1 == LOG_KEYED_SIZE, "the text has room");
    const struct slice parts[] = {slice_of(name), value};
    struct digest digest = digest_keyed(key, parts, 2);
    hex_encode(digest.bytes, KEYED_BYTES, ret_hex);
}

void log_line_end(struct log *log, struct log_line *line)
{
    buf_add_char(&line->buf, '}');
    if (buf_ok(&line->buf))
        log_write(log, buf_slice(&line->buf));
    else if (log)
        drop_one(log);
    buf_fini(&line->buf);
}
