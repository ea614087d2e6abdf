/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "core/template/template.h"

#include "template_request.h"
#include <stdio.h>

/* ---- values ---- */

static void every_source_gives_its_value(void **state)
{
    REQUEST_AUTO struct request request;
    (void)state;
    request_init(&request);
    headers_add(&request.headers, SLICE("X-Shop"), SLICE("s1"));
    request.facts.query = SLICE("id=7&x");
    request.facts.n_params = 1;
    request.facts.params[0] = (struct template_path_param){SLICE("pid"), SLICE("42")};
    set_body(&request, "application/json", "{\"a\":{\"b\":[\"zero\",\"one\"]}}");
    gives(&request, TEMPLATE_FOR_KEY, "{body:/a/b/1}", "one");
    gives(&request, TEMPLATE_FOR_KEY, "{header:x-shop}|{path:pid}|{query:id}", "s1|42|7");
    gives(&request, TEMPLATE_FOR_KEY, "{method}{route}{tenant}{payload}",
          "POST:refunds.create:m1:00ff");
    set_body(&request, "application/x-www-form-urlencoded", "name=J+D%C3%B6e&n=1");
    gives(&request, TEMPLATE_FOR_KEY, "{form:name}{form:n}", "J%20D%C3%B6e:1");
}

static void json_values_count_by_value_and_only_scalars_name_something(void **state)
{
    REQUEST_AUTO struct request request;
    (void)state;
    request_init(&request);
    set_body(&request, "application/json",
             "{\"n\":1.0,\"big\":9007199254740993,\"t\":true,\"f\":false,\"z\":null,\"e\":\"\","
             "\"o\":{},\"l\":[1],\"u\":\"\\u00fc\",\"zero\":-0}");
    gives(&request, TEMPLATE_FOR_KEY, "{body:/n}", "1");
    gives(&request, TEMPLATE_FOR_KEY, "{body:/zero}", "0");
    gives(&request, TEMPLATE_FOR_KEY, "{body:/big}", "9007199254740993");
    gives(&request, TEMPLATE_FOR_KEY, "{body:/t}{body:/f}", "true:false");
    gives(&request, TEMPLATE_FOR_KEY, "{body:/u}", "%C3%BC");
    lacks(&request, TEMPLATE_FOR_KEY, "{body:/z}", "body:/z");
    lacks(&request, TEMPLATE_FOR_KEY, "{body:/e}", "body:/e");
    lacks(&request, TEMPLATE_FOR_KEY, "{body:/o}", "body:/o");
    lacks(&request, TEMPLATE_FOR_KEY, "{body:/l}", "body:/l");
    lacks(&request, TEMPLATE_FOR_KEY, "{body:/none}", "body:/none");
    lacks(&request, TEMPLATE_FOR_KEY, "{body:/n}{body:/none/x}", "body:/none/x");
}

static void a_pointer_into_what_is_not_json_names_nothing(void **state)
{
    REQUEST_AUTO struct request request;
    (void)state;
    request_init(&request);
    lacks(&request, TEMPLATE_FOR_KEY, "{body:/a}", "body:/a");
    lacks(&request, TEMPLATE_FOR_KEY, "{form:a}", "form:a");
    set_body(&request, "application/json", "{\"a\":1,\"a\":2}");
    lacks(&request, TEMPLATE_FOR_KEY, "{body:/a}", "body:/a");
    set_body(&request, "text/plain", "{\"a\":1}");
    lacks(&request, TEMPLATE_FOR_KEY, "{body:/a}", "body:/a");
    set_body(&request, "application/json", "{\"a\":1}");
    lacks(&request, TEMPLATE_FOR_KEY, "{form:a}", "form:a");
}

static void no_unicode_normalisation_is_done(void **state)
{
    REQUEST_AUTO struct request request;
    (void)state;
    request_init(&request);
    set_body(&request, "application/json", "{\"a\":\"\\u00e9\",\"b\":\"e\\u0301\"}");
    gives(&request, TEMPLATE_FOR_KEY, "{body:/a}", "%C3%A9");
    gives(&request, TEMPLATE_FOR_KEY, "{body:/b}", "e%CC%81");
}

static void a_header_source_must_come_once_and_reach_the_upstream(void **state)
{
    REQUEST_AUTO struct request request;
    (void)state;
    request_init(&request);
    lacks(&request, TEMPLATE_FOR_TENANT, "{header:X}", "header:X");
    headers_add(&request.headers, SLICE("X"), SLICE("a"));
    gives(&request, TEMPLATE_FOR_TENANT, "{header:X}", "a");
    headers_add(&request.headers, SLICE("x"), SLICE("a"));
    lacks(&request, TEMPLATE_FOR_TENANT, "{header:X}", "header:X");
    lacks(&request, TEMPLATE_FOR_TENANT, "{header:X?}", "header:X?");
    request.headers.n = 1;
    headers_add(&request.headers, SLICE("Connection"), SLICE("x"));
    lacks(&request, TEMPLATE_FOR_TENANT, "{header:X}", "header:X");
    lacks(&request, TEMPLATE_FOR_TENANT, "{header:X?}", "header:X?");
    headers_clear(&request.headers);
    headers_add(&request.headers, SLICE("X"), SLICE(""));
    lacks(&request, TEMPLATE_FOR_TENANT, "{header:X}", "header:X");
    lacks(&request, TEMPLATE_FOR_TENANT, "{header:X?}", "header:X?");
}

static void an_optional_header_may_be_absent(void **state)
{
    REQUEST_AUTO struct request request;
    (void)state;
    request_init(&request);
    gives(&request, TEMPLATE_FOR_TENANT, "{header:X?}", "");
    gives(&request, TEMPLATE_FOR_TENANT, "{header:X?}{header:Y?}", ":");
    headers_add(&request.headers, SLICE("X"), SLICE("a"));
    gives(&request, TEMPLATE_FOR_TENANT, "{header:X?}{header:Y?}", "a:");
}

static void a_query_or_form_name_that_comes_twice_counts_as_missing(void **state)
{
    static const char *const twice[] = {"id=1&id=2", "id=1&%69d=2", "id=1&&x&id", "i%64=&id=3"};
    REQUEST_AUTO struct request request;
    (void)state;
    request_init(&request);
    for (size_t i = 0; i < sizeof(twice) / sizeof(twice[0]); i++) {
        request.facts.query = slice_of(twice[i]);
        lacks(&request, TEMPLATE_FOR_KEY, "{query:id}", "query:id");
        set_body(&request, "application/x-www-form-urlencoded", twice[i]);
        lacks(&request, TEMPLATE_FOR_KEY, "{form:id}", "form:id");
    }
    request.facts.query = SLICE("id=&x=1");
    lacks(&request, TEMPLATE_FOR_KEY, "{query:id}", "query:id");
    request.facts.query = SLICE("id&x=1");
    lacks(&request, TEMPLATE_FOR_KEY, "{query:id}", "query:id");
    request.facts.query = SLICE("idx=1");
    lacks(&request, TEMPLATE_FOR_KEY, "{query:id}", "query:id");
    request.facts.query = SLICE("i%64=a%2fb=c+d&x=1");
    gives(&request, TEMPLATE_FOR_KEY, "{query:id}", "a/b%3Dc%20d");
}

/* ---- key text ---- */

static void a_lone_header_is_read_as_a_key(void **state)
{
    REQUEST_AUTO struct request request;
    (void)state;
    request_init(&request);
    headers_add(&request.headers, SLICE("Idempotency-Key"), SLICE("\"a b%:\""));
    gives(&request, TEMPLATE_FOR_KEY, "{header:Idempotency-Key}", "a b%:");
    gives(&request, TEMPLATE_FOR_KEY, "{header:Idempotency-Key}{route}",
          "a%20b%25%3A:refunds.create");
    request.headers.at[0].value = SLICE("bare");
    gives(&request, TEMPLATE_FOR_KEY, "{header:Idempotency-Key}{route}", "bare:refunds.create");
    request.facts.key_syntax = KEY_SYNTAX_STRICT;
    lacks(&request, TEMPLATE_FOR_KEY, "{header:Idempotency-Key}", "header:Idempotency-Key");
    lacks(&request, TEMPLATE_FOR_KEY, "{header:Idempotency-Key}{route}", "header:Idempotency-Key");
    request.facts.key_syntax = KEY_SYNTAX_LENIENT;
    request.headers.at[0].value = SLICE("a, b");
    lacks(&request, TEMPLATE_FOR_KEY, "{header:Idempotency-Key}{route}", "header:Idempotency-Key");
}

static void values_never_run_together(void **state)
{
    REQUEST_AUTO struct request request;
    (void)state;
    request_init(&request);
    set_pair(&request, "ab", "c");
    gives(&request, TEMPLATE_FOR_KEY, "{path:a}{path:b}", "ab:c");
    gives(&request, TEMPLATE_FOR_KEY, "{path:a}{window:1h}{path:b}", "ab:c");
    gives(&request, TEMPLATE_FOR_KEY, "x{path:a} {path:b}-y", "xab c-y");
    set_pair(&request, "a", "bc");
    gives(&request, TEMPLATE_FOR_KEY, "{path:a}{path:b}", "a:bc");
    set_pair(&request, "a:b", "c");
    gives(&request, TEMPLATE_FOR_KEY, "{path:a}{path:b}", "a%3Ab:c");
    set_pair(&request, "a", "b:c");
    gives(&request, TEMPLATE_FOR_KEY, "{path:a}{path:b}", "a:b%3Ac");
    set_pair(&request, "a%3Ab", "c");
    gives(&request, TEMPLATE_FOR_KEY, "{path:a}{path:b}", "a%3Ab:c");
    gives(&request, TEMPLATE_FOR_TENANT, "{path:a}{path:b}", "a%3Ab:c");
    set_pair(&request, "a%253Ab", "c");
    gives(&request, TEMPLATE_FOR_KEY, "{path:a}{path:b}", "a%253Ab:c");
}

static void exactly_the_named_characters_stay_as_they_are(void **state)
{
    REQUEST_AUTO struct request request;
    (void)state;
    request_init(&request);
    set_pair(&request, "AZaz09._~/@+-", " !\"#$%&'()*,:;<=>?[\\]^`{|}\x7f\x01\xff");
    gives(&request, TEMPLATE_FOR_KEY, "{path:a}{path:b}",
          "AZaz09._~/@+-:%20%21%22%23%24%25%26%27%28%29%2A%2C%3A%3B%3C%3D%3E%3F%5B%5C%5D%5E%60"
          "%7B%7C%7D%7F%01%FF");
}

static void a_window_leaves_nothing_in_the_key_text(void **state)
{
    REQUEST_AUTO struct request request;
    struct template template;
    (void)state;
    request_init(&request);
    gives(&request, TEMPLATE_FOR_KEY, "{route}{window:1h}", "refunds.create");
    gives(&request, TEMPLATE_FOR_KEY, "{window:5m}{route}", "refunds.create");
    compile(&request, TEMPLATE_FOR_KEY, "{route}{window:1h}", &template);
    assert_int_equal(template_window_us(&template), 3600 * CLOCK_US_PER_S);
    compile(&request, TEMPLATE_FOR_KEY, "{route}", &template);
    assert_int_equal(template_window_us(&template), 0);
}

static void key_of_size(struct request *request, size_t n, char *ret_text)
{
    BUF_AUTO struct buf buf = buf_make(256);
    struct slice missing;
    char value[400];
    memset(value, 'v', n);
    value[n] = '\0';
    set_pair(request, value, "x");
    assert_int_equal(evaluate(request, TEMPLATE_FOR_KEY, "{path:a}{window:1h}", &buf, &missing),
                     TEMPLATE_OK);
    snprintf(ret_text, 400, "%.*s", SLICE_ARG(buf_slice(&buf)));
}

static void a_key_over_255_bytes_becomes_its_digest(void **state)
{
    REQUEST_AUTO struct request request;
    char text[400];
    (void)state;
    request_init(&request);
    key_of_size(&request, 255, text);
    assert_int_equal(strlen(text), 255);
    key_of_size(&request, 256, text);
    /* printf '%0256d' 0 | tr 0 v | sha256sum */
    assert_string_equal(text,
                        "sha256-fd50c0803252c6791918690e0f420b0e6828dd8b442ae42ee1623332e0f1ca82");
}

static void nobody_spells_the_digest_of_a_longer_key(void **state)
{
    REQUEST_AUTO struct request request;
    BUF_AUTO struct buf buf = buf_make(256);
    struct slice missing;
    char digested[400];
    (void)state;
    request_init(&request);
    key_of_size(&request, 300, digested);
    set_pair(&request, digested, "x");
    assert_int_equal(evaluate(&request, TEMPLATE_FOR_KEY, "{path:a}{window:1h}", &buf, &missing),
                     TEMPLATE_OK);
    assert_int_equal(buf.len, 71);
    assert_false(slice_eq(buf_slice(&buf), slice_of(digested)));
    set_pair(&request, "sha256-short", "x");
    gives(&request, TEMPLATE_FOR_KEY, "{path:a}{window:1h}", "sha256-short");
}

static void long_values_are_digested_however_they_are_spelled(void **state)
{
    REQUEST_AUTO struct request request;
    BUF_AUTO struct buf one = buf_make(256);
    BUF_AUTO struct buf other = buf_make(256);
    struct slice missing;
    static char value[70001];
    (void)state;
    request_init(&request);
    memset(value, '%', sizeof(value) - 1);
    set_pair(&request, value, "c");
    assert_int_equal(evaluate(&request, TEMPLATE_FOR_KEY, "{path:a}{path:b}", &one, &missing),
                     TEMPLATE_OK);
    value[69999] = '\0';
    set_pair(&request, value, "%c");
    assert_int_equal(evaluate(&request, TEMPLATE_FOR_KEY, "{path:a}{path:b}", &other, &missing),
                     TEMPLATE_OK);
    assert_int_equal(one.len, 71);
    assert_false(slice_eq(buf_slice(&one), buf_slice(&other)));
}

/* ---- tenants ---- */

static void a_tenant_of_one_source_is_the_value_as_sent(void **state)
{
    REQUEST_AUTO struct request request;
    (void)state;
    request_init(&request);
    headers_add(&request.headers, SLICE("X-Merchant-Id"), SLICE("Acme & Co: 100%"));
    gives(&request, TEMPLATE_FOR_TENANT, "{header:X-Merchant-Id}", "Acme & Co: 100%");
    gives(&request, TEMPLATE_FOR_TENANT, "m:{header:X-Merchant-Id}",
          "m:Acme%20%26%20Co%3A%20100%25");
    gives(&request, TEMPLATE_FOR_TENANT, "acme", "acme");
}

static void tenants_of_two_sources_never_meet(void **state)
{
    REQUEST_AUTO struct request request;
    (void)state;
    request_init(&request);
    headers_add(&request.headers, SLICE("A"), SLICE("a:b"));
    headers_add(&request.headers, SLICE("B"), SLICE("c"));
    gives(&request, TEMPLATE_FOR_TENANT, "{header:A}{header:B}", "a%3Ab:c");
    request.headers.at[0].value = SLICE("a");
    request.headers.at[1].value = SLICE("b:c");
    gives(&request, TEMPLATE_FOR_TENANT, "{header:A}{header:B}", "a:b%3Ac");
}

static void credentials_are_seen_and_kept_out_of_keys(void **state)
{
    static const char *const names[] = {"authorization", "Proxy-Authorization", "COOKIE",
                                        "X-Api-Key"};
    REQUEST_AUTO struct request request;
    struct template template;
    (void)state;
    request_init(&request);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char text[64];
        struct slice problem;
        snprintf(text, sizeof(text), "t:{header:%s}", names[i]);
        compile(&request, TEMPLATE_FOR_TENANT, text, &template);
        assert_true(template_is_credential(&template));
        assert_false(template_compile(slice_of(text), TEMPLATE_FOR_KEY, &request.arena, &template,
                                      &problem));
    }
    compile(&request, TEMPLATE_FOR_TENANT, "{header:X-Merchant-Id}", &template);
    assert_false(template_is_credential(&template));
}

/* ---- probes ---- */

static void a_probe_target_is_a_url_that_says_what_was_meant(void **state)
{
    REQUEST_AUTO struct request request;
    (void)state;
    request_init(&request);
    request.facts.key = SLICE("a b+c&d=e?f#g");
    gives(&request, TEMPLATE_FOR_PROBE, "/refunds/by-key/{key}",
          "/refunds/by-key/a%20b%2Bc%26d%3De%3Ff%23g");
    gives(&request, TEMPLATE_FOR_PROBE, "/refunds?key={key}&m={method}",
          "/refunds?key=a%20b%2Bc%26d%3De%3Ff%23g&m=POST");
    set_body(&request, "application/json", "{\"n\":1.50}");
    gives(&request, TEMPLATE_FOR_PROBE, "/o/{body:/n}", "/o/1.50");
    set_pair(&request, "a%20b%C3%A9", "x+y!");
    gives(&request, TEMPLATE_FOR_PROBE, "/o/{path:a}/{path:b}", "/o/a%20b%C3%A9/x%2By%21");
    request.facts.query = SLICE("q=a+b%20c");
    gives(&request, TEMPLATE_FOR_PROBE, "/o?q={query:q}", "/o?q=a+b%20c");
}

static void a_probe_target_that_servers_read_in_different_ways_is_not_made(void **state)
{
    static const char *const keys[] = {"..", ".", "a/b", "../x", "a\\b", "/"};
    REQUEST_AUTO struct request request;
    (void)state;
    request_init(&request);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        request.facts.key = slice_of(keys[i]);
        makes_none(&request, TEMPLATE_FOR_PROBE, TEMPLATE_FORMAT, "/by-key/{key}", "key");
    }
    request.facts.key = SLICE("a/b");
    gives(&request, TEMPLATE_FOR_PROBE, "/by-key?k={key}", "/by-key?k=a%2Fb");
    request.facts.key = SLICE("k");
    set_pair(&request, "a%0Ab", ";v=1");
    makes_none(&request, TEMPLATE_FOR_PROBE, TEMPLATE_FORMAT, "/o/{path:a}", "path:a");
    makes_none(&request, TEMPLATE_FOR_PROBE, TEMPLATE_FORMAT, "/o/{key}/{path:b}", "path:b");
}

/* ---- compiling ---- */

static void templates_say_what_they_need(void **state)
{
    REQUEST_AUTO struct request request;
    struct template template;
    (void)state;
    request_init(&request);
    compile(&request, TEMPLATE_FOR_KEY, "{header:Idempotency-Key}", &template);
    assert_true(template_is_plain_header(&template));
    assert_false(template_needs_body(&template));
    compile(&request, TEMPLATE_FOR_KEY, "{header:A}{body:/a}", &template);
    assert_false(template_is_plain_header(&template));
    assert_true(template_needs_body(&template));
    compile(&request, TEMPLATE_FOR_KEY, "{form:a}", &template);
    assert_true(template_needs_body(&template));
    compile(&request, TEMPLATE_FOR_KEY, "k:{payload}", &template);
    assert_false(template_needs_body(&template));
}

static void a_compiled_template_does_not_look_at_the_config_text_again(void **state)
{
    REQUEST_AUTO struct request request;
    BUF_AUTO struct buf buf = buf_make(256);
    struct template template;
    struct slice problem;
    struct slice missing;
    char text[] = "x:{route}";
    (void)state;
    request_init(&request);
    assert_true(
        template_compile(slice_of(text), TEMPLATE_FOR_KEY, &request.arena, &template, &problem));
    memset(text, '!', sizeof(text) - 1);
    assert_int_equal(template_key(&template, &request.facts, &request.arena, &buf, &missing),
                     TEMPLATE_OK);
    assert_true(slice_eq(buf_slice(&buf), SLICE("x:refunds.create")));
}

/* ---- memory ---- */

#ifdef PAWL_HOOKS
/* Each of the two steps with its n-th allocation failing; whether one of them got that far. */
static bool fails_at(struct request *request, const char *text, long n)
{
    ARENA_AUTO struct arena first = arena_make(ARENA_MAX);
    ARENA_AUTO struct arena second = arena_make(ARENA_MAX);
    BUF_AUTO struct buf buf = buf_make(4096);
    struct template template;
    struct slice problem = {NULL, 0};
    struct slice missing;
    mem_fail_nth(n);
    bool compiled = template_compile(slice_of(text), TEMPLATE_FOR_KEY, &first, &template, &problem);
    bool fired = mem_fail_fired();
    mem_fail_nth(0);
    assert_true(compiled == !fired);
    if (!compiled)
        assert_true(slice_eq(problem, SLICE("out of memory")));
    compile(request, TEMPLATE_FOR_KEY, text, &template);
    mem_fail_nth(n);
    enum template_result result = template_key(&template, &request->facts, &second, &buf, &missing);
    bool fired_again = mem_fail_fired();
    mem_fail_nth(0);
    assert_int_equal(result, fired_again ? TEMPLATE_NO_MEMORY : TEMPLATE_OK);
    return fired || fired_again;
}

static void every_allocation_may_fail(void **state)
{
    static const char *const texts[] = {"{header:Idempotency-Key}",
                                        "{header:Idempotency-Key}{body:/n}{route}"};
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        REQUEST_AUTO struct request request;
        long n = 1;
        request_init(&request);
        set_body(&request, "application/json", "{\"n\":1.50}");
        headers_add(&request.headers, SLICE("Idempotency-Key"), SLICE("\"a\\\"b\""));
        while (fails_at(&request, texts[i], n))
            n++;
        assert_true(n > 1);
    }
}
#endif

static void a_key_that_finds_no_room_is_no_memory(void **state)
{
    REQUEST_AUTO struct request request;
    BUF_AUTO struct buf buf = buf_make(8);
    struct slice missing;
    (void)state;
    request_init(&request);
    assert_int_equal(evaluate(&request, TEMPLATE_FOR_KEY, "{route}", &buf, &missing),
                     TEMPLATE_NO_MEMORY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_source_gives_its_value),
        cmocka_unit_test(json_values_count_by_value_and_only_scalars_name_something),
        cmocka_unit_test(a_pointer_into_what_is_not_json_names_nothing),
        cmocka_unit_test(no_unicode_normalisation_is_done),
        cmocka_unit_test(a_header_source_must_come_once_and_reach_the_upstream),
        cmocka_unit_test(an_optional_header_may_be_absent),
        cmocka_unit_test(a_query_or_form_name_that_comes_twice_counts_as_missing),
        cmocka_unit_test(a_lone_header_is_read_as_a_key),
        cmocka_unit_test(values_never_run_together),
        cmocka_unit_test(exactly_the_named_characters_stay_as_they_are),
        cmocka_unit_test(a_window_leaves_nothing_in_the_key_text),
        cmocka_unit_test(a_key_over_255_bytes_becomes_its_digest),
        cmocka_unit_test(nobody_spells_the_digest_of_a_longer_key),
        cmocka_unit_test(long_values_are_digested_however_they_are_spelled),
        cmocka_unit_test(a_tenant_of_one_source_is_the_value_as_sent),
        cmocka_unit_test(tenants_of_two_sources_never_meet),
        cmocka_unit_test(credentials_are_seen_and_kept_out_of_keys),
        cmocka_unit_test(a_probe_target_is_a_url_that_says_what_was_meant),
        cmocka_unit_test(a_probe_target_that_servers_read_in_different_ways_is_not_made),
        cmocka_unit_test(templates_say_what_they_need),
        cmocka_unit_test(a_compiled_template_does_not_look_at_the_config_text_again),
#ifdef PAWL_HOOKS
        cmocka_unit_test(every_allocation_may_fail),
#endif
        cmocka_unit_test(a_key_that_finds_no_room_is_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
