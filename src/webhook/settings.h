/* SPDX-License-Identifier: Apache-2.0 */
/* What webhooks are sent and received by, as the config says it: values only. The config embeds it.
 */
#ifndef PAWL_WEBHOOK_SETTINGS_H
#define PAWL_WEBHOOK_SETTINGS_H

#include "core/request/rule.h"
#include "core/retry/retry.h"
#include "core/web/networks.h"
#include "core/web/signature.h"

#define WEBHOOK_TYPES_MAX 16
#define WEBHOOK_TENANTS_MAX 16
#define WEBHOOK_FORMER_MAX 4
#define WEBHOOK_MEMBERS_MAX 8 /* of an envelope of the endpoint's own */

/* What an envelope may say of an event. */
enum webhook_fact {
    WEBHOOK_FACT_ID,
    WEBHOOK_FACT_TYPE,
    WEBHOOK_FACT_TIME,
    WEBHOOK_FACT_DATA,
    WEBHOOK_FACT_TENANT,
    WEBHOOK_FACT_SOURCE,
};
#define WEBHOOK_FACTS "id|type|time|data|tenant|source" /* in that order */

/* Of a JSON object, in this order. */
struct webhook_members {
    size_t n;
    struct {
        struct slice name;
        enum webhook_fact fact;
    } at[WEBHOOK_MEMBERS_MAX];
};

/* What the body of a request is: an object that has the event's data, or that alone. */
enum webhook_form { WEBHOOK_STANDARD, WEBHOOK_NONE, WEBHOOK_CLOUDEVENTS, WEBHOOK_OWN };
#define WEBHOOK_FORMS "standard|none|cloudevents" /* in that order */

struct webhook_envelope {
    enum webhook_form form;
    struct webhook_members own;
};

struct webhook_endpoint {
    struct slice name;
    struct slice url;
    size_t n_types;
    struct slice types[WEBHOOK_TYPES_MAX]; /* patterns, as `refund.*` */
    size_t n_tenants;
    struct slice tenants[WEBHOOK_TENANTS_MAX]; /* none: events of any tenant, or of none */
    size_t n_secrets;
    struct signature_secret secrets[SIGNATURE_SECRETS_MAX]; /* all of them sign */
    struct webhook_envelope envelope;
    bool ordered;
    bool skips; /* ordered: a dead delivery does not hold those behind it */
    enum retry_profile retry;
    struct retry_schedule schedule; /* the profile's, or delays of the endpoint's own */
    int64_t timeout_us;             /* of an attempt */
    size_t in_flight;
    size_t n_former;
    struct slice former[WEBHOOK_FORMER_MAX]; /* names that it had before */
    const struct webhook_endpoint *heir;     /* NULL; or this is but a former name of that one, for
                                                what was to be sent under it: it wants no type */
};

/* Reads an endpoint from a map as the config has it, a JSON object; texts will be in `texts`. NULL:
 * done; else what is wrong with it, in `texts` or a literal. */
typedef const char *webhook_reader(struct slice map, struct arena *texts,
                                   struct webhook_endpoint *ret_endpoint);

/* How what a sender sends is known to be its own. */
struct inbox_verify {
    struct signature_scheme scheme;
    size_t n_secrets;
    struct signature_secret secrets[SIGNATURE_SECRETS_MAX]; /* any of them will do */
    int64_t tolerance_us;                                   /* in either direction */
};

/* A source of events: who sends them to which route, and who handles them. */
struct inbox_source {
    struct slice name;
    struct slice source; /* what its events are known by: the name, or one that it had before */
    struct rule_match match;
    struct inbox_verify verify;
    struct template id;
    struct payload_selection payload; /* what of the body must be the same when an id repeats */
    int mismatch_status;              /* where that differs; 200: acknowledged all the same */
    uint64_t max_body;
    int64_t keep_us; /* how long an id is known from the end of its handling */
    bool has_order;
    struct template order; /* events with the same value are handled one after the other */
    bool skips;            /* a dead one does not hold those behind it */
    struct slice handler;  /* the URL to which it is posted */
    bool at_upstream;      /* it is one of the upstream */
    enum retry_profile retry;
    int64_t timeout_us; /* of an attempt */
    size_t in_flight;
};

/* Texts and lists are of the config's rules (core/request/rule.h): whoever keeps them keeps those.
 */
struct webhook_settings {
    struct networks allow; /* addresses that are not public, and may be sent to all the same */
    bool allow_http;
    struct slice source; /* `source` of CloudEvents */
    int64_t keep_us;     /* how long an event's id is known, at least, and its deliveries kept */
    const struct webhook_endpoint *endpoints; /* former names have entries of their own */
    size_t n_endpoints;
};

/* The same. */
struct inbox_settings {
    struct inbox_source *sources; /* only who reads the config changes them */
    size_t n_sources;
};

#endif
