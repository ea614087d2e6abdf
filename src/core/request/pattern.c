/* SPDX-License-Identifier: Apache-2.0 */
/* Glushkov's construction: a state is the position in the pattern that matched the last byte. */
#include "core/request/pattern.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/text/ascii.h"

/* ---- sets of positions ---- */

#define WORD_BITS 64
#define WORDS_MAX (PATTERN_POSITIONS_MAX / WORD_BITS)
#define DEPTH_MAX 16
#define BOUND_MAX 255
/* What all bounds of a pattern may come to: each repetition is written out. */
#define REPEATS_MAX 320

struct set {
    uint64_t words[WORDS_MAX];
};

static void set_join(struct set *set, const struct set *more)
{
    for (size_t i = 0; i < WORDS_MAX; i++)
        set->words[i] |= more->words[i];
}

static bool bit_is_set(const uint64_t *words, size_t bit)
{
    return words[bit / WORD_BITS] >> (bit % WORD_BITS) & 1;
}

static void bit_set(uint64_t *words, size_t bit)
{
    words[bit / WORD_BITS] |= UINT64_C(1) << (bit % WORD_BITS);
}

/* ---- from text to positions ---- */

/* The bytes that a position takes. */
struct byte_class {
    uint64_t words[4];
};

/* A part of the pattern: where a match of it may begin and end. */
struct fragment {
    bool nullable;
    bool repeats;  /* holds a quantifier */
    bool anchored; /* holds a '^' or '$' */
    bool closed;   /* ends in a '$' */
    struct set first;
    struct set last;
};

/* Some 170 KiB, for as long as the compiling takes. */
struct builder {
    struct slice rest;
    const char *problem; /* NULL: none yet */
    size_t depth;        /* of open groups */
    uint64_t bounds;     /* sum of the bounds so far */
    size_t n;
    struct byte_class classes[PATTERN_POSITIONS_MAX];
    struct set follow[PATTERN_POSITIONS_MAX]; /* what may come next */
};

static bool fail_pattern(struct builder *builder, const char *problem)
{
    if (!builder->problem)
        builder->problem = problem;
    builder->rest = slice_make(NULL, 0);
    return false;
}

/* The byte at the front; NUL, which is in no pattern: its end. */
static char peek_char(const struct builder *builder)
{
    return builder->rest.len > 0 ? builder->rest.at[0] : '\0';
}

/* Passes `c`, which is at the front, or else it is a problem; NULL: it can only be one that was
 * found before. */
static void skip_char(struct builder *builder, char c, const char *problem)
{
    if (builder->rest.len > 0 && peek_char(builder) == c)
        builder->rest = slice_skip(builder->rest, 1);
    else
        fail_pattern(builder, problem);
}

static struct fragment one_position(struct builder *builder, struct byte_class class)
{
    struct fragment fragment = {0};
    if (builder->n == PATTERN_POSITIONS_MAX) {
        fail_pattern(builder,
                     "with its bounds written out the pattern is longer than 1024 characters");
        return fragment;
    }
    bit_set(fragment.first.words, builder->n);
    fragment.last = fragment.first;
    class.words[0] &= ~UINT64_C(1); /* no NUL */
    builder->classes[builder->n++] = class;
    return fragment;
}

static void link_states(struct builder *builder, const struct set *from, const struct set *to)
{
    for (size_t i = 0; i < builder->n; i++)
        if (bit_is_set(from->words, i))
            set_join(&builder->follow[i], to);
}

/* ---- bracket expressions (POSIX 9.3.5, in the C locale) ---- */

static void add_range(struct byte_class *class, unsigned char from, unsigned char to)
{
    for (unsigned c = from; c <= to; c++)
        bit_set(class->words, c);
}

static bool add_named_class(struct byte_class *class, struct slice name)
{
    static const struct {
        struct slice name;
        const char *ranges; /* first and last of each */
    } rows[] = {
        {{"alpha", 5}, "azAZ"},     {{"digit", 5}, "09"},     {{"alnum", 5}, "azAZ09"},
        {{"lower", 5}, "az"},       {{"upper", 5}, "AZ"},     {{"xdigit", 6}, "09afAF"},
        {{"punct", 5}, "!/:@[`{~"}, {{"graph", 5}, "!~"},     {{"print", 5}, " ~"},
        {{"space", 5}, "\t\r  "},   {{"blank", 5}, "\t\t  "}, {{"cntrl", 5}, "\x01\x1F\x7F\x7F"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (!slice_eq(name, rows[i].name))
            continue;
        for (const char *range = rows[i].ranges; *range; range += 2)
            add_range(class, (unsigned char)range[0], (unsigned char)range[1]);
        return true;
    }
    return false;
}

/* How long the [:class:], [.x.] or [=x=] at the front is; 0: it is none. */
static size_t class_length(struct builder *builder)
{
    struct slice rest = builder->rest;
    if (rest.len < 2 || rest.at[0] != '[' || !strchr(":.=", rest.at[1]))
        return 0;
    for (size_t i = 2; i + 1 < rest.len; i++)
        if (rest.at[i] == rest.at[1] && rest.at[i + 1] == ']')
            return i + 2;
    return fail_pattern(builder, "a [: in a bracket expression is not closed with :]");
}

static const char in_brackets[] =
    "a backslash in a bracket expression is itself; write 0-9 for \\d, A-Za-z0-9_ for \\w, "
    "[:space:] for \\s, the character itself for \\x41, and - at the end, [a-z-], for \\-";

/* One end of a range, or an element alone: a byte, [.x.] or, alone, [=x=]. False: it is none. */
static bool take_element(struct builder *builder, bool alone, unsigned char *ret_byte)
{
    size_t length = class_length(builder);
    struct slice rest = builder->rest;
    if (rest.len == 0 || (length > 0 && (length != 5 || rest.at[1] == ':')) ||
        (length > 0 && rest.at[1] == '=' && !alone))
        return false;
    if (rest.len > 1 && rest.at[0] == '\\' && (ascii_is_letter(rest.at[1]) || rest.at[1] == '-'))
        return fail_pattern(builder, in_brackets);
    *ret_byte = (unsigned char)rest.at[length > 0 ? 2 : 0];
    builder->rest = slice_skip(rest, length > 0 ? length : 1);
    return true;
}

static bool starts_range(struct slice rest)
{
    return rest.len >= 2 && rest.at[0] == '-' && rest.at[1] != ']';
}

/* Adds the element or range at the front; false: it means nothing. */
static bool take_members(struct builder *builder, bool at_start, struct byte_class *class)
{
    unsigned char from, to;
    struct slice *rest = &builder->rest;
    size_t length = class_length(builder);
    if (length > 0 && rest->at[1] == ':') {
        struct slice name = slice_make(rest->at + 2, length - 4);
        *rest = slice_skip(*rest, length);
        return add_named_class(class, name) && !starts_range(*rest);
    }
    bool is_class = length > 0 && rest->at[1] == '=';
    bool is_hyphen = length == 0 && peek_char(builder) == '-';
    if (!take_element(builder, true, &from) ||
        (is_hyphen && !at_start && rest->len > 0 && rest->at[0] != ']'))
        return false;
    to = from;
    if (starts_range(*rest)) {
        *rest = slice_skip(*rest, 1);
        if (is_class || !take_element(builder, false, &to))
            return false;
    }
    add_range(class, from, to);
    return from <= to;
}

/* POSIX 9.3.5: a ']' that comes first stands for itself. */
static struct fragment read_bracket(struct builder *builder)
{
    struct byte_class class = {0};
    skip_char(builder, '[', NULL);
    bool negated = peek_char(builder) == '^';
    if (negated)
        skip_char(builder, '^', NULL);
    for (bool start = true; builder->rest.len > 0 && (start || peek_char(builder) != ']');
         start = false)
        if (!take_members(builder, start, &class))
            fail_pattern(builder,
                         "a bracket expression holds a class, range or element that POSIX lacks");
    for (size_t i = 0; negated && i < 4; i++)
        class.words[i] = ~class.words[i];
    skip_char(builder, ']', "a bracket expression is not closed");
    return one_position(builder, class);
}

/* ---- atoms, repeats, branches ---- */

static struct fragment read_choice(struct builder *builder, bool at_start);

static struct fragment read_parens(struct builder *builder, bool at_start)
{
    if (builder->depth == DEPTH_MAX)
        fail_pattern(builder, "groups are nested deeper than 16");
    skip_char(builder, '(', NULL);
    if (peek_char(builder) == '?')
        fail_pattern(builder,
                     "'(?' is not taken; write (abc) for (?:abc) and [Aa] for a letter in either "
                     "case, and the whole key instead of (?!..) or (?=..)");
    builder->depth++;
    struct fragment group = read_choice(builder, at_start);
    builder->depth--;
    skip_char(builder, ')', "a '(' is not closed");
    return group;
}

/* A backslash, and the character that it makes an ordinary one. */
static void pass_backslash(struct builder *builder)
{
    skip_char(builder, '\\', NULL);
    char c = peek_char(builder);
    if (c == '\0')
        fail_pattern(builder, "the pattern ends in a backslash");
    else if (c >= '1' && c <= '9')
        fail_pattern(builder, "back-references are not taken");
    else if (!strchr(".[](){}*+?|^$\\/-", c))
        fail_pattern(
            builder,
            "a backslash is allowed only before . [ ] ( ) { } * + ? | ^ $ / - and itself; "
            "write [0-9] for \\d, [A-Za-z0-9_] for \\w, [[:space:]] for \\s, itself for \\x41");
}

static bool is_quantifier(char c)
{
    return c == '*' || c == '+' || c == '?' || c == '{';
}

static struct fragment read_atom(struct builder *builder, bool at_start)
{
    struct byte_class class = {0};
    char c = peek_char(builder);
    if (c == '[')
        return read_bracket(builder);
    if (c == '(')
        return read_parens(builder, at_start);
    if (is_quantifier(c))
        fail_pattern(builder, "a quantifier follows nothing that it could repeat");
    if (c == '\\')
        pass_backslash(builder);
    bit_set(class.words, (unsigned char)peek_char(builder));
    if (c == '.')
        memset(&class, 0xFF, sizeof class);
    skip_char(builder, peek_char(builder), NULL);
    return one_position(builder, class);
}

struct repeat {
    uint64_t least;
    uint64_t most; /* UINT64_MAX: any number */
};

/* What is inside {n}, {n,} or {n,m}. */
static bool read_bounds(struct slice inside, struct repeat *repeat)
{
    struct slice least;
    struct slice most = slice_cut(inside, ',', &least);
    if (!slice_to_u64(least, BOUND_MAX, &repeat->least))
        return false;
    repeat->most = most.at ? UINT64_MAX : repeat->least;
    return most.len == 0 ||
           (slice_to_u64(most, BOUND_MAX, &repeat->most) && repeat->most >= repeat->least);
}

static void take_bound(struct builder *builder, struct repeat *repeat)
{
    struct slice inside;
    struct slice after = slice_cut(slice_skip(builder->rest, 1), '}', &inside);
    if (!after.at || !read_bounds(inside, repeat)) {
        fail_pattern(builder, "a bound is {n}, {n,} or {n,m} with numbers up to 255");
        return;
    }
    builder->rest = after;
    builder->bounds += repeat->most == UINT64_MAX ? repeat->least : repeat->most;
    if (builder->bounds > REPEATS_MAX)
        fail_pattern(builder, "all bounds together come to more than 320");
}

/* The quantifier at the front. */
static struct repeat take_quantifier(struct builder *builder)
{
    char c = peek_char(builder);
    struct repeat repeat = {c == '+', c == '?' ? 1 : UINT64_MAX};
    if (c == '{')
        take_bound(builder, &repeat);
    else
        skip_char(builder, c, NULL);
    return repeat;
}

/* Writes the copies out: each leads to the next, and any of them from `least` on may be the last.
 * A copy that can be empty needs no way round it: fewer copies do the same. */
static struct fragment repeat_atom(struct builder *builder, struct slice atom,
                                   struct fragment whole, const struct repeat *repeat)
{
    bool endless = repeat->most == UINT64_MAX;
    uint64_t copies = endless ? repeat->least : repeat->most;
    struct slice after = builder->rest;
    struct fragment copy = whole;
    for (uint64_t i = 2; i <= copies && !builder->problem; i++) {
        struct set before = copy.last;
        builder->rest = atom;
        copy = read_atom(builder, false);
        link_states(builder, &before, &copy.first);
        if (i <= repeat->least && !copy.nullable)
            whole.last = copy.last;
        else
            set_join(&whole.last, &copy.last);
    }
    if (endless)
        link_states(builder, &copy.last, &copy.first);
    if (repeat->least == 0)
        whole.nullable = true;
    if (!builder->problem)
        builder->rest = after;
    return repeat->most == 0 ? (struct fragment){.nullable = true} : whole;
}

static struct fragment read_repeated(struct builder *builder, bool at_start)
{
    struct slice atom = builder->rest;
    struct fragment fragment = read_atom(builder, at_start);
    if (!is_quantifier(peek_char(builder)))
        return fragment;
    if (fragment.anchored)
        fail_pattern(builder, "a group with '^' or '$' in it is not repeated");
    if (fragment.repeats)
        fail_pattern(builder, "nested repeats are not taken");
    struct repeat repeat = take_quantifier(builder);
    fragment = repeat_atom(builder, atom, fragment, &repeat);
    fragment.repeats = true;
    return fragment;
}

/* What a fragment holds that is not about sets. */
static void note_parts(struct fragment *whole, const struct fragment *part)
{
    whole->repeats = whole->repeats || part->repeats;
    whole->anchored = whole->anchored || part->anchored;
    whole->closed = whole->closed || part->closed;
}

static void append_one(struct builder *builder, struct fragment *whole, const struct fragment *next)
{
    link_states(builder, &whole->last, &next->first);
    if (whole->nullable)
        set_join(&whole->first, &next->first);
    if (!next->nullable)
        whole->last = next->last;
    else
        set_join(&whole->last, &next->last);
    whole->nullable = whole->nullable && next->nullable;
    note_parts(whole, next);
}

static const char anchor_problem[] =
    "'^' is allowed only at the start of the pattern, '$' only at its end";

static struct fragment read_branch(struct builder *builder, bool at_start)
{
    struct fragment whole = {.nullable = true};
    for (char c; (c = peek_char(builder)) != '\0' && c != '|' && c != ')';) {
        if (c != '^' && c != '$') {
            if (whole.closed)
                fail_pattern(builder, anchor_problem);
            if (builder->rest.len == 0)
                break;
            struct fragment next = read_repeated(builder, at_start);
            append_one(builder, &whole, &next);
            at_start = false;
            continue;
        }
        if (c == '^' && !at_start)
            fail_pattern(builder, anchor_problem);
        whole.anchored = true;
        whole.closed = whole.closed || c == '$';
        skip_char(builder, c, NULL);
    }
    return whole;
}

static struct fragment read_choice(struct builder *builder, bool at_start)
{
    struct fragment whole = read_branch(builder, at_start);
    while (peek_char(builder) == '|') {
        skip_char(builder, '|', NULL);
        struct fragment next = read_branch(builder, at_start);
        set_join(&whole.first, &next.first);
        set_join(&whole.last, &next.last);
        whole.nullable = whole.nullable || next.nullable;
        note_parts(&whole, &next);
    }
    return whole;
}

/* ---- from positions to masks ---- */

struct pattern {
    size_t words; /* of each mask */
    bool nullable;
    uint64_t *first;
    uint64_t *last;
    uint64_t *follow;  /* of each position: those that may come next */
    uint64_t *classes; /* of each byte: the positions that take it */
};

static uint64_t *new_masks(struct arena *arena, size_t words)
{
    uint64_t *masks = arena_alloc(arena, words * sizeof *masks);
    if (masks)
        memset(masks, 0, words * sizeof *masks);
    return masks;
}

static const struct pattern *make_pattern(const struct builder *builder,
                                          const struct fragment *whole, struct arena *arena)
{
    size_t words = builder->n > 0 ? (builder->n + WORD_BITS - 1) / WORD_BITS : 1;
    size_t size = words * sizeof(uint64_t);
    struct pattern *pattern = arena_alloc(arena, sizeof *pattern);
    if (!pattern)
        return NULL;
    *pattern = (struct pattern){
        .words = words,
        .nullable = whole->nullable,
        .first = new_masks(arena, words),
        .last = new_masks(arena, words),
        .follow = new_masks(arena, (builder->n + 1) * words),
        .classes = new_masks(arena, 256 * words),
    };
    if (arena->failed)
        return NULL;
    memcpy(pattern->first, whole->first.words, size);
    memcpy(pattern->last, whole->last.words, size);
    for (size_t i = 0; i < builder->n; i++) {
        memcpy(pattern->follow + i * words, builder->follow[i].words, size);
        for (size_t c = 0; c < 256; c++)
            if (bit_is_set(builder->classes[i].words, c))
                bit_set(pattern->classes + c * words, i);
    }
    return pattern;
}

const struct pattern *pattern_compile(struct slice text, struct arena *arena,
                                      struct slice *ret_problem)
{
    struct builder *builder MEM_AUTO = mem_zalloc(1, sizeof *builder);
    *ret_problem = SLICE("out of memory");
    if (!builder)
        return NULL;
    builder->rest = text;
    if (text.len == 0)
        fail_pattern(builder, "the pattern is empty");
    if (text.len > PATTERN_MAX)
        fail_pattern(builder, "the pattern is longer than 256 bytes");
    if (slice_find(text, '\0') >= 0)
        fail_pattern(builder, "the pattern holds a NUL");
    struct fragment whole = read_choice(builder, true);
    if (peek_char(builder) == ')')
        fail_pattern(builder, "a ')' closes nothing");
    CHECK(builder->rest.len == 0);
    if (!builder->problem)
        return make_pattern(builder, &whole, arena);
    *ret_problem = slice_of(builder->problem);
    return NULL;
}

/* ---- matching ---- */

/* Where the positions in `at` lead. */
static void step_pattern(const struct pattern *pattern, const uint64_t *at, uint64_t *ret_next)
{
    memset(ret_next, 0, pattern->words * sizeof *ret_next);
    for (size_t i = 0; i < pattern->words; i++)
        for (uint64_t rest = at[i]; rest != 0; rest &= rest - 1) {
            size_t position = i * WORD_BITS + (size_t)__builtin_ctzll(rest);
            for (size_t j = 0; j < pattern->words; j++)
                ret_next[j] |= pattern->follow[position * pattern->words + j];
        }
}

bool pattern_matches(const struct pattern *pattern, struct slice text)
{
    size_t words = pattern->words;
    uint64_t at[WORDS_MAX], next[WORDS_MAX], any = 0;
    CHECK(words <= WORDS_MAX);
    if (text.len == 0)
        return pattern->nullable;
    if (text.len > PATTERN_TEXT_MAX)
        return false;
    memcpy(next, pattern->first, words * sizeof *next);
    for (size_t n = 0; n < text.len; n++) {
        const uint64_t *class = pattern->classes + (unsigned char)text.at[n] * words;
        for (size_t i = 0; i < words; i++)
            at[i] = next[i] & class[i];
        step_pattern(pattern, at, next);
    }
    for (size_t i = 0; i < words; i++)
        any |= at[i] & pattern->last[i];
    return any != 0;
}
