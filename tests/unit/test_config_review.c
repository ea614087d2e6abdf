/* SPDX-License-Identifier: Apache-2.0 */
/* What a config may say and yet cannot mean, or seldom means. */
#include "config_texts.h"

#include "config/warnings.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define TOP "upstream: http://127.0.0.1:9000\n"
#define RULES "rules:\n- name: a\n  match: \"POST /a/{id}\"\n"

struct row {
    const char *text;
    const char *part; /* of what is said; NULL: nothing */
};

static void check_refused(const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char *complaints = refused(rows[i].text);
        assert_holds(complaints, rows[i].part);
        mem_free(complaints);
    }
}

static bool is_one_line(const char *text)
{
    const char *end = strchr(text, '\n');
    return end && end[1] == '\0';
}

/* One line that holds `part`, or nothing at all. */
static bool says(const char *warnings, const char *part)
{
    return part ? is_one_line(warnings) && strstr(warnings, part) : warnings[0] == '\0';
}

static void check_warned(const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char *warnings = warned(rows[i].text);
        if (!says(warnings, rows[i].part))
            fail_msg("%s: not '%s' but:\n%s", rows[i].text, rows[i].part ? rows[i].part : "nothing",
                     warnings);
        mem_free(warnings);
    }
}
#define CHECK_REFUSED(rows) check_refused(rows, sizeof(rows) / sizeof(rows[0]))
/* The first note of that class, and no other one of it; NULL: none. */
static void check_noted(const struct row *rows, size_t n, const char *class)
{
    for (size_t i = 0; i < n; i++) {
        struct config *config = good(rows[i].text);
        MEM_AUTO char *notes = mem_copy(config->notes.at, config->notes.len);
        const char *end = strstr(notes, class);
        config_free(config);
        if (!rows[i].part ? end != NULL : !end || !strstr(notes, rows[i].part))
            fail_msg("%s: not '%s' but:\n%s", rows[i].text, rows[i].part ? rows[i].part : "nothing",
                     notes);
        if (end)
            assert_null(strstr(end + 1, class));
    }
}
#define CHECK_NOTED(rows, class) check_noted(rows, sizeof(rows) / sizeof(rows[0]), class)
#define CHECK_WARNED(rows) check_warned(rows, sizeof(rows) / sizeof(rows[0]))

#define ASKS_PATH TOP "tenant: \"{path:id}\"\ntrust_tenant: true\n" RULES "  authorize: "
#define ASKS_QUERY TOP "tenant: \"{query:t}:{header:X-T}\"\n" RULES "  authorize: "
#define ASKS_HEADER TOP "tenant: \"{header:X-T}\"\n" RULES "  authorize: "
#define ASKS_SECRET TOP "tenant: \"{header:Authorization}\"\nallow: [tenant-token]\n" RULES

#define SHARES TOP "tenant: none\nstore: postgres://app@db/app\n"
#define PARTICIPANT "  unknown: participant\n"

static void a_participant_needs_the_database_of_its_effects(void **state)
{
    static const struct row bad[] = {
        {TOP "tenant: none\nstore: sqlite:a.db\n" RULES PARTICIPANT,
         "pawl.yaml:7:12: unknown: participant needs the database in which the service commits its "
         "effects (expected store: postgres://USER@HOST/DATABASE with it, or hold, retry or "
         "{probe: ..})\n"},
        {TOP "tenant: none\nstore: sqlite:a.db\ndefaults: {unknown: participant}\n" RULES,
         "pawl.yaml:4:21: unknown: participant needs"},
    };
    static const struct row good_ones[] = {
        {SHARES RULES PARTICIPANT, NULL},
        {TOP "tenant: none\nstore: postgresql://db/app\n" RULES PARTICIPANT, NULL},
        {TOP "tenant: none\n" RULES PARTICIPANT, NULL}, /* the command line may name one */
        {TOP "tenant: none\nstore: sqlite:a.db\n" RULES PARTICIPANT "  protect: false\n", NULL},
        {SHARES RULES PARTICIPANT "  store_down: pass\n", "[store-down-pass]"},
    };
    (void)state;
    CHECK_REFUSED(bad);
    CHECK_WARNED(good_ones);
}

static void the_lease_of_a_participant_is_short_unless_the_config_says_otherwise(void **state)
{
    static const struct {
        const char *text;
        int seconds;
    } cases[] = {
        {SHARES RULES PARTICIPANT, 5},
        {SHARES "defaults: {unknown: participant}\n" RULES, 5},
        {SHARES RULES PARTICIPANT "  lease: 7s\n", 7},
        {SHARES "defaults: {lease: 9s}\n" RULES PARTICIPANT, 9},
        {SHARES "defaults: {unknown: participant}\n" RULES "  unknown: hold\n", 30},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct config *config = good(cases[i].text);
        const struct rule *rule = &config->gateway.rules->rules[0];
        assert_int_equal(rule->lease_us, cases[i].seconds * CLOCK_US_PER_S);
        config_free(config);
    }
}

static void what_a_participant_relies_on_is_noted(void **state)
{
    (void)state;
    struct config *config = good(SHARES RULES PARTICIPANT);
    assert_true(slice_starts(config->notes, SLICE("pawl.yaml:5:9: unknown: exactly once holds for "
                                                  "what the service does in the transaction")));
    config_free(config);
    config = good(SHARES RULES PARTICIPANT "  allow: [participant-completes]\n");
    assert_int_equal(config->notes.len, 0);
    config_free(config);
}

/* found: A-H1, A-F */
static void what_asks_about_a_tenant_holds_what_the_headers_do_not_carry(void **state)
{
    static const struct row bad[] = {
        {ASKS_PATH "GET /me\n", "a' comes from {path:id}, which this request does not carry"},
        {ASKS_QUERY "GET /me\n", "comes from {query:t}, which this request does not carry"},
        {ASKS_PATH "none\n  unknown: {probe: \"GET /r/{key}\"}\n", "comes from {path:id}"},
        {ASKS_SECRET "  authorize: \"GET /t/{tenant}\"\n", "{tenant} of a credential is a hash"},
        {ASKS_SECRET "  unknown: {probe: \"GET /t/{tenant}/{key}\"}\n",
         "of a credential is a hash"},
    };
    static const struct row good_ones[] = {
        {ASKS_PATH "\"GET /t/{tenant}\"\n", NULL},
        {ASKS_PATH "\"GET /t/{path:id}\"\n", NULL},
        {ASKS_QUERY "\"GET /t/{tenant}\"\n", NULL},
        {ASKS_QUERY "\"GET /t/{query:t}\"\n", "[authorize-tenant]"},
        {ASKS_HEADER "GET /me\n", "names no {tenant}"},
        {ASKS_HEADER "\"GET /t/{header:X-T}\"\n", NULL},
        {ASKS_SECRET "  authorize: GET /me\n", NULL},
        {ASKS_SECRET "  unknown: {probe: \"GET /r/{key}\"}\n", NULL},
    };
    (void)state;
    CHECK_REFUSED(bad);
    CHECK_WARNED(good_ones);
}

/* found: L8 */
static void a_probe_that_leaves_the_tenant_to_the_callers_headers_is_noted(void **state)
{
#define BY_KEY "  unknown: {probe: \"GET /r/{key}\"}\n"
    static const struct row rows[] = {
        {TOP "tenant: \"{header:X-Api-Key}\"\n" RULES BY_KEY, "4:9: unknown: the probe names no"},
        {TOP "tenant: \"{header:X-T}\"\ntrust_tenant: true\n" RULES BY_KEY, "in a (look only"},
        {ASKS_SECRET BY_KEY, "the probe names no tenant"},
        {TOP "tenant: \"{cookie:sid}\"\n" RULES BY_KEY, "the probe names no tenant"},
        {TOP "tenant: \"{header:X-T}\"\ndefaults: {unknown: {probe: \"GET /r/{key}\"}}\n" RULES
             "- {name: b, match: POST /b}\n",
         "in a, b (look only"},
        {TOP "tenant: \"{header:X-T}\"\n" RULES "  unknown: {probe: \"GET /{tenant}/{key}\"}\n",
         NULL},
        {TOP "tenant: \"{header:X-T}\"\n" RULES "  unknown: {probe: \"GET /{header:X-T}/{key}\"}\n",
         NULL},
        {TOP "tenant: \"{header:X-T}\"\n" RULES BY_KEY "  allow: [probe-tenant]\n", NULL},
        {HEAD RULES BY_KEY, NULL},
    };
    (void)state;
    CHECK_NOTED(rows, "[probe-tenant]");
}

/* found: A-F */
static void tenants_that_are_shared_or_change_are_warned_of(void **state)
{
    static const struct row rows[] = {
        {TOP "tenant: \"{header:X-T?}\"\ntrust_tenant: true\n" RULES, "[tenant-optional]"},
        {TOP "tenant: \"{header:Cookie}\"\n" RULES, "use {cookie:NAME}"},
        {TOP "tenant: \"{header:Authorization}\"\n" RULES, "[tenant-token]"},
        {TOP "tenant: \"{header:X-T}\"\n" RULES, "GET /tenants/{tenant}/access"},
        {TOP "tenant: none\n" RULES "  replay_cookies: true\n", "[cookies-shared]"},
        {TOP "tenant: \"{header:X-Api-Key}\"\n" RULES "  replay_cookies: true\n", NULL},
    };
    (void)state;
    CHECK_WARNED(rows);
}

/* found: C-H7 */
static void a_probe_that_names_no_operation_is_refused(void **state)
{
    static const struct row bad[] = {
        {HEAD RULES "  unknown: {probe: GET /orders}\n", "the probe names no operation"},
        {HEAD RULES "  unknown: {probe: \"GET /orders/{route}\"}\n", "names no operation"},
        {TOP "tenant: \"{header:X-Api-Key}\"\n" RULES "  unknown: {probe: \"GET /x?all\"}\n",
         "names no operation"},
    };
    static const struct row rows[] = {
        {HEAD RULES "  unknown: {probe: \"GET /orders?key={key}\"}\n", "[probe-query]"},
        {HEAD RULES "  unknown: {probe: \"GET /orders/{path:id}\"}\n", NULL},
        {HEAD RULES "  unknown: {probe: \"GET /orders/{body:/id}\"}\n", NULL},
    };
    (void)state;
    CHECK_REFUSED(bad);
    CHECK_WARNED(rows);
}

/* found: A-F */
static void a_key_that_is_the_same_for_every_request_is_refused(void **state)
{
    static const struct row bad[] = {
        {HEAD RULES "  key: \"{route}\"\n", "is the same for every request of the rule"},
        {HEAD RULES "  key: \"{method}\"\n", "is the same"},
        {HEAD RULES "  key: abc\n", "is the same"},
        {HEAD RULES "  key: \"{route}{method}\"\n", "is the same"},
        {HEAD RULES "  key: \"{tenant}\"\n", "is the same"},
    };
    static const struct row rows[] = {
        {TOP "tenant: \"{header:X-Api-Key}\"\n" RULES "  key: \"{tenant}\"\n", NULL},
        {HEAD RULES "  key: \"{route}{window:1h}\"\n", NULL},
        {HEAD RULES "  key: \"{route}{path:id}\"\n", NULL},
    };
    (void)state;
    CHECK_REFUSED(bad);
    CHECK_WARNED(rows);
}

/* found: A-F */
static void what_compares_nothing_or_lasts_too_short_is_warned_of(void **state)
{
    static const struct row rows[] = {
        {HEAD RULES "  payload: ignore\n  query: none\n  headers: []\n", "[nothing-compared]"},
        {HEAD RULES "  payload: ignore\n  query: none\n", NULL},
        {HEAD RULES "  ttl: 1ms\n", "[ttl-short]"},
        {HEAD RULES "  ttl: 60s\n  timeout: 61s\n", "[ttl-short]"},
        {HEAD RULES "  ttl: 60s\n  timeout: 60s\n", NULL},
        {HEAD RULES "  key: \"{path:id}{window:10s}\"\n", "[window-short]"},
        {HEAD RULES "  key: \"{path:id}{window:10s}\"\n  timeout: 10s\n", NULL},
        {HEAD RULES "  key: \"{header:X-K}{hour}\"\n", "[key-by-clock]"},
        {HEAD RULES "  key: \"{header:X-K}{date:UTC}\"\n", "[key-by-clock]"},
        {HEAD RULES "  key: \"{header:X-K}{week:UTC}\"\n", "[key-by-clock]"},
        {HEAD RULES "  key: \"{path:id}{date:Europe/Berlin}\"\n", NULL},
        {HEAD RULES "  key: \"{route}{hour}\"\n", NULL},
    };
    (void)state;
    CHECK_WARNED(rows);
}

/* found: A-F */
static void headers_that_end_at_this_hop_cannot_count(void **state)
{
    static const struct row rows[] = {
        {HEAD RULES "  headers: [Connection]\n", "the name of a header that the upstream sees"},
        {HEAD RULES "  headers: [If-Match, te]\n", "the name of a header that the upstream sees"},
        {HEAD RULES "  headers: [Transfer-Encoding]\n", "that the upstream sees"},
    };
    (void)state;
    CHECK_REFUSED(rows);
}

/* found: A-F */
static void a_body_that_could_never_fit_is_refused(void **state)
{
    static const struct row bad[] = {
        {HEAD RULES "  max_response_body: 512MiB\n", "6:22: max_response_body: max_response_body"},
        {HEAD "max_buffered: 1MiB\n" RULES "  max_request_body: 2MiB\n", "of rule 'a' is 2097152"},
        {HEAD "max_buffered: 64KiB\n" RULES, "3:15: max_buffered: max_request_body of rule 'a'"},
    };
    static const struct row rows[] = {
        {HEAD "max_buffered: 1MiB\n" RULES, NULL},
        {HEAD "max_buffered: 1KiB\n" RULES "  protect: false\n", NULL},
        {HEAD RULES "  max_response_body: 512MiB\n  stream: true\n", NULL},
    };
    (void)state;
    CHECK_REFUSED(bad);
    CHECK_WARNED(rows);
}

/* found: A-L20 */
static void addresses_that_may_meet_are_refused(void **state)
{
    static const struct row bad[] = {
        {"upstream: http://127.0.0.1:7\nadmin: 127.0.0.1:7\ntenant: none\n", "address as `admin`"},
        {"upstream: http://localhost:7\nadmin: 127.0.0.1:7\ntenant: none\n", "as `admin`"},
        {"upstream: http://127.0.0.1:7\nlisten: 0.0.0.0:7\ntenant: none\n", "as `listen`"},
        {"upstream: http://localhost:7\nlisten: 127.0.0.1:7\ntenant: none\n", "as `listen`"},
        {"upstream: http://[::1]:7\nlisten: \"[::]:7\"\ntenant: none\n", "as `listen`"},
        {"upstream: http://h\nadmin: localhost:7\nlisten: 0.0.0.0:7\ntenant: none\n", "`listen`"},
    };
    static const struct row rows[] = {
        {"upstream: http://127.0.0.2:7\nlisten: 127.0.0.1:7\ntenant: none\n", NULL},
        {"upstream: http://10.0.0.1:7\nlisten: 0.0.0.0:7\ntenant: none\n", NULL},
        {"upstream: http://127.0.0.1:8\nlisten: 0.0.0.0:7\ntenant: none\n", NULL},
        {"upstream: http://h\nlisten: 127.0.0.1:0\nadmin: 127.0.0.1:0\ntenant: none\n", NULL},
    };
    (void)state;
    CHECK_REFUSED(bad);
    CHECK_WARNED(rows);
}

/* found: B-F14 */
static void what_is_made_without_a_reverse_is_noted(void **state)
{
    static const struct row rows[] = {
        {HEAD "rules:\n- {name: a, match: POST /charges}\n",
         "charges have a rule, and no rule covers"},
        {HEAD "rules:\n- {name: a, match: POST /v1/payouts}\n", "payouts have a rule"},
        {HEAD "rules:\n- {name: a, match: \"POST,PUT /orders\"}\n", "orders have a rule"},
        {HEAD "rules:\n- {name: a, match: \"POST /payments/{id}/captures\"}\n", "captures have"},
        {HEAD "rules:\n- {name: a, match: POST /holds}\n", "[reverse-missing]"},
        {HEAD "rules:\n- {name: a, match: POST /holds}\n- {name: b, match: \"POST "
              "/holds/{id}/release\"}\n",
         NULL},
        {HEAD "rules:\n- {name: a, match: POST /orders}\n- {name: b, match: \"POST "
              "/orders/{id}/cancel\"}\n",
         NULL},
        {HEAD "rules:\n- {name: a, match: POST /charges}\n- {name: b, match: \"* /**\"}\n", NULL},
        {HEAD
         "rules:\n- {name: a, match: POST /orders}\n- {name: b, match: \"DELETE /orders/**\"}\n",
         NULL},
        {HEAD "rules:\n- {name: a, match: POST /orders, protect: false}\n", NULL},
        {HEAD "rules:\n- {name: a, match: POST /things}\n", NULL},
        {HEAD "rules:\n- {name: a, match: POST /holds, allow: [reverse-missing]}\n", NULL},
    };
    (void)state;
    CHECK_NOTED(rows, "[reverse-missing]");
}

static void a_class_that_is_allowed_is_not_warned_of(void **state)
{
    static const struct row rows[] = {
        {TOP "tenant: \"{header:X-T}\"\nallow: [tenant-open]\n" RULES, NULL},
        {TOP "allow: [tenant-open]\ntenant: \"{header:X-T?}\"\n" RULES, "[tenant-optional]"},
        {TOP "tenant: \"{header:X-T?}\"\nallow: [tenant-open]\n" RULES
             "  allow: [tenant-optional]\n",
         NULL},
        {TOP "tenant: \"{header:X-Api-Key}\"\n" RULES "  unknown: retry\n  allow: "
             "[upstream-remembers]\n- {name: b, match: POST /b, unknown: retry}\n",
         "pawl.yaml:8:38: unknown"},
    };
    static const struct row bad[] = {
        {HEAD "allow: [tenant-opn]\n",
         "3:9: allow: 'tenant-opn' is not valid here (did you mean 'tenant-open'?"},
        {HEAD "allow: tenant-open\n", "not a list (expected classes of warnings such as"},
        {HEAD "defaults: {allow: []}\n", "does not belong here"},
    };
    (void)state;
    CHECK_WARNED(rows);
    CHECK_REFUSED(bad);
}

static char *written_with(mode_t mode, const char *upstream, const char *token, char *path)
{
    char text[256];
    char *complaints = NULL;
    snprintf(text, sizeof text, "upstream: %s\nadmin_token: %s\ntenant: none\n", upstream, token);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(chmod(path, mode), 0);
    struct config *config = config_read(path, NULL, &complaints);
    if (!config)
        fail_msg("%s", complaints);
    config_free(config);
    return complaints;
}

/* found: A-F */
static void a_token_that_everybody_can_read_is_warned_of(void **state)
{
    char folder[] = "/tmp/pawl-review-XXXXXX", path[64], secret[64];
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/pawl.yaml", folder);
    snprintf(secret, sizeof secret, "%s/token", folder);
    FILE *file = fopen(secret, "w");
    assert_non_null(file);
    fputs("sixteen-or-longer\n", file);
    fclose(file);
    setenv("PAWL_T_TOKEN", "sixteen-or-longer", 1);
    const struct {
        mode_t config, file;
        const char *token;
        bool warned;
    } rows[] = {
        {0600, 0644, "file:token", true},           {0644, 0640, "file:token", false},
        {0644, 0600, "sixteen-or-longer", true},    {0640, 0600, "sixteen-or-longer", false},
        {0644, 0600, "\"${PAWL_T_TOKEN}\"", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(chmod(secret, rows[i].file), 0);
        char *warnings = written_with(rows[i].config, "http://h", rows[i].token, path);
        assert_int_equal(strstr(warnings, "[token-readable]") != NULL, rows[i].warned);
        mem_free(warnings);
    }
    unlink(path);
    unlink(secret);
    rmdir(folder);
}

/* A group may read what is root's: packages give a service its key so. */
static void a_private_key_that_others_can_read_is_warned_of(void **state)
{
    char folder[] = "/tmp/pawl-review-XXXXXX", path[64], key[64];
    const bool is_root = geteuid() == 0;
    const struct {
        mode_t mode;
        uid_t owner;
        bool warned;
    } rows[] = {{0600, 0, false}, {0644, 0, true}, {0640, 0, !is_root}, {0640, 1, true}};
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/pawl.yaml", folder);
    snprintf(key, sizeof key, "%s/key.pem", folder);
    close(open(key, O_CREAT | O_WRONLY, 0600));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        (void)!chown(key, is_root ? rows[i].owner : geteuid(), (gid_t)-1);
        assert_int_equal(chmod(key, rows[i].mode), 0);
        char *warnings = written_with(0600, "https://h\nupstream_tls: {cert: c.pem, key: key.pem}",
                                      "sixteen-or-longer", path);
        assert_int_equal(strstr(warnings, "[tls-key-readable]") != NULL, rows[i].warned);
        mem_free(warnings);
    }
    unlink(path);
    unlink(key);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_participant_needs_the_database_of_its_effects),
        cmocka_unit_test(the_lease_of_a_participant_is_short_unless_the_config_says_otherwise),
        cmocka_unit_test(what_a_participant_relies_on_is_noted),
        cmocka_unit_test(what_asks_about_a_tenant_holds_what_the_headers_do_not_carry),
        cmocka_unit_test(tenants_that_are_shared_or_change_are_warned_of),
        cmocka_unit_test(a_probe_that_names_no_operation_is_refused),
        cmocka_unit_test(a_key_that_is_the_same_for_every_request_is_refused),
        cmocka_unit_test(what_compares_nothing_or_lasts_too_short_is_warned_of),
        cmocka_unit_test(headers_that_end_at_this_hop_cannot_count),
        cmocka_unit_test(a_body_that_could_never_fit_is_refused),
        cmocka_unit_test(addresses_that_may_meet_are_refused),
        cmocka_unit_test(a_probe_that_leaves_the_tenant_to_the_callers_headers_is_noted),
        cmocka_unit_test(what_is_made_without_a_reverse_is_noted),
        cmocka_unit_test(a_class_that_is_allowed_is_not_warned_of),
        cmocka_unit_test(a_token_that_everybody_can_read_is_warned_of),
        cmocka_unit_test(a_private_key_that_others_can_read_is_warned_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
