/* SPDX-License-Identifier: Apache-2.0 */
/*
 * identity: what the names of a rule's records are made of, as text: a line for each thing, its
 * label first. Two rules of one text name every request alike. Pure.
 *
 *      texts 1                  how pawl makes texts of templates
 *      key_space pay
 *      tenant {header:x-tenant}
 *      secret no                the tenant is hashed
 *      key {header:idempotency-key}
 *      once none
 *      formerly paid            one line for each former name
 *
 * What only says which values are taken is not in it: `key_syntax`, a format that folds nothing.
 * Parameters of the path are numbered: their names are the config's own affair. The literals round
 * one are what its value lacks, and so are named.
 */
#ifndef PAWL_CORE_IDENTITY_H
#define PAWL_CORE_IDENTITY_H

#include "core/request/rule.h"

#define IDENTITY_DIGEST_SIZE 9 /* hex digits and a NUL */

/* X(NAME, label): what may move. */
#define IDENTITY_PARTS(X)                                                                          \
    X(TEXTS, "texts")                                                                              \
    X(SPACE, "key_space")                                                                          \
    X(TENANT, "tenant")                                                                            \
    X(SECRET, "secret")                                                                            \
    X(KEY, "key")                                                                                  \
    X(ONCE, "once")                                                                                \
    X(FORMERLY, "formerly")

enum identity_part {
#define X(name, label) IDENTITY_##name,
    IDENTITY_PARTS(X)
#undef X
        IDENTITY_PART_COUNT
};

/* Appends the text of a rule's identity. */
void identity_write(const struct rule *rule, struct buf *buf);

/* The value of the first line of that label; `.at` NULL: there is none. */
struct slice identity_value(struct slice identity, enum identity_part part);

/* By which people name an identity. */
void identity_digest(struct slice identity, char ret_hex[IDENTITY_DIGEST_SIZE]);

/* Whether `hex` is what identity_digest may give. */
bool identity_is_digest(struct slice hex);

/* Bits (1 << enum identity_part) of what a rule named `name`, with the identity `after`, would name
 * otherwise than `before` did, so that records of then are not found; 0: all of them are. A once
 * template that is added moves nothing: records from before it are found by their keys, or, where
 * it is what their keys were made of, by its values. */
unsigned identity_moves(struct slice before, struct slice after, struct slice name);

/* Whether requests have the same names by both, whatever former names are looked up beside them. */
bool identity_names_alike(struct slice one, struct slice other);

/* Appends the labels of these bits: "tenant, key". */
void identity_write_parts(unsigned parts, struct buf *buf);

#endif
