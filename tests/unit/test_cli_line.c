/* SPDX-License-Identifier: Apache-2.0 */
/* A command line, read by its row into options: each kind of value, its bounds, what is refused. */
#include "cli/command/command.h"
#include "core/retry/retry.h"

#include <getopt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SAID_SIZE 4096
#define WORDS_MOST 8
#define WORD_SIZE 64

struct line_options {
    bool quiet;
    const char *text;
    struct slice slice;
    struct flag_texts texts;
    struct headers headers;
    int few;
    int64_t span;
    int64_t seconds;
    int64_t moment;
    int64_t wait;
    size_t size;
    unsigned word;
    enum retry_profile profile;
    int taken;
};

static int take_length(void *member, const char *text)
{
    *(int *)member = (int)strlen(text);
    return strcmp(text, "bad") == 0 ? EXIT_BAD_DATA : EXIT_DONE;
}

#define OPTIONS struct line_options
static const struct command every_kind = {
    .name = "try",
    .operand = "URL",
    .operands = {1, 2},
    .flags = FLAGS(
        SWITCH(quiet, "quiet", 'q', ""), FLAG(text, "text", 't', "TEXT", ANY, ""),
        FLAG(slice, "slice", 0, "TEXT", ANY, ""), FLAG(texts, "texts", 0, "TEXT", LIST(2), ""),
        FLAG(headers, "header", 'H', "H", LIST(0), ""), FLAG(few, "few", 0, "N", INT(1, 5), ""),
        FLAG(span, "span", 0, "D", SPAN_OR("none", 1, FOREVER - 1), ""),
        FLAG(seconds, "seconds", 0, "S", SECONDS, ""), FLAG(moment, "moment", 0, "T", TIME, ""),
        FLAG(wait, "wait", 0, "[=D]", SPAN(0, FOREVER), ""),
        FLAG(size, "size", 0, "N", INT(0, 1000000), ""),
        FLAG(word, "word", 0, "W", WORDS("red|green"), ""),
        FLAG(profile, "profile", 0, "P", PROFILE, ""),
        FLAG_BY(taken, take_length, "taken", 0, "TEXT", ANY, "")),
};
static const struct command needing = {
    .name = "need",
    .operand = "CMD",
    .operands = {1, 9},
    .runs_other = true,
    .needs_first = true,
    .flags = FLAGS(FLAG(text, "key", 0, "KEY", ANY, "its name"), SWITCH(quiet, "quiet", 'q', "")),
};

/* Reads `words` behind the command's name; `said` gets what it complained of. */
static int read_words(const struct command *command, const char *const *words,
                      struct line_options *ret_options, char said[SAID_SIZE],
                      struct operands *ret_at)
{
    static char copies[WORDS_MOST][WORD_SIZE];
    static char *argv[WORDS_MOST + 1];
    FILE *file = tmpfile();
    int before = dup(STDERR_FILENO), n = 1;
    assert_non_null(file);
    argv[0] = copies[0];
    snprintf(copies[0], WORD_SIZE, "%s", command->name);
    for (; n < WORDS_MOST && words[n - 1]; n++) {
        snprintf(copies[n], WORD_SIZE, "%s", words[n - 1]);
        argv[n] = copies[n];
    }
    argv[n] = NULL;
    *ret_at = (struct operands){n, argv};
    *ret_options = (struct line_options){.quiet = false};
    optind = 0; /* getopt begins anew */
    fflush(stderr);
    dup2(fileno(file), STDERR_FILENO);
    int code = command_read(command, ret_at, ret_options);
    fflush(stderr);
    dup2(before, STDERR_FILENO);
    close(before);
    rewind(file);
    said[fread(said, 1, SAID_SIZE - 1, file)] = '\0';
    fclose(file);
    return code;
}

static const struct line_options *read_well(const char *const *words)
{
    static struct line_options options;
    struct operands at;
    char said[SAID_SIZE];
    assert_int_equal(read_words(&every_kind, words, &options, said, &at), EXIT_DONE);
    assert_string_equal(said, "");
    return &options;
}
#define READ(...) read_well((const char *const[]){__VA_ARGS__, "URL", NULL})

static void each_kind_of_value_goes_to_its_member(void **state)
{
    (void)state;
    const struct line_options *got = READ("-q", "-t", "abc", "--slice=x y", "--taken", "four");
    assert_true(got->quiet);
    assert_string_equal(got->text, "abc");
    assert_true(slice_eq(got->slice, SLICE("x y")));
    assert_int_equal(got->taken, 4);
    got = READ("--few=5", "--size", "1000000", "--word=green", "--profile", "webhook");
    assert_int_equal(got->few, 5);
    assert_int_equal(got->size, 1000000);
    assert_int_equal(got->word, 2);
    assert_int_equal(got->profile, RETRY_PROFILE_webhook);
    got = READ("--texts", "a", "--texts=b", "-H", "One: 1", "--header=Two:2");
    assert_int_equal(got->texts.n, 2);
    assert_string_equal(got->texts.at[1], "b");
    assert_int_equal(got->headers.n, 2);
}

static void times_are_microseconds(void **state)
{
    static const struct {
        const char *flag;
        int64_t us;
    } rows[] = {
        {"--span=1s", 1000000},
        {"--span=none", CLOCK_NEVER},
        {"--seconds=2.5", 2500000},
        {"--seconds=0.000001", 1},
        {"--seconds=500ms", 500000},
        {"--wait", CLOCK_NEVER},
        {"--wait=0", 0},
        {"--wait=forever", CLOCK_NEVER},
        {"--moment=1970-01-01T00:00:00Z", 1},
        {"--moment=1970-01-01T00:01:00Z", 60000000},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct line_options *got = READ(rows[i].flag);
        assert_int_equal(got->span + got->seconds + got->moment + got->wait, rows[i].us);
    }
}

static void what_is_out_of_bounds_is_refused(void **state)
{
    static const struct {
        const char *flag, *said;
    } rows[] = {
        {"--few=0", "--few must be 1 to 5, not `0`"},
        {"--few=6", "--few must be 1 to 5, not `6`"},
        {"--few=-1", "--few must be 1 to 5, not `-1`"},
        {"--few=99999999999999999999", "--few must be 1 to 5"},
        {"--size=1000001", "--size must be 0 to 1000000"},
        {"--span=0", "--span wants a duration, such as 10m, or none, not `0`"},
        {"--span=forever", "--span wants a duration"},
        {"--wait=soon", "--wait=D wants a duration, such as 10m, or 0, not `soon`"},
        {"--seconds=0", "--seconds wants seconds, such as 2.5, or a duration"},
        {"--seconds=1000001", "--seconds wants seconds"},
        {"--seconds=0.0000001", "--seconds wants seconds"},
        {"--moment=1969-12-31T23:59:59Z", "--moment wants a time"},
        {"--moment=today", "--moment wants a time, such as 2026-01-31T12:00:00Z, not `today`"},
        {"--word=blue", "--word must be red or green, not `blue`"},
        {"--word=red|green", "--word must be red or green"},
        {"--profile=webhooks", "there is no profile `webhooks`; did you mean `webhook`?"},
        {"--header=no colon", "--header wants `Name: value`"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static struct line_options options;
        struct operands at;
        char said[SAID_SIZE];
        const char *const words[] = {rows[i].flag, "URL", NULL};
        assert_int_equal(read_words(&every_kind, words, &options, said, &at), EXIT_USAGE);
        assert_non_null(strstr(said, rows[i].said));
        assert_int_equal(strncmp(said, "pawl try: ", 10), 0);
    }
}

static void what_is_no_line_of_the_command_is_refused(void **state)
{
    static const struct {
        const char *words[5];
        int code;
        const char *said;
    } rows[] = {
        {{NULL}, EXIT_USAGE, "needs a URL"},
        {{"A", "B", "C"}, EXIT_USAGE, "unexpected argument `C`"},
        {{"--quite", "A"}, EXIT_USAGE, "no option --quite; did you mean --quiet?"},
        {{"--s", "A"}, EXIT_USAGE, "--s is ambiguous"},
        {{"-x", "A"}, EXIT_USAGE, "there is no option -x"},
        {{"--quiet=1", "A"}, EXIT_USAGE, "--quiet takes no value"},
        {{"A", "--text"}, EXIT_USAGE, "--text needs a value"},
        {{"A", "-t"}, EXIT_USAGE, "-t needs a value"},
        {{"--text", "--", "A"}, EXIT_USAGE, "--text needs a value (an empty variable?)"},
        {{"-t", "a", "--text=b", "A"}, EXIT_USAGE, "--text is given twice"},
        {{"--few=1", "--few=1", "A"}, EXIT_USAGE, "--few is given twice"},
        {{"--texts=a", "--texts=b", "--texts=c"}, EXIT_USAGE, "too many of --texts: at most 2"},
        {{"--taken=bad", "A"}, EXIT_BAD_DATA, ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static struct line_options options;
        struct operands at;
        char said[SAID_SIZE];
        assert_int_equal(read_words(&every_kind, rows[i].words, &options, said, &at), rows[i].code);
        assert_non_null(strstr(said, rows[i].said));
    }
}

static void what_may_be_repeated_is(void **state)
{
    (void)state;
    const struct line_options *got = READ("-q", "--quiet", "--text=--");
    assert_true(got->quiet);
    assert_string_equal(got->text, "--");
}

static void behind_another_command_nothing_is_pawls(void **state)
{
    static struct line_options options;
    struct operands at;
    char said[SAID_SIZE];
    (void)state;
    const char *const good[] = {"--key=k", "cp", "-q", "--key", NULL};
    assert_int_equal(read_words(&needing, good, &options, said, &at), EXIT_DONE);
    assert_int_equal(at.n, 3);
    assert_string_equal(at.at[1], "-q");
    assert_false(options.quiet);
    const char *const late[] = {"cp", "--key=k", NULL};
    assert_int_equal(read_words(&needing, late, &options, said, &at), EXIT_USAGE);
    assert_non_null(strstr(said, "--key stands behind `cp`"));
    const char *const none[] = {"cp", NULL};
    assert_int_equal(read_words(&needing, none, &options, said, &at), EXIT_USAGE);
    assert_non_null(strstr(said, "needs --key KEY, its name"));
}

static void commands_are_found_by_their_words(void **state)
{
    static char queue[] = "queue", list[] = "list", other[] = "liszt";
    static char *const words[] = {queue, list, other}, *const wrong[] = {queue, other};
    size_t n;
    (void)state;
    assert_ptr_equal(command_find(words, 3, &n), &command_queue_list);
    assert_int_equal(n, 2);
    assert_ptr_equal(command_find(wrong, 2, &n), &command_queue);
    assert_int_equal(n, 1);
    assert_null(command_find(wrong + 1, 1, &n));
    assert_int_equal(n, 0);
    assert_true(command_is_in(&command_queue_list, &command_queue));
    assert_false(command_is_in(&command_keys_list, &command_queue));
    assert_true(command_is_in(&command_queue, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_of_value_goes_to_its_member),
        cmocka_unit_test(times_are_microseconds),
        cmocka_unit_test(what_is_out_of_bounds_is_refused),
        cmocka_unit_test(what_is_no_line_of_the_command_is_refused),
        cmocka_unit_test(what_may_be_repeated_is),
        cmocka_unit_test(behind_another_command_nothing_is_pawls),
        cmocka_unit_test(commands_are_found_by_their_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
