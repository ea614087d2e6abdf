/* SPDX-License-Identifier: Apache-2.0 */
#include "core/errors.h"
#include "base/check.h"

static const struct error_row rows[ERROR_COUNT] = {
#define X(name, code, status, short_code, retryable, safe, exit, title, hint)                      \
    [ERROR_##name] = {code, status, short_code, retryable, safe, exit, title, hint},
    PAWL_ERRORS(X)
#undef X
};

const struct error_row *error_row(enum error error)
{
    CHECK(error > ERROR_NONE && error < ERROR_COUNT);
    return &rows[error];
}
