/* SPDX-License-Identifier: Apache-2.0 */
/* A mistake in a config is mended from its message alone: what it asks about is taken, and what it
 * says of a text that is not YAML names the line and what to do. */
#include "config_texts.h"

#define RULE "rules:\n- {name: a, match: POST /a, "

struct mended {
    const char *before;
    const char *wrong;
    const char *after;
    const char *meant; /* what the message asks about */
};

static void is_mended(const struct mended *one)
{
    char text[512], asked[256];
    snprintf(text, sizeof text, HEAD "%s%s%s\n", one->before, one->wrong, one->after);
    char *complaints = refused(text);
    bool bare = one->meant[0] == '{' || one->meant[0] == '[';
    snprintf(asked, sizeof asked, bare ? "did you mean %s?" : "did you mean '%s'?", one->meant);
    assert_holds(complaints, asked);
    mem_free(complaints);
    snprintf(text, sizeof text, HEAD "%s%s%s\n", one->before, one->meant, one->after);
    config_free(good(text));
}

static void what_a_message_asks_about_is_valid(void **state)
{
    static const struct mended cases[] = {
        {"listen: ", "8080", "", "127.0.0.1:8080"},
        {"listen: ", ":8080", "", "0.0.0.0:8080"},
        {"listen: ", "'*:8080'", "", "0.0.0.0:8080"},
        {"listen: ", "http://localhost:8080/", "", "localhost:8080"},
        {"admin: ", "8081", "", "127.0.0.1:8081"},
        {"store: ", "/var/lib/pawl.db", "", "sqlite:/var/lib/pawl.db"},
        {"public_url: ", "api.shop.example", "", "https://api.shop.example"},
        {"drain: ", "1min", "", "1m"},
        {"drain: ", "1.5 m", "", "90s"},
        {"defaults: {ttl: ", "1w", "}", "7d"},
        {"defaults: {ttl: ", "1h30m", "}", "90m"},
        {"defaults: {ttl: ", "2 Days", "}", "2d"},
        {"cache: ", "1MB", "", "1MiB"},
        {"cache: ", "1mb", "", "1MiB"},
        {"cache: ", "1M", "", "1MiB"},
        {"cache: ", "1.5k", "", "1536"},
        {"max_connections: ", "10_000", "", "10000"},
        {"max_connections: ", "10k", "", "10000"},
        {"defaults: {stream: ", "yes", "}", "true"},
        {"defaults: {stream: ", "on", "}", "true"},
        {"defaults: {require: ", "no", "}", "false"},
        {"defaults: {require: ", "False", "}", "false"},
        {"defaults: {unknown: ", "HOLD", "}", "hold"},
        {"unmatched: ", "deny", "", "refuse"},
        {"policy: ", "no", "", "off"},
        {"defaults: {in_progress: ", "10s", "}", "{wait: 10s}"},
        {"defaults: {duplicate: ", "204", "}", "{ack: 204}"},
        {"defaults: {headers: ", "If-Match", "}", "[If-Match]"},
        {"trust_forwarded: ", "fd00::/8", "", "[\"fd00::/8\"]"},
        {RULE "not_done: ", "500", "}", "[500]"},
        {RULE "unknown: {probe: \"", "/by-key/{key}", "\"}}", "GET /by-key/{key}"},
        {RULE "unknown: {probe: \"", "POST /by-key/{key}", "\"}}", "GET /by-key/{key}"},
        {"rules:\n- {name: a, ", "path", ": POST /a}", "match"},
        {"rules:\n- {name: a, ", "methods", ": POST /a}", "match"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        is_mended(&cases[i]);
}

static void a_number_without_its_unit_may_be_hours_minutes_or_seconds(void **state)
{
    static const char *const cases[][2] = {
        {"defaults: {ttl: 24}", "did you mean '24h' or '24m' or '24s'? expected a duration"},
        {"defaults: {in_progress: {wait: 10}}", "'10s'?"},
        {"drain: 120", "'120s'?"},
        {"defaults: {ttl: 007}", "'007' is not valid here (expected a duration"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        snprintf(text, sizeof text, HEAD "%s\n", cases[i][0]);
        char *complaints = refused(text);
        assert_holds(complaints, cases[i][1]);
        mem_free(complaints);
    }
}

static void an_upstream_without_its_scheme_is_asked_about(void **state)
{
    static const char *const cases[][2] = {{"9000", "'http://127.0.0.1:9000'"},
                                           {"127.0.0.1:9000", "'http://127.0.0.1:9000'"},
                                           {"api.internal", "'http://api.internal'"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[128];
        snprintf(text, sizeof text, "tenant: none\nupstream: %s\n", cases[i][0]);
        char *complaints = refused(text);
        assert_holds(complaints, cases[i][1]);
        mem_free(complaints);
    }
}

static void nothing_is_asked_about_that_would_be_refused(void **state)
{
    static const char *const cases[] = {
        "drain: 2w",
        "drain: 10 20",
        "cache: 9999TB",
        "threads: auto",
        "threads: 1k",
        "store: a:b",
        "listen: a b",
        "public_url: ftp://h",
        "cache: 99999999999999999999k",
        "drain: 1m30",
        "defaults: {ttl: 1.55s}",
        "max_connections: ''",
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[128];
        snprintf(text, sizeof text, HEAD "%s\n", cases[i]);
        char *complaints = refused(text);
        if (strstr(complaints, "did you mean"))
            fail_msg("asked about: %s", complaints);
        mem_free(complaints);
    }
}

static void a_long_value_is_refused_like_a_short_one(void **state)
{
    char value[1024], text[1200];
    (void)state;
    memset(value, 'x', sizeof value);
    value[sizeof value - 1] = '\0';
    snprintf(text, sizeof text, HEAD "store: %s\n", value);
    char *complaints = refused(text);
    assert_holds(complaints, "(expected sqlite:PATH");
    mem_free(complaints);
}

static void a_value_of_the_environment_is_not_repeated(void **state)
{
    (void)state;
    setenv("PAWL_T_MEANT", "s3cret", 1);
    char *complaints = refused(HEAD "store: ${PAWL_T_MEANT}\n");
    assert_null(strstr(complaints, "s3cret"));
    mem_free(complaints);
}

static void what_is_not_yaml_is_refused_with_what_to_do(void **state)
{
    static const char *const cases[][3] = {
        {"rules:\n  - name: a\n    match: POST /a\n   key: x\n", "4:4", "wrong indentation"},
        {"rules:\n  - name: a\n      match: POST /a\n", "3:12", "indented deeper than the line"},
        {HEAD "  drain: 5s\n", "3:8", "indented deeper than the line above"},
        {"  upstream: h\ntenant: none\n", "2:1", "begin in the same column"},
        {HEAD "drain 5s\nlisten: a:1\n", "3:1", "a line without ': '"},
        {HEAD "drain:5s\nlisten: a:1\n", "3:1", "with a space after the colon"},
        {"rules:\n  - name: a\n    match: POST /a\n  name: b\n", "4:3", "begins with '- '"},
        {"tenant: @x\n", "1:9", "'@' cannot begin a name or a value (put the value in quotes)"},
        {"rules:\n  - match: * /**\n", "2:12", "'*' cannot begin"},
        {"tenant: >x\n", "1:9", "'>' cannot begin"},
        {"listen: [::1]:8080\n", "1:10", "':' cannot begin"},
        {"tenant: !<x\n", "1:9", "'!' cannot begin"},
        {"a: |\n\tx\n", "2:1", "a tab (indent with spaces)"},
        {"defaults:\n  ttl: 1h\n\tlease: 2s\n", "3:1", "a tab (indent with spaces)"},
        {"tenant: \"abc\nlisten: a:1\n", "1:9", "a quote that is never closed"},
        {"once: {key: a\nb: 2\n", "2:2", "expected ',' or '}' in the map that begins on line 1"},
        {"a: [1]]\n", "1:7", "']' closes nothing"},
        {"a: {\n", "2:1", "the file ends within a list or map that is not closed"},
        {"key: '{header:X}'-'{body:/y}'\n", "1:18", "quote the whole value"},
        {"key: a: b\n", "1:7", "a second ': ' in one line (quote a value that contains ': ')"},
        {"key: \"\\d+\"\n", "1:6", "an unknown escape such as \\d in double quotes"},
        {"key: \"\\xzz\"\n", "1:6", "use single quotes"},
        {"rules: [{match: POST /a/{id}}]\n", "1:25", "contains '{' must be quoted"},
        {"a: 1\n- b\n", "2:1", "an item of a list where an option was expected"},
        {"rules: - b\n", "1:8", "begin each item on a line of its own"},
        {"%YAML 9\n---\na: 1\n", "1:8", "a line that begins with '%' is not supported"},
        {"a: \x01\n", "1:4", "a control character (remove it)"},
        {"a: \xe9x\n", "1:5", "not UTF-8 (save the file as UTF-8)"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char place[64];
        snprintf(place, sizeof place, "pawl.yaml:%s: config: not valid YAML: ", cases[i][1]);
        char *complaints = refused(cases[i][0]);
        assert_holds(complaints, place);
        assert_holds(complaints, cases[i][2]);
        mem_free(complaints);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_message_asks_about_is_valid),
        cmocka_unit_test(a_number_without_its_unit_may_be_hours_minutes_or_seconds),
        cmocka_unit_test(an_upstream_without_its_scheme_is_asked_about),
        cmocka_unit_test(nothing_is_asked_about_that_would_be_refused),
        cmocka_unit_test(a_long_value_is_refused_like_a_short_one),
        cmocka_unit_test(a_value_of_the_environment_is_not_repeated),
        cmocka_unit_test(what_is_not_yaml_is_refused_with_what_to_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
