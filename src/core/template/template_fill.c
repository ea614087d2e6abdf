/* SPDX-License-Identifier: Apache-2.0 */
/* Filling texts in from an item. */
#include "base/check.h"
#include "base/text/utf8.h"
#include "core/request/filled.h"
#include "core/template/template_clock.h"
#include "core/template/template_priv.h"

/* A source's value. */
struct value {
    struct slice text;
    bool is_json; /* written without quotes in JSON */
};

/* A text as it is filled in. */
struct filler {
    const struct template_facts *facts;
    enum template_filling filling;
    struct template_output *output;
    bool in_string; /* of a JSON text: between two quotes, */
    bool escaped;   /*   right behind a '\' */
    struct filled url;
    struct slice source; /* the last one */
};

/* ---- values ---- */

static enum template_result json_value(const struct json *json, struct value *ret_value)
{
    if (!json || json->type == JSON_NULL || json->type == JSON_OBJECT || json->type == JSON_ARRAY)
        return TEMPLATE_MISSING;
    ret_value->text = json->text;
    ret_value->is_json = json->type != JSON_STRING;
    if (json->type == JSON_TRUE || json->type == JSON_FALSE)
        ret_value->text = json->type == JSON_TRUE ? SLICE("true") : SLICE("false");
    return TEMPLATE_OK;
}

/* As JSON: what an item of JSON has, and what stands in a CSV field. */
static enum template_result value_as_json(const struct filler *filler, const struct json *json,
                                          struct value *ret_value)
{
    struct arena *arena = filler->output->arena;
    BUF_AUTO struct buf text = buf_make(filler->output->buf->max);
    struct json *root;
    if (!json)
        return TEMPLATE_MISSING;
    ret_value->is_json = true;
    if (filler->facts->item_is_json) {
        json_add_value(&text, json);
        ret_value->text = buf_ok(&text) ? arena_copy(arena, buf_slice(&text)) : SLICE("");
        return ret_value->text.len > 0 ? TEMPLATE_OK : TEMPLATE_NO_MEMORY;
    }
    ret_value->text = json->text;
    enum json_error error = json_parse(arena, json->text, &root, NULL);
    return error == JSON_OK          ? TEMPLATE_OK
           : error == JSON_NO_MEMORY ? TEMPLATE_NO_MEMORY
                                     : TEMPLATE_FORMAT;
}

static enum template_result find_filled_value(const struct filler *filler,
                                              const struct template_part *part,
                                              struct value *ret_value)
{
    const struct template_facts *facts = filler->facts;
    if (template_part_is_clock(part))
        return template_clock_value(facts, part, filler->output->arena, &ret_value->text);
    if (part->as_json)
        return value_as_json(filler, template_json_at(facts, part->text), ret_value);
    if (part->source == TEMPLATE_BODY || part->source == TEMPLATE_MEMBER)
        return json_value(template_json_at(facts, part->text), ret_value);
    if (part->source == TEMPLATE_ENV) {
        ret_value->text = template_env_value(facts, part);
        return ret_value->text.at ? TEMPLATE_OK : TEMPLATE_MISSING;
    }
    CHECK(part->source == TEMPLATE_ITEM);
    ret_value->text = facts->item;
    ret_value->is_json = facts->item_is_json;
    return TEMPLATE_OK;
}

/* ---- text ---- */

/* Follows the strings of a JSON text. */
static void follow_strings(struct filler *filler, struct slice literal)
{
    for (size_t i = 0; i < literal.len; i++) {
        bool was_escaped = filler->escaped;
        filler->escaped = filler->in_string && !was_escaped && literal.at[i] == '\\';
        if (literal.at[i] == '"' && !was_escaped)
            filler->in_string = !filler->in_string;
    }
}

static enum template_result add_filled_json(struct filler *filler, const struct value *value)
{
    struct buf *buf = filler->output->buf;
    if (filler->escaped || !utf8_valid(value->text))
        return TEMPLATE_FORMAT;
    if (filler->in_string)
        json_add_content(buf, value->text);
    else if (value->is_json)
        buf_add_slice(buf, value->text);
    else
        json_add_string(buf, value->text);
    return TEMPLATE_OK;
}

static enum template_result add_filled_value(struct filler *filler, const struct value *value)
{
    struct buf *buf = filler->output->buf;
    if (filler->filling == TEMPLATE_IN_JSON)
        return add_filled_json(filler, value);
    if (filler->filling == TEMPLATE_IN_URL) {
        filled_add_value(&filler->url, value->text);
        return TEMPLATE_OK;
    }
    if (filler->filling == TEMPLATE_IN_FORM) {
        template_sink_spell(&(struct template_sink){.buf = buf}, TEMPLATE_SPELL_URL, value->text);
        return TEMPLATE_OK;
    }
    if (slice_find(value->text, '\0') >= 0)
        return TEMPLATE_FORMAT;
    buf_add_slice(buf, value->text);
    return TEMPLATE_OK;
}

static void add_literal(struct filler *filler, struct slice text)
{
    if (filler->filling == TEMPLATE_IN_URL)
        filled_add_text(&filler->url, text);
    else
        buf_add_slice(filler->output->buf, text);
    follow_strings(filler, text);
}

static enum template_result add_filled_part(struct filler *filler, const struct template_part *part)
{
    struct value value = {{NULL, 0}, false};
    if (part->source == TEMPLATE_LITERAL) {
        add_literal(filler, part->text);
        return TEMPLATE_OK;
    }
    filler->source = part->written;
    enum template_result result = find_filled_value(filler, part, &value);
    return result == TEMPLATE_OK ? add_filled_value(filler, &value) : result;
}

/* `*ret_source`: whose value makes it a fault; the last one of its segment. */
static enum template_result judge_url(struct filler *filler, struct slice *ret_source)
{
    filler->output->fault = filled_end(&filler->url);
    if (filler->output->fault == FILLED_GOOD)
        return TEMPLATE_OK;
    *ret_source = filler->source;
    return TEMPLATE_FORMAT;
}

enum template_result template_fill(const struct template *template,
                                   const struct template_facts *facts,
                                   enum template_filling filling, struct template_output *output,
                                   struct slice *ret_missing)
{
    struct filler filler = {
        .facts = facts, .filling = filling, .output = output, .url = filled_make(output->buf, 0)};
    enum template_result result = TEMPLATE_OK;
    size_t start = output->buf->len, i = 0;
    while (result == TEMPLATE_OK && i < template->n && filler.url.fault == FILLED_GOOD)
        result = add_filled_part(&filler, &template->parts[i++]);
    if (result == TEMPLATE_MISSING || result == TEMPLATE_FORMAT)
        *ret_missing = template->parts[i - 1].written;
    if (result == TEMPLATE_OK && filling == TEMPLATE_IN_URL)
        result = judge_url(&filler, ret_missing);
    if (!buf_ok(output->buf))
        result = TEMPLATE_NO_MEMORY;
    if (result != TEMPLATE_OK)
        buf_cut(output->buf, start);
    return result;
}
