/* SPDX-License-Identifier: Apache-2.0 */
/* One reading of one body, as the tests of the payload hash make it. After <cmocka.h>. */
#ifndef PAWL_TESTS_PAYLOAD_READING_H
#define PAWL_TESTS_PAYLOAD_READING_H

#include "core/request/payload.h"

#define ROOM (64U << 20)
#define JSON_TYPE SLICE("application/json")
#define FORM_TYPE SLICE("application/x-www-form-urlencoded")
#define MULTIPART_TYPE SLICE("multipart/form-data; boundary=b")

static const struct payload_selection everything = {.mode = PAYLOAD_ALL};

/* One reading of one body, with what came of it. */
struct reading {
    struct arena arena;
    struct payload payload;
    struct buf canonical;
    struct digest hash;
};

static inline void reading_fini(struct reading *reading)
{
    buf_fini(&reading->canonical);
    arena_fini(&reading->arena);
}
#define READING_AUTO __attribute__((cleanup(reading_fini)))

/* Reads, and checks that the hash is that of the canonical bytes. */
static inline void read_body(struct reading *reading, struct slice body, struct slice type,
                             const struct payload_selection *selection)
{
    reading->arena = arena_make(ROOM);
    reading->canonical = buf_make(ROOM);
    assert_int_equal(payload_read(&reading->arena,
                                  &(struct payload_input){body, type, SLICE(""), ROOM},
                                  &reading->payload),
                     PAYLOAD_OK);
    assert_true(payload_canonical(&reading->payload, selection, &reading->canonical));
    assert_true(payload_hash(&reading->payload, selection, &reading->hash));
    struct digest wanted = digest_of(buf_slice(&reading->canonical));
    assert_true(digest_eq(&reading->hash, &wanted));
}

static inline void expect_bytes(struct slice got, struct slice wanted)
{
    if (!slice_eq(got, wanted))
        fail_msg("got `%.*s`, wanted `%.*s`", SLICE_ARG(got), SLICE_ARG(wanted));
}

static inline void expect(struct slice body, struct slice type,
                          const struct payload_selection *selection, struct slice canonical)
{
    READING_AUTO struct reading reading;
    read_body(&reading, body, type, selection);
    expect_bytes(buf_slice(&reading.canonical), canonical);
}

static inline void expect_json(struct slice body, struct slice canonical)
{
    expect(body, JSON_TYPE, &everything, canonical);
}

static inline bool same(struct slice a, struct slice b, struct slice type,
                        const struct payload_selection *selection)
{
    READING_AUTO struct reading first;
    READING_AUTO struct reading second;
    read_body(&first, a, type, selection);
    read_body(&second, b, type, selection);
    return digest_eq(&first.hash, &second.hash);
}

#endif
