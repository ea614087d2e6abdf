/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands. Each has a row, a `struct command` in the file that runs it, with its flags, which say
 * where in its options their values go. From the rows come the parsing of command lines, `-h`,
 * `pawl help`, the man page and the completion of bash; nothing of it is written a second time.
 *
 * A new command is a file with its options, its row and a command_fn, and a line of COMMANDS, which
 * command_find.c looks up in; command_line.c reads command lines. Help goes to stdout, complaints
 * to stderr.
 *
 * There is a room for what belongs together: src/cli/keys (records), src/cli/tasks (what is kept
 * to be sent or handled), src/cli/jobs. What commands of several rooms use is in src/cli/lib.
 */
#ifndef PAWL_CLI_COMMAND_H
#define PAWL_CLI_COMMAND_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/headers.h"
#include "core/errors.h"

/* X(name), in the order of the help; a group comes before its commands. */
#define COMMANDS(X)                                                                                \
    X(serve)                                                                                       \
    X(health)                                                                                      \
    X(send)                                                                                        \
    X(queue)                                                                                       \
    X(queue_add)                                                                                   \
    X(queue_list)                                                                                  \
    X(queue_show)                                                                                  \
    X(queue_edit)                                                                                  \
    X(queue_retry)                                                                                 \
    X(queue_drop)                                                                                  \
    X(queue_settle)                                                                                \
    X(queue_pause)                                                                                 \
    X(queue_resume)                                                                                \
    X(queue_drain)                                                                                 \
    X(queue_audit)                                                                                 \
    X(run)                                                                                         \
    X(each)                                                                                        \
    X(keys)                                                                                        \
    X(keys_list)                                                                                   \
    X(keys_show)                                                                                   \
    X(keys_resolve)                                                                                \
    X(keys_release)                                                                                \
    X(keys_forget)                                                                                 \
    X(keys_succeeded)                                                                              \
    X(keys_stats)                                                                                  \
    X(keys_audit)                                                                                  \
    X(stats)                                                                                       \
    X(webhook)                                                                                     \
    X(webhook_publish)                                                                             \
    X(webhook_list)                                                                                \
    X(webhook_show)                                                                                \
    X(webhook_replay)                                                                              \
    X(webhook_drop)                                                                                \
    X(webhook_audit)                                                                               \
    X(webhook_endpoint)                                                                            \
    X(webhook_sign)                                                                                \
    X(webhook_verify)                                                                              \
    X(webhook_listen)                                                                              \
    X(inbox)                                                                                       \
    X(inbox_list)                                                                                  \
    X(inbox_show)                                                                                  \
    X(inbox_replay)                                                                                \
    X(inbox_drop)                                                                                  \
    X(inbox_remove)                                                                                \
    X(inbox_audit)                                                                                 \
    X(store)                                                                                       \
    X(store_freeze)                                                                                \
    X(store_thaw)                                                                                  \
    X(store_backup)                                                                                \
    X(store_check)                                                                                 \
    X(store_restored)                                                                              \
    X(store_show)                                                                                  \
    X(store_audit)                                                                                 \
    X(hash)                                                                                        \
    X(config)                                                                                      \
    X(config_explain)                                                                              \
    X(schema)                                                                                      \
    X(errors)                                                                                      \
    X(backoff)                                                                                     \
    X(demo)                                                                                        \
    X(help)                                                                                        \
    X(version)

/*
 * FLAG(member, name, letter, argument, type, help), of OPTIONS, the options of the command
 *   member: of OPTIONS, which takes the value
 *   letter: of the short form; 0: there is none
 *   argument: what the help calls it. FILE and PATH are completed as such; [=D]: one may follow, as
 *     `--wait=D`
 *   type: what it takes (enum flag_form), with what bounds
 *     ANY                 a text, or nothing
 *     LIST(most)          a text each time; it may be repeated, `most` times or (0) at will
 *     WORDS(words)        one of them, divided by '|'
 *     INT(least, most)
 *     SPAN(least, most)   a duration in microseconds; FOREVER: CLOCK_NEVER, also where the value
 *                         of one that may be left out is
 *     SPAN_OR(word, least, most)  the same, where the word means forever
 *     SECONDS             a time-out: seconds as curl takes them, or a duration
 *     TIME                a point in time, after 1970
 *     PROFILE             the name of a retry profile
 * SWITCH(member, name, letter, help): one without an argument
 * FLAG_BY(member, take, ...): one that a function reads, which gets the member
 */
#define ANY TAKES_ANY, NULL, 0, 0
#define LIST(most) TAKES_LIST, NULL, 0, most
#define WORDS(words) TAKES_WORD, words, 0, 0
#define INT(least, most) TAKES_INT, NULL, least, most
#define SPAN(least, most) TAKES_SPAN, NULL, least, most
#define SPAN_OR(word, least, most) TAKES_SPAN, word, least, most
#define SECONDS TAKES_SECONDS, NULL, 0, 0
#define TIME TAKES_TIME, NULL, 0, 0
#define PROFILE TAKES_PROFILE, NULL, 0, 0
#define FOREVER CLOCK_NEVER

enum flag_form {
    TAKES_ANY,
    TAKES_LIST, /* `most`: of them */
    TAKES_WORD,
    TAKES_INT,
    TAKES_SPAN, /* `words`: that means forever; NULL: none */
    TAKES_SECONDS,
    TAKES_TIME,
    TAKES_PROFILE,
};

#define FLAG_TEXTS_MAX 16
struct flag_texts {
    size_t n;
    const char *at[FLAG_TEXTS_MAX];
};

/* What a member that takes a flag's value is. */
enum flag_kind {
    FLAG_IS_TAKEN,   /* by a function, which gets the member */
    FLAG_IS_SET,     /* bool */
    FLAG_IS_TEXT,    /* const char * */
    FLAG_IS_SLICE,   /* struct slice */
    FLAG_IS_TEXTS,   /* struct flag_texts: of a LIST */
    FLAG_IS_HEADERS, /* struct headers: `Name: value` of a LIST */
    FLAG_IS_INT,     /* int; of a flag that takes a number or a time, as the next two */
    FLAG_IS_I64,     /* int64_t */
    FLAG_IS_SIZE,    /* size_t */
    FLAG_IS_CHOICE,  /* enum: of WORDS which one, from 1; of PROFILE that profile */
};
#define FLAG_KIND(member)                                                                          \
    _Generic((member),                                                                             \
        bool: FLAG_IS_SET,                                                                         \
        const char *: FLAG_IS_TEXT,                                                                \
        struct slice: FLAG_IS_SLICE,                                                               \
        struct flag_texts: FLAG_IS_TEXTS,                                                          \
        struct headers: FLAG_IS_HEADERS,                                                           \
        int: FLAG_IS_INT,                                                                          \
        int64_t: FLAG_IS_I64,                                                                      \
        size_t: FLAG_IS_SIZE,                                                                      \
        unsigned: FLAG_IS_CHOICE)

struct flag {
    const char *name;
    char letter;
    const char *argument; /* NULL: takes none */
    enum flag_form form;
    const char *words;
    int64_t least;
    int64_t most;
    const char *help;
    enum flag_kind kind;
    size_t offset; /* of the member */
    /* With FLAG_IS_TAKEN; an exit code, anything but 0 was explained. */
    int (*take)(void *member, const char *text);
};

#define FLAG(member, ...)                                                                          \
    {                                                                                              \
        __VA_ARGS__, FLAG_KIND(((OPTIONS *)0)->member), offsetof(OPTIONS, member), NULL            \
    }
#define FLAG_BY(member, take, ...)                                                                 \
    {                                                                                              \
        __VA_ARGS__, FLAG_IS_TAKEN, offsetof(OPTIONS, member), take                                \
    }
#define SWITCH(member, name, letter, help) FLAG(member, name, letter, NULL, ANY, help)

/* How a room runs a command: by `act`, on OPTIONS that begin as the rest says. */
#define ACTS(room, act_of_room, ...)                                                               \
    .run = room, .act = act_of_room, .options = &(const OPTIONS){__VA_ARGS__},                     \
    .size = sizeof(OPTIONS)

/* Those of a command; --help goes without saying. */
#define FLAGS(...) ((const struct flag[]){__VA_ARGS__, {NULL}})

/* What many have. */
#define FLAG_CONFIG(member) FLAG(member, "config", 'c', "FILE", ANY, "the config, YAML")
#define FLAG_STORE(member)                                                                         \
    FLAG(member, "store", 0, "PATH", ANY,                                                          \
         "the store, a file or a URL (default: $PAWL_STORE, $XDG_STATE_HOME/pawl/pawl.db)")
#define FLAG_JSON(member) SWITCH(member, "json", 0, "print JSON")
#define FLAG_LIMIT(member)                                                                         \
    FLAG(member, "limit", 0, "N", INT(1, 1000000), "at most N rows (default 1000)")
#define FLAG_ACT_REASON(member) FLAG(member, "reason", 0, "TEXT", ANY, "why, for the audit")
#define FLAG_REASON(member)                                                                        \
    FLAG(member, "reason", 0, "TEXT", ANY, "why, for the audit (`pawl keys audit`)")

#define NO_STORE EXIT_UNAVAILABLE, "the store cannot be used"

struct command_exit {
    enum exit_code code;
    const char *when;
};

#define COMMAND_FLAGS_MAX 36
#define COMMAND_EXITS_MAX 9

struct operands {
    int n;
    char **at;
};

#define COMMAND_ENDED (-1)

/* Runs a command, which gets what follows its name (at.at[0] is its last word); an exit code, or
 * COMMAND_ENDED: help was printed. */
struct command;
typedef int command_fn(const struct command *command, struct operands at);

struct command {
    const char *name;     /* all its words, such as "keys list" */
    const char *summary;  /* half a line */
    const char *synopsis; /* what follows the name; a line for each form */
    const char *about;    /* paragraphs, divided by an empty line; not wrapped */
    bool is_group;
    bool runs_other; /* behind the first operand everything belongs to the command that it runs */
    const char *operand; /* what the help calls it; NULL: there is none */
    struct {
        int least;
        int most;
    } operands;
    bool needs_first;                             /* nothing can be done without the first flag */
    const struct flag *flags;                     /* up to one without a name; NULL: none */
    struct command_exit exits[COMMAND_EXITS_MAX]; /* up to one without words */
    command_fn *run;                              /* NULL: of a group */
    int (*act)(void *options);                    /* what `run` of a room does it by, */
    const void *options;                          /* and with what, before the flags are read */
    size_t size;                                  /* of it */
    void (*fini)(void *options);                  /* frees what the flags took; NULL: nothing */
};

#define X(name) extern const struct command command_##name;
COMMANDS(X)
#undef X

#define X(name) +1
enum { COMMAND_COUNT = 0 COMMANDS(X) };
#undef X

/* The rows, in order. */
const struct command *command_at(size_t i);

/* The words that a flag takes, divided by '|'; NULL: it takes any. */
const char *flag_words(const struct flag *flag);

/* Appends them as "a, b or c". */
void flag_add_words(const struct flag *flag, struct buf *buf);

/* Whether its value may be left out. */
bool flag_is_optional(const struct flag *flag);

/* --help, which all have. */
extern const struct flag flag_help;

/* Appends its help, and the words that it takes. */
void flag_add_help(const struct flag *flag, struct buf *buf);

/* The command of which `words` begins with all words; `*ret_words` says with how many. A group, if
 * what follows names none of its commands. NULL: there is none. */
const struct command *command_find(char *const *words, size_t n, size_t *ret_words);

/* Whether `command` belongs to the group (NULL: is at the top). */
bool command_is_in(const struct command *command, const struct command *group);

/* Its last word. */
const char *command_word(const struct command *command);

/* ---- command lines ---- */

/* Reads the command line of a command by its row into its `options`, in order. `at` gets what is no
 * flag. An exit code, anything but 0 was explained; COMMAND_ENDED: help was printed. */
int command_read(const struct command *command, struct operands *at, void *options);

/* Prints `pawl COMMAND: what` to stderr; returns `code`. */
int command_failed(const char *command, enum exit_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Prints `pawl COMMAND: what` and a hint at -h to stderr; returns exit code 2. */
int command_misused(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
