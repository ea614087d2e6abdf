/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one table of options: parser, defaults, suggestions and the printed reference come from it.
 * A new option is a line here, a field where it is used (core/request/rule.h, a module's header of
 * values that contents.h embeds), and, where no reader fits, a reader.
 *
 * X(name, where it is allowed, owner, field, reader, lowest, highest, default, help)
 *   owner, field: what the reader fills, `config` or `rule_draft`
 *   lowest, highest: of numbers, sizes (bytes) and durations (microseconds)
 *   default: YAML, read by the same reader; in parentheses: a description, no value to read
 *
 * CONFIG_PARTS: the members of an option that is a map, in the same terms, of the struct it fills
 *
 * A part of the process may bring a map of its own (struct config_sections).
 */
#ifndef PAWL_CONFIG_OPTIONS_H
#define PAWL_CONFIG_OPTIONS_H

#include "base/text/url.h"
#include "config/node.h"

/* Where an option is allowed. */
#define OPTION_TOP 1u
#define OPTION_DEFAULTS 2u
#define OPTION_RULE 4u
#define OPTION_RESTART 8u  /* beside these: has an effect at a start only, and a reload says so */
#define OPTION_GATEWAY 16u /* likewise: of the gateway, which there is with `upstream` */
#define OPTION_SECRET 32u  /* likewise: never shown, but for file:PATH and ${VARIABLE} */

#define SHARED (OPTION_DEFAULTS | OPTION_RULE)
#define OPTION_AT_START (OPTION_TOP | OPTION_RESTART)
#define MS CLOCK_US_PER_MS
#define HOUR (3600 * CLOCK_US_PER_S)
#define DAY (24 * HOUR)
#define KIB (INT64_C(1) << 10)
#define GIB (INT64_C(1) << 30)

#define CONFIG_OPTIONS(X)                                                                          \
    X(listen, OPTION_AT_START | OPTION_GATEWAY, config, listen, listen, 0, 0, "127.0.0.1:8080",    \
      "HOST:PORT where clients connect")                                                           \
    X(upstream, OPTION_TOP, config, upstream, upstream, 0, 0,                                      \
      "(none: pawl only delivers webhooks)",                                                       \
      "the service behind the gateway: http://HOST:PORT or https://HOST:PORT")                     \
    X(upstream_tls, OPTION_TOP | OPTION_GATEWAY, config, upstream_tls, upstream_tls, 0, 0,         \
      "(the system's roots)",                                                                      \
      "TLS to an https upstream: {ca: FILE, cert: FILE, key: FILE, server_name: NAME}")            \
    X(resolve, OPTION_TOP | OPTION_GATEWAY, config, resolve_us, duration, CLOCK_US_PER_S, DAY,     \
      "30s", "maximum age of the upstream's resolved addresses when pawl opens a connection")      \
    X(store, OPTION_AT_START, config, store, store, 0, 0, "(--store, else $PAWL_STORE, else XDG)", \
      "where records are kept: sqlite:PATH, postgres://USER@HOST/DATABASE, file:PATH")             \
    X(accept_weaker, OPTION_AT_START, config, accept_weaker, bool, 0, 0, "false",                  \
      "true: start on a store that may lose what it acknowledged (fsync = off, NFS, tmpfs, an "    \
      "asynchronous failover), and say so at every start; for commands PAWL_ACCEPT_WEAKER=true")   \
    X(admin, OPTION_AT_START, config, admin, listen, 0, 0, "(off)",                                \
      "HOST:PORT for metrics, health and the keys API; off loopback it needs admin_token")         \
    X(admin_token, OPTION_AT_START | OPTION_SECRET, config, admin_token, token, 0, 0, "(none)",    \
      "bearer token that the admin listener requires; file:PATH reads it from a file")             \
    X(log_keys, OPTION_TOP, config, gateway.log_keys_hashed, log_keys, 0, 0, "plain",              \
      "how log lines show idempotency keys: plain | hashed")                                       \
    X(tenant, OPTION_TOP | OPTION_RULE | OPTION_GATEWAY, rule_draft, rule.tenant, tenant, 0, 0,    \
      "(required)",                                                                                \
      "template of the tenant, which owns a set of keys; none: all clients share one set")         \
    X(trust_tenant, OPTION_TOP | OPTION_RULE | OPTION_GATEWAY, rule_draft, rule.trust_tenant,      \
      bool, 0, 0, "false", "true: the layer in front of pawl sets the tenant, and clients cannot") \
    X(secret, OPTION_TOP | OPTION_RULE | OPTION_GATEWAY, rule_draft, rule.secret, bool, 0, 0,      \
      "false",                                                                                     \
      "true: store only a keyed hash of the tenant; always so for cookies and Authorization")      \
    X(unmatched, OPTION_TOP | OPTION_GATEWAY, config, gateway.unmatched_refuse, unmatched, 0, 0,   \
      "pass", "requests that match no rule: pass | refuse")                                        \
    X(trust_forwarded, OPTION_TOP | OPTION_GATEWAY, config, gateway.trust_forwarded, networks, 0,  \
      0, "[127.0.0.0/8, \"::1/128\"]",                                                             \
      "peers whose X-Forwarded-Proto, -Host, -Port and Forwarded are kept; those of others are "   \
      "replaced or removed")                                                                       \
    X(cors, OPTION_TOP | OPTION_GATEWAY, config, gateway.cors, cors, 0, 0, "(none)",               \
      "origins whose pages may read the responses: {origins: [https://shop.example]}")             \
    X(policy, OPTION_TOP | OPTION_GATEWAY, config, gateway.policy_off, policy, 0, 0, "publish",    \
      "whether GET /.well-known/idempotency shows the rules: publish | off")                       \
    X(public_url, OPTION_TOP | OPTION_GATEWAY, config, gateway.public_url, public_url, 0, 0,       \
      "(none: relative)",                                                                          \
      "URL at which clients reach the gateway; links in its errors begin with it")                 \
    X(threads, OPTION_AT_START | OPTION_GATEWAY, config, gateway.threads, count, 0, 256, "0",      \
      "number of event loop threads; 0: one for each processor that affinity and quota allow")     \
    X(drain_delay, OPTION_TOP, config, drain_delay_us, duration, 0, HOUR, "0s",                    \
      "after SIGTERM, how long to keep serving while /readyz fails, so that balancers notice")     \
    X(drain, OPTION_TOP, config, drain_us, duration, 0, HOUR, "25s",                               \
      "after drain_delay, how long running exchanges may take to end")                             \
    X(reload, OPTION_TOP, config, reload_us, duration, 0, HOUR, "0s",                              \
      "how often to look whether the config file is another one, and reload it then; 0s: only at " \
      "SIGHUP")                                                                                    \
    X(roster_gone, OPTION_TOP, config, roster_gone_us, duration, HOUR / 60, 3650 * DAY, "24h",     \
      "how long deliveries wait for an endpoint or source that no running pawl has; then they "    \
      "are "                                                                                       \
      "dead")                                                                                      \
    X(head_timeout, OPTION_TOP | OPTION_GATEWAY, config, gateway.limits.headers_us, duration, MS,  \
      HOUR, "10s", "time to receive a request's header section, from its first byte")              \
    X(body_timeout, OPTION_TOP | OPTION_GATEWAY, config, gateway.limits.body_us, duration, MS,     \
      HOUR, "30s",                                                                                 \
      "time to receive the body of a ruled request; for other requests, the longest time between " \
      "two reads of the body")                                                                     \
    X(idle_timeout, OPTION_TOP | OPTION_GATEWAY, config, gateway.limits.idle_us, duration, MS,     \
      DAY, "75s", "how long a client connection is kept between two requests")                     \
    X(read_timeout, OPTION_TOP | OPTION_GATEWAY, config, gateway.read_timeout_us, duration, MS,    \
      DAY, "75s",                                                                                  \
      "longest silence of the upstream in requests without a rule, in streams and in "             \
      "WebSockets")                                                                                \
    X(write_timeout, OPTION_TOP | OPTION_GATEWAY, config, gateway.limits.write_us, duration, MS,   \
      HOUR, "30s", "time for a client to receive its response")                                    \
    X(connect_timeout, OPTION_TOP, config, gateway.connect_timeout_us, duration, MS, HOUR, "5s",   \
      "time to connect to the upstream")                                                           \
    X(upstream_idle, OPTION_TOP | OPTION_GATEWAY, config, gateway.upstream_idle_us, duration, 0,   \
      HOUR, "1s", "an upstream connection idle for longer carries no ruled request")               \
    X(store_timeout, OPTION_TOP, config, store_limits.timeout_us, duration, MS, HOUR, "10s",       \
      "while a transaction of the store takes longer, requests are handled as `store_down` says; " \
      "/readyz and pawl_store_up react after 5s")                                                  \
    X(store_sessions, OPTION_AT_START, config, store_sessions, sessions, 1, 8, "1",                \
      "sessions with PostgreSQL; auto: one for each 128 operations in flight, up to 8; a SQLite "  \
      "store has one")                                                                             \
    X(retry_after, OPTION_TOP | OPTION_GATEWAY, config, gateway.retry_after_us, duration, 0, HOUR, \
      "1s", "Retry-After of the error `in_progress`")                                              \
    X(max_connections, OPTION_AT_START | OPTION_GATEWAY, config, gateway.max_connections, count,   \
      1, 1000000, "4096", "maximum number of client connections")                                  \
    X(max_connections_per_address, OPTION_TOP | OPTION_GATEWAY, config,                            \
      gateway.limits.max_per_address, count, 0, 1000000, "0",                                      \
      "maximum number of client connections from one IPv4 address or IPv6 /64; 0: no limit")       \
    X(max_in_flight, OPTION_TOP | OPTION_GATEWAY, config, gateway.max_in_flight, count, 1,         \
      1000000, "1024",                                                                             \
      "maximum number of ruled requests in flight; waiting duplicates do not count")               \
    X(max_in_flight_per_tenant, OPTION_TOP | OPTION_GATEWAY, config,                               \
      gateway.max_in_flight_per_tenant, count, 0, 1000000, "0",                                    \
      "maximum number of ruled requests in flight of one tenant; 0: no limit")                     \
    X(max_waiting, OPTION_TOP | OPTION_GATEWAY, config, store_limits.max_waiting, count, 0,        \
      1000000, "10000", "maximum number of duplicates that wait for a first attempt")              \
    X(max_waiting_per_key, OPTION_TOP | OPTION_GATEWAY, config, store_limits.max_waiting_per_key,  \
      count, 0, 1000000, "2000", "maximum number of duplicates that wait for one key")             \
    X(max_buffered, OPTION_TOP | OPTION_GATEWAY, config, gateway.max_buffered, bodies, 1,          \
      1024 * GIB, "auto",                                                                          \
      "memory for bodies and replays on ruled routes; above it, new requests get 429; auto: "      \
      "256MiB, or 40 % of a container's memory if that is less")                                   \
    X(cache, OPTION_TOP | OPTION_GATEWAY, config, cache, cache, 0, 1024 * GIB, "auto",             \
      "memory for the cache of recent outcomes; 0: no cache; auto: 32MiB, or 5 % of a "            \
      "container's memory if that is less")                                                        \
    X(disk_reserve, OPTION_TOP, config, store_limits.disk_reserve, disk_reserve, 1, 1024 * GIB,    \
      "auto", "free space below which no operation begins; auto: 64MiB, or 10 % of a small disk")  \
    X(allow, OPTION_TOP | OPTION_RULE, rule_draft, allowed, allow, 0, 0, "[]",                     \
      "classes of warnings to suppress; each warning ends with its class in brackets")             \
    X(webhooks, OPTION_TOP, config, webhooks, webhooks, 0, 0, "(none)",                            \
      "events to send to others: {endpoints: [{name: billing, url: https://.., types: "            \
      "[refund.*], secret: whsec_..}]}")                                                           \
    X(inbox, OPTION_TOP | OPTION_GATEWAY, config, inbox, inbox, 0, 0, "(none)",                    \
      "sources of events that are received, each once: a list of {name: stripe, match: POST "      \
      "/hooks/stripe, verify: {scheme: stripe, secret: file:PATH}, handler: POST "                 \
      "/internal/stripe}")                                                                         \
    X(defaults, OPTION_TOP | OPTION_GATEWAY, rule_draft, rule, defaults, 0, 0, "(none)",           \
      "options for every rule that does not set them itself")                                      \
    X(rules, OPTION_TOP | OPTION_GATEWAY, config, gateway.rules, rules, 0, 0, "(none)",            \
      "the policy of each route; the first rule that matches a request applies")                   \
    X(name, OPTION_RULE, rule_draft, rule.name, name, 0, 0, "(required)",                          \
      "part of a record's identity; to rename a rule, add its old name to `formerly`")             \
    X(formerly, OPTION_RULE, rule_draft, rule.formerly, formerly, 0, 0, "(none)",                  \
      "earlier names of the rule, under which its records are still found")                        \
    X(key_space, OPTION_RULE, rule_draft, rule.key_space, name, 0, 0, "(the rule's name)",         \
      "name that rules share whose clients' keys are one key: on another of them it is a "         \
      "mismatch; "                                                                                 \
      "another rule's name, present or past, joins its keys")                                      \
    X(moved, OPTION_RULE, rule_draft, rule.moved, moved, 0, 0, "(none)",                           \
      "accepts one change of what keys are made of, as the message that refuses it names it: "     \
      "records from before it are not found, and their retries run again")                         \
    X(match, OPTION_RULE, rule_draft, rule.match, match, 0, 0, "(required)",                       \
      "METHOD[,METHOD] /path/{param}; * is every method that changes something, /** any rest "     \
      "of a path")                                                                                 \
    X(protect, SHARED, rule_draft, rule.protect, bool, 0, 0, "true",                               \
      "false: requests pass as if the route had no rule")                                          \
    X(authorize, SHARED, rule_draft, rule.authorize, authorize, 0, 0, "(none)",                    \
      "GET /path to send first, with the caller's headers; only after a 2xx pawl goes on")         \
    X(authorize_host, SHARED, rule_draft, rule.authorize_host, authority, 0, 0,                    \
      "(that of upstream:)", "HOST[:PORT] to send as Host of authorize requests")                  \
    X(key, SHARED, rule_draft, rule.key, key, 0, 0, "\"{header:Idempotency-Key}\"",                \
      "template of the key, such as \"{header:Idempotency-Key}\" or \"{body:/order_id}\"")         \
    X(require, SHARED, rule_draft, rule.require, bool, 0, 0, "true",                               \
      "true: a request without a key is refused; false: it passes unprotected")                    \
    X(key_syntax, SHARED, rule_draft, rule.key_syntax, key_syntax, 0, 0, "lenient",                \
      "lenient: k or \"k\"; strict: \"k\" only (RFC 9651 String)")                                 \
    X(key_format, SHARED, rule_draft, rule.key_format, key_format, 0, 0, "any",                    \
      "what a key must look like: any | uuid | uuid4 | uuid7 | {regex: PATTERN}")                  \
    X(key_max_age, SHARED, rule_draft, rule.key_max_age_us, duration, 0, 3650 * DAY,               \
      "(the rule's ttl)",                                                                          \
      "how old a key of uuid7 may be that begins an operation; an older one is refused; 0: any")   \
    X(forward_key, SHARED, rule_draft, rule.forward_key, forward_key, 0, 0,                        \
      "(quoted under key_syntax: strict, else bare where it can be)",                              \
      "how the key is sent to the upstream, however the client sent it: bare | quoted")            \
    X(ttl, SHARED, rule_draft, rule.ttl_us, duration, MS, CLOCK_NEVER, "24h",                      \
      "how long a response is kept after its completion; forever is allowed")                      \
    X(tombstone, SHARED, rule_draft, rule.tombstone_us, tombstone, 0, CLOCK_NEVER, "none",         \
      "how much longer the record is kept without its response")                                   \
    X(lease, SHARED, rule_draft, rule.lease_us, duration, 100 * MS, HOUR, "30s",                   \
      "how long an attempt owns its record; renewed while the attempt runs; 5s under unknown: "    \
      "participant")                                                                               \
    X(timeout, SHARED, rule_draft, rule.timeout_us, duration, MS, HOUR, "30s",                     \
      "time for the whole exchange with the upstream")                                             \
    X(in_progress, SHARED, rule_draft, rule.in_progress_wait_us, in_progress, 0, HOUR,             \
      "{wait: 10s}",                                                                               \
      "what a duplicate gets while the first attempt runs: {wait: DURATION} | conflict")           \
    X(unknown, SHARED, rule_draft, rule.unknown, unknown, 1000 * MS, 365 * DAY, "hold",            \
      "what happens when the outcome is in doubt: hold | {hold: DURATION} | retry | "              \
      "{probe: \"GET /path/{key}\", first: off | restored | always} | participant")                \
    X(probe_status, SHARED, rule_draft, rule.probe_status, probe_status, 200, 299,                 \
      "(the probe's own)", "status of the stored response when a probe finds the operation done")  \
    X(probe_headers, SHARED | OPTION_SECRET, rule_draft, rule.probe_headers, probe_headers, 0, 0,  \
      "(none)", "headers of probes in the background; written out, even as {}, it turns them on")  \
    X(not_found, SHARED, rule_draft, not_found, answers, 0, 0, "(404)",                            \
      "statuses, and conditions on JSON bodies ({body: /data/0, absent: true}), by which a probe " \
      "says that the operation was not done")                                                      \
    X(settle, SHARED, rule_draft, rule.settle_us, duration, 0, DAY, "(the rule's timeout)",        \
      "how long to wait after the last possible send before trusting \"not found\"")               \
    X(remember, SHARED, rule_draft, remember, remember, 0, 0, "final",                             \
      "which responses are kept and replayed: final | success | all")                              \
    X(not_done, SHARED, rule_draft, not_done, answers, 0, 0, "[]",                                 \
      "statuses, and conditions on JSON bodies ({body: /error/code, is: [BUSY]}), that mean the "  \
      "operation was surely not done; the key is released")                                        \
    X(in_doubt, SHARED, rule_draft, in_doubt, answers, 0, 0, "[]",                                 \
      "statuses, and conditions on JSON bodies as in not_done, that leave it in doubt whether "    \
      "the operation was done")                                                                    \
    X(once, OPTION_RULE, rule_draft, rule.once, once, 0, 0, "(none)",                              \
      "what must happen once whatever the key is: {key: TEMPLATE, ttl: DURATION, duplicate: "      \
      "reject}")                                                                                   \
    X(duplicate, SHARED, rule_draft, rule.duplicate, duplicate, 0, 0, "replay",                    \
      "response to a duplicate of a complete operation: replay | reject | ack | {ack: 204}")       \
    X(replay, SHARED, rule_draft, rule.copied, replay, 0, 0, "{copy: []}",                         \
      "what a replay takes from the request that gets it: {copy: [/id]}")                          \
    X(mismatch, SHARED, rule_draft, rule.mismatch_status, mismatch, 0, 0, "409",                   \
      "status when a key is reused with another request: 409 | 422 | 400")                         \
    X(retry, SHARED, rule_draft, rule.retry, retry, 0, 0, "none",                                  \
      "retries by the gateway itself: none | user_facing | api | background | scheduled | "        \
      "webhook | {profile: api, try_timeout: 5s, schedule: [1s, 5s]}")                             \
    X(store_down, SHARED, rule_draft, rule.store_down_pass, store_down, 0, 0, "refuse",            \
      "while the record store is down: refuse | pass (unprotected)")                               \
    X(body, SHARED, rule_draft, rule.body_json, body, 0, 0, "auto",                                \
      "auto: read a body by its Content-Type; json: read every body as JSON")                      \
    X(payload, SHARED, rule_draft, rule.payload, payload, 0, 0, "all",                             \
      "which part of the body is compared with the first request's: all | raw | ignore | "         \
      "{include: [/a]} | {exclude: [/b]}")                                                         \
    X(query, SHARED, rule_draft, rule.query, query, 0, 0, "all",                                   \
      "which query parameters are compared: all | none | [names]")                                 \
    X(headers, SHARED, rule_draft, rule.headers, headers, 0, 0, "[If-Match]",                      \
      "which request headers are compared")                                                        \
    X(max_request_body, SHARED, rule_draft, rule.max_request_body, size, 0, GIB, "1MiB",           \
      "a larger request body is refused")                                                          \
    X(max_response_body, SHARED, rule_draft, rule.max_response_body, size, 0, GIB / 2, "1MiB",     \
      "a larger response is passed on and not kept")                                               \
    X(keep_request, SHARED, rule_draft, rule.keep_request, size, 0, 16 * KIB, "0",                 \
      "how much of a request body is stored until its outcome is known, for `pawl keys show`")     \
    X(emit, OPTION_RULE, rule_draft, rule.emit, emit, 0, 0, "(none)",                              \
      "event to send to the endpoints of `webhooks` after a 2xx: {type: refund.created, data: "    \
      "response}")                                                                                 \
    X(errors, SHARED, rule_draft, rule.errors, errors, 0, 0, "(none)",                             \
      "bodies of pawl's own errors in the API's words: {templates: {default: '{\"error\": "        \
      "\"{detail}\"}'}}; in defaults also for errors before a rule is known")                      \
    X(stream, SHARED, rule_draft, rule.stream, bool, 0, 0, "false",                                \
      "true: responses are passed on as they come and not kept; a duplicate gets 410")             \
    X(replay_cookies, SHARED, rule_draft, rule.replay_cookies, bool, 0, 0, "false",                \
      "true: replays contain Set-Cookie")

#define CONFIG_PARTS(X)                                                                            \
    X(upstream_tls, ca, config_tls, ca, pem_file, 0, 0, "(the system's roots)",                    \
      "PEM file of the certificates to trust instead: of a CA, or the service's own")              \
    X(upstream_tls, cert, config_tls, cert, pem_file, 0, 0, "(none)",                              \
      "PEM file of the client certificate, followed by its chain")                                 \
    X(upstream_tls, key, config_tls, key, pem_file, 0, 0, "(none)",                                \
      "PEM file of the client certificate's private key, without a password")                      \
    X(upstream_tls, server_name, config_tls, server_name, server_name, 0, 0,                       \
      "(the host of upstream:)",                                                                   \
      "the name or address that the service's certificate must carry; a name is sent as SNI")      \
    X(once, key, rule_once, key, once_key, 0, 0, "(required)",                                     \
      "template of the once value, such as \"{body:/external_ref}\"")                              \
    X(once, ttl, rule_once, ttl_us, duration, MS, CLOCK_NEVER, "(the rule's ttl)",                 \
      "how long a value is held after completion; forever is allowed")                             \
    X(once, duplicate, rule_once, duplicate, once_duplicate, 0, 0, "reject",                       \
      "response to another key with the value of a complete operation: reject | replay | ack | "   \
      "{ack: 204}")                                                                                \
    X(once, payload, rule_once, any_payload, once_payload, 0, 0, "(what the rule compares)",       \
      "ignore: requests with the same value count as the same, whatever else differs")             \
    X(replay, copy, copied_members, at, copied, 0, 0, "[]",                                        \
      "JSON pointers to at most 4 members that `payload` excludes; their values in the request "   \
      "replace those in a JSON response")                                                          \
    X(retry, profile, rule_retry, profile, retry_profile, 0, 0, "user_facing",                     \
      "whose total time, and delays where `schedule` does not say them: user_facing | api | "      \
      "background | scheduled | webhook")                                                          \
    X(retry, try_timeout, rule_retry, try_timeout_us, duration, MS, HOUR, "(the rule's timeout)",  \
      "time for each attempt; one that was cut after a byte was sent is in doubt")                 \
    X(retry, schedule, rule_retry, schedule, delays, 0, DAY, "(the profile's)",                    \
      "list of delays before further attempts, each spread upward by up to 10 %: [1s, 5s]")        \
    X(errors, media_type, error_texts, media_type, json_type, 0, 0, "application/json",            \
      "Content-Type of the bodies: application/json or a type that ends in +json")                 \
    X(errors, templates, error_texts, at, error_templates, 0, 0, "(required)",                     \
      "JSON by error, the last word of its code, or default, with {code}, {error_code}, {title}, " \
      "{detail}, {hint}, {instance}, {key} and {trace_id} inside strings, and {status}, "          \
      "{retry_after}, {retryable}, {safe_new_key} as values")                                      \
    X(emit, type, emit, type, event_type, 0, 0, "(required)", "such as refund.created")            \
    X(emit, data, emit, data, emit_data, 0, 0, "response",                                         \
      "the event's data, where that is JSON: the body of the response | request | none")           \
    X(webhooks, allow, webhook_settings, allow, networks, 0, 0, "[]",                              \
      "private addresses that webhooks may be sent to all the same, such as 10.0.0.0/8")           \
    X(webhooks, allow_http, webhook_settings, allow_http, bool, 0, 0, "false",                     \
      "true: endpoints may be http://, where others can read what is sent")                        \
    X(webhooks, source, webhook_settings, source, event_source, 0, 0, "pawl",                      \
      "`source` of CloudEvents")                                                                   \
    X(webhooks, keep, webhook_settings, keep_us, duration, 2 * DAY, 3650 * DAY, "7d",              \
      "how long an event is kept once its deliveries have begun, and its id known")                \
    X(webhooks, endpoints, webhook_settings, endpoints, endpoints, 0, 0, "[]",                     \
      "who gets which events: a list of maps of name, url, types, secret, and perhaps tenants, "   \
      "envelope, ordered, on_failure, retry, schedule, timeout and in_flight")                     \
    X(cors, origins, cors_policy, origins, origins, 0, 0, "(required)",                            \
      "origins (scheme and host) of the pages, or \"*\" for all")                                  \
    X(cors, credentials, cors_policy, credentials, bool, 0, 0, "false",                            \
      "true: pages may send cookies; not with \"*\"")

/* What a value means where the help only names it: X(option, value, text). */
#define CONFIG_VALUES(X)                                                                           \
    X(unknown, "hold", "nothing is sent again until a late response or an operator settles it")    \
    X(unknown, "{hold: DURATION}",                                                                 \
      "the same, until so long after it went quiet; then the next attempt is sent once more")      \
    X(unknown, "retry", "the next attempt is sent; the service must deduplicate by the key")       \
    X(unknown, "probe",                                                                            \
      "a GET queries the service first; only \"not found\" lets it be sent again")                 \
    X(unknown, "participant", "the service stores the outcome in the transaction of its effect")   \
    X(in_progress, "wait", "it waits for the first response; after this time it gets 409")         \
    X(in_progress, "conflict", "409 at once")                                                      \
    X(duplicate, "replay", "the first response again")                                             \
    X(duplicate, "reject", "409")                                                                  \
    X(duplicate, "ack", "an empty 200, or 204")                                                    \
    X(retry, "none", "clients do it themselves, under the same key")                               \
    X(retry, "user_facing", "5 attempts in 10s, the first delays far under a second")              \
    X(retry, "api", "4 attempts in 10s")                                                           \
    X(retry, "background", "6 attempts in 5m")                                                     \
    X(retry, "scheduled", "4 attempts in 1h")                                                      \
    X(retry, "webhook", "10 attempts in 1d")                                                       \
    X(store_down, "refuse", "503, and nothing is sent")                                            \
    X(store_down, "pass", "the request is sent; a duplicate is, too")                              \
    X(remember, "final",                                                                           \
      "all but those that mean \"not done\" (such as 401, 429, 503) or doubt (500, 502, 504)")     \
    X(remember, "success", "as final, but a 4xx means \"not done\": the next attempt is sent")     \
    X(remember, "all", "all but redirects that a client follows (301, 307, 308)")                  \
    X(payload, "all", "the whole body; in JSON and forms neither order nor spacing counts")        \
    X(payload, "raw", "the bytes as they came")                                                    \
    X(payload, "ignore", "nothing")                                                                \
    X(payload, "include", "only these JSON pointers")                                              \
    X(payload, "exclude", "all but these JSON pointers")

/* Options to read about together; one is in one group at most. */
#define CONFIG_GROUPS(X)                                                                           \
    X("upstream|upstream_tls|resolve|connect_timeout|upstream_idle|read_timeout")                  \
    X("listen|trust_forwarded|public_url|max_connections|max_connections_per_address")             \
    X("store|accept_weaker|store_timeout|store_sessions|store_down|disk_reserve|cache")            \
    X("admin|admin_token|log_keys|policy")                                                         \
    X("tenant|trust_tenant|secret|authorize|authorize_host")                                       \
    X("drain_delay|drain")                                                                         \
    X("head_timeout|body_timeout|write_timeout|idle_timeout")                                      \
    X("max_in_flight|max_in_flight_per_tenant|max_waiting|max_waiting_per_key|max_buffered")       \
    X("name|formerly|key_space|moved|match|protect|unmatched")                                     \
    X("key|key_format|key_max_age|key_syntax|forward_key|require|once")                            \
    X("payload|query|headers|body|mismatch|max_request_body")                                      \
    X("lease|timeout|in_progress|retry_after")                                                     \
    X("unknown|probe_status|probe_headers|not_found|settle|keep_request")                          \
    X("remember|not_done|in_doubt|max_response_body|stream")                                       \
    X("ttl|tombstone|duplicate|replay|replay_cookies")

/* Options of the contract that this version does not have: refused, never passed over. */
#define CONFIG_LATER(X) X(tls)

/* What `lease` is under `unknown: participant` where the config does not say: for so long a record
 * waits that was completed for a gateway that died. */
#define PARTICIPANT_LEASE "5s"
#define PARTICIPANT_LEASE_US (INT64_C(5) * CLOCK_US_PER_S)

enum option_id {
#define X(name, ...) OPTION_##name,
    CONFIG_OPTIONS(X)
#undef X
        OPTION_COUNT
};

struct reader;
struct option;

/* Fills `field` from `node`, or complains and leaves it. */
typedef void option_reader(struct reader *reader, const struct option *option,
                           const struct node *node, void *field);

/* What the field of an option is. */
enum option_kind {
    OPTION_IS_OTHER, /* none that a restart can be needed for */
    OPTION_IS_BOOL,
    OPTION_IS_I64,     /* durations */
    OPTION_IS_SIZE,    /* counts and sizes */
    OPTION_IS_SLICE,   /* texts */
    OPTION_IS_ADDRESS, /* struct url_authority */
};
/* clang-format off */
#define OPTION_KIND(member)                                                                        \
    _Generic((member),                                                                             \
        bool: OPTION_IS_BOOL,                                                                      \
        int64_t: OPTION_IS_I64,                                                                    \
        size_t: OPTION_IS_SIZE,                                                                    \
        struct slice: OPTION_IS_SLICE,                                                             \
        struct url_authority: OPTION_IS_ADDRESS,                                                   \
        default: OPTION_IS_OTHER)
/* clang-format on */
#define OPTION_FIELD(owner, field)                                                                 \
    OPTION_KIND(((struct owner *)0)->field), offsetof(struct owner, field)

struct option {
    struct slice name;
    unsigned where;
    unsigned owner; /* of the field: the config or the rule draft; of a member: its map's id */
    enum option_kind kind;
    size_t offset; /* of the field */
    option_reader *read;
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
        SLICE(#name), 0, 0, OPTION_FIELD(owner, field), read_##reader, lowest, highest, fallback,  \
            help                                                                                   \
    }

/* One that is never shown. */
#define CONFIG_SECRET(name, owner, field, reader, fallback, help)                                  \
    {                                                                                              \
        SLICE(#name), OPTION_SECRET, 0, OPTION_FIELD(owner, field), read_##reader, 0, 0, fallback, \
            help                                                                                   \
    }

#endif
