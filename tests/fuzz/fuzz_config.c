/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a config file. It is taken or refused with complaints; every complaint is one
 * printable line that names a place within the file; what is taken holds together, and what
 * `config explain` tells of it is a config again, of which it tells the same.
 */
#include "base/check.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "config/config.h"
#include "config/explain.h"
#include "core/request/policy.h"
#include "fuzz.h"
#include <stdio.h>

#define FILE_NAME "fuzz.yaml"
#define ROOM (1U << 20)

/* At most so many: YAML 1.1 ends a line with U+0085, U+2028 and U+2029 too, and libyaml puts what
 * is missing at the end of a file on the line after it. */
static size_t count_lines(const uint8_t *bytes, size_t n)
{
    size_t lines = 2;
    for (size_t i = 0; i < n; i++)
        lines += bytes[i] == '\n' || bytes[i] == '\r' || bytes[i] == 0xc2 || bytes[i] == 0xe2;
    return lines;
}

/* FILE:LINE:COLUMN: key: text, or FILE: N more. */
static void check_line(struct slice line, size_t lines)
{
    struct slice number;
    uint64_t value;
    CHECK(slice_starts(line, SLICE(FILE_NAME ":")));
    for (size_t i = 0; i < line.len; i++)
        CHECK((unsigned char)line.at[i] >= 0x20 && line.at[i] != 0x7f);
    line = slice_skip(line, strlen(FILE_NAME ":"));
    if (slice_starts(line, SLICE(" ")))
        return;
    line = slice_cut(line, ':', &number);
    CHECK(slice_to_u64(number, INT64_MAX, &value) && value >= 1);
    CHECK(value <= lines);
    line = slice_cut(line, ':', &number);
    CHECK(slice_to_u64(number, INT64_MAX, &value) && value >= 1);
    CHECK(slice_starts(line, SLICE(" ")) && line.len > strlen(" k: "));
}

static void check_complaints(const char *complaints, size_t lines)
{
    struct slice rest = slice_of(complaints);
    while (rest.len) {
        struct slice line;
        rest = slice_cut(rest, '\n', &line);
        CHECK(rest.at);
        check_line(line, lines);
    }
}

static void check_rule(const struct rule *rule)
{
    ARENA_AUTO struct arena arena = arena_make(ROOM);
    struct payload_selection selection;
    CHECK(rule->name.len > 0 && rule->match.methods != 0);
    CHECK(rule->key_format && rule->key.n > 0);
    CHECK(rule->tenant_none || rule->tenant.n > 0 || !rule->protect);
    CHECK(rule->ttl_us > 0 && rule->lease_us > 0 && rule->timeout_us > 0 && rule->settle_us >= 0);
    CHECK(rule->unknown != RECORD_UNKNOWN_PROBE || rule->probe.n > 0);
    CHECK(payload_recipe_read(rule->recipe, &arena, &selection));
    CHECK(selection.mode == rule->payload.mode);
    CHECK(selection.n_pointers == rule->payload.n_pointers);
    CHECK(!rule_match_lacks(&rule->match, &rule->key).at);
    CHECK(rule->mismatch_status >= 400 && rule->mismatch_status <= 499);
    CHECK(rule->duplicate != RULE_DUPLICATE_ACK || rule->ack_status / 100 == 2);
}

/* What is published is JSON whatever the rules say, and what stands in headers is one line. */
static void check_published(const struct config *config)
{
    ARENA_AUTO struct arena arena = arena_make(64 * ROOM);
    BUF_AUTO struct buf page = buf_make(POLICY_MAX);
    struct json *root;
    policy_write(config->gateway.rules, &page);
    CHECK(config->gateway.policy_off || buf_ok(&page));
    CHECK(!buf_ok(&page) || json_parse(&arena, buf_slice(&page), &root, NULL) == JSON_OK);
    for (size_t i = 0; i < config->gateway.public_url.len; i++)
        CHECK(config->gateway.public_url.at[i] > ' ' && config->gateway.public_url.at[i] <= '~');
    for (size_t i = 0; i < config->gateway.cors.n; i++)
        CHECK(config->gateway.cors.any || cors_is_origin(config->gateway.cors.origins[i]));
}

/* Tells what `text` comes to; what is told must be short enough to be a config. */
static bool explain(struct slice text, struct buf *to)
{
    char *complaints = NULL;
    bool good = explain_text(&(struct explain){.to = to}, FILE_NAME, text, &complaints);
    if (!good)
        fputs(complaints ? complaints : "out of memory\n", stderr);
    mem_free(complaints);
    CHECK(good && buf_ok(to));
    return to->len <= NODE_TEXT_MAX;
}

static void check_explained(struct slice text)
{
    BUF_AUTO struct buf first = buf_make(64 * ROOM);
    BUF_AUTO struct buf second = buf_make(64 * ROOM);
    BUF_AUTO struct buf third = buf_make(64 * ROOM);
    if (!explain(text, &first) || !explain(buf_slice(&first), &second) ||
        !explain(buf_slice(&second), &third))
        return;
    CHECK(slice_eq(buf_slice(&second), buf_slice(&third)));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char *complaints;
    struct config *config = config_parse(FILE_NAME, slice_make(bytes, n), &complaints);
    CHECK(complaints);
    CHECK(config || complaints[0]);
    check_complaints(complaints, count_lines(bytes, n));
    for (size_t i = 0; config && i < config->gateway.rules->n; i++)
        check_rule(&config->gateway.rules->rules[i]);
    if (config)
        check_published(config);
    if (config)
        check_explained(slice_make(bytes, n));
    mem_free(complaints);
    config_free(config);
    return 0;
}
