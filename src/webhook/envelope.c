/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/envelope.h"

#include "base/check.h"
#include "base/json/json.h"
#include "store/rows.h"
#include "store/tables/events.h"

#define ARENA_MAX ((size_t)1024 * 1024)

/* In the order of enum webhook_form and enum webhook_fact. */
static const char forms[] = WEBHOOK_FORMS "|own", facts[] = WEBHOOK_FACTS;

static struct slice word_at(const char *words, size_t at)
{
    struct slice rest = slice_of(words), word = {0};
    for (size_t i = 0; i <= at; i++)
        slice_next(&rest, '|', &word);
    return word;
}

/* ---- as text ---- */

static bool tells_source(const struct webhook_envelope *envelope)
{
    bool tells = envelope->form == WEBHOOK_CLOUDEVENTS;
    for (size_t i = 0; i < envelope->own.n; i++)
        tells |= envelope->own.at[i].fact == WEBHOOK_FACT_SOURCE;
    return tells;
}

void envelope_rule_write(const struct envelope_rule *rule, struct buf *text)
{
    const struct webhook_members *own = &rule->envelope.own;
    buf_add_char(text, '{');
    json_add_text(text, "form", word_at(forms, rule->envelope.form));
    if (tells_source(&rule->envelope))
        json_add_text(text, "source", rule->source);
    if (rule->envelope.form == WEBHOOK_OWN) {
        json_open(text, "members", '[');
        for (size_t i = 0; i < own->n; i++) {
            json_next_item(text);
            buf_add_char(text, '{');
            json_add_text(text, "name", own->at[i].name);
            json_add_text(text, "is", word_at(facts, own->at[i].fact));
            buf_add_char(text, '}');
        }
        buf_add_char(text, ']');
    }
    buf_add_char(text, '}');
}

static bool read_members(const struct json *list, struct webhook_members *ret_members)
{
    if (!list || list->count == 0 || list->count > WEBHOOK_MEMBERS_MAX)
        return false;
    for (const struct json *one = list->first; one; one = one->next) {
        const struct json *name = json_at_as(one, SLICE("/name"), JSON_STRING);
        const struct json *is = json_at_as(one, SLICE("/is"), JSON_STRING);
        ptrdiff_t fact = is ? slice_item(slice_of(facts), '|', is->text) : -1;
        if (!name || fact < 0)
            return false;
        ret_members->at[ret_members->n].name = name->text;
        ret_members->at[ret_members->n++].fact = (enum webhook_fact)fact;
    }
    return true;
}

bool envelope_rule_read(struct slice text, struct arena *arena, struct envelope_rule *ret_rule)
{
    struct json *root;
    *ret_rule = (struct envelope_rule){0};
    if (json_parse(arena, text, &root, NULL) != JSON_OK)
        return false;
    const struct json *form = json_at_as(root, SLICE("/form"), JSON_STRING);
    const struct json *source = json_at_as(root, SLICE("/source"), JSON_STRING);
    ptrdiff_t at = form ? slice_item(slice_of(forms), '|', form->text) : -1;
    if (at < 0)
        return false;
    ret_rule->envelope.form = (enum webhook_form)at;
    ret_rule->source = source ? source->text : SLICE("");
    return ret_rule->envelope.form != WEBHOOK_OWN ||
           read_members(json_at_as(root, SLICE("/members"), JSON_ARRAY), &ret_rule->envelope.own);
}

/* ---- as rows ---- */

static enum store_status try_name(struct rows *rows, struct store_envelope *row)
{
    enum store_status status = rows_find_one(rows, &envelope_table, &row->row);
    if (status != STORE_DONE || row->row.id != 0)
        return status;
    rows_put(rows, TABLE_INSERT, &envelope_table, &row->row, NULL);
    return rows_save(rows);
}

enum store_status envelope_name(struct store *store, struct parker *parker, struct slice text,
                                int64_t *ret_id)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct rows rows = {.store = store, .parker = parker, .arena = &arena};
    struct store_envelope row = {.rule = text};
    CHECK(text.len > 0);
    enum store_status status = STORE_CONFLICT;
    while (rows_try_again(&rows, &status))
        status = try_name(&rows, &row);
    if (status == STORE_DONE)
        *ret_id = row.row.id;
    return status;
}

enum store_status envelope_find(struct store *store, struct parker *parker, int64_t id,
                                struct arena *arena, struct slice *ret_text)
{
    struct rows rows = {.store = store, .parker = parker, .arena = arena};
    struct store_envelope row;
    enum store_status status = rows_by_id(&rows, &envelope_table, id, &row.row);
    *ret_text = row.row.id != 0 ? row.rule : SLICE("");
    return status;
}
