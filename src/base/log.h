/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines of programs: one JSON object a line, written by a thread of its own.
 *
 * Threads that serve put lines into a bounded ring and never wait for whoever reads the log: a line
 * that finds no room is dropped and counted. A NULL log discards. Library code does not log.
 */
#ifndef PAWL_BASE_LOG_H
#define PAWL_BASE_LOG_H

#include "base/buf.h"
#include "base/crypto/digest.h"

#define LOG_LINE_MAX (16 * 1024)        /* bytes; a longer line is dropped and counted */
#define LOG_FLUSH_US (INT64_C(2000000)) /* how long log_free waits for a slow reader */

#define LOG_LEVELS(X)                                                                              \
    X(DEBUG, "debug")                                                                              \
    X(INFO, "info")                                                                                \
    X(WARN, "warn")                                                                                \
    X(ERROR, "error")

enum log_level {
#define X(name, text) LOG_LEVEL_##name,
    LOG_LEVELS(X)
#undef X
};

struct log;

/* A log onto `fd` (not owned; it must stay open) with `ring_bytes` (>= 1) of waiting lines. Starts
 * a thread. NULL: no memory or no thread. SIGPIPE must be ignored where `fd` may lose its reader.
 */
struct log *log_new(int fd, size_t ring_bytes);

/* Writes what is queued, for LOG_FLUSH_US at most, and drops the rest. No log_write may run. */
void log_free(struct log *log);

/* Writes what is queued as log_free does, and leaves the log to threads that still write: for a
 * process that ends without waiting for them. Their lines are lost. Accepts NULL. */
void log_flush(struct log *log);

/* Queues `line` (without a newline; one is added). Any thread; never waits for the reader. */
void log_write(struct log *log, struct slice line);

/* Lines lost so far: no room, too long, no memory, or the write failed. */
uint64_t log_dropped(struct log *log);

/* ---- building a line ---- */

struct log_line {
    struct buf buf;
    char room[1024]; /* its first bytes: most lines never grow */
};

/* Begins {"time":"...","level":"...","event":"..."; `event` and all names are literals. Every
 * start has its log_line_end. */
void log_line_start(struct log_line *line, enum log_level level, const char *event);

/* Adds a member. Values from outside are escaped. */
void log_line_str(struct log_line *line, const char *name, struct slice value);
void log_line_i64(struct log_line *line, const char *name, int64_t value);
void log_line_bool(struct log_line *line, const char *name, bool value);
/* A keyed hash in place of a value that the log must not show: 16 hex digits, by which lines about
 * the same value are found. */
void log_line_keyed(struct log_line *line, const char *name, const struct digest_key *key,
                    struct slice value);

/* The same hash as text. */
#define LOG_KEYED_SIZE 17
void log_keyed_hex(const char *name, const struct digest_key *key, struct slice value,
                   char ret_hex[LOG_KEYED_SIZE]);

/* Queues the line and frees it. */
void log_line_end(struct log *log, struct log_line *line);

#endif
