/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/request/filled.h"

#define STRICT (FILLED_WANTS_VALUES | FILLED_KEEPS_ORIGIN)

/* `$` in a template is the value. */
static enum filled_fault fill(const char *template, const char *value, unsigned flags,
                              struct buf *buf)
{
    struct filled filled = filled_make(buf, flags);
    struct slice rest = slice_of(template), literal;
    while (rest.at) {
        rest = slice_cut(rest, '$', &literal);
        filled_add_text(&filled, literal);
        if (rest.at)
            filled_add_value(&filled, slice_of(value));
    }
    return filled_end(&filled);
}

/* found: R11 */
static void a_url_names_what_its_author_meant_or_is_refused(void **state)
{
    static const struct {
        const char *template;
        const char *value;
        unsigned flags;
        enum filled_fault fault;
        const char *filled; /* NULL: of a fault */
    } rows[] = {
        {"https://a/holds/$", "7", STRICT, FILLED_GOOD, "https://a/holds/7"},
        {"https://a/holds/$", "a b/\xC3\xA9?#&", STRICT, FILLED_GOOD,
         "https://a/holds/a%20b%2F%C3%A9%3F%23%26"},
        {"https://a/holds/$", "%2e%2e", STRICT, FILLED_GOOD, "https://a/holds/%252e%252e"},
        {"https://a/holds/$", "...", STRICT, FILLED_GOOD, "https://a/holds/..."},
        {"https://a/holds/$", ".x", STRICT, FILLED_GOOD, "https://a/holds/.x"},
        {"https://a/holds/$", "", 0, FILLED_NAMELESS, NULL},
        {"https://a/holds/$/cancel", "", 0, FILLED_NAMELESS, NULL},
        {"https://a/holds/$?x=1", "", 0, FILLED_NAMELESS, NULL},
        {"https://a/holds/$;v=1", "", 0, FILLED_NAMELESS, NULL},
        {"https://a/holds/$", "/", 0, FILLED_NAMELESS, NULL},
        {"https://a/holds/$", "\\", 0, FILLED_NAMELESS, NULL},
        {"https://a/holds/$", ".", 0, FILLED_DOTS, NULL},
        {"https://a/holds/$", "..", 0, FILLED_DOTS, NULL},
        {"https://a/holds/.$", ".", 0, FILLED_DOTS, NULL},
        {"https://a/holds/.$", "", 0, FILLED_DOTS, NULL},
        {"https://a/holds/%2E$/x", ".", 0, FILLED_DOTS, NULL},
        {"https://a/holds/$;v=1/x", "..", 0, FILLED_DOTS, NULL},
        {"https://a/holds/$", "../accounts/1", 0, FILLED_DOTS, NULL},
        {"https://a/holds/$", "1/..", 0, FILLED_DOTS, NULL},
        {"https://a/holds/$", ".. ", 0, FILLED_DOTS, NULL},
        {"https://a/holds/$", " .", 0, FILLED_DOTS, NULL},
        {"https://a/holds/$", "..?x", 0, FILLED_DOTS, NULL},
        {"https://a/holds/$", "..#", 0, FILLED_DOTS, NULL},
        {"https://a/holds/$;v=1/x", ".. ", 0, FILLED_DOTS, NULL},
        {"https://a/holds/$", "1/.. /2", 0, FILLED_DOTS, NULL},
        {"https://a/holds/$/cancel", " ", 0, FILLED_NAMELESS, NULL},
        {"https://a/holds/$/cancel", "?", 0, FILLED_NAMELESS, NULL},
        {"https://a/holds/$/cancel", "#1", 0, FILLED_NAMELESS, NULL},
        {"https://a/holds/$", " a. ?", 0, FILLED_GOOD, "https://a/holds/%20a.%20%3F"},
        {"https://a/holds/$", "1\\..\\2", 0, FILLED_DOTS, NULL},
        {"https://a/files/$", "/var/log/x", 0, FILLED_GOOD, "https://a/files/%2Fvar%2Flog%2Fx"},
        {"https://a/holds/hold-$", "", 0, FILLED_GOOD, "https://a/holds/hold-"},
        {"https://a/holds/$$", "", 0, FILLED_NAMELESS, NULL},
        {"https://a/holds/$", "a\nb", 0, FILLED_CONTROL, NULL},
        {"https://a/holds/$", "a\x7F", 0, FILLED_CONTROL, NULL},
        {"https://a/../x//$", "7", STRICT, FILLED_GOOD, "https://a/../x//7"},
        {"https://a/x?id=$", "a/../b\n", STRICT, FILLED_GOOD, "https://a/x?id=a%2F..%2Fb%0A"},
        {"https://a/x?id=$", "", 0, FILLED_GOOD, "https://a/x?id="},
        {"https://a/x?id=$", "", STRICT, FILLED_EMPTY, NULL},
        {"https://a/x?p=/$/", "..", STRICT, FILLED_GOOD, "https://a/x?p=/../"},
        {"https://$.example/x", "b", 0, FILLED_GOOD, "https://b.example/x"},
        {"https://$/x", "..", 0, FILLED_DOTS, NULL},
        {"https://a.example$", ".evil.example", STRICT, FILLED_ORIGIN, NULL},
        {"https://$/x", "evil.example", STRICT, FILLED_ORIGIN, NULL},
        {"/by-key/$", "7", FILLED_WANTS_VALUES, FILLED_GOOD, "/by-key/7"},
        {"/by-key/$", "", FILLED_WANTS_VALUES, FILLED_NAMELESS, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        BUF_AUTO struct buf buf = buf_make(1024);
        enum filled_fault fault = fill(rows[i].template, rows[i].value, rows[i].flags, &buf);
        if (fault != rows[i].fault)
            fail_msg("%s with '%s': fault %d, not %d", rows[i].template, rows[i].value, fault,
                     rows[i].fault);
        if (rows[i].filled && !slice_eq(buf_slice(&buf), slice_of(rows[i].filled)))
            fail_msg("%s: %.*s", rows[i].template, SLICE_ARG(buf_slice(&buf)));
    }
}

static void the_first_fault_is_told(void **state)
{
    BUF_AUTO struct buf buf = buf_make(1024);
    (void)state;
    assert_int_equal(fill("https://a/$/x?y=$", "", STRICT, &buf), FILLED_NAMELESS);
    for (enum filled_fault fault = FILLED_NAMELESS; fault <= FILLED_AMBIGUOUS; fault++)
        assert_non_null(filled_fault_text(fault));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_url_names_what_its_author_meant_or_is_refused),
        cmocka_unit_test(the_first_fault_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
