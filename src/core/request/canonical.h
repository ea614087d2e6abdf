/* SPDX-License-Identifier: Apache-2.0 */
/*
 * canonical: where canonical bytes go (a buffer, or through it into a digest), and the canonical
 * form of JSON. Used by payload.c and its parts, and where two JSON values are compared.
 */
#ifndef PAWL_CORE_CANONICAL_H
#define PAWL_CORE_CANONICAL_H

#include "base/crypto/digest.h"
#include "base/json/json.h"

struct canonical {
    struct buf *buf;              /* what was added, or with a digest what it has not yet seen */
    struct digest_stream *digest; /* NULL: all stays in `buf` */
};

void canonical_add(struct canonical *canonical, struct slice bytes);

/* Between two values: hands what has gathered to the digest when it has become much. False:
 * something did not fit, or memory ran out. */
bool canonical_step(struct canonical *canonical);

/* At the end: hands over the rest. False as above. */
bool canonical_end(struct canonical *canonical);

/* Values that are left out of a tree, by address. */
struct json_set {
    size_t n;
    const struct json *const *at;
};

/* Adds the RFC 8785 form of `root`, numbers by base/text/number.h, members and elements of
 * `without` left out (a left-out root adds nothing). Not recursive. False: no memory, or buf's max.
 */
bool canonical_add_json(struct canonical *canonical, const struct json *root,
                        struct json_set without);

#endif
