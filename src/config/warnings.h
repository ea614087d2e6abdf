/* SPDX-License-Identifier: Apache-2.0 */
/*
 * warnings: what a config may say and yet seldom means. Each warning is of a class with a name, so
 * that `allow: [NAME]` silences a warning that the operator accepts, while those of other classes
 * are still shown.
 */
#ifndef PAWL_CONFIG_WARNINGS_H
#define PAWL_CONFIG_WARNINGS_H

#include <stdbool.h>

/* X(identifier, name) */
#define CONFIG_WARNINGS(X)                                                                         \
    X(TENANT_OPEN, "tenant-open")                                                                  \
    X(TENANT_TOKEN, "tenant-token")                                                                \
    X(TENANT_COOKIE, "tenant-cookie")                                                              \
    X(TENANT_OPTIONAL, "tenant-optional")                                                          \
    X(AUTHORIZE_TENANT, "authorize-tenant")                                                        \
    X(PROBE_TENANT, "probe-tenant")                                                                \
    X(PROBE_KEY, "probe-key")                                                                      \
    X(PROBE_QUERY, "probe-query")                                                                  \
    X(PROBE_FIRST, "probe-first")                                                                  \
    X(UPSTREAM_REMEMBERS, "upstream-remembers")                                                    \
    X(STORE_DOWN_PASS, "store-down-pass")                                                          \
    X(NOTHING_COMPARED, "nothing-compared")                                                        \
    X(COOKIES_SHARED, "cookies-shared")                                                            \
    X(TTL_SHORT, "ttl-short")                                                                      \
    X(WINDOW_SHORT, "window-short")                                                                \
    X(KEY_BY_CLOCK, "key-by-clock")                                                                \
    X(REVERSE_MISSING, "reverse-missing")                                                          \
    X(TOKEN_READABLE, "token-readable")                                                            \
    X(TLS_KEY_READABLE, "tls-key-readable")                                                        \
    X(RULE_RENAMED, "rule-renamed")                                                                \
    X(IDENTITY_MOVED, "identity-moved")                                                            \
    X(HELD_500, "held-500")                                                                        \
    X(HOLD_ENDS, "hold-ends")                                                                      \
    X(PARTICIPANT_COMPLETES, "participant-completes")                                              \
    X(INBOX_ID_UNSIGNED, "inbox-id-unsigned")                                                      \
    X(EMIT_UNHEARD, "emit-unheard")                                                                \
    X(ERROR_MEMBER, "error-member")                                                                \
    X(ENDPOINT_UNSERVED, "endpoint-unserved")                                                      \
    X(MEMORY_LIMIT, "memory-limit")                                                                \
    X(ASYNC_STANDBY, "async-standby")                                                              \
    X(STORE_IN_IMAGE, "store-in-image")                                                            \
    X(DURABILITY_UNKNOWN, "durability-unknown")

enum warning {
#define X(name, text) WARNING_##name,
    CONFIG_WARNINGS(X)
#undef X
        WARNING_COUNT
};

/* The name of a class. */
const char *warning_name(enum warning warning);

/* Whether `allowed`, a bit for each class, silences it. */
static inline bool warning_is_allowed(unsigned allowed, enum warning warning)
{
    return allowed >> warning & 1;
}

#endif
