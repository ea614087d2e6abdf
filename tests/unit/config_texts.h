/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the config share: a text that is taken, warned of, or refused. */
#ifndef PAWL_TEST_CONFIG_TEXTS_H
#define PAWL_TEST_CONFIG_TEXTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "config/config.h"

/* What every config needs, as its first two lines. */
#define HEAD "upstream: http://127.0.0.1:9000\ntenant: none\n"

static inline struct config *good(const char *text)
{
    char *complaints = NULL;
    struct config *config = config_parse("pawl.yaml", slice_of(text), &complaints);
    if (!config)
        fail_msg("refused: %s", complaints);
    mem_free(complaints);
    return config;
}

/* The complaints of a text that is refused (mem_free). Not inlined: gcc 12 would warn of a dangling
 * pointer where there is none. */
__attribute__((noinline, unused)) static char *refused(const char *text)
{
    char *complaints = NULL;
    struct config *config = config_parse("pawl.yaml", slice_of(text), &complaints);
    if (config)
        fail_msg("taken: %s", text);
    assert_non_null(complaints);
    return complaints;
}

/* The warnings of a text that is taken (mem_free). */
__attribute__((noinline, unused)) static char *warned(const char *text)
{
    char *complaints = NULL;
    struct config *config = config_parse("pawl.yaml", slice_of(text), &complaints);
    if (!config)
        fail_msg("refused: %s", complaints);
    config_free(config);
    return complaints;
}

static inline void assert_holds(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("no '%s' in:\n%s", part, text);
}

static inline void assert_slice(struct slice s, const char *wanted)
{
    if (!slice_eq(s, slice_of(wanted)))
        fail_msg("'%.*s' is not '%s'", SLICE_ARG(s), wanted);
}

#endif
