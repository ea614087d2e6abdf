/* SPDX-License-Identifier: Apache-2.0 */
/* Compiling templates, and what a compiled one says of itself. */
#include "core/template.h"

#include "base/clock.h"
#include "base/duration.h"
#include "base/nearest.h"
#include "core/path.h"

#include <stdarg.h>

enum argument {
    ARGUMENT_NONE,
    ARGUMENT_HEADER,
    ARGUMENT_POINTER,
    ARGUMENT_NAME,
    ARGUMENT_SPAN,
    ARGUMENT_COOKIE,
    ARGUMENT_ZONE,
    ARGUMENT_ZONE_OR_NONE,
};

#define KEY (1U << TEMPLATE_FOR_KEY)
#define TENANT (1U << TEMPLATE_FOR_TENANT)
#define PROBE (1U << TEMPLATE_FOR_PROBE)

struct source_row {
    const char *name;
    enum template_source source;
    enum argument argument;
    unsigned uses;
    const char *form;
};

static const struct source_row sources[] = {
    {"header", TEMPLATE_HEADER, ARGUMENT_HEADER, KEY | TENANT | PROBE, "{header:NAME}"},
    {"body", TEMPLATE_BODY, ARGUMENT_POINTER, KEY | PROBE, "{body:/json/pointer}"},
    {"form", TEMPLATE_FORM, ARGUMENT_NAME, KEY | PROBE, "{form:name}"},
    {"path", TEMPLATE_PATH, ARGUMENT_NAME, KEY | TENANT | PROBE, "{path:param}"},
    {"query", TEMPLATE_QUERY, ARGUMENT_NAME, KEY | TENANT | PROBE, "{query:name}"},
    {"method", TEMPLATE_METHOD, ARGUMENT_NONE, KEY | PROBE, "{method}"},
    {"route", TEMPLATE_ROUTE, ARGUMENT_NONE, KEY | PROBE, "{route}"},
    {"tenant", TEMPLATE_TENANT, ARGUMENT_NONE, KEY | PROBE, "{tenant}"},
    {"payload", TEMPLATE_PAYLOAD, ARGUMENT_NONE, KEY | PROBE, "{payload}"},
    {"window", TEMPLATE_WINDOW, ARGUMENT_SPAN, KEY, "{window:1h}"},
    {"date", TEMPLATE_DATE, ARGUMENT_ZONE, KEY, "{date:Area/City} or {date:/pointer/to/zone}"},
    {"week", TEMPLATE_WEEK, ARGUMENT_ZONE, KEY, "{week:Area/City} or {week:/pointer/to/zone}"},
    {"hour", TEMPLATE_HOUR, ARGUMENT_ZONE_OR_NONE, KEY, "{hour} or {hour:Area/City}"},
    {"key", TEMPLATE_KEY, ARGUMENT_NONE, PROBE, "{key}"},
    {"cookie", TEMPLATE_COOKIE, ARGUMENT_COOKIE, TENANT, "{cookie:name}"},
};
#define N_SOURCES (sizeof(sources) / sizeof(sources[0]))

/* ---- complaints ---- */

struct compiler {
    enum template_use use;
    struct arena *arena;
    struct template template;
    struct slice problem;
};

/* Says what is wrong; the result is always false. */
static bool __attribute__((format(printf, 2, 3)))
refuse_template(struct compiler *compiler, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    compiler->problem = arena_vprintf(compiler->arena, format, arguments);
    va_end(arguments);
    return false;
}

static const struct source_row *find_source(struct slice name)
{
    for (size_t i = 0; i < N_SOURCES; i++)
        if (slice_eq(name, slice_of(sources[i].name)))
            return &sources[i];
    return NULL;
}

static const struct source_row *nearest_source(struct slice name, unsigned use)
{
    struct nearest nearest = {.given = name};
    for (size_t i = 0; i < N_SOURCES; i++)
        if (sources[i].uses & use)
            nearest_try(&nearest, slice_of(sources[i].name));
    return find_source(nearest.best);
}

/* ---- one source ---- */

static bool is_credential(struct slice header)
{
    static const struct slice names[] = {
        {"Authorization", 13}, {"Proxy-Authorization", 19}, {"Cookie", 6}, {"X-Api-Key", 9}};
    return SLICE_AMONG(header, names);
}

static bool read_header(struct compiler *compiler, struct template_part *part)
{
    static const struct headers none;
    struct slice name = part->text;
    if (name.len > 0 && name.at[name.len - 1] == '?') {
        part->optional = true;
        name.len--;
    }
    if (!slice_is_word(name, SLICE_TOKEN_MARKS))
        return refuse_template(compiler, "\"%.*s\" is not a header name", SLICE_QUOTED(name));
    if (headers_is_hop_by_hop(&none, name))
        return refuse_template(compiler, "%.*s ends at this hop: the upstream does not see it",
                               SLICE_QUOTED(name));
    if (compiler->use != TEMPLATE_FOR_TENANT && is_credential(name))
        return refuse_template(compiler,
                               "%.*s is a credential and would be stored or logged as it is; "
                               "use {tenant}",
                               SLICE_QUOTED(name));
    if (compiler->use == TEMPLATE_FOR_KEY && part->optional)
        return refuse_template(
            compiler,
            "a key has no {%.*s} that may be absent: all clients that do not send it would "
            "share one key (require: false passes them)",
            SLICE_QUOTED(part->written));
    if (compiler->use == TEMPLATE_FOR_PROBE && part->optional)
        return refuse_template(compiler,
                               "{%.*s} may be absent, and the target would name something else",
                               SLICE_QUOTED(part->written));
    part->text = name;
    return true;
}

static bool read_pointer(struct compiler *compiler, struct slice pointer)
{
    if (pointer.len > 0 && json_pointer_valid(pointer))
        return true;
    return refuse_template(compiler, "\"%.*s\" is not a JSON pointer (RFC 6901), such as /order/id",
                           SLICE_QUOTED(pointer));
}

/* Whether there is such a zone is the config's to look up: this is pure. */
static bool read_zone(struct compiler *compiler, struct slice zone)
{
    if (zone.len > 0 && zone.at[0] == '/')
        return read_pointer(compiler, zone);
    if (zone_name_valid(zone))
        return true;
    return refuse_template(
        compiler,
        "\"%.*s\" is neither the name of a time zone, such as Europe/Berlin, nor a "
        "JSON pointer to one, such as /zone",
        SLICE_QUOTED(zone));
}

static bool read_argument(struct compiler *compiler, const struct source_row *row,
                          struct template_part *part)
{
    switch (row->argument) {
    case ARGUMENT_NONE:
        return true;
    case ARGUMENT_HEADER:
        return read_header(compiler, part);
    case ARGUMENT_POINTER:
        return read_pointer(compiler, part->text);
    case ARGUMENT_ZONE:
        return read_zone(compiler, part->text);
    case ARGUMENT_ZONE_OR_NONE:
        return !part->text.at || read_zone(compiler, part->text);
    case ARGUMENT_NAME:
        return part->text.len > 0 || refuse_template(compiler, "a name is missing: %s", row->form);
    case ARGUMENT_COOKIE:
        return slice_is_word(part->text, SLICE_TOKEN_MARKS) ||
               refuse_template(compiler, "\"%.*s\" is not the name of a cookie",
                               SLICE_QUOTED(part->text));
    case ARGUMENT_SPAN:
        if (duration_parse(part->text, &part->window_us) && part->window_us > 0 &&
            part->window_us != CLOCK_NEVER)
            return true;
        return refuse_template(compiler, "\"%.*s\" is not a duration such as 1h",
                               SLICE_QUOTED(part->text));
    }
    return false;
}

#define LONGEST_MAX (1024 * 1024)

static bool read_longest(struct compiler *compiler, struct slice text, struct template_part *part)
{
    uint64_t longest;
    if (!slice_to_u64(text, LONGEST_MAX, &longest) || longest == 0)
        return refuse_template(compiler, "\"%.*s\" is not a number of bytes, as in |max:255",
                               SLICE_QUOTED(text));
    part->longest = (size_t)longest;
    return true;
}

/* `|uuid4` behind a source whose value clients choose. */
static bool read_format(struct compiler *compiler, struct slice format, struct template_part *part)
{
    struct slice name, problem = {NULL, 0};
    struct slice argument = slice_cut(format, ':', &name);
    enum key_format_kind kind = KEY_FORMAT_REGEX;
    bool fits = part->source == TEMPLATE_HEADER || part->source == TEMPLATE_BODY ||
                part->source == TEMPLATE_FORM || part->source == TEMPLATE_PATH ||
                part->source == TEMPLATE_QUERY;
    if (!fits || compiler->use != TEMPLATE_FOR_KEY)
        return refuse_template(compiler,
                               "{%.*s}: a format is allowed only behind header, body, form, path "
                               "or query in a key",
                               SLICE_QUOTED(part->written));
    if (slice_eq(name, SLICE("max")))
        return read_longest(compiler, argument, part);
    if (slice_eq(format, SLICE("uuid")))
        kind = KEY_FORMAT_UUID;
    else if (slice_eq(format, SLICE("uuid4")))
        kind = KEY_FORMAT_UUID4;
    else if (!slice_eq(name, SLICE("regex")))
        return refuse_template(compiler,
                               "there is no format \"%.*s\" (expected |uuid, |uuid4, |max:255 "
                               "or |regex:PATTERN)",
                               SLICE_QUOTED(format));
    part->format = key_format_new(kind, argument, compiler->arena, &problem);
    return part->format || refuse_template(compiler, "{%.*s}: %.*s", SLICE_QUOTED(part->written),
                                           SLICE_ARG(problem));
}

static bool read_source(struct compiler *compiler, struct slice written,
                        struct template_part *ret_part)
{
    static const char *const uses[] = {"a key", "a tenant", "a probe"};
    struct slice name, source;
    unsigned use = 1U << compiler->use;
    struct slice format = slice_cut(written, '|', &source);
    struct slice argument = slice_cut(source, ':', &name);
    const struct source_row *row = find_source(name);
    if (!row)
        return refuse_template(compiler, "there is no source \"%.*s\"; the nearest is %s",
                               SLICE_QUOTED(name), nearest_source(name, use)->form);
    if (!(row->uses & use))
        return refuse_template(compiler, "%s cannot be part of %s", row->form, uses[compiler->use]);
    bool may_lack = row->argument == ARGUMENT_NONE || row->argument == ARGUMENT_ZONE_OR_NONE;
    if (argument.at ? row->argument == ARGUMENT_NONE : !may_lack)
        return refuse_template(compiler, "{%.*s} is written %s", SLICE_QUOTED(written), row->form);
    *ret_part = (struct template_part){.source = row->source, .text = argument, .written = written};
    return read_argument(compiler, row, ret_part) &&
           (!format.at || read_format(compiler, format, ret_part));
}

/* ---- the whole ---- */

static bool literal_valid(struct compiler *compiler, struct slice text)
{
    bool probe = compiler->use == TEMPLATE_FOR_PROBE;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        if (c == '}')
            return refuse_template(compiler, "a '}' closes nothing");
        if (c < ' ' || c > '~')
            return refuse_template(compiler, "text outside braces is printable ASCII");
        if (probe && strchr(" \"#<>\\^`|", c))
            return refuse_template(compiler, "'%c' is not allowed in a request target", c);
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
static bool read_part(struct compiler *compiler, struct slice *rest, struct template_part *ret_part)
{
    if (rest->at[0] == '{') {
        ptrdiff_t end = closing_brace(*rest);
        if (end < 0)
            return refuse_template(compiler, "a '{' is not closed");
        struct slice written = slice_make(rest->at + 1, (size_t)end - 1);
        *rest = slice_skip(*rest, (size_t)end + 1);
        return read_source(compiler, written, ret_part);
    }
    ptrdiff_t end = slice_find(*rest, '{');
    struct slice literal = slice_make(rest->at, end < 0 ? rest->len : (size_t)end);
    *rest = slice_skip(*rest, literal.len);
    *ret_part =
        (struct template_part){.source = TEMPLATE_LITERAL, .text = literal, .written = literal};
    return literal_valid(compiler, literal);
}

static bool read_parts(struct compiler *compiler, struct slice text)
{
    while (text.len > 0) {
        struct template_part part;
        if (!read_part(compiler, &text, &part))
            return false;
        if (compiler->template.n == TEMPLATE_PARTS_MAX)
            return refuse_template(compiler, "a template has at most %d parts", TEMPLATE_PARTS_MAX);
        compiler->template.parts[compiler->template.n++] = part;
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
static bool check_separation(struct compiler *compiler)
{
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
                return refuse_template(
                    compiler,
                    "the text \"%.*s\" between two sources must hold a character "
                    "outside %s, such as ':', or two requests could look the same",
                    SLICE_QUOTED(between), probe ? "A-Za-z0-9._~+%-" : "A-Za-z0-9._~/@+%-");
            after_source = true;
            separates = false;
            between = slice_make(NULL, 0);
        }
    }
    return true;
}

static bool check_key(struct compiler *compiler)
{
    const struct template *template = &compiler->template;
    if (count_parts(template, TEMPLATE_WINDOW) > 1)
        return refuse_template(compiler, "a key has at most one {window:...}");
    if (template->n == count_parts(template, TEMPLATE_WINDOW))
        return refuse_template(compiler, "a window alone names nothing");
    if (template_uses(template, TEMPLATE_WINDOW) && template_has_clock(template))
        return refuse_template(compiler,
                               "a {window:...} beside {date:..}, {week:..} or {hour} would end "
                               "with the day, week or hour (expected one of them)");
    return true;
}

static bool check_probe(struct compiler *compiler)
{
    const struct template *template = &compiler->template;
    const struct template_part *first = &template->parts[0];
    if (first->source != TEMPLATE_LITERAL || first->text.at[0] != '/')
        return refuse_template(compiler, "a probe's target starts with '/'");
    for (size_t i = 0; i < template->n; i++) {
        struct slice path;
        if (template->parts[i].source != TEMPLATE_LITERAL)
            continue;
        bool in_query = slice_cut(template->parts[i].text, '?', &path).at;
        if (path_is_ambiguous(path))
            return refuse_template(compiler, "servers read \"%.*s\" in different ways",
                                   SLICE_QUOTED(path));
        if (in_query)
            break;
    }
    return true;
}

static bool check_whole(struct compiler *compiler)
{
    if (compiler->template.n == 0)
        return refuse_template(compiler, "the template is empty");
    return check_separation(compiler) &&
           (compiler->use != TEMPLATE_FOR_KEY || check_key(compiler)) &&
           (compiler->use != TEMPLATE_FOR_PROBE || check_probe(compiler));
}

bool template_compile(struct slice text, enum template_use use, struct arena *arena,
                      struct template *ret_template, struct slice *ret_problem)
{
    struct compiler compiler = {.use = use, .arena = arena};
    struct slice kept = arena_copy(arena, text);
    bool done = kept.at ? read_parts(&compiler, kept) && check_whole(&compiler)
                        : refuse_template(&compiler, "out of memory");
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
        buf_add_slice(buf, literal ? part->text : part->written);
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
        [TEMPLATE_WEEK] = false};
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
    return count_parts(template, TEMPLATE_BODY) + count_parts(template, TEMPLATE_FORM) > 0;
}

int64_t template_window_us(const struct template *template)
{
    for (size_t i = 0; i < template->n; i++)
        if (template->parts[i].source == TEMPLATE_WINDOW)
            return template->parts[i].window_us;
    return 0;
}

bool template_is_credential(const struct template *template)
{
    for (size_t i = 0; i < template->n; i++)
        if (template->parts[i].source == TEMPLATE_COOKIE ||
            (template->parts[i].source == TEMPLATE_HEADER &&
             is_credential(template->parts[i].text)))
            return true;
    return false;
}
