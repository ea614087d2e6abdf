/* SPDX-License-Identifier: Apache-2.0 */
#include "inside/names.h"

#include "base/clock.h"
#include "core/tenant.h"

#define KEY_MAX ((size_t)255)
#define RULE_MAX ((size_t)100)
#define TENANT_MAX ((size_t)1024)
#define SPAN_MOST_MS (INT64_C(100000) * 86400 * 1000)

static bool is_printable_name(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] < ' ' || text.at[i] > '~')
            return false;
    return true;
}

const char *names_problem(const char *tenant, const char *rule, const char *key)
{
    struct slice of_tenant = slice_of(tenant), of_rule = slice_of(rule), of_key = slice_of(key);
    if (of_key.len == 0 || of_key.len > KEY_MAX || !is_printable_name(of_key))
        return "the key must be 1 to 255 printable ASCII characters";
    if (of_rule.len == 0 || of_rule.len > RULE_MAX || !slice_is_word(of_rule, "._-"))
        return "the rule must be 1 to 100 of A-Z a-z 0-9 . _ -";
    if (of_tenant.len > TENANT_MAX || !is_printable_name(of_tenant))
        return "the tenant must be at most 1024 printable ASCII characters";
    if (tenant_is_reserved(of_tenant))
        return "the tenant must not begin with '" TENANT_HIDDEN
               "', which marks one that a gateway stores as a hash";
    return NULL;
}

bool names_span(int64_t ms, int64_t *ret_us)
{
    *ret_us = ms == INT64_MAX ? CLOCK_NEVER : (int64_t)((uint64_t)ms * CLOCK_US_PER_MS);
    return ms == INT64_MAX || (ms >= 0 && ms <= SPAN_MOST_MS);
}

bool names_digest(const char *hex, struct digest *ret_digest)
{
    *ret_digest = (struct digest){{0}};
    struct slice text = slice_of(hex);
    return !hex ||
           (text.len == DIGEST_HEX_SIZE && hex_decode(text, ret_digest->bytes, DIGEST_SIZE));
}
