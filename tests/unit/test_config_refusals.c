/* SPDX-License-Identifier: Apache-2.0 */
/* What a config may not say, and what the complaint tells. */
#include "config_texts.h"

#include "config/options.h"

#define COPYING "rules:\n- {name: a, match: POST /a, replay: {copy: [/id/a]}"

struct bad {
    const char *text;
    const char *place; /* "LINE:COLUMN: key: " */
    const char *part;
};

static void check_bad(const struct bad *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char *complaints = refused(cases[i].text);
        char start[128];
        snprintf(start, sizeof(start), "pawl.yaml:%s", cases[i].place);
        if (strncmp(complaints, start, strlen(start)) != 0)
            fail_msg("not '%s' but:\n%s", start, complaints);
        assert_holds(complaints, cases[i].part);
        const char *end = strchr(complaints, '\n');
        if (!end || end[1])
            fail_msg("not one line:\n%s", complaints);
        mem_free(complaints);
    }
}
#define CHECK_BAD(cases) check_bad(cases, sizeof(cases) / sizeof(cases[0]))

static void broken_yaml_is_refused_where_it_breaks(void **state)
{
    static const struct bad cases[] = {
        {"a: [1\nb: 2",
         "2:2: config: ", "not valid YAML: expected ',' or ']' in the list that begins on line 1"},
        {"a: \"\xff\"", "1:5: config: ", "not valid YAML: not UTF-8 (save the file as UTF-8)"},
        {HEAD "a: {header:X}{body:/y}\n", "3:14: config: ", "\"{header:NAME}\""},
        {HEAD "defaults:\n\tttl: 1h\n", "4:1: config: ", "a tab (indent with spaces)"},
        {"- a\n", "1:1: config: ", "not a map"},
        {"x\n", "1:1: config: ", "not a map"},
        {HEAD "--- \n" HEAD, "3:1: config: ", "a second document"},
        {HEAD "? [a]\n: b\n", "3:3: config: ", "a name must be a single word"},
        {HEAD "x: [[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]\n", "3:19: x: ", "nested too deeply"},
    };
    (void)state;
    CHECK_BAD(cases);
}

static void what_would_take_a_value_from_elsewhere_is_refused(void **state)
{
    static const struct bad cases[] = {
        {HEAD "drain: &a 5s\n", "3:8: drain: ", "anchors are not supported"},
        {HEAD "drain: *a\n", "3:8: drain: ", "aliases are not supported"},
        {HEAD "*a : 5s\n", "3:1: config: ", "aliases are not supported"},
        {HEAD "defaults: {<<: {ttl: 1h}}\n", "3:12: <<: ", "merge keys are not supported"},
        {HEAD "drain: !!str 5s\n", "3:8: drain: ", "tags such as !!str are not supported"},
        {HEAD "drain: 5s\nlisten: a:1\ndrain: 6s\n", "5:1: drain: ", "(first on line 3)"},
        {HEAD "drain: ${PAWL_T_NONE}\n",
         "3:8: drain: ", "the environment has no variable 'PAWL_T_NONE'"},
        {HEAD "drain: \"${\"\n", "3:8: drain: ", "'${' without a variable (expected ${NAME})"},
        {HEAD "drain: \"${A B}\"\n", "3:8: drain: ", "'${' without a variable"},
        {HEAD "defaults: {headers: [\"A\\nB\"]}\n", "3:22: headers: ", "control byte"},
    };
    (void)state;
    CHECK_BAD(cases);
}

static void a_wrong_name_is_answered_with_the_nearest_right_one(void **state)
{
    static const struct bad cases[] = {
        {HEAD "tenat: none\n", "3:1: tenat: ", "unknown option (did you mean 'tenant'?)"},
        {HEAD "max_wating: 5\n", "3:1: max_wating: ", "did you mean 'max_waiting'?"},
        {HEAD "defaults: {tlt: 5s}\n", "3:12: tlt: ", "did you mean 'ttl'?"},
        {HEAD "\"a\\nb\": 1\n", "3:1: a?b: ", "unknown option"},
        {HEAD "'': 1\n", "3:1: (no name): ", "unknown option"},
        {HEAD "zzz: 1\n", "3:1: zzz: ", "unknown option (expected listen, upstream, "},
        {HEAD "rules:\n- {name: a, match: POST /a, keys: x}\n",
         "4:29: keys: ", "did you mean 'key'?"},
        {HEAD "defaults: {payload: {inclde: [/a]}}\n",
         "3:22: inclde: ", "(did you mean 'include'? expected include or exclude)"},
        {HEAD "unmatched: refus\n",
         "3:12: unmatched: ", "(did you mean 'refuse'? expected pass or refuse)"},
        {HEAD "defaults: {unknown: holdd}\n", "3:21: unknown: ", "did you mean 'hold'?"},
        {HEAD "defaults: {unknown: particpant}\n",
         "3:21: unknown: ", "did you mean 'participant'?"},
        {HEAD "ttl: 5s\n", "3:1: ttl: ", "does not belong here (it belongs in a rule or in "},
        {HEAD "defaults: {name: a}\n",
         "3:12: name: ", "does not belong here (it belongs in a rule)"},
        {HEAD "defaults: {drain: 1s}\n", "3:12: drain: ", "(it belongs at the top)"},
        {HEAD "defaults: {tenant: none}\n", "3:12: tenant: ", "at the top or in a rule"},
    };
    (void)state;
    CHECK_BAD(cases);
}

static void values_of_the_wrong_kind_or_size_are_refused(void **state)
{
    static const struct bad cases[] = {
        {HEAD "drain: 10\n",
         "3:8: drain: ", "'10' is not valid here (did you mean '10m' or '10s'?"},
        {HEAD "drain: 10\n", "3:8: drain: ", "expected a duration with its unit, such as 150ms"},
        {HEAD "drain: 7200\n", "3:8: drain: ", "here (expected a duration with its unit"},
        {HEAD "drain: 2h\n", "3:8: drain: ", "'2h' is out of range (expected 0 to 1h)"},
        {HEAD "drain: [1s]\n", "3:8: drain: ", "is a list (expected a duration"},
        {HEAD "drain:\n", "3:7: drain: ", "has no value (expected a duration"},
        {HEAD "drain: forever\n", "3:8: drain: ", "out of range"},
        {HEAD "cache: 32MB\n", "3:8: cache: ", "expected a size such as"},
        {HEAD "cache: 2000GiB\n", "3:8: cache: ", "out of range (expected 0 to 1024GiB)"},
        {HEAD "disk_reserve: 0\n", "3:15: disk_reserve: ", "out of range"},
        {HEAD "store_sessions: 9\n",
         "3:17: store_sessions: ", "'9' is out of range (expected 1 to 8)"},
        {HEAD "store_sessions: many\n", "3:17: store_sessions: ", "expected a number"},
        {HEAD "threads: -1\n", "3:10: threads: ", "(expected a number in digits"},
        {HEAD "threads: 257\n", "3:10: threads: ", "out of range (expected 0 to 256)"},
        {HEAD "trust_tenant: yes\n",
         "3:15: trust_tenant: ", "(did you mean 'true'? expected false or true)"},
        {HEAD "trust_tenant: 'truee'\n", "3:15: trust_tenant: ", "did you mean 'true'?"},
        {HEAD "rules: {a: 1}\n", "3:8: rules: ", "expected a list of rules"},
        {HEAD "rules: [a]\n", "3:9: rules: ", "not a map"},
        {HEAD "defaults: [a]\n", "3:11: defaults: ", "expected a map of options"},
    };
    (void)state;
    CHECK_BAD(cases);
}

static void addresses_and_stores_that_cannot_be_are_refused(void **state)
{
    static const struct bad cases[] = {
        {"upstream: ftp://h\n", "1:11: upstream: ", "expected http://HOST:PORT or https://"},
        {HEAD "upstream_tls: {ca: a}\n", "3:15: upstream_tls: ", "the upstream is not https"},
        {"upstream: h:80\n", "1:11: upstream: ", "? expected http://HOST:PORT"},
        {"upstream: http://h/api\n", "1:11: upstream: ", "(expected http://HOST:PORT"},
        {"upstream: http://u@h\n", "1:11: upstream: ", "(expected http://HOST:PORT"},
        {"upstream: http://h:0\n", "1:11: upstream: ", "(expected http://HOST:PORT"},
        {"tenant: none\n", "1:1: upstream: ", "missing"},
        {"", "1:1: upstream: ", "missing"},
        {HEAD "listen: 8080\n", "3:9: listen: ", "? expected HOST:PORT"},
        {HEAD "listen: h:65536\n", "3:9: listen: ", "(expected HOST:PORT"},
        {HEAD "listen: \"[::1\"\n", "3:9: listen: ", "(expected HOST:PORT"},
        {HEAD "store: pawl.db\n", "3:8: store: ", "? expected sqlite:PATH"},
        {HEAD "store: 'sqlite:'\n", "3:8: store: ", "(expected sqlite:PATH"},
        {HEAD "store: redis://h/0\n", "3:8: store: ", "not in this version"},
        {HEAD "store: redis://h\n", "3:8: store: ", "not in this version"},
        {"upstream: http://h\n", "1:1: tenant: ", "missing"},
        {"upstream: http://h\nrules: [{name: a, match: POST /a, protect: false}]\n",
         "1:1: tenant: ", "missing"},
        {HEAD "defaults: {retry: twice}\n", "3:19: retry: ", "user_facing"},
        {HEAD "defaults: {retry: queue}\n", "3:19: retry: ", "user_facing"},
    };
    (void)state;
    CHECK_BAD(cases);
}

#define RETRIES(text) HEAD "rules:\n- {name: a, match: POST /a, timeout: 20s, retry: " text "}\n"

static void retries_that_cannot_be_are_refused(void **state)
{
    static const struct bad cases[] = {
        {RETRIES("5s"), "4:50: retry: ", "did you mean {try_timeout: 5s}?"},
        {RETRIES("apl"), "4:50: retry: ", "did you mean 'api'?"},
        {RETRIES("[1s]"), "4:50: retry: ", "{profile: api, try_timeout: 5s, schedule: [1s, 5s]}"},
        {RETRIES("{}"), "4:50: retry: ", "is empty (expected {profile: api, try_timeout: 5s"},
        {RETRIES("{profle: api}"), "4:51: profle: ", "did you mean 'profile'?"},
        {RETRIES("{profile: none}"), "4:60: profile: ", "expected user_facing"},
        {RETRIES("{profile: queue}"), "4:60: profile: ", "expected user_facing"},
        {RETRIES("{try_timeout: 0s}"), "4:64: try_timeout: ", "1ms to 1h"},
        {RETRIES("{try_timeout: 20s}"), "4:64: try_timeout: ",
         "takes 20s, and the rule's `timeout`, for all attempts together, is 20s (expected less)"},
        {RETRIES("{schedule: 5s}"), "4:61: schedule: ", "is not a list (did you mean [5s]?"},
        {RETRIES("{schedule: []}"), "4:61: schedule: ", "is empty"},
        {RETRIES("{schedule: [1s, soon]}"), "4:66: schedule: ", "expected a duration"},
        {RETRIES("{schedule: [1s, 2d]}"), "4:66: schedule: ", "0 to 1d"},
        {RETRIES("{schedule: [1s, 1s, 1s, 1s, 1s, 1s, 1s, 1s, 1s, 1s]}"),
         "4:61: schedule: ", "has 10 items (expected at most 9)"},
        {RETRIES("{schedule: [1s, 9s]}"),
         "4:61: schedule: ", "takes 10s, and the time of its profile is 10s (expected less)"},
        {RETRIES("{profile: background, schedule: [1s, 20s]}"), "4:82: schedule: ",
         "takes 21s, and the rule's `timeout`, for all attempts together, is 20s (expected less)"},
    };
    (void)state;
    CHECK_BAD(cases);
}

static void retries_of_all_rules_are_cut_by_the_timeout_of_each(void **state)
{
    struct config *config =
        good(HEAD "defaults: {retry: {profile: api, try_timeout: 3s, schedule: [1s, 2500ms]}}\n"
                  "rules:\n- {name: a, match: POST /a, timeout: 2s}\n");
    const struct rule_retry *retry = &config->gateway.rules->rules[0].retry;
    (void)state;
    assert_true(retry->on && retry->own_delays && retry->profile == RETRY_PROFILE_api);
    assert_int_equal(retry->try_timeout_us, 3 * CLOCK_US_PER_S);
    assert_int_equal(retry->schedule.attempts, 3);
    assert_int_equal(retry->schedule.list[1], 2500 * CLOCK_US_PER_MS);
    assert_int_equal(retry->schedule.total_us, 10 * CLOCK_US_PER_S);
    config_free(config);
}

static void rules_that_cannot_hold_are_refused(void **state)
{
    static const struct bad cases[] = {
        {HEAD "rules:\n- match: POST /a\n", "4:3: name: ", "the rule has no name"},
        {HEAD "rules:\n- name: a\n", "4:3: match: ", "the rule has no match"},
        {HEAD "rules:\n- {name: a b, match: POST /a}\n", "4:10: name: ", "letters, digits"},
        {HEAD "rules:\n- {name: a, match: GET /a}\n",
         "4:20: match: ", "need no rule: they always pass"},
        {HEAD "rules:\n- {name: a, match: POST}\n",
         "4:20: match: ", "expected METHOD[,METHOD] /path"},
        {"upstream: http://h\nrules:\n- {name: a, match: POST /a}\n", "3:3: tenant: ", "missing"},
        {HEAD "rules:\n- {name: a, match: POST /a, key: \"{path:id}\"}\n",
         "4:34: key: ", "the path of rule 'a' has no {id}"},
        {HEAD "rules:\n- {name: a, match: POST /a, key: \"{bdy:/x}\"}\n", "4:34: key: ", "body"},
        {HEAD "rules:\n- {name: a, match: POST /a, key: {body:/x}}\n",
         "4:34: key: ", "a template must be quoted (expected \"{body:/x}\")"},
        {HEAD "rules:\n- {name: a, match: POST /a, probe_status: 201}\n",
         "4:43: probe_status: ", "has an effect only with a probe"},
        {HEAD "rules:\n- {name: a, match: POST /a, key: \"{header:Idempotency-Key}:{window:1h}\", "
              "unknown: {probe: \"GET /a/{key}\", first: always}}\n",
         "4:83: unknown: ", "has `first`, and the key has a window"},
        {HEAD "rules:\n- {name: a, match: POST /a, once: {key: \"{body:/id}\"}, "
              "unknown: {probe: \"GET /a/{key}\", first: restored}}\n",
         "4:65: unknown: ", "the probe does not name the value of `once`"},
        {HEAD "rules:\n- {name: a, match: POST /a, probe_headers: {}}\n",
         "4:44: probe_headers: ", "has an effect only with a probe"},
        {HEAD "rules:\n- {name: a, match: POST /a, unknown: {probe: \"GET /a/{body:/id}\"}, "
              "probe_headers: {}}\n",
         "4:83: probe_headers: ", "this probe needs {body:/id} of the request"},
        {HEAD "rules:\n- {name: a, match: POST /a, unknown: {probe: \"GET /a/{key}\"}, "
              "probe_headers: {Idempotency-Key: a}}\n",
         "4:96: Idempotency-Key: ", "cannot be a header of a probe"},
        {HEAD "rules:\n- {name: a, match: POST /a, trust_tenant: true, "
              "tenant: \"credential:{header:X-Shop}\"}\n",
         "4:57: tenant: ",
         "begins with 'credential:', which marks tenants that are stored as a hash"},
        {HEAD "rules:\n- {name: a, match: POST /a, tenant: \"{header:X-Shop}\", "
              "unknown: {probe: \"GET /a/{key}\"}, probe_headers: {}}\n",
         "4:105: probe_headers: ", "the probe of rule 'a' does not say whose operation is meant"},
        {HEAD "rules:\n- {name: a, match: POST /a, tenant: \"{header:Authorization}\", "
              "unknown: {probe: \"GET /a/{key}\"}, probe_headers: {}}\n",
         "4:112: probe_headers: ", "the probe of rule 'a' does not say whose operation is meant"},
        {HEAD "rules:\n- {name: a, match: POST /a, unknown: {probe: \"GET /a/{key}\"}, "
              "probe_headers: none}\n",
         "4:78: probe_headers: ", "a map of headers"},
        {HEAD "rules:\n- {name: a, match: POST /a, authorize: POST /me}\n", "4:40: authorize: ",
         "(did you mean 'GET /me'? expected a GET request such as \"GET "
         "/tenants/{tenant}/access\","},
        {HEAD "rules:\n- {name: a, match: POST /a, authorize: \"GET /me/{body:/x}\"}\n",
         "4:40: authorize: ", "reads the body (expected sources of the headers, path or query)"},
        {HEAD "rules:\n- {name: a, match: POST /a, authorize: \"GET /me/{path:id}\"}\n",
         "4:40: authorize: ", "the path of rule 'a' has no {id}"},
        {HEAD "rules:\n- {name: a, match: POST /a}\n- {name: a, match: POST /b}\n",
         "5:10: name: ", "'a' is already the name of the rule on line 4"},
        {HEAD "rules:\n- {name: a, match: \"POST /a/{x}\"}\n- {name: b, match: POST /a/b}\n",
         "5:20: match: ", "never reached: rule 'a' (line 4)"},
        {HEAD "rules:\n- {name: a, match: POST /a}\n- {name: b, match: \"* /**\"}\n"
              "- {name: c, match: \"PUT /c/{x}\"}\n",
         "6:20: match: ", "never reached: rule 'b' (line 5) matches all of it first"},
        {HEAD "rules:\n- {name: a, match: POST /a}\n- {name: b, match: PUT /a}\n"
              "- {name: c, match: \"POST,PUT /a\"}\n",
         "6:20: match: ", "never reached: rule 'b' (line 5) matches the last of its methods"},
    };
    (void)state;
    CHECK_BAD(cases);
}

static void a_match_that_was_refused_hides_no_other_rule(void **state)
{
    char *complaints = NULL;
    struct slice text = slice_of(HEAD "rules:\n- {name: a, match: x}\n- {name: b, match: y}\n");
    (void)state;
    assert_null(config_parse("pawl.yaml", text, &complaints));
    assert_non_null(complaints);
    assert_null(strstr(complaints, "never reached"));
    mem_free(complaints);
}

/* It would be absent from every response. */
static void conditions_have_no_wildcards(void **state)
{
    static const struct bad cases[] = {
        {HEAD "defaults: {not_done: [{body: $.code, is: [1]}]}\n",
         "3:30: body: ", "'$.code': pointers have no wildcards"},
        {HEAD "defaults: {in_doubt: [{body: /a, is: [1], and: [{body: /b/-, is: [1]}]}]}\n",
         "3:56: body: ", "no wildcards"},
        {HEAD "defaults: {not_found: [404, {body: /data/*/id, absent: true}]}\n",
         "3:36: body: ", "'/data/*/id': pointers have no wildcards"},
    };
    (void)state;
    CHECK_BAD(cases);
}

/* found: L7 */
static void values_of_rules_are_checked_where_they_stand(void **state)
{
    static const struct bad cases[] = {
        {HEAD "defaults: {unknown: probe}\n", "3:21: unknown: ", "(expected {probe: \"GET "},
        {HEAD "defaults: {unknown: {probe: POST /a}}\n", "3:29: probe: ", "expected a GET request"},
        {HEAD "defaults: {unknown: {probe: GET a}}\n", "3:29: probe: ", "(expected a GET request"},
        {HEAD "defaults: {unknown: {}}\n",
         "3:21: unknown: ", "holds 0 names (expected one: probe|hold)"},
        {HEAD "defaults: {unknown: \"{probe: REQUEST}\"}\n",
         "3:21: unknown: ", "'{probe: REQUEST}' is not valid here"},
        {HEAD "defaults: {in_progress: {wait: 10}}\n", "3:32: wait: ", "a duration"},
        {HEAD "defaults: {in_progress: wait}\n",
         "3:25: in_progress: ", "conflict or {wait: DURATION}"},
        {HEAD "defaults: {payload: {include: []}}\n", "3:31: include: ", "is empty"},
        {HEAD "defaults: {payload: {exclude: [a]}}\n", "3:32: exclude: ", "a JSON pointer"},
        {HEAD "defaults: {payload: {exclude: [/a, /lines/*/ts]}}\n",
         "3:36: exclude: ", "'/lines/*/ts': pointers have no wildcards"},
        {HEAD "defaults: {payload: {exclude: [/lines/-/ts]}}\n", "3:32: exclude: ", "no wildcards"},
        {HEAD "defaults: {payload: {include: [$.order.id]}}\n", "3:32: include: ", "no wildcards"},
        {HEAD "defaults: {payload: {include: [.id]}}\n", "3:32: include: ", "no wildcards"},
        {HEAD "defaults: {replay: {copy: [$.id]}}\n", "3:28: copy: ", "no wildcards"},
        {HEAD "defaults: {replay: {copy: [id]}}\n", "3:28: copy: ", "a JSON pointer"},
        {HEAD "defaults: {replay: {copy: [/a, /b, /c, /d, /e]}}\n",
         "3:27: copy: ", "expected at most 4"},
        {HEAD "defaults: {replay: [/id]}\n", "3:20: replay: ", "expected {copy: [/id]}"},
        {HEAD "defaults: {replay: {cpoy: [/id]}}\n", "3:21: cpoy: ", "did you mean 'copy'?"},
        {HEAD COPYING "}\n", "4:37: replay: ", "copies /id/a, which is compared"},
        {HEAD COPYING ", payload: raw}\n", "4:37: replay: ", "which is compared"},
        {HEAD COPYING ", payload: {exclude: [/i, /id/a/b]}}\n",
         "4:37: replay: ", "(expected it in `payload: {exclude: [/id/a]}`)"},
        {HEAD COPYING ", payload: {include: [/id]}}\n", "4:37: replay: ", "which is compared"},
        {HEAD COPYING ", payload: ignore, stream: true}\n",
         "4:37: replay: ", "`stream` keeps none"},
        {HEAD "defaults: {payload: {exclude: /a}}\n",
         "3:31: exclude: ", "is not a list (did you mean [/a]?"},
        {HEAD "defaults: {query: []}\n", "3:19: query: ", "is empty"},
        {HEAD "defaults: {headers: [a b]}\n", "3:22: headers: ", "the name of a header"},
        {HEAD "defaults: {key_format: {regex: \"(\"}}\n", "3:32: regex: ", "regular expression"},
        {HEAD "defaults: {key_format: uuid44}\n", "3:24: key_format: ", "did you mean 'uuid4'?"},
        {HEAD "rules: [{name: a, match: POST /, key_max_age: 1h}]",
         "3:47: key_max_age: ", "expected key_format: uuid7"},
        {HEAD "rules: [{name: a, match: POST /, key: '{body:/id}', key_max_age: 1h}]",
         "3:66: key_max_age: ", "a key that clients send in a header"},
        {HEAD "rules: [{name: a, match: POST /, key_format: uuid7, ttl: 1h, key_max_age: 2h}]",
         "3:75: key_max_age: ", "expected at most the rule's `ttl`"},
        {HEAD "rules: [{name: a, match: POST /, key_format: uuid7, key_max_age: 2h, "
              "key: '{header:Idempotency-Key}{window:1h}'}]",
         "3:66: key_max_age: ", "longer than the record lives"},
        {HEAD "defaults: {probe_status: 404}\n", "3:26: probe_status: ", "200 to 299"},
        {HEAD "defaults: {ttl: 0}\n", "3:17: ttl: ", "(expected 1ms to forever)"},
        {HEAD "defaults: {tombstone: never}\n", "3:23: tombstone: ", "a duration"},
    };
    (void)state;
    CHECK_BAD(cases);
}

static void options_of_later_versions_are_refused_and_not_passed_over(void **state)
{
    static const char *const later[] = {
#define X(name) #name,
        CONFIG_LATER(X)
#undef X
    };
    (void)state;
    for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++) {
        char text[256], top[64], in_rule[64];
        snprintf(text, sizeof(text), HEAD "%s: x\nrules:\n- {name: a, match: POST /a, %s: x}\n",
                 later[i], later[i]);
        snprintf(top, sizeof(top), "pawl.yaml:3:1: %s: not in this version", later[i]);
        snprintf(in_rule, sizeof(in_rule), "pawl.yaml:5:29: %s: not in this version", later[i]);
        char *complaints = refused(text);
        assert_holds(complaints, top);
        assert_holds(complaints, in_rule);
        mem_free(complaints);
    }
}

static void all_complaints_come_at_once_in_the_files_order(void **state)
{
    (void)state;
    char *complaints = refused("rules:\n- {name: a, match: GET /a, tenant: none}\n"
                               "drain: x\nfoo: 1\nupstream: http://h\n");
    const char *first = strstr(complaints, ":2:20: match: ");
    const char *second = strstr(complaints, ":3:8: drain: ");
    const char *third = strstr(complaints, ":4:1: foo: ");
    assert_true(first && second && third && first < second && second < third);
    mem_free(complaints);
}

static void after_twenty_complaints_the_rest_is_counted(void **state)
{
    char text[1024] = HEAD;
    size_t lines = 0;
    (void)state;
    for (int i = 0; i < 27; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "zzzzzz%d: 1\n", i);
    char *complaints = refused(text);
    for (const char *c = complaints; *c; c++)
        lines += *c == '\n';
    assert_int_equal(lines, 21);
    assert_holds(complaints, "\npawl.yaml: 7 more\n");
    mem_free(complaints);
}

static void one_wrong_default_is_told_once_however_many_rules_take_it(void **state)
{
    static const struct bad cases[] = {
        {HEAD "defaults: {lease: 1}\nrules:\n- {name: a, match: POST /a}\n"
              "- {name: b, match: POST /b}\n",
         "3:19: lease: ", "a duration"},
    };
    (void)state;
    CHECK_BAD(cases);
}

static void a_file_that_is_too_long_is_refused(void **state)
{
    (void)state;
    char *text = calloc(1, NODE_TEXT_MAX + 2);
    assert_non_null(text);
    memset(text, '#', NODE_TEXT_MAX + 1);
    char *complaints = refused(text);
    assert_holds(complaints, "longer than 4194304 bytes");
    mem_free(complaints);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_yaml_is_refused_where_it_breaks),
        cmocka_unit_test(what_would_take_a_value_from_elsewhere_is_refused),
        cmocka_unit_test(a_wrong_name_is_answered_with_the_nearest_right_one),
        cmocka_unit_test(values_of_the_wrong_kind_or_size_are_refused),
        cmocka_unit_test(addresses_and_stores_that_cannot_be_are_refused),
        cmocka_unit_test(retries_that_cannot_be_are_refused),
        cmocka_unit_test(retries_of_all_rules_are_cut_by_the_timeout_of_each),
        cmocka_unit_test(rules_that_cannot_hold_are_refused),
        cmocka_unit_test(a_match_that_was_refused_hides_no_other_rule),
        cmocka_unit_test(conditions_have_no_wildcards),
        cmocka_unit_test(values_of_rules_are_checked_where_they_stand),
        cmocka_unit_test(options_of_later_versions_are_refused_and_not_passed_over),
        cmocka_unit_test(all_complaints_come_at_once_in_the_files_order),
        cmocka_unit_test(after_twenty_complaints_the_rest_is_counted),
        cmocka_unit_test(one_wrong_default_is_told_once_however_many_rules_take_it),
        cmocka_unit_test(a_file_that_is_too_long_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
