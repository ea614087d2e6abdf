/* SPDX-License-Identifier: Apache-2.0 */
/* `webhooks:`, who is told of which events (contract section 9). */
#include "config/webhook_values.h"

#include "base/check.h"
#include "base/text/url.h"
#include "base/time/duration.h"
#include "config/option.h"
#include "config/reader.h"
#include "core/event_type.h"
#include "core/web/public_address.h"

#define ENDPOINTS_MAX 1000
#define SOURCE_MAX ((size_t)255)
#define SPAN_MAX 64
#define PROBLEM_MAX ((size_t)4096)
#define SCRATCH_MAX ((size_t)1024 * 1024)
#define AN_ENDPOINT                                                                                \
    "{name: billing, url: https://hooks.example.com/pawl, types: [refund.*], secret: whsec_..}"
#define A_MAP "{endpoints: [" AN_ENDPOINT "]}"
#define A_TYPE "a type such as refund.created, or refund.*"
#define A_SECRET "whsec_ or whsk_ and base64, or file:PATH of a file with that"
#define OWN_ENVELOPE "{eventId: id, eventType: type, timestamp: time, data: data}"

static bool is_source(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] <= ' ' || text.at[i] > '~')
            return false;
    return text.len > 0 && text.len <= SOURCE_MAX;
}

OPTION_READER(event_source)
{
    static const struct reader_text wanted = {
        is_source, "a URI such as pawl", "a URI of at most 255 bytes, such as pawl or /refunds"};
    reader_text(reader, node, &wanted, field);
}

/* ---- emit ---- */

#define AN_EMIT "{type: refund.created, data: response}"

OPTION_READER(event_type)
{
    static const char expected[] = "a type such as refund.created";
    static const struct reader_text wanted = {event_type_is_good, expected, expected};
    reader_text(reader, node, &wanted, field);
}

OPTION_READER(emit)
{
    struct emit emit = {0};
    size_t errors = reader->errors->n;
    if (!options_read_members(reader, option, node, AN_EMIT, &emit))
        return;
    if (emit.type.len == 0 && errors == reader->errors->n)
        reader_complain(reader, node, "has no type (expected " AN_EMIT ")");
    *(struct emit *)field = emit;
}

/* ---- one endpoint ---- */

static READER_NAMED(read_endpoint_url)
{
    struct slice text;
    struct url url;
    const char *problem;
    if (!reader_scalar(reader, node, "https://HOST/PATH", &text))
        return;
    if (!url_read(text, &url, &problem))
        reader_complain(reader, node, "the URL %s (expected https://HOST/PATH)", problem);
    else
        *(struct slice *)field = arena_copy(reader->texts, text);
}

static bool is_tenant_text(struct slice text)
{
    return text.len > 0;
}

#define LIST_READER(member, most, is_good, expected)                                               \
    static READER_NAMED(read_##member)                                                             \
    {                                                                                              \
        struct webhook_endpoint *endpoint = READER_STRUCT(field, webhook_endpoint, member);        \
        struct reader_texts texts = {.max = (most), .at = endpoint->member};                       \
        (void)reader_list(reader, node, is_good, expected, &texts);                                \
        endpoint->n_##member = texts.n;                                                            \
    }
LIST_READER(types, WEBHOOK_TYPES_MAX, event_type_is_pattern, A_TYPE)
LIST_READER(former, WEBHOOK_FORMER_MAX, reader_is_name, "an earlier name of the endpoint")
LIST_READER(tenants, WEBHOOK_TENANTS_MAX, is_tenant_text, "a tenant")
#undef LIST_READER

/* A complaint never shows what was given. */
static void read_endpoint_secret(struct reader *reader, const struct node *node,
                                 struct webhook_endpoint *endpoint)
{
    struct slice text;
    const char *path, *problem;
    CHECK(endpoint->n_secrets < SIGNATURE_SECRETS_MAX);
    if (!reader_scalar(reader, node, A_SECRET, &text) || !reader_secret(reader, node, &text, &path))
        return;
    if (!signature_secret_read(signature_scheme_find(SLICE("standard")), text, reader->texts,
                               &endpoint->secrets[endpoint->n_secrets], &problem))
        reader_complain(reader, node, "the secret %s (expected " A_SECRET ")", problem);
    else if (endpoint->secrets[endpoint->n_secrets].is_ed25519 &&
             endpoint->secrets[endpoint->n_secrets].key.len == 0)
        reader_complain(reader, node, "is a public key, which cannot sign (expected whsk_)");
    else
        endpoint->n_secrets++;
}

static READER_NAMED(read_secrets)
{
    struct webhook_endpoint *endpoint = READER_STRUCT(field, webhook_endpoint, secrets);
    if (node->kind != NODE_LIST) {
        read_endpoint_secret(reader, node, endpoint);
        return;
    }
    if (node->count > SIGNATURE_SECRETS_MAX)
        reader_not_a_list(reader, node, SIGNATURE_SECRETS_MAX, A_SECRET);
    for (const struct node *item = node->first; item && endpoint->n_secrets < SIGNATURE_SECRETS_MAX;
         item = item->next)
        read_endpoint_secret(reader, item, endpoint);
}

static READER_NAMED(read_envelope)
{
    struct webhook_envelope *envelope = field;
    struct webhook_members *own = &envelope->own;
    size_t index;
    if (node->kind != NODE_MAP) {
        if (reader_choice(reader, node, WEBHOOK_FORMS "|" OWN_ENVELOPE, &index))
            envelope->form = (enum webhook_form)index;
        return;
    }
    if (node->count == 0 || node->count > WEBHOOK_MEMBERS_MAX) {
        reader_complain(reader, node, "has no members, or more than %d (expected " OWN_ENVELOPE ")",
                        WEBHOOK_MEMBERS_MAX);
        return;
    }
    CHECK(own->n == 0);
    envelope->form = WEBHOOK_OWN;
    for (const struct node *one = node->first; one; one = one->next) {
        if (!reader_choice(reader, one, WEBHOOK_FACTS, &index))
            return;
        own->at[own->n].name = arena_copy(reader->texts, one->key);
        own->at[own->n++].fact = (enum webhook_fact)index;
    }
}

/* What was given; check_schedule makes the schedule of it. */
OPTION_READER(schedule)
{
    static const enum retry_form forms[] = {RETRY_OFFSETS, RETRY_DELAYS};
    struct retry_schedule *given = field;
    size_t index;
    if (node->kind == NODE_LIST) {
        given->form = RETRY_DELAYS;
        given->attempts = reader_delays(reader, option, node, &given->list) + 1;
    } else if (reader_choice(reader, node, "offsets|delays|[5s, 1m]", &index)) {
        given->form = forms[index];
    }
}

static const struct option endpoint_members[] = {
    CONFIG_MEMBER(name, webhook_endpoint, name, name, 0, 0, "(required)",
                  "what it is called in lists, metrics and commands"),
    CONFIG_MEMBER(url, webhook_endpoint, url, endpoint_url, 0, 0, "(required)",
                  "where events are sent"),
    CONFIG_MEMBER(types, webhook_endpoint, types, types, 0, 0, "(required)",
                  "types of events that it wants, such as [refund.*]"),
    CONFIG_SECRET(secret, webhook_endpoint, secrets, secrets, "(required)",
                  "what its requests are signed with; several sign while they rotate"),
    CONFIG_MEMBER(tenants, webhook_endpoint, tenants, tenants, 0, 0, "(all)",
                  "tenants whose events are sent to it"),
    CONFIG_MEMBER(envelope, webhook_endpoint, envelope, envelope, 0, 0, "standard",
                  "standard | none | cloudevents | " OWN_ENVELOPE),
    CONFIG_MEMBER(ordered, webhook_endpoint, ordered, bool, 0, 0, "false",
                  "true: one event after the other, in their order"),
    CONFIG_MEMBER(on_failure, webhook_endpoint, skips, on_failure, 0, 0, "park",
                  "what a dead delivery does to those behind it: park | skip"),
    CONFIG_MEMBER(retry, webhook_endpoint, retry, retry_profile, 0, 0, "webhook",
                  "profile of further attempts"),
    CONFIG_MEMBER(schedule, webhook_endpoint, schedule, schedule, 0, DAY, "(the profile's)",
                  "when attempts are due: offsets, from the first attempt | delays, from the end "
                  "of the attempt before | a list of one to nine such delays"),
    CONFIG_MEMBER(timeout, webhook_endpoint, timeout_us, duration, MS, HOUR, "15s",
                  "time for an attempt"),
    CONFIG_MEMBER(in_flight, webhook_endpoint, in_flight, count, 1, 256, "4", "attempts at a time"),
    CONFIG_MEMBER(formerly, webhook_endpoint, former, former, 0, 0, "[]",
                  "names that it had before: what is still to be sent under them is sent to it"),
};
static const struct option endpoint_option = {.members = endpoint_members,
                                              .n_members = COUNT_OF(endpoint_members)};

/* ---- all of them ---- */

static void check_endpoint(struct reader *reader, const struct node *node,
                           const struct webhook_endpoint *endpoint)
{
    const char *missing = endpoint->name.len == 0    ? "name"
                          : endpoint->url.len == 0   ? "url"
                          : endpoint->n_types == 0   ? "types"
                          : endpoint->n_secrets == 0 ? "secret"
                                                     : NULL;
    if (missing)
        reader_complain(reader, node, "an endpoint has no %s (expected " AN_ENDPOINT ")", missing);
}

/* What was given becomes the schedule. Its deadline leaves each attempt its time. */
static void check_schedule(struct reader *reader, const struct node *node,
                           struct webhook_endpoint *endpoint)
{
    const struct retry_schedule given = endpoint->schedule;
    struct retry_schedule *schedule = &endpoint->schedule;
    *schedule = *retry_profile_schedule(endpoint->retry);
    if (given.attempts == 0 && given.form != RETRY_BACKOFF && schedule->form != RETRY_OFFSETS)
        reader_complain(reader, node,
                        "the times of profile %.*s are no list (expected a list such as "
                        "[5s, 1m], or profile webhook)",
                        SLICE_ARG(retry_profile_name(endpoint->retry)));
    else if (given.attempts > 0)
        retry_schedule_set_delays(schedule, given.list, given.attempts - 1);
    else if (given.form == RETRY_DELAYS)
        retry_schedule_set_delays(schedule, schedule->list + 1, schedule->attempts - 1);
    if (schedule->form == RETRY_DELAYS)
        schedule->total_us =
            retry_schedule_most_us(schedule) + schedule->attempts * endpoint->timeout_us;
}

static void check_endpoint_name(struct reader *reader, const struct node *node,
                                const struct webhook_endpoint *endpoints, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (slice_eq(endpoints[i].name, endpoints[at].name))
            reader_complain(reader, node, "two endpoints have the name %.*s (expected another)",
                            SLICE_ARG(endpoints[at].name));
}

/* Appends what is wrong, without places: there is only one line. */
static const char *first_problem(const struct complaints *errors, struct arena *texts)
{
    BUF_AUTO struct buf text = buf_make(PROBLEM_MAX);
    buf_add_slice(&text, errors->at[0].text);
    buf_add_char(&text, '\0');
    struct slice copy = arena_copy(texts, buf_slice(&text));
    return copy.at ? copy.at : "out of memory";
}

static void read_foreign(struct reader *reader, struct slice map, struct webhook_endpoint *endpoint)
{
    const struct node *node = node_read_foreign(map, reader->scratch, reader->errors);
    struct url url;
    const char *problem;
    if (!node || !options_read_members(reader, &endpoint_option, node, AN_ENDPOINT, endpoint))
        return;
    if (reader->errors->n == 0)
        check_endpoint(reader, node, endpoint);
    if (reader->errors->n == 0)
        check_schedule(reader, node, endpoint);
    if (reader->errors->n == 0 && endpoint->n_former > 0)
        reader_complain(reader, node, "formerly is for endpoints of a config");
    if (reader->errors->n > 0)
        return;
    bool is_url = url_read(endpoint->url, &url, &problem);
    CHECK(is_url);
    const char *refusal = public_address_url_refusal(&url, true);
    if (refusal)
        reader_complain(reader, node, "the URL %s", refusal);
}

const char *config_read_endpoint(struct slice map, struct arena *texts,
                                 struct webhook_endpoint *ret_endpoint)
{
    ARENA_AUTO struct arena scratch = arena_make(SCRATCH_MAX);
    struct complaints errors;
    const char *problem = NULL;
    complaints_init(&errors, "endpoint");
    struct reader reader = {
        .errors = &errors, .scratch = &scratch, .texts = texts, .is_foreign = true};
    *ret_endpoint = (struct webhook_endpoint){0};
    read_foreign(&reader, map, ret_endpoint);
    if (errors.n > 0)
        problem = first_problem(&errors, texts);
    else if (scratch.failed || texts->failed)
        problem = "out of memory";
    complaints_fini(&errors);
    return problem;
}

/* Each former name is an endpoint that wants nothing. How many there are in all. */
static size_t add_former(struct reader *reader, const struct node *node,
                         struct webhook_endpoint *all, size_t n)
{
    size_t n_all = n;
    for (size_t i = 0; i < n; i++) {
        CHECK(all[i].n_former <= WEBHOOK_FORMER_MAX); /* for so many there is room */
        for (size_t f = 0; f < all[i].n_former; f++) {
            all[n_all] = all[i];
            all[n_all].name = all[i].former[f];
            all[n_all].n_types = all[n_all].n_former = 0;
            all[n_all].heir = &all[i];
            check_endpoint_name(reader, node, all, n_all++);
        }
    }
    return n_all;
}

OPTION_READER(endpoints)
{
    struct webhook_settings *settings = READER_STRUCT(field, webhook_settings, endpoints);
    if (node->kind != NODE_LIST || node->count > ENDPOINTS_MAX) {
        reader_not_a_list(reader, node, ENDPOINTS_MAX, AN_ENDPOINT);
        return;
    }
    struct webhook_endpoint *all =
        arena_alloc(reader->texts, (node->count * (1 + WEBHOOK_FORMER_MAX) + 1) * sizeof *all);
    size_t n = 0;
    if (!all)
        return;
    for (const struct node *item = node->first; item; item = item->next, n++) {
        size_t errors = reader->errors->n;
        all[n] = (struct webhook_endpoint){0};
        (void)options_read_members(reader, &endpoint_option, item, AN_ENDPOINT, &all[n]);
        if (reader->errors->n == errors)
            check_endpoint(reader, item, &all[n]);
        if (reader->errors->n == errors)
            check_schedule(reader, item, &all[n]);
        if (reader->errors->n == errors)
            check_endpoint_name(reader, item, all, n);
    }
    settings->endpoints = all;
    settings->n_endpoints = add_former(reader, node, all, n);
}

/* What no attempt could ever be made to is refused here; where a name leads is judged then. */
static void check_urls(struct reader *reader, const struct node *node,
                       const struct webhook_settings *settings)
{
    for (size_t i = 0; i < settings->n_endpoints; i++) {
        const struct webhook_endpoint *endpoint = &settings->endpoints[i];
        const char *problem;
        struct url url;
        if (endpoint->heir || !url_read(endpoint->url, &url, &problem))
            continue; /* it is, or was, complained about */
        const char *refusal = public_address_url_refusal(&url, settings->allow_http);
        if (refusal)
            reader_complain(reader, node, "the URL of %.*s %s%s", SLICE_ARG(endpoint->name),
                            refusal, url.tls ? "" : " (expected https://, or allow_http: true)");
    }
}

/* The window in which an id is known never ends before the last attempt could be made. */
static void check_keep(struct reader *reader, const struct node *node,
                       const struct webhook_settings *settings)
{
    BUF_AUTO struct buf least = buf_make(SPAN_MAX);
    for (size_t i = 0; i < settings->n_endpoints; i++) {
        const struct webhook_endpoint *endpoint = &settings->endpoints[i];
        int64_t least_us = clock_after(endpoint->schedule.total_us, DAY);
        if (settings->keep_us >= least_us)
            continue;
        duration_print(&least, least_us);
        reader_complain(reader, node,
                        "keep is shorter than the schedule of %.*s and a day (expected %.*s or "
                        "more)",
                        SLICE_ARG(endpoint->name), SLICE_ARG(buf_slice(&least)));
        return;
    }
}

OPTION_READER(webhooks)
{
    struct webhook_settings settings = {0};
    size_t errors = reader->errors->n;
    if (!options_read_members(reader, option, node, A_MAP, &settings))
        return;
    check_urls(reader, node, &settings);
    if (reader->errors->n == errors)
        check_keep(reader, node, &settings);
    *(struct webhook_settings *)field = settings;
}
