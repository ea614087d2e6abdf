/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "webhook/endpoints/endpoint.h"

static const struct store_event event = {.id = {"e1", 2},
                                         .type = {"refund.created", 14},
                                         .time = {"2026-02-19T10:00:00Z", 20},
                                         .data = {"{}", 2}};

static struct envelope_rule rule_of(enum webhook_form form)
{
    struct envelope_rule rule = {.envelope.form = form, .source = SLICE("/a")};
    for (int fact = 0; form == WEBHOOK_OWN && fact <= WEBHOOK_FACT_SOURCE; fact++) {
        rule.envelope.own.at[rule.envelope.own.n].name = SLICE("a \"name\"");
        rule.envelope.own.at[rule.envelope.own.n++].fact = (enum webhook_fact)fact;
    }
    return rule;
}

static void a_rule_is_read_as_it_was_written(void **state)
{
    (void)state;
    for (int form = WEBHOOK_STANDARD; form <= WEBHOOK_OWN; form++) {
        BUF_AUTO struct buf text = buf_make(SIZE_MAX), body = buf_make(SIZE_MAX);
        BUF_AUTO struct buf again = buf_make(SIZE_MAX), body_again = buf_make(SIZE_MAX);
        ARENA_AUTO struct arena arena = arena_make(SIZE_MAX);
        const struct envelope_rule rule = rule_of((enum webhook_form)form);
        struct envelope_rule read;
        envelope_rule_write(&rule, &text);
        assert_true(envelope_rule_read(buf_slice(&text), &arena, &read));
        envelope_rule_write(&read, &again);
        webhook_envelope_write(&rule, &event, &body);
        webhook_envelope_write(&read, &event, &body_again);
        assert_true(slice_eq(buf_slice(&text), buf_slice(&again)));
        assert_true(slice_eq(buf_slice(&body), buf_slice(&body_again)));
        assert_true(
            slice_eq(webhook_envelope_type(&rule.envelope), webhook_envelope_type(&read.envelope)));
    }
}

static void a_source_that_is_not_told_makes_no_other_rule(void **state)
{
    (void)state;
    BUF_AUTO struct buf one = buf_make(SIZE_MAX), other = buf_make(SIZE_MAX);
    struct envelope_rule rule = rule_of(WEBHOOK_STANDARD);
    envelope_rule_write(&rule, &one);
    rule.source = SLICE("/b");
    envelope_rule_write(&rule, &other);
    assert_true(slice_eq(buf_slice(&one), buf_slice(&other)));
    assert_true(slice_eq(buf_slice(&one), SLICE("{\"form\":\"standard\"}")));
}

static void what_is_no_rule_is_not_taken_for_one(void **state)
{
    static const char *const texts[] = {
        "",
        "{",
        "[]",
        "1",
        "{}",
        "{\"form\":1}",
        "{\"form\":\"newer\"}",
        "{\"form\":\"\"}",
        "{\"form\":\"own\"}",
        "{\"form\":\"own\",\"members\":[]}",
        "{\"form\":\"own\",\"members\":[1]}",
        "{\"form\":\"own\",\"members\":[{\"name\":\"a\"}]}",
        "{\"form\":\"own\",\"members\":[{\"name\":\"a\",\"is\":\"newer\"}]}",
        "{\"form\":\"own\",\"members\":[{\"name\":1,\"is\":\"id\"}]}",
        "{\"form\":\"own\",\"members\":[1,2,3,4,5,6,7,8,9]}"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ARENA_AUTO struct arena arena = arena_make(SIZE_MAX);
        struct envelope_rule rule;
        assert_false(envelope_rule_read(slice_of(texts[i]), &arena, &rule));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rule_is_read_as_it_was_written),
        cmocka_unit_test(a_source_that_is_not_told_makes_no_other_rule),
        cmocka_unit_test(what_is_no_rule_is_not_taken_for_one),
    };
    return cmocka_run_group_tests_name("envelope", tests, NULL, NULL);
}
