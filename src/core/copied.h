/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copied: a kept JSON response with members of the request that asks again, so that the caller
 * recognises the response as its own (`replay: {copy: [/id]}`, contract section 5). Pure.
 *
 * Only scalars that are members of objects, on a way through objects alone, are copied: as they are
 * written in the request, over what is written in the response. All other bytes stay.
 */
#ifndef PAWL_CORE_COPIED_H
#define PAWL_CORE_COPIED_H

#include "base/buf.h"
#include "base/json/json.h"

#define COPIED_MAX 4                    /* members */
#define COPIED_VALUE_MAX ((size_t)1024) /* bytes of one, as it is written */

/* JSON pointers, checked when the config was read. */
struct copied_members {
    size_t n;
    struct slice at[COPIED_MAX];
};

/* A JSON text and its tree. */
struct copied_text {
    struct slice bytes;
    const struct json *json;
};

/* Appends `response` with the members of `request`. A member that either lacks, or that is no
 * scalar there, or too long, is left as it is. False: so are all, and nothing is appended. */
bool copied_write(const struct copied_members *members, const struct copied_text *request,
                  const struct copied_text *response, struct buf *buf);

#endif
