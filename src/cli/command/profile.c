/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command/profile.h"

#include "base/text/nearest.h"
#include "cli/command/command.h"

#define NAMES_MAX ((size_t)1024)

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
    BUF_AUTO struct buf names = buf_make(NAMES_MAX);
    for (int i = 0; i < RETRY_PROFILE_COUNT; i++)
        buf_printf(&names, "%s%.*s", i > 0 ? ", " : "",
                   SLICE_ARG(retry_profile_name((enum retry_profile)i)));
    return command_misused(command, "there is no profile `%s` (expected one of %.*s)", text,
                           SLICE_ARG(buf_slice(&names)));
}
