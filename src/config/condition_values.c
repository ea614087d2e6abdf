/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of what tells responses apart: their statuses, and conditions on their JSON bodies. */
#include "base/json/json.h"
#include "base/text/number.h"
#include "config/option.h"
#include "config/reader.h"
#include "config/scalar.h"
#include <assert.h>

#define VALUE_MAX ((size_t)4096)
#define A_STATUS "a status from 200 to 599"
#define AN_ANSWER A_STATUS ", or {body: /POINTER, is: [VALUE]}"
#define A_POINTER "a JSON pointer of at most 256 bytes, such as /errors/0/code"
#define A_VALUE "a text, number, true, false or null, as in [\"THROTTLED\", 704]"

static bool is_listed_status(const struct draft_statuses *list, int status)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->at[i] == status)
            return true;
    return false;
}

static bool read_status(struct reader *reader, const struct node *node, const char *expected,
                        int *ret_status)
{
    struct slice text;
    uint64_t status;
    if (!reader_scalar(reader, node, expected, &text))
        return false;
    if (!slice_to_u64(text, REMEMBER_STATUS_MOST, &status) || status < REMEMBER_STATUS_LEAST) {
        reader_expected(reader, node, expected);
        return false;
    }
    *ret_status = (int)status;
    return true;
}

/* ---- conditions ---- */

static void read_condition_pointer(struct reader *reader, const struct node *node,
                                   struct slice *ret_pointer)
{
    struct slice text;
    if (!reader_scalar(reader, node, A_POINTER, &text))
        return;
    if (reader_refuse_wild(reader, node))
        return;
    if (text.len > 0 && text.len <= CONDITION_PLACE_MAX && json_pointer_valid(text))
        *ret_pointer = arena_copy(reader->texts, text);
    else
        reader_expected(reader, node, A_POINTER);
}

/* As JSON, as it is compared. */
static bool read_condition_value(struct reader *reader, const struct node *node,
                                 struct slice *ret_value)
{
    BUF_AUTO struct buf json = buf_make(VALUE_MAX);
    bool typed = node->kind == NODE_SCALAR && node->is_plain && scalar_add_json(node->text, &json);
    bool good = node->kind == NODE_SCALAR && !(node->is_plain && scalar_is_no_json(node->text));
    bool is_number = typed && (json.at[0] == '-' || slice_digits(buf_slice(&json)) > 0);
    if (good && !typed)
        json_add_canonical_string(&json, node->text);
    if (!good || !buf_ok(&json) || (is_number && !number_is_bounded(buf_slice(&json)))) {
        if (node->kind != NODE_BAD)
            reader_complain(reader, node, "cannot be compared (expected " A_VALUE ")");
        return false;
    }
    *ret_value = arena_copy(reader->texts, buf_slice(&json));
    return true;
}

static void read_values(struct reader *reader, const struct node *node, struct condition_part *part)
{
    if (node->kind != NODE_LIST || node->count == 0 || node->count > CONDITION_VALUES_MAX) {
        reader_not_a_list(reader, node, CONDITION_VALUES_MAX, A_VALUE);
        return;
    }
    struct slice *values = arena_alloc(reader->texts, node->count * sizeof *values);
    for (const struct node *one = node->first; values && one; one = one->next)
        if (read_condition_value(reader, one, &values[part->n]))
            part->n++;
    part->values = values;
}

static const struct slice members[] = {
    {"body", 4}, {"is", 2}, {"absent", 6}, {"status", 6}, {"and", 3}};
#define N_OF_PART 3
static_assert(N_OF_PART < COUNT_OF(members), "a whole condition has more");

/* {body, is | absent}; of a whole condition `status` and `and` besides, which are not read here. */
static void read_condition_part(struct reader *reader, const struct node *map, size_t n_members,
                                struct response_condition *condition)
{
    struct condition_part part = {0};
    size_t errors = reader->errors->n, yes;
    if (map->kind != NODE_MAP) {
        if (map->kind != NODE_BAD)
            reader_complain(reader, map,
                            "is no condition (expected {body: /POINTER, is: [VALUE]})");
        return;
    }
    for (const struct node *one = map->first; one; one = one->next) {
        if (slice_eq(one->key, members[0]))
            read_condition_pointer(reader, one, &part.pointer);
        else if (slice_eq(one->key, members[1]))
            read_values(reader, one, &part);
        else if (slice_eq(one->key, members[2]))
            part.absent = reader_choice(reader, one, "true", &yes);
        else if (n_members == N_OF_PART ||
                 (!slice_eq(one->key, members[3]) && !slice_eq(one->key, members[4])))
            reader_unknown_name(reader, one, members, n_members);
    }
    if (reader->errors->n == errors && (!part.pointer.at || (part.n > 0) == part.absent))
        reader_complain(reader, map,
                        "needs body: and one of is: and absent: (expected {body: "
                        "/POINTER, is: [VALUE]} or {body: /POINTER, absent: true})");
    condition->parts[condition->n++] = part;
}

static void read_others(struct reader *reader, const struct node *node,
                        struct response_condition *condition)
{
    if (node->kind != NODE_LIST || node->count == 0 || node->count >= CONDITION_PARTS_MAX) {
        reader_not_a_list(reader, node, CONDITION_PARTS_MAX - 1, "{body: /POINTER, is: [VALUE]}");
        return;
    }
    for (const struct node *one = node->first; one; one = one->next)
        read_condition_part(reader, one, N_OF_PART, condition);
}

static void read_condition(struct reader *reader, const struct node *map,
                           struct response_condition *condition)
{
    read_condition_part(reader, map, COUNT_OF(members), condition);
    for (const struct node *one = map->first; one; one = one->next) {
        if (slice_eq(one->key, members[3]))
            (void)read_status(reader, one, A_STATUS, &condition->status);
        else if (slice_eq(one->key, members[4]))
            read_others(reader, one, condition);
    }
}

/* ---- lists ---- */

static size_t count_maps(const struct node *list)
{
    size_t n = 0;
    for (const struct node *item = list->first; item; item = item->next)
        n += item->kind == NODE_MAP;
    return n;
}

/* What says "not found" says it of a success, unless it names a status: an error that has not what
 * a success has says nothing of the operation. */
static void read_items(struct reader *reader, const struct option *option, const struct node *node,
                       struct response_condition *conditions, struct draft_statuses *list)
{
    size_t n = 0;
    bool of_success = option == option_at(OPTION_not_found);
    for (const struct node *item = node->first; item; item = item->next) {
        int status;
        if (item->kind == NODE_MAP) {
            conditions[n] = (struct response_condition){.of_success = of_success};
            read_condition(reader, item, &conditions[n++]);
        } else if (read_status(reader, item, AN_ANSWER, &status) &&
                   !is_listed_status(list, status)) {
            list->at[list->n++] = status;
        }
    }
    list->conditions = (struct response_conditions){n, conditions};
}

OPTION_READER(answers)
{
    struct draft_statuses list = {0};
    size_t n = node->kind == NODE_LIST ? count_maps(node) : 0;
    if (node->kind != NODE_LIST || node->count - n > DRAFT_STATUSES_MAX) {
        reader_not_a_list(reader, node, DRAFT_STATUSES_MAX, AN_ANSWER);
        return;
    }
    if (n > CONDITIONS_MAX) {
        reader_complain(reader, node, "has %zu conditions (expected at most %d)", n,
                        CONDITIONS_MAX);
        return;
    }
    struct response_condition *conditions =
        arena_alloc(reader->texts, (n + 1) * sizeof *conditions);
    if (conditions)
        read_items(reader, option, node, conditions, &list);
    *(struct draft_statuses *)field = list;
}
