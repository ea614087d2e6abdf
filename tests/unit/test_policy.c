/* SPDX-License-Identifier: Apache-2.0 */
/* The published policy, and that it says what the config said. */
#include "config_texts.h"

#include "base/json/json.h"
#include "core/request/policy.h"

/* The document of a config (mem_free). */
static char *published(const char *text)
{
    struct config *config = good(text);
    struct buf buf = buf_make(POLICY_MAX);
    policy_write(config->gateway.rules, &buf);
    config_free(config);
    char *document = buf_take(&buf);
    assert_non_null(document);
    return document;
}

static void a_rule_is_published_whole(void **state)
{
    static const char wanted[] =
        "{\"rules\":[{\"name\":\"a\",\"match\":\"POST /a/{id}\",\"protected\":true,"
        "\"key\":{\"template\":\"{header:Idempotency-Key}\",\"required\":true,"
        "\"syntax\":\"lenient\",\"format\":\"any\"},"
        "\"tenant\":{\"template\":\"{header:X-Api-Key}\",\"credential\":true,\"authorized\":false},"
        "\"lifetime\":{\"ttl\":\"1d\",\"tombstone\":\"0\"},"
        "\"compared\":{\"payload\":\"all\",\"body\":\"auto\",\"query\":\"all\",\"headers\":[\"If-"
        "Match\"]},"
        "\"kept\":{\"final\":[\"200-300\",\"302-306\",\"309-400\",\"402\",\"404-406\",\"409-424\","
        "\"426-428\",\"430-499\",\"501\",\"505-507\",\"509-599\"],"
        "\"not_done\":[\"301\",\"307-308\",\"401\",\"403\",\"407-408\",\"425\",\"429\",\"503\","
        "\"508\"],"
        "\"in_doubt\":[\"500\",\"502\",\"504\"],\"by_body\":false,"
        "\"max_response_body\":1048576,\"cookies\":false,"
        "\"streamed\":false},\"duplicate\":\"replay\",\"authorized\":false,\"mismatch_status\":409,"
        "\"in_progress\":{\"wait\":"
        "\"10s\"},\"unknown\":\"hold\",\"retry\":\"none\",\"store_down\":\"refuse\","
        "\"max_request_body\":1048576}],\"errors\":{";
    (void)state;
    char *document = published("upstream: http://h\ntenant: \"{header:X-Api-Key}\"\n"
                               "rules: [{name: a, match: \"POST /a/{id}\"}]\n");
    assert_true(strncmp(document, wanted, strlen(wanted)) == 0);
    mem_free(document);
}

static void what_a_rule_says_of_its_own_is_published(void **state)
{
    static const char *const parts[] = {
        "\"template\":\"{header:X-K}#{body:/x/y}{window:1h}\",\"required\":true",
        "\"format\":\"regex\",\"pattern\":\"[a-z]+\\\"\"",
        "\"tenant\":null",
        "\"lifetime\":{\"window\":\"1h\",\"tombstone\":\"7d\"}",
        "\"payload\":{\"exclude\":[\"/"
        "sent_at\"]},\"body\":\"auto\",\"query\":[\"a\",\"b\"],\"headers\":[]",
        "\"final\":[\"200-300\",\"302-306\",\"309-599\"],\"not_done\":[\"301\",\"307-308\"],\"in_"
        "doubt\":[]",
        "\"duplicate\":{\"ack\":204},\"authorized\":true,\"mismatch_status\":422,",
        "\"in_progress\":\"conflict\"",
        "\"streamed\":true",
        "\"unknown\":\"probe\"",
        "\"retry\":{\"profile\":\"background\",\"try_timeout\":\"5s\",\"schedule\":[\"1s\","
        "\"2500ms\"]}",
        "\"store_down\":\"pass\"",
    };
    (void)state;
    char *document = published(
        HEAD
        "rules:\n- name: a\n  match: PUT /a/{id}\n  key: \"{header:X-K}#{body:/x/y}{window:1h}\"\n"
        "  key_format: {regex: '[a-z]+\"'}\n  tombstone: 7d\n"
        "  payload: {exclude: [/sent_at]}\n  query: [a, b]\n  headers: []\n"
        "  remember: all\n  duplicate: {ack: 204}\n  mismatch: 422\n  in_progress: conflict\n"
        "  unknown: {probe: \"GET /a/{path:id}\"}\n  store_down: pass\n"
        "  retry: {profile: background, try_timeout: 5s, schedule: [1s, 2500ms]}\n"
        "  stream: true\n  authorize: GET /me\n");
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        assert_holds(document, parts[i]);
    mem_free(document);
}

static void an_unprotected_rule_is_named_and_said_to_be_so(void **state)
{
    (void)state;
    char *document = published(HEAD "rules: [{name: a, match: POST /, protect: false}]\n");
    assert_holds(document,
                 "{\"rules\":[{\"name\":\"a\",\"match\":\"POST /\",\"protected\":false}],");
    mem_free(document);
}

static void every_error_code_is_a_member_of_errors(void **state)
{
    (void)state;
    char *document = published(HEAD);
    assert_true(strncmp(document, "{\"rules\":[],\"errors\":{\"VALIDATION.", 34) == 0);
    for (int error = ERROR_NONE + 1; error < ERROR_COUNT; error++) {
        const struct error_row *row = error_row((enum error)error);
        char part[256];
        snprintf(part, sizeof(part), "\"%s\":{\"status\":%d,\"title\":\"%s\",\"retryable\":%s,",
                 row->code, row->status, row->title, row->retryable ? "true" : "false");
        assert_holds(document, part);
    }
    mem_free(document);
}

static void it_is_json_whatever_the_rules_say(void **state)
{
    static const char *const configs[] = {
        HEAD,
        HEAD "rules: [{name: a, match: POST /a, key: \"{header:X}\\\"{query:\xc3\xbc}\"}]\n",
        HEAD "rules: [{name: a, match: POST /a, remember: success}, {name: b, match: PUT /b}]\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(configs) / sizeof(configs[0]); i++) {
        char *document = published(configs[i]);
        ARENA_AUTO struct arena arena = arena_make(1 << 20);
        struct json *root = NULL;
        assert_int_equal(json_parse(&arena, slice_of(document), &root, NULL), JSON_OK);
        mem_free(document);
    }
}

static void what_does_not_fit_fails_and_is_not_cut(void **state)
{
    (void)state;
    struct config *config = good(HEAD "rules: [{name: a, match: POST /a}]\n");
    BUF_AUTO struct buf buf = buf_make(300);
    policy_write(config->gateway.rules, &buf);
    assert_false(buf_ok(&buf));
    config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rule_is_published_whole),
        cmocka_unit_test(what_a_rule_says_of_its_own_is_published),
        cmocka_unit_test(an_unprotected_rule_is_named_and_said_to_be_so),
        cmocka_unit_test(every_error_code_is_a_member_of_errors),
        cmocka_unit_test(it_is_json_whatever_the_rules_say),
        cmocka_unit_test(what_does_not_fit_fails_and_is_not_cut),
    };
    return cmocka_run_group_tests_name("policy", tests, NULL, NULL);
}
