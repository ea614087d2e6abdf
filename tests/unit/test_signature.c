/* SPDX-License-Identifier: Apache-2.0 */
/* The vectors of signatures.json, both ways, and what is wrong with a request by its name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json/json.h"
#include "base/mem.h"
#include "base/text/base64.h"
#include "core/web/signature.h"
#include <stdio.h>
#include <stdlib.h>

#define ARENA_MAX ((size_t)16 * 1024 * 1024)
#define S INT64_C(1000000)
#define NOW INT64_C(1614265330)
#define SECRET "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define PRIVATE                                                                                    \
    "whsk_6Xb/dCcHpPea21PS1N9VY/"                                                                  \
    "NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
#define PUBLIC "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="
#define V1 "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
#define V1A                                                                                        \
    "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=="
#define ID "msg_p5jXN8AQM9LWM0D4loKWxJek"
#define BODY "{\"test\": 2432232314}"

static const struct json *vectors;

/* ---- what they have in common ---- */

struct bed {
    struct arena arena;
    const struct signature_scheme *scheme;
    struct signature_secret secrets[SIGNATURE_SECRETS_MAX];
    struct signature_keys keys;
    struct headers headers;
};

static void open_bed(struct bed *bed, struct slice scheme)
{
    *bed = (struct bed){.arena = arena_make(ARENA_MAX), .scheme = signature_scheme_find(scheme)};
    assert_non_null(bed->scheme);
    bed->keys.at = bed->secrets;
}

static void add_secret(struct bed *bed, struct slice text)
{
    const char *problem;
    if (!signature_secret_read(bed->scheme, text, &bed->arena, &bed->secrets[bed->keys.n++],
                               &problem))
        fail_msg("the secret %s", problem);
}

static enum signature_verdict verify(struct bed *bed, struct slice body, int64_t seconds)
{
    struct signature_received received = {&bed->headers, body, seconds * S, 300 * S};
    return signature_verify(bed->scheme, &bed->keys, &received);
}

/* A standard request as it is sent, but for what is named. */
static enum signature_verdict judge(const char *secret, const char *id, const char *time,
                                    const char *value)
{
    struct bed bed;
    open_bed(&bed, SLICE("standard"));
    add_secret(&bed, slice_of(secret));
    if (id)
        headers_add(&bed.headers, SLICE("Webhook-Id"), slice_of(id));
    if (time)
        headers_add(&bed.headers, SLICE("WEBHOOK-TIMESTAMP"), slice_of(time));
    if (value)
        headers_add(&bed.headers, SLICE("webhook-signature"), slice_of(value));
    enum signature_verdict verdict = verify(&bed, SLICE(BODY), NOW);
    arena_fini(&bed.arena);
    return verdict;
}

/* ---- vectors ---- */

static struct slice text_at(const struct json *vector, const char *pointer)
{
    const struct json *value = json_at_as(vector, slice_of(pointer), JSON_STRING);
    return value ? value->text : SLICE("");
}

static int64_t seconds_of(const struct json *vector)
{
    uint64_t seconds = 0;
    slice_to_u64(json_at_as(vector, SLICE("/seconds"), JSON_NUMBER)->text, INT64_MAX, &seconds);
    return (int64_t)seconds;
}

static void each_vector_is_signed_and_verified(void **state)
{
    (void)state;
    for (const struct json *vector = vectors->first; vector; vector = vector->next) {
        struct bed bed;
        BUF_AUTO struct buf value = buf_make(SIZE_MAX), seconds = buf_make(64);
        struct signature_message message = {text_at(vector, "/id"), seconds_of(vector),
                                            text_at(vector, "/body")};
        const char *problem;
        open_bed(&bed, text_at(vector, "/scheme"));
        const struct json *secret = json_at(vector, SLICE("/secrets"))->first;
        for (; secret; secret = secret->next)
            add_secret(&bed, secret->text);
        assert_true(signature_may_sign(bed.scheme, &bed.keys, &message, &problem));
        assert_true(signature_sign(bed.scheme, &bed.keys, &message, &value));
        if (!slice_eq(buf_slice(&value), text_at(vector, "/value")))
            fail_msg("%.*s: %.*s", SLICE_ARG(text_at(vector, "/name")),
                     SLICE_ARG(buf_slice(&value)));
        buf_add_i64(&seconds, message.seconds);
        if (message.id.len > 0)
            headers_add(&bed.headers, bed.scheme->id, message.id);
        if (bed.scheme->timestamp.len > 0)
            headers_add(&bed.headers, bed.scheme->timestamp, buf_slice(&seconds));
        headers_add(&bed.headers, bed.scheme->header, buf_slice(&value));
        assert_int_equal(verify(&bed, message.body, message.seconds), SIGNATURE_GOOD);
        assert_int_equal(verify(&bed, SLICE("another"), message.seconds), SIGNATURE_MISMATCH);
        arena_fini(&bed.arena);
    }
}

static void every_scheme_verifies_what_it_signs(void **state)
{
    (void)state;
    struct slice name;
    for (size_t n = 0; (name = signature_scheme_name(n)).len > 0; n++) {
        struct bed bed;
        const char *problem;
        BUF_AUTO struct buf value = buf_make(SIZE_MAX);
        struct signature_message message = {SLICE("evt_1"), NOW, SLICE("a\0b")};
        open_bed(&bed, name);
        assert_true(signature_scheme_check(bed.scheme, &problem));
        add_secret(&bed, SLICE("c2VjcmV0c2VjcmV0"));
        assert_true(signature_sign(bed.scheme, &bed.keys, &message, &value));
        headers_add(&bed.headers, bed.scheme->header, buf_slice(&value));
        if (bed.scheme->id.len > 0)
            headers_add(&bed.headers, bed.scheme->id, message.id);
        if (slice_eq(bed.scheme->name, SLICE("slack")) || bed.scheme->is_standard)
            headers_add(&bed.headers, bed.scheme->timestamp, SLICE("1614265330"));
        assert_int_equal(verify(&bed, message.body, NOW), SIGNATURE_GOOD);
        if (bed.scheme->timestamp.len > 0)
            assert_int_equal(verify(&bed, message.body, NOW + 301), SIGNATURE_TOO_OLD);
        arena_fini(&bed.arena);
    }
}

/* ---- what is wrong ---- */

static void what_is_wrong_has_a_name(void **state)
{
    (void)state;
    static const struct {
        const char *id, *time, *value;
        enum signature_verdict verdict;
    } rows[] = {
        {ID, "1614265330", V1, SIGNATURE_GOOD},
        {ID, "1614265330", NULL, SIGNATURE_NO_HEADER},
        {NULL, "1614265330", V1, SIGNATURE_NO_ID},
        {"", "1614265330", V1, SIGNATURE_NO_ID},
        {"msg.1", "1614265330", V1, SIGNATURE_BAD_ID},
        {ID, NULL, V1, SIGNATURE_NO_TIME},
        {ID, "NaN", V1, SIGNATURE_BAD_TIME},
        {ID, "1e9", V1, SIGNATURE_BAD_TIME},
        {ID, "-1", V1, SIGNATURE_BAD_TIME},
        {ID, "1614265330.0", V1, SIGNATURE_BAD_TIME},
        {ID, " 1614265330", V1, SIGNATURE_BAD_TIME},
        {ID, "99999999999999999999", V1, SIGNATURE_BAD_TIME},
        {ID, "999999999999999999", V1, SIGNATURE_TOO_NEW},
        {ID, "0", V1, SIGNATURE_TOO_OLD},
        {ID, "1614265029", V1, SIGNATURE_TOO_OLD},
        {ID, "1614265631", V1, SIGNATURE_TOO_NEW},
        {ID, "1614265030", V1, SIGNATURE_MISMATCH}, /* within the tolerance, and not as signed */
        {ID, "1614265330", "v1,", SIGNATURE_MALFORMED},
        {ID, "1614265330", "v2,abc", SIGNATURE_MALFORMED},
        {ID, "1614265330", "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", SIGNATURE_MALFORMED},
        {ID, "1614265330", "v1,g0hM9SsE", SIGNATURE_MISMATCH},
        {ID, "1614265330", "v1,\xc3\xa9", SIGNATURE_MISMATCH},
        {ID, "1614265330", "v1,AAAA v9,x " V1, SIGNATURE_GOOD},
        {ID, "1614265330", "v1a,", SIGNATURE_MALFORMED},
        {ID, "1614265330", V1A, SIGNATURE_MISMATCH}, /* of a key that is not known */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        enum signature_verdict verdict = judge(SECRET, rows[i].id, rows[i].time, rows[i].value);
        if (verdict != rows[i].verdict)
            fail_msg("row %zu: %s, not %s", i, signature_verdict_name(verdict),
                     signature_verdict_name(rows[i].verdict));
    }
    assert_int_equal(judge(PUBLIC, ID, "1614265330", V1A), SIGNATURE_GOOD);
    assert_int_equal(judge(PRIVATE, ID, "1614265330", V1 " " V1A), SIGNATURE_GOOD);
    assert_int_equal(judge(PUBLIC, ID, "1614265330", V1), SIGNATURE_MISMATCH);
    assert_true(strlen(signature_verdict_text(SIGNATURE_MISMATCH)) > 0);
}

static void each_bit_of_the_body_counts(void **state)
{
    (void)state;
    struct bed bed;
    char body[] = BODY;
    open_bed(&bed, SLICE("standard"));
    add_secret(&bed, SLICE(SECRET));
    headers_add(&bed.headers, SLICE("webhook-id"), SLICE(ID));
    headers_add(&bed.headers, SLICE("webhook-timestamp"), SLICE("1614265330"));
    headers_add(&bed.headers, SLICE("webhook-signature"), SLICE(V1));
    assert_int_equal(verify(&bed, slice_of(body), NOW), SIGNATURE_GOOD);
    for (size_t bit = 0; bit < 8 * (sizeof body - 1); bit++) {
        body[bit / 8] = (char)(body[bit / 8] ^ (1 << bit % 8));
        struct slice changed = slice_make(body, sizeof body - 1);
        assert_int_equal(verify(&bed, changed, NOW), SIGNATURE_MISMATCH);
        body[bit / 8] = (char)(body[bit / 8] ^ (1 << bit % 8));
    }
    arena_fini(&bed.arena);
}

static void stripe_s_members_come_in_any_order(void **state)
{
    (void)state;
    struct bed bed;
    BUF_AUTO struct buf value = buf_make(SIZE_MAX), turned = buf_make(SIZE_MAX);
    struct signature_message message = {SLICE(""), NOW, SLICE("{}")};
    open_bed(&bed, SLICE("stripe"));
    add_secret(&bed, SLICE("whsec_one"));
    add_secret(&bed, SLICE("whsec_two"));
    assert_true(signature_sign(bed.scheme, &bed.keys, &message, &value));
    struct slice time, one, two = slice_cut(buf_slice(&value), ',', &time);
    two = slice_cut(two, ',', &one);
    assert_true(slice_eq(time, SLICE("t=1614265330")) && one.len == two.len && one.len == 67);
    buf_printf(&turned, "v0=x, %.*s ,%.*s", SLICE_ARG(two), SLICE_ARG(time));
    headers_add(&bed.headers, SLICE("Stripe-Signature"), buf_slice(&turned));
    assert_int_equal(verify(&bed, SLICE("{}"), NOW), SIGNATURE_GOOD);
    bed.keys.n = 1;
    assert_int_equal(verify(&bed, SLICE("{}"), NOW), SIGNATURE_MISMATCH);
    arena_fini(&bed.arena);
}

/* ---- how many are looked at ---- */

/* The verdict with `n` signatures of nobody before the one that is right. */
static enum signature_verdict judge_behind(size_t n, const char *secret, const char *other,
                                           const char *right)
{
    BUF_AUTO struct buf value = buf_make(SIZE_MAX);
    for (size_t i = 0; i < n; i++)
        buf_printf(&value, "%s ", other);
    buf_printf(&value, "%s%c", right, '\0');
    return judge(secret, ID, "1614265330", value.at);
}

#define OTHER_V1 "v1,AAAAAAAA+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
#define OTHER_V1A                                                                                  \
    "v1a,AAAAAAAAytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=="

/* found: R16 */
static void eight_signatures_are_looked_at_and_four_by_a_public_key(void **state)
{
    (void)state;
    assert_int_equal(judge_behind(7, SECRET, OTHER_V1, V1), SIGNATURE_GOOD);
    assert_int_equal(judge_behind(8, SECRET, OTHER_V1, V1), SIGNATURE_MISMATCH);
    assert_int_equal(judge_behind(3, PUBLIC, OTHER_V1A, V1A), SIGNATURE_GOOD);
    assert_int_equal(judge_behind(4, PUBLIC, OTHER_V1A, V1A), SIGNATURE_MISMATCH);
    assert_int_equal(judge_behind(7, PUBLIC, OTHER_V1, V1A), SIGNATURE_GOOD);
    assert_int_equal(judge_behind(8, PUBLIC, OTHER_V1, V1A), SIGNATURE_MISMATCH);
    assert_int_equal(judge_behind(8, SECRET, OTHER_V1A, V1), SIGNATURE_GOOD);
}

/* ---- secrets ---- */

static void a_secret_that_is_none_says_why(void **state)
{
    (void)state;
    static const struct {
        const char *text, *problem;
    } rows[] = {
        {"", "is empty"},
        {"whsec_", "is empty"},
        {"whsec_M*", "base64"},
        {"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS", "base64"}, /* a bit is left over */
        {"whsk_AAAA", "32 or 64"},
        {"whpk_AAAA", "32 bytes"},
        {"whsk_6Xb/dCcHpPea21PS1N9VY/"
         "NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvw==",
         "another public key"},
    };
    const struct signature_scheme *scheme = signature_scheme_find(SLICE("standard"));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
        struct signature_secret secret;
        const char *problem = "";
        bool good =
            signature_secret_read(scheme, slice_of(rows[i].text), &arena, &secret, &problem);
        if (good || !strstr(problem, rows[i].problem))
            fail_msg("%s: %s", rows[i].text, good ? "it was read" : problem);
    }
}

static void a_public_key_signs_nothing(void **state)
{
    (void)state;
    struct bed bed;
    const char *problem;
    struct signature_message message = {SLICE("evt_1"), NOW, SLICE("")};
    open_bed(&bed, SLICE("standard"));
    add_secret(&bed, SLICE(PUBLIC));
    assert_false(signature_may_sign(bed.scheme, &bed.keys, &message, &problem));
    assert_non_null(strstr(problem, "public key"));
    message.id = SLICE("a.b");
    assert_false(signature_may_sign(bed.scheme, &bed.keys, &message, &problem));
    message.id = SLICE("");
    assert_false(signature_may_sign(bed.scheme, &bed.keys, &message, &problem));
    arena_fini(&bed.arena);
}

/* ---- a scheme of one's own ---- */

static void a_scheme_that_leaves_something_unsigned_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *header, *signed_as, *timestamp, *problem;
    } rows[] = {
        {"X-Sig", "{timestamp},{body}", "t=", NULL},
        {"X-Sig", "{body}", "", NULL},
        {"X-Sig", "{timestamp}{body}", "X-Time", NULL},
        {"X Sig", "{body}", "", "header"},
        {"X-Sig", "{timestamp}", "t=", "{body}"},
        {"X-Sig", "", "", "signed"},
        {"X-Sig", "{body}{other}", "", "braces"},
        {"X-Sig", "{body}", "X-Time", "not in `signed`"},
        {"X-Sig", "{timestamp}.{body}", "", "where it is"},
        {"X-Sig", "{id}.{body}", "", "{id}"},
        {"X-Sig", "{timestamp}.{body}", "X Time", "timestamp"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *problem = NULL;
        struct signature_scheme scheme = {.header = slice_of(rows[i].header),
                                          .signed_as = slice_of(rows[i].signed_as),
                                          .timestamp = slice_of(rows[i].timestamp),
                                          .hash = MAC_SHA512};
        bool good = signature_scheme_check(&scheme, &problem);
        if (good != !rows[i].problem || (problem && !strstr(problem, rows[i].problem)))
            fail_msg("row %zu: %s", i, problem ? problem : "it was taken");
    }
}

static void a_scheme_of_one_s_own_signs_with_any_hash(void **state)
{
    (void)state;
    static const size_t sizes[] = {[MAC_SHA1] = 20, [MAC_SHA256] = 32, [MAC_SHA512] = 64};
    for (int hash = MAC_SHA1; hash <= MAC_SHA512; hash++) {
        const struct signature_scheme scheme = {.header = SLICE("X-Sig"),
                                                .signed_as = SLICE("{timestamp},{body}"),
                                                .prefix = SLICE("v1="),
                                                .timestamp = SLICE("t="),
                                                .hash = (enum mac_hash)hash};
        struct bed bed = {.arena = arena_make(ARENA_MAX), .scheme = &scheme};
        bed.keys.at = bed.secrets;
        add_secret(&bed, SLICE("secret"));
        BUF_AUTO struct buf value = buf_make(SIZE_MAX);
        struct signature_message message = {SLICE(""), NOW, SLICE(BODY)};
        assert_true(signature_sign(&scheme, &bed.keys, &message, &value));
        assert_int_equal(value.len, strlen("t=1614265330,v1=") + 2 * sizes[hash]);
        headers_add(&bed.headers, SLICE("x-sig"), buf_slice(&value));
        assert_int_equal(verify(&bed, SLICE(BODY), NOW), SIGNATURE_GOOD);
        arena_fini(&bed.arena);
    }
}

/* The forms in which a described signature comes: with its time among its members, several of them,
 * in any order, of other versions beside them. `%s` is the good one. */
static void a_described_scheme_reads_what_its_senders_send(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        int64_t now, tolerance_us;
        enum signature_verdict verdict;
    } rows[] = {
        {"t=1614265330,v1=%s", NOW, 300 * S, SIGNATURE_GOOD},
        {"v1=%s,t=1614265330", NOW, 300 * S, SIGNATURE_GOOD},
        {"t=1614265330,v1=00,v1=%s", NOW, 300 * S, SIGNATURE_GOOD},
        {"t=1614265330,v0=1234567890,v1=%s", NOW, 300 * S, SIGNATURE_GOOD},
        {"t=1614265330,v1=1234567890", NOW, 300 * S, SIGNATURE_MISMATCH},
        {"t=1614265331,v1=%s", NOW, 300 * S, SIGNATURE_MISMATCH},
        {"v1=%s", NOW, 300 * S, SIGNATURE_NO_TIME},
        {"t=NaN,v1=%s", NOW, 300 * S, SIGNATURE_BAD_TIME},
        {"t=1614265330", NOW, 300 * S, SIGNATURE_MALFORMED},
        {"t=1614265330,v1=%s", NOW + 301, 300 * S, SIGNATURE_TOO_OLD},
        {"t=1614265330,v1=%s", NOW + 1000000, INT64_MAX, SIGNATURE_GOOD},
    };
    const struct signature_scheme schemes[] = {
        {.header = SLICE("X-Sig"),
         .signed_as = SLICE("{timestamp},{body}"),
         .prefix = SLICE("v1="),
         .timestamp = SLICE("t="),
         .hash = MAC_SHA256},
        {.header = SLICE("X-Sig"),
         .signed_as = SLICE("{timestamp},{body}"),
         .prefix = SLICE("v1="),
         .timestamp = SLICE("t="),
         .hash = MAC_SHA512,
         .encoding = SIGNATURE_BASE64},
    };
    for (size_t i = 0; i < 2 * (sizeof rows / sizeof *rows); i++) {
        struct bed bed = {.arena = arena_make(ARENA_MAX), .scheme = &schemes[i % 2]};
        const struct signature_message message = {SLICE(""), NOW, SLICE(BODY)};
        BUF_AUTO struct buf good = buf_make(SIZE_MAX), value = buf_make(SIZE_MAX);
        bed.keys.at = bed.secrets;
        add_secret(&bed, SLICE("secret"));
        assert_true(signature_sign(bed.scheme, &bed.keys, &message, &good));
        buf_add_char(&good, 0);
        buf_printf(&value, rows[i / 2].value, strstr(good.at, "v1=") + 3);
        headers_add(&bed.headers, SLICE("x-sig"), buf_slice(&value));
        const struct signature_received received = {&bed.headers, SLICE(BODY), rows[i / 2].now * S,
                                                    rows[i / 2].tolerance_us};
        enum signature_verdict verdict = signature_verify(bed.scheme, &bed.keys, &received);
        if (verdict != rows[i / 2].verdict)
            fail_msg("row %zu: %s", i / 2, signature_verdict_name(verdict));
        arena_fini(&bed.arena);
    }
}

/* ---- what is below ---- */

static struct slice of_base64(struct slice text, struct buf *buf)
{
    assert_true(base64_read(text, buf));
    return buf_slice(buf);
}

/* RFC 9421, B.2.5 and B.2.6. */
static void hmac_and_ed25519_have_the_values_of_the_standard(void **state)
{
    (void)state;
    BUF_AUTO struct buf secret = buf_make(SIZE_MAX), mac = buf_make(SIZE_MAX);
    BUF_AUTO struct buf key = buf_make(SIZE_MAX), signature = buf_make(SIZE_MAX);
    struct slice symmetric =
        SLICE("\"date\": Tue, 20 Apr 2021 02:07:55 GMT\n\"@authority\": example.com\n"
              "\"content-type\": application/json\n\"@signature-params\": (\"date\" "
              "\"@authority\" \"content-type\");created=1618884473;keyid=\"test-shared-secret\"");
    struct slice asymmetric =
        SLICE("\"date\": Tue, 20 Apr 2021 02:07:55 GMT\n\"@method\": POST\n\"@path\": /foo\n"
              "\"@authority\": example.com\n\"content-type\": application/json\n"
              "\"content-length\": 18\n\"@signature-params\": (\"date\" \"@method\" \"@path\" "
              "\"@authority\" \"content-type\" \"content-length\");created=1618884473;"
              "keyid=\"test-key-ed25519\"");
    struct mac computed;
    assert_true(mac_of(MAC_SHA256,
                       of_base64(SLICE("uzvJfB4u3N0Jy4T7NZ75MDVcr8zSTInedJtkgcu46YW4XByzNJjxBdtjU"
                                       "kdJPBtbmHhIDi6pcl8jsasjlTMtDQ=="),
                                 &secret),
                       &symmetric, 1, &computed));
    assert_true(
        mac_eq(&computed, of_base64(SLICE("pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE8="), &mac)));
    assert_true(ed25519_verify(
        of_base64(SLICE("JrQLj5P/89iXES9+vFgrIy29clF9CC/oPPsw3c5D0bs="), &key), asymmetric,
        of_base64(SLICE("wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5"
                        "lIp5WPpBKRCw=="),
                  &signature)));
}

static const struct json *read_vectors(const char *path, struct arena *arena)
{
    char *text = NULL;
    size_t size = 0;
    struct json *root = NULL;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    ssize_t len = getdelim(&text, &size, '\0', file);
    fclose(file);
    assert_true(len > 0);
    struct slice copy = arena_copy(arena, slice_make(text, (size_t)len));
    free(text);
    assert_int_equal(json_parse(arena, copy, &root, NULL), JSON_OK);
    return json_at(root, SLICE("/vectors"));
}

#ifdef PAWL_HOOKS

/* found: a good signature that could not be decoded for want of memory matched nothing */
static void what_is_not_verified_for_want_of_memory_is_no_mismatch(void **state)
{
    static const struct {
        const char *secret;
        const char *value;
    } cases[] = {{SECRET, V1}, {PUBLIC, V1A}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bed bed;
        open_bed(&bed, SLICE("standard"));
        add_secret(&bed, slice_of(cases[i].secret));
        headers_add(&bed.headers, SLICE("webhook-id"), SLICE(ID));
        headers_add(&bed.headers, SLICE("webhook-timestamp"), SLICE("1614265330"));
        headers_add(&bed.headers, SLICE("webhook-signature"), slice_of(cases[i].value));
        int fired = 1;
        for (long n = 1; fired; n++) {
            mem_fail_nth(n);
            enum signature_verdict verdict = verify(&bed, SLICE(BODY), NOW);
            fired = mem_fail_fired();
            mem_fail_nth(0);
            assert_int_equal(verdict, fired ? SIGNATURE_NO_MEMORY : SIGNATURE_GOOD);
        }
        arena_fini(&bed.arena);
    }
}

#endif

int main(int argc, char **argv)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_vector_is_signed_and_verified),
        cmocka_unit_test(every_scheme_verifies_what_it_signs),
        cmocka_unit_test(what_is_wrong_has_a_name),
        cmocka_unit_test(each_bit_of_the_body_counts),
        cmocka_unit_test(stripe_s_members_come_in_any_order),
        cmocka_unit_test(eight_signatures_are_looked_at_and_four_by_a_public_key),
        cmocka_unit_test(a_secret_that_is_none_says_why),
        cmocka_unit_test(a_public_key_signs_nothing),
        cmocka_unit_test(a_scheme_that_leaves_something_unsigned_is_refused),
        cmocka_unit_test(a_scheme_of_one_s_own_signs_with_any_hash),
        cmocka_unit_test(a_described_scheme_reads_what_its_senders_send),
        cmocka_unit_test(hmac_and_ed25519_have_the_values_of_the_standard),
#ifdef PAWL_HOOKS
        cmocka_unit_test(what_is_not_verified_for_want_of_memory_is_no_mismatch),
#endif
    };
    if (argc != 2)
        return 1;
    vectors = read_vectors(argv[1], &arena);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
