/* SPDX-License-Identifier: Apache-2.0 */
/* Manual pages, in the man macros of roff. */
#include "cli/command/command.h"
#include "cli/command/pages.h"
#include "config/option.h"

#define TEXT_MAX ((size_t)4096)
#define LINE_ENOUGH 60 /* the next word goes to a new line */

/* One character of a text. A word in backticks is set bold, and a dash is one that can be copied.
 */
static void add_char(struct buf *to, char c, bool *is_bold)
{
    switch (c) {
    case '\\':
        buf_add_str(to, "\\e");
        break;
    case '-':
        buf_add_str(to, "\\-");
        break;
    case '`':
        *is_bold = !*is_bold;
        buf_add_str(to, *is_bold ? "\\fB" : "\\fR");
        break;
    case '\'':
        buf_add_str(to, "\\(aq");
        break;
    case '~':
        buf_add_str(to, "\\(ti");
        break;
    case '^':
        buf_add_str(to, "\\(ha");
        break;
    default:
        buf_add_char(to, c);
    }
}

/* Where the last line of the page begins. */
static size_t line_start(const struct buf *to)
{
    const char *end = to->len > 0 ? memrchr(to->at, '\n', to->len) : NULL;
    return end ? (size_t)(end - to->at) + 1 : 0;
}

/* Appends `text`, in lines as long as roff likes them; one that begins with a dot is no request. */
static void add_slice(struct buf *to, struct slice text)
{
    bool is_bold = false;
    size_t start = line_start(to);
    for (size_t i = 0; i < text.len; i++) {
        if (to->len == start && text.at[i] == '.')
            buf_add_str(to, "\\&");
        if (text.at[i] != ' ' || to->len - start < LINE_ENOUGH) {
            add_char(to, text.at[i], &is_bold);
            continue;
        }
        buf_add_char(to, '\n');
        start = to->len;
    }
    if (is_bold)
        buf_add_str(to, "\\fR");
}

static void add_roff_text(struct buf *to, const char *text)
{
    add_slice(to, slice_of(text));
}

/* Appends paragraphs that an empty line divides. */
static void add_paragraphs(struct buf *to, const char *text)
{
    struct slice rest = slice_of(text), line;
    while (slice_next(&rest, '\n', &line)) {
        if (line.len == 0)
            buf_add_str(to, ".PP");
        add_slice(to, line);
        buf_add_char(to, '\n');
    }
}

static void add_roff_line(struct buf *to, const char *text)
{
    add_roff_text(to, text);
    buf_add_char(to, '\n');
}

static void add_title(struct buf *to, const char *name, int section, const char *date)
{
    buf_add_str(to, ".\\\" Generated from the tables of pawl; do not edit.\n");
    buf_printf(to, ".TH %s %d %s \"pawl " PAWL_VERSION "\"\n", name, section, date);
}

/* ---- pawl(1) ---- */

static void add_forms(struct buf *to, const struct command *command)
{
    struct slice rest = slice_of(command->synopsis), form;
    for (bool first = true; slice_next(&rest, '\n', &form); first = false) {
        buf_printf(to, "%s\\fBpawl %s\\fR ", first ? "" : ".br\n", command->name);
        add_slice(to, form);
        buf_add_char(to, '\n');
    }
}

static void add_manual_flag(struct buf *to, const struct flag *flag)
{
    BUF_AUTO struct buf help = buf_make(TEXT_MAX);
    buf_add_str(to, ".TP\n");
    if (flag->letter)
        buf_printf(to, "\\fB\\-%c\\fR, ", flag->letter);
    buf_add_str(to, "\\fB\\-\\-");
    add_roff_text(to, flag->name);
    buf_printf(to, "\\fR%s%s%s\n",
               flag_is_optional(flag) ? "\\fI"
               : flag->argument       ? " \\fI"
                                      : "",
               flag->argument ? flag->argument : "", flag->argument ? "\\fR" : "");
    flag_add_help(flag, &help);
    add_slice(to, buf_slice(&help));
    buf_add_char(to, '\n');
}

static void add_exits(struct buf *to, const struct command *command)
{
    buf_printf(to, ".PP\nExit status: %d %s", EXIT_DONE, exit_code_text(EXIT_DONE));
    for (const struct command_exit *exit = command->exits; exit->code != EXIT_DONE; exit++) {
        buf_printf(to, "; %d ", exit->code);
        add_roff_text(to, exit->when ? exit->when : exit_code_text(exit->code));
    }
    buf_add_str(to, ".\n");
}

static void add_manual_command(struct buf *to, const struct command *command)
{
    buf_printf(to, ".SS pawl %s\n", command->name);
    add_forms(to, command);
    buf_add_str(to, ".PP\n");
    add_paragraphs(to, command->about);
    if (command->is_group)
        return;
    for (const struct flag *flag = command->flags; flag && flag->name; flag++)
        add_manual_flag(to, flag);
    add_exits(to, command);
}

static void add_exit_status(struct buf *to)
{
    buf_add_str(to, ".SH EXIT STATUS\n");
#define X(name, number, text)                                                                      \
    buf_add_str(to, ".TP\n.B " #number "\n");                                                      \
    add_roff_line(to, text);
    PAWL_EXIT_CODES(X)
#undef X
}

static const char environment_and_examples[] =
    ".SH ENVIRONMENT\n"
    ".TP\n.B PAWL_STORE\n"
    "The store of every command, where neither \\-\\-store nor the config names one.\n"
    ".TP\n.B PAWL_ACCEPT_WEAKER\n"
    "true: commands that read no config use a store that may lose what it\n"
    "acknowledged, too; for serve the config says so (accept_weaker).\n"
    ".TP\n.B XDG_STATE_HOME\n"
    "Holds pawl/pawl.db, the store where PAWL_STORE is not set either; default\n"
    "$HOME/.local/state.\n"
    ".TP\n.B NAME\n"
    "Any variable that the config writes as ${NAME}.\n"
    ".SH EXAMPLES\n"
    "Check a config, and run the gateway with it:\n.PP\n.EX\n"
    "pawl serve \\-\\-test \\-c pawl.yaml\npawl serve \\-c pawl.yaml\n"
    ".EE\n.PP\n"
    "List the operations in the store PAWL_STORE that need an operator, and show one:\n.PP\n.EX\n"
    "pawl keys list \\-\\-status unknown\npawl keys show KEY\n"
    ".EE\n.PP\n"
    "Settle it as done or not done, with the token that was shown:\n.PP\n.EX\n"
    "pawl keys resolve KEY \\-\\-token N \\-\\-status 201 \\-\\-body @a.json\n"
    "pawl keys release KEY \\-\\-token N\n"
    ".EE\n"
    ".SH SEE ALSO\n.BR pawl.yaml (5)\n";

void pages_commands(struct buf *to, const char *date)
{
    add_title(to, "PAWL", 1, date);
    buf_add_str(to, ".SH NAME\npawl \\- make operations happen once\n"
                    ".SH SYNOPSIS\n.B pawl\n.I COMMAND\n.RI [ OPTIONS ]\n.SH DESCRIPTION\n");
    add_roff_line(to,
                  "pawl is a reverse proxy before an HTTP service. A request with an "
                  "`Idempotency-Key` runs the first time and is remembered; a retry, a double "
                  "click or a replay gets the same response, byte for byte; a key that comes back "
                  "with another request is refused.");
    buf_add_str(to, ".PP\nEvery command takes \\fB\\-h\\fR, \\fB\\-\\-help\\fR.\n.SH COMMANDS\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        add_manual_command(to, command_at(i));
    add_exit_status(to);
    buf_add_str(to, environment_and_examples);
}

/* ---- pawl.yaml(5) ---- */

static void add_parts(struct buf *to, const struct option *option)
{
    size_t n;
    const struct option *part = option_parts(option, &n);
    for (size_t i = 0; i < n; i++) {
        buf_add_str(to, ".br\n\\fB");
        add_slice(to, part[i].name);
        buf_add_str(to, "\\fR: ");
        add_roff_text(to, part[i].help);
        buf_add_str(to, ". Default \\fB");
        add_roff_text(to, part[i].fallback);
        buf_add_str(to, "\\fR.\n");
    }
}

static void add_manual_option(struct buf *to, const struct option *option)
{
    BUF_AUTO struct buf bounds = buf_make(TEXT_MAX);
    bool has_range = option_add_range(option, &bounds);
    buf_add_str(&bounds, has_range ? "; " : "");
    (void)option_add_where(option, &bounds);
    buf_add_str(&bounds, option->where & OPTION_RESTART ? "; needs a restart" : "");
    buf_add_str(to, ".TP\n.B ");
    add_roff_line(to, option->name.at);
    add_roff_text(to, option->help);
    buf_add_str(to, ".\n.br\nDefault \\fB");
    add_roff_text(to, option->fallback);
    buf_add_str(to, "\\fR; ");
    add_slice(to, buf_slice(&bounds));
    buf_add_str(to, ".\n");
    add_parts(to, option);
}

static void add_options(struct buf *to, unsigned where, unsigned not_where)
{
    for (int i = 0; i < OPTION_COUNT; i++) {
        const struct option *option = option_at((enum option_id)i);
        if (option->where & where && !(option->where & not_where))
            add_manual_option(to, option);
    }
}

static const char example[] = ".SH EXAMPLE\n.EX\n"
                              "listen: 127.0.0.1:8080\n"
                              "upstream: http://127.0.0.1:9000\n"
                              "store: sqlite:./pawl.db\n"
                              "tenant: \"{header:X\\-Merchant\\-Id}\"\n"
                              "trust_tenant: true\n"
                              "rules:\n"
                              "  \\- name: refunds.create\n"
                              "    match: POST /refunds\n"
                              "    ttl: 72h\n"
                              "    unknown: {probe: \"GET /refunds/by\\-key/{key}\"}\n"
                              "    probe_status: 201\n"
                              ".EE\n.SH SEE ALSO\n.BR pawl (1)\n";

void pages_config(struct buf *to, const char *date)
{
    add_title(to, "PAWL.YAML", 5, date);
    buf_add_str(to, ".SH NAME\npawl.yaml \\- the config of pawl\n.SH DESCRIPTION\n");
    add_paragraphs(to, "The config of `pawl serve` is one YAML file, without anchors, aliases, "
                       "merge keys and tags. `pawl serve -t -c FILE` reports what is wrong with "
                       "one, and `pawl config explain -c FILE` prints its effective values.\n\nA "
                       "duration is written as 150ms, 10s, 5m, 24h, 7d or forever; a size as "
                       "512, 64KiB or 1MiB. Paths are relative to the file. ${NAME} in a value "
                       "is the environment's.\n\nThe first rule that matches a request applies "
                       "to it. An option in `defaults` applies to every rule that does not set "
                       "it.");
    buf_add_str(to, ".SH OPTIONS AT THE TOP\n");
    add_options(to, OPTION_TOP, 0);
    buf_add_str(to, ".SH OPTIONS OF A RULE\n");
    add_options(to, OPTION_RULE, OPTION_TOP);
    buf_add_str(to, example);
}
