/* SPDX-License-Identifier: Apache-2.0 */
#include "core/web/public_address.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static struct network_address address_of(const char *text)
{
    struct network host;
    if (!network_read(slice_of(text), &host))
        fail_msg("%s is no address", text);
    return host.address;
}

static const char *refusal(const char *text, const char *allow)
{
    struct public_address_rules rules = {0};
    struct network_address address = address_of(text);
    if (allow != NULL) {
        rules.allow.n = 1;
        assert_true(network_read(slice_of(allow), &rules.allow.at[0]));
    }
    return public_address_refusal(&rules, &address);
}

static void assert_refused(const char *text, const char *what)
{
    const char *why = refusal(text, NULL);
    if (why == NULL || strstr(why, what) == NULL)
        fail_msg("%s: %s, not %s", text, why == NULL ? "public" : why, what);
}

static void assert_public(const char *text)
{
    const char *why = refusal(text, NULL);
    if (why != NULL)
        fail_msg("%s: %s", text, why);
}

/* `before` and `after` are the neighbours: NULL where they are not public for another cause. */
struct range_case {
    const char *what, *first, *last, *before, *after;
};

static const struct range_case cases[] = {
    {"RFC 1122", "0.0.0.0", "0.255.255.255", NULL, "1.0.0.0"},
    {"RFC 1918", "10.0.0.0", "10.255.255.255", "9.255.255.255", "11.0.0.0"},
    {"RFC 6598", "100.64.0.0", "100.127.255.255", "100.63.255.255", "100.128.0.0"},
    {"loopback", "127.0.0.0", "127.255.255.255", "126.255.255.255", "128.0.0.0"},
    {"RFC 3927", "169.254.0.0", "169.254.255.255", "169.253.255.255", "169.255.0.0"},
    {"RFC 1918", "172.16.0.0", "172.31.255.255", "172.15.255.255", "172.32.0.0"},
    {"RFC 6890", "192.0.0.0", "192.0.0.255", "191.255.255.255", "192.0.1.0"},
    {"RFC 5737", "192.0.2.0", "192.0.2.255", "192.0.1.255", "192.0.3.0"},
    {"RFC 7526", "192.88.99.0", "192.88.99.255", "192.88.98.255", "192.88.100.0"},
    {"RFC 1918", "192.168.0.0", "192.168.255.255", "192.167.255.255", "192.169.0.0"},
    {"RFC 2544", "198.18.0.0", "198.19.255.255", "198.17.255.255", "198.20.0.0"},
    {"RFC 5737", "198.51.100.0", "198.51.100.255", "198.51.99.255", "198.51.101.0"},
    {"RFC 5737", "203.0.113.0", "203.0.113.255", "203.0.112.255", "203.0.114.0"},
    {"RFC 5771", "224.0.0.0", "239.255.255.255", "223.255.255.255", NULL},
    {"RFC 1112", "240.0.0.0", "255.255.255.254", NULL, NULL},
    {"broadcast", "255.255.255.255", "255.255.255.255", NULL, NULL},
    {"unspecified", "::", "::", NULL, NULL},
    {"loopback", "::1", "::1", NULL, NULL},
    {"IPv4-compatible", "::2", "::ffff:ffff", NULL, NULL},
    {"IPv4-compatible", "::8.8.8.8", "::127.0.0.1", NULL, NULL},
    {"RFC 4291", "::1:0:0", "::fffe:ffff:ffff", NULL, NULL},
    {"RFC 2765", "::ffff:0:0:0", "::ffff:0:ffff:ffff", NULL, NULL},
    {"RFC 8215", "64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", NULL, NULL},
    {"RFC 6666", "100::", "100::ffff:ffff:ffff:ffff", NULL, NULL},
    {"RFC 4291", "100:0:0:1::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL, "2000::"},
    {"RFC 2928", "2001:1::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff",
     "2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:200::"},
    {"RFC 3849", "2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
     "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db9::"},
    {"RFC 9637", "3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff",
     "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:1000::"},
    {"RFC 4291", "4000::", "5eff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
     "3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL},
    {"RFC 9602", "5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL, NULL},
    {"RFC 4291", "5f01::", "7fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL, NULL},
    {"RFC 4291", "8000::", "fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL, NULL},
    {"RFC 4193", "fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL, NULL},
    {"RFC 4291", "fe00::", "fe7f:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL, NULL},
    {"link-local", "fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL, NULL},
    {"RFC 3879", "fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL, NULL},
    {"multicast", "ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL, NULL},
};

static void every_range_is_refused_from_its_first_address_to_its_last(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_refused(cases[i].first, cases[i].what);
        assert_refused(cases[i].last, cases[i].what);
    }
}

static void the_neighbours_of_a_range_are_public(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (cases[i].before != NULL)
            assert_public(cases[i].before);
        if (cases[i].after != NULL)
            assert_public(cases[i].after);
    }
}

static void an_address_that_carries_others_is_judged_by_them(void **state)
{
    (void)state;
    assert_public("::ffff:8.8.8.8");
    assert_refused("::ffff:127.0.0.1", "loopback");
    assert_public("64:ff9b::8.8.8.8");
    assert_refused("64:ff9b::169.254.169.254", "RFC 3927");
    assert_refused("64:ff9b::1:808:808", "RFC 4291"); /* not of the /96 */
    assert_public("2002:808:808::1");
    assert_refused("2002:a00:1::1", "RFC 1918");
    assert_refused("2002:7f00:1::", "loopback");
    assert_public("2003::");
    /* Teredo: the server as it is, the client with its bits turned. */
    assert_public("2001:0:808:808::f7f7:f7f7");
    assert_refused("2001:0:7f00:1::f7f7:f7f7", "loopback");
    assert_refused("2001:0:808:808::f5ff:fffe", "RFC 1918");
    assert_refused("2001::", "RFC 1122");
}

static void what_is_allowed_is_the_address_itself_and_none_that_it_carries(void **state)
{
    (void)state;
    assert_null(refusal("10.1.2.3", "10.0.0.0/8"));
    assert_null(refusal("::ffff:10.1.2.3", "10.0.0.0/8"));
    assert_null(refusal("10.1.2.3", "::ffff:10.0.0.0/104"));
    assert_null(refusal("fd00::1", "fd00::/8"));
    assert_non_null(refusal("172.16.0.1", "10.0.0.0/8"));
    assert_non_null(refusal("64:ff9b::10.1.2.3", "10.0.0.0/8"));
    assert_non_null(refusal("2002:a01:203::", "10.0.0.0/8"));
    assert_non_null(refusal("2001:0:a01:203::f7f7:f7f7", "10.0.0.0/8"));
    assert_non_null(refusal("::10.1.2.3", "10.0.0.0/8"));
    assert_null(refusal("64:ff9b::10.1.2.3", "64:ff9b::/96"));
}

static void this_machine_is_refused_at_its_public_addresses_too(void **state)
{
    const struct network_address own[] = {address_of("8.8.4.4"), address_of("2600::1")};
    struct public_address_rules rules = {.own = own, .n_own = 2};
    static const char *const refused[] = {"8.8.4.4", "::ffff:8.8.4.4", "2600::1",
                                          "64:ff9b::8.8.4.4", "2002:808:404::1"};
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct network_address address = address_of(refused[i]);
        assert_string_equal(public_address_refusal(&rules, &address), "an address of this machine");
    }
    struct network_address other = address_of("8.8.4.5");
    assert_null(public_address_refusal(&rules, &other));
    rules.allow.n = 1;
    assert_true(network_read(SLICE("8.8.4.4"), &rules.allow.at[0]));
    assert_null(public_address_refusal(&rules, &own[0]));
}

/* ---- URLs ---- */

static const char *url_refusal(const char *text, bool allow_http)
{
    struct url url;
    const char *problem;
    if (!url_read(slice_of(text), &url, &problem))
        fail_msg("%s %s", text, problem);
    return public_address_url_refusal(&url, allow_http);
}

static void only_https_without_credentials_is_asked(void **state)
{
    (void)state;
    assert_null(url_refusal("https://hooks.example.com/pawl?a=1", false));
    assert_string_equal(url_refusal("http://hooks.example.com/", false), "is not https");
    assert_null(url_refusal("http://hooks.example.com/", true));
    assert_string_equal(url_refusal("https://u:p@hooks.example.com/", true), "has credentials");
    assert_string_equal(url_refusal("https://@hooks.example.com/", true), "has credentials");
    assert_string_equal(url_refusal("https://8.8.8.8@127.0.0.1/", true), "has credentials");
}

static void a_host_that_resolvers_read_in_several_ways_is_refused(void **state)
{
    static const char *const odd[] = {
        "0177.0.0.1", "0x7f.0.0.1",     "0x7f000001",  "2130706433", "127.1",        "127.0.1",
        "127.0.0.1.", "127.0.0.01",     "0x7f.1",      "1.2.3.4.5",  "0x",           "foo.0X7F",
        "256.0.0.1",  "00000177.0.0.1", "127.0.0.0x1", "0",          "10.0.0.0.0x.", "example.123",
    };
    static const char *const plain[] = {
        "127.0.0.1", "8.8.8.8", "1.example.com", "example.com.", "0x7f.example", "a.0xg", "3com",
    };
    char text[64];
    (void)state;
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        snprintf(text, sizeof text, "https://%s/", odd[i]);
        const char *why = url_refusal(text, true);
        if (why == NULL || strstr(why, "four decimal numbers") == NULL)
            fail_msg("%s: %s", odd[i], why == NULL ? "nothing wrong" : why);
    }
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        snprintf(text, sizeof text, "https://%s/", plain[i]);
        assert_null(url_refusal(text, false));
    }
}

static void an_ipv6_address_names_no_interface(void **state)
{
    (void)state;
    assert_null(url_refusal("https://[2600::1]/", false));
    assert_null(url_refusal("https://[::ffff:127.0.0.1]/", false)); /* judged as an address */
    assert_string_equal(url_refusal("https://[fe80::1%eth0]/", true),
                        "names an interface of this machine");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_range_is_refused_from_its_first_address_to_its_last),
        cmocka_unit_test(the_neighbours_of_a_range_are_public),
        cmocka_unit_test(an_address_that_carries_others_is_judged_by_them),
        cmocka_unit_test(what_is_allowed_is_the_address_itself_and_none_that_it_carries),
        cmocka_unit_test(this_machine_is_refused_at_its_public_addresses_too),
        cmocka_unit_test(only_https_without_credentials_is_asked),
        cmocka_unit_test(a_host_that_resolvers_read_in_several_ways_is_refused),
        cmocka_unit_test(an_ipv6_address_names_no_interface),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
