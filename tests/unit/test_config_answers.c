/* SPDX-License-Identifier: Apache-2.0 */
/* The config's options on answers: what they mean, what is refused, what is warned of. */
#include "config_texts.h"

#include "config/options.h"

#define RULE HEAD "rules:\n- name: a\n  match: POST /a\n"

static struct config *with(const char *option)
{
    char text[1024];
    snprintf(text, sizeof(text), RULE "  %s\n", option);
    return good(text);
}

static void assert_sort(const struct config *config, int status, enum response_sort sort)
{
    assert_int_equal(remember_policy_sort(&config->gateway.rules->rules[0].responses, status),
                     sort);
}

static void what_is_not_written_about_answers_is_the_contracts_default(void **state)
{
    (void)state;
    struct config *config = good(RULE);
    const struct rule *rule = &config->gateway.rules->rules[0];
    struct remember_policy wanted = remember_policy_of(REMEMBER_FINAL);
    assert_memory_equal(&rule->responses, &wanted, sizeof(wanted));
    assert_int_equal(rule->duplicate, RULE_DUPLICATE_REPLAY);
    assert_int_equal(rule->mismatch_status, 409);
    assert_int_equal(rule->n_formerly, 0);
    assert_false(rule->secret || rule->store_down_pass || config->gateway.policy_off);
    assert_false(cors_is_on(&config->gateway.cors));
    assert_int_equal(config->gateway.public_url.len, 0);
    config_free(config);
}

static void remember_sorts_answers_and_lists_move_single_statuses(void **state)
{
    (void)state;
    struct config *config = with("remember: success");
    assert_sort(config, 404, SORT_NOT_DONE);
    assert_sort(config, 302, SORT_FINAL);
    config_free(config);
    config = with("remember: all");
    assert_sort(config, 503, SORT_FINAL);
    config_free(config);
    config = with("not_done: [409, 502]\n  in_doubt: [500, 500]");
    assert_sort(config, 409, SORT_NOT_DONE);
    assert_sort(config, 502, SORT_NOT_DONE);
    assert_sort(config, 500, SORT_IN_DOUBT);
    assert_sort(config, 504, SORT_IN_DOUBT);
    config_free(config);
}

static void a_500_is_in_doubt_until_the_rule_says_that_it_is_not(void **state)
{
    (void)state;
    struct config *config = with("remember: success");
    assert_sort(config, 500, SORT_IN_DOUBT);
    config_free(config);
    config = with("remember: success\n  unknown: {probe: \"GET /a/{key}\"}");
    assert_sort(config, 500, SORT_IN_DOUBT);
    config_free(config);
    config = with("not_done: [500]\n  unknown: {probe: \"GET /a/{key}\"}");
    assert_sort(config, 500, SORT_NOT_DONE);
    config_free(config);
}

static enum response_says said(const struct rule *rule, int status, const char *body)
{
    struct header line = {SLICE("Content-Type"), SLICE("application/json")};
    struct headers headers = {.at = {line}, .n = 1};
    return disposition_says_by_body(&rule->by_body, status, &headers, slice_of(body));
}

static void scalars_of_conditions_are_those_of_yaml_and_numbers_count_by_value(void **state)
{
    static const struct {
        const char *is;
        const char *yes; /* in a body, and so is none of `no` */
        const char *no;
    } cases[] = {
        {"[5]", "5.0", "\"5\""},
        {"['5']", "\"5\"", "5"},
        {"[true]", "true", "\"true\""},
        {"[\"true\"]", "\"true\"", "true"},
        {"[False]", "false", "null"},
        {"[yes]", "\"yes\"", "true"},
        {"[~]", "null", "\"\""},
        {"[null, 1]", "1", "false"},
        {"[+007]", "7", "8"},
        {"[.5]", "0.50", "5"},
        {"[-1.]", "-1", "1"},
        {"[0x1f]", "31", "\"0x1f\""},
        {"[0o17]", "15", "17"},
        {"[1e2]", "100", "\"1e2\""},
        {"[BUSY, 704]", "\"BUSY\"", "\"busy\""},
        {"[-0]", "0", "null"},
        {"[9007199254740993]", "9007199254740993", "9007199254740992"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char option[128], body[64];
        snprintf(option, sizeof option, "not_done: [{body: /a, is: %s}]", cases[i].is);
        struct config *config = with(option);
        const struct rule *rule = &config->gateway.rules->rules[0];
        snprintf(body, sizeof body, "{\"a\":%s}", cases[i].yes);
        assert_int_equal(said(rule, 200, body), SAYS_NOT_DONE);
        snprintf(body, sizeof body, "{\"a\":%s}", cases[i].no);
        assert_int_equal(said(rule, 200, body), SAYS_NOTHING);
        config_free(config);
    }
}

static void conditions_hold_with_all_of_their_parts_and_doubt_comes_first(void **state)
{
    (void)state;
    struct config *config = with(
        "not_done: [503, {status: 200, body: /ok, is: [false], and: [{body: /id, absent: true}, "
        "{body: /code, is: [1, 2]}]}]\n"
        "  in_doubt: [{body: /maybe, is: [true]}]");
    const struct rule *rule = &config->gateway.rules->rules[0];
    assert_sort(config, 503, SORT_NOT_DONE);
    assert_int_equal(said(rule, 200, "{\"ok\":false,\"code\":2}"), SAYS_NOT_DONE);
    assert_int_equal(said(rule, 202, "{\"ok\":false,\"code\":2}"), SAYS_NOTHING);
    assert_int_equal(said(rule, 200, "{\"ok\":false,\"code\":3}"), SAYS_NOTHING);
    assert_int_equal(said(rule, 200, "{\"ok\":false,\"code\":2,\"id\":null}"), SAYS_NOTHING);
    assert_int_equal(said(rule, 200, "{\"ok\":false,\"code\":2,\"maybe\":true}"), SAYS_IN_DOUBT);
    assert_int_equal(said(rule, 200, "{\"ok\":false,\"code\":2"), SAYS_NOTHING);
    assert_int_equal(said(rule, 200, "{\"ok\":false,\"ok\":false,\"code\":2}"), SAYS_NOTHING);
    config_free(config);
}

static bool finds_nothing(const struct config *config, int status, const char *body)
{
    struct header line = {SLICE("Content-Type"), SLICE("application/problem+json; charset=utf-8")};
    struct headers headers = {.at = {line}, .n = 1};
    return rule_probe_says(&config->gateway.rules->rules[0], status, &headers, slice_of(body)) ==
           SAYS_NOT_DONE;
}

static void a_probe_finds_nothing_by_what_the_rule_says_and_by_no_error(void **state)
{
    (void)state;
    struct config *config = with("unknown: {probe: \"GET /a/{key}\"}");
    assert_true(finds_nothing(config, 404, ""));
    assert_false(finds_nothing(config, 410, "") || finds_nothing(config, 200, "{}"));
    config_free(config);
    config = with("unknown: {probe: \"GET /a/{key}\"}\n"
                  "  not_found: [410, {body: /data/0, absent: true}]");
    assert_true(finds_nothing(config, 410, "") && finds_nothing(config, 200, "{\"data\":[]}"));
    assert_false(finds_nothing(config, 404, "") || finds_nothing(config, 503, "{\"data\":[]}") ||
                 finds_nothing(config, 200, "") || finds_nothing(config, 200, "{\"data\":[null]}"));
    config_free(config);
}

static void a_list_in_a_rule_replaces_that_of_the_defaults(void **state)
{
    (void)state;
    struct config *config = good(HEAD "defaults: {not_done: [409], in_doubt: [500]}\n"
                                      "rules: [{name: a, match: POST /a, not_done: [422]}]\n");
    assert_sort(config, 409, SORT_FINAL);
    assert_sort(config, 422, SORT_NOT_DONE);
    assert_sort(config, 500, SORT_IN_DOUBT);
    config_free(config);
}

static void a_duplicate_is_replayed_rejected_or_acknowledged(void **state)
{
    static const struct {
        const char *option;
        enum rule_duplicate duplicate;
        int status;
    } cases[] = {
        {"duplicate: replay", RULE_DUPLICATE_REPLAY, 200},
        {"duplicate: reject", RULE_DUPLICATE_REJECT, 200},
        {"duplicate: ack", RULE_DUPLICATE_ACK, 200},
        {"duplicate: {ack: 200}", RULE_DUPLICATE_ACK, 200},
        {"duplicate: {ack: 204}", RULE_DUPLICATE_ACK, 204},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct config *config = with(cases[i].option);
        assert_int_equal(config->gateway.rules->rules[0].duplicate, cases[i].duplicate);
        assert_int_equal(config->gateway.rules->rules[0].ack_status, cases[i].status);
        config_free(config);
    }
}

static void the_other_options_of_a_rule_mean_what_they_say(void **state)
{
    (void)state;
    struct config *config = with("mismatch: 422\n  store_down: pass\n  secret: true\n"
                                 "  tenant: \"{header:X-T}\"\n  formerly: [old.name, older]");
    const struct rule *rule = &config->gateway.rules->rules[0];
    assert_int_equal(rule->mismatch_status, 422);
    assert_true(rule->store_down_pass && rule->secret && rule_hides_tenant(rule));
    assert_int_equal(rule->n_formerly, 2);
    assert_slice(rule->formerly[0], "old.name");
    assert_slice(rule->formerly[1], "older");
    config_free(config);
}

static void a_secret_at_the_top_holds_for_every_tenant_and_for_no_none(void **state)
{
    (void)state;
    struct config *config = good("upstream: http://h\ntenant: \"{header:X-T}\"\nsecret: true\n"
                                 "rules:\n- {name: a, match: POST /a}\n"
                                 "- {name: b, match: POST /b, tenant: none}\n"
                                 "- {name: c, match: POST /c, secret: false}\n");
    assert_true(rule_hides_tenant(&config->gateway.rules->rules[0]));
    assert_false(rule_hides_tenant(&config->gateway.rules->rules[1]));
    assert_false(rule_hides_tenant(&config->gateway.rules->rules[2]));
    config_free(config);
}

static void origins_url_and_policy_are_read(void **state)
{
    (void)state;
    struct config *config =
        good(HEAD "cors: {origins: [https://a.example, http://localhost:3000], credentials: true}\n"
                  "public_url: https://api.example/v1/\npolicy: off\n");
    assert_int_equal(config->gateway.cors.n, 2);
    assert_slice(config->gateway.cors.origins[1], "http://localhost:3000");
    assert_true(config->gateway.cors.credentials && !config->gateway.cors.any &&
                config->gateway.policy_off);
    assert_slice(config->gateway.public_url, "https://api.example/v1");
    config_free(config);
    config = good(HEAD "cors: {origins: [\"*\"]}\n");
    assert_true(config->gateway.cors.any && cors_is_on(&config->gateway.cors));
    config_free(config);
}

/* ---- refusals ---- */

struct bad {
    const char *text;
    const char *place; /* "LINE:COLUMN: key: " */
    const char *part;
};

static void wrong_values_are_refused_where_they_stand(void **state)
{
    static const struct bad cases[] = {
        {HEAD "defaults: {remember: succes}\n", "3:22: remember: ", "did you mean 'success'?"},
        {HEAD "defaults: {not_done: 409}\n",
         "3:22: not_done: ", "is not a list (did you mean [409]?"},
        {HEAD "defaults: {not_done: [4xx]}\n", "3:23: not_done: ", "a status from 200 to 599"},
        {HEAD "defaults: {not_done: [{body: code, is: [1]}]}\n",
         "3:30: body: ", "a JSON pointer of at most 256 bytes"},
        {HEAD "defaults: {not_done: [{body: /a}]}\n", "3:23: not_done: ", "one of is: and absent:"},
        {HEAD "defaults: {not_done: [{body: /a, is: [1], absent: true}]}\n",
         "3:23: not_done: ", "one of is: and absent:"},
        {HEAD "defaults: {not_done: [{body: /a, absent: false}]}\n",
         "3:42: absent: ", "expected true"},
        {HEAD "defaults: {not_done: [{body: /a, is: []}]}\n", "3:38: is: ", "expected at most 16"},
        {HEAD "defaults: {not_done: [{body: /a, is: [1e99999]}]}\n",
         "3:39: is: ", "cannot be compared"},
        {HEAD "defaults: {not_done: [{body: /a, is: [.inf]}]}\n",
         "3:39: is: ", "cannot be compared"},
        {HEAD "defaults: {not_done: [{body: /a, is: [[1]]}]}\n",
         "3:39: is: ", "cannot be compared"},
        {HEAD "defaults: {not_done: [{status: 99, body: /a, is: [1]}]}\n",
         "3:32: status: ", "a status from 200 to 599"},
        {HEAD "defaults: {not_done: [{bdy: /a, is: [1]}]}\n", "3:24: ", "bdy"},
        {HEAD "defaults: {not_done: [{body: /a, is: [1], and: [{body: /b, status: 200}]}]}\n",
         "3:60: ", "status"},
        {HEAD "rules:\n- {name: a, match: POST /a, stream: true, "
              "in_doubt: [{body: /a, is: [1]}]}\n",
         "4:53: in_doubt: ", "which `stream` passes unread"},
        {HEAD "rules:\n- {name: a, match: POST /a, not_found: [404]}\n",
         "4:40: not_found: ", "only with a probe"},
        {HEAD "rules:\n- {name: a, match: POST /a, unknown: {probe: 'GET /a/{key}'}, "
              "not_found: [503]}\n",
         "4:74: not_found: ", "503 does not say that there is no such operation"},
        {HEAD "defaults: {in_doubt: [199]}\n", "3:23: in_doubt: ", "a status from 200 to 599"},
        {HEAD "defaults: {in_doubt: [600]}\n", "3:23: in_doubt: ", "a status from 200 to 599"},
        {HEAD "rules:\n- {name: a, match: POST /a, not_done: [500], in_doubt: [502, 500]}\n",
         "4:56: in_doubt: ", "500 is in not_done, too"},
        {HEAD "defaults: {duplicate: rejekt}\n", "3:23: duplicate: ", "did you mean 'reject'?"},
        {HEAD "defaults: {duplicate: {akc: 204}}\n", "3:24: akc: ", "did you mean 'ack'?"},
        {HEAD "defaults: {duplicate: {ack: 201}}\n", "3:29: ack: ", "200 or 204"},
        {HEAD "defaults: {mismatch: 404}\n", "3:22: mismatch: ", "expected 409, 422 or 400"},
        {HEAD "defaults: {store_down: open}\n", "3:24: store_down: ", "refuse or pass"},
        {HEAD "defaults: {secret: true}\n", "3:12: secret: ", "at the top or in a rule"},
        {HEAD "policy: of\n", "3:9: policy: ", "did you mean 'off'?"},
        {HEAD "public_url: api.example\n", "3:13: public_url: ", "such as https://"},
        {HEAD "public_url: https://\n", "3:13: public_url: ", "such as https://"},
        {HEAD "public_url: https://a b\n", "3:13: public_url: ", "such as https://"},
        {HEAD "public_url: https://a?x\n", "3:13: public_url: ", "such as https://"},
        {HEAD "cors: true\n", "3:7: cors: ", "{origins: ["},
        {HEAD "cors: {}\n", "3:7: cors: ", "has no origins"},
        {HEAD "cors: {origins: []}\n", "3:7: cors: ", "has no origins"},
        {HEAD "cors: {origin: [\"*\"]}\n", "3:8: origin: ", "did you mean 'origins'?"},
        {HEAD "cors: {origins: [https://a/]}\n", "3:18: origins: ", "as browsers send it"},
        {HEAD "cors: {origins: [\"*\"], credentials: true}\n",
         "3:7: cors: ", "browsers refuse credentials for every origin"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *complaints = refused(cases[i].text);
        char start[128];
        snprintf(start, sizeof(start), "pawl.yaml:%s", cases[i].place);
        if (strncmp(complaints, start, strlen(start)) != 0)
            fail_msg("not '%s' but:\n%s", start, complaints);
        assert_holds(complaints, cases[i].part);
        mem_free(complaints);
    }
}

static void rules_too_long_to_be_published_are_refused_unless_nothing_is(void **state)
{
    BUF_AUTO struct buf text = buf_make(1 << 20);
    (void)state;
    buf_add_str(&text, "policy: off\n" HEAD "defaults: {key: \"{header:X}#");
    for (int i = 0; i < 20000; i++)
        buf_add_char(&text, 'x');
    buf_add_str(&text, "\"}\nrules:\n");
    for (int i = 0; i < 500; i++)
        buf_printf(&text, "- {name: r%d, match: POST /r%d}\n", i, i);
    buf_add_char(&text, '\0');
    assert_true(buf_ok(&text));
    config_free(good(text.at));
    char *complaints = refused(text.at + strlen("policy: off\n"));
    assert_string_equal(complaints,
                        "pawl.yaml:5:1: rules: takes more than 8MiB to publish (expected "
                        "fewer or shorter rules, or `policy: off`)\n");
    mem_free(complaints);
}

static void an_earlier_name_leads_to_one_rule(void **state)
{
    static const struct {
        const char *a, *b, *part;
    } cases[] = {
        {"[b]", "[]", "4:39: formerly: 'b' is the current name of the rule on line 5"},
        {"[a]", "[]", "4:39: formerly: 'a' is the current name of the rule on line 4"},
        {"[x]", "[y, x]", "formerly: 'x' is an earlier name of another rule, too"},
        {"[a b]", "[]", "4:40: formerly: 'a b' is not valid here"},
        {"[1, 2, 3, 4, 5]", "[]", "4:39: formerly: has 5 items (expected at most 4)"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[512];
        snprintf(text, sizeof(text),
                 HEAD "rules:\n- {name: a, match: POST /a, formerly: %s}\n"
                      "- {name: b, match: POST /b, formerly: %s}\n",
                 cases[i].a, cases[i].b);
        char *complaints = refused(text);
        assert_holds(complaints, cases[i].part);
        mem_free(complaints);
    }
}

#define ONCE "once: {key: \"{body:/id}\"}"

static void rules_that_share_keys_make_the_same_ones(void **state)
{
    static const struct {
        const char *a, *b, *part; /* NULL: nothing is wrong */
    } cases[] = {
        {"key_space: s", "key_space: s", NULL},
        {"key_space: s, formerly: [s]", "key_space: s", NULL},
        {ONCE, "key_space: a, " ONCE, NULL},
        {"key_space: s", "key_space: s, " ONCE, NULL},
        {"mismatch: 422", "key_space: s, formerly: [s], " ONCE, NULL},
        {"mismatch: 422", "key_space: s, formerly: [t], " ONCE, NULL},
        {"mismatch: 422", "key_space: s, " ONCE,
         "5:40: key_space: a rule with `once` finds the values of the records in this space by its "
         "earlier names (expected formerly: [s] beside it)"},
        {"key_space: a", "key_space: a", NULL},
        {"key_syntax: lenient", "key_space: a", NULL},
        {"key_format: uuid", "key_space: a, key_format: uuid4", NULL},
        {"key_format: uuid", "key_space: a, key_format: uuid7", NULL},
        {"key_format: {regex: 'k.*'}", "key_space: a", NULL},
        {"key: \"{header:x-key}\"", "key_space: a, key: \"{header:X-Key|max:9}\"", NULL},
        {"tenant: \"{header:X-Api-Key}\", protect: false", "key_space: a", NULL},
        {"key_space: \"a b\"", "mismatch: 422", "4:40: key_space: 'a b' is not valid here"},
        {"key_syntax: strict", "key_space: a",
         "5:40: key_space: the rules 'a' and 'b' share keys, and differ in their key_syntax"},
        {"key_space: s", "key_space: s, key_syntax: strict", "5:40: key_space: the rules 'a' and"},
        {"key_format: uuid", "key_space: a", "of which only one folds upper case"},
        {"key: \"{header:K|uuid}\"", "key_space: a, key: \"{header:K}\"", "only one folds"},
        {"key: \"{header:X-Key}\"", "key_space: a", "differ in their key (expected the same)"},
        {"tenant: \"{header:X-Api-Key}\"", "key_space: a", "differ in their tenant"},
        {"tenant: \"{header:T}\", secret: true",
         "key_space: a, tenant: \"{header:T}\", trust_tenant: true", "differ in their tenant"},
        {"key: \"{header:Idempotency-Key}{route}\"", "key_space: a",
         "the key of rule 'a' is composed (expected key: \"{header:Idempotency-Key}\")"},
        {"mismatch: 422", "key_space: z, key: \"{body:/id}\"", "the key of rule 'b' is composed"},
        {"key_space: s", "key_space: a",
         "5:40: key_space: the rule 'a' is in the key space 's' (expected key_space: s)"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[512];
        snprintf(text, sizeof(text),
                 HEAD "rules:\n- {name: a, match: POST /a, %s}\n- {name: b, match: POST /b, %s}\n",
                 cases[i].a, cases[i].b);
        if (!cases[i].part) {
            config_free(good(text));
            continue;
        }
        char *complaints = refused(text);
        assert_holds(complaints, cases[i].part);
        mem_free(complaints);
    }
}

static void a_name_leads_to_its_rule_or_to_the_only_one_in_its_space(void **state)
{
    (void)state;
    struct config *config =
        good(HEAD "rules:\n- {name: a, match: POST /a, key_space: old, formerly: [older]}\n"
                  "- {name: b, match: POST /b, key_space: s}\n"
                  "- {name: c, match: POST /c, key_space: s}\n- {name: d, match: POST /d}\n");
    const struct rule_set *rules = config->gateway.rules;
    assert_ptr_equal(rule_set_named(rules, SLICE("a")), &rules->rules[0]);
    assert_ptr_equal(rule_set_named(rules, SLICE("old")), &rules->rules[0]);
    assert_ptr_equal(rule_set_named(rules, SLICE("older")), &rules->rules[0]);
    assert_null(rule_set_named(rules, SLICE("s")));
    assert_slice(rule_key_space(&rules->rules[1]), "s");
    assert_slice(rule_key_space(&rules->rules[3]), "d");
    config_free(config);
}

/* ---- warnings ---- */

static void a_store_that_may_be_passed_by_is_warned_of(void **state)
{
    (void)state;
    char *warnings = warned(RULE "  store_down: pass\n");
    assert_holds(warnings, "pawl.yaml:6:15: store_down: while the record store is down");
    mem_free(warnings);
}

static void a_secret_tenant_draws_no_warning(void **state)
{
    (void)state;
    char *warnings = warned("upstream: http://h\ntenant: \"{header:X-T}\"\nsecret: true\n"
                            "rules: [{name: a, match: POST /a}]\n");
    assert_string_equal(warnings, "");
    mem_free(warnings);
}

/* The notes, "" for none; mem_free. */
static char *noted(const char *more, bool *ret_held)
{
    char text[1024];
    snprintf(text, sizeof(text), RULE "%s", more);
    struct config *config = good(text);
    const struct rule *rule = &config->gateway.rules->rules[0];
    char *lines = mem_copy(config->notes.at, config->notes.len);
    *ret_held = rule->protect && rule->unknown == RECORD_UNKNOWN_HOLD &&
                remember_policy_sort(&rule->responses, 500) == SORT_IN_DOUBT;
    config_free(config);
    return lines;
}

#define PROBE "  unknown: {probe: \"GET /a/{key}\"}\n"

static void what_a_500_means_is_said_for_each_rule_that_holds_it(void **state)
{
    static const char *const more[] = {
        "",
        "  remember: success\n",
        "  in_doubt: [500]\n",
        "  not_done: [500]\n",
        "  remember: all\n",
        "  protect: false\n",
        "  unknown: retry\n",
        PROBE "  key_format: uuid\n",
    };
    bool held, any = false;
    (void)state;
    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
        char *lines = noted(more[i], &held);
        assert_int_equal(lines[0] != '\0', held);
        if (held)
            assert_holds(lines, "pawl.yaml:4:9: unknown: after a 500 the outcome is unknown until "
                                "an operator settles it, in a (");
        any = any || held;
        mem_free(lines);
    }
    assert_true(any);
}

static void many_rules_that_hold_a_500_take_one_line(void **state)
{
    char more[1024] = "  in_doubt: [500]\n";
    bool held;
    (void)state;
    for (char name = 'b'; name <= 'k'; name++)
        snprintf(more + strlen(more), sizeof(more) - strlen(more),
                 "- {name: %c, match: POST /%c, in_doubt: [500]}\n", name, name);
    char *lines = noted(more, &held);
    assert_holds(lines, "in a, b, c, d, e, f, g, h and 3 more (");
    assert_string_equal(strchr(lines, '\n'), "\n");
    mem_free(lines);
    lines = noted("  in_doubt: [500]\n  allow: [held-500]\n", &held);
    assert_true(held && lines[0] == '\0');
    mem_free(lines);
}

struct noted_case {
    const char *more; /* options of the rule */
    bool noted;
};

static void check_noted(const struct noted_case *cases, size_t n, const char *note)
{
    bool held;
    for (size_t i = 0; i < n; i++) {
        char *lines = noted(cases[i].more, &held);
        assert_int_equal(lines[0] != '\0', cases[i].noted);
        if (cases[i].noted)
            assert_holds(lines, note);
        mem_free(lines);
    }
}

static void a_probe_by_keys_that_may_be_quoted_is_noted(void **state)
{
    static const struct noted_case cases[] = {
        {PROBE, true},
        {PROBE "  forward_key: bare\n", true},
        {PROBE "  key_format: any\n", true},
        {PROBE "  key_format: uuid\n", false},
        {PROBE "  key_format: {regex: \"[a-z]+\"}\n", false},
        {PROBE "  key: \"{header:X-Id|uuid}\"\n", false},
        {PROBE "  forward_key: quoted\n", false},
        {PROBE "  key_syntax: strict\n", false},
        {PROBE "  allow: [probe-key]\n", false},
        {PROBE "  protect: false\n", false},
    };
    (void)state;
    check_noted(cases, sizeof(cases) / sizeof(cases[0]),
                "pawl.yaml:4:9: unknown: a key such as a,b is quoted in "
                "Idempotency-Key and bare in the probe's {key}");
}

static void a_probe_that_cannot_be_tried_is_noted(void **state)
{
    static const struct noted_case cases[] = {
        {"  unknown: {probe: \"GET /a/{body:/id}\"}\n", true},
        {"  unknown: {probe: \"GET /a/{body:/id}?key={key}\"}\n  allow: [held-500]\n", true},
        {PROBE "  allow: [probe-key]\n", false},
    };
    (void)state;
    check_noted(cases, sizeof(cases) / sizeof(cases[0]),
                "pawl.yaml:4:9: unknown: the probe has no {key}, or more of the request");
}

static void a_probe_by_a_key_whose_values_are_encoded_is_noted(void **state)
{
    static const struct noted_case cases[] = {
        {PROBE "  key: \"{body:/id}\"\n", true},
        {PROBE "  key: \"{tenant}:{body:/id|uuid}:{header:X-Id}\"\n", true},
        {PROBE "  key: \"{body:/id|max:20}\"\n", true},
        {PROBE "  key: \"{body:/id|uuid}\"\n", false},
        {PROBE "  key: \"{body:/id|regex:[a-z]+}\"\n", false},
        {PROBE "  key: \"{payload}\"\n", false},
        {PROBE "  key: \"{body:/id}\"\n  allow: [probe-key]\n", false},
    };
    (void)state;
    check_noted(cases, sizeof(cases) / sizeof(cases[0]),
                "pawl.yaml:4:9: unknown: {key} is the key as Idempotency-Key has "
                "it, where a value such as a b is a%20b, in a (");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_written_about_answers_is_the_contracts_default),
        cmocka_unit_test(remember_sorts_answers_and_lists_move_single_statuses),
        cmocka_unit_test(a_500_is_in_doubt_until_the_rule_says_that_it_is_not),
        cmocka_unit_test(scalars_of_conditions_are_those_of_yaml_and_numbers_count_by_value),
        cmocka_unit_test(conditions_hold_with_all_of_their_parts_and_doubt_comes_first),
        cmocka_unit_test(a_probe_finds_nothing_by_what_the_rule_says_and_by_no_error),
        cmocka_unit_test(a_list_in_a_rule_replaces_that_of_the_defaults),
        cmocka_unit_test(a_duplicate_is_replayed_rejected_or_acknowledged),
        cmocka_unit_test(the_other_options_of_a_rule_mean_what_they_say),
        cmocka_unit_test(a_secret_at_the_top_holds_for_every_tenant_and_for_no_none),
        cmocka_unit_test(origins_url_and_policy_are_read),
        cmocka_unit_test(wrong_values_are_refused_where_they_stand),
        cmocka_unit_test(rules_too_long_to_be_published_are_refused_unless_nothing_is),
        cmocka_unit_test(an_earlier_name_leads_to_one_rule),
        cmocka_unit_test(rules_that_share_keys_make_the_same_ones),
        cmocka_unit_test(a_name_leads_to_its_rule_or_to_the_only_one_in_its_space),
        cmocka_unit_test(a_store_that_may_be_passed_by_is_warned_of),
        cmocka_unit_test(a_secret_tenant_draws_no_warning),
        cmocka_unit_test(what_a_500_means_is_said_for_each_rule_that_holds_it),
        cmocka_unit_test(many_rules_that_hold_a_500_take_one_line),
        cmocka_unit_test(a_probe_by_keys_that_may_be_quoted_is_noted),
        cmocka_unit_test(a_probe_that_cannot_be_tried_is_noted),
        cmocka_unit_test(a_probe_by_a_key_whose_values_are_encoded_is_noted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
