/* SPDX-License-Identifier: Apache-2.0 */
#include "core/web/cors.h"

#define EXPOSED "Idempotency-Status, Idempotent-Replayed, Error-Code, Retry-After"

/* ---- origins ---- */

static bool all_of(struct slice text, const char *marks)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (!plain && (c == '\0' || !strchr(marks, c)))
            return false;
    }
    return text.len > 0;
}

static bool is_port(struct slice port, struct slice scheme)
{
    uint64_t number;
    if (!slice_to_u64(port, UINT16_MAX, &number) || number == 0 || port.at[0] == '0')
        return false;
    bool usual = (slice_eq(scheme, SLICE("http")) && number == 80) ||
                 (slice_eq(scheme, SLICE("https")) && number == 443);
    return !usual;
}

/* HOST[:PORT], or an IPv6 address in brackets. */
static bool is_authority(struct slice text, struct slice scheme)
{
    struct slice host, port;
    if (text.len > 0 && text.at[0] == '[') {
        struct slice rest = slice_cut(slice_skip(text, 1), ']', &host);
        if (!rest.at || !all_of(host, ":.") || (rest.len > 0 && rest.at[0] != ':'))
            return false;
        return rest.len == 0 || is_port(slice_skip(rest, 1), scheme);
    }
    port = slice_cut(text, ':', &host);
    return all_of(host, "-._") && (!port.at || is_port(port, scheme));
}

bool cors_is_origin(struct slice text)
{
    struct slice scheme;
    struct slice rest = slice_cut(text, ':', &scheme);
    if (!rest.at || !slice_starts(rest, SLICE("//")) || !all_of(scheme, "+-."))
        return false;
    return is_authority(slice_skip(rest, 2), scheme);
}

static bool is_allowed(const struct cors_policy *cors, struct slice origin)
{
    for (size_t i = 0; i < cors->n; i++)
        if (slice_eq(cors->origins[i], origin))
            return true;
    return false;
}

/* ---- fields ---- */

bool cors_is_own(struct slice name)
{
    struct slice prefix = SLICE("Access-Control-");
    return name.len > prefix.len && slice_eq_nocase(slice_make(name.at, prefix.len), prefix);
}

static bool names_origin(struct slice list)
{
    while (list.len > 0) {
        struct slice item;
        list = slice_cut(list, ',', &item);
        item = slice_trim(item);
        if (slice_eq(item, SLICE("*")) || slice_eq_nocase(item, SLICE("Origin")))
            return true;
    }
    return false;
}

static bool varies_by_origin(struct slice fields)
{
    struct slice name, value;
    while (fields_next(&fields, &name, &value))
        if (slice_eq_nocase(name, SLICE("Vary")) && names_origin(value))
            return true;
    return false;
}

void cors_write_fields(const struct cors_policy *cors, struct slice origin, struct slice fields,
                       struct buf *buf)
{
    if (!cors_is_on(cors))
        return;
    if (!varies_by_origin(fields))
        fields_add(buf, SLICE("Vary"), SLICE("Origin"));
    if (!cors->any && !is_allowed(cors, origin))
        return;
    fields_add(buf, SLICE("Access-Control-Allow-Origin"), cors->any ? SLICE("*") : origin);
    if (cors->credentials)
        fields_add(buf, SLICE("Access-Control-Allow-Credentials"), SLICE("true"));
    fields_add(buf, SLICE("Access-Control-Expose-Headers"), SLICE(EXPOSED));
}
