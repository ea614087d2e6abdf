/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/template/template.h"

#include <stdio.h>

#define ARENA_MAX (1024 * 1024)

struct refused_row {
    enum template_use use;
    const char *text;
    const char *says;
};

static void expect_refused(const struct refused_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
        struct template template;
        struct slice problem = {NULL, 0};
        bool taken =
            template_compile(slice_of(rows[i].text), rows[i].use, &arena, &template, &problem);
        char text[512];
        snprintf(text, sizeof(text), "%.*s", SLICE_ARG(problem));
        if (taken || !strstr(text, rows[i].says))
            fail_msg("<%s>: taken %d, <%s>", rows[i].text, taken, text);
    }
}

static void what_is_no_template_is_refused_with_a_reason(void **state)
{
    static const struct refused_row rows[] = {
        {TEMPLATE_FOR_KEY, "", "empty"},
        {TEMPLATE_FOR_KEY, "{heder:X}", "nearest is {header:NAME}"},
        {TEMPLATE_FOR_KEY, "{Body:/a}", "nearest is {body:/json/pointer}"},
        {TEMPLATE_FOR_TENANT, "{methods}", "nearest is {path:param}"},
        {TEMPLATE_FOR_KEY, "{a-very-long-name-that-is-no-source}", "no source"},
        {TEMPLATE_FOR_KEY, "{}", "no source"},
        {TEMPLATE_FOR_KEY, "{header:X", "not closed"},
        {TEMPLATE_FOR_KEY, "x}", "closes nothing"},
        {TEMPLATE_FOR_KEY, "{header}", "written {header:NAME}"},
        {TEMPLATE_FOR_KEY, "{header:}", "not a header name"},
        {TEMPLATE_FOR_KEY, "{header:?}", "not a header name"},
        {TEMPLATE_FOR_KEY, "{header:a b}", "not a header name"},
        {TEMPLATE_FOR_KEY, "{header:Connection}", "ends at this hop"},
        {TEMPLATE_FOR_KEY, "{header:Cookie}", "credential"},
        {TEMPLATE_FOR_KEY, "{header:X?}", "may be absent"},
        {TEMPLATE_FOR_KEY, "{header:X?}{tenant}{route}", "may be absent"},
        {TEMPLATE_FOR_KEY, "{header:X?}{payload}", "require: false"},
        {TEMPLATE_FOR_KEY, "{body:}", "JSON pointer"},
        {TEMPLATE_FOR_KEY, "{body:a}", "JSON pointer"},
        {TEMPLATE_FOR_KEY, "{body:/a~2}", "JSON pointer"},
        {TEMPLATE_FOR_KEY, "{form:}", "name is missing"},
        {TEMPLATE_FOR_KEY, "{method:x}", "written {method}"},
        {TEMPLATE_FOR_KEY, "{window:1h}", "names nothing"},
        {TEMPLATE_FOR_KEY, "{route}{window:0}", "duration"},
        {TEMPLATE_FOR_KEY, "{route}{window:forever}", "duration"},
        {TEMPLATE_FOR_KEY, "{route}{window:1x}", "duration"},
        {TEMPLATE_FOR_KEY, "{route}{window:1h}{window:2h}", "at most one"},
        {TEMPLATE_FOR_KEY, "{key}", "cannot be part of a key"},
        {TEMPLATE_FOR_TENANT, "{body:/a}", "cannot be part of a tenant"},
        {TEMPLATE_FOR_TENANT, "{tenant}", "cannot be part of a tenant"},
        {TEMPLATE_FOR_PROBE, "/x/{window:1h}", "cannot be part of a probe"},
        {TEMPLATE_FOR_PROBE, "x/{key}", "starts with '/'"},
        {TEMPLATE_FOR_PROBE, "{key}", "starts with '/'"},
        {TEMPLATE_FOR_PROBE, "//x/{key}", "different ways"},
        {TEMPLATE_FOR_PROBE, "/x/../{key}", "different ways"},
        {TEMPLATE_FOR_PROBE, "/x {key}", "request target"},
        {TEMPLATE_FOR_PROBE, "/x#{key}", "request target"},
        {TEMPLATE_FOR_PROBE, "/x/{key}{route}", "between two sources"},
        {TEMPLATE_FOR_PROBE, "/x/{key}-{route}", "between two sources"},
        {TEMPLATE_FOR_PROBE, "/x/{header:A?}", "may be absent"},
        {TEMPLATE_FOR_KEY, "{route}-{method}", "between two sources"},
        {TEMPLATE_FOR_KEY, "{route}%3{method}", "between two sources"},
        {TEMPLATE_FOR_KEY, "{route}a{window:1h}b{method}", "between two sources"},
        {TEMPLATE_FOR_TENANT, "{header:A}/{header:B}", "between two sources"},
        {TEMPLATE_FOR_KEY, "a\nb{route}", "printable ASCII"},
        {TEMPLATE_FOR_KEY, "\xC3\xBC{route}", "printable ASCII"},
        {TEMPLATE_FOR_KEY,
         "{route}:{route}:{route}:{route}:{route}:{route}:{route}:{route}:{route}",
         "at most 16 parts"},
    };
    (void)state;
    expect_refused(rows, sizeof(rows) / sizeof(rows[0]));
}

static void clocks_are_refused_with_a_reason(void **state)
{
    static const struct refused_row rows[] = {
        {TEMPLATE_FOR_KEY, "{route}{window:1h}{hour}", "expected one of them"},
        {TEMPLATE_FOR_KEY, "{date:UTC}{window:1h}", "expected one of them"},
        {TEMPLATE_FOR_KEY, "{week:UTC}{window:1h}", "expected one of them"},
        {TEMPLATE_FOR_KEY, "{week}", "written {week:Area/City} or {week:/pointer/to/zone}"},
        {TEMPLATE_FOR_TENANT, "{week:UTC}", "cannot be part of a tenant"},
        {TEMPLATE_FOR_KEY, "{weak:UTC}", "nearest is {week:Area/City}"},
        {TEMPLATE_FOR_KEY, "{date}", "written {date:Area/City} or {date:/pointer/to/zone}"},
        {TEMPLATE_FOR_KEY, "{date:}", "name of a time zone"},
        {TEMPLATE_FOR_KEY, "{hour:}", "name of a time zone"},
        {TEMPLATE_FOR_KEY, "{date:../UTC}", "name of a time zone"},
        {TEMPLATE_FOR_KEY, "{date:Europe Berlin}", "name of a time zone"},
        {TEMPLATE_FOR_KEY, "{date:/a~2}", "JSON pointer"},
        {TEMPLATE_FOR_KEY, "{hour|uuid}", "a format is allowed only behind"},
        {TEMPLATE_FOR_KEY, "{hours}", "nearest is {hour}"},
        {TEMPLATE_FOR_TENANT, "{hour}", "cannot be part of a tenant"},
        {TEMPLATE_FOR_PROBE, "/x/{date:UTC}", "cannot be part of a probe"},
    };
    (void)state;
    expect_refused(rows, sizeof(rows) / sizeof(rows[0]));
}

static void formats_and_cookies_stand_where_they_mean_something(void **state)
{
    static const struct refused_row rows[] = {
        {TEMPLATE_FOR_KEY, "{cookie:sid}", "cannot be part of a key"},
        {TEMPLATE_FOR_TENANT, "{cookie:a b}", "not the name of a cookie"},
        {TEMPLATE_FOR_KEY, "{body:/id|uid4}", "there is no format"},
        {TEMPLATE_FOR_KEY, "{body:/id|max:0}", "number of bytes"},
        {TEMPLATE_FOR_KEY, "{body:/id|max:x}", "number of bytes"},
        {TEMPLATE_FOR_KEY, "{body:/id|regex:(a}", "not closed"},
        {TEMPLATE_FOR_KEY, "{body:/id|regex:[a-z]{3}", "not closed"},
        {TEMPLATE_FOR_KEY, "{payload|uuid}", "format is allowed only behind"},
        {TEMPLATE_FOR_TENANT, "{header:X|uuid}", "format is allowed only behind"},
    };
    (void)state;
    expect_refused(rows, sizeof(rows) / sizeof(rows[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_template_is_refused_with_a_reason),
        cmocka_unit_test(clocks_are_refused_with_a_reason),
        cmocka_unit_test(formats_and_cookies_stand_where_they_mean_something),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
