/* SPDX-License-Identifier: Apache-2.0 */
/* slice, percent, buf, arena, mem, headers, digest */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/crypto/digest.h"
#include "base/headers.h"
#include "base/mem.h"
#include "base/text/percent.h"

#define assert_slice(s, literal) assert_true(slice_eq((s), SLICE(literal)))

static void slices_compare_with_and_without_case(void **state)
{
    (void)state;
    assert_true(slice_eq(slice_make(NULL, 0), SLICE("")));
    assert_true(slice_eq(slice_of(NULL), slice_make(NULL, 0)));
    assert_false(slice_eq(SLICE("a"), SLICE("A")));
    assert_true(slice_eq_nocase(SLICE("Content-TYPE"), SLICE("content-type")));
    assert_false(slice_eq_nocase(SLICE("a"), SLICE("ab")));
    /* Only letters have a case: these pairs differ in the same bit. */
    assert_false(slice_eq_nocase(SLICE("@["), SLICE("`{")));
    assert_false(slice_eq_nocase(SLICE("\xC4"), SLICE("\xE4")));
}

static void a_list_is_taken_item_by_item_and_its_words_are_spelled_by_marks(void **state)
{
    struct slice list = SLICE("a,,b"), item;
    (void)state;
    assert_true(slice_next(&list, ',', &item));
    assert_slice(item, "a");
    assert_true(slice_next(&list, ',', &item));
    assert_slice(item, "");
    assert_true(slice_next(&list, ',', &item));
    assert_slice(item, "b");
    assert_false(slice_next(&list, ',', &item));
    assert_int_equal(slice_item(SLICE("hold|retry"), '|', SLICE("retry")), 1);
    assert_int_equal(slice_item(SLICE("hold|retry"), '|', SLICE("")), -1);
    assert_int_equal(slice_span(SLICE("aZ09-_ b"), "-_"), 6);
    assert_int_equal(slice_span(slice_make("a\0b", 3), "-"), 1);
    assert_true(slice_is_word(SLICE("X-Id"), SLICE_TOKEN_MARKS));
    assert_false(slice_is_word(SLICE(""), SLICE_TOKEN_MARKS));
    assert_false(slice_is_word(SLICE("X Id"), SLICE_TOKEN_MARKS));
}

static void percent_encoding_is_read_leniently_and_judged_strictly(void **state)
{
    ARENA_AUTO struct arena arena = arena_make(100);
    char escape[PERCENT_SIZE];
    (void)state;
    assert_slice(percent_decode(SLICE("a+b%2f%C3%a9%zz%4"), false, &arena), "a+b/\xC3\xA9%zz%4");
    assert_slice(percent_decode(SLICE("a+b"), true, &arena), "a b");
    assert_true(percent_is_valid(SLICE("%00%fF+")));
    assert_false(percent_is_valid(SLICE("a%4")));
    assert_false(percent_is_valid(SLICE("%%41")));
    assert_true(percent_spells(SLICE("%61%2Bb"), true, SLICE("a+b")));
    assert_false(percent_spells(SLICE("a%2"), true, SLICE("a")));
    percent_write('\xAF', escape);
    assert_slice(slice_make(escape, sizeof escape), "%AF");
    assert_null(percent_decode(SLICE("a"), false, &(struct arena){.max = 0}).at);
}

static void slices_are_cut_trimmed_and_searched(void **state)
{
    struct slice head;
    (void)state;
    assert_true(slice_starts(SLICE("abc"), SLICE("ab")));
    assert_true(slice_starts(SLICE(""), SLICE("")));
    assert_false(slice_starts(SLICE("a"), SLICE("ab")));
    assert_slice(slice_skip(SLICE("abc"), 1), "bc");
    assert_slice(slice_first(SLICE("abc"), 2), "ab");
    assert_slice(slice_first(SLICE("abc"), 4), "abc");
    assert_slice(slice_trim(SLICE(" \t a b\t ")), "a b");
    assert_slice(slice_trim(SLICE(" \t ")), "");
    assert_slice(slice_trim(SLICE("\ra\n")), "\ra\n");
    assert_int_equal(slice_find(SLICE("abcb"), 'b'), 1);
    assert_int_equal(slice_find(SLICE("abc"), 'x'), -1);
    assert_int_equal(slice_find(slice_make(NULL, 0), 'x'), -1);
    assert_slice(slice_cut(SLICE("a,b,c"), ',', &head), "b,c");
    assert_slice(head, "a");
    struct slice rest = slice_cut(SLICE("a,"), ',', &head);
    assert_true(rest.at != NULL && rest.len == 0);
    rest = slice_cut(SLICE("abc"), ',', &head);
    assert_null(rest.at);
    assert_slice(head, "abc");
}

static void numbers_are_digits_only_and_bounded(void **state)
{
    static const char *const bad[] = {"",   "-1",  "+1",  " 1",
                                      "1 ", "0x1", "1.0", "10000000000000000000"};
    uint64_t value = 7;
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(slice_to_u64(slice_of(bad[i]), UINT64_MAX, &value));
    assert_false(slice_to_u64(SLICE("101"), 100, &value));
    assert_int_equal(value, 7);
    assert_true(slice_to_u64(SLICE("100"), 100, &value));
    assert_int_equal(value, 100);
    assert_true(slice_to_u64(SLICE("9999999999999999999"), UINT64_MAX, &value));
    assert_true(value == UINT64_C(9999999999999999999));
}

static void a_buffer_grows_and_keeps_what_it_holds(void **state)
{
    BUF_AUTO struct buf buf = buf_make(100000);
    (void)state;
    for (int i = 0; i < 10000; i++)
        buf_add_char(&buf, (char)('a' + i % 26));
    assert_true(buf_ok(&buf));
    assert_int_equal(buf.len, 10000);
    for (int i = 0; i < 10000; i++)
        assert_int_equal(buf.at[i], 'a' + i % 26);
}

static void a_buffer_writes_numbers_and_formats(void **state)
{
    BUF_AUTO struct buf buf = buf_make(1000);
    (void)state;
    buf_add_u64(&buf, 0);
    buf_add_char(&buf, ' ');
    buf_add_u64(&buf, UINT64_MAX);
    buf_add_char(&buf, ' ');
    buf_add_i64(&buf, INT64_MIN);
    buf_printf(&buf, " %s-%03d", "x", 7);
    buf_add_str(&buf, " end");
    buf_add(&buf, NULL, 0);
    assert_slice(buf_slice(&buf), "0 18446744073709551615 -9223372036854775808 x-007 end");
}

static void a_buffer_takes_its_maximum_and_not_a_byte_more(void **state)
{
    BUF_AUTO struct buf buf = buf_make(4);
    (void)state;
    buf_add_str(&buf, "abcd");
    assert_true(buf_ok(&buf));
    buf_add_char(&buf, 'e');
    assert_false(buf_ok(&buf));
    assert_true(buf.too_large);
    buf_cut(&buf, 0);
    buf_add_char(&buf, 'x');
    assert_int_equal(buf.len, 0); /* sticky, though there is room now */
    assert_null(buf_room(&buf, 0));
    buf_clear(&buf);
    buf_printf(&buf, "%d", 1234);
    assert_slice(buf_slice(&buf), "1234");
    buf_printf(&buf, "%d", 5);
    assert_false(buf_ok(&buf));
    assert_null(buf_take(&buf));
    assert_true(buf_ok(&buf));
}

static void a_buffer_refuses_sizes_that_overflow(void **state)
{
    BUF_AUTO struct buf buf = buf_make(SIZE_MAX);
    (void)state;
    buf_add_char(&buf, 'a');
    assert_null(buf_room(&buf, SIZE_MAX));
    assert_true(buf.too_large);
    buf_clear(&buf);
    assert_null(buf_room(&buf, SIZE_MAX));
    assert_false(buf_ok(&buf));
}

static void a_buffer_is_dropped_from_cut_and_taken(void **state)
{
    struct buf buf = buf_make(100);
    (void)state;
    buf_add_str(&buf, "abcdef");
    buf_drop(&buf, 2);
    assert_slice(buf_slice(&buf), "cdef");
    buf_cut(&buf, 3);
    MEM_AUTO char *taken = buf_take(&buf);
    assert_string_equal(taken, "cde");
    assert_true(buf.at == NULL && buf.len == 0 && buf.max == 100);
    MEM_AUTO char *empty = buf_take(&buf);
    assert_string_equal(empty, "");
}

static void a_buffer_leaves_the_room_that_it_was_lent_when_it_grows(void **state)
{
    char room[8] = "ooooooo";
    struct buf buf = buf_on(room, sizeof room, 100);
    (void)state;
    buf_add_str(&buf, "1234567");
    assert_ptr_equal(buf.at, room);
    buf_add_char(&buf, '8');
    assert_ptr_not_equal(buf.at, room);
    assert_true(slice_eq(buf_slice(&buf), SLICE("12345678")));
    buf_fini(&buf);
    buf = buf_on(room, sizeof room, 3);
    buf_add_str(&buf, "1234");
    assert_true(buf.too_large);
    buf = buf_on(room, sizeof room, 100);
    buf_add_str(&buf, "abc");
    MEM_AUTO char *taken = buf_take(&buf);
    assert_ptr_not_equal(taken, room);
    assert_string_equal(taken, "abc");
    buf = buf_on(NULL, 8, 100);
    buf_add_str(&buf, "abc");
    assert_int_equal(buf.len, 3);
    buf_fini(&buf);
}

#ifndef PAWL_SANITIZED
static void a_thread_uses_the_block_again_that_it_gave_back_last(void **state)
{
    void *blocks[MEM_SPARES_MAX + 2];
    (void)state;
    for (size_t i = 0; i < MEM_SPARES_MAX + 2; i++)
        assert_non_null(blocks[i] = mem_block_new(MEM_BLOCK_ARENA));
    for (size_t i = 0; i < MEM_SPARES_MAX + 2; i++)
        mem_block_free(MEM_BLOCK_ARENA, blocks[i]); /* two of them go back to malloc */
    for (size_t i = MEM_SPARES_MAX; i-- > 0;)
        assert_ptr_equal(mem_block_new(MEM_BLOCK_ARENA), blocks[i]);
    for (size_t i = 0; i < MEM_SPARES_MAX; i++)
        mem_block_free(MEM_BLOCK_ARENA, blocks[i]);
    mem_thread_end();
}
#endif

static void an_arena_hands_out_aligned_memory_that_stays(void **state)
{
    ARENA_AUTO struct arena arena = arena_make(1 << 20);
    unsigned char *given[200];
    (void)state;
    for (size_t i = 0; i < 200; i++) {
        given[i] = arena_alloc(&arena, i);
        assert_non_null(given[i]);
        assert_int_equal((uintptr_t)given[i] % _Alignof(max_align_t), 0);
        memset(given[i], (int)i, i);
    }
    for (size_t i = 0; i < 200; i++)
        for (size_t j = 0; j < i; j++)
            assert_int_equal(given[i][j], i);
}

static void an_arena_fails_at_its_maximum_until_reset(void **state)
{
    ARENA_AUTO struct arena arena = arena_make(100);
    (void)state;
    assert_non_null(arena_alloc(&arena, 60));
    assert_null(arena_alloc(&arena, 41));
    assert_true(arena.failed);
    assert_null(arena_alloc(&arena, 1));
    arena_reset(&arena);
    assert_false(arena.failed);
    assert_non_null(arena_alloc(&arena, 100));
    assert_null(arena_alloc(&arena, SIZE_MAX));
}

static void an_arena_is_used_again_after_small_and_large_rounds(void **state)
{
    ARENA_AUTO struct arena arena = arena_make(1 << 22);
    (void)state;
    for (size_t round = 0; round < 20; round++) {
        size_t size = round % 2 ? 100 : 100000;
        for (int i = 0; i < 10; i++)
            memset(arena_alloc(&arena, size), 1, size);
        assert_int_equal(arena.used, 10 * size);
        arena_reset(&arena);
        assert_int_equal(arena.used, 0);
    }
}

static void an_arena_copy_ends_with_a_nul(void **state)
{
    ARENA_AUTO struct arena arena = arena_make(8);
    (void)state;
    struct slice copy = arena_copy(&arena, SLICE("abc"));
    assert_slice(copy, "abc");
    assert_int_equal(copy.at[3], 0);
    assert_non_null(arena_copy(&arena, slice_make(NULL, 0)).at);
    assert_null(arena_copy(&arena, SLICE("abc")).at);
}

static void allocations_of_nothing_and_of_too_much_are_answered(void **state)
{
    MEM_AUTO void *nothing = mem_alloc(0);
    MEM_AUTO void *zeros = mem_zalloc(0, 8);
    MEM_AUTO char *copy = mem_copy("ab", 1);
    (void)state;
    assert_non_null(nothing);
    assert_non_null(zeros);
    assert_string_equal(copy, "a");
    volatile size_t huge = SIZE_MAX;
    assert_null(mem_zalloc(huge, 2));
    mem_free(NULL);
}

#ifdef PAWL_HOOKS
static void the_nth_allocation_fails_once(void **state)
{
    (void)state;
    mem_fail_nth(2);
    MEM_AUTO void *first = mem_alloc(1);
    assert_non_null(first);
    assert_false(mem_fail_fired());
    assert_null(mem_realloc(first, 100));
    assert_true(mem_fail_fired());
    MEM_AUTO void *third = mem_zalloc(1, 1);
    assert_non_null(third);
    mem_fail_nth(0);
    assert_false(mem_fail_fired());
}

static void a_buffer_and_an_arena_without_memory_say_so(void **state)
{
    BUF_AUTO struct buf buf = buf_make(1000);
    ARENA_AUTO struct arena arena = arena_make(1000);
    (void)state;
    buf_add_str(&buf, "kept");
    mem_fail_nth(1);
    for (int i = 0; i < 900; i++)
        buf_add_char(&buf, 'x');
    assert_true(buf.failed && !buf.too_large);
    mem_fail_nth(1);
    assert_null(arena_alloc(&arena, 1));
    assert_true(arena.failed);
    mem_fail_nth(0);
    arena_fini(&arena);
    assert_false(arena.failed);
    assert_null(arena_copy_buf(&arena, &buf).at); /* no part of it */
    assert_true(arena.failed);
}
#endif

/* found: A-M9 */
static void a_counted_arena_shares_its_limit_with_others(void **state)
{
    (void)state;
    atomic_ullong counted = 100000;
    ARENA_AUTO struct arena arena = arena_make_counted(1 << 20, &counted, 110000);
    assert_non_null(arena_alloc(&arena, 1000));
    assert_true(counted > 101000);
    assert_null(arena_alloc(&arena, 20000));
    assert_true(arena.crowded && !arena.too_large);
    arena_fini(&arena);
    assert_int_equal(counted, 100000);
    counted = 0;
    assert_non_null(arena_alloc(&arena, 20000));
    assert_null(arena_alloc(&arena, 1 << 20));
    assert_true(arena.too_large && !arena.crowded);
    arena_fini(&arena);
    assert_int_equal(counted, 0);
}

static void header_lines_are_found_in_order_without_case(void **state)
{
    static struct headers headers;
    size_t at = 0;
    (void)state;
    headers_clear(&headers);
    assert_true(headers_add(&headers, SLICE("Accept"), SLICE("a")));
    assert_true(headers_add(&headers, SLICE("Host"), SLICE("h")));
    assert_true(headers_add(&headers, SLICE("ACCEPT"), SLICE("b")));
    assert_slice(headers_find(&headers, SLICE("accept"))->value, "a");
    assert_null(headers_find(&headers, SLICE("accep")));
    assert_int_equal(headers_count(&headers, SLICE("accept")), 2);
    assert_slice(headers_next(&headers, SLICE("accept"), &at)->value, "a");
    assert_slice(headers_next(&headers, SLICE("accept"), &at)->value, "b");
    assert_null(headers_next(&headers, SLICE("accept"), &at));
    assert_null(headers_next(&headers, SLICE("accept"), &at));
}

static void the_header_list_refuses_one_line_too_many(void **state)
{
    static struct headers headers;
    (void)state;
    headers_clear(&headers);
    for (int i = 0; i < HEADERS_MAX; i++)
        assert_true(headers_add(&headers, SLICE("a"), SLICE("")));
    assert_false(headers_add(&headers, SLICE("a"), SLICE("")));
    assert_int_equal(headers.n, HEADERS_MAX);
}

static void hop_by_hop_names_are_the_fixed_ones_and_those_listed(void **state)
{
    static const char *const fixed[] = {"connection", "Proxy-Connection",  "KEEP-ALIVE",
                                        "te",         "transfer-encoding", "upgrade"};
    static struct headers headers;
    (void)state;
    headers_clear(&headers);
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
        assert_true(headers_is_hop_by_hop(&headers, slice_of(fixed[i])));
    assert_false(headers_is_hop_by_hop(&headers, SLICE("X-Mine")));
    headers_add(&headers, SLICE("Connection"), SLICE("close"));
    headers_add(&headers, SLICE("connection"), SLICE(", ,x-a ,\tx-mine"));
    assert_true(headers_is_hop_by_hop(&headers, SLICE("X-Mine")));
    assert_true(headers_list_has(&headers, SLICE("Connection"), SLICE("Close")));
    assert_true(headers_connection_has(&headers, SLICE("Close")));
    assert_int_equal(headers.n_hops, 3);
    assert_false(headers_is_hop_by_hop(&headers, SLICE("x")));
    assert_false(headers_is_hop_by_hop(&headers, SLICE("")));
}

/* found: A-M11 */
static void a_connection_list_of_too_many_members_is_refused(void **state)
{
    static struct headers headers;
    static char list[2 * HEADERS_HOPS_MAX];
    (void)state;
    headers_clear(&headers);
    for (size_t i = 0; i < HEADERS_HOPS_MAX; i++)
        memcpy(list + 2 * i, "a,", 2);
    list[sizeof list - 1] = '\0';
    assert_true(headers_add(&headers, SLICE("Connection"), slice_of(list)));
    assert_int_equal(headers.n_hops, HEADERS_HOPS_MAX);
    assert_false(headers_add(&headers, SLICE("Connection"), SLICE("b")));
    headers_clear(&headers);
    memset(list, ',', HEADERS_HOPS_MAX);
    assert_false(headers_add(&headers, SLICE("connection"), slice_of(list)));
    assert_true(headers.n < HEADERS_MAX);
}

/* A line, the name and the value that it is read as; NULL: it has no value. */
static void header_lines_are_read_as_they_are_written(void **state)
{
    static const struct {
        const char *line, *name, *value;
    } lines[] = {
        {"Name: value\r\n", "Name", "value"},
        {"Name: value", "Name", "value"},
        {"Name: value\n", "Name", "value"},
        {"Name:value \t\r\n", "Name", "value"}, /* the CR goes first */
        {"Name: \t value\r \r\n", "Name", "value\r"},
        {"a: b:c\r\n", "a", "b:c"},
        {"Name: \r\n", "Name", ""},
        {"Name:\r\n", "Name", ""},
        {"no field\r\n", "no field", NULL},
        {"\r\n", "", NULL},
        {"@ /run/a:b \r\n", "@", "/run/a:b"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        BUF_AUTO struct buf buf = buf_make(100);
        struct slice rest = slice_of(lines[i].line), name, value;
        assert_true(fields_next(&rest, &name, &value));
        assert_true(slice_eq(name, slice_of(lines[i].name)));
        assert_true(slice_eq(value, slice_of(lines[i].value)));
        assert_int_equal(value.at != NULL, lines[i].value != NULL);
        assert_false(fields_next(&rest, &name, &value));
        fields_add(&buf, name, value);
        fields_add(&buf, SLICE("B"), SLICE("2"));
        rest = buf_slice(&buf);
        assert_true(fields_next(&rest, &name, &value) && fields_next(&rest, &name, &value));
        assert_slice(name, "B");
        assert_slice(value, "2");
    }
}

static void assert_digest(struct digest digest, const char *hex)
{
    char text[DIGEST_HEX_SIZE + 1];
    hex_encode(digest.bytes, DIGEST_SIZE, text);
    assert_string_equal(text, hex);
}

static void sha256_gives_the_published_vectors(void **state)
{
    struct digest_stream stream;
    (void)state;
    assert_digest(digest_of(slice_make(NULL, 0)),
                  "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_digest(digest_of(SLICE("abc")),
                  "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    digest_start(&stream);
    digest_add(&stream, SLICE("a"));
    digest_add(&stream, slice_make(NULL, 0));
    digest_add(&stream, SLICE("bc"));
    assert_digest(digest_end(&stream),
                  "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

/* 56 bytes: the length goes into a block of its own. */
static void sha256_gives_the_published_vectors_of_more_blocks(void **state)
{
    static const struct slice a = {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 50};
    struct digest_stream stream;
    (void)state;
    assert_digest(digest_of(SLICE("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    digest_start(&stream);
    for (int i = 0; i < 20000; i++)
        digest_add(&stream, a);
    assert_digest(digest_end(&stream),
                  "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void sized_parts_are_parts_after_their_big_endian_length(void **state)
{
    struct digest_stream stream;
    (void)state;
    digest_start(&stream);
    digest_add_sized(&stream, SLICE("ab"));
    digest_add_sized(&stream, SLICE("c"));
    struct digest sized = digest_end(&stream);
    struct digest flat = digest_of(SLICE("\0\0\0\0\0\0\0\2ab\0\0\0\0\0\0\0\1"
                                         "c"));
    assert_true(digest_eq(&sized, &flat));
    digest_start(&stream);
    digest_add_sized(&stream, SLICE("a"));
    digest_add_sized(&stream, SLICE("bc"));
    struct digest other = digest_end(&stream);
    assert_false(digest_eq(&sized, &other));
}

static void keyed_digests_are_hmac_over_sized_parts(void **state)
{
    /* Computed apart from this code, with Python's hmac module. */
    struct slice parts[] = {SLICE("ab"), SLICE(""), SLICE("c")};
    (void)state;
    struct digest_key key = digest_key_of(SLICE("secret"));
    assert_digest(digest_keyed(&key, parts, 3),
                  "0ae327f0a548e7b1fefff22883e783eb53f41895e79bd863e029bfd46240d856");
    assert_digest(digest_keyed(&key, parts, 3), /* the key is not used up */
                  "0ae327f0a548e7b1fefff22883e783eb53f41895e79bd863e029bfd46240d856");
    key = digest_key_of(SLICE(""));
    assert_digest(digest_keyed(&key, parts, 1),
                  "546577fc624b73ac8222826314e106713c4817173c5d83b491c4ddc226b77af8");
    char secret[65];
    memset(secret, 'k', sizeof(secret));
    key = digest_key_of(slice_make(secret, 64));
    assert_digest(digest_keyed(&key, parts, 3),
                  "2de9dafc53b174d68aec3dd9b47418b6f36172dcd996842fc1542ff0a7279ac3");
    key = digest_key_of(slice_make(secret, 65));
    assert_digest(digest_keyed(&key, parts, 3),
                  "eb88fbef2996144899e3fcc447628b3aa46ef6ea2fa794818d6b3a5690d62e32");
}

static void hex_is_read_back_and_nothing_else_is(void **state)
{
    unsigned char bytes[3] = {1, 2, 3};
    char text[7];
    (void)state;
    assert_true(hex_decode(SLICE("00fFA9"), bytes, 3));
    hex_encode(bytes, 3, text);
    assert_string_equal(text, "00ffa9");
    assert_false(hex_decode(SLICE("00ff"), bytes, 3));
    assert_false(hex_decode(SLICE("00ffa"), bytes, 2));
    assert_false(hex_decode(SLICE("11111g"), bytes, 3));
    assert_int_equal(bytes[0], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_compare_with_and_without_case),
        cmocka_unit_test(slices_are_cut_trimmed_and_searched),
        cmocka_unit_test(a_list_is_taken_item_by_item_and_its_words_are_spelled_by_marks),
        cmocka_unit_test(percent_encoding_is_read_leniently_and_judged_strictly),
        cmocka_unit_test(numbers_are_digits_only_and_bounded),
        cmocka_unit_test(a_buffer_grows_and_keeps_what_it_holds),
        cmocka_unit_test(a_buffer_writes_numbers_and_formats),
        cmocka_unit_test(a_buffer_takes_its_maximum_and_not_a_byte_more),
        cmocka_unit_test(a_buffer_refuses_sizes_that_overflow),
        cmocka_unit_test(a_buffer_is_dropped_from_cut_and_taken),
        cmocka_unit_test(a_buffer_leaves_the_room_that_it_was_lent_when_it_grows),
#ifndef PAWL_SANITIZED
        cmocka_unit_test(a_thread_uses_the_block_again_that_it_gave_back_last),
#endif
        cmocka_unit_test(an_arena_hands_out_aligned_memory_that_stays),
        cmocka_unit_test(an_arena_fails_at_its_maximum_until_reset),
        cmocka_unit_test(an_arena_is_used_again_after_small_and_large_rounds),
        cmocka_unit_test(an_arena_copy_ends_with_a_nul),
        cmocka_unit_test(allocations_of_nothing_and_of_too_much_are_answered),
#ifdef PAWL_HOOKS
        cmocka_unit_test(the_nth_allocation_fails_once),
        cmocka_unit_test(a_buffer_and_an_arena_without_memory_say_so),
#endif
        cmocka_unit_test(header_lines_are_found_in_order_without_case),
        cmocka_unit_test(the_header_list_refuses_one_line_too_many),
        cmocka_unit_test(a_counted_arena_shares_its_limit_with_others),
        cmocka_unit_test(hop_by_hop_names_are_the_fixed_ones_and_those_listed),
        cmocka_unit_test(a_connection_list_of_too_many_members_is_refused),
        cmocka_unit_test(header_lines_are_read_as_they_are_written),
        cmocka_unit_test(sha256_gives_the_published_vectors),
        cmocka_unit_test(sha256_gives_the_published_vectors_of_more_blocks),
        cmocka_unit_test(sized_parts_are_parts_after_their_big_endian_length),
        cmocka_unit_test(keyed_digests_are_hmac_over_sized_parts),
        cmocka_unit_test(hex_is_read_back_and_nothing_else_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
