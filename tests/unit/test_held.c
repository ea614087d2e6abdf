/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "webhook/endpoints/endpoint.h"
#include "webhook/endpoints/held.h"

static const struct store_event event = {.type = {"refund.created", 14}, .tenant = {"m1", 2}};

static void what_can_be_read_of_an_endpoint_says_what_is_made_for_it(void **state)
{
    static const struct {
        const char *settings;
        bool wants;
        bool ordered;
        bool skips;
    } cases[] = {
        {"{\"types\":[\"refund.*\"],\"newer\":1}", true, false, false},
        {"{\"types\":[\"charge.*\"],\"newer\":1}", false, false, false},
        {"{\"types\":[\"*\"],\"tenants\":[\"m2\"]}", false, false, false},
        {"{\"types\":[\"*\"],\"tenants\":[\"m1\"],\"ordered\":true}", true, true, false},
        {"{\"types\":[\"*\"],\"ordered\":\"by tenant\",\"on_failure\":\"skip\"}", true, true, true},
        {"{\"types\":{\"not\":\"refund.*\"},\"ordered\":false}", true, false, false},
        {"{\"types\":[1],\"tenants\":3}", true, false, false},
        {"no JSON", true, true, false},
        {"", true, true, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ARENA_AUTO struct arena arena = arena_make(SIZE_MAX);
        struct webhook_endpoint endpoint;
        assert_true(held_endpoint_read(SLICE("a"), slice_of(cases[i].settings), &arena, &endpoint));
        assert_int_equal(webhook_endpoint_wants(&endpoint, &event, false), cases[i].wants);
        assert_int_equal(endpoint.ordered, cases[i].ordered);
        assert_int_equal(endpoint.skips, cases[i].skips);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_can_be_read_of_an_endpoint_says_what_is_made_for_it),
    };
    return cmocka_run_group_tests_name("held", tests, NULL, NULL);
}
