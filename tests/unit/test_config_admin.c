/* SPDX-License-Identifier: Apache-2.0 */
/* admin, admin_token and log_keys. */
#include "config_texts.h"

#include <inttypes.h>
#include <unistd.h>

#define TOKEN "0123456789abcdef"

static void without_a_word_there_is_no_admin_listener(void **state)
{
    (void)state;
    struct config *config = good(HEAD);
    assert_slice(config->admin.host, "");
    assert_slice(config->admin_token, "");
    assert_false(config->gateway.log_keys_hashed);
    config_free(config);
}

static void an_admin_address_on_loopback_needs_no_token(void **state)
{
    (void)state;
    static const char *const addresses[] = {"127.0.0.1:8081", "localhost:8081", "\"[::1]:8081\"",
                                            "127.9.9.9:1"};
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        char text[128];
        snprintf(text, sizeof text, HEAD "admin: %s\n", addresses[i]);
        config_free(good(text));
    }
}

static void an_address_of_the_gateway_itself_is_refused(void **state)
{
    (void)state;
    char *complaints = refused("listen: LocalHost:9\nupstream: http://localhost:9\ntenant: none\n"
                               "admin: localhost:9\n");
    assert_holds(complaints, "pawl.yaml:2:11: upstream: the same address as `listen`");
    assert_holds(complaints, "pawl.yaml:4:8: admin: the same address as `listen`");
    mem_free(complaints);
    complaints = refused("upstream: http://127.0.0.1:8080\ntenant: none\n");
    assert_holds(complaints, "upstream: the same address as `listen`");
    mem_free(complaints);
    config_free(good("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nupstream: http://127.0.0.1:9\n"
                     "tenant: none\n"));
}

static void without_an_upstream_it_delivers_webhooks_and_nothing_else(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"tenant: none\n", "pawl.yaml:1:1: upstream: missing (expected http://HOST:PORT; or, to "
                           "deliver webhooks only, `webhooks:`)"},
        {"webhooks: {endpoints: []}\nlisten: 127.0.0.1:9\n", "no `listen`)"},
        {"webhooks: {endpoints: []}\nrules: []\n", "no `rules`)"},
        {"webhooks: {endpoints: []}\ncache: 0\n", "no `cache`)"},
        {"webhooks: {endpoints: []}\ninbox: []\n", "no `inbox`)"},
    };
    struct config *config = good("webhooks: {endpoints: []}\nadmin: 127.0.0.1:8080\n"
                                 "connect_timeout: 1s\naccept_weaker: true\n");
    assert_false(config_has_gateway(config));
    assert_int_equal(config->listen.host.len, 0);
    assert_true(config->accept_weaker);
    config_free(config);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char *complaints = refused(wrong[i][0]);
        assert_holds(complaints, "upstream: missing (expected http://HOST:PORT");
        assert_holds(complaints, wrong[i][1]);
        mem_free(complaints);
    }
    config = good(HEAD);
    assert_true(config_has_gateway(config));
    config_free(config);
}

#define SINK(name, more)                                                                           \
    "{name: " name ", url: 'https://h.example/x', types: [a.*], "                                  \
    "secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" more "}"
#define SINKS(all) "webhooks: {endpoints: [" all "]}\n"

static void endpoints_have_former_names(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {SINKS(SINK("a", ", formerly: [a]")), "two endpoints have the name a"},
        {SINKS(SINK("a", ", formerly: [b]") "," SINK("b", "")), "two endpoints have the name b"},
        {SINKS(SINK("a", ", formerly: [c]") "," SINK("b", ", formerly: [c]")),
         "two endpoints have the name c"},
        {SINKS(SINK("a", ", formerly: ['x y']")), "an earlier name of the endpoint"},
    };
    struct config *config = good(SINKS(SINK("a", "") "," SINK("b", ", formerly: [c, d]")));
    const struct webhook_settings *webhooks = &config->webhooks;
    assert_int_equal(webhooks->n_endpoints, 4);
    assert_null(webhooks->endpoints[1].heir);
    assert_slice(webhooks->endpoints[2].name, "c");
    assert_ptr_equal(webhooks->endpoints[2].heir, &webhooks->endpoints[1]);
    assert_int_equal(webhooks->endpoints[3].n_types, 0);
    config_free(config);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char *complaints = refused(wrong[i][0]);
        assert_holds(complaints, wrong[i][1]);
        mem_free(complaints);
    }
}

static void off_loopback_an_admin_address_without_a_token_is_refused(void **state)
{
    (void)state;
    static const char *const addresses[] = {"0.0.0.0:8081", "\"[::]:8081\"", "pawl.internal:8081",
                                            "10.0.0.1:8081"};
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        char text[128];
        snprintf(text, sizeof text, HEAD "admin: %s\n", addresses[i]);
        char *complaints = refused(text);
        assert_holds(complaints, "pawl.yaml:3:8: admin: ");
        assert_holds(complaints, "expected admin_token:");
        mem_free(complaints);
    }
    config_free(good(HEAD "admin: 0.0.0.0:8081\nadmin_token: " TOKEN "\n"));
}

static void a_token_comes_from_the_value_the_environment_or_a_file(void **state)
{
    (void)state;
    char path[] = "/tmp/pawl-token-XXXXXX", text[256];
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, TOKEN "\n", sizeof TOKEN) == sizeof TOKEN);
    close(fd);
    setenv("PAWL_T_TOKEN", TOKEN, 1);
    snprintf(text, sizeof text, HEAD "admin_token: file:%s\n", path);
    const char *const texts[] = {HEAD "admin_token: " TOKEN "\n",
                                 HEAD "admin_token: ${PAWL_T_TOKEN}\n", text};
    for (size_t i = 0; i < 3; i++) {
        struct config *config = good(texts[i]);
        assert_slice(config->admin_token, TOKEN);
        config_free(config);
    }
    unlink(path);
}

static void a_bad_token_is_refused_and_never_shown(void **state)
{
    (void)state;
    static const char *const tokens[] = {"s3cret", "\"s3cret with blanks in it\"",
                                         "\"s3cret-s3cret-s3cret-\\u00e9\""};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        char text[128];
        snprintf(text, sizeof text, HEAD "admin_token: %s\n", tokens[i]);
        char *complaints = refused(text);
        assert_holds(complaints, "pawl.yaml:3:14: admin_token: ");
        assert_null(strstr(complaints, "s3cret"));
        mem_free(complaints);
    }
    char *complaints = refused(HEAD "admin_token: file:/nonexistent/token\n");
    assert_holds(complaints, "/nonexistent/token cannot be read: No such file");
    mem_free(complaints);
}

static void the_url_of_a_store_outlives_the_text_that_it_was_read_from(void **state)
{
    (void)state;
    struct config *config = good(HEAD "store: postgres://pawl@db/pawl\n");
    assert_slice(config->store, "postgres://pawl@db/pawl");
    config_free(config);
}

static void a_store_with_its_password_may_stand_in_a_file(void **state)
{
    (void)state;
    char path[] = "/tmp/pawl-store-XXXXXX", text[256];
    int fd = mkstemp(path);
    assert_true(dprintf(fd, "postgres://pawl:s3cret@db/pawl\nnot this\n") > 0);
    snprintf(text, sizeof text, HEAD "store: file:%s\n", path);
    struct config *config = good(text);
    assert_slice(config->store, "postgres://pawl:s3cret@db/pawl");
    config_free(config);
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_true(pwrite(fd, "s3cret", 6, 0) == 6);
    close(fd);
    char *complaints = refused(text);
    assert_holds(complaints, "store: ");
    assert_null(strstr(complaints, "s3cret"));
    mem_free(complaints);
    unlink(path);
    complaints = refused(text);
    assert_holds(complaints, " cannot be read: No such file");
    mem_free(complaints);
}

static void keys_in_logs_are_plain_or_hashed(void **state)
{
    (void)state;
    struct config *config = good(HEAD "log_keys: hashed\n");
    assert_true(config->gateway.log_keys_hashed);
    config_free(config);
    char *complaints = refused(HEAD "log_keys: none\n");
    assert_holds(complaints, "pawl.yaml:3:11: log_keys: ");
    assert_holds(complaints, "plain");
    mem_free(complaints);
}

/* ---- core dumps ---- */

/* Whether a core dump has the page at `at`: as the kernel says it of its mapping. */
static bool is_dumped(const void *at)
{
    FILE *file = fopen("/proc/self/smaps", "re");
    char line[512];
    uintptr_t from = 0, to = 0;
    bool here = false, kept_out = false, found = false;
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2)
            here = (uintptr_t)at >= from && (uintptr_t)at < to;
        if (!here || strncmp(line, "VmFlags:", 8) != 0)
            continue;
        found = true;
        kept_out = strstr(line, " dd") != NULL;
    }
    fclose(file);
    assert_true(found);
    return !kept_out;
}

/* With sanitizers they are in memory that these look after. */
static void secrets_are_in_no_core_dump(void **state)
{
    (void)state;
    struct config *config =
        good(HEAD "admin_token: " TOKEN "\nwebhooks:\n  endpoints:\n    - name: a\n"
                  "      url: https://a.example/x\n      types: ['*']\n"
                  "      secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n");
    const struct webhook_endpoint *endpoint = &config->webhooks.endpoints[0];
    assert_slice(config->admin_token, TOKEN);
#ifdef PAWL_SANITIZED
    const bool is_kept = false;
#else
    const bool is_kept = true;
#endif
    assert_true(is_dumped(config));
    assert_int_equal(is_dumped(config->admin_token.at), !is_kept);
    assert_int_equal(is_dumped(endpoint->secrets[0].key.at), !is_kept);
    config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_word_there_is_no_admin_listener),
        cmocka_unit_test(an_admin_address_on_loopback_needs_no_token),
        cmocka_unit_test(an_address_of_the_gateway_itself_is_refused),
        cmocka_unit_test(without_an_upstream_it_delivers_webhooks_and_nothing_else),
        cmocka_unit_test(endpoints_have_former_names),
        cmocka_unit_test(off_loopback_an_admin_address_without_a_token_is_refused),
        cmocka_unit_test(a_token_comes_from_the_value_the_environment_or_a_file),
        cmocka_unit_test(a_bad_token_is_refused_and_never_shown),
        cmocka_unit_test(the_url_of_a_store_outlives_the_text_that_it_was_read_from),
        cmocka_unit_test(a_store_with_its_password_may_stand_in_a_file),
        cmocka_unit_test(keys_in_logs_are_plain_or_hashed),
        cmocka_unit_test(secrets_are_in_no_core_dump),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
