/* SPDX-License-Identifier: Apache-2.0 */
#include "core/web/networks.h"
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static bool holds(const char *block, const char *address)
{
    struct networks networks = {.n = 1};
    struct network host;
    assert_true(network_read(slice_of(block), &networks.at[0]));
    assert_true(network_read(slice_of(address), &host));
    return networks_hold(&networks, &host.address);
}

static void a_block_holds_its_addresses_and_no_other(void **state)
{
    (void)state;
    assert_true(holds("127.0.0.0/8", "127.255.0.1"));
    assert_false(holds("127.0.0.0/8", "128.0.0.1"));
    assert_true(holds("10.1.2.128/25", "10.1.2.255"));
    assert_false(holds("10.1.2.128/25", "10.1.2.127"));
    assert_true(holds("10.1.2.3", "10.1.2.3"));
    assert_false(holds("10.1.2.3", "10.1.2.2"));
    assert_true(holds("0.0.0.0/0", "192.0.2.1"));
    assert_true(holds("fd00::/8", "fdff::1"));
    assert_false(holds("fd00::/8", "fe00::1"));
    assert_true(holds("::1/128", "::1"));
    assert_false(holds("::1", "::2"));
}

static void an_ipv4_address_is_met_in_its_ipv6_form_and_by_no_ipv6_block(void **state)
{
    (void)state;
    assert_true(holds("127.0.0.0/8", "::ffff:127.0.0.1"));
    assert_false(holds("127.0.0.0/8", "::127.0.0.1"));
    assert_false(holds("0.0.0.0/0", "2001:db8::1"));
    assert_false(holds("2000::/3", "32.0.0.1"));
}

static void no_block_holds_nothing(void **state)
{
    struct networks none = {0};
    struct network host;
    (void)state;
    assert_true(network_read(SLICE("127.0.0.1"), &host));
    assert_false(networks_hold(&none, &host.address));
}

static void what_is_no_address_is_not_read(void **state)
{
    static const char *const texts[] = {
        "",
        "/8",
        "10.0.0.0/",
        "10.0.0.0/33",
        "10.0.0.0/8/8",
        "10.0.0",
        "::1/129",
        "localhost",
        "10.0.0.0/-1",
        "10.0.0.0 /8",
        "1111:2222:3333:4444:5555:6666:255.255.255.255:7777",
    };
    struct network network;
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_false(network_read(slice_of(texts[i]), &network));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_holds_its_addresses_and_no_other),
        cmocka_unit_test(an_ipv4_address_is_met_in_its_ipv6_form_and_by_no_ipv6_block),
        cmocka_unit_test(no_block_holds_nothing),
        cmocka_unit_test(what_is_no_address_is_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
