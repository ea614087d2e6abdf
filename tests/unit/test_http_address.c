/* SPDX-License-Identifier: Apache-2.0 */
#include "http/address.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void a_host_is_read_and_written_and_known_for_loopback(void **state)
{
    static const struct {
        const char *text;
        const char *shown; /* NULL: it is none */
        bool loopback;
    } cases[] = {
        {"127.0.0.1", "127.0.0.1:80", true},
        {"127.9.9.9", "127.9.9.9:80", true},
        {"128.0.0.1", "128.0.0.1:80", false},
        {"0.0.0.0", "0.0.0.0:80", false},
        {"localhost", "127.0.0.1:80", true},
        {"LocalHost", "127.0.0.1:80", true},
        {"[::1]", "[::1]:80", true},
        {"[::2]", "[::2]:80", false},
        {"[::]", "[::]:80", false},
        {"[::ffff:127.0.0.1]", "[::ffff:127.0.0.1]:80", true},
        {"[::ffff:10.0.0.1]", "[::ffff:10.0.0.1]:80", false},
        {"", NULL, false},
        {"[]", NULL, false},
        {"::1", NULL, false},
        {"[127.0.0.1]", NULL, false},
        {"[localhost]", NULL, false},
        {"localhost.", NULL, false},
        {"127.1", NULL, false},
        {"0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000", NULL, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sockaddr_storage address;
        BUF_AUTO struct buf shown = buf_make(100);
        bool is_one = address_read_host(slice_of(cases[i].text), &address);
        assert_int_equal(is_one, cases[i].shown != NULL);
        if (!is_one)
            continue;
        ((struct sockaddr_in *)&address)->sin_port = htons(80);
        address_write(&shown, &address);
        assert_true(slice_eq(buf_slice(&shown), slice_of(cases[i].shown)));
        assert_int_equal(address_is_loopback(&address), cases[i].loopback);
    }
}

static void another_family_is_unknown_and_not_loopback(void **state)
{
    struct sockaddr_storage address = {.ss_family = AF_UNIX};
    char text[ADDRESS_HOST_SIZE];
    (void)state;
    address_write_host(text, &address);
    assert_string_equal(text, "unknown");
    assert_false(address_is_loopback(&address));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_is_read_and_written_and_known_for_loopback),
        cmocka_unit_test(another_family_is_unknown_and_not_loopback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
