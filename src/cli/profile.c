/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/profile.h"

#include "base/nearest.h"
#include "cli/command.h"

int profile_find(const char *command, const char *text, enum retry_profile *ret_profile)
{
    if (retry_profile_find(slice_of(text), ret_profile))
        return EXIT_DONE;
    struct nearest nearest = {.given = slice_of(text)};
    for (int i = 0; i < RETRY_PROFILE_COUNT; i++)
        nearest_try(&nearest, retry_profile_name((enum retry_profile)i));
    struct slice meant = nearest_name(&nearest);
    if (meant.at)
        return command_misused(command, "there is no profile `%s`; did you mean `%.*s`?", text,
                               SLICE_ARG(meant));
    return command_misused(command, "there is no profile `%s`", text);
}
