/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/well_known.h"

#include "base/check.h"
#include "core/web/problem.h"
#include "gateway/events.h"
#include "gateway/response.h"

#define FRESH "max-age=60" /* a reload shows within a minute */

bool well_known_is_asked(const struct client *client, const struct http_request *request)
{
    bool reads =
        slice_eq(request->method, SLICE("GET")) || slice_eq(request->method, SLICE("HEAD"));
    return reads && client->plan->policy.len > 0 && slice_eq(request->path, SLICE(POLICY_PATH)) &&
           rule_request_is_safe(&request->headers, request->method);
}

/* If-None-Match, compared weakly (RFC 9110 13.1.2). */
static bool has_it(const struct http_request *request, struct slice tag)
{
    size_t at = 0;
    const struct header *line;
    while ((line = headers_next(&request->headers, SLICE("If-None-Match"), &at))) {
        struct slice rest = line->value, item;
        while (rest.len > 0) {
            rest = slice_cut(rest, ',', &item);
            item = slice_trim(item);
            if (slice_starts(item, SLICE("W/")))
                item = slice_skip(item, 2);
            if (slice_eq(item, tag) || slice_eq(item, SLICE("*")))
                return true;
        }
    }
    return false;
}

bool well_known_respond(struct client *client, const struct http_request *request)
{
    const struct plan *plan = client->plan;
    struct slice tag = slice_of(plan->policy_tag);
    CHECK(plan->policy.len > 0 && tag.len > 0);
    bool fresh = has_it(request, tag);
    struct response response RESPONSE_AUTO =
        response_make(client, fresh ? 304 : 200, slice_of(NULL), RESULT_PASSED);
    if (!fresh)
        headers_write_field(&response.headers, "Content-Type", SLICE("application/json"));
    headers_write_field(&response.headers, "ETag", tag);
    headers_write_field(&response.headers, "Cache-Control", SLICE(FRESH));
    bool goes_on = response_write(&response, buf_slice(&plan->policy));
    request_log(client, &(struct event){.status = response.status, .result = response.result});
    return goes_on;
}
