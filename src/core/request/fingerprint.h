/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fingerprint: enough of a request to say later in which part another one differs, and no more: a
 * few bits of keyed hash for method, path, query, media type and compared headers each, and for
 * pointer and value of the first leaves of a JSON body. No value can be read from it, and without
 * the store's secret nobody can test guesses. It is a hint for operators: what is the same request
 * is decided by the hashes alone. Pure.
 *
 *   text    '=' (all leaves) or '+' (the first ones), 5 parts, then pointer and value of each leaf,
 *           each in 3 of 64 characters; "" for a record without one
 */
#ifndef PAWL_CORE_FINGERPRINT_H
#define PAWL_CORE_FINGERPRINT_H

#include "base/buf.h"
#include "base/slice.h"

struct payload_selection;
struct rule;
struct template_facts;

#define FINGERPRINT_LEAVES_MAX 32
#define FINGERPRINT_MAX (1 + 5 * 3 + FINGERPRINT_LEAVES_MAX * 6)

struct fingerprint_of {
    struct slice secret; /* of the store */
    const struct rule *rule;
    const struct template_facts *facts; /* with the payload understood, where it is */
    struct slice path;                  /* normalised */
    const struct payload_selection *selection;
};

struct fingerprint {
    size_t len;
    char text[FINGERPRINT_MAX];
};

void fingerprint_write(const struct fingerprint_of *of, struct fingerprint *ret_fingerprint);

/* Appends in what a request differs from the one whose fingerprint was stored: the parts of its
 * target ("the query, a compared header"), and pointers into its body ("/amount, /note"; at most
 * 3, and none that a reader would see as another one). Nothing where that cannot be said. */
void fingerprint_explain_target(const struct fingerprint_of *of, struct slice stored,
                                struct buf *buf);
void fingerprint_explain_body(const struct fingerprint_of *of, struct slice stored,
                              struct buf *buf);

#endif
