/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command/help.h"

#include "base/buf.h"
#include "base/check.h"
#include "base/text/nearest.h"

#define COLUMNS 79
#define FLAG_COLUMN_MOST 26 /* a longer flag has a line to itself */
#define FLAG_TEXT_MAX 80
#define HELP_MAX ((size_t)4096)

/* Words, and where the next one goes. */
struct page {
    FILE *to;
    size_t indent;
    size_t column;
};

static void print_word(struct page *page, struct slice word)
{
    bool starts = page->column <= page->indent;
    if (!starts && page->column + 1 + word.len > COLUMNS) {
        fputc('\n', page->to);
        page->column = 0;
        starts = true;
    }
    if (starts)
        page->column += (size_t)fprintf(page->to, "%*s", (int)(page->indent - page->column), "");
    page->column += (size_t)fprintf(page->to, "%s%.*s", starts ? "" : " ", SLICE_ARG(word));
}

/* Prints `text` wrapped from `indent` on, of which `column` are taken; an empty line stays one. */
static void print_wrapped(FILE *to, const char *text, size_t indent, size_t column)
{
    struct page page = {to, indent, column};
    struct slice rest = slice_of(text), line, word;
    while (slice_next(&rest, '\n', &line)) {
        while (line.len > 0 && slice_next(&line, ' ', &word))
            print_word(&page, word);
        fputc('\n', to);
        page.column = 0;
    }
}

static void print_usage(FILE *to, const struct command *command)
{
    struct slice rest = slice_of(command->synopsis), form;
    for (const char *before = "usage:"; slice_next(&rest, '\n', &form); before = "      ")
        fprintf(to, "%s pawl %s %.*s\n", before, command->name, SLICE_ARG(form));
}

static size_t flag_text(const struct flag *flag, char text[FLAG_TEXT_MAX])
{
    char letter[] = {'-', flag->letter, ',', '\0'};
    int n = snprintf(text, FLAG_TEXT_MAX, "  %-3s --%s%s%s", flag->letter ? letter : "", flag->name,
                     flag->argument && !flag_is_optional(flag) ? " " : "",
                     flag->argument ? flag->argument : "");
    CHECK(n > 0 && n < FLAG_TEXT_MAX);
    return (size_t)n;
}

/* The column where the help of a command's flags begins. */
static size_t flag_column(const struct command *command)
{
    char text[FLAG_TEXT_MAX];
    size_t column = flag_text(&flag_help, text);
    for (const struct flag *flag = command->flags; flag && flag->name; flag++) {
        size_t wide = flag_text(flag, text);
        if (wide > column && wide <= FLAG_COLUMN_MOST)
            column = wide;
    }
    return column + 2;
}

static void print_flag(FILE *to, const struct flag *flag, size_t column)
{
    char text[FLAG_TEXT_MAX];
    size_t wide = flag_text(flag, text);
    fputs(text, to);
    if (wide + 2 > column) {
        fputc('\n', to);
        wide = 0;
    }
    BUF_AUTO struct buf help = buf_make(HELP_MAX);
    flag_add_help(flag, &help);
    buf_add_char(&help, '\0');
    print_wrapped(to, buf_ok(&help) ? help.at : flag->help, column, wide);
}

static void print_exits(FILE *to, const struct command *command)
{
    BUF_AUTO struct buf text = buf_make(HELP_MAX);
    buf_printf(&text, "exit codes: %d %s", EXIT_DONE, exit_code_text(EXIT_DONE));
    for (const struct command_exit *exit = command->exits; exit->code != EXIT_DONE; exit++)
        buf_printf(&text, "; %d %s", exit->code,
                   exit->when ? exit->when : exit_code_text(exit->code));
    buf_add_char(&text, '\0');
    fputc('\n', to);
    print_wrapped(to, buf_ok(&text) ? text.at : "", 0, 0);
}

static void print_commands(FILE *to, const struct command *group)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        const struct command *command = command_at(i);
        if (command_is_in(command, group))
            fprintf(to, "  %-8s %s\n", command_word(command), command->summary);
    }
}

void help_of_command(FILE *to, const struct command *command)
{
    print_usage(to, command);
    fputc('\n', to);
    print_wrapped(to, command->about, 0, 0);
    fputc('\n', to);
    if (command->is_group) {
        print_commands(to, command);
        fprintf(to, "\n`pawl help %s SUBCOMMAND` describes a command.\n", command->name);
        return;
    }
    size_t column = flag_column(command);
    for (const struct flag *flag = command->flags; flag && flag->name; flag++)
        print_flag(to, flag, column);
    print_flag(to, &flag_help, column);
    print_exits(to, command);
}

void help_of_pawl(FILE *to)
{
    fputs("pawl makes operations happen once: retries, double clicks and replays get the first "
          "response.\n\nusage: pawl COMMAND [OPTIONS]\n\n",
          to);
    print_commands(to, NULL);
    fputs("\n`pawl help COMMAND` describes a command.\n", to);
}

/* The options that stand where a command does. */
static int no_such_option(const char *word)
{
    static const char *const names[] = {"--help", "--version"};
    struct nearest nearest = {.given = slice_of(word)};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        nearest_try(&nearest, slice_of(names[i]));
    struct slice meant = nearest_name(&nearest);
    fprintf(stderr, "pawl: there is no option %s", word);
    if (meant.at)
        fprintf(stderr, "; did you mean %.*s? See `pawl help`\n", SLICE_ARG(meant));
    else
        fputs("; see `pawl help`\n", stderr);
    return EXIT_USAGE;
}

int help_no_such_command(const struct command *group, const char *word)
{
    CHECK(!group || group->is_group);
    const char *of = group ? group->name : "", *space = group ? " " : "";
    struct nearest nearest = {.given = slice_of(word)};
    if (!group && *word == '-')
        return no_such_option(word);
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        const struct command *command = command_at(i);
        if (command_is_in(command, group))
            nearest_try(&nearest, slice_of(command_word(command)));
    }
    struct slice meant = nearest_name(&nearest);
    fprintf(stderr, "pawl%s%s: there is no command `%s`", space, of, word);
    if (meant.at)
        fprintf(stderr, "; did you mean `%.*s`?", SLICE_ARG(meant));
    fprintf(stderr, "%s `pawl help%s%s`\n", meant.at ? " See" : "; see", space, of);
    return EXIT_USAGE;
}

/* ---- `pawl help` ---- */

static int run_help(const struct command *of_help, struct operands at)
{
    size_t words = 0;
    int code = command_read(of_help, &at, NULL);
    if (code != EXIT_DONE)
        return code;
    const struct command *command = command_find(at.at, (size_t)at.n, &words);
    if (words < (size_t)at.n && (!command || command->is_group))
        return help_no_such_command(command, at.at[words]);
    if (words < (size_t)at.n)
        return command_misused("help", "`%s` has no subcommands", command->name);
    if (command)
        help_of_command(stdout, command);
    else
        help_of_pawl(stdout);
    return EXIT_DONE;
}

const struct command command_help = {
    .name = "help",
    .summary = "describe a command and its options",
    .synopsis = "[COMMAND [SUBCOMMAND]]",
    .about =
        "Prints the help of a command, as its --help does; without COMMAND, the list of commands.",
    .operand = "COMMAND",
    .operands = {0, 2},
    .exits = {{EXIT_USAGE, NULL}},
    .run = run_help,
};
