/* SPDX-License-Identifier: Apache-2.0 */
/* The canonical forms of application/x-www-form-urlencoded and multipart/form-data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "payload_reading.h"

/* ---- forms ---- */

static void expect_form(struct slice body, struct slice canonical)
{
    expect(body, FORM_TYPE, &everything, canonical);
}

static void forms_count_by_their_decoded_pairs_in_order(void **state)
{
    (void)state;
    expect_form(SLICE("a=%41%20b&c=d"), SLICE("a=A+b&c=d"));
    assert_true(same(SLICE("n=a+b%2a%7E"), SLICE("%6e=a%20b*~"), FORM_TYPE, &everything));
    expect_form(SLICE("n=a+b*~"), SLICE("n=a+b*%7E"));
    assert_false(same(SLICE("a=1&b=2"), SLICE("b=2&a=1"), FORM_TYPE, &everything));
    expect_form(SLICE("\xC3\xA9=%c3%A9"), SLICE("%C3%A9=%C3%A9"));
    expect_form(SLICE("&&a=1&&"), SLICE("a=1"));
    expect_form(SLICE("a=1\r\n"), SLICE("a=1%0D%0A"));
    expect_form(SLICE(""), SLICE(""));
}

static void form_names_and_values_never_run_together(void **state)
{
    static const char *const bodies[] = {
        "a=b&c=d", "a=b%26c=d", "a=b&c%3Dd", "a%3Db&c=d", "a==b&c=d", "a&b=c",  "a=&b=c",
        "ab=c",    "a=bc",      "=abc",      "a=1&a=2",   "a=12&a",   "a=1%0A", "a=1%0D%0A",
        "a=1",     "a=%00",     "a=%C3%A9",  "a=e%CC%81", "a=%2525",  "a=%25",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        for (size_t j = 0; j < i; j++)
            assert_false(same(slice_of(bodies[i]), slice_of(bodies[j]), FORM_TYPE, &everything));
    }
}

static void a_form_with_a_broken_escape_counts_raw(void **state)
{
    static const char *const bodies[] = {"a=%", "a=%4", "a=%zz", "%%31=1", "a=%4&b=1"};
    (void)state;
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        READING_AUTO struct reading reading;
        read_body(&reading, slice_of(bodies[i]), FORM_TYPE, &everything);
        assert_int_equal(reading.payload.kind, PAYLOAD_IS_RAW);
        assert_true(reading.payload.malformed_form);
        expect_bytes(buf_slice(&reading.canonical), slice_of(bodies[i]));
    }
}

static void the_first_field_of_a_name_is_found_decoded(void **state)
{
    READING_AUTO struct reading reading;
    (void)state;
    read_body(&reading, SLICE("x=1&a%2Bb=c+d%21&a%2Bb=2&bare&e="), FORM_TYPE, &everything);
    const struct payload *form = &reading.payload;
    expect_bytes(payload_form_value(form, &reading.arena, SLICE("a+b")), SLICE("c d!"));
    expect_bytes(payload_form_value(form, &reading.arena, SLICE("x")), SLICE("1"));
    assert_non_null(payload_form_value(form, &reading.arena, SLICE("bare")).at);
    assert_non_null(payload_form_value(form, &reading.arena, SLICE("e")).at);
    assert_null(payload_form_value(form, &reading.arena, SLICE("a")).at);
    assert_null(payload_form_value(form, &reading.arena, SLICE("bar")).at);
}

/* ---- multipart/form-data ---- */

#define PART_A "Content-Disposition: form-data; name=\"a\"\r\n\r\n1"
#define PART_F                                                                                     \
    "Content-Disposition: form-data; name=\"f\"; filename=\"x\"\r\nX: y\r\n\r\n\r\n--\r\n"
#define MAGIC "pawl1 multipart\n"

static bool same_multipart(const char *body, const char *boundary)
{
    char type[200];
    READING_AUTO struct reading one;
    READING_AUTO struct reading other;
    snprintf(type, sizeof(type), "multipart/form-data; boundary=%s", boundary);
    read_body(&one, SLICE("--b\r\n" PART_A "\r\n--b\r\n" PART_F "\r\n--b--\r\n"), MULTIPART_TYPE,
              &everything);
    read_body(&other, slice_of(body), slice_of(type), &everything);
    assert_int_equal(one.payload.kind, PAYLOAD_IS_MULTIPART);
    return digest_eq(&one.hash, &other.hash);
}

static void the_boundary_does_not_count(void **state)
{
    (void)state;
    assert_true(same_multipart("--XyZ\r\n" PART_A "\r\n--XyZ\r\n" PART_F "\r\n--XyZ--\r\n", "XyZ"));
    assert_true(same_multipart("--X y\r\n" PART_A "\r\n--X y\r\n" PART_F "\r\n--X y--", "\"X y\""));
    assert_false(same_multipart("--b\r\n" PART_F "\r\n--b\r\n" PART_A "\r\n--b--\r\n", "b"));
    assert_false(same_multipart("--b\r\n" PART_A "\r\n--b\r\n" PART_F " \r\n--b--\r\n", "b"));
    assert_false(same_multipart("--b\r\n" PART_A "\r\n--b--\r\n", "b"));
}

static void the_parts_stand_after_their_lengths(void **state)
{
    (void)state;
    expect(SLICE("--b\r\n\r\nxy\r\n--b\r\nA: b\r\n\r\n\r\n--b--\r\n"), MULTIPART_TYPE, &everything,
           SLICE(MAGIC "parts\n\0\0\0\0\0\0\0\4\r\nxy\0\0\0\0\0\0\0\10A: b\r\n\r\n"));
    expect(SLICE("--b--\r\n"), MULTIPART_TYPE, &everything, SLICE(MAGIC "parts\n"));
}

static void malformed_multipart_counts_raw(void **state)
{
    static const char *const bodies[] = {
        "",
        "--b",
        "--b-",
        "--b\r\n",
        "--b\r\n\r\n--b--",
        "--b\r\nA: b\r\n\r\n--b--",
        "--b--\r\n\r\n",
        "\r\n--b--",
        "preamble\r\n--b\r\n\r\n1\r\n--b--",
        "--b\r\n\r\n1\r\n--b--\r\nepilogue",
        "--b \r\n\r\n1\r\n--b--",
        "--b\r\n\r\n1\r\n--b",
        "--b\r\n\r\n1\r\n--bc\r\n--b--",
        "--b\n\n1\n--b--",
        "--b\r\n\r\n1--b--",
        "--c\r\n\r\n1\r\n--c--",
        "--b\r\n\r\n1\r\n--b--x\r\n--b--",
        "--b\r\n--b\r\n\r\n1\r\n--b--",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        READING_AUTO struct reading reading;
        read_body(&reading, slice_of(bodies[i]), MULTIPART_TYPE, &everything);
        assert_int_equal(reading.payload.kind, PAYLOAD_IS_RAW);
        assert_true(reading.payload.malformed_multipart);
        expect_bytes(buf_slice(&reading.canonical), slice_of(bodies[i]));
    }
}

static void a_malformed_body_cannot_pass_for_parts(void **state)
{
    struct slice forged = SLICE(MAGIC "parts\n\0\0\0\0\0\0\0\3\r\n1");
    (void)state;
    expect(SLICE("--b\r\n\r\n1\r\n--b--"), MULTIPART_TYPE, &everything, forged);
    expect(forged, MULTIPART_TYPE, &everything,
           SLICE(MAGIC "raw\n" MAGIC "parts\n"
                       "\0\0\0\0\0\0\0\3\r\n1"));
}

static void only_one_sound_boundary_is_taken(void **state)
{
    static const struct {
        const char *parameters;
        enum payload_kind kind;
    } cases[] = {
        {"boundary=b", PAYLOAD_IS_MULTIPART},
        {" charset=utf-8 ; BOUNDARY=\"b\" ;", PAYLOAD_IS_MULTIPART},
        {"x=\"a;\\\"boundary=c\";boundary=b", PAYLOAD_IS_MULTIPART},
        {"", PAYLOAD_IS_RAW},
        {"boundary", PAYLOAD_IS_RAW},
        {"boundary=", PAYLOAD_IS_RAW},
        {"boundary=\"\"", PAYLOAD_IS_RAW},
        {"boundary=\"b", PAYLOAD_IS_RAW},
        {"boundary=\"b\"c", PAYLOAD_IS_RAW},
        {"boundary=\"b \"", PAYLOAD_IS_RAW},
        {"boundary=b c", PAYLOAD_IS_RAW},
        {"boundary=\"\\b\"", PAYLOAD_IS_RAW},
        {"boundary=b;boundary=b", PAYLOAD_IS_RAW},
        {"boundary=b;boundary*=c", PAYLOAD_IS_RAW},
        {"boundary=b;boundary*0=c", PAYLOAD_IS_RAW},
        {"x=\"\\\"", PAYLOAD_IS_RAW},
        {"boundary=bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
         PAYLOAD_IS_RAW},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char type[200];
        READING_AUTO struct reading reading;
        snprintf(type, sizeof(type), "multipart/form-data;%s", cases[i].parameters);
        read_body(&reading, SLICE("--b--"), slice_of(type), &everything);
        assert_int_equal(reading.payload.kind, cases[i].kind);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_count_by_their_decoded_pairs_in_order),
        cmocka_unit_test(form_names_and_values_never_run_together),
        cmocka_unit_test(a_form_with_a_broken_escape_counts_raw),
        cmocka_unit_test(the_first_field_of_a_name_is_found_decoded),
        cmocka_unit_test(the_boundary_does_not_count),
        cmocka_unit_test(the_parts_stand_after_their_lengths),
        cmocka_unit_test(malformed_multipart_counts_raw),
        cmocka_unit_test(a_malformed_body_cannot_pass_for_parts),
        cmocka_unit_test(only_one_sound_boundary_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
