/* SPDX-License-Identifier: Apache-2.0 */
/* `key_format:`; declared in core/key_header.h. */
#include "base/check.h"
#include "base/mem.h"
#include "core/key_header.h"
#include "core/template.h"

#include <regex.h>

#define PATTERN_MAX 256
#define DEPTH_MAX 16
/* What all bounds of a pattern may come to: a regex compiler writes each repetition out, and
 * matching visits them all for each byte of a key. */
#define REPEATS_MAX 320

struct key_format {
    enum key_format_kind kind;
    regex_t regex; /* with KEY_FORMAT_REGEX */
};

/* ---- which patterns are taken ---- */

/* Reads a pattern once, so that what reaches regcomp() costs a bounded time to compile and to match
 * and cannot close the group that is put round it. */
struct scan {
    struct slice rest;
    struct slice problem;        /* empty: none yet */
    size_t depth;                /* of open groups */
    bool repeats[DEPTH_MAX + 1]; /* by depth: a quantifier stands in the open group */
    bool atom;                   /* a quantifier may follow */
    bool atom_repeats;           /* the group just closed holds a quantifier */
    uint64_t bounds;             /* sum of the bounds so far */
};

static void refuse(struct scan *scan, const char *problem)
{
    if (scan->problem.len == 0)
        scan->problem = slice_of(problem);
    scan->rest = slice_make(NULL, 0);
}

static void set_atom(struct scan *scan, bool repeats)
{
    scan->atom = true;
    scan->atom_repeats = repeats;
}

static void scan_escape(struct scan *scan)
{
    if (scan->rest.len < 2) {
        refuse(scan, "the pattern ends in a backslash");
        return;
    }
    char c = scan->rest.at[1];
    if (c >= '1' && c <= '9')
        refuse(scan, "back-references are not taken");
    else if (!strchr(".[](){}*+?|^$\\/-", c) || c == '\0')
        refuse(scan, "a backslash stands only before . [ ] ( ) { } * + ? | ^ $ / - and itself; "
                     "write [0-9] for a digit, [A-Za-z0-9_] for a word character");
    else
        scan->rest = slice_skip(scan->rest, 2);
    set_atom(scan, false);
}

/* How long the [:class:], [.x.] or [=x=] at the start is; 0: it is none, or not closed. */
static size_t class_length(struct slice text)
{
    if (text.len < 2 || text.at[0] != '[' || !strchr(":.=", text.at[1]) || text.at[1] == '\0')
        return 0;
    for (size_t i = 2; i + 1 < text.len; i++)
        if (text.at[i] == text.at[1] && text.at[i + 1] == ']')
            return i + 2;
    return 0;
}

/* POSIX 9.3.5: a ']' that comes first stands for itself. */
static void scan_bracket(struct scan *scan)
{
    size_t i = 1;
    struct slice text = scan->rest;
    if (i < text.len && text.at[i] == '^')
        i++;
    if (i < text.len && text.at[i] == ']')
        i++;
    while (i < text.len && text.at[i] != ']') {
        size_t skip = class_length(slice_skip(text, i));
        i += skip ? skip : 1;
    }
    if (i >= text.len) {
        refuse(scan, "a bracket expression is not closed");
        return;
    }
    scan->rest = slice_skip(text, i + 1);
    set_atom(scan, false);
}

static void scan_open(struct scan *scan)
{
    if (scan->depth == DEPTH_MAX) {
        refuse(scan, "groups are nested deeper than 16");
        return;
    }
    scan->repeats[++scan->depth] = false;
    scan->rest = slice_skip(scan->rest, 1);
    scan->atom = false;
}

static void scan_close(struct scan *scan)
{
    if (scan->depth == 0) {
        refuse(scan, "a ')' closes nothing");
        return;
    }
    bool repeats = scan->repeats[scan->depth--];
    scan->repeats[scan->depth] |= repeats;
    scan->rest = slice_skip(scan->rest, 1);
    set_atom(scan, repeats);
}

/* `{n}`, `{n,}` or `{n,m}`. */
static bool read_bound(struct slice inside, uint64_t *ret_most)
{
    struct slice least_text;
    uint64_t least;
    struct slice most_text = slice_cut(inside, ',', &least_text);
    if (!slice_to_u64(least_text, KEY_TEXT_MAX, &least))
        return false;
    *ret_most = least;
    return most_text.len == 0 ||
           (slice_to_u64(most_text, KEY_TEXT_MAX, ret_most) && *ret_most >= least);
}

static size_t scan_bound(struct scan *scan)
{
    uint64_t most;
    ptrdiff_t end = slice_find(scan->rest, '}');
    if (end < 0 || !read_bound(slice_make(scan->rest.at + 1, (size_t)end - 1), &most)) {
        refuse(scan, "a bound is {n}, {n,} or {n,m} with numbers up to 255");
        return 0;
    }
    scan->bounds += most;
    if (scan->bounds > REPEATS_MAX)
        refuse(scan, "all bounds together come to more than 320");
    return (size_t)end + 1;
}

static void scan_quantifier(struct scan *scan)
{
    size_t length = scan->rest.at[0] == '{' ? scan_bound(scan) : 1;
    if (!scan->atom)
        refuse(scan, "a quantifier follows nothing that it could repeat");
    if (scan->atom_repeats)
        refuse(scan, "nested repeats are not taken");
    if (scan->problem.len > 0)
        return;
    scan->repeats[scan->depth] = true;
    scan->rest = slice_skip(scan->rest, length);
    scan->atom = false;
}

static void scan_other(struct scan *scan, char c)
{
    scan->rest = slice_skip(scan->rest, 1);
    set_atom(scan, false);
    if (c == '|' || c == '^' || c == '$')
        scan->atom = false;
}

static void scan_step(struct scan *scan)
{
    char c = scan->rest.at[0];
    switch (c) {
    case '\0':
        refuse(scan, "the pattern holds a NUL");
        return;
    case '\\':
        scan_escape(scan);
        return;
    case '[':
        scan_bracket(scan);
        return;
    case '(':
        scan_open(scan);
        return;
    case ')':
        scan_close(scan);
        return;
    case '*':
    case '+':
    case '?':
    case '{':
        scan_quantifier(scan);
        return;
    default:
        scan_other(scan, c);
    }
}

/* Empty: the pattern is taken. */
static struct slice pattern_problem(struct slice pattern)
{
    struct scan scan = {.rest = pattern};
    if (pattern.len == 0)
        return SLICE("the pattern is empty");
    if (pattern.len > PATTERN_MAX)
        return SLICE("the pattern is longer than 256 bytes");
    while (scan.rest.len > 0)
        scan_step(&scan);
    if (scan.problem.len == 0 && scan.depth > 0)
        return SLICE("a '(' is not closed");
    return scan.problem;
}

/* ---- compiling ---- */

static bool compile(struct key_format *format, struct slice pattern, struct slice *ret_problem)
{
    BUF_AUTO struct buf whole = buf_make(PATTERN_MAX + 8);
    buf_add_str(&whole, "^(");
    buf_add_slice(&whole, pattern);
    buf_add_str(&whole, ")$");
    buf_add_char(&whole, '\0');
    if (!buf_ok(&whole)) {
        *ret_problem = SLICE("out of memory");
        return false;
    }
    int error = regcomp(&format->regex, whole.at, REG_EXTENDED | REG_NOSUB);
    if (error)
        *ret_problem = error == REG_ESPACE
                           ? SLICE("out of memory")
                           : SLICE("the pattern is no POSIX extended regular expression");
    return !error;
}

struct key_format *key_format_new(enum key_format_kind kind, struct slice pattern,
                                  struct slice *ret_problem)
{
    if (kind == KEY_FORMAT_REGEX) {
        struct slice problem = pattern_problem(pattern);
        if (problem.len > 0) {
            *ret_problem = problem;
            return NULL;
        }
    }
    struct key_format *format = mem_zalloc(1, sizeof(*format));
    if (!format) {
        *ret_problem = SLICE("out of memory");
        return NULL;
    }
    format->kind = kind;
    if (kind == KEY_FORMAT_REGEX && !compile(format, pattern, ret_problem)) {
        mem_free(format);
        return NULL;
    }
    return format;
}

void key_format_free(struct key_format *format)
{
    if (format && format->kind == KEY_FORMAT_REGEX)
        regfree(&format->regex);
    mem_free(format);
}

/* ---- matching ---- */

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_uuid(struct slice key)
{
    if (key.len != 36)
        return false;
    for (size_t i = 0; i < key.len; i++) {
        char c = lower(key.at[i]);
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? c != '-' : !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
    }
    return true;
}

/* RFC 9562 4.1, 5.4: the variant 10 and version 4. */
static bool is_version4(struct slice uuid)
{
    return uuid.at[14] == '4' && strchr("89ab", lower(uuid.at[19]));
}

static bool match_uuid(const struct key_format *format, struct slice key, struct arena *arena,
                       struct slice *ret_key)
{
    if (!is_uuid(key) || (format->kind == KEY_FORMAT_UUID4 && !is_version4(key)))
        return false;
    char *folded = arena_alloc(arena, key.len);
    for (size_t i = 0; folded && i < key.len; i++)
        folded[i] = lower(key.at[i]);
    if (folded)
        *ret_key = slice_make(folded, key.len);
    return folded;
}

static bool match_regex(const struct key_format *format, struct slice key, struct arena *arena,
                        struct slice *ret_key)
{
    if (slice_find(key, '\0') >= 0)
        return false;
    struct slice text = arena_copy(arena, key);
    if (!text.at)
        return false;
    int error = regexec(&format->regex, text.at, 0, NULL, 0);
    if (error == REG_ESPACE)
        arena->failed = true;
    if (!error)
        *ret_key = key;
    return !error;
}

bool key_format_match(const struct key_format *format, struct slice key, struct arena *arena,
                      struct slice *ret_key)
{
    switch (format->kind) {
    case KEY_FORMAT_ANY:
        *ret_key = key;
        return true;
    case KEY_FORMAT_UUID:
    case KEY_FORMAT_UUID4:
        return match_uuid(format, key, arena, ret_key);
    case KEY_FORMAT_REGEX:
        return match_regex(format, key, arena, ret_key);
    }
    UNREACHABLE();
}
