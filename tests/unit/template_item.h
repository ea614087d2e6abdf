/* SPDX-License-Identifier: Apache-2.0 */
/* One item of an input, and templates evaluated over it. */
#ifndef TESTS_UNIT_TEMPLATE_ITEM_H
#define TESTS_UNIT_TEMPLATE_ITEM_H

#include "template_request.h"

static inline const char *item_env(const char *name)
{
    if (strcmp(name, "REGION") == 0)
        return "eu west";
    return strcmp(name, "EMPTY") == 0 ? "" : NULL;
}

/* A job at 2026-02-20T03:00:00Z. `zones` is static memory. */
static inline void item_init(struct request *request, struct zones *zones)
{
    static const struct slice names[] = {{"America/New_York", 16}, {"Asia/Kolkata", 12}};
    request_init(request);
    zones->n = 0;
    for (size_t i = 0; i < 2; i++)
        assert_true(zones_add(zones, names[i], &request->arena));
    request->facts = (struct template_facts){
        .now_us = INT64_C(1771556400000000), .zones = zones, .env = item_env};
}

static inline void set_line(struct request *request, const char *line)
{
    request->facts.item = slice_of(line);
    request->facts.item_is_json = false;
    request->facts.payload = NULL;
}

static inline void set_json(struct request *request, const char *json)
{
    set_body(request, "application/json", json);
    assert_int_equal(request->payload.kind, PAYLOAD_IS_JSON);
    request->facts.item = slice_of(json);
    request->facts.item_is_json = true;
}

/* A record, and its columns as an object of strings. */
static inline void set_csv(struct request *request, const char *record, const char *columns)
{
    set_json(request, columns);
    request->facts.item = slice_of(record);
    request->facts.item_is_json = false;
}

#endif
