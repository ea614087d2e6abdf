/* SPDX-License-Identifier: Apache-2.0 */
/* What a client connection may take, as the config says it: values only. */
#ifndef PAWL_HTTP_SETTINGS_H
#define PAWL_HTTP_SETTINGS_H

#include <stddef.h>
#include <stdint.h>

/* Limits of one connection; durations are microseconds. */
struct http_limits {
    size_t max_per_address; /* connections of one address; 0: any number */
    int64_t idle_us;        /* between two requests */
    int64_t headers_us;     /* a request's headers */
    int64_t body_us;        /* its body, where the server reads it */
    int64_t write_us;       /* a response */
};

#endif
