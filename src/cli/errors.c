/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl errors`: the table of core/errors.h, for people and programs. */
#include "base/json/json.h"
#include "cli/command/command.h"
#include <stdio.h>

#define ROW_MAX ((size_t)4096)

static const char *yes_no(bool yes)
{
    return yes ? "yes" : "no";
}

/* What precedes the first dot. */
static struct slice error_category(const struct error_row *row)
{
    struct slice category;
    slice_cut(slice_of(row->code), '.', &category);
    return category;
}

static void print_error_json(const struct error_row *row)
{
    BUF_AUTO struct buf line = buf_make(ROW_MAX);
    buf_add_char(&line, '{');
    json_add_text(&line, "error_code", slice_of(row->code));
    json_add_text(&line, "category", error_category(row));
    json_add_i64(&line, "status", row->status);
    json_add_text(&line, "code", slice_of(row->short_code));
    json_add_bool(&line, "retryable", row->retryable);
    json_add_bool(&line, "safe_new_key", row->safe_new_key);
    json_add_i64(&line, "exit_code", row->exit_code);
    json_add_text(&line, "title", slice_of(row->title));
    json_add_text(&line, "hint", slice_of(row->hint));
    buf_add_char(&line, '}');
    printf("%.*s\n", SLICE_ARG(buf_slice(&line)));
}

static const char *retryable_word(const struct error_row *row)
{
    return error_is_by_policy(row) ? "policy" : yes_no(row->retryable);
}

static void print_row(const struct error_row *row)
{
    printf("%-42s %-6d %-9s %-8s %-4d %s\n", row->code, row->status, retryable_word(row),
           yes_no(row->safe_new_key), row->exit_code, row->hint);
}

static void print_all(bool json)
{
    void (*print)(const struct error_row *) = json ? print_error_json : print_row;
    if (!json)
        printf("%-42s %-6s %-9s %-8s %-4s %s\n", "ERROR_CODE", "STATUS", "RETRYABLE", "NEW KEY",
               "EXIT", "HINT");
    for (int i = ERROR_NONE + 1; i < ERROR_COUNT; i++)
        print(error_row((enum error)i));
    for (int i = 0; i < ERROR_FAMILY_COUNT; i++)
        print(error_family_row((enum error_family)i));
    if (!json)
        puts("\n" PAWL_ERRORS_NOTE);
}

/* The one that is named by its last word, as people and `error.code` do; NULL: none. */
static const struct error_row *find_by_last_word(struct slice word)
{
    for (int i = ERROR_NONE + 1; i < ERROR_COUNT; i++) {
        const struct error_row *row = error_row((enum error)i);
        if (slice_eq_nocase(word, slice_of(strrchr(row->code, '.') + 1)) ||
            slice_eq_nocase(word, slice_of(row->short_code)))
            return row;
    }
    return NULL;
}

static int no_such_error(const char *code)
{
    const struct error_row *meant = find_by_last_word(slice_of(code));
    fprintf(stderr, "pawl errors: there is no error `%s`; ", code);
    if (meant)
        fprintf(stderr, "did you mean `%s`?\n", meant->code);
    else
        fputs("`pawl errors` lists them\n", stderr);
    return EXIT_FINAL_ERROR;
}

static int print_one(const char *code, bool json)
{
    const struct error_row *row = error_find(slice_of(code));
    if (!row)
        return no_such_error(code);
    if (json) {
        print_error_json(row);
        return EXIT_DONE;
    }
    printf("%s: %s\n\n", row->code, row->title);
    printf("  HTTP status   %d\n", row->status);
    printf("  retryable     %s\n", retryable_word(row));
    printf("  safe new key  %s\n", yes_no(row->safe_new_key));
    printf("  exit code     %d\n\n%s\n", row->exit_code, row->hint);
    if (error_is_by_policy(row))
        puts("\n" PAWL_ERRORS_NOTE);
    return EXIT_DONE;
}

struct errors_options {
    bool json;
};

static int run_errors(const struct command *command, struct operands at)
{
    struct errors_options options = {.json = false};
    int code = command_read(command, &at, &options);
    if (code != EXIT_DONE)
        return code;
    if (at.n > 0)
        return print_one(at.at[0], options.json);
    print_all(options.json);
    return EXIT_DONE;
}

/* ---- the row ---- */

#define OPTIONS struct errors_options
const struct command command_errors = {
    .name = "errors",
    .summary = "list the errors that pawl responds with, and what to do about them",
    .synopsis = "[--json] [CODE]",
    .about = "Prints every `error_code`: its HTTP status, whether a retry under the same key can "
             "end differently, whether a new key is safe, the exit code of commands, and what the "
             "caller can do. A code that ends in `.*` stands for the codes of its family that have "
             "no row of their own. With --json each error is an object on a line of its own.",
    .operand = "CODE",
    .operands = {0, 1},
    .flags = FLAGS(FLAG_JSON(json)),
    .exits = {{EXIT_FINAL_ERROR, "no such error"}, {EXIT_USAGE, NULL}},
    .run = run_errors,
};
