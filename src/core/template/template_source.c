/* SPDX-License-Identifier: Apache-2.0 */
/* Compiling one source: what is in a template's braces. */
#include "base/clock.h"
#include "base/text/nearest.h"
#include "base/time/duration.h"
#include "core/template/template_priv.h"

enum argument {
    ARGUMENT_NONE,
    ARGUMENT_HEADER,
    ARGUMENT_POINTER,
    ARGUMENT_NAME,
    ARGUMENT_SPAN,
    ARGUMENT_COOKIE,
    ARGUMENT_ZONE,
    ARGUMENT_ZONE_OR_NONE,
    ARGUMENT_VARIABLE,
};

#define KEY (1U << TEMPLATE_FOR_KEY)
#define TENANT (1U << TEMPLATE_FOR_TENANT)
#define PROBE (1U << TEMPLATE_FOR_PROBE)
#define JOB (1U << TEMPLATE_FOR_JOB)
#define ITEM (1U << TEMPLATE_FOR_ITEM)
#define TEXT (1U << TEMPLATE_FOR_TEXT)
#define KEYS (KEY | JOB | ITEM)

struct source_row {
    const char *name;
    enum template_source source;
    enum argument argument;
    unsigned uses;
    const char *form;
    const char *form_of_job; /* which has no item to name a zone; NULL: the same */
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
    {"window", TEMPLATE_WINDOW, ARGUMENT_SPAN, KEYS, "{window:1h}"},
    {"date", TEMPLATE_DATE, ARGUMENT_ZONE, KEYS | TEXT,
     "{date:Area/City} or {date:/pointer/to/zone}", "{date:Area/City}"},
    {"week", TEMPLATE_WEEK, ARGUMENT_ZONE, KEYS | TEXT,
     "{week:Area/City} or {week:/pointer/to/zone}", "{week:Area/City}"},
    {"month", TEMPLATE_MONTH, ARGUMENT_ZONE, KEYS | TEXT,
     "{month:Area/City} or {month:/pointer/to/zone}", "{month:Area/City}"},
    {"hour", TEMPLATE_HOUR, ARGUMENT_ZONE_OR_NONE, KEYS | TEXT, "{hour} or {hour:Area/City}", NULL},
    {"env", TEMPLATE_ENV, ARGUMENT_VARIABLE, JOB | ITEM | TEXT, "{env:NAME}", NULL},
    {"key", TEMPLATE_KEY, ARGUMENT_NONE, PROBE, "{key}"},
    {"cookie", TEMPLATE_COOKIE, ARGUMENT_COOKIE, TENANT, "{cookie:name}"},
};
static const struct source_row *find_source(struct slice name)
{
    for (size_t i = 0; i < COUNT_OF(sources); i++)
        if (slice_eq(name, slice_of(sources[i].name)))
            return &sources[i];
    return NULL;
}

static const struct source_row *nearest_source(struct slice name, unsigned use)
{
    struct nearest nearest = {.given = name};
    for (size_t i = 0; i < COUNT_OF(sources); i++)
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

static bool read_source_header(struct template_compiler *compiler, struct template_part *part)
{
    static const struct headers none;
    struct slice name = part->text;
    if (name.len > 0 && name.at[name.len - 1] == '?') {
        part->optional = true;
        name.len--;
    }
    if (!slice_is_word(name, SLICE_TOKEN_MARKS))
        return template_refuse(compiler, "\"%.*s\" is not a header name", SLICE_QUOTED(name));
    if (headers_is_hop_by_hop(&none, name))
        return template_refuse(compiler, "%.*s ends at this hop: the upstream does not see it",
                               SLICE_QUOTED(name));
    if (compiler->use != TEMPLATE_FOR_TENANT && is_credential(name))
        return template_refuse(compiler,
                               "%.*s is a credential and would be stored or logged as it is; "
                               "use {tenant}",
                               SLICE_QUOTED(name));
    if (compiler->use == TEMPLATE_FOR_KEY && part->optional)
        return template_refuse(
            compiler,
            "a key has no {%.*s} that may be absent: all clients that do not send it would "
            "share one key (require: false passes them)",
            SLICE_QUOTED(part->written));
    if (compiler->use == TEMPLATE_FOR_PROBE && part->optional)
        return template_refuse(compiler,
                               "{%.*s} may be absent, and the target would name something else",
                               SLICE_QUOTED(part->written));
    part->text = name;
    return true;
}

static bool read_source_pointer(struct template_compiler *compiler, struct slice pointer)
{
    if (pointer.len > 0 && json_pointer_valid(pointer))
        return true;
    return template_refuse(compiler, "\"%.*s\" is not a JSON pointer (RFC 6901), such as /order/id",
                           SLICE_QUOTED(pointer));
}

/* Whether there is such a zone is the config's to look up: this is pure. */
static bool read_zone(struct template_compiler *compiler, struct slice zone)
{
    bool is_pointer = zone.len > 0 && zone.at[0] == '/';
    if (is_pointer && compiler->use != TEMPLATE_FOR_JOB)
        return read_source_pointer(compiler, zone);
    if (zone_name_valid(zone))
        return true;
    if (compiler->use == TEMPLATE_FOR_JOB)
        return template_refuse(compiler,
                               "\"%.*s\" is not the name of a time zone, such as Europe/Berlin%s",
                               SLICE_QUOTED(zone), is_pointer ? " (a job has no item)" : "");
    return template_refuse(
        compiler,
        "\"%.*s\" is neither the name of a time zone, such as Europe/Berlin, nor a "
        "JSON pointer to one, such as /zone",
        SLICE_QUOTED(zone));
}

static bool starts_with_digit(struct slice name)
{
    return slice_digits(slice_first(name, 1)) > 0;
}

/* Keeps the name with the NUL that the environment asks for. */
static bool read_environment_variable(struct template_compiler *compiler,
                                      struct template_part *part)
{
    if (!slice_is_word(part->text, "_") || starts_with_digit(part->text))
        return template_refuse(compiler, "\"%.*s\" is not the name of an environment variable",
                               SLICE_QUOTED(part->text));
    part->text = arena_copy(compiler->arena, part->text);
    return part->text.at || template_refuse(compiler, "out of memory");
}

static bool read_argument(struct template_compiler *compiler, const struct source_row *row,
                          struct template_part *part)
{
    switch (row->argument) {
    case ARGUMENT_NONE:
        return true;
    case ARGUMENT_HEADER:
        return read_source_header(compiler, part);
    case ARGUMENT_POINTER:
        return read_source_pointer(compiler, part->text);
    case ARGUMENT_ZONE:
        return read_zone(compiler, part->text);
    case ARGUMENT_ZONE_OR_NONE:
        return !part->text.at || read_zone(compiler, part->text);
    case ARGUMENT_NAME:
        return part->text.len > 0 || template_refuse(compiler, "a name is missing: %s", row->form);
    case ARGUMENT_VARIABLE:
        return read_environment_variable(compiler, part);
    case ARGUMENT_COOKIE:
        return slice_is_word(part->text, SLICE_TOKEN_MARKS) ||
               template_refuse(compiler, "\"%.*s\" is not the name of a cookie",
                               SLICE_QUOTED(part->text));
    case ARGUMENT_SPAN:
        if (duration_parse(part->text, &part->window_us) && part->window_us > 0 &&
            part->window_us != CLOCK_NEVER)
            return true;
        return template_refuse(compiler, "\"%.*s\" is not a duration such as 1h",
                               SLICE_QUOTED(part->text));
    }
    return false;
}

#define LONGEST_MAX (1024 * 1024)
#define AS_JSON "json"

static bool read_longest(struct template_compiler *compiler, struct slice text,
                         struct template_part *part)
{
    uint64_t longest;
    if (!slice_to_u64(text, LONGEST_MAX, &longest) || longest == 0)
        return template_refuse(compiler, "\"%.*s\" is not a number of bytes, as in |max:255",
                               SLICE_QUOTED(text));
    part->longest = (size_t)longest;
    return true;
}

/* `|uuid4` behind a source whose value clients choose. */
static bool read_source_format(struct template_compiler *compiler, struct slice format,
                               struct template_part *part)
{
    struct slice name, problem = {NULL, 0};
    struct slice argument = slice_cut(format, ':', &name);
    enum key_format_kind kind = KEY_FORMAT_REGEX;
    bool fits = part->source == TEMPLATE_HEADER || part->source == TEMPLATE_BODY ||
                part->source == TEMPLATE_FORM || part->source == TEMPLATE_PATH ||
                part->source == TEMPLATE_QUERY;
    bool of_member = part->source == TEMPLATE_MEMBER || part->source == TEMPLATE_BODY;
    part->as_json =
        compiler->use == TEMPLATE_FOR_TEXT && of_member && slice_eq(format, SLICE(AS_JSON));
    if (part->as_json)
        return true;
    if ((1U << compiler->use) & (JOB | ITEM | TEXT))
        return template_refuse(compiler, "{%.*s}: a format is allowed only in the key of a rule",
                               SLICE_QUOTED(part->written));
    if (!fits || compiler->use != TEMPLATE_FOR_KEY)
        return template_refuse(compiler,
                               "{%.*s}: a format is allowed only behind header, body, form, path "
                               "or query in a key",
                               SLICE_QUOTED(part->written));
    if (slice_eq(name, SLICE("max")))
        return read_longest(compiler, argument, part);
    if (slice_eq(format, SLICE("uuid")))
        kind = KEY_FORMAT_UUID;
    else if (slice_eq(format, SLICE("uuid4")))
        kind = KEY_FORMAT_UUID4;
    else if (slice_eq(format, SLICE("uuid7")))
        kind = KEY_FORMAT_UUID7;
    else if (!slice_eq(name, SLICE("regex")))
        return template_refuse(compiler,
                               "there is no format \"%.*s\" (expected |uuid, |uuid4, |uuid7, "
                               "|max:255 or |regex:PATTERN)",
                               SLICE_QUOTED(format));
    part->format = key_format_new(kind, argument, compiler->arena, &problem);
    return part->format || template_refuse(compiler, "{%.*s}: %.*s", SLICE_QUOTED(part->written),
                                           SLICE_ARG(problem));
}

/* ---- what only items have ---- */

#define MEMBER_MARKS "_-."

/* Bytes beyond ASCII are letters. */
static bool is_member_name(struct slice name)
{
    bool good = name.len > 0 && !starts_with_digit(name);
    for (size_t i = 0; i < name.len; i++)
        good = good && ((unsigned char)name.at[i] >= 0x80 ||
                        slice_is_word(slice_make(name.at + i, 1), MEMBER_MARKS));
    return good;
}

/* `{name}`: the part's text is the pointer to it. */
static bool read_source_member(struct template_compiler *compiler, struct slice name,
                               struct template_part *part)
{
    if (!is_member_name(name))
        return template_refuse(compiler,
                               "\"%.*s\" is not a name of letters, digits, '_', '-' and '.' that "
                               "does not begin with a digit (expected a JSON pointer, {/%.*s})",
                               SLICE_QUOTED(name), SLICE_QUOTED(name));
    char *pointer = arena_alloc(compiler->arena, name.len + 1);
    if (!pointer)
        return template_refuse(compiler, "out of memory");
    pointer[0] = '/';
    memcpy(pointer + 1, name.at, name.len);
    part->source = TEMPLATE_MEMBER;
    part->text = slice_make(pointer, name.len + 1);
    return true;
}

/* `{}`, `{name}` or `{/pointer}`. */
static bool read_of_item(struct template_compiler *compiler, struct slice source,
                         struct template_part *part)
{
    part->source = TEMPLATE_ITEM;
    part->text = source;
    if (source.len == 0)
        return true;
    if (source.at[0] != '/')
        return read_source_member(compiler, source, part);
    part->source = TEMPLATE_BODY;
    return read_source_pointer(compiler, source);
}

/* Whether it is one of these; a name that is a source in this use is that source. */
static bool is_of_item(struct slice source, unsigned use)
{
    if (source.len == 0 || source.at[0] == '/')
        return true;
    const struct source_row *row = find_source(source);
    return slice_find(source, ':') < 0 && !(row && (row->uses & use));
}

bool template_is_placeholder(struct slice written)
{
    struct slice name, source;
    if (slice_eq(slice_cut(written, '|', &source), SLICE(AS_JSON)))
        written = source;
    if (written.len == 0 || written.at[0] == '/' || is_member_name(written))
        return true;
    bool has_argument = slice_cut(written, ':', &name).at;
    const struct source_row *row = find_source(name);
    return has_argument && row && (row->uses & TEXT);
}

/* ---- a source ---- */

static const char *form_of(const struct template_compiler *compiler, const struct source_row *row)
{
    bool job = compiler->use == TEMPLATE_FOR_JOB;
    return job && row->form_of_job ? row->form_of_job : row->form;
}

/* A source that asks for an argument, and has none, may be meant as a member. */
static bool refuse_form(struct template_compiler *compiler, const struct source_row *row,
                        struct slice written)
{
    bool member = ((1U << compiler->use) & (ITEM | TEXT)) && is_member_name(written);
    if (member)
        return template_refuse(compiler, "{%.*s} is written %s; the member of that name is {/%.*s}",
                               SLICE_QUOTED(written), row->form, SLICE_QUOTED(written));
    return template_refuse(compiler, "{%.*s} is written %s", SLICE_QUOTED(written),
                           form_of(compiler, row));
}

/* Finds what a name stands for; NULL: it cannot be here. */
static const struct source_row *read_source_name(struct template_compiler *compiler,
                                                 struct slice name)
{
    static const char *const uses[] = {"a key",       "a tenant",      "a probe",
                                       "a job's key", "an item's key", "a text"};
    unsigned use = 1U << compiler->use;
    const struct source_row *row = find_source(name);
    if (row && (row->uses & use))
        return row;
    if (row)
        template_refuse(compiler, "%s cannot be part of %s", row->form, uses[compiler->use]);
    else
        template_refuse(compiler, "there is no source \"%.*s\"; the nearest is %s",
                        SLICE_QUOTED(name), form_of(compiler, nearest_source(name, use)));
    return NULL;
}

static bool read_named(struct template_compiler *compiler, struct slice source,
                       struct template_part *part)
{
    struct slice name;
    struct slice argument = slice_cut(source, ':', &name);
    const struct source_row *row = read_source_name(compiler, name);
    if (!row)
        return false;
    bool may_lack = row->argument == ARGUMENT_NONE || row->argument == ARGUMENT_ZONE_OR_NONE;
    if (argument.at ? row->argument == ARGUMENT_NONE : !may_lack)
        return refuse_form(compiler, row, part->written);
    part->source = row->source;
    part->text = argument;
    return read_argument(compiler, row, part);
}

bool template_read_source(struct template_compiler *compiler, struct slice written,
                          struct template_part *ret_part)
{
    unsigned use = 1U << compiler->use;
    struct slice source;
    struct slice format = slice_cut(written, '|', &source);
    struct template_part part = {.written = written};
    bool of_item = is_of_item(source, use);
    if (of_item && use == JOB && (source.len == 0 || source.at[0] == '/'))
        return template_refuse(compiler, "{%.*s} names an item, and a job has none",
                               SLICE_QUOTED(written));
    if (of_item && (use & (ITEM | TEXT)) ? !read_of_item(compiler, source, &part)
                                         : !read_named(compiler, source, &part))
        return false;
    if (format.at && !read_source_format(compiler, format, &part))
        return false;
    *ret_part = part;
    return true;
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
