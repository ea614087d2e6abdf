/* SPDX-License-Identifier: Apache-2.0 */
/* scalar: what a scalar without quotes is by YAML 1.2 (core schema, section 10.3.2), as JSON. Pure.
 */
#ifndef PAWL_CONFIG_SCALAR_H
#define PAWL_CONFIG_SCALAR_H

#include "base/buf.h"

/* Appends null, true, false or a number. False, and nothing added: it is a text. */
bool scalar_add_json(struct slice text, struct buf *buf);

/* Whether it is .inf or .nan, numbers that JSON does not have. */
bool scalar_is_no_json(struct slice text);

#endif
