/* SPDX-License-Identifier: Apache-2.0 */
/* The config file: what it may say, what it means, and what it is warned of. */
#include "config_texts.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/text/nearest.h"
#include "config/option.h"
#include "config/options.h"

#define S CLOCK_US_PER_S

/* ---- what is taken ---- */

/* The example of the contract, as far as this version goes. */
static const char example[] = "listen: 127.0.0.1:8080\n"
                              "admin: 127.0.0.1:8081\n"
                              "upstream: http://127.0.0.1:9000\n"
                              "store: sqlite:./pawl.db            # postgres://..., redis://...\n"
                              "tenant: \"{header:X-Merchant-Id}\"\n"
                              "trust_tenant: true                 # the auth layer sets it\n"
                              "\n"
                              "defaults: {ttl: 24h, lease: 30s}\n"
                              "\n"
                              "rules:\n"
                              "  - name: refunds.create\n"
                              "    match: POST /refunds\n"
                              "    ttl: 72h\n"
                              "    unknown: {probe: \"GET /refunds/by-key/{key}\"}\n"
                              "    probe_status: 201\n"
                              "    settle: 5s\n"
                              "  - name: purchase.settled\n"
                              "    match: POST /purchases\n"
                              "    key: \"{body:/external_ref}\"\n"
                              "    ttl: forever\n"
                              "  - name: otp.send\n"
                              "    match: POST /auth/otp/send\n"
                              "    key: \"{body:/phone}\"\n"
                              "    ttl: 10m\n"
                              "  - name: safety.report\n"
                              "    match: POST /safety/report\n"
                              "    key: \"{body:/reporterId}{body:/subjectId}{window:1h}\"\n"
                              "  - name: messages.create\n"
                              "    match: POST /matches/{id}/messages\n"
                              "    key: \"{path:id}{body:/clientMessageId}\"\n"
                              "  - name: auth.refresh\n"
                              "    match: POST /auth/refresh\n"
                              "    protect: false\n";

static void the_contracts_example_means_what_it_says(void **state)
{
    (void)state;
    struct config *config = good(example);
    const struct rule *rules = config->gateway.rules->rules;
    assert_slice(config->listen.host, "127.0.0.1");
    assert_int_equal(config->admin.port, 8081);
    assert_int_equal(config->upstream.port, 9000);
    assert_slice(config->store, "./pawl.db");
    assert_int_equal(config->gateway.rules->n, 6);
    assert_slice(rules[0].name, "refunds.create");
    assert_int_equal(rules[0].match.methods, RULE_POST);
    assert_int_equal(rules[0].ttl_us, 72 * 3600 * S);
    assert_int_equal(rules[0].unknown, RECORD_UNKNOWN_PROBE);
    assert_int_equal(rules[0].probe_status, 201);
    assert_int_equal(rules[0].settle_us, 5 * S);
    assert_int_equal(rules[1].ttl_us, CLOCK_NEVER);
    assert_int_equal(rules[1].unknown, RECORD_UNKNOWN_HOLD);
    assert_false(template_is_plain_header(&rules[1].key));
    assert_int_equal(rules[2].ttl_us, 600 * S);
    assert_int_equal(template_window_us(&rules[3].key), 3600 * S);
    assert_int_equal(rules[4].match.n_segments, 3);
    assert_false(rules[5].protect);
    for (size_t i = 0; i < 6; i++)
        assert_true(rules[i].trust_tenant && !rules[i].tenant_none);
    config_free(config);
}

static void the_contracts_example_draws_no_warning(void **state)
{
    (void)state;
    char *warnings = warned(example);
    assert_string_equal(warnings, "");
    mem_free(warnings);
}

static void what_is_not_written_is_the_contracts_default(void **state)
{
    (void)state;
    struct config *config = good(HEAD "rules: [{name: a, match: POST /a}]\n");
    const struct rule *rule = &config->gateway.rules->rules[0];
    assert_int_equal(config->listen.port, 8080);
    assert_int_equal(config->store.len, 0);
    assert_int_equal(config->drain_us, 25 * S);
    assert_int_equal(config->store_limits.timeout_us, 10 * S);
    assert_int_equal(config->store_limits.max_waiting, 10000);
    assert_int_equal(config->store_limits.max_waiting_per_key, 2000);
    assert_int_equal(config->gateway.max_buffered, 256 << 20);
    assert_int_equal(config->cache, 32 << 20);
    assert_false(config->gateway.unmatched_refuse);
    assert_true(rule->require && rule->protect && rule->tenant_none);
    assert_true(template_is_plain_header(&rule->key));
    assert_int_equal(rule->ttl_us, 24 * 3600 * S);
    assert_int_equal(rule->tombstone_us, 0);
    assert_int_equal(rule->lease_us, 30 * S);
    assert_int_equal(rule->timeout_us, 30 * S);
    assert_int_equal(rule->settle_us, 30 * S);
    assert_int_equal(rule->in_progress_wait_us, 10 * S);
    assert_int_equal(rule->unknown, RECORD_UNKNOWN_HOLD);
    assert_int_equal(rule->payload.mode, PAYLOAD_ALL);
    assert_slice(rule->recipe, "2 all");
    assert_int_equal(rule->query, RULE_QUERY_ALL);
    assert_int_equal(rule->n_headers, 1);
    assert_slice(rule->headers[0], "If-Match");
    assert_int_equal(rule->key_syntax, KEY_SYNTAX_LENIENT);
    assert_non_null(rule->key_format);
    assert_int_equal(rule->max_request_body, 1 << 20);
    assert_int_equal(rule->max_response_body, 1 << 20);
    assert_false(rule->replay_cookies);
    config_free(config);
}

static void every_option_of_a_rule_can_be_set(void **state)
{
    (void)state;
    struct config *config = good(HEAD "rules:\n"
                                      "- name: a\n"
                                      "  match: PATCH /a/{id}\n"
                                      "  tenant: \"{header:Cookie}\"\n"
                                      "  trust_tenant: true\n"
                                      "  key: \"{header:X-Key}\"\n"
                                      "  require: false\n"
                                      "  ttl: 1h\n"
                                      "  tombstone: 7d\n"
                                      "  lease: 5s\n"
                                      "  timeout: 4s\n"
                                      "  in_progress: conflict\n"
                                      "  unknown: retry\n"
                                      "  settle: 0\n"
                                      "  payload: {exclude: [/meta/sent_at, /trace]}\n"
                                      "  query: [dry_run]\n"
                                      "  headers: []\n"
                                      "  key_format: uuid4\n"
                                      "  key_syntax: strict\n"
                                      "  max_request_body: 64KiB\n"
                                      "  max_response_body: 0\n"
                                      "  replay_cookies: true\n");
    const struct rule *rule = &config->gateway.rules->rules[0];
    assert_true(rule->trust_tenant && rule->replay_cookies);
    assert_false(rule->require || rule->tenant_none);
    assert_true(template_is_credential(&rule->tenant));
    assert_int_equal(rule->tombstone_us, 7 * 24 * 3600 * S);
    assert_int_equal(rule->lease_us, 5 * S);
    assert_int_equal(rule->in_progress_wait_us, 0);
    assert_int_equal(rule->unknown, RECORD_UNKNOWN_RETRY);
    assert_int_equal(rule->settle_us, 0);
    assert_slice(rule->recipe, "2 exclude /meta/sent_at /trace");
    assert_int_equal(rule->query, RULE_QUERY_NAMES);
    assert_slice(rule->query_names[0], "dry_run");
    assert_int_equal(rule->n_headers, 0);
    assert_int_equal(rule->key_syntax, KEY_SYNTAX_STRICT);
    assert_int_equal(rule->max_request_body, 64 << 10);
    assert_int_equal(rule->max_response_body, 0);
    config_free(config);
}

static void a_rule_overrides_the_defaults_wherever_they_stand(void **state)
{
    (void)state;
    struct config *config =
        good("rules:\n- {name: a, match: POST /a, ttl: 1h, payload: all}\n"
             "- {name: b, match: POST /b, tenant: \"{header:Cookie}\"}\n"
             "defaults: {ttl: 2h, timeout: 7s, payload: {include: [/x]}, key_format: {regex: a+}}\n"
             "tenant: none\nupstream: http://h\n");
    const struct rule *rules = config->gateway.rules->rules;
    assert_int_equal(rules[0].ttl_us, 3600 * S);
    assert_slice(rules[0].recipe, "2 all");
    assert_true(rules[0].tenant_none);
    assert_int_equal(rules[1].ttl_us, 7200 * S);
    assert_slice(rules[1].recipe, "2 include /x");
    assert_false(rules[1].tenant_none);
    assert_int_equal(rules[1].settle_us, 7 * S);
    assert_ptr_equal(rules[0].key_format, rules[1].key_format);
    config_free(config);
}

static void a_probe_may_be_a_map_or_one_text(void **state)
{
    static const char *const forms[] = {"{probe: \"GET /a/{key}\"}", "\"probe: GET /a/{key}\"",
                                        "\n    probe: GET /a/{key}"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        char text[256];
        snprintf(text, sizeof(text), HEAD "rules:\n- name: a\n  match: POST /a\n  unknown: %s\n",
                 forms[i]);
        struct config *config = good(text);
        assert_int_equal(config->gateway.rules->rules[0].unknown, RECORD_UNKNOWN_PROBE);
        assert_true(config->gateway.rules->rules[0].probe.n > 0);
        config_free(config);
    }
}

static void rules_may_be_missing_or_empty(void **state)
{
    static const char *const forms[] = {"", "rules: []\n", "rules:\n", "rules:\ndefaults:\n"};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        char text[256];
        snprintf(text, sizeof(text), HEAD "%s", forms[i]);
        struct config *config = good(text);
        assert_int_equal(config->gateway.rules->n, 0);
        config_free(config);
    }
}

static void addresses_are_read_in_all_their_forms(void **state)
{
    (void)state;
    struct config *config =
        good("listen: \"[::1]:0\"\nupstream: http://api.internal/\ntenant: none\n");
    assert_slice(config->listen.host, "::1");
    assert_int_equal(config->listen.port, 0);
    assert_slice(config->upstream.host, "api.internal");
    assert_int_equal(config->upstream.port, 80);
    config_free(config);
}

static void a_store_is_found_beside_the_file_that_names_it(void **state)
{
    static const struct {
        const char *file, *store, *path;
    } cases[] = {
        {"/etc/pawl/pawl.yaml", "sqlite:./a.db", "/etc/pawl/a.db"},
        {"/etc/pawl/pawl.yaml", "sqlite:../a.db", "/etc/pawl/../a.db"},
        {"/etc/pawl/pawl.yaml", "sqlite:/var/a.db", "/var/a.db"},
        {"conf/pawl.yaml", "sqlite:a.db", "conf/a.db"},
        {"pawl.yaml", "sqlite:a.db", "a.db"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[256], *complaints;
        snprintf(text, sizeof(text), HEAD "store: %s\n", cases[i].store);
        struct config *config = config_parse(cases[i].file, slice_of(text), &complaints);
        assert_non_null(config);
        assert_slice(config->store, cases[i].path);
        mem_free(complaints);
        config_free(config);
    }
}

static void the_environment_fills_values_and_adds_no_structure(void **state)
{
    (void)state;
    setenv("PAWL_T_HOST", "api", 1);
    setenv("PAWL_T_PORT", "81", 1);
    setenv("PAWL_T_NAME", "a, match: POST /evil", 1);
    struct config *config = good("upstream: http://${PAWL_T_HOST}:${PAWL_T_PORT}\ntenant: none\n"
                                 "threads: '1${PAWL_T_PORT}'\n");
    assert_slice(config->upstream.host, "api");
    assert_int_equal(config->upstream.port, 81);
    assert_int_equal(config->gateway.threads, 181);
    config_free(config);
    char *complaints = refused(HEAD "rules: [{name: \"${PAWL_T_NAME}\", match: POST /a}]\n");
    assert_string_equal(complaints, "pawl.yaml:3:16: name: '${PAWL_T_NAME}' is not valid here "
                                    "(expected 1 to 100 letters, digits, '.', '_' and '-')\n");
    mem_free(complaints);
}

/* ---- warnings ---- */

static void a_tenant_that_anyone_can_name_is_warned_of_once(void **state)
{
    (void)state;
    char *warnings = warned("upstream: http://h\ntenant: \"{header:X-T}\"\n"
                            "rules:\n- {name: a, match: POST /a}\n- {name: b, match: POST /b}\n");
    assert_true(strncmp(warnings, "pawl.yaml:2:9: tenant: ", 23) == 0);
    assert_holds(warnings,
                 "any client that can set this value can read that tenant's stored responses");
    assert_string_equal(strchr(warnings, '\n'), "\n");
    mem_free(warnings);
}

static void a_credential_or_a_trusted_tenant_draws_no_warning(void **state)
{
    static const char *const tenants[] = {
        "\"{header:X-Api-Key}\"", "\"{header:X-T}\"\ntrust_tenant: true", "none",
        "\"{header:X-T}\"\ndefaults: {authorize: \"GET /t/{tenant}\"}"};
    (void)state;
    for (size_t i = 0; i < sizeof(tenants) / sizeof(tenants[0]); i++) {
        char text[256];
        snprintf(text, sizeof(text),
                 "upstream: http://h\ntenant: %s\nrules:\n- {name: a, match: POST /a}\n",
                 tenants[i]);
        char *warnings = warned(text);
        assert_string_equal(warnings, "");
        mem_free(warnings);
    }
}

static void a_token_as_tenant_is_warned_of(void **state)
{
    (void)state;
    char *warnings = warned("upstream: http://h\nrules:\n- name: a\n  match: POST /a\n"
                            "  tenant: \"{header:Authorization}\"\n");
    assert_true(strncmp(warnings, "pawl.yaml:5:11: tenant: a refreshed token", 41) == 0);
    mem_free(warnings);
}

/* found: B-F7 */
static void a_key_format_judges_what_clients_send_and_nothing_else(void **state)
{
    static const char *const texts[] = {
        HEAD "defaults: {key_format: uuid4}\nrules:\n"
             "- {name: a, match: POST /a, key: '{body:/id}'}\n",
        HEAD "defaults: {key_format: uuid4}\nrules:\n"
             "- {name: a, match: 'POST /a/{id}', key: '{header:X-Key}{path:id}'}\n",
        HEAD "rules:\n- {name: a, match: POST /a, key: '{body:/id|uuid4}'}\n",
        HEAD "rules:\n- {name: a, match: POST /a, key: '{body:/id|max:9}', key_format: any}\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        char *warnings = warned(texts[i]);
        assert_string_equal(warnings, "");
        mem_free(warnings);
    }
}

static void the_age_of_keys_is_the_records_where_the_config_does_not_say(void **state)
{
    static const struct {
        const char *lines;
        int64_t want_s;
    } cases[] = {
        {"key_format: uuid7", 86400},
        {"key_format: uuid7, ttl: 1h", 3600},
        {"key_format: uuid7, key_max_age: 90s", 90},
        {"key_format: uuid7, key_max_age: 0", 0},
        {"key_format: uuid7, ttl: forever", 0},
        {"key_format: uuid7, ttl: forever, key_max_age: 30d", 2592000},
        {"key_format: uuid7, key: '{header:Idempotency-Key}{window:1h}'", 3600},
        {"key_format: uuid", 0},
        {"key: '{header:Idempotency-Key|uuid7}'", 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        snprintf(text, sizeof text, HEAD "rules:\n- {name: a, match: POST /a, %s}\n",
                 cases[i].lines);
        struct config *config = good(text);
        if (config->gateway.rules->rules[0].key_max_age_us != cases[i].want_s * CLOCK_US_PER_S)
            fail_msg("%s", cases[i].lines);
        config_free(config);
    }
}

static void retry_reminds_of_what_the_upstream_must_do(void **state)
{
    (void)state;
    char *warnings = warned(HEAD "rules:\n- {name: a, match: POST /a, unknown: retry}\n");
    assert_true(strncmp(warnings, "pawl.yaml:4:38: unknown: under retry", 36) == 0);
    mem_free(warnings);
}

static void payments_without_their_reverse_are_noted(void **state)
{
    static const struct {
        const char *rules;
        bool noted;
    } cases[] = {
        {"- {name: p, match: POST /payments}\n", true},
        {"- {name: p, match: POST /v1/payments}\n", true},
        {"- {name: p, match: POST /payments, protect: false}\n", false},
        {"- {name: p, match: POST /payments}\n- {name: r, match: POST /refunds}\n", false},
        {"- {name: p, match: POST /payments}\n- {name: r, match: \"DELETE /payments/{i}\"}\n",
         false},
        {"- {name: p, match: \"POST /payments/{id}\"}\n", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[256];
        snprintf(text, sizeof(text), HEAD "rules:\n%s", cases[i].rules);
        struct config *config = good(text);
        assert_int_equal(strstr(config->notes.at, "pawl.yaml:4:20: match: payments") != NULL,
                         cases[i].noted);
        config_free(config);
    }
}

/* ---- the table ---- */

static void every_option_has_a_unique_name_a_place_and_help(void **state)
{
    (void)state;
    for (int i = 0; i < OPTION_COUNT; i++) {
        const struct option *option = option_at((enum option_id)i);
        assert_true(option->where != 0 && strlen(option->help) > 0 && option->lowest >= 0);
        for (int j = i + 1; j < OPTION_COUNT; j++)
            assert_false(slice_eq(option->name, option_at((enum option_id)j)->name));
    }
}

static void every_option_is_printed_with_its_help(void **state)
{
    BUF_AUTO struct buf printed = buf_make(1 << 20);
    (void)state;
    config_options_print(&(struct config_sections){0}, &printed);
    buf_add_char(&printed, '\0');
    assert_true(buf_ok(&printed));
    for (int i = 0; i < OPTION_COUNT; i++) {
        const struct option *option = option_at((enum option_id)i);
        char line[128];
        snprintf(line, sizeof(line), "%s: %s\n", option->name.at, option->fallback);
        assert_holds(printed.at, line);
        assert_holds(printed.at, option->help);
    }
}

static void describe_rule(const struct rule *rule, struct buf *buf)
{
    buf_printf(buf, "%d %d %d %d %d %.*s %d %zu %zu\n", rule->protect, rule->require,
               rule->tenant_none, rule->trust_tenant, (int)rule->key_syntax,
               SLICE_ARG(rule->recipe), (int)rule->query, rule->n_query_names, rule->n_headers);
    buf_printf(buf, "%jd %jd %jd %jd %jd %jd\n", (intmax_t)rule->ttl_us,
               (intmax_t)rule->tombstone_us, (intmax_t)rule->lease_us, (intmax_t)rule->timeout_us,
               (intmax_t)rule->in_progress_wait_us, (intmax_t)rule->settle_us);
    buf_printf(buf, "%d %d %ju %ju %d\n", (int)rule->unknown, rule->probe_status,
               (uintmax_t)rule->max_request_body, (uintmax_t)rule->max_response_body,
               rule->replay_cookies);
    buf_printf(buf, "%d %d %d %d %d %zu ", (int)rule->duplicate, rule->ack_status,
               rule->mismatch_status, rule->store_down_pass, rule->secret, rule->n_formerly);
    for (int status = REMEMBER_STATUS_LEAST; status <= REMEMBER_STATUS_MOST; status++)
        buf_printf(buf, "%d", (int)remember_policy_sort(&rule->responses, status));
    buf_add_char(buf, '\n');
}

static void describe(const struct config *config, struct buf *buf)
{
    buf_printf(buf, "%.*s:%u %.*s:%u %.*s %zu\n", SLICE_ARG(config->listen.host),
               config->listen.port, SLICE_ARG(config->upstream.host), config->upstream.port,
               SLICE_ARG(config->store), config->gateway.threads);
    const int64_t spans[] = {config->drain_us,
                             config->gateway.limits.headers_us,
                             config->gateway.limits.body_us,
                             config->gateway.limits.idle_us,
                             config->gateway.limits.write_us,
                             config->gateway.connect_timeout_us,
                             config->gateway.upstream_idle_us,
                             config->store_limits.timeout_us,
                             config->gateway.retry_after_us,
                             config->gateway.read_timeout_us};
    for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++)
        buf_printf(buf, "%jd ", (intmax_t)spans[i]);
    buf_printf(buf, "\n%zu %zu %zu %zu %ju %ju %ju %d\n", config->gateway.max_connections,
               config->gateway.max_in_flight, config->store_limits.max_waiting,
               config->store_limits.max_waiting_per_key, (uintmax_t)config->gateway.max_buffered,
               (uintmax_t)config->cache, (uintmax_t)config->store_limits.disk_reserve,
               config->gateway.unmatched_refuse);
    buf_printf(buf, "%zu %d %zu %.*s\n", config->store_sessions, config->gateway.policy_off,
               config->gateway.cors.n, SLICE_ARG(config->gateway.public_url));
    for (size_t i = 0; i < config->gateway.rules->n; i++)
        describe_rule(&config->gateway.rules->rules[i], buf);
}

static void the_printed_options_are_a_config_that_changes_nothing(void **state)
{
    static const char least[] = HEAD "rules: [{name: a, match: POST /a}]\n";
    BUF_AUTO struct buf printed = buf_make(1 << 20);
    BUF_AUTO struct buf one = buf_make(1 << 16);
    BUF_AUTO struct buf other = buf_make(1 << 16);
    (void)state;
    config_options_print(&(struct config_sections){0}, &printed);
    buf_add_str(&printed, least);
    buf_add_char(&printed, '\0');
    assert_true(buf_ok(&printed));
    struct config *short_one = good(least);
    struct config *long_one = good(printed.at);
    describe(short_one, &one);
    describe(long_one, &other);
    assert_true(buf_ok(&one) && buf_ok(&other));
    assert_true(slice_eq(buf_slice(&one), buf_slice(&other)));
    config_free(short_one);
    config_free(long_one);
}

/* In how many letters they differ; 0: too many to ask whether `right` was meant. */
static size_t nearness(const char *given, const char *right)
{
    struct nearest nearest = {.given = slice_of(given)};
    nearest_try(&nearest, slice_of(right));
    return nearest_name(&nearest).at ? nearest.distance : 0;
}

static void near_names_differ_in_few_letters(void **state)
{
    struct nearest nearest = {.given = SLICE("tlt")};
    (void)state;
    assert_int_equal(nearness("tlt", "ttl"), 1);
    assert_int_equal(nearness("tlt", "TTL"), 1);
    assert_int_equal(nearness("tenat", "tenant"), 1);
    assert_int_equal(nearness("forwrad_keys", "forward_key"), 2);
    assert_int_equal(nearness("abcdefgh", "sxcdxfgh"), 3);
    assert_int_equal(nearness("kitten", "sitting"), 0);
    assert_int_equal(nearness("", "abc"), 0);
    assert_int_equal(nearness("x", "y"), 0);
    assert_int_equal(nearness("abc", "ax"), 0);
    assert_int_equal(nearness("abcdefghijklmnopqrstuvwxyz1234567", "a"), 0);
    assert_null(nearest_name(&nearest).at);
    nearest_try(&nearest, SLICE("ttx"));
    nearest_try(&nearest, SLICE("ttl"));
    nearest_try(&nearest, SLICE("key"));
    assert_true(slice_eq(nearest_name(&nearest), SLICE("ttl")));
}

/* ---- files and memory ---- */

static void a_file_is_read_and_named_in_its_complaints(void **state)
{
    char path[] = "/tmp/pawl-test-config-XXXXXX", *complaints;
    (void)state;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, HEAD, strlen(HEAD)), strlen(HEAD));
    struct config *config = config_read(path, NULL, &complaints);
    assert_non_null(config);
    assert_string_equal(complaints, "");
    mem_free(complaints);
    config_free(config);
    assert_int_equal(write(fd, "x: 1\n", 5), 5);
    assert_null(config_read(path, NULL, &complaints));
    assert_true(strncmp(complaints, path, strlen(path)) == 0);
    assert_holds(complaints, ":3:1: x: unknown option");
    mem_free(complaints);
    close(fd);
    unlink(path);
}

static void a_file_that_cannot_be_read_is_told_with_the_reason(void **state)
{
    char *complaints;
    (void)state;
    assert_null(config_read("/nonexistent/pawl.yaml", NULL, &complaints));
    assert_string_equal(complaints,
                        "/nonexistent/pawl.yaml: cannot be read: No such file or directory\n");
    mem_free(complaints);
    assert_null(config_read("/tmp", NULL, &complaints));
    assert_holds(complaints, "Is a directory");
    mem_free(complaints);
}

#ifdef PAWL_HOOKS
static void every_failed_allocation_refuses_the_config(void **state)
{
    bool fired = true;
    (void)state;
    for (long n = 1; fired; n++) {
        char *complaints = NULL;
        mem_fail_nth(n);
        struct config *config = config_parse("pawl.yaml", slice_of(example), &complaints);
        fired = mem_fail_fired();
        mem_fail_nth(0);
        assert_int_equal(config == NULL, fired);
        mem_free(complaints);
        config_free(config);
        assert_true(n < 100000);
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_contracts_example_means_what_it_says),
        cmocka_unit_test(the_contracts_example_draws_no_warning),
        cmocka_unit_test(what_is_not_written_is_the_contracts_default),
        cmocka_unit_test(every_option_of_a_rule_can_be_set),
        cmocka_unit_test(a_rule_overrides_the_defaults_wherever_they_stand),
        cmocka_unit_test(a_probe_may_be_a_map_or_one_text),
        cmocka_unit_test(rules_may_be_missing_or_empty),
        cmocka_unit_test(addresses_are_read_in_all_their_forms),
        cmocka_unit_test(a_store_is_found_beside_the_file_that_names_it),
        cmocka_unit_test(the_environment_fills_values_and_adds_no_structure),
        cmocka_unit_test(a_tenant_that_anyone_can_name_is_warned_of_once),
        cmocka_unit_test(a_credential_or_a_trusted_tenant_draws_no_warning),
        cmocka_unit_test(a_token_as_tenant_is_warned_of),
        cmocka_unit_test(a_key_format_judges_what_clients_send_and_nothing_else),
        cmocka_unit_test(the_age_of_keys_is_the_records_where_the_config_does_not_say),
        cmocka_unit_test(retry_reminds_of_what_the_upstream_must_do),
        cmocka_unit_test(payments_without_their_reverse_are_noted),
        cmocka_unit_test(every_option_has_a_unique_name_a_place_and_help),
        cmocka_unit_test(every_option_is_printed_with_its_help),
        cmocka_unit_test(the_printed_options_are_a_config_that_changes_nothing),
        cmocka_unit_test(near_names_differ_in_few_letters),
        cmocka_unit_test(a_file_is_read_and_named_in_its_complaints),
        cmocka_unit_test(a_file_that_cannot_be_read_is_told_with_the_reason),
#ifdef PAWL_HOOKS
        cmocka_unit_test(every_failed_allocation_refuses_the_config),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
