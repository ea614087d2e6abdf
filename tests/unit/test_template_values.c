/* SPDX-License-Identifier: Apache-2.0 */
/* Values of templates: decoded, and judged by their formats. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "template_request.h"

/* found: A-M14 */
static void two_spellings_of_a_value_are_one_key_and_one_tenant(void **state)
{
    static const char *const queries[][2] = {
        {"id=ab", "ab"},     {"id=a%62", "ab"},   {"id=a+b", "a b"},
        {"id=a%20b", "a b"}, {"id=a%2Bb", "a+b"}, {"id=%", "%"},
    };
    REQUEST_AUTO struct request request;
    (void)state;
    request_init(&request);
    for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
        request.facts.query = slice_of(queries[i][0]);
        gives(&request, TEMPLATE_FOR_TENANT, "{query:id}", queries[i][1]);
    }
    set_pair(&request, "a%40b", "a@b");
    gives(&request, TEMPLATE_FOR_KEY, "{path:a}{path:b}", "a@b:a@b");
    request.facts.query = SLICE("id=a%0Ab");
    gives(&request, TEMPLATE_FOR_KEY, "{query:id}", "a%0Ab");
    lacks(&request, TEMPLATE_FOR_TENANT, "{query:id}", "query:id");
}

static void a_cookie_is_one_of_its_name(void **state)
{
    REQUEST_AUTO struct request request;
    struct template template;
    (void)state;
    request_init(&request);
    lacks(&request, TEMPLATE_FOR_TENANT, "{cookie:sid}", "cookie:sid");
    headers_add(&request.headers, SLICE("Cookie"), SLICE("_ga=1; sid=s=1 ;sidx=2; Sid=3"));
    gives(&request, TEMPLATE_FOR_TENANT, "{cookie:sid}", "s=1");
    headers_add(&request.headers, SLICE("cookie"), SLICE("sid=s=1"));
    lacks(&request, TEMPLATE_FOR_TENANT, "{cookie:sid}", "cookie:sid");
    compile(&request, TEMPLATE_FOR_TENANT, "{cookie:sid}", &template);
    assert_true(template_is_credential(&template));
}

/* found: B-F7 */
static void a_source_may_carry_a_format(void **state)
{
    static const char *const lacking[] = {"{body:/id|uuid}", "{body:/id|uuid4}", "{body:/id|max:3}",
                                          "{body:/id|regex:[a-z]{3}}", "x{body:/id|regex:a\\{}"};
    REQUEST_AUTO struct request request;
    (void)state;
    request_init(&request);
    set_body(&request, "application/json",
             "{\"id\":\"ab-1\",\"u\":\"8E03978E-40D5-43E8-BC93-6894A57F9324\"}");
    for (size_t i = 0; i < sizeof(lacking) / sizeof(lacking[0]); i++) {
        BUF_AUTO struct buf buf = buf_make(1 << 20);
        struct slice source = {NULL, 0};
        if (evaluate(&request, TEMPLATE_FOR_KEY, lacking[i], &buf, &source) != TEMPLATE_FORMAT)
            fail_msg("%s was taken", lacking[i]);
        assert_true(slice_starts(source, SLICE("body:/id|")));
    }
    gives(&request, TEMPLATE_FOR_KEY, "{body:/id|max:4}", "ab-1");
    gives(&request, TEMPLATE_FOR_KEY, "{body:/id|regex:[a-z]{2}-[0-9]+}{route}",
          "ab-1:refunds.create");
    gives(&request, TEMPLATE_FOR_KEY, "{body:/u|uuid4}", "8e03978e-40d5-43e8-bc93-6894a57f9324");
}

/* found: B-F7 */
static void the_rules_format_judges_the_clients_part_of_a_key(void **state)
{
    REQUEST_AUTO struct request request;
    BUF_AUTO struct buf buf = buf_make(1 << 20);
    struct slice source = {NULL, 0}, problem;
    (void)state;
    request_init(&request);
    request.facts.key_format = key_format_new(KEY_FORMAT_UUID, SLICE(""), &request.arena, &problem);
    headers_add(&request.headers, SLICE("Idempotency-Key"),
                SLICE("8E03978E-40D5-43E8-BC93-6894A57F9324"));
    gives(&request, TEMPLATE_FOR_KEY, "{route}{header:Idempotency-Key}",
          "refunds.create:8e03978e-40d5-43e8-bc93-6894a57f9324");
    request.headers.at[0].value = SLICE("k");
    assert_int_equal(
        evaluate(&request, TEMPLATE_FOR_KEY, "{route}{header:Idempotency-Key}", &buf, &source),
        TEMPLATE_FORMAT);
    assert_true(slice_eq(source, SLICE("header:Idempotency-Key")));
    gives(&request, TEMPLATE_FOR_KEY, "{route}{tenant}", "refunds.create:m1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_spellings_of_a_value_are_one_key_and_one_tenant),
        cmocka_unit_test(a_cookie_is_one_of_its_name),
        cmocka_unit_test(a_source_may_carry_a_format),
        cmocka_unit_test(the_rules_format_judges_the_clients_part_of_a_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
