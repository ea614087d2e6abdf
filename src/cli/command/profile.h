/* SPDX-License-Identifier: Apache-2.0 */
/* The name of a retry profile on a command line. */
#ifndef PAWL_CLI_PROFILE_H
#define PAWL_CLI_PROFILE_H

#include "core/retry/retry.h"

/* Finds the profile. An exit code; anything but 0 was explained in the name of `command`. */
int profile_find(const char *command, const char *text, enum retry_profile *ret_profile);

#endif
