/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines, read by the table. The one user of getopt_long. */
#include "base/check.h"
#include "base/clock.h"
#include "base/text/nearest.h"
#include "base/time/duration.h"
#include "base/time/timestamp.h"
#include "cli/command/command.h"
#include "cli/command/help.h"
#include "cli/command/profile.h"
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

#define LONG_BASE 256 /* getopt_long returns this and the flag's place in the row */
#define LETTERS_MAX (COMMAND_FLAGS_MAX * 2 + 4)
#define WANTED_MAX ((size_t)1024)
#define SECONDS_MOST 1000000

/* The table's row in getopt's terms. */
struct grammar {
    const struct command *command;
    size_t n_flags; /* behind them is --help */
    struct option longs[COMMAND_FLAGS_MAX + 2];
    char letters[LETTERS_MAX];
};

static void add_grammar_flag(struct grammar *grammar, size_t i, const struct flag *flag)
{
    char *end = grammar->letters + strlen(grammar->letters);
    int has = flag_is_optional(flag) ? optional_argument
              : flag->argument       ? required_argument
                                     : no_argument;
    grammar->longs[i] = (struct option){flag->name, has, NULL, LONG_BASE + (int)i};
    if (flag->letter)
        *end++ = flag->letter;
    if (flag->letter && flag->argument)
        *end++ = ':';
    *end = '\0';
}

/* What command.h promises of a flag: a member that fits its form, and bounds that fit the member.
 */
static void check_flag(const struct flag *flag)
{
    enum flag_kind kind = flag->kind;
    bool is_taken = kind == FLAG_IS_TAKEN;
    CHECK(flag->help && strlen(flag->name) > 1);
    CHECK(!flag->take == !is_taken);
    CHECK(!flag->argument == (kind == FLAG_IS_SET));
    CHECK(flag->least >= 0 && flag->least <= flag->most);
    CHECK(flag->form == TAKES_SPAN || !flag_is_optional(flag));
    switch (flag->form) {
    case TAKES_ANY:
        CHECK(is_taken || kind == FLAG_IS_SET || kind == FLAG_IS_TEXT || kind == FLAG_IS_SLICE);
        return;
    case TAKES_LIST:
        CHECK(is_taken || kind == FLAG_IS_TEXTS || kind == FLAG_IS_HEADERS);
        CHECK(kind != FLAG_IS_TEXTS || (flag->most > 0 && flag->most <= FLAG_TEXTS_MAX));
        return;
    case TAKES_INT:
        CHECK(kind == FLAG_IS_INT || kind == FLAG_IS_I64 || kind == FLAG_IS_SIZE);
        CHECK(kind != FLAG_IS_INT || flag->most <= INT_MAX);
        return;
    case TAKES_WORD:
    case TAKES_PROFILE:
        CHECK(kind == FLAG_IS_CHOICE && !flag->words == (flag->form != TAKES_WORD));
        return;
    case TAKES_SPAN:
    case TAKES_SECONDS:
    case TAKES_TIME:
        CHECK(kind == FLAG_IS_I64);
        return;
    }
    UNREACHABLE();
}

static void check_row(const struct command *command)
{
    CHECK(!command->is_group);
    CHECK(command->operands.least >= 0 && command->operands.least <= command->operands.most);
    CHECK(!command->operand == (command->operands.most == 0));
    CHECK(!command->needs_first || (command->flags && command->flags[0].argument));
    CHECK(!command->options == (command->size == 0));
    for (const struct flag *flag = command->flags; flag && flag->name; flag++)
        check_flag(flag);
}

static void make_grammar(const struct command *command, struct grammar *ret_grammar)
{
    size_t n = 0;
    *ret_grammar = (struct grammar){.command = command, .letters = ":"};
    if (command->runs_other)
        memcpy(ret_grammar->letters, "+:", sizeof "+:");
    for (const struct flag *flag = command->flags; flag && flag->name; flag++) {
        CHECK(n < COMMAND_FLAGS_MAX);
        add_grammar_flag(ret_grammar, n++, flag);
    }
    ret_grammar->n_flags = n;
    add_grammar_flag(ret_grammar, n, &flag_help);
}

static const struct flag *grammar_flag(const struct grammar *grammar, size_t i)
{
    return i < grammar->n_flags ? &grammar->command->flags[i] : &flag_help;
}

/* What getopt_long returned, as the place of a flag. */
static size_t find_flag(const struct grammar *grammar, int c)
{
    size_t i = 0;
    while (c != LONG_BASE + (int)i && c != grammar_flag(grammar, i)->letter)
        CHECK(i++ < grammar->n_flags);
    return i;
}

/* ---- complaints ---- */

int command_failed(const char *command, enum exit_code code, const char *format, ...)
{
    va_list arguments;
    CHECK(code != EXIT_DONE);
    fprintf(stderr, "pawl %s: ", command);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return (int)code;
}

int command_misused(const char *command, const char *format, ...)
{
    va_list arguments;
    fprintf(stderr, "pawl %s: ", command);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    bool is_question = format[strlen(format) - 1] == '?';
    fprintf(stderr, "%s `pawl %s -h`\n", is_question ? " See" : "; see", command);
    return EXIT_USAGE;
}

static int no_such_flag(const struct grammar *grammar, const char *text)
{
    struct slice name;
    size_t prefixed = 0;
    slice_cut(slice_of(text + 2), '=', &name);
    struct nearest nearest = {.given = name};
    for (const struct option *option = grammar->longs; option->name; option++) {
        nearest_try(&nearest, slice_of(option->name));
        prefixed += slice_starts(slice_of(option->name), name);
    }
    if (prefixed > 1)
        return command_misused(grammar->command->name, "--%.*s is ambiguous", SLICE_ARG(name));
    struct slice meant = nearest_name(&nearest);
    if (meant.at)
        return command_misused(grammar->command->name,
                               "there is no option --%.*s; did you mean --%.*s?", SLICE_ARG(name),
                               SLICE_ARG(meant));
    return command_misused(grammar->command->name, "there is no option --%.*s", SLICE_ARG(name));
}

/* `code`: '?' or ':', as getopt_long returned it. */
static int refuse_flag(const struct grammar *grammar, int code, char **argv)
{
    const char *command = grammar->command->name, *text = argv[optind - 1];
    if (code == ':' && optopt >= LONG_BASE)
        return command_misused(command, "%s needs a value", text);
    if (code == ':')
        return command_misused(command, "-%c needs a value", optopt);
    if (optopt == 0)
        return no_such_flag(grammar, text);
    if (optopt >= LONG_BASE)
        return command_misused(command, "--%s takes no value",
                               grammar_flag(grammar, (size_t)(optopt - LONG_BASE))->name);
    return command_misused(command, "there is no option -%c", optopt);
}

/* What the value of a flag must be. */
static void add_wanted(const struct flag *flag, struct buf *buf)
{
    switch (flag->form) {
    case TAKES_ANY:
    case TAKES_LIST:
    case TAKES_PROFILE: /* profile_find explains it */
        break;
    case TAKES_WORD:
        buf_add_str(buf, "must be ");
        flag_add_words(flag, buf);
        return;
    case TAKES_INT:
        buf_printf(buf, "must be %lld to %lld", (long long)flag->least, (long long)flag->most);
        return;
    case TAKES_SPAN:
        buf_printf(buf, "wants a duration, such as 10m%s%s%s", flag->least == 0 ? ", or 0" : "",
                   flag->words ? ", or " : "", flag->words ? flag->words : "");
        return;
    case TAKES_SECONDS:
        buf_add_str(buf, "wants seconds, such as 2.5, or a duration, such as 500ms");
        return;
    case TAKES_TIME:
        buf_add_str(buf, "wants a time, such as 2026-01-31T12:00:00Z");
        return;
    }
    UNREACHABLE();
}

static int refuse_value(const struct grammar *grammar, const struct flag *flag, const char *text)
{
    BUF_AUTO struct buf wanted = buf_make(WANTED_MAX);
    add_wanted(flag, &wanted);
    return command_misused(grammar->command->name, "--%s%s %.*s, not `%s`", flag->name,
                           flag_is_optional(flag) ? "=D" : "", SLICE_ARG(buf_slice(&wanted)), text);
}

static int refuse_operands(const struct grammar *grammar, const struct operands *at)
{
    const struct command *command = grammar->command;
    if (at->n < command->operands.least)
        return command_misused(command->name, "needs a %s", command->operand);
    return command_misused(command->name, "unexpected argument `%s`",
                           at->at[command->operands.most]);
}

/* ---- reading ---- */

/* Of two values another one could count only the last. */
static bool may_be_repeated(const struct flag *flag)
{
    return !flag->argument || flag->form == TAKES_LIST;
}

/* Seconds, which may have a fraction, as curl takes them; or a duration. */
static bool read_seconds(struct slice text, int64_t *ret_us)
{
    struct slice whole, fraction = slice_cut(text, '.', &whole);
    uint64_t seconds = 0, part = 0;
    bool is_seconds =
        slice_to_u64(whole, SECONDS_MOST, &seconds) &&
        (!fraction.at || (fraction.len <= 6 && slice_to_u64(fraction, 999999, &part)));
    for (size_t n = fraction.len; is_seconds && n < 6 && fraction.at; n++)
        part *= 10;
    *ret_us = (int64_t)(seconds * CLOCK_US_PER_S + part);
    return (is_seconds || duration_parse(text, ret_us)) && *ret_us > 0;
}

/* What is left out is forever, too. */
static bool read_flag_span(const struct flag *flag, struct slice text, int64_t *ret_us)
{
    bool is_word = flag->words && slice_eq(text, slice_of(flag->words));
    *ret_us = CLOCK_NEVER;
    return !text.at || is_word ||
           (duration_parse(text, ret_us) && *ret_us >= flag->least && *ret_us <= flag->most);
}

/* Of 1970 the microsecond behind its beginning: 0 is no time. */
static bool read_time(struct slice text, int64_t *ret_us)
{
    bool is_time = timestamp_parse(text, ret_us) && *ret_us >= 0;
    *ret_us += *ret_us == 0;
    return is_time;
}

/* The number that the text is, where it is one. */
static bool read_number(const struct flag *flag, struct slice text, int64_t *ret_number)
{
    uint64_t number = 0;
    switch (flag->form) {
    case TAKES_ANY:
    case TAKES_LIST:
    case TAKES_PROFILE:
        return true;
    case TAKES_WORD:
        *ret_number = slice_item(slice_of(flag->words), '|', text) + 1;
        return *ret_number > 0;
    case TAKES_INT:
        *ret_number = slice_to_u64(text, (uint64_t)flag->most, &number) ? (int64_t)number : -1;
        return *ret_number >= flag->least;
    case TAKES_SPAN:
        return read_flag_span(flag, text, ret_number);
    case TAKES_SECONDS:
        return read_seconds(text, ret_number);
    case TAKES_TIME:
        return read_time(text, ret_number);
    }
    UNREACHABLE();
}

static void put_value(enum flag_kind kind, const char *text, int64_t number, void *to)
{
    switch (kind) {
    case FLAG_IS_TAKEN:
    case FLAG_IS_TEXTS:
    case FLAG_IS_HEADERS:
        break;
    case FLAG_IS_SET:
        *(bool *)to = true;
        return;
    case FLAG_IS_TEXT:
        *(const char **)to = text;
        return;
    case FLAG_IS_SLICE:
        *(struct slice *)to = slice_of(text);
        return;
    case FLAG_IS_INT:
        *(int *)to = (int)number;
        return;
    case FLAG_IS_I64:
        *(int64_t *)to = number;
        return;
    case FLAG_IS_SIZE:
        *(size_t *)to = (size_t)number;
        return;
    case FLAG_IS_CHOICE:
        *(unsigned *)to = (unsigned)number;
        return;
    }
    UNREACHABLE();
}

static int add_flag_text(const struct grammar *grammar, const struct flag *flag,
                         struct flag_texts *to)
{
    if (to->n == (size_t)flag->most)
        return command_misused(grammar->command->name, "too many of --%s: at most %zu", flag->name,
                               to->n);
    to->at[to->n++] = optarg;
    return EXIT_DONE;
}

static int add_header(const struct grammar *grammar, const struct flag *flag, struct headers *to)
{
    struct slice name, value = slice_cut(slice_of(optarg), ':', &name);
    if (!value.at || !header_is_valid(name, value))
        return command_misused(grammar->command->name, "--%s wants `Name: value`", flag->name);
    if (!headers_add(to, name, slice_trim(value)))
        return command_misused(grammar->command->name, "too many headers");
    return EXIT_DONE;
}

/* Takes the value of a flag to its place. `word`: the last one that was read. */
static int take_flag_value(const struct grammar *grammar, const struct flag *flag, const char *word,
                           void *options)
{
    void *to = (char *)options + flag->offset;
    int64_t number = 0;
    if (optarg == word && strcmp(word, "--") == 0)
        return command_misused(grammar->command->name,
                               "--%s needs a value (an empty variable?); for `--` itself write "
                               "--%s=--",
                               flag->name, flag->name);
    if (flag->kind == FLAG_IS_TAKEN)
        return flag->take(to, optarg);
    if (flag->kind == FLAG_IS_TEXTS)
        return add_flag_text(grammar, flag, to);
    if (flag->kind == FLAG_IS_HEADERS)
        return add_header(grammar, flag, to);
    if (flag->form == TAKES_PROFILE)
        return profile_find(grammar->command->name, optarg, to);
    if (!read_number(flag, slice_of(optarg), &number))
        return refuse_value(grammar, flag, optarg);
    put_value(flag->kind, optarg, number, to);
    return EXIT_DONE;
}

/* `--name` or `--name=value`. */
static bool is_flag(const char *text, const struct flag *flag)
{
    struct slice name;
    (void)slice_cut(slice_of(text), '=', &name);
    return slice_starts(name, SLICE("--")) && slice_eq(slice_skip(name, 2), slice_of(flag->name));
}

/* What is complained of once all of the line was read. */
static int review_command_line(const struct grammar *grammar, bool has_needed,
                               const struct operands *at)
{
    const struct command *command = grammar->command;
    if (at->n < command->operands.least || at->n > command->operands.most)
        return refuse_operands(grammar, at);
    if (has_needed)
        return EXIT_DONE;
    const struct flag *needed = &command->flags[0];
    for (int i = 1; i < at->n; i++)
        if (is_flag(at->at[i], needed))
            return command_misused(command->name,
                                   "--%s stands behind `%s`, and so belongs to that; options of "
                                   "pawl come before it",
                                   needed->name, at->at[0]);
    return command_misused(command->name, "needs --%s %s, %s", needed->name, needed->argument,
                           needed->help);
}

int command_read(const struct command *command, struct operands *at, void *options)
{
    struct grammar grammar;
    bool seen[COMMAND_FLAGS_MAX + 1] = {false};
    int c;
    CHECK(at->n > 0);
    check_row(command);
    make_grammar(command, &grammar);
    opterr = 0;
    while ((c = getopt_long(at->n, at->at, grammar.letters, grammar.longs, NULL)) != -1) {
        if (c == '?' || c == ':')
            return refuse_flag(&grammar, c, at->at);
        size_t i = find_flag(&grammar, c);
        const struct flag *flag = grammar_flag(&grammar, i);
        if (flag == &flag_help) {
            help_of_command(stdout, command);
            return COMMAND_ENDED;
        }
        if (seen[i] && !may_be_repeated(flag))
            return command_misused(command->name, "--%s is given twice", flag->name);
        seen[i] = true;
        int code = take_flag_value(&grammar, flag, at->at[optind - 1], options);
        if (code != EXIT_DONE)
            return code;
    }
    *at = (struct operands){at->n - optind, at->at + optind};
    return review_command_line(&grammar, seen[0] || !command->needs_first, at);
}
