/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"
#include "http/peers.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct peer peer_named(const char *text)
{
    struct sockaddr_storage address = {0};
    struct sockaddr_in *in4 = (struct sockaddr_in *)&address;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&address;
    bool v6 = strchr(text, ':') != NULL;
    address.ss_family = v6 ? AF_INET6 : AF_INET;
    assert_int_equal(inet_pton(v6 ? AF_INET6 : AF_INET, text,
                               v6 ? (void *)&in6->sin6_addr : (void *)&in4->sin_addr),
                     1);
    return peer_of(&address);
}

static void an_address_has_its_limit_and_gets_a_place_back(void **state)
{
    struct peers *peers = peers_new(1);
    struct peer one = peer_named("10.0.0.1"), other = peer_named("10.0.0.2");
    (void)state;
    assert_non_null(peers);
    assert_true(peers_enter(peers, one, 2));
    assert_true(peers_enter(peers, one, 2));
    assert_false(peers_enter(peers, one, 2));
    assert_true(peers_enter(peers, other, 2));
    assert_true(peers_enter(peers, one, 3));
    assert_false(peers_enter(peers, peer_named("10.0.0.3"), 0));
    peers_leave(peers, one);
    peers_leave(peers, one);
    assert_true(peers_enter(peers, one, 2));
    assert_false(peers_enter(peers, one, 2));
    peers_leave(peers, one);
    peers_leave(peers, one);
    peers_leave(peers, other);
    peers_free(peers);
}

static void who_counts_as_one(void **state)
{
    static const struct {
        const char *a, *b;
        bool same;
    } cases[] = {
        {"10.0.0.1", "10.0.0.1", true},
        {"10.0.0.1", "10.0.1.1", false},
        {"10.0.0.1", "::ffff:10.0.0.1", true},
        {"::ffff:10.0.0.1", "::ffff:10.0.0.2", false},
        {"2001:db8:1:2::1", "2001:db8:1:2:ffff::2", true},
        {"2001:db8:1:2::1", "2001:db8:1:3::1", false},
        {"0.0.0.1", "0:0:0:1::", false},
        {"0.0.0.0", "::", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct peers *peers = peers_new(1000);
        assert_non_null(peers);
        struct peer a = peer_named(cases[i].a), b = peer_named(cases[i].b);
        assert_true(peers_enter(peers, a, 1));
        assert_int_equal(peers_enter(peers, b, 1), !cases[i].same);
        peers_leave(peers, a);
        if (!cases[i].same)
            peers_leave(peers, b);
        peers_free(peers);
    }
}

static void many_addresses_in_few_lists_are_kept_apart(void **state)
{
    struct peers *peers = peers_new(1);
    (void)state;
    assert_non_null(peers);
    for (uint64_t round = 1; round <= 3; round++)
        for (uint64_t i = 0; i < 5000; i++)
            assert_true(peers_enter(peers, (struct peer){i, false}, round));
    for (uint64_t round = 0; round < 3; round++)
        for (uint64_t i = 5000; i-- > 0;)
            peers_leave(peers, (struct peer){i, false});
    peers_free(peers); /* checks that nobody is left */
}

static void come_and_go(void *argument)
{
    for (uint64_t i = 0; i < 20000; i++) {
        struct peer peer = {i % 7, true};
        if (peers_enter(argument, peer, 3))
            peers_leave(argument, peer);
    }
}

static void threads_count_together(void **state)
{
    struct peers *peers = peers_new(1);
    struct thread threads[4];
    (void)state;
    assert_non_null(peers);
    for (size_t i = 0; i < 4; i++)
        assert_true(thread_start(&threads[i], "peers", come_and_go, peers));
    for (size_t i = 0; i < 4; i++)
        thread_join(&threads[i]);
    peers_free(peers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_has_its_limit_and_gets_a_place_back),
        cmocka_unit_test(who_counts_as_one),
        cmocka_unit_test(many_addresses_in_few_lists_are_kept_apart),
        cmocka_unit_test(threads_count_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
