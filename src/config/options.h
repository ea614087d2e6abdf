/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one table of options: parser, defaults, suggestions and the printed reference come from it.
 * A new option is a line here, a field where it is used (core/rule.h, a module's header of values
 * that contents.h embeds), and, where no reader fits, a reader.
 *
 * X(name, where it may stand, owner, field, reader, lowest, highest, default, help)
 *   owner, field: what the reader fills, `config` or `rule_draft`
 *   lowest, highest: of numbers, sizes (bytes) and spans (microseconds)
 *   default: YAML, read by the same reader; in parentheses: words, there is no value to read
 *
 * CONFIG_PARTS: the members of an option that is a map, in the same terms, of the struct it fills
 *
 * A part of the process may bring a map of its own (struct config_sections).
 */
#ifndef PAWL_CONFIG_OPTIONS_H
#define PAWL_CONFIG_OPTIONS_H

#include "config/node.h"

/* Where an option may stand. */
#define OPTION_TOP 1u
#define OPTION_DEFAULTS 2u
#define OPTION_RULE 4u
#define OPTION_RESTART 8u /* beside these: it counts at a start only, a reload says so */

#define SHARED (OPTION_DEFAULTS | OPTION_RULE)
#define OPTION_AT_START (OPTION_TOP | OPTION_RESTART)
#define MS CLOCK_US_PER_MS
#define HOUR (3600 * CLOCK_US_PER_S)
#define DAY (24 * HOUR)
#define KIB (INT64_C(1) << 10)
#define GIB (INT64_C(1) << 30)

#define CONFIG_OPTIONS(X)                                                                          \
    X(listen, OPTION_AT_START, config, listen, listen, 0, 0, "127.0.0.1:8080",                     \
      "where clients connect")                                                                     \
    X(upstream, OPTION_TOP, config, upstream, upstream, 0, 0, "(required)",                        \
      "http://HOST:PORT or https://HOST:PORT of the service behind the gateway")                   \
    X(upstream_tls, OPTION_TOP, config, upstream_tls, upstream_tls, 0, 0, "(the system's roots)",  \
      "how an https upstream is verified: {ca: FILE, cert: FILE, key: FILE, server_name: NAME}")   \
    X(resolve, OPTION_TOP, config, resolve_us, span, CLOCK_US_PER_S, DAY, "30s",                   \
      "how old the addresses of the upstream's name may be when a connection is made")             \
    X(store, OPTION_AT_START, config, store, store, 0, 0, "(--store, else $PAWL_STORE, else XDG)", \
      "sqlite:PATH, relative to this file")                                                        \
    X(admin, OPTION_AT_START, config, admin, listen, 0, 0, "(off)",                                \
      "HOST:PORT for metrics, health and the API of keys; off loopback it needs admin_token")      \
    X(admin_token, OPTION_AT_START, config, admin_token, token, 0, 0, "(none)",                    \
      "what `Authorization: Bearer` must carry at admin; file:PATH reads it from there")           \
    X(log_keys, OPTION_TOP, config, gateway.log_keys_hashed, log_keys, 0, 0, "plain",              \
      "idempotency keys in log lines: plain | hashed")                                             \
    X(tenant, OPTION_TOP | OPTION_RULE, rule_draft, rule.tenant, tenant, 0, 0, "(required)",       \
      "template of the tenant, whose keys never meet those of others; none: all clients are one")  \
    X(trust_tenant, OPTION_TOP | OPTION_RULE, rule_draft, rule.trust_tenant, bool, 0, 0, "false",  \
      "the layer in front of pawl sets the tenant, clients cannot")                                \
    X(secret, OPTION_TOP | OPTION_RULE, rule_draft, rule.secret, bool, 0, 0, "false",              \
      "the tenant is a credential: only its keyed hash is stored")                                 \
    X(unmatched, OPTION_TOP, config, gateway.unmatched_refuse, unmatched, 0, 0, "pass",            \
      "what no rule matches: pass | refuse")                                                       \
    X(trust_forwarded, OPTION_TOP, config, gateway.trust_forwarded, networks, 0, 0,                \
      "[127.0.0.0/8, \"::1/128\"]",                                                                \
      "peers whose X-Forwarded-Proto, -Host, -Port and Forwarded are kept; others' are replaced")  \
    X(cors, OPTION_TOP, config, gateway.cors, cors, 0, 0, "(none)",                                \
      "origins whose pages may read the responses: {origins: [https://shop.example]}")             \
    X(policy, OPTION_TOP, config, gateway.policy_off, policy, 0, 0, "publish",                     \
      "GET /.well-known/idempotency shows the rules: publish | off")                               \
    X(public_url, OPTION_TOP, config, gateway.public_url, public_url, 0, 0, "(none: relative)",    \
      "where clients find the gateway: links in its errors begin with it")                         \
    X(threads, OPTION_AT_START, config, gateway.threads, count, 0, 256, "0",                       \
      "loop threads; 0: one per core")                                                             \
    X(drain_delay, OPTION_TOP, config, drain_delay_us, span, 0, HOUR, "0s",                        \
      "after SIGTERM: how long to serve on while /readyz fails, so that balancers notice")         \
    X(drain, OPTION_TOP, config, drain_us, span, 0, HOUR, "25s",                                   \
      "after drain_delay: how long running exchanges may take to end")                             \
    X(head_timeout, OPTION_TOP, config, gateway.limits.head_us, span, MS, HOUR, "10s",             \
      "for a request's header section, from its first byte")                                       \
    X(body_timeout, OPTION_TOP, config, gateway.limits.body_us, span, MS, HOUR, "30s",             \
      "for a ruled request's body; between two reads of any other")                                \
    X(idle_timeout, OPTION_TOP, config, gateway.limits.idle_us, span, MS, DAY, "75s",              \
      "how long a client connection is kept between two requests")                                 \
    X(read_timeout, OPTION_TOP, config, gateway.read_timeout_us, span, MS, DAY, "75s",             \
      "longest silence of the upstream without a rule, in a stream, and of a WebSocket")           \
    X(write_timeout, OPTION_TOP, config, gateway.limits.write_us, span, MS, HOUR, "30s",           \
      "for a client to take its response")                                                         \
    X(connect_timeout, OPTION_TOP, config, gateway.connect_timeout_us, span, MS, HOUR, "5s",       \
      "to connect to the upstream")                                                                \
    X(upstream_idle, OPTION_TOP, config, gateway.upstream_idle_us, span, 0, HOUR, "1s",            \
      "an upstream connection idle for longer carries no ruled request")                           \
    X(store_timeout, OPTION_TOP, config, store_limits.timeout_us, span, MS, HOUR, "10s",           \
      "a batch that takes longer makes the store count as down")                                   \
    X(retry_after, OPTION_TOP, config, gateway.retry_after_us, span, 0, HOUR, "1s",                \
      "Retry-After of `in progress`")                                                              \
    X(max_connections, OPTION_AT_START, config, gateway.max_connections, count, 1, 1000000,        \
      "4096", "client connections in all")                                                         \
    X(max_connections_per_address, OPTION_TOP, config, gateway.limits.max_per_address, count, 0,   \
      1000000, "0", "client connections of one IPv4 address or IPv6 /64; 0: any number")           \
    X(max_in_flight, OPTION_TOP, config, gateway.max_in_flight, count, 1, 1000000, "1024",         \
      "ruled requests in flight at one time; waiting duplicates do not count")                     \
    X(max_in_flight_per_tenant, OPTION_TOP, config, gateway.max_in_flight_per_tenant, count, 0,    \
      1000000, "0", "ruled requests of one tenant in flight at one time; 0: any number")           \
    X(max_waiting, OPTION_TOP, config, store_limits.max_waiting, count, 0, 1000000, "10000",       \
      "duplicates waiting for their first, in all")                                                \
    X(max_waiting_per_key, OPTION_TOP, config, store_limits.max_waiting_per_key, count, 0,         \
      1000000, "2000", "duplicates waiting for one key")                                           \
    X(max_buffered, OPTION_TOP, config, gateway.max_buffered, size, 1, 1024 * GIB, "256MiB",       \
      "memory for bodies and replays on ruled routes; above it new requests get 429")              \
    X(cache, OPTION_TOP, config, cache, size, 0, 1024 * GIB, "32MiB",                              \
      "memory for recent outcomes; 0: off")                                                        \
    X(disk_reserve, OPTION_TOP, config, store_limits.disk_reserve, disk_reserve, 1, 1024 * GIB,    \
      "auto", "free space below which no operation begins; auto: 64MiB, or 10 % of a small disk")  \
    X(allow, OPTION_TOP | OPTION_RULE, rule_draft, allowed, allow, 0, 0, "[]",                     \
      "classes of warnings that are not shown: each warning ends in its class, in brackets")       \
    X(defaults, OPTION_TOP, rule_draft, rule, defaults, 0, 0, "(none)",                            \
      "options that hold for every rule unless it says otherwise")                                 \
    X(rules, OPTION_TOP, config, gateway.rules, rules, 0, 0, "(none)",                             \
      "the contract of each route; the first that matches wins")                                   \
    X(name, OPTION_RULE, rule_draft, rule.name, name, 0, 0, "(required)",                          \
      "part of a record's identity; a rule that is renamed says so in `formerly`")                 \
    X(formerly, OPTION_RULE, rule_draft, rule.formerly, formerly, 0, 0, "(none)",                  \
      "earlier names of the rule, whose records are still found")                                  \
    X(match, OPTION_RULE, rule_draft, rule.match, match, 0, 0, "(required)",                       \
      "METHOD[,METHOD] /path/{param}; * for every method that changes something, /** for any "     \
      "rest")                                                                                      \
    X(protect, SHARED, rule_draft, rule.protect, bool, 0, 0, "true",                               \
      "false: the route passes as if it had no rule")                                              \
    X(authorize, SHARED, rule_draft, rule.authorize, authorize, 0, 0, "(none)",                    \
      "GET /path: sent with the caller's headers before anything begins; 2xx goes on")             \
    X(authorize_host, SHARED, rule_draft, rule.authorize_host, authority, 0, 0,                    \
      "(that of upstream:)",                                                                       \
      "HOST[:PORT]: the Host of authorize requests, whatever the caller's was")                    \
    X(key, SHARED, rule_draft, rule.key, key, 0, 0, "\"{header:Idempotency-Key}\"",                \
      "template of the key, such as \"{header:Idempotency-Key}\" or \"{body:/order_id}\"")         \
    X(require, SHARED, rule_draft, rule.require, bool, 0, 0, "true",                               \
      "a request without a key is refused; false: it passes unprotected")                          \
    X(key_syntax, SHARED, rule_draft, rule.key_syntax, key_syntax, 0, 0, "lenient",                \
      "lenient: k or \"k\"; strict: \"k\" only (RFC 9651 String)")                                 \
    X(key_format, SHARED, rule_draft, rule.key_format, key_format, 0, 0, "any",                    \
      "any | uuid | uuid4 | {regex: PATTERN}")                                                     \
    X(forward_key, SHARED, rule_draft, rule.forward_key, forward_key, 0, 0,                        \
      "(quoted under key_syntax: strict, else bare where it can be)",                              \
      "how the upstream gets a key, however it was sent: bare | quoted")                           \
    X(ttl, SHARED, rule_draft, rule.ttl_us, span, MS, CLOCK_NEVER, "24h",                          \
      "how long a response is kept, from its completion; forever is allowed")                      \
    X(tombstone, SHARED, rule_draft, rule.tombstone_us, tombstone, 0, CLOCK_NEVER, "none",         \
      "how much longer the record stays, without its response")                                    \
    X(lease, SHARED, rule_draft, rule.lease_us, span, 100 * MS, HOUR, "30s",                       \
      "how long an attempt owns its record; renewed while it runs")                                \
    X(timeout, SHARED, rule_draft, rule.timeout_us, span, MS, HOUR, "30s",                         \
      "for the exchange with the upstream")                                                        \
    X(in_progress, SHARED, rule_draft, rule.in_progress_wait_us, in_progress, 0, HOUR,             \
      "{wait: 10s}", "a duplicate of a running request: {wait: DURATION} | conflict")              \
    X(unknown, SHARED, rule_draft, rule.unknown, unknown, 0, 0, "hold",                            \
      "outcome in doubt: hold | retry | {probe: \"GET /path/{key}\"}")                             \
    X(probe_status, SHARED, rule_draft, rule.probe_status, probe_status, 200, 299,                 \
      "(the probe's own)", "status of the kept response where a probe found that it was done")     \
    X(settle, SHARED, rule_draft, rule.settle_us, span, 0, DAY, "(the rule's timeout)",            \
      "how long to wait after the last possible send before trusting \"not found\"")               \
    X(remember, SHARED, rule_draft, remember, remember, 0, 0, "final",                             \
      "which responses are the outcome, kept and replayed: final | success | all")                 \
    X(not_done, SHARED, rule_draft, not_done, statuses, 0, 0, "[]",                                \
      "statuses that say it was surely not done: the key is released")                             \
    X(in_doubt, SHARED, rule_draft, in_doubt, statuses, 0, 0, "[]",                                \
      "statuses that leave it open whether it was done")                                           \
    X(once, OPTION_RULE, rule_draft, rule.once, once, 0, 0, "(none)",                              \
      "what must happen once whatever key comes: {key: TEMPLATE, ttl: DURATION, duplicate: "       \
      "reject}")                                                                                   \
    X(duplicate, SHARED, rule_draft, rule.duplicate, duplicate, 0, 0, "replay",                    \
      "a repeat of what is complete: replay | reject | ack | {ack: 204}")                          \
    X(mismatch, SHARED, rule_draft, rule.mismatch_status, mismatch, 0, 0, "409",                   \
      "status for a key reused with another request: 409 | 422 | 400")                             \
    X(retry, SHARED, rule_draft, rule, retry, 0, 0, "none",                                        \
      "what the gateway sends again by itself: none; profiles are not in this version")            \
    X(store_down, SHARED, rule_draft, rule.store_down_pass, store_down, 0, 0, "refuse",            \
      "while the record store is down: refuse | pass (unprotected)")                               \
    X(body, SHARED, rule_draft, rule.body_json, body, 0, 0, "auto",                                \
      "auto: Content-Type says what a body is; json: it is JSON whatever that says")               \
    X(payload, SHARED, rule_draft, rule.payload, payload, 0, 0, "all",                             \
      "what of the body counts: all | raw | ignore | {include: [/a]} | {exclude: [/b]}")           \
    X(query, SHARED, rule_draft, rule.query, query, 0, 0, "all",                                   \
      "what of the query counts: all | none | [names]")                                            \
    X(headers, SHARED, rule_draft, rule.headers, headers, 0, 0, "[If-Match]",                      \
      "headers that count")                                                                        \
    X(max_request_body, SHARED, rule_draft, rule.max_request_body, size, 0, GIB, "1MiB",           \
      "a larger request is refused")                                                               \
    X(max_response_body, SHARED, rule_draft, rule.max_response_body, size, 0, GIB / 2, "1MiB",     \
      "a larger response passes and is not kept")                                                  \
    X(keep_request, SHARED, rule_draft, rule.keep_request, size, 0, 16 * KIB, "0",                 \
      "how much of a request's body is stored until its outcome is known, for `pawl keys show`")   \
    X(stream, SHARED, rule_draft, rule.stream, bool, 0, 0, "false",                                \
      "every response passes as it comes and none is kept: a duplicate gets 410")                  \
    X(replay_cookies, SHARED, rule_draft, rule.replay_cookies, bool, 0, 0, "false",                \
      "keep Set-Cookie in replays")

#define CONFIG_PARTS(X)                                                                            \
    X(upstream_tls, ca, config_tls, ca, pem_file, 0, 0, "(the system's roots)",                    \
      "PEM file of the certificates that are trusted instead: a CA's, or the service's own")       \
    X(upstream_tls, cert, config_tls, cert, pem_file, 0, 0, "(none)",                              \
      "PEM file of the client certificate, its chain behind it")                                   \
    X(upstream_tls, key, config_tls, key, pem_file, 0, 0, "(none)",                                \
      "PEM file of the client certificate's key, without a password")                              \
    X(upstream_tls, server_name, config_tls, server_name, server_name, 0, 0,                       \
      "(the host of upstream:)",                                                                   \
      "the name or address that the service's certificate must carry; a name is sent as SNI")      \
    X(once, key, rule_once, key, once_key, 0, 0, "(required)",                                     \
      "template of the once value, such as \"{body:/external_ref}\"")                              \
    X(once, ttl, rule_once, ttl_us, span, MS, CLOCK_NEVER, "(the rule's ttl)",                     \
      "how long a value is held, from completion; forever is allowed")                             \
    X(once, duplicate, rule_once, duplicate, once_duplicate, 0, 0, "reject",                       \
      "a repeat of what is complete, under another key: reject | replay | ack | {ack: 204}")       \
    X(once, payload, rule_once, any_payload, once_payload, 0, 0, "(what the rule compares)",       \
      "ignore: all requests with the value count as the same, whatever else they say")             \
    X(cors, origins, cors_policy, origins, origins, 0, 0, "(required)",                            \
      "scheme and host of the pages, or \"*\" for all")                                            \
    X(cors, credentials, cors_policy, credentials, bool, 0, 0, "false",                            \
      "true: pages may send cookies; not with \"*\"")

/* Options of the contract that this version does not have: refused, never passed over. */
#define CONFIG_LATER(X)                                                                            \
    X(accept_weaker)                                                                               \
    X(tls)

enum option_id {
#define X(name, ...) OPTION_##name,
    CONFIG_OPTIONS(X)
#undef X
        OPTION_COUNT
};

struct reader;

struct option {
    struct slice name;
    unsigned where;
    unsigned owner; /* of the field: the config or the rule draft; of a member: its map's id */
    size_t offset;  /* of the field */
    /* Fills `field` from `node`, or complains and leaves it. */
    void (*read)(struct reader *reader, const struct option *option, const struct node *node,
                 void *field);
    int64_t lowest;
    int64_t highest;
    const char *fallback;
    const char *help;
    /* A section: a map at the top of the config that a part of the process brings. */
    const struct option *members;
    size_t n_members;
    size_t size; /* of the struct that they fill (config_section) */
};

#define CONFIG_MEMBERS_MAX 16 /* of one map */

/* A member of a section: the struct it is in, then as in CONFIG_OPTIONS. */
#define CONFIG_MEMBER(name, owner, field, reader, lowest, highest, fallback, help)                 \
    {                                                                                              \
        SLICE(#name), 0, 0, offsetof(struct owner, field), read_##reader, lowest, highest,         \
            fallback, help                                                                         \
    }

#endif
