/* SPDX-License-Identifier: Apache-2.0 */
/*
 * form: application/x-www-form-urlencoded (URL Standard, section 5).
 *
 * Canonical form: the pairs in their order, decoded and encoded again in one way, as the URL
 * Standard's serializer does it (A-Z a-z 0-9 * - . _ as they are, space as '+', any other byte as
 * %XX with capitals); for text in UTF-8 that is what `new URLSearchParams(body).toString()` gives.
 * '&' and '=' inside names and values are escaped, so they never run together. Two readings differ
 * from the Standard, where upstreams differ among themselves: a name without '=' stays without, and
 * a '%' that no two hex digits follow makes the body malformed. A malformed body counts raw; it can
 * never equal a canonical form, in which every '%' is followed by two digits. Nothing is done to
 * line ends or Unicode forms.
 */
#ifndef PAWL_CORE_FORM_H
#define PAWL_CORE_FORM_H

#include "core/request/canonical.h"

/* Adds the canonical form of a valid form, in which every '%' starts an escape. False: no memory,
 * or buf's max. */
bool form_add_canonical(struct canonical *canonical, struct slice bytes);

#endif
