/* SPDX-License-Identifier: Apache-2.0 */
/* The table of commands, and look-ups in it. */
#include "base/check.h"
#include "base/slice.h"
#include "cli/command/command.h"

static const struct command *const commands[COMMAND_COUNT] = {
#define X(name) &command_##name,
    COMMANDS(X)
#undef X
};

const struct command *command_at(size_t i)
{
    CHECK(i < COMMAND_COUNT);
    return commands[i];
}

const struct flag flag_help = {"help", 'h', NULL, ANY, "this text", FLAG_IS_SET, 0, NULL};

const char *flag_words(const struct flag *flag)
{
    return flag->form == TAKES_WORD ? flag->words : NULL;
}

void flag_add_words(const struct flag *flag, struct buf *buf)
{
    struct slice rest = slice_of(flag_words(flag)), one;
    for (bool first = true; slice_next(&rest, '|', &one); first = false) {
        buf_add_str(buf, first ? "" : rest.at ? ", " : " or ");
        buf_add_slice(buf, one);
    }
}

bool flag_is_optional(const struct flag *flag)
{
    return flag->argument && flag->argument[0] == '[';
}

void flag_add_help(const struct flag *flag, struct buf *buf)
{
    buf_add_str(buf, flag->help);
    buf_add_str(buf, flag_words(flag) ? ": " : "");
    flag_add_words(flag, buf);
}

const char *command_word(const struct command *command)
{
    const char *space = strchr(command->name, ' ');
    return space ? space + 1 : command->name;
}

bool command_is_in(const struct command *command, const struct command *group)
{
    CHECK(!group || group->is_group);
    size_t before = (size_t)(command_word(command) - command->name);
    if (!group || before == 0)
        return !group && before == 0;
    return strlen(group->name) + 1 == before &&
           strncmp(command->name, group->name, before - 1) == 0;
}

static const struct command *find_in(const struct command *group, const char *word)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (command_is_in(commands[i], group) && strcmp(command_word(commands[i]), word) == 0)
            return commands[i];
    return NULL;
}

const struct command *command_find(char *const *words, size_t n, size_t *ret_words)
{
    const struct command *found = n > 0 ? find_in(NULL, words[0]) : NULL;
    const struct command *inner =
        found && found->is_group && n > 1 ? find_in(found, words[1]) : NULL;
    *ret_words = inner ? 2 : found ? 1 : 0;
    return inner ? inner : found;
}
