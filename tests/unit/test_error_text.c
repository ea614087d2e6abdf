/* SPDX-License-Identifier: Apache-2.0 */
/* error_text and `errors:`: what a template may say, and what comes of it. */
#include "config_texts.h"

#include "base/json/json.h"
#include "core/error_text.h"

#define TEMPLATES(text) HEAD "defaults: {errors: {templates: {" text "}}}\n"

static char *filled(const char *text, const struct error_facts *facts)
{
    BUF_AUTO struct buf buf = buf_make(8192);
    struct slice wrong;
    assert_true(error_text_fill(slice_of(text), facts, &buf, &wrong));
    buf_add_char(&buf, '\0');
    assert_true(buf_ok(&buf));
    return buf_take(&buf);
}

/* found: L12 */
static void texts_are_escaped_and_values_are_json(void **state)
{
    struct problem problem = problem_of(ERROR_IN_PROGRESS);
    struct error_facts facts = {&problem, 3, SLICE("4bf92f3577b34da6a3ce929d0e0e4736")};
    (void)state;
    problem.detail = SLICE("say \"x\"\\\n{status}\xFF");
    problem.key = SLICE("k\"1");
    char *all = filled("{\"a\":\"{code} {error_code} {title}\",\"{key}\":\"\\\"{detail}\\\\\","
                       "\"t\":\"{trace_id}{instance}\",\"v\":[{status},{retry_after},{retryable},"
                       "{safe_new_key},{}]}",
                       &facts);
    assert_string_equal(all, "{\"a\":\"CONCURRENT_REQUEST CONFLICT.idempotency.in_progress "
                             "The first request is still running\",\"k\\\"1\":\"\\\"say "
                             "\\\"x\\\"\\\\\\n{status}\\ufffd\\\\\",\"t\":"
                             "\"4bf92f3577b34da6a3ce929d0e0e4736\",\"v\":[409,3,true,false,{}]}");
    mem_free(all);
    problem = problem_of(ERROR_DUPLICATE);
    facts = (struct error_facts){.problem = &problem};
    all = filled("{\"again\":{retry_after},\"k\":\"{key}\",\"d\":\"{detail}\"}", &facts);
    assert_string_equal(all, "{\"again\":null,\"k\":\"\",\"d\":\"Already completed\"}");
    mem_free(all);
}

static void each_error_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (int i = ERROR_NONE + 1; i < ERROR_COUNT; i++)
        for (int j = ERROR_NONE + 1; j < i; j++)
            assert_false(slice_eq(error_text_name((enum error)i), error_text_name((enum error)j)));
    assert_true(slice_eq(error_text_name(ERROR_IN_PROGRESS), SLICE("in_progress")));
    assert_true(slice_eq(error_text_name(ERROR_PATH_AMBIGUOUS), SLICE("path_ambiguous")));
}

static void what_could_not_be_filled_is_refused_where_it_stands(void **state)
{
    static const char *const rows[][2] = {
        {TEMPLATES("default: '{\"a\": \"{nope}\"}'"), "3:42: default: {nope} is not known there"},
        {TEMPLATES("default: '{\"a\": \"{status}\"}'"), "{status} is not known there"},
        {TEMPLATES("default: '{\"a\": {detail}}'"), "{detail} is not known there"},
        {TEMPLATES("default: '{\"a\": {status}'"), "is not JSON once it is filled"},
        {TEMPLATES("default: '{\"a\": 1, \"a\": 2}'"), "duplicate member name"},
        {TEMPLATES("default: 'Conflict'"), "is not JSON once it is filled"},
        {TEMPLATES("in_progres: '{}'"), "did you mean 'in_progress'?"},
        {TEMPLATES(""), "1 to 64 templates by error"},
        {HEAD "defaults: {errors: {media_type: text/html, templates: {default: '{}'}}}\n",
         "ends in +json"},
        {HEAD "defaults: {errors: {media_type: application/json}}\n", "has no templates"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *complaints = refused(rows[i][0]);
        assert_holds(complaints, rows[i][1]);
        mem_free(complaints);
    }
}

static void a_template_over_4_kib_is_refused(void **state)
{
    BUF_AUTO struct buf text = buf_make(16384);
    (void)state;
    buf_printf(&text, HEAD "defaults: {errors: {templates: {default: '\"%0*d\"'}}}\n", 4095, 0);
    buf_add_char(&text, '\0');
    char *complaints = refused(text.at);
    assert_holds(complaints, "is longer than 4096 bytes");
    mem_free(complaints);
}

static void a_409_without_the_member_error_is_noted(void **state)
{
    static const struct {
        const char *text;
        bool noted;
    } rows[] = {
        {"default: '{\"a\": 1}'", true},
        {"in_progress: '{\"a\": 1}'", true},
        {"in_progress: '{\"error\": 1}', default: '{\"error\": null}'", false},
        {"key_missing: '{\"a\": 1}'", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[512];
        snprintf(text, sizeof(text),
                 HEAD "rules:\n- name: a\n  match: POST /a\n  not_done: [500]\n"
                      "  errors: {templates: {%s}}\n",
                 rows[i].text);
        struct config *config = good(text);
        const struct rule *rule = &config->gateway.rules->rules[0];
        assert_non_null(rule->errors);
        assert_slice(rule->errors->media_type, "application/json");
        bool noted = slice_starts(config->notes, SLICE("pawl.yaml:4:9: errors: a template of"));
        assert_int_equal(noted, rows[i].noted);
        config_free(config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_escaped_and_values_are_json),
        cmocka_unit_test(each_error_has_a_name_of_its_own),
        cmocka_unit_test(what_could_not_be_filled_is_refused_where_it_stands),
        cmocka_unit_test(a_template_over_4_kib_is_refused),
        cmocka_unit_test(a_409_without_the_member_error_is_noted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
