/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output: what a job wrote, as its record keeps it: standard output and standard error as frames in
 * the order in which they arrived, the first `max` bytes of each, and its exit code (contract
 * section 7, Jobs).
 *
 *      body     frames: 1 or 2 (the stream), its length as 4 bytes big-endian, bytes
 *      fields   Content-Type, Exit-Code, Command; Output-Cut: stdout, stderr, or both, where there
 *               was more
 *
 * Such an outcome has no HTTP status: 0.
 */
#ifndef PAWL_JOB_OUTPUT_H
#define PAWL_JOB_OUTPUT_H

#include "core/outcome.h"
#include "fiber/child.h"

#define OUTPUT_STREAMS 2 /* enum child_stream */

struct output {
    struct buf frames;
    size_t max; /* bytes kept of each stream */
    size_t kept[OUTPUT_STREAMS];
    bool is_cut[OUTPUT_STREAMS];
    size_t last; /* where the last frame begins */
};

void output_init(struct output *output, size_t max);
void output_fini(struct output *output);
/* Forgets what an attempt wrote, before the next one. */
void output_clear(struct output *output);

/* Adds what it wrote; what is beyond `max` is only noted. */
void output_add(struct output *output, enum child_stream stream, struct slice bytes);

/* What is kept of it, packed; one reference is the caller's. `command` is its command line, for
 * people; it may be empty. NULL: no memory. */
struct outcome *output_keep(const struct output *output, int exit_code, struct slice command,
                            struct compress *compress);

/* ---- what was kept ---- */

#define OUTPUT_NO_CODE (-1)

/* The exit code; OUTPUT_NO_CODE: it is none of a job (an operator's, say). */
int output_exit_code(const struct outcome *outcome);

/* Whether there was more of the stream. */
bool output_was_cut(const struct outcome *outcome, enum child_stream stream);

/* Takes the next frame off an unpacked body. False: there is none, or the rest is no frame. */
bool output_next(struct slice *body, enum child_stream *ret_stream, struct slice *ret_bytes);

#endif
