/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 (RFC 4648 section 4), with padding. */
#ifndef PAWL_BASE_BASE64_H
#define PAWL_BASE_BASE64_H

#include "base/buf.h"

/* Appends `bytes`, encoded. */
void base64_add(struct buf *buf, struct slice bytes);

/* Appends what `text` encodes; the padding may be left out, and nothing else. False: it is no
 * base64, or there is no room. */
bool base64_read(struct slice text, struct buf *bytes);

#endif
