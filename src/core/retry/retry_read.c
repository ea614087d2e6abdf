/* SPDX-License-Identifier: Apache-2.0 */
/* What retry.h reads from responses: nothing in them is trusted. */
#include "base/json/json.h"
#include "base/time/http_date.h"
#include "core/retry/retry.h"

/* Digits of seconds; more than there are microseconds is CLOCK_NEVER. */
static int64_t seconds_us(struct slice digits)
{
    uint64_t seconds;
    while (digits.len > 1 && slice_take(&digits, '0'))
        ;
    if (!slice_to_u64(digits, (uint64_t)(CLOCK_NEVER / CLOCK_US_PER_S), &seconds))
        return CLOCK_NEVER;
    return (int64_t)seconds * CLOCK_US_PER_S;
}

/* `3`, `2.5`: rounded up. RETRY_NO_HINT: it is no number. */
static int64_t number_us(struct slice text)
{
    struct slice whole, part = slice_cut(text, '.', &whole);
    if (whole.len == 0 || slice_digits(whole) != whole.len)
        return RETRY_NO_HINT;
    if (!part.at)
        return seconds_us(whole);
    if (part.len == 0 || slice_digits(part) != part.len)
        return RETRY_NO_HINT;
    while (part.len > 0 && slice_take(&part, '0'))
        ;
    return clock_after(seconds_us(whole), part.len > 0 ? CLOCK_US_PER_S : 0);
}

/* One number or more, of which the largest counts. */
static int64_t numbers_us(struct slice list)
{
    int64_t most = RETRY_NO_HINT;
    struct slice one;
    if (list.len == 0 || list.at[list.len - 1] == ',')
        return RETRY_NO_HINT;
    while (list.len > 0 && slice_next(&list, ',', &one)) {
        int64_t us = number_us(slice_trim(one));
        if (us == RETRY_NO_HINT)
            return RETRY_NO_HINT;
        most = us > most ? us : most;
    }
    return most;
}

static int64_t line_us(struct slice value, int64_t wall_us)
{
    int64_t at;
    if (!http_date_read(value, wall_us, &at))
        return numbers_us(value);
    return wall_us >= 0 && at > wall_us ? at - wall_us : 0;
}

int64_t retry_read_hint(const struct headers *headers, int64_t wall_us)
{
    int64_t most = RETRY_NO_HINT;
    for (size_t i = 0; i < headers->n; i++) {
        const struct header *line = &headers->at[i];
        if (!slice_eq_nocase(line->name, SLICE("Retry-After")))
            continue;
        int64_t us = line_us(slice_trim(line->value), wall_us);
        most = us > most ? us : most;
    }
    return most;
}

/* ---- what it says beside its status ---- */

static struct slice retry_text_at(const struct json *root, struct slice pointer)
{
    const struct json *text = root ? json_at_as(root, pointer, JSON_STRING) : NULL;
    return text ? text->text : SLICE("");
}

static struct slice read_code(const struct headers *headers, const struct json *root)
{
    static const char *const places[] = {"/error_code", "/error/code", "/errorCode",
                                         "/details/0/issue"};
    const struct header *line = headers_find(headers, SLICE("Error-Code"));
    if (line)
        return line->value;
    for (size_t i = 0; root && i < COUNT_OF(places); i++) {
        const struct json *code = json_at_as(root, slice_of(places[i]), JSON_STRING);
        if (code)
            return code->text;
    }
    return SLICE("");
}

static struct slice media_type_of(struct slice value)
{
    struct slice type;
    (void)slice_cut(value, ';', &type);
    return slice_trim(type);
}

static bool is_of_type(const struct headers *headers, struct slice type)
{
    const struct header *line = headers_find(headers, SLICE("Content-Type"));
    return line && slice_eq_nocase(media_type_of(line->value), type);
}

static enum retry_advice read_advice(const struct headers *headers, const struct json *problem)
{
    static const char *const names[] = {"Stripe-Should-Retry", "X-Should-Retry", "Transient-Error"};
    if (problem && json_at_as(problem, SLICE("/retryable"), JSON_TRUE))
        return RETRY_ADVICE_AGAIN;
    if (problem && json_at_as(problem, SLICE("/retryable"), JSON_FALSE))
        return RETRY_ADVICE_NEVER;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const struct header *line = headers_find(headers, slice_of(names[i]));
        if (line && slice_eq_nocase(slice_trim(line->value), SLICE("true")))
            return RETRY_ADVICE_AGAIN;
        if (line && slice_eq_nocase(slice_trim(line->value), SLICE("false")))
            return RETRY_ADVICE_NEVER;
    }
    return RETRY_ADVICE_NONE;
}

static bool has_words(struct slice text, struct slice words)
{
    for (size_t i = 0; i + words.len <= text.len; i++)
        if (slice_eq_nocase(slice_make(text.at + i, words.len), words))
            return true;
    return false;
}

/* draft-ietf-httpapi-idempotency-key-header: "A request is outstanding for this Idempotency-Key" */
static bool is_outstanding(const struct json *problem)
{
    struct slice words = SLICE("request is outstanding");
    return has_words(retry_text_at(problem, SLICE("/title")), words) ||
           has_words(retry_text_at(problem, SLICE("/type")), words);
}

/* `released` is also the word for what is in doubt, and may be repeated: with an error code. */
static enum retry_success read_success(const struct headers *headers)
{
    const struct header *line = headers_find(headers, SLICE("Idempotency-Status"));
    struct slice word = line ? slice_trim(line->value) : SLICE("");
    if (slice_eq(word, SLICE("unknown")))
        return RETRY_SUCCESS_UNSURE;
    if (!slice_eq(word, SLICE("released")))
        return RETRY_SUCCESS_STANDS;
    return headers_find(headers, SLICE("Error-Code")) ? RETRY_SUCCESS_UNSURE : RETRY_SUCCESS_UNDONE;
}

enum response_says retry_says(const struct retry_choices *choices, const struct headers *headers,
                              struct slice body)
{
    ARENA_AUTO struct arena arena = arena_make(CONDITION_ARENA_MAX);
    bool reads = false;
    for (size_t i = 0; i < choices->n_not_done; i++)
        reads = reads || condition_is_of_body(&choices->not_done[i]);
    const struct json *root = reads ? condition_read_body(headers, body, &arena) : NULL;
    bool holds = false;
    for (size_t i = 0; i < choices->n_not_done && !holds; i++)
        holds = condition_holds(&choices->not_done[i], headers, root, &arena);
    if (arena.failed)
        return SAYS_IN_DOUBT;
    return holds ? SAYS_NOT_DONE : SAYS_NOTHING;
}

/* ---- a portal ---- */

/* By its Accept, which may also take HTML; by what it sends where that names neither. */
static bool asks_for_json(const struct headers *sent)
{
    bool accepts_json = false;
    for (size_t i = 0; i < sent->n; i++) {
        struct slice list = sent->at[i].value, one;
        bool is_accept = slice_eq_nocase(sent->at[i].name, SLICE("Accept"));
        while (is_accept && list.len > 0 && slice_next(&list, ',', &one)) {
            struct slice type = media_type_of(one);
            if (slice_eq_nocase(type, SLICE("text/html")))
                return false;
            accepts_json = accepts_json || json_is_type(type);
        }
    }
    const struct header *line = headers_find(sent, SLICE("Content-Type"));
    return accepts_json || (line && json_is_type(media_type_of(line->value)));
}

bool retry_is_of_portal(bool is_tls, const struct headers *sent, int status,
                        const struct headers *headers, const struct retry_choices *choices)
{
    bool is_chosen =
        choices && status <= RETRY_STATUS_MOST && choices->of[status] != RETRY_CHOICE_NONE;
    if (is_tls || is_chosen || headers_find(headers, SLICE("Idempotency-Status")))
        return false;
    switch (status) {
    case 301:
    case 302:
    case 303:
    case 307:
    case 308:
        return true;
    case 200:
    case 511:
        return is_of_type(headers, SLICE("text/html")) && asks_for_json(sent);
    default:
        return false;
    }
}

bool retry_read_answer(const struct headers *headers, struct slice body, struct arena *arena,
                       struct retry_answer *answer)
{
    const struct header *left = headers_find(headers, SLICE("x-ratelimit-remaining"));
    struct json *root = NULL;
    enum json_error error = JSON_SYNTAX;
    if (body.len > 0 && body.len <= RETRY_CODE_BODY_MAX)
        error = json_parse(arena, body, &root, NULL);
    if (error != JSON_OK)
        root = NULL;
    const struct json *problem =
        root && is_of_type(headers, SLICE("application/problem+json")) ? root : NULL;
    answer->code = read_code(headers, root);
    answer->advice = read_advice(headers, problem);
    answer->success = read_success(headers);
    answer->is_outstanding = is_outstanding(problem);
    answer->is_limited = headers_find(headers, SLICE("Retry-After")) ||
                         (left && slice_eq(slice_trim(left->value), SLICE("0")));
    return error != JSON_NO_MEMORY || answer->status / 100 == 2;
}
