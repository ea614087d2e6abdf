/* SPDX-License-Identifier: Apache-2.0 */
#include "core/errors.h"
#include "base/check.h"

static const struct error_row rows[ERROR_COUNT] = {
#define X(name, code, status, short_code, retryable, safe, exit, title, hint)                      \
    [ERROR_##name] = {code, status, short_code, retryable, safe, exit, title, hint},
    PAWL_ERRORS(X)
#undef X
};

static const struct error_row families[ERROR_FAMILY_COUNT] = {
#define X(name, code, status, short_code, retryable, safe, exit, title, hint)                      \
    [ERROR_FAMILY_##name] = {code, status, short_code, retryable, safe, exit, title, hint},
    PAWL_ERROR_FAMILIES(X)
#undef X
};

const struct error_row *error_row(enum error error)
{
    CHECK(error > ERROR_NONE && error < ERROR_COUNT);
    return &rows[error];
}

const struct error_row *error_family_row(enum error_family family)
{
    CHECK(family < ERROR_FAMILY_COUNT);
    return &families[family];
}

/* `VALIDATION.*` takes every code that begins with `VALIDATION.`. */
static bool row_takes_code(const struct error_row *row, struct slice code)
{
    struct slice own = slice_of(row->code);
    if (slice_eq(own, code))
        return true;
    bool wild = own.len > 2 && own.at[own.len - 1] == '*';
    return wild && code.len >= own.len && slice_starts(code, slice_make(own.at, own.len - 1));
}

const struct error_row *error_find(struct slice code)
{
    for (size_t i = ERROR_NONE + 1; i < ERROR_COUNT; i++)
        if (row_takes_code(&rows[i], code))
            return &rows[i];
    for (size_t i = 0; i < ERROR_FAMILY_COUNT; i++)
        if (row_takes_code(&families[i], code))
            return &families[i];
    return NULL;
}

const char *exit_code_text(enum exit_code code)
{
    switch (code) {
#define X(name, number, text)                                                                      \
    case EXIT_##name:                                                                              \
        return text;
        PAWL_EXIT_CODES(X)
#undef X
    }
    return "";
}

bool error_is_by_policy(const struct error_row *row)
{
    static const enum error by_policy[] = {ERROR_OUTCOME_UNKNOWN, ERROR_UPSTREAM_BROKE,
                                           ERROR_UPSTREAM_MALFORMED, ERROR_UPSTREAM_TIMEOUT};
    for (size_t i = 0; i < COUNT_OF(by_policy); i++)
        if (row == &rows[by_policy[i]])
            return true;
    return false;
}

bool error_is_lost_answer(enum error error)
{
    return error == ERROR_UPSTREAM_BROKE || error == ERROR_UPSTREAM_MALFORMED ||
           error == ERROR_UPSTREAM_TIMEOUT;
}
