/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options.h"

#include "base/nearest.h"
#include "cli/command.h"

static const struct option *nearest_option(const struct option *options, struct slice given)
{
    const struct option *best = NULL;
    size_t least = NEAREST_NAME_MAX;
    for (const struct option *option = options; option->name; option++) {
        size_t distance = nearest_distance(given, slice_of(option->name));
        if (distance < least) {
            least = distance;
            best = option;
        }
    }
    return best && nearest_is_near(given, least) ? best : NULL;
}

static size_t count_prefixed(const struct option *options, struct slice given)
{
    size_t n = 0;
    for (const struct option *option = options; option->name; option++)
        n += slice_starts(slice_of(option->name), given);
    return n;
}

static int no_such_long(const char *command, const struct option *options, const char *text)
{
    struct slice name;
    slice_cut(slice_of(text + 2), '=', &name);
    if (count_prefixed(options, name) > 1)
        return command_misused(command, "--%.*s is the beginning of several options",
                               SLICE_ARG(name));
    const struct option *meant = nearest_option(options, name);
    if (meant)
        return command_misused(command, "there is no option --%.*s; did you mean --%s?",
                               SLICE_ARG(name), meant->name);
    return command_misused(command, "there is no option --%.*s", SLICE_ARG(name));
}

int options_refused(const char *command, const struct option *options, int code, char **argv)
{
    const char *text = argv[optind - 1];
    if (code == ':')
        return command_misused(command, "%s needs a value", text);
    if (optopt == 0)
        return no_such_long(command, options, text);
    for (const struct option *option = options; option->name; option++)
        if (option->val == optopt && strncmp(text, "--", 2) == 0)
            return command_misused(command, "--%s takes no value", option->name);
    return command_misused(command, "there is no option -%c", optopt);
}

bool options_number(const char *text, int64_t least, int64_t most, int64_t *ret_value)
{
    uint64_t value = 0;
    if (!slice_to_u64(slice_of(text), (uint64_t)most, &value) || (int64_t)value < least)
        return false;
    *ret_value = (int64_t)value;
    return true;
}
