/* SPDX-License-Identifier: Apache-2.0 */
/*
 * multipart: multipart/form-data (RFC 7578, RFC 2046 5.1), read strictly: no preamble, no epilogue,
 * no white space after a boundary, every part with its blank line. Whatever lenient readers
 * disagree about makes the body malformed, and it counts raw.
 *
 * Canonical form: MULTIPART_MAGIC, "parts\n", then each part as it was sent (header lines, blank
 * line, content) after its length in 8 bytes, big-endian. The boundary, which clients draw anew for
 * each try, is not in it. Parts cannot run together. So that a malformed body can never pass for
 * one, a malformed body that starts with MULTIPART_MAGIC counts as MULTIPART_MAGIC, "raw\n", body.
 */
#ifndef PAWL_CORE_MULTIPART_H
#define PAWL_CORE_MULTIPART_H

#include "core/request/canonical.h"

#define MULTIPART_MAGIC "pawl1 multipart\n"
#define MULTIPART_BOUNDARY_MAX 70 /* RFC 2046 5.1.1 */

/* The boundary that the parameters of a Content-Type name (what follows the first ';'),
 * without quotes. `.at` NULL: none, more than one, or none that RFC 2046 allows. */
struct slice multipart_boundary(struct slice parameters);

/* Whether `bytes` is a whole body with this boundary. */
bool multipart_valid(struct slice bytes, struct slice boundary);

/* Adds the canonical form of a valid body. False: no memory, or buf's max. */
bool multipart_add_canonical(struct canonical *canonical, struct slice bytes,
                             struct slice boundary);

/* Adds a malformed body. False: no memory, or buf's max. */
bool multipart_add_malformed(struct canonical *canonical, struct slice bytes);

#endif
