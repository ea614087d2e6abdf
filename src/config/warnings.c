/* SPDX-License-Identifier: Apache-2.0 */
#include "config/warnings.h"

static const char *const names[] = {
#define X(name, text) text,
    CONFIG_WARNINGS(X)
#undef X
};

_Static_assert(WARNING_COUNT <= 32, "a bit for each class");

const char *warning_name(enum warning warning)
{
    return names[warning];
}
