/* SPDX-License-Identifier: Apache-2.0 */
/* From an item to its key, group and texts. */
#include "base/check.h"
#include "base/mem.h"
#include "base/text/nearest.h"
#include "cli/jobs/each.h"

#define TEXT_MAX ((size_t)4 * 1024 * 1024) /* a text that was filled in */

/* ---- templates ---- */

static bool names_item(const struct template *template)
{
    return template_uses(template, TEMPLATE_ITEM) || template_uses(template, TEMPLATE_MEMBER) ||
           template_uses(template, TEMPLATE_BODY);
}

static bool names_part(const struct template_part *part)
{
    return part->source == TEMPLATE_MEMBER || part->source == TEMPLATE_BODY ||
           template_part_asks_zone(part);
}

/* A line has no members. */
static int check_form(const struct each_session *session, const struct template *template)
{
    for (size_t i = 0; i < template->n && !session->csv && !session->jsonl; i++) {
        const struct template_part *part = &template->parts[i];
        if (names_part(part))
            return command_misused(EACH_NAME,
                                   "{%.*s} names a part of an item, and a line has none: say --csv "
                                   "or --jsonl, or {{%.*s} for the text itself",
                                   SLICE_QUOTED(part->written), SLICE_QUOTED(part->written));
    }
    return jobs_read_zones((struct jobs_options *)(uintptr_t)&session->options, template);
}

static int compile_text(struct each_session *session, const char *text, struct template *ret)
{
    struct slice problem;
    if (!template_compile(slice_of(text), TEMPLATE_FOR_TEXT, &session->options.arena, ret,
                          &problem))
        return command_misused(EACH_NAME, "`%.60s`: %.*s", text, SLICE_ARG(problem));
    int code = jobs_check_variables(&session->options, ret, text);
    return code == EXIT_DONE ? check_form(session, ret) : code;
}

static int compile_group(struct each_session *session)
{
    if (!session->group)
        return EXIT_DONE;
    int code = compile_text(session, session->group, &session->group_template);
    if (code != EXIT_DONE || names_item(&session->group_template))
        return code;
    return command_misused(EACH_NAME, "--group must name a part of the item, as {customer} does: "
                                      "else all items would be one group");
}

static int compile_texts(struct each_session *session, const char *const *words, size_t n)
{
    int code = EXIT_DONE;
    bool names = false;
    for (size_t i = 0; i < n && code == EXIT_DONE; i++) {
        code = compile_text(session, words[i], &session->texts[i].template);
        names = names || names_item(&session->texts[i].template);
    }
    session->n_texts = n;
    if (code != EXIT_DONE || names || session->send || session->csv || session->jsonl)
        return code;
    return compile_text(session, "{}", &session->texts[session->n_texts++].template);
}

int each_compile(struct each_session *session, const char *const *words, size_t n)
{
    CHECK(!session->texts && session->n_texts == 0);
    int code = jobs_prepare(&session->options, TEMPLATE_FOR_ITEM);
    if (code == EXIT_DONE)
        code = check_form(session, &session->options.key_template);
    if (code == EXIT_DONE && !names_item(&session->options.key_template))
        code = command_misused(EACH_NAME, "--key must name the item, as {} or {id} do: else all "
                                          "items would be one job");
    if (code == EXIT_DONE)
        code = compile_group(session);
    session->texts = mem_zalloc(n + 1, sizeof *session->texts);
    if (code != EXIT_DONE || !session->texts)
        return code != EXIT_DONE ? code : jobs_say(EXIT_UNAVAILABLE, "out of memory");
    return compile_texts(session, words, n);
}

/* ---- columns ---- */

static bool check_source(const struct template_part *part, const struct items *items,
                         struct buf *problem)
{
    if (!names_part(part) || items_has_column(items, part->text))
        return true;
    struct slice name = slice_skip(part->text, 1);
    struct nearest nearest = {.given = name};
    buf_printf(problem, "the input has no column %.*s; it has ", SLICE_QUOTED(name));
    for (size_t at = 0; at < items_column_count(items); at++) {
        struct slice column = items_column_at(items, at);
        nearest_try(&nearest, column);
        buf_printf(problem, "%s%.*s", at > 0 ? ", " : "", SLICE_QUOTED(column));
    }
    struct slice meant = nearest_name(&nearest);
    if (meant.at)
        buf_printf(problem, "; did you mean {%.*s}?", SLICE_QUOTED(meant));
    else
        buf_printf(problem, " ({{%.*s} is the text itself)", SLICE_QUOTED(part->written));
    return false;
}

static bool has_in_braces(struct slice text, struct slice name)
{
    for (; text.len > name.len + 1; text = slice_skip(text, 1)) {
        bool doubled = text.at[0] == '{' && text.at[1] == '{';
        if (doubled)
            text = slice_skip(text, 1);
        else if (text.at[0] == '{' && text.at[name.len + 1] == '}' &&
                 slice_starts(slice_skip(text, 1), name))
            return true;
    }
    return false;
}

/* A text in braces that is no source, and the name of a column. */
static bool check_each_text(struct slice text, const struct items *items, struct buf *problem)
{
    for (size_t at = 0; at < items_column_count(items); at++) {
        struct slice name = items_column_at(items, at);
        if (!has_in_braces(text, name))
            continue;
        buf_printf(problem,
                   "{%.*s} is a text; the column of that name is {/%.*s} ({{%.*s} is the text "
                   "itself)",
                   SLICE_QUOTED(name), SLICE_QUOTED(name), SLICE_QUOTED(name));
        return false;
    }
    return true;
}

static bool check_columns(const struct template *template, const struct items *items,
                          struct buf *problem)
{
    bool good = true;
    for (size_t i = 0; i < template->n && good; i++) {
        const struct template_part *part = &template->parts[i];
        good = part->source == TEMPLATE_LITERAL ? check_each_text(part->written, items, problem)
                                                : check_source(part, items, problem);
    }
    return good;
}

/* Every name in quotes. */
static void write_header(const struct items *items, FILE *file)
{
    for (size_t at = 0; at < items_column_count(items); at++) {
        struct slice name = items_column_at(items, at);
        fputs(at > 0 ? ",\"" : "\"", file);
        for (size_t i = 0; i < name.len; i++) {
            if (name.at[i] == '"')
                fputc('"', file);
            fputc(name.at[i], file);
        }
        fputc('"', file);
    }
    fputc('\n', file);
}

bool each_check(void *argument, const struct items *items, struct buf *problem)
{
    const struct each_session *session = argument;
    bool good = check_columns(&session->options.key_template, items, problem) &&
                check_columns(&session->group_template, items, problem);
    for (size_t i = 0; i < session->n_texts && good; i++)
        good = check_columns(&session->texts[i].template, items, problem);
    if (good)
        each_begin_files(session);
    if (good && session->failed)
        write_header(items, session->failed);
    return good;
}

/* ---- one item ---- */

static void set_facts(struct each_session *session, const struct item *read)
{
    struct template_facts *facts = &session->facts;
    session->payload_of = (struct payload){.kind = PAYLOAD_IS_JSON, .json = read->value};
    facts->payload = read->value ? &session->payload_of : NULL;
    facts->item = read->text;
    facts->item_is_json = session->jsonl;
}

/* NULL: `problem` says why not, or is empty without memory. */
static const char *fill_each_text(const struct each_session *session, const struct each_text *text,
                                  struct arena *scratch, struct buf *problem)
{
    struct buf filled = buf_make(TEXT_MAX);
    struct template_output output = {.arena = scratch, .buf = &filled};
    struct slice missing = {0};
    enum template_result result =
        template_fill(&text->template, &session->facts, text->filling, &output, &missing);
    struct slice copy = {0};
    if (result == TEMPLATE_OK)
        copy = arena_copy(scratch, buf_slice(&filled));
    buf_fini(&filled);
    if (result == TEMPLATE_MISSING) {
        buf_printf(problem, "{%.*s} has no value", SLICE_QUOTED(missing));
        template_explain_missing(&text->template, &session->facts, missing, problem);
    } else if (result == TEMPLATE_FORMAT && output.fault != FILLED_GOOD) {
        buf_printf(problem, "the value of {%.*s} cannot be put into the URL: it %s",
                   SLICE_QUOTED(missing), filled_fault_text(output.fault));
    } else if (result == TEMPLATE_FORMAT) {
        bool as_json = slice_find(missing, '|') > 0;
        buf_printf(problem, "the value of {%.*s} cannot be put there: it %s", SLICE_QUOTED(missing),
                   as_json ? "is no JSON" : "has a NUL byte, or is no UTF-8");
    }
    return copy.at;
}

bool each_fill(struct each_session *session, const struct item *read, struct arena *scratch,
               struct each_item *ret_item, struct buf *problem)
{
    const char **texts = arena_alloc(scratch, (session->n_texts + 1) * sizeof *texts);
    const struct each_text group = {.template = session->group_template};
    const char *name = NULL;
    *ret_item = (struct each_item){.number = read->number, .text = read->text};
    set_facts(session, read);
    if (!texts || jobs_make_key(&session->options, &session->facts, scratch, &ret_item->key,
                                problem) != EXIT_DONE)
        return false;
    if (session->group && !(name = fill_each_text(session, &group, scratch, problem)))
        return false;
    for (size_t i = 0; i < session->n_texts; i++)
        if (!(texts[i] = fill_each_text(session, &session->texts[i], scratch, problem)))
            return false;
    texts[session->n_texts] = NULL;
    ret_item->grouped.group = slice_of(name);
    ret_item->texts = texts;
    ret_item->n_texts = session->n_texts;
    return true;
}
