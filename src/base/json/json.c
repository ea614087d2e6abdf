/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json/json.h"
#include "base/slice.h"

#include "base/check.h"
#include "base/json/json_scan.h"
#include "base/mem.h"
#include "base/text/ascii.h"
#include "base/text/number.h"
#include "base/text/utf8.h"

/* Up to this many members are compared each with each: no memory, and quicker than sorting. */
#define MEMBERS_COMPARED 8

/* One open array or object. Levels stay linked for reuse when they are left. */
struct level {
    struct json *container;
    struct json *last; /* newest child, NULL at first */
    struct level *up;
    struct level *down;
};

struct reader {
    struct arena *arena;
    const char *start;
    const char *at;
    const char *end;
    struct level outside; /* the root's place; `depth` 0 */
    struct level *level;  /* innermost open container, or &outside */
    size_t depth;
    enum json_error error; /* ends the reading */
    size_t error_offset;
    enum json_error refusal; /* the first one; the grammar is checked on */
    size_t refusal_offset;
};

const char *json_error_text(enum json_error error)
{
    static const char *const texts[] = {
        [JSON_OK] = "no error",
        [JSON_SYNTAX] = "not JSON",
        [JSON_UTF8] = "invalid UTF-8",
        [JSON_TRAILING] = "unexpected text after the JSON value",
        [JSON_DEPTH] = "nested too deeply",
        [JSON_SURROGATE] = "lone surrogate in a string",
        [JSON_DUPLICATE] = "duplicate member name",
        [JSON_RANGE] = "number with too many digits or too large an exponent",
        [JSON_NO_MEMORY] = "out of memory",
    };
    CHECK(error <= JSON_NO_MEMORY);
    return texts[error];
}

static bool fail_json(struct reader *reader, enum json_error error)
{
    reader->error = error;
    reader->error_offset = (size_t)(reader->at - reader->start);
    return false;
}

static void note_json_refusal(struct reader *reader, enum json_error refusal, const char *at)
{
    if (reader->refusal != JSON_OK)
        return;
    reader->refusal = refusal;
    reader->refusal_offset = (size_t)(at - reader->start);
}

static void skip_space(struct reader *reader)
{
    while (reader->at < reader->end && (*reader->at == ' ' || *reader->at == '\t' ||
                                        *reader->at == '\n' || *reader->at == '\r'))
        reader->at++;
}

static bool next_is(const struct reader *reader, char c)
{
    return reader->at < reader->end && *reader->at == c;
}

static bool take_char(struct reader *reader, char c)
{
    if (!next_is(reader, c))
        return false;
    reader->at++;
    return true;
}

/* ---- strings ---- */

/* The code unit of the escape \uXXXX at `at`, or -1 when there is none. */
static int32_t code_unit(const char *at, const char *end)
{
    if (end - at < 6 || at[0] != '\\' || at[1] != 'u')
        return -1;
    int32_t unit = 0;
    for (int i = 2; i < 6; i++) {
        int digit = hex_digit(at[i]);
        if (digit < 0)
            return -1;
        unit = unit * 16 + digit;
    }
    return unit;
}

static bool is_high_surrogate(int32_t unit)
{
    return unit >= 0xD800 && unit <= 0xDBFF;
}

static bool is_low_surrogate(int32_t unit)
{
    return unit >= 0xDC00 && unit <= 0xDFFF;
}

static bool scan_unicode_escape(struct reader *reader)
{
    const char *at = reader->at;
    int32_t unit = code_unit(at, reader->end);
    if (unit < 0)
        return fail_json(reader, JSON_SYNTAX);
    reader->at += 6;
    if (is_high_surrogate(unit) && is_low_surrogate(code_unit(reader->at, reader->end)))
        reader->at += 6;
    else if (is_high_surrogate(unit) || is_low_surrogate(unit))
        note_json_refusal(reader, JSON_SURROGATE, at);
    return true;
}

/* What the letter after a backslash stands for; -1: no such escape. */
static int short_escape(char letter)
{
    for (size_t i = 0; i < JSON_N_ESCAPES; i++)
        if (json_escapes[i][0] == letter)
            return json_escapes[i][1];
    return -1;
}

static bool scan_escape(struct reader *reader)
{
    if (reader->end - reader->at < 2)
        return fail_json(reader, JSON_SYNTAX);
    if (reader->at[1] == 'u')
        return scan_unicode_escape(reader);
    if (short_escape(reader->at[1]) < 0)
        return fail_json(reader, JSON_SYNTAX);
    reader->at += 2;
    return true;
}

/* Walks to the closing quote and checks all on the way. */
static bool scan_string(struct reader *reader, bool *ret_escaped)
{
    bool escaped = false;
    for (;;) {
        struct slice rest = slice_make(reader->at, (size_t)(reader->end - reader->at));
        reader->at += json_plain_length(rest);
        if (reader->at == reader->end || *reader->at == '"')
            break;
        unsigned char c = (unsigned char)*reader->at;
        if (c < 0x20)
            return fail_json(reader, JSON_SYNTAX);
        if (c == '\\') {
            escaped = true;
            if (!scan_escape(reader))
                return false;
            continue;
        }
        size_t n = utf8_length(slice_make(reader->at, (size_t)(reader->end - reader->at)));
        if (n == 0)
            return fail_json(reader, JSON_UTF8);
        reader->at += n;
    }
    *ret_escaped = escaped;
    return true;
}

/* Decodes the escape at `at`, which scan_escape has passed; returns its length. */
static size_t decode_escape(const char *at, const char *end, char ret_bytes[UTF8_LENGTH_MAX],
                            size_t *ret_n)
{
    if (at[1] != 'u') {
        ret_bytes[0] = (char)short_escape(at[1]);
        *ret_n = 1;
        return 2;
    }
    int32_t high = code_unit(at, end);
    int32_t low = is_high_surrogate(high) ? code_unit(at + 6, end) : -1;
    bool paired = is_low_surrogate(low);
    int32_t code = paired ? 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00) : high;
    *ret_n = utf8_encode((uint32_t)code, ret_bytes);
    return paired ? 12 : 6;
}

/* `raw` with its escapes decoded, which never makes it longer; `.at` NULL: no memory. */
static struct slice decode_string(struct arena *arena, struct slice raw)
{
    const char *end = raw.at + raw.len;
    char *text = arena_alloc(arena, raw.len);
    if (!text)
        return slice_make(NULL, 0);
    size_t len = 0;
    for (const char *at = raw.at; at < end;) {
        if (*at != '\\') {
            text[len++] = *at++;
            continue;
        }
        char bytes[UTF8_LENGTH_MAX];
        size_t n;
        at += decode_escape(at, end, bytes, &n);
        memcpy(text + len, bytes, n);
        len += n;
    }
    return slice_make(text, len);
}

static bool read_json_string(struct reader *reader, struct slice *ret_text)
{
    if (!take_char(reader, '"'))
        return fail_json(reader, JSON_SYNTAX);
    const char *from = reader->at;
    bool escaped;
    if (!scan_string(reader, &escaped))
        return false;
    struct slice text = slice_make(from, (size_t)(reader->at - from));
    if (!take_char(reader, '"'))
        return fail_json(reader, JSON_SYNTAX);
    if (escaped)
        text = decode_string(reader->arena, text);
    if (!text.at)
        return fail_json(reader, JSON_NO_MEMORY);
    *ret_text = text;
    return true;
}

/* ---- numbers and literals ---- */

static size_t skip_digits(struct reader *reader)
{
    const char *from = reader->at;
    while (reader->at < reader->end && ascii_is_digit(*reader->at))
        reader->at++;
    return (size_t)(reader->at - from);
}

/* RFC 8259 section 6. */
static bool scan_number(struct reader *reader)
{
    take_char(reader, '-');
    if (!take_char(reader, '0') && skip_digits(reader) == 0)
        return fail_json(reader, JSON_SYNTAX);
    if (take_char(reader, '.') && skip_digits(reader) == 0)
        return fail_json(reader, JSON_SYNTAX);
    if (take_char(reader, 'e') || take_char(reader, 'E')) {
        if (!take_char(reader, '+'))
            take_char(reader, '-');
        if (skip_digits(reader) == 0)
            return fail_json(reader, JSON_SYNTAX);
    }
    return true;
}

static bool read_json_number(struct reader *reader, struct json *value)
{
    const char *from = reader->at;
    if (!scan_number(reader))
        return false;
    value->type = JSON_NUMBER;
    value->text = slice_make(from, (size_t)(reader->at - from));
    if (!number_is_bounded(value->text))
        note_json_refusal(reader, JSON_RANGE, from);
    return true;
}

static bool read_word(struct reader *reader, struct json *value, struct slice word,
                      enum json_type type)
{
    struct slice rest = slice_make(reader->at, (size_t)(reader->end - reader->at));
    if (!slice_starts(rest, word))
        return fail_json(reader, JSON_SYNTAX);
    reader->at += word.len;
    value->type = type;
    return true;
}

/* ---- structure ---- */

void json_sort_members(const struct json **members, size_t n, const struct json **scratch)
{
    const struct json **from = members;
    const struct json **to = scratch;
    for (size_t run = 1; run<n; run = run> n / 2 ? n : run * 2) {
        for (size_t low = 0; low < n;) {
            size_t middle = n - low > run ? low + run : n;
            size_t high = n - middle > run ? middle + run : n;
            size_t a = low;
            size_t b = middle;
            for (size_t out = low; out < high; out++) {
                bool left = b == high || (a < middle &&
                                          utf8_compare_as_utf16(from[a]->name, from[b]->name) <= 0);
                to[out] = left ? from[a++] : from[b++];
            }
            low = high;
        }
        const struct json **sorted = to;
        to = from;
        from = sorted;
    }
    if (from != members)
        memcpy(members, from, n * sizeof *members);
}

static bool few_has_duplicate(const struct json *object)
{
    for (const struct json *a = object->first; a; a = a->next) {
        for (const struct json *b = a->next; b; b = b->next) {
            if (slice_eq(a->name, b->name))
                return true;
        }
    }
    return false;
}

/* False: no memory. Sorting bounds the work whatever names a client chose. */
static bool many_have_duplicate(const struct json *object, bool *ret_duplicate)
{
    MEM_AUTO const struct json **members = mem_zalloc(object->count, 2 * sizeof *members);
    if (!members)
        return false;
    size_t n = 0;
    for (const struct json *member = object->first; member; member = member->next)
        members[n++] = member;
    json_sort_members(members, n, members + n);
    bool duplicate = false;
    for (size_t i = 1; i < n; i++)
        duplicate |= slice_eq(members[i - 1]->name, members[i]->name);
    *ret_duplicate = duplicate;
    return true;
}

static bool refuse_duplicates(struct reader *reader, const struct json *object)
{
    bool duplicate = false;
    if (object->count <= MEMBERS_COMPARED)
        duplicate = few_has_duplicate(object);
    else if (!many_have_duplicate(object, &duplicate)) {
        reader->arena->failed = true;
        return fail_json(reader, JSON_NO_MEMORY);
    }
    if (duplicate)
        note_json_refusal(reader, JSON_DUPLICATE, reader->at);
    return true;
}

static bool open_container(struct reader *reader, struct json *container)
{
    if (reader->depth == JSON_DEPTH_MAX)
        return fail_json(reader, JSON_DEPTH);
    struct level *level = reader->level->down;
    if (!level) {
        level = arena_alloc(reader->arena, sizeof *level);
        if (!level)
            return fail_json(reader, JSON_NO_MEMORY);
        *level = (struct level){.up = reader->level};
        reader->level->down = level;
    }
    level->container = container;
    level->last = NULL;
    reader->level = level;
    reader->depth++;
    reader->at++;
    return true;
}

static bool close_container(struct reader *reader)
{
    const struct json *container = reader->level->container;
    if (container->type == JSON_OBJECT && !refuse_duplicates(reader, container))
        return false;
    reader->at++;
    reader->level = reader->level->up;
    reader->depth--;
    return true;
}

static char closing_bracket(const struct json *container)
{
    return container->type == JSON_OBJECT ? '}' : ']';
}

static void append_child(struct level *level, struct json *value)
{
    if (level->last)
        level->last->next = value;
    else if (level->container)
        level->container->first = value;
    if (level->container)
        level->container->count++;
    level->last = value;
}

/* Inside an object: `"name" :` and the space after it. */
static bool read_member_name(struct reader *reader, struct slice *ret_name)
{
    struct slice name;
    if (!read_json_string(reader, &name))
        return false;
    skip_space(reader);
    if (!take_char(reader, ':'))
        return fail_json(reader, JSON_SYNTAX);
    skip_space(reader);
    *ret_name = name;
    return true;
}

/* The value itself; an array or object is only opened. */
static bool read_start(struct reader *reader, struct json *value)
{
    switch (reader->at < reader->end ? *reader->at : '\0') {
    case '{':
        value->type = JSON_OBJECT;
        return open_container(reader, value);
    case '[':
        value->type = JSON_ARRAY;
        return open_container(reader, value);
    case '"':
        value->type = JSON_STRING;
        return read_json_string(reader, &value->text);
    case 't':
        return read_word(reader, value, SLICE("true"), JSON_TRUE);
    case 'f':
        return read_word(reader, value, SLICE("false"), JSON_FALSE);
    case 'n':
        return read_word(reader, value, SLICE("null"), JSON_NULL);
    default:
        return read_json_number(reader, value);
    }
}

/* One value at the innermost open level, with its name when that is an object. */
static bool read_json_value(struct reader *reader)
{
    struct level *level = reader->level;
    struct json *value = arena_alloc(reader->arena, sizeof *value);
    if (!value)
        return fail_json(reader, JSON_NO_MEMORY);
    *value = (struct json){.type = JSON_NULL};
    if (level->container && level->container->type == JSON_OBJECT &&
        !read_member_name(reader, &value->name))
        return false;
    value->at = (uint32_t)(reader->at - reader->start);
    append_child(level, value);
    return read_start(reader, value);
}

/* After a value or an opening bracket: closes what is closed here and stands at the next value, or
 * outside of everything. */
static bool read_between(struct reader *reader)
{
    while (reader->depth > 0) {
        const struct level *level = reader->level;
        skip_space(reader);
        if (next_is(reader, closing_bracket(level->container))) {
            if (!close_container(reader))
                return false;
            continue;
        }
        if (level->last && !take_char(reader, ','))
            return fail_json(reader, JSON_SYNTAX);
        skip_space(reader);
        return true;
    }
    return true;
}

static bool read_document(struct reader *reader)
{
    skip_space(reader);
    do {
        if (!read_json_value(reader) || !read_between(reader))
            return false;
    } while (reader->depth > 0);
    skip_space(reader);
    return reader->at == reader->end || fail_json(reader, JSON_TRAILING);
}

enum json_error json_parse(struct arena *arena, struct slice bytes, struct json **ret_root,
                           size_t *ret_offset)
{
    if (!bytes.at)
        bytes = SLICE("");
    struct reader reader = {
        .arena = arena, .start = bytes.at, .at = bytes.at, .end = bytes.at + bytes.len};
    reader.level = &reader.outside;
    bool read = read_document(&reader);
    if (read && reader.refusal == JSON_OK) {
        *ret_root = reader.outside.last;
        return JSON_OK;
    }
    if (ret_offset)
        *ret_offset = read ? reader.refusal_offset : reader.error_offset;
    return read ? reader.refusal : reader.error;
}
