/* SPDX-License-Identifier: Apache-2.0 */
/* What a config says. */
#ifndef PAWL_CONFIG_CONTENTS_H
#define PAWL_CONFIG_CONTENTS_H

#include "base/text/url.h"
#include "gateway/settings.h"
#include "store/settings.h"
#include "webhook/settings.h"

struct config_file {
    struct slice path; /* resolved against the config file; `.at` NULL: none */
    struct slice at;   /* FILE:LINE:COLUMN, for the complaint that it is unusable */
};

struct config_tls {
    bool on; /* `upstream: https://` */
    struct config_file ca;
    struct config_file cert; /* both or none */
    struct config_file key;
    struct slice server_name; /* empty: the host of `upstream` */
};

/* Maps at the top of the config that are not the table's, but of parts of the process (options.h).
 */
#define CONFIG_SECTIONS_MAX 16
struct option;
struct config_sections {
    size_t n;
    const struct option *at[CONFIG_SECTIONS_MAX];
};

struct config {
    struct gateway_settings gateway; /* with one reference to its rules */
    struct store_limits store_limits;
    size_t store_sessions; /* 0: by what is in flight */
    struct webhook_settings webhooks;
    struct inbox_settings inbox;
    struct url_authority upstream; /* of `upstream: http://host[:port]`; empty host: none, so
                                      there is no gateway */
    struct url_authority listen;   /* default 127.0.0.1:8080; empty host: no gateway */
    struct config_tls upstream_tls;
    int64_t resolve_us;         /* how long the addresses of its name hold */
    struct url_authority admin; /* empty host: no admin listener */
    struct slice admin_token;   /* empty: none */
    struct slice store;         /* path of the SQLite file, resolved against the config file;
                                   empty: not in the config */
    bool store_is_postgres;     /* it is the URL of a database */
    bool accept_weaker;         /* a store that promises less is good enough */
    uint64_t cache;             /* bytes of outcomes; 0: off */
    int64_t drain_delay_us;     /* from SIGTERM until the drain begins */
    int64_t drain_us;           /* and how long that may take */
    int64_t reload_us;          /* between two looks at the config file; 0: none */
    int64_t roster_gone_us;     /* until what no process has any more is given up */
    unsigned allowed;           /* classes of warnings that the top allows (warnings.h) */
    struct slice notes;         /* lines as the warnings', of what to know; may be empty */
    struct config_sections sections;
    void *section_values[CONFIG_SECTIONS_MAX]; /* what each fills */
    struct arena arena;                        /* owns the texts above that the rules do not */
};

/* Else it only delivers webhooks (docs/decisions/0039). */
static inline bool config_has_gateway(const struct config *config)
{
    return config->upstream.host.len > 0;
}

#endif
