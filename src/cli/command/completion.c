/* SPDX-License-Identifier: Apache-2.0 */
/* The completion of bash: three functions that are tables, for those of packaging/pawl.bash. */
#include "cli/command/command.h"
#include "cli/command/pages.h"
#include "config/option.h"
#include "config/options.h"

/* What may stand where no flag does. */
static void add_operands(struct buf *to, const struct command *command)
{
    if (!command->operand)
        return;
    if (strcmp(command->operand, "OPTION") == 0)
        for (int i = 0; i < OPTION_COUNT; i++)
            buf_printf(to, " %s", option_at((enum option_id)i)->name.at);
    if (strcmp(command->operand, "CODE") == 0)
        for (int i = ERROR_NONE + 1; i < ERROR_COUNT; i++)
            buf_printf(to, " %s", error_row((enum error)i)->code);
}

static void add_flags(struct buf *to, const struct command *command)
{
    for (const struct flag *flag = command->flags; flag && flag->name; flag++)
        buf_printf(to, " --%s", flag->name);
    buf_add_str(to, " --help");
}

static void add_commands(struct buf *to, const struct command *group)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (command_is_in(command_at(i), group))
            buf_printf(to, " %s", command_word(command_at(i)));
}

static void add_next_words(struct buf *to, const struct command *command)
{
    buf_printf(to, "    '%s') _pawl_words '", command->name);
    if (command->is_group)
        add_commands(to, command);
    if (command == &command_help)
        add_commands(to, NULL);
    add_operands(to, command);
    add_flags(to, command);
    buf_add_char(to, '\'');
    if (command->operand && strcmp(command->operand, "FILE") == 0)
        buf_add_str(to, " && _pawl_files");
    buf_add_str(to, " ;;\n");
}

static bool takes_path(const struct flag *flag)
{
    return strcmp(flag->argument, "FILE") == 0 || strcmp(flag->argument, "PATH") == 0;
}

static void add_flag_values(struct buf *to, const struct command *command, const struct flag *flag)
{
    if (!flag->argument || flag_is_optional(flag)) /* the next word is none of its */
        return;
    buf_printf(to, "    '%s --%s'", command->name, flag->name);
    if (flag->letter)
        buf_printf(to, " | '%s -%c'", command->name, flag->letter);
    if (takes_path(flag)) {
        buf_add_str(to, ") _pawl_files ;;\n");
        return;
    }
    buf_add_str(to, ") _pawl_words '");
    for (const char *c = flag_words(flag) ? flag_words(flag) : ""; *c; c++)
        buf_add_char(to, *c == '|' ? ' ' : *c);
    buf_add_str(to, "' ;;\n");
}

void pages_completion(struct buf *to)
{
    buf_add_str(to, "_pawl_is_command()\n{\n    case $1 in\n    ");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        buf_printf(to, "%s'%s'", i > 0 ? " | " : "", command_at(i)->name);
    buf_add_str(to, ") ;;\n    *) return 1 ;;\n    esac\n}\n\n"
                    "# What may follow a command.\n"
                    "_pawl_next()\n{\n    case $1 in\n    '') _pawl_words '");
    add_commands(to, NULL);
    buf_add_str(to, " --help --version' ;;\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        add_next_words(to, command_at(i));
    buf_add_str(to, "    esac\n}\n\n"
                    "# What may follow a command's flag. Fails: it takes no value.\n"
                    "_pawl_value()\n{\n    case $1 in\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        for (const struct flag *flag = command_at(i)->flags; flag && flag->name; flag++)
            add_flag_values(to, command_at(i), flag);
    buf_add_str(to, "    *) return 1 ;;\n    esac\n}\n\n");
}
