/* SPDX-License-Identifier: Apache-2.0 */
/* endpoint: which events one wants, and what it is sent. Pure. */
#ifndef PAWL_WEBHOOK_ENDPOINT_H
#define PAWL_WEBHOOK_ENDPOINT_H

#include "base/buf.h"
#include "store/tables/events.h"
#include "webhook/envelope.h"

/* Whether a config has one of that name. */
bool webhook_is_configured(const struct webhook_settings *settings, struct slice name);

/* `of_any_type`: where its tenant is what counts. */
bool webhook_endpoint_wants(const struct webhook_endpoint *endpoint,
                            const struct store_event *event, bool of_any_type);

/* Appends the request's body: of a rule and an event always the same bytes. */
void webhook_envelope_write(const struct envelope_rule *rule, const struct store_event *event,
                            struct buf *body);

/* Its Content-Type. */
struct slice webhook_envelope_type(const struct webhook_envelope *envelope);

#endif
