/* SPDX-License-Identifier: Apache-2.0 */
#include "core/error_text.h"

#include "base/json/json.h"

struct slice error_text_name(enum error error)
{
    struct slice rest = slice_of(error_row(error)->code), name;
    while (slice_next(&rest, '.', &name) && rest.at)
        continue;
    return name;
}

struct slice error_texts_find(const struct error_texts *texts, enum error error)
{
    struct slice found = {NULL, 0}, name = error_text_name(error);
    for (size_t i = 0; texts && i < texts->n; i++) {
        if (slice_eq(texts->at[i].name, name))
            return texts->at[i].text;
        if (slice_eq(texts->at[i].name, SLICE("default")))
            found = texts->at[i].text;
    }
    return found;
}

/* ---- filling ---- */

static struct slice error_fact_text(const struct error_facts *facts, struct slice name,
                                    bool *ret_found)
{
    const struct problem *problem = facts->problem;
    const struct error_row *row = error_row(problem->error);
    struct slice detail = problem->detail.len > 0 ? problem->detail : slice_of(problem->title);
    const struct {
        struct slice name;
        struct slice text;
    } texts[] = {
        {SLICE("code"), slice_of(row->short_code)},
        {SLICE("error_code"), slice_of(row->code)},
        {SLICE("title"), slice_of(problem->title)},
        {SLICE("detail"), detail},
        {SLICE("hint"), slice_of(problem->hint)},
        {SLICE("instance"), slice_of(problem->instance)},
        {SLICE("key"), problem->key},
        {SLICE("trace_id"), facts->trace_id},
    };
    *ret_found = false;
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        if (slice_eq(texts[i].name, name)) {
            *ret_found = true;
            return texts[i].text;
        }
    return slice_make(NULL, 0);
}

static bool add_error_fact(const struct error_facts *facts, struct slice name, struct buf *buf)
{
    const struct problem *problem = facts->problem;
    if (slice_eq(name, SLICE("status")))
        buf_add_u64(buf, (uint64_t)problem->status);
    else if (slice_eq(name, SLICE("retryable")))
        buf_add_str(buf, problem->retryable ? "true" : "false");
    else if (slice_eq(name, SLICE("safe_new_key")))
        buf_add_str(buf, problem->safe_new_key ? "true" : "false");
    else if (!slice_eq(name, SLICE("retry_after")))
        return false;
    else if (facts->retry_after > 0)
        buf_add_u64(buf, facts->retry_after);
    else
        buf_add_str(buf, "null");
    return true;
}

static bool add_named(const struct error_facts *facts, struct slice name, bool in_string,
                      struct buf *buf)
{
    bool found;
    if (!in_string)
        return add_error_fact(facts, name, buf);
    struct slice text = error_fact_text(facts, name, &found);
    if (found)
        json_add_content(buf, text);
    return found;
}

/* How long the {name} at the front is; 0: there is none. */
static size_t name_length(struct slice text)
{
    struct slice name, rest = slice_skip(text, 1);
    bool closed = text.at[0] == '{' && slice_cut(rest, '}', &name).at;
    return closed && slice_is_word(name, "_-.") ? name.len + 2 : 0;
}

bool error_text_fill(struct slice text, const struct error_facts *facts, struct buf *buf,
                     struct slice *ret_wrong)
{
    bool in_string = false;
    while (text.len > 0) {
        size_t n = name_length(text);
        *ret_wrong = slice_first(text, n);
        if (n > 0 && !add_named(facts, slice_make(text.at + 1, n - 2), in_string, buf))
            return false;
        if (n == 0) {
            n = in_string && text.at[0] == '\\' && text.len > 1 ? 2 : 1;
            in_string = in_string != (text.at[0] == '"');
            buf_add_slice(buf, slice_first(text, n));
        }
        text = slice_skip(text, n);
    }
    return true;
}
