/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy: what clients may know of the rules, as one JSON document (contract section 5,
 * `/.well-known/idempotency`). The `type` of a problem points into it: `#CODE` is a member of
 * `errors`. It names where keys and tenants come from, and never one of their values. Pure.
 *
 *     {"rules": [{"name", "match", "protected", "key", "tenant", "lifetime", "compared", "kept",
 *                 "duplicate", "mismatch_status", "in_progress", "unknown", "retry",
 *                 "store_down", "once", "max_request_body"}, ..],
 *      "errors": {CODE: {"status", "title", "retryable", "safe_new_key", "hint"}, ..}}
 *
 * `tenant.authorized`: the service authorizes each request before it begins. `kept.streamed`:
 * responses pass live, and only that there was one is kept. A rule with `protect: false` is listed
 * with `protected` false and nothing more: a client must know that a retry there may happen twice.
 */
#ifndef PAWL_CORE_POLICY_H
#define PAWL_CORE_POLICY_H

#include "core/request/rule.h"

#define POLICY_MAX ((size_t)8 * 1024 * 1024)

/* Appends the document. Spans are written as in the config (`72h`, `forever`), sizes in bytes. */
void policy_write(const struct rule_set *rules, struct buf *buf);

#endif
