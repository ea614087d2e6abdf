/* SPDX-License-Identifier: Apache-2.0 */
#include "core/request/condition.h"

#include "base/text/number.h"

#define NUMBER_MAX ((size_t)2 * NUMBER_EXPONENT_MAX)

bool condition_is_of_body(const struct condition *condition)
{
    return condition->place.at[0] == '/';
}

bool condition_read(struct slice text, struct condition *ret_condition)
{
    bool is_pointer = text.len > 0 && text.at[0] == '/';
    struct slice place, value = slice_cut(text, is_pointer ? '=' : ':', &place);
    *ret_condition = (struct condition){place, is_pointer ? value : slice_trim(value)};
    if (!value.at || place.len > CONDITION_PLACE_MAX || !header_is_text(text))
        return false;
    return is_pointer ? json_pointer_valid(place) : header_is_valid(place, ret_condition->value);
}

static bool is_same_number(struct slice one, struct slice other, struct arena *arena)
{
    BUF_AUTO struct buf a = buf_make(NUMBER_MAX), b = buf_make(NUMBER_MAX);
    bool are_bounded = number_add_canonical(&a, one) && number_add_canonical(&b, other);
    arena->failed |= !buf_ok(&a) || !buf_ok(&b);
    return are_bounded && slice_eq(buf_slice(&a), buf_slice(&b));
}

/* NULL: it is no JSON, or there is no memory, which `arena` says. */
static const struct json *parse_json_text(struct slice text, struct arena *arena)
{
    struct json *root;
    return json_parse(arena, text, &root, NULL) == JSON_OK ? root : NULL;
}

static bool is_value(const struct json *found, struct slice value, struct arena *arena)
{
    const struct json *wanted = parse_json_text(value, arena);
    bool is_scalar = wanted && wanted->type <= JSON_STRING;
    if (!is_scalar)
        return found->type == JSON_STRING && slice_eq(found->text, value);
    if (found->type != wanted->type)
        return false;
    if (found->type == JSON_NUMBER)
        return is_same_number(found->text, wanted->text, arena);
    return found->type != JSON_STRING || slice_eq(found->text, wanted->text);
}

bool condition_holds(const struct condition *condition, const struct headers *headers,
                     const struct json *body, struct arena *arena)
{
    if (condition_is_of_body(condition)) {
        const struct json *found = body ? json_at(body, condition->place) : NULL;
        return found && is_value(found, condition->value, arena);
    }
    for (size_t i = 0; i < headers->n; i++)
        if (slice_eq_nocase(headers->at[i].name, condition->place) &&
            slice_eq(slice_trim(headers->at[i].value), condition->value))
            return true;
    return false;
}

const struct json *condition_read_body(const struct headers *headers, struct slice body,
                                       struct arena *arena)
{
    return body.len > 0 && json_is_body_of(headers) ? parse_json_text(body, arena) : NULL;
}

/* ---- of rules ---- */

static bool part_holds(const struct condition_part *part, const struct json *body,
                       struct arena *arena)
{
    if (part->absent)
        return !json_at(body, part->pointer);
    for (size_t i = 0; i < part->n; i++) {
        struct condition one = {part->pointer, part->values[i]};
        if (condition_holds(&one, NULL, body, arena))
            return true;
    }
    return false;
}

static bool is_about(const struct response_condition *condition, int status)
{
    return condition->status == status ||
           (condition->status == 0 && (!condition->of_success || status / 100 == 2));
}

bool response_conditions_hold(const struct response_conditions *conditions, int status,
                              const struct json *body, struct arena *arena)
{
    for (size_t i = 0; body && i < conditions->n; i++) {
        const struct response_condition *one = &conditions->at[i];
        size_t held = 0;
        if (!is_about(one, status))
            continue;
        while (held < one->n && part_holds(&one->parts[held], body, arena))
            held++;
        if (held == one->n)
            return true;
    }
    return false;
}
