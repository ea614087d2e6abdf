/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

#include <cmocka.h>

#include "payload_reading.h"

/* ---- JSON ---- */

static void the_structures_of_rfc_8785_get_its_form(void **state)
{
    (void)state;
    /* 3.2.2, save that the first number keeps its digits; and the sorting of 3.2.3. */
    expect_json(
        SLICE("{\n  \"numbers\": [333333333.33333329, 1E30, 4.50,\n"
              "              2e-3, 0.000000000000000000000000001],\n"
              "  \"string\": \"\\u20ac$\\u000F\\u000aA'\\u0042\\u0022\\u005c\\\\\\\"\\/\",\n"
              "  \"literals\": [null, true, false]\n}"),
        SLICE("{\"literals\":[null,true,false],"
              "\"numbers\":[333333333.33333329,1e+30,4.5,0.002,1e-27],"
              "\"string\":\"\xE2\x82\xAC$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}"));
    expect_json(
        SLICE("{\"\\u20ac\":\"Euro Sign\",\"\\r\":\"Carriage Return\","
              "\"\\ufb33\":\"Hebrew Letter Dalet With Dagesh\",\"1\":\"One\","
              "\"\\ud83d\\ude00\":\"Emoji: Grinning Face\",\"\\u0080\":\"Control\","
              "\"\\u00f6\":\"Latin Small Letter O With Diaeresis\"}"),
        SLICE("{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\xC2\x80\":\"Control\","
              "\"\xC3\xB6\":\"Latin Small Letter O With Diaeresis\","
              "\"\xE2\x82\xAC\":\"Euro Sign\",\"\xF0\x9F\x98\x80\":\"Emoji: Grinning Face\","
              "\"\xEF\xAC\xB3\":\"Hebrew Letter Dalet With Dagesh\"}"));
}

static void the_hash_is_plain_sha256_that_any_client_can_compute(void **state)
{
    READING_AUTO struct reading json;
    READING_AUTO struct reading raw;
    char hex[DIGEST_HEX_SIZE + 1];
    (void)state;
    read_body(&json, SLICE(" { \"a\" : 1.0 } "), JSON_TYPE, &everything);
    hex_encode(json.hash.bytes, DIGEST_SIZE, hex);
    /* printf '{"a":1}' | sha256sum */
    assert_string_equal(hex, "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862");
    read_body(&raw, SLICE("abc"), SLICE("text/plain"), &everything);
    hex_encode(raw.hash.bytes, DIGEST_SIZE, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

static void order_space_escapes_and_number_spelling_do_not_count(void **state)
{
    (void)state;
    assert_true(same(SLICE("{\"a\":1,\"b\":[1,2]}"),
                     SLICE("{ \"b\" : [1.0,20e-1],\n\"\\u0061\":1e0 }"), JSON_TYPE, &everything));
    expect_json(SLICE("{\"z\":{\"y\":{\"b\":1,\"a\":[]},\"x\":{}},\"c\":[{\"b\":0,\"a\":-0}]}"),
                SLICE("{\"c\":[{\"a\":0,\"b\":0}],\"z\":{\"x\":{},\"y\":{\"a\":[],\"b\":1}}}"));
}

static void what_means_something_else_hashes_otherwise(void **state)
{
    static const char *const bodies[] = {
        "{\"a\":1}",
        "{\"a\":\"1\"}",
        "{\"a\":true}",
        "{\"a\":null}",
        "{}",
        "{\"a\":[1]}",
        "{\"a\":9007199254740993}",
        "{\"a\":9007199254740992}",
        "{\"a\":0.1}",
        "{\"A\":1}",
        "{\"a\":\"\xC3\xA9\"}",
        "{\"a\":\"e\xCC\x81\"}", /* NFC, NFD */
        "[1,2]",
        "[2,1]",
        "[12]",
        "[[1],2]",
        "[1,[2]]",
        "\"\"",
        "null",
        "",
        "{\"a\":\"\\r\\n\"}",
        "{\"a\":\"\\n\"}",
        "{\"a\":{}}",
        "{\"a\":[]}",
    };
    size_t n = sizeof(bodies) / sizeof(bodies[0]);
    (void)state;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < i; j++)
            assert_false(same(slice_of(bodies[i]), slice_of(bodies[j]), JSON_TYPE, &everything));
    }
}

static void json_that_cannot_be_compared_counts_raw(void **state)
{
    static const struct {
        const char *body;
        enum json_error problem;
    } cases[] = {{"{\"a\":1,\"a\":1}", JSON_DUPLICATE},
                 {"{ \"a\":1", JSON_SYNTAX},
                 {"[\"\\ud800\"]", JSON_SURROGATE},
                 {"[\"\xFF\"]", JSON_UTF8},
                 {" 1e10000", JSON_RANGE},
                 {" 1 1", JSON_TRAILING}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        READING_AUTO struct reading reading;
        read_body(&reading, slice_of(cases[i].body), JSON_TYPE, &everything);
        assert_int_equal(reading.payload.kind, PAYLOAD_IS_RAW);
        assert_int_equal(reading.payload.problem, cases[i].problem);
        assert_null(reading.payload.json);
        expect_bytes(buf_slice(&reading.canonical), slice_of(cases[i].body));
    }
}

static void nesting_of_200_is_canonical_and_of_201_is_raw(void **state)
{
    (void)state;
    for (size_t depth = 200; depth <= 201; depth++) {
        BUF_AUTO struct buf body = buf_make(ROOM);
        READING_AUTO struct reading reading;
        for (size_t i = 0; i < depth; i++)
            buf_add_str(&body, i % 2 ? "[ " : "{\"a\": ");
        buf_add_str(&body, "1");
        for (size_t i = depth; i > 0; i--)
            buf_add_str(&body, (i - 1) % 2 ? "]" : "}");
        read_body(&reading, buf_slice(&body), JSON_TYPE, &everything);
        assert_int_equal(reading.payload.kind, depth == 200 ? PAYLOAD_IS_JSON : PAYLOAD_IS_RAW);
        assert_int_equal(reading.canonical.len, depth == 200 ? 801 : body.len);
    }
}

static void a_long_body_hashes_as_its_canonical_bytes(void **state)
{
    BUF_AUTO struct buf body = buf_make(ROOM);
    (void)state;
    for (size_t i = 20000; i > 0; i--)
        buf_printf(&body, "%s\"%zu\": [%zu.50, \"%0*d\"]", i == 20000 ? "{" : ",", i, i,
                   (int)(i % 5000 == 0 ? 6000 : 3), 0);
    buf_add_char(&body, '}');
    READING_AUTO struct reading reading;
    read_body(&reading, buf_slice(&body), JSON_TYPE, &everything);
    assert_int_equal(reading.payload.kind, PAYLOAD_IS_JSON);
    assert_true(slice_starts(buf_slice(&reading.canonical), SLICE("{\"1\":[1.5,\"000\"],\"10\":")));
}

static void json_types_are_told_by_name_and_suffix(void **state)
{
    static const struct {
        const char *type;
        enum payload_kind kind;
    } cases[] = {{"application/json", PAYLOAD_IS_JSON},
                 {"Application/JSON ; charset=utf-8", PAYLOAD_IS_JSON},
                 {"application/merge-patch+json", PAYLOAD_IS_JSON},
                 {"application/vnd.api+JSON;x=y", PAYLOAD_IS_JSON},
                 {"", PAYLOAD_IS_RAW},
                 {"text/plain", PAYLOAD_IS_RAW},
                 {"application/jsonp", PAYLOAD_IS_RAW},
                 {"application/json, text/plain", PAYLOAD_IS_RAW},
                 {"text/plain, application/a+json", PAYLOAD_IS_RAW},
                 {"application/x-www-form-urlencoded;charset=utf-8", PAYLOAD_IS_FORM},
                 {"+json", PAYLOAD_IS_RAW}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        READING_AUTO struct reading reading;
        read_body(&reading, SLICE("[1]"), slice_of(cases[i].type), &everything);
        assert_int_equal(reading.payload.kind, cases[i].kind);
    }
}

/* ---- selections ---- */

static const struct payload_selection some = {
    .mode = PAYLOAD_INCLUDE, .n_pointers = 2, .pointers = {{"/b", 2}, {"/a/0", 4}}};

static void include_takes_only_what_the_pointers_name(void **state)
{
    (void)state;
    expect(SLICE("{\"a\":[2.0,{\"y\":1}],\"b\":{\"d\":1,\"c\":2},\"z\":0}"), JSON_TYPE, &some,
           SLICE("[[\"/b\",{\"c\":2,\"d\":1}],[\"/a/0\",2]]"));
    assert_true(same(SLICE("{\"a\":[1,2],\"b\":3,\"t\":4}"), SLICE("{\"a\":[1],\"b\":3}"),
                     JSON_TYPE, &some));
}

static void include_tells_absent_from_null_and_values_from_each_other(void **state)
{
    static const char *const bodies[] = {
        "{}",
        "{\"a\":[null]}",
        "{\"b\":null}",
        "{\"b\":\"\"}",
        "{\"a\":[1],\"b\":2}",
        "{\"a\":[2],\"b\":1}",
        "{\"a\":[\"],[\"],\"b\":1}",
        "{\"b\":[\"/a/0\",1]}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        for (size_t j = 0; j < i; j++)
            assert_false(same(slice_of(bodies[i]), slice_of(bodies[j]), JSON_TYPE, &some));
    }
    expect(SLICE("{}"), JSON_TYPE, &some, SLICE("[[\"/b\"],[\"/a/0\"]]"));
}

static void exclude_takes_all_but_what_the_pointers_name(void **state)
{
    static const struct payload_selection but = {
        .mode = PAYLOAD_EXCLUDE,
        .n_pointers = 4,
        .pointers = {{"/meta/sent_at", 13}, {"/list/1", 7}, {"/gone", 5}, {"/a~1b", 5}}};
    (void)state;
    expect(SLICE("{\"meta\":{\"sent_at\":9,\"v\":1},\"list\":[0,1,2],\"a/b\":7,\"k\":{}}"),
           JSON_TYPE, &but, SLICE("{\"k\":{},\"list\":[0,2],\"meta\":{\"v\":1}}"));
    expect(SLICE("{\"meta\":{\"sent_at\":9},\"list\":[0]}"), JSON_TYPE, &but,
           SLICE("{\"list\":[0],\"meta\":{}}"));
    assert_false(same(SLICE("{\"meta\":{}}"), SLICE("{}"), JSON_TYPE, &but));
}

static void pointers_on_what_is_not_canonical_json_count_the_whole_body(void **state)
{
    struct payload_selection but = some;
    but.mode = PAYLOAD_EXCLUDE;
    (void)state;
    expect(SLICE("{\"b\":1,\"b\":2}"), JSON_TYPE, &some, SLICE("{\"b\":1,\"b\":2}"));
    expect(SLICE("{\"b\":1,\"b\":2}"), JSON_TYPE, &but, SLICE("{\"b\":1,\"b\":2}"));
    expect(SLICE("b=%31"), FORM_TYPE, &some, SLICE("b=%31"));
    expect(SLICE("--b--"), MULTIPART_TYPE, &but, SLICE("--b--"));
    expect(SLICE("{\"b\":1}"), SLICE("text/plain"), &some, SLICE("{\"b\":1}"));
}

static void raw_and_ignore_look_at_no_form(void **state)
{
    const struct payload_selection raw = {.mode = PAYLOAD_RAW};
    const struct payload_selection ignore = {.mode = PAYLOAD_IGNORE};
    (void)state;
    expect(SLICE("{ \"a\":1.0}"), JSON_TYPE, &raw, SLICE("{ \"a\":1.0}"));
    expect(SLICE("{ \"a\":1.0}"), JSON_TYPE, &ignore, SLICE(""));
    expect(SLICE("x"), SLICE(""), &ignore, SLICE(""));
}

static void whole_documents_can_be_included_and_excluded(void **state)
{
    const struct payload_selection all = {
        .mode = PAYLOAD_INCLUDE, .n_pointers = 1, .pointers = {{"", 0}}};
    struct payload_selection none = all;
    none.mode = PAYLOAD_EXCLUDE;
    (void)state;
    expect(SLICE(" [1.0]"), JSON_TYPE, &all, SLICE("[[\"\",[1]]]"));
    expect(SLICE("[1]"), JSON_TYPE, &none, SLICE(""));
}

/* ---- content codings ---- */

/* `window`: 31 gzip, 15 zlib, -15 raw deflate. */
static void compress_into(struct buf *buf, struct slice plain, int window)
{
    z_stream stream = {0};
    assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY), Z_OK);
    size_t bound = deflateBound(&stream, plain.len) + 64;
    char *room = buf_room(buf, bound);
    assert_non_null(room);
    BUF_AUTO struct buf copy = buf_make(ROOM);
    buf_add_slice(&copy, plain);
    stream.next_in = (unsigned char *)copy.at;
    stream.avail_in = (unsigned)copy.len;
    stream.next_out = (unsigned char *)room;
    stream.avail_out = (unsigned)bound;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    buf_added(buf, stream.total_out);
    deflateEnd(&stream);
}

static enum payload_error read_coded(struct reading *reading, struct slice body, const char *coding,
                                     size_t max)
{
    reading->arena = arena_make(ROOM);
    reading->canonical = buf_make(ROOM);
    return payload_read(&reading->arena,
                        &(struct payload_input){body, JSON_TYPE, slice_of(coding), max},
                        &reading->payload);
}

static void a_compressed_body_hashes_as_the_plain_one(void **state)
{
    static const struct {
        const char *coding;
        int window;
    } cases[] = {{"gzip", 31}, {" GZip ", 31}, {"x-gzip", 31}, {"deflate", 15}, {"deflate", -15}};
    READING_AUTO struct reading plain;
    (void)state;
    read_body(&plain, SLICE("{\"a\":1,\"b\":2}"), JSON_TYPE, &everything);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        BUF_AUTO struct buf body = buf_make(ROOM);
        READING_AUTO struct reading coded;
        compress_into(&body, SLICE("{\"b\":2.0,\"a\":1}"), cases[i].window);
        assert_int_equal(read_coded(&coded, buf_slice(&body), cases[i].coding, 1024), PAYLOAD_OK);
        assert_int_equal(coded.payload.kind, PAYLOAD_IS_JSON);
        assert_true(payload_hash(&coded.payload, &everything, &coded.hash));
        assert_true(digest_eq(&coded.hash, &plain.hash));
    }
}

static void a_gzip_bomb_ends_at_the_bound(void **state)
{
    BUF_AUTO struct buf zeros = buf_make(ROOM);
    BUF_AUTO struct buf bomb = buf_make(ROOM);
    READING_AUTO struct reading reading;
    (void)state;
    char *room = buf_room(&zeros, 16 << 20);
    assert_non_null(room);
    memset(room, ' ', 16 << 20);
    buf_added(&zeros, 16 << 20);
    compress_into(&bomb, buf_slice(&zeros), 31);
    assert_int_equal(read_coded(&reading, buf_slice(&bomb), "gzip", 1 << 20), PAYLOAD_TOO_LARGE);
    assert_true(reading.arena.used < 1 << 20);
}

static void a_broken_stream_and_an_unknown_coding_are_told_apart(void **state)
{
    BUF_AUTO struct buf body = buf_make(ROOM);
    READING_AUTO struct reading broken;
    READING_AUTO struct reading unknown;
    READING_AUTO struct reading two;
    READING_AUTO struct reading empty;
    (void)state;
    compress_into(&body, SLICE("{\"b\":2.0,\"a\":1}"), 31);
    buf_cut(&body, body.len - 1);
    assert_int_equal(read_coded(&broken, buf_slice(&body), "gzip", 1024), PAYLOAD_BAD_CODING);
    assert_int_equal(read_coded(&unknown, SLICE("[1]"), "br", 1024), PAYLOAD_OK);
    assert_true(unknown.payload.coding_unknown);
    assert_int_equal(unknown.payload.kind, PAYLOAD_IS_RAW);
    assert_int_equal(read_coded(&two, SLICE("[1]"), "gzip, gzip", 1024), PAYLOAD_OK);
    assert_true(two.payload.coding_unknown);
    assert_int_equal(read_coded(&empty, SLICE(""), "gzip", 1024), PAYLOAD_OK);
    assert_false(empty.payload.coding_unknown);
}

/* ---- recipes ---- */

static void expect_recipe(const struct payload_selection *selection, struct slice text)
{
    BUF_AUTO struct buf buf = buf_make(ROOM);
    ARENA_AUTO struct arena arena = arena_make(ROOM);
    struct payload_selection back;
    payload_recipe_write(selection, &buf);
    assert_true(buf_ok(&buf));
    expect_bytes(buf_slice(&buf), text);
    assert_true(payload_recipe_read(buf_slice(&buf), &arena, &back));
    assert_int_equal(back.mode, selection->mode);
    assert_int_equal(back.as_json, selection->as_json);
    assert_int_equal(back.version, selection->version == 1 ? 1 : 2);
    assert_true(payload_recipe_is_old(buf_slice(&buf)) == (selection->version == 1));
    assert_int_equal(back.n_pointers, selection->n_pointers);
    for (size_t i = 0; i < back.n_pointers; i++)
        expect_bytes(back.pointers[i], selection->pointers[i]);
}

static void recipes_come_back_as_they_were(void **state)
{
    const struct payload_selection raw = {.mode = PAYLOAD_RAW};
    const struct payload_selection ignore = {.mode = PAYLOAD_IGNORE};
    const struct payload_selection include = {
        .mode = PAYLOAD_INCLUDE, .n_pointers = 2, .pointers = {SLICE("/a"), SLICE("/b")}};
    const struct payload_selection json = {.mode = PAYLOAD_ALL, .as_json = true};
    const struct payload_selection old = {.mode = PAYLOAD_ALL, .version = 1};
    const struct payload_selection odd = {
        .mode = PAYLOAD_EXCLUDE,
        .n_pointers = 4,
        .pointers = {SLICE("/a b/%41"), SLICE(""), SLICE("/\n\0\x7f\xC3\xA9"), SLICE("")}};
    (void)state;
    expect_recipe(&everything, SLICE("2 all"));
    expect_recipe(&json, SLICE("2 json all"));
    expect_recipe(&old, SLICE("1 all"));
    expect_recipe(&raw, SLICE("2 raw"));
    expect_recipe(&ignore, SLICE("2 ignore"));
    expect_recipe(&include, SLICE("2 include /a /b"));
    expect_recipe(&odd, SLICE("2 exclude /a%20b/%2541  /%0A%00%7F\xC3\xA9 "));
}

static void what_is_no_recipe_is_refused(void **state)
{
    static const char *const texts[] = {"",
                                        "1",
                                        "3 all",
                                        "1 json all",
                                        "2 json",
                                        "2 json json all",
                                        "2 jsonall",
                                        "1 ALL",
                                        "1 all ",
                                        "1 raw /a",
                                        "1 include a",
                                        "1 include /%4",
                                        " 1 all",
                                        "1 include /~",
                                        "1 include /%zz",
                                        "1  all",
                                        "1 included",
                                        "1 exclude /a /%"};
    ARENA_AUTO struct arena arena = arena_make(ROOM);
    BUF_AUTO struct buf many = buf_make(ROOM);
    struct payload_selection selection;
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_false(payload_recipe_read(slice_of(texts[i]), &arena, &selection));
    buf_add_str(&many, "1 include");
    for (size_t i = 0; i < PAYLOAD_POINTERS_MAX; i++)
        buf_add_str(&many, " /a");
    assert_true(payload_recipe_read(buf_slice(&many), &arena, &selection));
    buf_add_str(&many, " /a");
    assert_false(payload_recipe_read(buf_slice(&many), &arena, &selection));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_structures_of_rfc_8785_get_its_form),
        cmocka_unit_test(the_hash_is_plain_sha256_that_any_client_can_compute),
        cmocka_unit_test(order_space_escapes_and_number_spelling_do_not_count),
        cmocka_unit_test(what_means_something_else_hashes_otherwise),
        cmocka_unit_test(json_that_cannot_be_compared_counts_raw),
        cmocka_unit_test(nesting_of_200_is_canonical_and_of_201_is_raw),
        cmocka_unit_test(a_long_body_hashes_as_its_canonical_bytes),
        cmocka_unit_test(json_types_are_told_by_name_and_suffix),
        cmocka_unit_test(include_takes_only_what_the_pointers_name),
        cmocka_unit_test(include_tells_absent_from_null_and_values_from_each_other),
        cmocka_unit_test(exclude_takes_all_but_what_the_pointers_name),
        cmocka_unit_test(pointers_on_what_is_not_canonical_json_count_the_whole_body),
        cmocka_unit_test(raw_and_ignore_look_at_no_form),
        cmocka_unit_test(whole_documents_can_be_included_and_excluded),
        cmocka_unit_test(a_compressed_body_hashes_as_the_plain_one),
        cmocka_unit_test(a_gzip_bomb_ends_at_the_bound),
        cmocka_unit_test(a_broken_stream_and_an_unknown_coding_are_told_apart),
        cmocka_unit_test(recipes_come_back_as_they_were),
        cmocka_unit_test(what_is_no_recipe_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
