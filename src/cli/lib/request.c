/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/lib/request.h"

#include "base/check.h"
#include "cli/lib/input.h"
#include "client/fields.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

void request_options_fini(struct request_options *options)
{
    buf_fini(&options->data);
    arena_fini(&options->arena);
    buf_fini(&options->answers);
}

void request_options_end(struct request_options *options, const char *url)
{
    CHECK(options->command && options->data.max > 0 && !options->request.url);
    options->request.url = url;
    options->request.dated = request_dates_key(options);
    options->request.body = buf_slice(&options->data);
}

/* ---- flags ---- */

/* Wherever the command runs that reads it later, it is this file. */
static int keep_file(struct request_options *options, const char *path)
{
    char real[PATH_MAX];
    if (!realpath(path, real))
        return command_misused(options->command, "cannot read %s: %s", path, strerror(errno));
    struct slice copy = arena_copy(&options->arena, slice_of(real));
    if (copy.at && headers_add(&options->request.headers, SLICE("@"), copy))
        return EXIT_DONE;
    return command_misused(options->command, "too many headers");
}

/* To its end, also of a pipe: `-H @<(secret-tool ...)`. */
static int take_file(struct request_options *options, const char *path)
{
    BUF_AUTO struct buf bytes = buf_make(0);
    struct slice problem = SLICE("the headers take too much memory");
    if (options->keeps_files)
        return keep_file(options, path);
    int code = input_read(options->command, path, &bytes);
    if (code != EXIT_DONE)
        return code;
    options->headers_file = path;
    struct slice lines = arena_copy(&options->arena, buf_slice(&bytes));
    if (lines.at && client_fields_add_lines(slice_of(path), lines, &options->arena,
                                            &options->request.headers, &problem))
        return EXIT_DONE;
    return command_misused(options->command, "%.*s", SLICE_ARG(problem));
}

int request_take_header(void *to, const char *text)
{
    struct request_options *options = to;
    if (text[0] == '@')
        return take_file(options, text + 1);
    struct slice name, value = slice_cut(slice_of(text), ':', &name);
    if (!value.at || !header_is_valid(name, value))
        return command_misused(options->command, "--header wants `Name: value` or @FILE");
    if (!headers_add(&options->request.headers, name, slice_trim(value)))
        return command_misused(options->command, "too many headers");
    return EXIT_DONE;
}

/* As curl does with a text file: line ends and NUL are left out. */
static void add_data_text(struct buf *data, struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] != '\r' && text.at[i] != '\n' && text.at[i] != '\0')
            buf_add_char(data, text.at[i]);
}

/* TEXT, or with an @ a file; several are joined by `between`. */
static int add_data(struct request_options *options, const char *text, const char *between,
                    void (*add)(struct buf *data, struct slice text))
{
    CHECK(options->data.max > 0);
    BUF_AUTO struct buf file = buf_make(0);
    bool is_file = text[0] == '@';
    int code = is_file ? input_read(options->command, text + 1, &file) : EXIT_DONE;
    if (code != EXIT_DONE)
        return code;
    if (options->request.has_body)
        buf_add_str(&options->data, between);
    options->request.has_body = true;
    if (is_file)
        add(&options->data, buf_slice(&file));
    else
        buf_add_str(&options->data, text);
    if (buf_ok(&options->data))
        return EXIT_DONE;
    return command_failed(options->command, EXIT_BAD_DATA, "the body is larger than %zu MiB",
                          CLIENT_BODY_MAX / (1024 * 1024));
}

int request_take_data(void *to, const char *text)
{
    return add_data(to, text, "&", add_data_text);
}

int request_take_binary(void *to, const char *text)
{
    return add_data(to, text, "&", buf_add_slice);
}

int request_take_json(void *to, const char *text)
{
    struct request_options *options = to;
    options->request.is_json = true;
    return add_data(to, text, "", buf_add_slice);
}

int request_take_user(void *to, const char *text)
{
    struct request_options *options = to;
    if (slice_find(slice_of(text), ':') < 0)
        return command_misused(options->command, "--user wants USER:PASSWORD");
    options->request.user = slice_of(text);
    return EXIT_DONE;
}

static int keep_answer(struct request_options *options, const char *flag, const char *text)
{
    CHECK(options->answers.max > 0);
    buf_printf(&options->answers, "%s=%s\n", flag, text);
    if (buf_ok(&options->answers))
        return EXIT_DONE;
    return command_misused(options->command, "too many of --%s", flag);
}

static int take_choice(struct request_options *options, const char *flag, const char *text,
                       enum retry_choice choice)
{
    if (!retry_choose(&options->choices, slice_of(text), choice))
        return command_misused(
            options->command, "--%s wants statuses %s, and none of them may have two meanings",
            flag,
            choice == RETRY_CHOICE_WAIT ? "of 4xx, such as 403,423, but not 408, 409, 425 and 429"
                                        : "from 300 on, such as 409,422");
    return keep_answer(options, flag, text);
}

int request_take_not_done(void *to, const char *text)
{
    struct request_options *options = to;
    struct condition condition;
    if (condition_read(slice_of(text), &condition) && condition_is_of_body(&condition) &&
        json_pointer_is_meant_wild(condition.place))
        return command_misused(options->command, "--not-done: '%.*s': pointers have no wildcards",
                               SLICE_ARG(condition.place));
    if (!retry_choose_not_done(&options->choices, slice_of(text)))
        return command_misused(options->command,
                               "--not-done wants `/POINTER=VALUE` or `Name: value`, %d at most",
                               RETRY_CONDITIONS_MOST);
    return keep_answer(options, "not-done", text);
}

int request_take_done(void *to, const char *text)
{
    return take_choice(to, "done", text, RETRY_CHOICE_DONE);
}

int request_take_later(void *to, const char *text)
{
    return take_choice(to, "later", text, RETRY_CHOICE_LATER);
}

int request_take_wait_on(void *to, const char *text)
{
    return take_choice(to, "wait-on", text, RETRY_CHOICE_WAIT);
}

int request_take_final_on(void *to, const char *text)
{
    return take_choice(to, "final-on", text, RETRY_CHOICE_FINAL);
}
