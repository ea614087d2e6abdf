/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of bytes that the parsers of http/message.h refuse. Each row is fed whole and byte by
 * byte; the verdict must be the same. Bytes lie in memory of exactly their size, so that the
 * sanitizers see a byte read too far.
 */
#ifndef PAWL_TESTS_HTTP_ROWS_H
#define PAWL_TESTS_HTTP_ROWS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "http/message.h"

struct refused_row {
    const char *name;
    struct slice bytes;
    enum http_refusal refusal;
};

#define R(name, bytes, refusal)                                                                    \
    {                                                                                              \
        name, {bytes, sizeof(bytes) - 1}, HTTP_REFUSAL_##refusal                                   \
    }

#define COUNT(rows) (sizeof(rows) / sizeof(rows)[0])

static inline void expect_refused(const struct refused_row *row, enum http_parse verdict,
                                  enum http_refusal refusal)
{
    if (verdict != HTTP_PARSE_REFUSED || refusal != row->refusal)
        fail_msg("%s: verdict %d, refusal \"%s\", expected \"%s\"", row->name, verdict,
                 http_refusal_text(refusal), http_refusal_text(row->refusal));
}

/* Memory of their size alone; free. */
static inline char *copy_exactly(struct slice bytes)
{
    char *copy = malloc(bytes.len > 0 ? bytes.len : 1);
    assert_non_null(copy);
    memcpy(copy, bytes.at, bytes.len);
    return copy;
}

/* The parser of a head, of which a refusal is looked at. */
typedef enum http_parse head_parser(struct slice bytes, size_t *scan,
                                    enum http_refusal *ret_refusal);

static inline enum http_parse parse_copy(head_parser *parse, struct slice bytes, size_t *scan,
                                         enum http_refusal *ret_refusal)
{
    char *copy = copy_exactly(bytes);
    enum http_parse verdict = parse(slice_make(copy, bytes.len), scan, ret_refusal);
    free(copy);
    return verdict;
}

static inline void expect_refused_whole_and_dripped(const struct refused_row *row,
                                                    head_parser *parse)
{
    enum http_refusal refusal = HTTP_REFUSAL_NONE;
    size_t fresh = 0, dripped = 0;

    enum http_parse verdict = parse_copy(parse, row->bytes, &fresh, &refusal);
    expect_refused(row, verdict, refusal);
    verdict = HTTP_PARSE_MORE;
    for (size_t n = 0; n <= row->bytes.len && verdict == HTTP_PARSE_MORE; n++)
        verdict = parse_copy(parse, slice_make(row->bytes.at, n), &dripped, &refusal);
    expect_refused(row, verdict, refusal);
    verdict = parse_copy(parse, row->bytes, &dripped, &refusal);
    expect_refused(row, verdict, refusal);
}

#endif
