/* SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

void check_failed(const char *file, int line, const char *belief)
{
    fprintf(stderr, "pawl: %s:%d: assertion failed: %s\n", file, line, belief);
    abort();
}
