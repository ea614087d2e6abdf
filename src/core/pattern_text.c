/* SPDX-License-Identifier: Apache-2.0 */
/* Which patterns are taken. */
#include "core/pattern_text.h"

#include "core/pattern.h"

#define DEPTH_MAX 16
#define BOUND_MAX 255
/* What all bounds of a pattern may come to: each repetition is written out. */
#define REPEATS_MAX 320

/* Reads a pattern once, so that what is compiled is sound, and costs a bounded time to compile and
 * to match. */
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
        refuse(scan, "a backslash is allowed only before . [ ] ( ) { } * + ? | ^ $ / - and itself; "
                     "write [0-9] for a digit, [A-Za-z0-9_] for a word character");
    else
        scan->rest = slice_skip(scan->rest, 2);
    set_atom(scan, false);
}

static bool opens_class(struct slice text)
{
    return text.len >= 2 && text.at[0] == '[' && text.at[1] != '\0' && strchr(":.=", text.at[1]);
}

size_t pattern_class_length(struct slice text)
{
    if (!opens_class(text))
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
        size_t skip = pattern_class_length(slice_skip(text, i));
        if (skip == 0 && opens_class(slice_skip(text, i))) {
            refuse(scan, "a [: in a bracket expression is not closed with :]");
            return;
        }
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

bool pattern_read_bound(struct slice inside, uint64_t *ret_least, uint64_t *ret_most)
{
    struct slice least_text;
    struct slice most_text = slice_cut(inside, ',', &least_text);
    if (!slice_to_u64(least_text, BOUND_MAX, ret_least))
        return false;
    *ret_most = most_text.at ? UINT64_MAX : *ret_least;
    return most_text.len == 0 ||
           (slice_to_u64(most_text, BOUND_MAX, ret_most) && *ret_most >= *ret_least);
}

static size_t scan_bound(struct scan *scan)
{
    uint64_t least, most;
    ptrdiff_t end = slice_find(scan->rest, '}');
    if (end < 0 ||
        !pattern_read_bound(slice_make(scan->rest.at + 1, (size_t)end - 1), &least, &most)) {
        refuse(scan, "a bound is {n}, {n,} or {n,m} with numbers up to 255");
        return 0;
    }
    scan->bounds += most == UINT64_MAX ? least : most;
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

struct slice pattern_text_problem(struct slice pattern)
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
