/* SPDX-License-Identifier: Apache-2.0 */
#include "job/output.h"

#include "base/check.h"
#include <assert.h>

#define HEAD_SIZE ((size_t)5)
#define FIELDS_MAX ((size_t)16 * 1024)
#define CODE_MOST 255

static const char *const names[OUTPUT_STREAMS] = {"stdout", "stderr"};
static_assert(CHILD_OUTPUT == 0 && CHILD_ERROR == OUTPUT_STREAMS - 1, "in that order");

void output_init(struct output *output, size_t max)
{
    CHECK(max <= UINT32_MAX);             /* so long a frame may become */
    size_t heads = HEAD_SIZE * (1 + max); /* streams may take turns with every byte */
    *output = (struct output){.frames = buf_make(OUTPUT_STREAMS * (max + heads)), .max = max};
}

void output_fini(struct output *output)
{
    buf_fini(&output->frames);
}

void output_clear(struct output *output)
{
    struct buf frames = output->frames;
    buf_clear(&frames);
    *output = (struct output){.frames = frames, .max = output->max};
}

/* ---- frames ---- */

static void write_length(char *head, size_t length)
{
    for (size_t i = 0; i < HEAD_SIZE - 1; i++)
        head[1 + i] = (char)(length >> 8 * (HEAD_SIZE - 2 - i) & 0xff);
}

static size_t read_length(const char *head)
{
    size_t length = 0;
    for (size_t i = 1; i < HEAD_SIZE; i++)
        length = length << 8 | (unsigned char)head[i];
    return length;
}

/* What follows bytes of its own stream goes into their frame. */
static void add_output_bytes(struct output *output, enum child_stream stream, struct slice bytes)
{
    struct buf *frames = &output->frames;
    bool goes_on = frames->len > 0 && frames->at[output->last] == (char)(stream + 1);
    char head[HEAD_SIZE] = {(char)(stream + 1)};
    size_t before = goes_on ? read_length(frames->at + output->last) : 0;
    size_t at = goes_on ? output->last : frames->len;
    if (!goes_on)
        buf_add(frames, head, sizeof head);
    buf_add_slice(frames, bytes);
    if (!buf_ok(frames))
        return;
    output->last = at;
    write_length(frames->at + at, before + bytes.len);
}

void output_add(struct output *output, enum child_stream stream, struct slice bytes)
{
    CHECK(stream < OUTPUT_STREAMS && output->kept[stream] <= output->max);
    struct slice kept = slice_first(bytes, output->max - output->kept[stream]);
    if (kept.len > 0)
        add_output_bytes(output, stream, kept);
    output->kept[stream] += kept.len;
    output->is_cut[stream] |= kept.len < bytes.len || !buf_ok(&output->frames);
}

bool output_next(struct slice *body, enum child_stream *ret_stream, struct slice *ret_bytes)
{
    if (body->len < HEAD_SIZE || (body->at[0] != 1 && body->at[0] != 2))
        return false;
    size_t length = read_length(body->at);
    struct slice rest = slice_skip(*body, HEAD_SIZE);
    if (rest.len < length)
        return false;
    *ret_stream = (enum child_stream)(body->at[0] - 1);
    *ret_bytes = slice_first(rest, length);
    *body = slice_skip(rest, length);
    return true;
}

/* ---- outcomes ---- */

/* Without memory for one stream the frames of both are lost. */
static bool lacks_stream(const struct output *output, enum child_stream stream)
{
    bool lost = !buf_ok(&output->frames) && output->kept[stream] > 0;
    return lost || output->is_cut[stream];
}

struct outcome *output_keep(const struct output *output, int exit_code, struct slice command,
                            struct compress *compress)
{
    CHECK(exit_code >= 0 && exit_code <= CODE_MOST); /* output_exit_code reads it again */
    BUF_AUTO struct buf fields = buf_make(FIELDS_MAX);
    bool cut_output = lacks_stream(output, CHILD_OUTPUT),
         cut_error = lacks_stream(output, CHILD_ERROR);
    buf_printf(&fields, "Content-Type: application/vnd.pawl.output\r\nExit-Code: %d\r\n",
               exit_code);
    if (command.len > 0)
        buf_printf(&fields, "Command: %.*s\r\n", SLICE_ARG(command));
    if (cut_output || cut_error)
        buf_printf(&fields, "Output-Cut: %s%s\r\n", cut_output && cut_error ? "stdout, " : "",
                   names[cut_error ? CHILD_ERROR : CHILD_OUTPUT]);
    struct slice body = buf_ok(&output->frames) ? buf_slice(&output->frames) : SLICE("");
    if (!buf_ok(&fields))
        return NULL;
    struct outcome *outcome = outcome_new(0, exit_code != 0, buf_slice(&fields), body);
    if (outcome)
        outcome_pack(outcome, compress);
    return outcome;
}

int output_exit_code(const struct outcome *outcome)
{
    uint64_t code;
    struct slice value = outcome_field(outcome->fields, SLICE("Exit-Code"));
    return value.at && slice_to_u64(value, CODE_MOST, &code) ? (int)code : OUTPUT_NO_CODE;
}

bool output_was_cut(const struct outcome *outcome, enum child_stream stream)
{
    struct slice rest = outcome_field(outcome->fields, SLICE("Output-Cut")), name;
    while (rest.len > 0 && slice_next(&rest, ',', &name))
        if (slice_eq(slice_trim(name), slice_of(names[stream])))
            return true;
    return false;
}
