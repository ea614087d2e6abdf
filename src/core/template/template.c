/* SPDX-License-Identifier: Apache-2.0 */
/* Compiling templates, and what a compiled one says of itself. */
#include "core/request/path.h"
#include "core/template/template_priv.h"

#include <stdarg.h>

bool template_refuse(struct template_compiler *compiler, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    compiler->problem = arena_vprintf(compiler->arena, format, arguments);
    va_end(arguments);
    return false;
}

bool template_add_part(struct template_compiler *compiler, const struct template_part *part)
{
    if (compiler->template.n == TEMPLATE_PARTS_MAX)
        return template_refuse(compiler, "a template has at most %d parts", TEMPLATE_PARTS_MAX);
    compiler->template.parts[compiler->template.n++] = *part;
    return true;
}

/* ---- the whole ---- */

static bool literal_valid(struct template_compiler *compiler, struct slice text)
{
    bool probe = compiler->use == TEMPLATE_FOR_PROBE;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        if (c == '}')
            return template_refuse(compiler, "a '}' closes nothing");
        if (c < ' ' || c > '~')
            return template_refuse(compiler, "text outside braces is printable ASCII");
        if (probe && strchr(" \"#<>\\^`|", c))
            return template_refuse(compiler, "'%c' is not allowed in a request target", c);
    }
    return true;
}

/* Where the '}' is that closes the '{' at the start, or -1. A pattern may hold braces. */
static ptrdiff_t closing_brace(struct slice text)
{
    int depth = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] == '\\' && depth > 0 && i + 1 < text.len)
            i++;
        else if (text.at[i] == '{')
            depth++;
        else if (text.at[i] == '}' && --depth == 0)
            return (ptrdiff_t)i;
    }
    return -1;
}

/* Takes one literal or one source off the front of `*rest`. */
static bool read_template_part(struct template_compiler *compiler, struct slice *rest,
                               struct template_part *ret_part)
{
    if (rest->at[0] == '{') {
        ptrdiff_t end = closing_brace(*rest);
        if (end < 0)
            return template_refuse(compiler, "a '{' is not closed");
        struct slice written = slice_make(rest->at + 1, (size_t)end - 1);
        *rest = slice_skip(*rest, (size_t)end + 1);
        return template_read_source(compiler, written, ret_part);
    }
    ptrdiff_t end = slice_find(*rest, '{');
    struct slice literal = slice_make(rest->at, end < 0 ? rest->len : (size_t)end);
    *rest = slice_skip(*rest, literal.len);
    *ret_part =
        (struct template_part){.source = TEMPLATE_LITERAL, .text = literal, .written = literal};
    return literal_valid(compiler, literal);
}

static bool read_template_parts(struct template_compiler *compiler, struct slice text)
{
    while (text.len > 0) {
        struct template_part part;
        if (!read_template_part(compiler, &text, &part) || !template_add_part(compiler, &part))
            return false;
    }
    return true;
}

static size_t count_parts(const struct template *template, enum template_source source)
{
    size_t n = 0;
    for (size_t i = 0; i < template->n; i++)
        n += template->parts[i].source == source;
    return n;
}

/* One text must come from one list of values only: between two sources there is something that no
 * encoded value holds. A window leaves nothing in the text. */
static bool check_separation(struct template_compiler *compiler)
{
    static const char *const alike[] = {"requests", "requests", "requests", "runs", "items", ""};
    bool probe = compiler->use == TEMPLATE_FOR_PROBE;
    bool after_source = false;
    struct slice between = {NULL, 0};
    bool separates = false;
    const char *in_values = probe ? SLICE_URL_MARKS "+%" : SLICE_URL_MARKS "/@+%";
    for (size_t i = 0; i < compiler->template.n; i++) {
        const struct template_part *part = &compiler->template.parts[i];
        if (part->source == TEMPLATE_LITERAL) {
            between = part->text;
            separates = separates || slice_span(part->text, in_values) < part->text.len;
        } else if (part->source != TEMPLATE_WINDOW) {
            if (after_source && !separates && (probe || between.at))
                return template_refuse(
                    compiler,
                    "the text \"%.*s\" between two sources must hold a character "
                    "outside %s, such as ':', or two %s could look the same",
                    SLICE_QUOTED(between), probe ? "A-Za-z0-9._~+%-" : "A-Za-z0-9._~/@+%-",
                    alike[compiler->use]);
            after_source = true;
            separates = false;
            between = slice_make(NULL, 0);
        }
    }
    return true;
}

static bool check_key_sources(struct template_compiler *compiler)
{
    const struct template *template = &compiler->template;
    if (count_parts(template, TEMPLATE_WINDOW) > 1)
        return template_refuse(compiler, "a key has at most one {window:...}");
    if (template->n == count_parts(template, TEMPLATE_WINDOW))
        return template_refuse(compiler, "a window alone names nothing");
    if (template_uses(template, TEMPLATE_WINDOW) && template_has_clock(template))
        return template_refuse(
            compiler, "a {window:...} beside {date:..}, {week:..}, {month:..} or {hour} "
                      "would end with the day, week, month or hour (expected one of them)");
    return true;
}

static bool check_probe_sources(struct template_compiler *compiler)
{
    const struct template *template = &compiler->template;
    const struct template_part *first = &template->parts[0];
    if (first->source != TEMPLATE_LITERAL || first->text.at[0] != '/')
        return template_refuse(compiler, "a probe's target starts with '/'");
    for (size_t i = 0; i < template->n; i++) {
        struct slice path;
        if (template->parts[i].source != TEMPLATE_LITERAL)
            continue;
        bool in_query = slice_cut(template->parts[i].text, '?', &path).at;
        if (path_is_ambiguous(path))
            return template_refuse(compiler, "servers read \"%.*s\" in different ways",
                                   SLICE_QUOTED(path));
        if (in_query)
            break;
    }
    return true;
}

static bool check_whole(struct template_compiler *compiler)
{
    enum template_use use = compiler->use;
    bool is_key = use == TEMPLATE_FOR_KEY || use == TEMPLATE_FOR_JOB || use == TEMPLATE_FOR_ITEM;
    if (compiler->template.n == 0)
        return template_refuse(compiler, "the template is empty");
    return check_separation(compiler) && (!is_key || check_key_sources(compiler)) &&
           (use != TEMPLATE_FOR_PROBE || check_probe_sources(compiler));
}

static bool compile_source_text(struct template_compiler *compiler, struct slice text)
{
    if (!text.at)
        return template_refuse(compiler, "out of memory");
    if (compiler->use == TEMPLATE_FOR_TEXT)
        return template_read_text(compiler, text);
    return read_template_parts(compiler, text) && check_whole(compiler);
}

bool template_compile(struct slice text, enum template_use use, struct arena *arena,
                      struct template *ret_template, struct slice *ret_problem)
{
    struct template_compiler compiler = {.use = use, .arena = arena};
    bool done = compile_source_text(&compiler, arena_copy(arena, text));
    if (done)
        *ret_template = compiler.template;
    else
        *ret_problem = compiler.problem;
    return done;
}

/* ---- what a template says of itself ---- */

void template_write(const struct template *template, struct buf *buf)
{
    for (size_t i = 0; i < template->n; i++) {
        const struct template_part *part = &template->parts[i];
        bool literal = part->source == TEMPLATE_LITERAL;
        buf_add_str(buf, literal ? "" : "{");
        buf_add_slice(buf, part->written);
        buf_add_str(buf, literal ? "" : "}");
    }
}

bool template_is_plain_header(const struct template *template)
{
    return template->n == 1 && template->parts[0].source == TEMPLATE_HEADER;
}

bool template_uses(const struct template *template, enum template_source source)
{
    return count_parts(template, source) > 0;
}

bool template_reads_header(const struct template *template, struct slice name)
{
    for (size_t i = 0; i < template->n; i++)
        if (template->parts[i].source == TEMPLATE_HEADER &&
            slice_eq_nocase(template->parts[i].text, name))
            return true;
    return false;
}

bool template_has_part(const struct template *template, const struct template_part *part)
{
    for (size_t i = 0; i < template->n; i++)
        if (template->parts[i].source == part->source &&
            slice_eq(template->parts[i].text, part->text))
            return true;
    return false;
}

bool template_has_optional(const struct template *template)
{
    for (size_t i = 0; i < template->n; i++)
        if (template->parts[i].optional)
            return true;
    return false;
}

const struct template_part *template_key_header(const struct template *template)
{
    const struct template_part *first = NULL;
    for (size_t i = 0; i < template->n; i++) {
        const struct template_part *part = &template->parts[i];
        if (part->source != TEMPLATE_HEADER)
            continue;
        if (slice_eq_nocase(part->text, SLICE("Idempotency-Key")))
            return part;
        first = first ? first : part;
    }
    return first;
}

static struct slice source_name(const struct template_part *part)
{
    struct slice name;
    slice_cut(part->written, '|', &name);
    return name;
}

void template_describe_format(const struct template *template, struct slice source,
                              const struct key_format *rules, struct buf *buf)
{
    for (size_t i = 0; i < template->n; i++) {
        const struct template_part *part = &template->parts[i];
        if (part->source == TEMPLATE_LITERAL || !slice_eq(part->written, source))
            continue;
        buf_printf(buf, "the value of %.*s is not ", SLICE_ARG(source_name(part)));
        if (part->longest > 0)
            buf_printf(buf, "at most %zu bytes long", part->longest);
        else
            key_format_describe(part->format ? part->format : rules, buf);
        return;
    }
}

const struct template_part *template_not_kept(const struct template *template)
{
    static const bool kept[] = {
        [TEMPLATE_LITERAL] = true, [TEMPLATE_METHOD] = true,  [TEMPLATE_ROUTE] = true,
        [TEMPLATE_TENANT] = true,  [TEMPLATE_PAYLOAD] = true, [TEMPLATE_KEY] = true,
        [TEMPLATE_MEMBER] = false};
    for (size_t i = 0; i < template->n; i++)
        if (!kept[template->parts[i].source])
            return &template->parts[i];
    return NULL;
}

bool template_needs_body(const struct template *template)
{
    for (size_t i = 0; i < template->n; i++)
        if (template_part_asks_zone(&template->parts[i]))
            return true;
    return template_uses(template, TEMPLATE_BODY) || template_uses(template, TEMPLATE_FORM) ||
           template_uses(template, TEMPLATE_MEMBER);
}

int64_t template_window_us(const struct template *template)
{
    for (size_t i = 0; i < template->n; i++)
        if (template->parts[i].source == TEMPLATE_WINDOW)
            return template->parts[i].window_us;
    return 0;
}
