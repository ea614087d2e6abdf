/* SPDX-License-Identifier: Apache-2.0 */
/* The vectors by which clients in other languages are checked: what pawl itself makes of these
 * inputs is what the published file says.
 *
 * usage: test_vectors FILE           compares
 *        test_vectors --print >FILE  writes it anew
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/headers.h"
#include "client/operation.h"
#include "core/retry/retry.h"
#include "payload_reading.h"
#include "responses.h"

#define FILE_MAX ((size_t)1 << 20)
#define MS CLOCK_US_PER_MS
#define S CLOCK_US_PER_S
#define N_OF(array) (sizeof(array) / sizeof((array)[0]))
#define WALL (INT64_C(1795338000) * S) /* 2026-11-22T09:00:00Z */
/* No hint is longer in the file: a double holds its milliseconds. */
#define HINT_MOST (INT64_C(9999999999) * S)

static const char *path;

static void open_item(struct buf *buf)
{
    json_next_item(buf);
    buf_add_str(buf, "\n  {");
}

static void open_list(struct buf *buf, const char *name)
{
    buf_add_str(buf, buf->len > 1 ? ",\n" : "\n");
    buf_printf(buf, "\"%s\": [", name);
}

static void close_list(struct buf *buf)
{
    buf_add_str(buf, "\n]");
}

/* ---- canonical form and payload hash ---- */

static const char *const bodies[] = {
    "{}",
    "",
    " [ ] ",
    "{\"b\":1,\"a\":2}",
    "{\"a\": [1.0, 1, 1e0, -0, 0.0, 1E30, 1e21, 1e20, 123456789012345678901, 0.000001, 1e-7]}",
    "[9007199254740993, 9007199254740992, 0.1, 0.10, 100e-2, 12.50, 1234567890123456789012]",
    "[1e9999, 1e-9999, 10e-10000]",
    "[1e10000]",
    "[1e-10000]",
    "{\"\\u20ac\":1,\"\\r\":2,\"\\ufb33\":3,\"1\":4,\"\\ud83d\\ude00\":5,\"\\u0080\":6}",
    "\"\\u0000\\b\\t\\n\\f\\r\\u001f\\u007f\\\"\\\\\\/\\u2028<&>\"",
    "{\"name\":\"Zo\xc3\xab\",\"nested\":{\"z\":[null,true,false],\"y\":{}}}",
    "{\"a\":1,\"\\u0061\":1}",
    "[\"\\ud800\"]",
    "[\"\\udc00\\ud800\"]",
    "\xef\xbb\xbf{}",
    "[1,]",
    "[01]",
    "[1.]",
    "[+1]",
    "[NaN]",
    "[Infinity]",
    "{} {}",
    "{'a':1}",
    "[\"\t\"]",
    "\v[]",
    "{\"amount\": 1000, \"currency\": \"EUR\"}",
    "{\"currency\":\"EUR\",\"amount\":1e3}",
    "not JSON",
};

static void add_body(struct buf *buf, struct slice body)
{
    READING_AUTO struct reading reading;
    char hash[DIGEST_HEX_SIZE + 1];
    read_body(&reading, body, JSON_TYPE, &everything);
    hex_encode(&reading.hash, sizeof reading.hash, hash);
    open_item(buf);
    json_add_text(buf, "body", body);
    json_add_text(buf, "canonical", buf_slice(&reading.canonical));
    json_add_text(buf, "payload_hash", slice_of(hash));
    buf_add_char(buf, '}');
}

/* `n` times `begin`, then `n` times `end`. */
static void add_long_body(struct buf *buf, size_t n, const char *begin, const char *end)
{
    BUF_AUTO struct buf body = buf_make(FILE_MAX);
    for (size_t i = 0; i < n; i++)
        buf_add_str(&body, begin);
    for (size_t i = 0; i < n; i++)
        buf_add_str(&body, end);
    add_body(buf, buf_slice(&body));
}

static void add_bodies(struct buf *buf)
{
    open_list(buf, "canonical");
    for (size_t i = 0; i < N_OF(bodies); i++)
        add_body(buf, slice_of(bodies[i]));
    add_long_body(buf, 200, "[", "]");
    add_long_body(buf, 201, "[", "]");
    add_long_body(buf, 1000, "1", "");
    add_long_body(buf, 1001, "1", "");
    add_long_body(buf, 1001, "1", "0");
    close_list(buf);
}

/* ---- keys ---- */

static void add_keys(struct buf *buf)
{
    static const uint64_t bits[][2] = {{0, 0},
                                       {UINT64_MAX, UINT64_MAX},
                                       {0x0123456789abcdef, 0xfedcba9876543210},
                                       {0x00112233445566ff, 0x8899aabbccddeeff}};
    open_list(buf, "keys");
    for (size_t i = 0; i < N_OF(bits); i++) {
        char key[CLIENT_KEY_SIZE];
        uuid_format(4, bits[i][0], bits[i][1], key);
        open_item(buf);
        buf_printf(buf, "\"random\":\"%016llx%016llx\"", (unsigned long long)bits[i][0],
                   (unsigned long long)bits[i][1]);
        json_add_text(buf, "key", slice_of(key));
        buf_add_char(buf, '}');
    }
    close_list(buf);
}

/* Of milliseconds since 1970, and the same random bits: RFC 9562, appendix A.6, first. */
static void add_dated_keys(struct buf *buf)
{
    static const struct {
        int64_t made_ms;
        uint64_t high, low;
    } rows[] = {{1645557742000, 0x0000000000000cc3, 0x18c4dc0c0c07398f},
                {0, 0, 0},
                {281474976710655, UINT64_MAX, UINT64_MAX},
                {1767225600001, 0x00112233445566ff, 0x8899aabbccddeeff}};
    open_list(buf, "dated_keys");
    for (size_t i = 0; i < N_OF(rows); i++) {
        char key[CLIENT_KEY_SIZE];
        client_format_dated_key(rows[i].made_ms, rows[i].high, rows[i].low, key);
        open_item(buf);
        buf_printf(buf, "\"made_ms\":%lld,\"random\":\"%016llx%016llx\"",
                   (long long)rows[i].made_ms, (unsigned long long)rows[i].high,
                   (unsigned long long)rows[i].low);
        json_add_text(buf, "key", slice_of(key));
        buf_add_char(buf, '}');
    }
    close_list(buf);
}

/* ---- delays ---- */

static const uint64_t seeds[] = {0, 1, 2, 42, 4294967296, UINT64_MAX};

static void add_delays_of(struct buf *buf, enum retry_profile profile, uint64_t seed)
{
    const struct retry_schedule *schedule = retry_profile_schedule(profile);
    open_item(buf);
    json_add_text(buf, "profile", retry_profile_name(profile));
    buf_printf(buf, ",\"seed\":\"%llu\"", (unsigned long long)seed);
    json_open(buf, "delays_ms", '[');
    for (int attempt = 2; attempt <= schedule->attempts; attempt++) {
        json_next_item(buf);
        buf_add_i64(buf, retry_delay_us(schedule, attempt, seed) / MS);
    }
    buf_add_str(buf, "]}");
}

static void add_delays(struct buf *buf)
{
    open_list(buf, "delays");
    for (int profile = 0; profile < RETRY_PROFILE_COUNT; profile++)
        for (size_t i = 0; i < N_OF(seeds); i++)
            add_delays_of(buf, (enum retry_profile)profile, seeds[i]);
    close_list(buf);
}

/* ---- what an attempt's end means ---- */

static const char *class_name(enum retry_class class)
{
    static const char *const names[] = {
        [RETRY_DONE] = "done",         [RETRY_FINAL] = "final",
        [RETRY_IN_DOUBT] = "in_doubt", [RETRY_CREDENTIALS] = "credentials",
        [RETRY_LATER] = "later",       [RETRY_AT_ONCE] = "at_once",
        [RETRY_BUSY] = "busy",         [RETRY_BUSY_A_WHILE] = "busy_a_while"};
    return names[class];
}

static const char *text_of(const char *text)
{
    return text ? text : "";
}

static void read_lines(const char *member, const char *text, struct headers *headers,
                       struct buf *buf)
{
    struct slice lines = slice_of(text), line, name;
    headers_clear(headers);
    json_open(buf, member, '[');
    while (lines.len > 0 && slice_next(&lines, '\n', &line)) {
        struct slice value = slice_cut(line, ':', &name);
        assert_true(headers_add(headers, name, slice_trim(value)));
        json_next_item(buf);
        json_add_string(buf, line);
    }
    buf_add_char(buf, ']');
}

static void read_body_of(const struct response *response, struct buf *body)
{
    if (strcmp(text_of(response->body), "@") != 0) {
        buf_add_str(body, text_of(response->body));
        return;
    }
    buf_add_str(body, "{\"error_code\":\"PROVIDER.duplicate\",\"fill\":\"");
    while (body->len < RETRY_CODE_BODY_MAX)
        buf_add_char(body, '-');
    buf_add_str(body, "\"}");
}

static void read_choice(const char *name, const char *list, enum retry_choice choice,
                        struct retry_choices *choices, struct buf *buf)
{
    json_open(buf, name, '[');
    buf_add_str(buf, text_of(list));
    buf_add_char(buf, ']');
    assert_true(!*text_of(list) || retry_choose(choices, slice_of(list), choice));
}

static void add_response(struct buf *buf, const struct response *response)
{
    ARENA_AUTO struct arena arena = arena_make(FILE_MAX);
    BUF_AUTO struct buf body = buf_make(FILE_MAX);
    struct retry_answer answer = {.end =
                                      response->status == 0 ? EXCHANGE_BROKE : EXCHANGE_RESPONDED,
                                  .status = response->status};
    struct retry_choices choices = {0};
    struct headers headers;
    open_item(buf);
    json_add_text(buf, "name", slice_of(response->name));
    json_add_i64(buf, "status", response->status);
    read_lines("headers", response->lines, &headers, buf);
    read_body_of(response, &body);
    json_add_text(buf, "body", buf_slice(&body));
    read_choice("done", response->done, RETRY_CHOICE_DONE, &choices, buf);
    read_choice("later", response->later, RETRY_CHOICE_LATER, &choices, buf);
    assert_true(retry_read_answer(&headers, buf_slice(&body), &arena, &answer));
    enum retry_class class = retry_judge(RETRY_BY_CALL, &answer, &choices, false);
    json_add_text(buf, "class", slice_of(class_name(class)));
    class = retry_judge(RETRY_BY_CALL, &answer, &choices, true);
    json_add_text(buf, "in_doubt", slice_of(class_name(class)));
    json_add_bool(buf, "leaves_doubt", response->status == 0 || retry_answer_leaves_doubt(&answer));
    buf_add_char(buf, '}');
}

static void add_responses(struct buf *buf)
{
    open_list(buf, "responses");
    for (size_t i = 0; i < N_OF(responses); i++)
        add_response(buf, &responses[i]);
    close_list(buf);
}

/* ---- what a portal responds ---- */

static void add_portal(struct buf *buf, const struct portal *portal)
{
    static struct headers sent, headers; /* too large for a frame */
    struct retry_choices choices = {0};
    struct url url;
    const char *problem;
    assert_true(url_read(slice_of(portal->url), &url, &problem));
    open_item(buf);
    json_add_text(buf, "name", slice_of(portal->name));
    json_add_text(buf, "url", slice_of(portal->url));
    read_lines("sent", portal->sent, &sent, buf);
    json_add_i64(buf, "status", portal->status);
    read_lines("headers", portal->lines, &headers, buf);
    read_choice("done", portal->done, RETRY_CHOICE_DONE, &choices, buf);
    read_choice("later", portal->later, RETRY_CHOICE_LATER, &choices, buf);
    json_add_bool(buf, "portal",
                  retry_is_of_portal(url.tls, &sent, portal->status, &headers, &choices));
    buf_add_char(buf, '}');
}

static void add_portals(struct buf *buf)
{
    open_list(buf, "portals");
    for (size_t i = 0; i < N_OF(portals); i++)
        add_portal(buf, &portals[i]);
    close_list(buf);
}

/* ---- Retry-After ---- */

static void add_hint(struct buf *buf, const char *value)
{
    struct headers headers;
    headers_clear(&headers);
    assert_true(headers_add(&headers, SLICE("Retry-After"), slice_of(value)));
    int64_t hint = retry_read_hint(&headers, WALL);
    open_item(buf);
    json_add_text(buf, "value", slice_of(value));
    if (hint == RETRY_NO_HINT)
        json_add_null(buf, "hint_ms");
    else
        json_add_i64(buf, "hint_ms", clock_first(hint, HINT_MOST) / MS);
    buf_add_char(buf, '}');
}

static void add_hints(struct buf *buf)
{
    static const char *const values[] = {"0",
                                         "5",
                                         "007",
                                         " 12 ",
                                         "86401",
                                         "99999999999999999999999999",
                                         "Sun, 22 Nov 2026 09:01:30 GMT",
                                         "Sunday, 22-Nov-26 09:01:30 GMT",
                                         "Sun Nov 22 09:01:30 2026",
                                         "Tue Dec  1 09:00:00 2026",
                                         "Sun, 22 Nov 2026 08:59:00 GMT",
                                         "Mon, 22 Nov 2026 09:00:01 GMT",
                                         "Friday, 01-Jan-77 00:00:00 GMT",
                                         "Tuesday, 01-Dec-76 00:00:00 GMT",
                                         "Sunday, 01-Nov-76 00:00:00 GMT",
                                         "Fri, 31 Dec 9999 23:59:59 GMT",
                                         "Thu, 31 Dec 2026 23:59:60 GMT",
                                         "Sun, 29 Feb 2026 00:00:00 GMT",
                                         "Sun, 22 Nov 2026 24:00:00 GMT",
                                         "Sun, 22 Nov 2026 09:01:30",
                                         "Sun, 22 nov 2026 09:01:30 GMT",
                                         "2026-11-22T09:01:30Z",
                                         "",
                                         "-1",
                                         "+1",
                                         "1.5",
                                         "1e300",
                                         "0x10",
                                         "0.5",
                                         "3.0",
                                         "3.497",
                                         "1.",
                                         ".5",
                                         "5, 5",
                                         "2,7.1 , 5",
                                         "5,",
                                         "5, soon",
                                         "99999999999999999999.5, 1",
                                         "soon"};
    open_list(buf, "hints");
    for (size_t i = 0; i < N_OF(values); i++)
        add_hint(buf, values[i]);
    close_list(buf);
}

/* ---- decisions ---- */

#define N_STEPS 10
#define NO (-1)

/* An operation whose attempts end so, each `took` ms after it began. */
static const struct course {
    const char *profile;
    uint64_t seed;
    int64_t deadline_ms; /* after the first attempt began; NO: the caller has none */
    struct {
        int status;
        const char *code;
        int64_t took_ms;
        int64_t hint_ms;
    } steps[N_STEPS];
} courses[] = {
    {"user_facing",
     7,
     NO,
     {{503, "", 5, NO}, {503, "", 5, NO}, {500, "", 5, NO}, {0, "", 5, NO}, {503, "", 5, NO}}},
    {"user_facing",
     8,
     NO,
     {{408, "", 5, NO}, {408, "", 5, NO}, {429, "", 5, 3000}, {201, "", 5, NO}}},
    {"user_facing", 9, NO, {{503, "", 5, 60000}}},
    {"user_facing", 10, 900, {{502, "", 400, NO}, {502, "", 400, NO}}},
    {"user_facing",
     11,
     NO,
     {{409, "CONFLICT.idempotency.in_progress", 5, NO},
      {409, "CONCURRENT_REQUEST", 5, 1000},
      {200, "", 5, NO}}},
    {"user_facing", 12, 5000, {{503, "", 5, 4990}, {503, "", 5, NO}}},
    {"api", 13, NO, {{0, "", 30, NO}, {503, "", 30, 0}, {404, "", 30, NO}}},
    {"api", 14, NO, {{503, "", 4000, NO}, {503, "", 3000, NO}}},
    {"background",
     15,
     NO,
     {{503, "", 5, 100000},
      {503, "", 5, NO},
      {503, "", 5, NO},
      {503, "", 5, NO},
      {503, "", 5, NO},
      {503, "", 5, NO}}},
    {"scheduled", 16, NO, {{500, "", 5, NO}, {501, "", 5, NO}}},
    {"webhook",
     17,
     NO,
     {{408, "", 5, NO},
      {503, "", 5, NO},
      {503, "", 2100000, NO},
      {503, "", 5, 50000000},
      {503, "", 5, NO},
      {503, "", 5, NO}}},
    {"queue", 18, NO, {{408, "", 5, NO}, {503, "", 5, 900000000}, {204, "", 5, NO}}},
    {"queue", 19, 600000, {{429, "", 5, 700000}}},
    {"scheduled",
     20,
     NO,
     {{409, "CONCURRENT_REQUEST", 5, NO},
      {409, "CONCURRENT_REQUEST", 5, 0},
      {409, "CONCURRENT_REQUEST", 5, NO},
      {409, "CONCURRENT_REQUEST", 5, NO},
      {409, "CONCURRENT_REQUEST", 5, NO},
      {503, "", 5, NO},
      {409, "CONCURRENT_REQUEST", 5, NO},
      {401, "", 5, NO}}},
    {"queue", 21, NO, {{0, "", 5, NO}, {409, "", 5, NO}, {409, "", 5, 890000}, {409, "", 5, NO}}},
    {"queue", 22, NO, {{409, "order.in_progress", 5, NO}, {409, "order.in_progress", 900000, NO}}},
    {"user_facing", 23, NO, {{502, "", 5, NO}, {422, "", 5, NO}}},
    {"user_facing", 24, NO, {{409, "CONCURRENT_REQUEST", 5, 60000}}},
};

static const char *decide(struct retry_course *course, enum retry_class class, int64_t hint_ms,
                          int64_t *now)
{
    static const char *const ends[] = {[RETRY_GOES_ON] = "retry",
                                       [RETRY_ENDS_ATTEMPTS] = "attempts",
                                       [RETRY_ENDS_DEADLINE] = "deadline",
                                       [RETRY_ENDS_HINT] = "hint"};
    if (class < RETRY_LATER)
        return class_name(class);
    struct retry_next next =
        retry_plan_next(course, class, hint_ms == NO ? RETRY_NO_HINT : hint_ms * MS, *now);
    *now = next.at;
    return ends[next.end];
}

static void add_steps(struct buf *buf, const struct course *given, struct retry_course *course)
{
    int64_t now = 0;
    bool in_doubt = false;
    for (size_t i = 0; i < N_STEPS && given->steps[i].took_ms > 0; i++, course->attempts++) {
        int status = given->steps[i].status;
        buf_add_str(buf, i > 0 ? ",\n   {" : "\n   {");
        buf_printf(buf, "\"status\":%d", status);
        json_add_text(buf, "code", slice_of(given->steps[i].code));
        json_add_i64(buf, "took_ms", given->steps[i].took_ms);
        if (given->steps[i].hint_ms != NO)
            json_add_i64(buf, "hint_ms", given->steps[i].hint_ms);
        now += given->steps[i].took_ms * MS;
        const struct retry_answer answer = {.end =
                                                status == 0 ? EXCHANGE_BROKE : EXCHANGE_RESPONDED,
                                            .status = status,
                                            .code = slice_of(given->steps[i].code)};
        enum retry_class class = retry_judge(RETRY_BY_CALL, &answer, NULL, in_doubt);
        class = retry_bound_busy(class, course->busy_since, in_doubt, now);
        in_doubt |= status == 0 || retry_answer_leaves_doubt(&answer);
        const char *decision = decide(course, class, given->steps[i].hint_ms, &now);
        json_add_text(buf, "decision", slice_of(decision));
        if (strcmp(decision, "retry") == 0)
            json_add_i64(buf, "at_ms", now / MS);
        buf_add_char(buf, '}');
    }
}

static void add_courses(struct buf *buf)
{
    open_list(buf, "decisions");
    for (size_t i = 0; i < N_OF(courses); i++) {
        const struct course *given = &courses[i];
        enum retry_profile profile;
        assert_true(retry_profile_find(slice_of(given->profile), &profile));
        struct retry_course course =
            retry_course_make(retry_profile_schedule(profile), given->seed, 0,
                              given->deadline_ms == NO ? CLOCK_NEVER : given->deadline_ms * MS);
        open_item(buf);
        json_add_text(buf, "profile", slice_of(given->profile));
        buf_printf(buf, ",\"seed\":\"%llu\"", (unsigned long long)given->seed);
        if (given->deadline_ms != NO)
            json_add_i64(buf, "deadline_ms", given->deadline_ms);
        json_open(buf, "steps", '[');
        add_steps(buf, given, &course);
        buf_add_str(buf, "]}");
    }
    close_list(buf);
}

/* ---- the file ---- */

static void write_vectors(struct buf *buf)
{
    buf_add_char(buf, '{');
    add_bodies(buf);
    add_keys(buf);
    add_dated_keys(buf);
    add_delays(buf);
    add_responses(buf);
    add_portals(buf);
    buf_printf(buf, ",\n\"hints_at_ms\": %lld, \"hint_most_ms\": %lld", (long long)(WALL / MS),
               (long long)(HINT_MOST / MS));
    add_hints(buf);
    add_courses(buf);
    buf_add_str(buf, "\n}\n");
}

static void the_published_vectors_are_what_pawl_makes(void **state)
{
    BUF_AUTO struct buf made = buf_make(FILE_MAX);
    static char published[FILE_MAX];
    FILE *file = fopen(path, "re");
    (void)state;
    assert_non_null(file);
    size_t len = fread(published, 1, sizeof published, file);
    fclose(file);
    write_vectors(&made);
    assert_int_equal(len, made.len);
    assert_memory_equal(published, buf_slice(&made).at, len);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_published_vectors_are_what_pawl_makes)};
    if (argc != 2)
        return 2;
    path = argv[1];
    if (strcmp(path, "--print") != 0)
        return cmocka_run_group_tests(tests, NULL, NULL);
    BUF_AUTO struct buf made = buf_make(FILE_MAX);
    write_vectors(&made);
    printf("%.*s", SLICE_ARG(buf_slice(&made)));
    return 0;
}
