/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The config file: YAML, read into one immutable struct (contract section 11). One table of options
 * (config/options.h) gives parser, defaults and documentation.
 *
 * Every complaint names file, line, column, key, what was expected, and the nearest valid name.
 */
#ifndef PAWL_CONFIG_CONFIG_H
#define PAWL_CONFIG_CONFIG_H

#include "core/cors.h"
#include "core/networks.h"
#include "core/rule.h"

struct config_address {
    struct slice host; /* as written; IPv6 without brackets */
    uint16_t port;
};

struct config {
    struct rule_set *rules;         /* one reference */
    struct config_address listen;   /* default 127.0.0.1:8080 */
    struct config_address upstream; /* of `upstream: http://host[:port]` */
    struct slice store;             /* path of the SQLite file, resolved against the config file;
                                       empty: not in the config */
    struct config_address admin;    /* empty host: no admin listener */
    struct slice admin_token;       /* empty: none */
    bool log_keys_hashed;           /* `log_keys: hashed` */
    size_t threads;                 /* loop threads; 0: one per core */
    int64_t drain_delay_us;         /* 0: from SIGTERM until the drain begins */
    int64_t drain_us;               /* 25 s */
    int64_t head_timeout_us;        /* 10 s: absolute, a request's head */
    int64_t body_timeout_us;        /* 30 s: absolute, a ruled request's body */
    int64_t idle_timeout_us;        /* 75 s: a kept-alive client connection */
    int64_t read_timeout_us;        /* 75 s: between two reads where no `timeout:` bounds it */
    int64_t write_timeout_us;       /* 30 s: absolute, an answer to a client */
    int64_t connect_timeout_us;     /* 5 s */
    int64_t upstream_idle_us;       /* 1 s */
    int64_t store_timeout_us;       /* 10 s */
    int64_t retry_after_us;         /* 1 s: Retry-After on in progress */
    size_t max_connections;         /* 4096, in all */
    size_t max_per_address;         /* 0: any number */
    size_t max_in_flight;           /* 1024 ruled requests in flight */
    size_t max_per_tenant;          /* 0: any number of them */
    size_t max_waiting;             /* 10000 */
    size_t max_waiting_per_key;     /* 2000 */
    uint64_t max_buffered;          /* 256 MiB, bodies on ruled routes */
    uint64_t cache;                 /* 32 MiB of outcomes; 0: off */
    uint64_t disk_reserve;          /* 0: the smaller of 64 MiB and 10 % of the file system */
    bool unmatched_refuse;          /* `unmatched: refuse` */
    bool policy_off;                /* `policy: off` */
    struct cors_policy cors;        /* its texts belong to `rules` */
    struct slice public_url;        /* without a slash at its end; of `rules`; empty: none */
    unsigned allowed;               /* classes of warnings that the top allows (warnings.h) */
    struct slice notes;             /* lines as the warnings', of what to know; may be empty */
    struct networks trust_forwarded;
    struct arena arena; /* owns the texts above that `rules` does not */
};

/* Reads `path`. NULL: `*ret_complaints` (NUL-terminated, mem_free) holds one or more lines
 * `FILE:LINE:COLUMN: key: what is wrong (what was expected)` in the file's order, or one of the
 * file itself, `FILE: cannot be read: why`, or is NULL where memory ran out for them. On success it
 * holds the warnings (perhaps "": each a line of the same form). */
struct config *config_read(const char *path, char **ret_complaints);

/* The same from memory; `path` is for messages and for relative paths. */
struct config *config_parse(const char *path, struct slice text, char **ret_complaints);

/* Accepts NULL. */
void config_free(struct config *config);

#endif
