/* SPDX-License-Identifier: Apache-2.0 */
#include "config/warnings.h"
#include "base/check.h"
#include <assert.h>

static const char *const names[] = {
#define X(name, text) text,
    CONFIG_WARNINGS(X)
#undef X
};

static_assert(WARNING_COUNT <= 32, "a bit for each class");
static_assert(sizeof names / sizeof *names == WARNING_COUNT, "a name for each class");

const char *warning_name(enum warning warning)
{
    CHECK(warning < WARNING_COUNT);
    return names[warning];
}
