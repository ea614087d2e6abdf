/* SPDX-License-Identifier: Apache-2.0 */
/* compress, inflate */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/compress/compress.h"
#include "base/compress/inflate.h"
#include "base/mem.h"

#include <zlib.h>

#define BIG (1 << 20)

static struct slice repetitive(struct buf *buf, size_t n)
{
    for (size_t i = 0; i < n; i++)
        buf_add_char(buf, "{\"amount\":100}\n"[i % 15]);
    assert_true(buf_ok(buf));
    return buf_slice(buf);
}

static void a_packed_body_is_smaller_and_comes_back(void **state)
{
    COMPRESS_AUTO struct compress compress = {0};
    BUF_AUTO struct buf body = buf_make(BIG), packed = buf_make(BIG), back = buf_make(BIG);
    (void)state;
    repetitive(&body, 100000);
    buf_add_str(&packed, "head");
    assert_true(compress_pack(&compress, buf_slice(&body), &packed));
    assert_true(packed.len < 10000);
    struct slice frame = slice_skip(buf_slice(&packed), 4);
    assert_true(compress_unpack(&compress, frame, body.len, &back));
    assert_true(slice_eq(buf_slice(&back), buf_slice(&body)));
}

static void packing_without_gain_is_no_failure(void **state)
{
    COMPRESS_AUTO struct compress compress = {0};
    BUF_AUTO struct buf packed = buf_make(BIG);
    (void)state;
    assert_false(compress_pack(&compress, slice_make(NULL, 0), &packed));
    assert_false(compress_pack(&compress, SLICE("a"), &packed));
    assert_false(compress_pack(&compress, SLICE("0a9f3c"), &packed));
    assert_true(buf_ok(&packed));
    assert_int_equal(packed.len, 0);
}

static void packing_without_room_or_memory_is_a_failure(void **state)
{
    COMPRESS_AUTO struct compress compress = {0};
    BUF_AUTO struct buf body = buf_make(BIG), packed = buf_make(100);
    (void)state;
    repetitive(&body, 10000);
    assert_false(compress_pack(&compress, buf_slice(&body), &packed));
    assert_false(buf_ok(&packed));
}

static void unpacking_keeps_its_maximum(void **state)
{
    COMPRESS_AUTO struct compress compress = {0};
    BUF_AUTO struct buf body = buf_make(BIG), packed = buf_make(BIG), back = buf_make(BIG);
    (void)state;
    repetitive(&body, 1000);
    assert_true(compress_pack(&compress, buf_slice(&body), &packed));
    assert_false(compress_unpack(&compress, buf_slice(&packed), 999, &back));
    assert_true(buf_ok(&back));
    assert_true(compress_unpack(&compress, buf_slice(&packed), 1000, &back));
}

static void a_damaged_frame_is_never_unpacked(void **state)
{
    COMPRESS_AUTO struct compress compress = {0};
    BUF_AUTO struct buf body = buf_make(BIG), packed = buf_make(BIG), back = buf_make(BIG);
    (void)state;
    repetitive(&body, 1000);
    assert_true(compress_pack(&compress, buf_slice(&body), &packed));
    for (size_t i = 0; i < packed.len; i++) {
        assert_false(compress_unpack(&compress, slice_make(packed.at, i), BIG, &back));
        packed.at[i] ^= 0x10;
        if (compress_unpack(&compress, buf_slice(&packed), BIG,
                            &back)) /* a bit that says nothing */
            assert_true(slice_eq(buf_slice(&back), buf_slice(&body)));
        packed.at[i] ^= 0x10;
        buf_clear(&back);
    }
    buf_add_str(&packed, "more");
    assert_false(compress_unpack(&compress, buf_slice(&packed), BIG, &back));
    assert_int_equal(back.len, 0);
}

/* window: zlib's windowBits, which choose the format. */
static void encode(struct buf *out, int window, struct slice in)
{
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY), Z_OK);
    size_t bound = deflateBound(&z, in.len) + 64;
    z.next_in = (Bytef *)(uintptr_t)in.at;
    z.avail_in = (uInt)in.len;
    z.next_out = (Bytef *)buf_room(out, bound);
    z.avail_out = (uInt)bound;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    buf_added(out, bound - z.avail_out);
    deflateEnd(&z);
}

static const struct {
    enum inflate_format format;
    int window;
} formats[] = {{INFLATE_GZIP, 31}, {INFLATE_DEFLATE, 15}, {INFLATE_DEFLATE, -15}};

#define EACH_FORMAT(i)                                                                             \
    size_t i = 0;                                                                                  \
    i < sizeof(formats) / sizeof(formats[0]);                                                      \
    i++

static void gzip_zlib_and_raw_deflate_are_decoded(void **state)
{
    BUF_AUTO struct buf body = buf_make(BIG);
    (void)state;
    repetitive(&body, 100000);
    for (EACH_FORMAT(i)) {
        BUF_AUTO struct buf coded = buf_make(BIG), out = buf_make(BIG);
        encode(&coded, formats[i].window, buf_slice(&body));
        buf_add_str(&out, "head");
        assert_int_equal(inflate_decode(formats[i].format, buf_slice(&coded), body.len, &out),
                         INFLATE_OK);
        assert_true(slice_eq(slice_skip(buf_slice(&out), 4), buf_slice(&body)));
    }
}

static void an_empty_body_is_decoded_within_no_bytes(void **state)
{
    (void)state;
    for (EACH_FORMAT(i)) {
        BUF_AUTO struct buf coded = buf_make(BIG), out = buf_make(BIG);
        encode(&coded, formats[i].window, SLICE(""));
        assert_int_equal(inflate_decode(formats[i].format, buf_slice(&coded), 0, &out), INFLATE_OK);
        assert_int_equal(out.len, 0);
    }
}

static void one_byte_over_the_maximum_is_too_large(void **state)
{
    static const size_t sizes[] = {1, 1000, 16 * 1024, 16 * 1024 + 1, 100000};
    (void)state;
    for (EACH_FORMAT(i))
        for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
            BUF_AUTO struct buf body = buf_make(BIG), coded = buf_make(BIG), out = buf_make(BIG);
            encode(&coded, formats[i].window, repetitive(&body, sizes[s]));
            struct slice in = buf_slice(&coded);
            assert_int_equal(inflate_decode(formats[i].format, in, sizes[s] - 1, &out),
                             INFLATE_TOO_LARGE);
            assert_int_equal(out.len, 0);
            assert_int_equal(inflate_decode(formats[i].format, in, sizes[s], &out), INFLATE_OK);
        }
}

static void the_room_of_the_buffer_is_a_maximum_too(void **state)
{
    BUF_AUTO struct buf body = buf_make(BIG), coded = buf_make(BIG);
    BUF_AUTO struct buf fits = buf_make(1000), short_of_one = buf_make(999);
    (void)state;
    encode(&coded, 31, repetitive(&body, 1000));
    assert_int_equal(inflate_decode(INFLATE_GZIP, buf_slice(&coded), BIG, &fits), INFLATE_OK);
    assert_int_equal(inflate_decode(INFLATE_GZIP, buf_slice(&coded), BIG, &short_of_one),
                     INFLATE_TOO_LARGE);
    assert_true(buf_ok(&short_of_one));
}

static void every_truncation_is_broken(void **state)
{
    BUF_AUTO struct buf body = buf_make(BIG);
    (void)state;
    repetitive(&body, 300);
    for (EACH_FORMAT(i)) {
        BUF_AUTO struct buf coded = buf_make(BIG), out = buf_make(BIG);
        encode(&coded, formats[i].window, buf_slice(&body));
        for (size_t n = 0; n < coded.len; n++)
            assert_int_equal(inflate_decode(formats[i].format, slice_make(coded.at, n), BIG, &out),
                             INFLATE_BROKEN);
        assert_int_equal(out.len, 0);
    }
}

static void trailing_bytes_are_broken(void **state)
{
    (void)state;
    for (EACH_FORMAT(i)) {
        BUF_AUTO struct buf coded = buf_make(BIG), out = buf_make(BIG);
        encode(&coded, formats[i].window, SLICE("hello"));
        buf_add_char(&coded, '\0');
        assert_int_equal(inflate_decode(formats[i].format, buf_slice(&coded), BIG, &out),
                         INFLATE_BROKEN);
    }
}

static void gzip_members_in_a_row_are_one_body(void **state)
{
    BUF_AUTO struct buf coded = buf_make(BIG), out = buf_make(BIG);
    (void)state;
    encode(&coded, 31, SLICE("hel"));
    encode(&coded, 31, SLICE(""));
    encode(&coded, 31, SLICE("lo"));
    assert_int_equal(inflate_decode(INFLATE_GZIP, buf_slice(&coded), 5, &out), INFLATE_OK);
    assert_true(slice_eq(buf_slice(&out), SLICE("hello")));
    assert_int_equal(inflate_decode(INFLATE_GZIP, buf_slice(&coded), 4, &out), INFLATE_TOO_LARGE);
}

static void a_wrong_checksum_or_format_is_broken(void **state)
{
    BUF_AUTO struct buf coded = buf_make(BIG), out = buf_make(BIG);
    (void)state;
    encode(&coded, 15, SLICE("hello"));
    assert_int_equal(inflate_decode(INFLATE_GZIP, buf_slice(&coded), BIG, &out), INFLATE_BROKEN);
    coded.at[coded.len - 1] ^= 1;
    assert_int_equal(inflate_decode(INFLATE_DEFLATE, buf_slice(&coded), BIG, &out), INFLATE_BROKEN);
    assert_int_equal(inflate_decode(INFLATE_DEFLATE, SLICE("\xff\xff"), BIG, &out), INFLATE_BROKEN);
}

#ifdef PAWL_HOOKS
static void decoding_without_memory_says_so(void **state)
{
    BUF_AUTO struct buf body = buf_make(BIG), coded = buf_make(BIG);
    enum inflate_result result = INFLATE_NO_MEMORY;
    (void)state;
    encode(&coded, 31, repetitive(&body, 100000));
    for (long n = 1; n < 100; n++) {
        BUF_AUTO struct buf out = buf_make(BIG);
        mem_fail_nth(n);
        result = inflate_decode(INFLATE_GZIP, buf_slice(&coded), BIG, &out);
        if (!mem_fail_fired())
            break;
        assert_int_equal(result, INFLATE_NO_MEMORY);
    }
    mem_fail_nth(0);
    assert_int_equal(result, INFLATE_OK);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_packed_body_is_smaller_and_comes_back),
        cmocka_unit_test(packing_without_gain_is_no_failure),
        cmocka_unit_test(packing_without_room_or_memory_is_a_failure),
        cmocka_unit_test(unpacking_keeps_its_maximum),
        cmocka_unit_test(a_damaged_frame_is_never_unpacked),
        cmocka_unit_test(gzip_zlib_and_raw_deflate_are_decoded),
        cmocka_unit_test(an_empty_body_is_decoded_within_no_bytes),
        cmocka_unit_test(one_byte_over_the_maximum_is_too_large),
        cmocka_unit_test(the_room_of_the_buffer_is_a_maximum_too),
        cmocka_unit_test(every_truncation_is_broken),
        cmocka_unit_test(trailing_bytes_are_broken),
        cmocka_unit_test(gzip_members_in_a_row_are_one_body),
        cmocka_unit_test(a_wrong_checksum_or_format_is_broken),
#ifdef PAWL_HOOKS
        cmocka_unit_test(decoding_without_memory_says_so),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
