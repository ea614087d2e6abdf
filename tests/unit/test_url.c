/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/url.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void a_url_is_read_and_written(void **state)
{
    static const struct {
        const char *text;
        const char *origin; /* NULL: it is none */
        const char *target;
    } cases[] = {
        {"http://a", "http://a", "/"},
        {"HTTP://A.Example:80/X?q", "http://a.example", "/X?q"},
        {"https://a:443/", "https://a", "/"},
        {"https://a:80/", "https://a:80", "/"},
        {"http://a?", "http://a", "/?"},
        {"http://a?b/c?d@e:f", "http://a", "/?b/c?d@e:f"},
        {"http://user:pa%3Ass@a:8080/b@c", "http://a:8080", "/b@c"},
        {"http://[2001:DB8::1]:9/%zz", "http://[2001:db8::1]:9", "/%zz"},
        {"http://[::1]", "http://[::1]", "/"},
        {"http://[fe80::1%eth0]/", "http://[fe80::1%eth0]", "/"},
        {"http://[fe80::1eth0]/", NULL, NULL},
        {"http://[1:2]/", NULL, NULL},
        {"http://[a.example]/", NULL, NULL},
        {"", NULL, NULL},
        {"a", NULL, NULL},
        {"//a", NULL, NULL},
        {"http:/a", NULL, NULL},
        {"http:a", NULL, NULL},
        {"ftp://a/", NULL, NULL},
        {"unix:/a", NULL, NULL},
        {"http://", NULL, NULL},
        {"http:///x", NULL, NULL},
        {"http://:80/", NULL, NULL},
        {"http://a:/", NULL, NULL},
        {"http://a:0/", NULL, NULL},
        {"http://a:65536/", NULL, NULL},
        {"http://a:+1/", NULL, NULL},
        {"http://a/#b", NULL, NULL},
        {"http://a/b c", NULL, NULL},
        {"http://a/\xc3\xa4", NULL, NULL},
        {"http://a\\@b/", NULL, NULL},
        {"http://a@b@c/", NULL, NULL},
        {"http://.a/", NULL, NULL},
        {"http://a%2eb/", NULL, NULL},
        {"http://[::1", NULL, NULL},
        {"http://[::1]a/", NULL, NULL},
        {"http://::1/", NULL, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        BUF_AUTO struct buf origin = buf_make(100), target = buf_make(100);
        struct url url;
        const char *problem;
        bool is_one = url_read(slice_of(cases[i].text), &url, &problem);
        assert_int_equal(is_one, cases[i].origin != NULL);
        assert_int_equal(problem == NULL, is_one);
        if (!is_one)
            continue;
        url_write_origin(&origin, &url);
        url_write_target(&target, &url);
        assert_true(slice_eq(buf_slice(&origin), slice_of(cases[i].origin)));
        assert_true(slice_eq(buf_slice(&target), slice_of(cases[i].target)));
    }
}

static void the_userinfo_is_given_as_it_was_written(void **state)
{
    struct url url;
    const char *problem;
    (void)state;
    assert_true(url_read(SLICE("http://user:pa%3Ass@a/"), &url, &problem));
    assert_true(slice_eq(url.userinfo, SLICE("user:pa%3Ass")));
    assert_true(url_read(SLICE("http://@a/"), &url, &problem));
    assert_true(url.userinfo.at && url.userinfo.len == 0);
    assert_true(url_read(SLICE("http://a/b@c"), &url, &problem));
    assert_null(url.userinfo.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_url_is_read_and_written),
        cmocka_unit_test(the_userinfo_is_given_as_it_was_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
