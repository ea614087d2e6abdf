/* SPDX-License-Identifier: Apache-2.0 */
/* From an item to its key, group and texts. */
#include "base/mem.h"
#include "base/nearest.h"
#include "cli/each.h"

#define TEXT_MAX ((size_t)4 * 1024 * 1024) /* a text that was filled in */

/* ---- templates ---- */

static bool names_item(const struct template *template)
{
    return template_uses(template, TEMPLATE_ITEM) || template_uses(template, TEMPLATE_MEMBER) ||
           template_uses(template, TEMPLATE_BODY);
}

/* A line has no members. */
static int check_form(const struct each_session *session, const struct template *template)
{
    for (size_t i = 0; i < template->n && !session->csv && !session->jsonl; i++) {
        const struct template_part *part = &template->parts[i];
        if (part->source == TEMPLATE_MEMBER || part->source == TEMPLATE_BODY ||
            template_part_asks_zone(part))
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
    return check_form(session, ret);
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
    int code = jobs_prepare(&session->options, TEMPLATE_FOR_ITEM);
    if (code == EXIT_DONE)
        code = check_form(session, &session->options.key_template);
    if (code == EXIT_DONE && !names_item(&session->options.key_template))
        code = command_misused(EACH_NAME, "--key must name the item, as {} or {id} do: else all "
                                          "items would be one job");
    if (code == EXIT_DONE && session->group)
        code = compile_text(session, session->group, &session->group_template);
    session->texts = mem_zalloc(n + 1, sizeof *session->texts);
    if (code != EXIT_DONE || !session->texts)
        return code != EXIT_DONE ? code : jobs_say(EXIT_UNAVAILABLE, "out of memory");
    return compile_texts(session, words, n);
}

/* ---- columns ---- */

static bool check_columns(const struct template *template, const struct items *items,
                          struct buf *problem)
{
    for (size_t i = 0; i < template->n; i++) {
        const struct template_part *part = &template->parts[i];
        struct slice name = part->written;
        if (part->source != TEMPLATE_MEMBER || items_has_column(items, name))
            continue;
        struct nearest nearest = {.given = name};
        for (size_t at = 0; at < items_column_count(items); at++)
            nearest_try(&nearest, items_column_at(items, at));
        struct slice meant = nearest_name(&nearest);
        buf_printf(problem, "the input has no column %.*s", SLICE_QUOTED(name));
        if (meant.at)
            buf_printf(problem, "; did you mean {%.*s}?", SLICE_QUOTED(meant));
        return false;
    }
    return true;
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
static const char *fill(const struct each_session *session, const struct each_text *text,
                        struct arena *scratch, struct buf *problem)
{
    struct buf filled = buf_make(TEXT_MAX);
    struct template_output output = {scratch, &filled};
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
    } else if (result == TEMPLATE_FORMAT) {
        buf_printf(problem, "the value of {%.*s} cannot be put there", SLICE_QUOTED(missing));
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
    if (session->group && !(name = fill(session, &group, scratch, problem)))
        return false;
    for (size_t i = 0; i < session->n_texts; i++)
        if (!(texts[i] = fill(session, &session->texts[i], scratch, problem)))
            return false;
    texts[session->n_texts] = NULL;
    ret_item->grouped.group = slice_of(name);
    ret_item->texts = texts;
    ret_item->n_texts = session->n_texts;
    return true;
}
