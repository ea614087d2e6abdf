/* SPDX-License-Identifier: Apache-2.0 */
/* Glushkov's construction: a state is the position in the pattern that matched the last byte. */
#include "core/pattern.h"

#include "base/check.h"
#include "base/mem.h"
#include "core/pattern_text.h"

/* ---- sets of positions ---- */

#define WORD_BITS 64
#define WORDS_MAX (PATTERN_POSITIONS_MAX / WORD_BITS)

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
    bool anchored; /* holds a '^' or '$' */
    bool closed;   /* ends in a '$' */
    struct set first;
    struct set last;
};

/* Some 170 KiB, for as long as the compiling takes. */
struct builder {
    struct slice rest;
    const char *problem; /* NULL: none yet */
    size_t n;
    struct byte_class classes[PATTERN_POSITIONS_MAX];
    struct set follow[PATTERN_POSITIONS_MAX]; /* what may come next */
};

static void fail(struct builder *builder, const char *problem)
{
    if (!builder->problem)
        builder->problem = problem;
    builder->rest = slice_make(NULL, 0);
}

static struct fragment one_position(struct builder *builder, struct byte_class class)
{
    struct fragment fragment = {0};
    if (builder->n == PATTERN_POSITIONS_MAX) {
        fail(builder, "with its bounds written out the pattern is longer than 1024 characters");
        return fragment;
    }
    bit_set(fragment.first.words, builder->n);
    fragment.last = fragment.first;
    class.words[0] &= ~UINT64_C(1); /* no NUL */
    builder->classes[builder->n++] = class;
    return fragment;
}

static void connect(struct builder *builder, const struct set *from, const struct set *to)
{
    for (size_t i = 0; i < builder->n; i++)
        if (bit_is_set(from->words, i))
            set_join(&builder->follow[i], to);
}

/* ---- bracket expressions (POSIX 9.3.5, in the C locale) ---- */

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
static const char digits[] = "0123456789";
static const char punctuation[] = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

static void add_bytes(struct byte_class *class, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        bit_set(class->words, (unsigned char)bytes[i]);
}

static void add_range(struct byte_class *class, unsigned char from, unsigned char to)
{
    for (unsigned c = from; c <= to; c++)
        bit_set(class->words, c);
}

static bool add_named_class(struct byte_class *class, struct slice name)
{
    static const struct {
        struct slice name;
        const char *bytes;
        const char *more;
    } rows[] = {
        {{"alpha", 5}, letters, ""},
        {{"digit", 5}, digits, ""},
        {{"alnum", 5}, letters, digits},
        {{"punct", 5}, punctuation, ""},
        {{"space", 5}, " \t\n\v\f\r", ""},
        {{"blank", 5}, " \t", ""},
        {{"xdigit", 6}, digits, "abcdefABCDEF"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (!slice_eq(name, rows[i].name))
            continue;
        add_bytes(class, rows[i].bytes, strlen(rows[i].bytes));
        add_bytes(class, rows[i].more, strlen(rows[i].more));
        return true;
    }
    if (slice_eq(name, SLICE("lower")))
        add_range(class, 'a', 'z');
    else if (slice_eq(name, SLICE("upper")))
        add_range(class, 'A', 'Z');
    else if (slice_eq(name, SLICE("graph")))
        add_range(class, '!', '~');
    else if (slice_eq(name, SLICE("print")))
        add_range(class, ' ', '~');
    else if (slice_eq(name, SLICE("cntrl"))) {
        add_range(class, 1, 0x1F);
        bit_set(class->words, 0x7F);
    } else
        return false;
    return true;
}

/* One end of a range, or an element alone: a byte, [.x.] or [=x=]. False: it is none. */
static bool take_element(struct slice *rest, unsigned char *ret_byte)
{
    size_t length = pattern_class_length(*rest);
    if (length > 0 && (length != 5 || rest->at[1] == ':'))
        return false;
    *ret_byte = (unsigned char)rest->at[length > 0 ? 2 : 0];
    *rest = slice_skip(*rest, length > 0 ? length : 1);
    return true;
}

static bool starts_range(struct slice rest)
{
    return rest.len >= 2 && rest.at[0] == '-' && rest.at[1] != ']';
}

/* Adds the element or range at the front; false: it means nothing. */
static bool take_members(struct slice *rest, bool at_start, struct byte_class *class)
{
    unsigned char from, to;
    size_t length = pattern_class_length(*rest);
    if (length > 0 && rest->at[1] == ':') {
        struct slice name = slice_make(rest->at + 2, length - 4);
        *rest = slice_skip(*rest, length);
        return add_named_class(class, name) && !starts_range(*rest);
    }
    bool equivalence = length > 0 && rest->at[1] == '=';
    bool is_hyphen = length == 0 && rest->at[0] == '-';
    if (!take_element(rest, &from) ||
        (is_hyphen && !at_start && rest->len > 0 && rest->at[0] != ']'))
        return false;
    to = from;
    if (starts_range(*rest)) {
        *rest = slice_skip(*rest, 1);
        if (equivalence || (pattern_class_length(*rest) > 0 && rest->at[1] == '=') ||
            !take_element(rest, &to))
            return false;
    }
    add_range(class, from, to);
    return from <= to;
}

static struct fragment read_bracket(struct builder *builder)
{
    struct byte_class class = {0};
    struct slice *rest = &builder->rest;
    *rest = slice_skip(*rest, 1);
    bool negated = rest->len > 0 && rest->at[0] == '^';
    if (negated)
        *rest = slice_skip(*rest, 1);
    for (bool start = true; rest->len > 0 && (start || rest->at[0] != ']'); start = false)
        if (!take_members(rest, start, &class)) {
            fail(builder, "a bracket expression holds a class, range or element that POSIX lacks");
            return (struct fragment){0};
        }
    for (size_t i = 0; negated && i < 4; i++)
        class.words[i] = ~class.words[i];
    *rest = slice_skip(*rest, rest->len > 0 ? 1 : 0);
    return one_position(builder, class);
}

/* ---- atoms, repeats, branches ---- */

static struct fragment read_choice(struct builder *builder, bool at_start);

static struct fragment read_atom(struct builder *builder, bool at_start)
{
    struct byte_class class = {0};
    struct slice *rest = &builder->rest;
    char c = rest->at[0];
    if (c == '[')
        return read_bracket(builder);
    if (c == '(') {
        *rest = slice_skip(*rest, 1);
        struct fragment group = read_choice(builder, at_start);
        *rest = slice_skip(*rest, rest->len > 0 ? 1 : 0);
        return group;
    }
    if (c == '\\')
        *rest = slice_skip(*rest, 1);
    add_bytes(&class, rest->at, 1);
    if (c == '.')
        memset(&class, 0xFF, sizeof(class));
    *rest = slice_skip(*rest, 1);
    return one_position(builder, class);
}

struct repeat {
    uint64_t least;
    uint64_t most; /* UINT64_MAX: any number */
};

/* The quantifier at the front, or {1,1} where there is none. */
static struct repeat take_quantifier(struct slice *rest)
{
    struct repeat repeat = {1, 1};
    size_t length = 1;
    switch (rest->len > 0 ? rest->at[0] : '\0') {
    case '*':
        repeat = (struct repeat){0, UINT64_MAX};
        break;
    case '+':
        repeat = (struct repeat){1, UINT64_MAX};
        break;
    case '?':
        repeat = (struct repeat){0, 1};
        break;
    case '{': {
        length = (size_t)slice_find(*rest, '}') + 1;
        struct slice inside = slice_make(rest->at + 1, length - 2);
        pattern_read_bound(inside, &repeat.least, &repeat.most);
        break;
    }
    default:
        length = 0;
    }
    *rest = slice_skip(*rest, length);
    return repeat;
}

/* Writes the copies out: each leads to the next, and any of them from `least` on may be the last.
 * A copy that can be empty needs no way round it: fewer copies do the same. */
static struct fragment write_out(struct builder *builder, struct slice atom, struct fragment whole,
                                 const struct repeat *repeat)
{
    bool endless = repeat->most == UINT64_MAX;
    uint64_t copies = endless ? repeat->least : repeat->most;
    struct slice after = builder->rest;
    struct fragment copy = whole;
    for (uint64_t i = 2; i <= copies && !builder->problem; i++) {
        struct set before = copy.last;
        builder->rest = atom;
        copy = read_atom(builder, false);
        connect(builder, &before, &copy.first);
        if (i <= repeat->least && !copy.nullable)
            whole.last = copy.last;
        else
            set_join(&whole.last, &copy.last);
    }
    if (endless)
        connect(builder, &copy.last, &copy.first);
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
    struct slice written = builder->rest;
    struct repeat repeat = take_quantifier(&builder->rest);
    if (builder->rest.len != written.len && fragment.anchored)
        fail(builder, "a group with '^' or '$' in it is not repeated");
    return write_out(builder, atom, fragment, &repeat);
}

static void append(struct builder *builder, struct fragment *whole, const struct fragment *next)
{
    connect(builder, &whole->last, &next->first);
    if (whole->nullable)
        set_join(&whole->first, &next->first);
    if (!next->nullable)
        whole->last = next->last;
    else
        set_join(&whole->last, &next->last);
    whole->nullable = whole->nullable && next->nullable;
    whole->anchored = whole->anchored || next->anchored;
    whole->closed = whole->closed || next->closed;
}

static const char anchor_problem[] =
    "'^' is allowed only at the start of the pattern, '$' only at its end";

static struct fragment read_branch(struct builder *builder, bool at_start)
{
    struct fragment whole = {.nullable = true};
    while (builder->rest.len > 0 && builder->rest.at[0] != '|' && builder->rest.at[0] != ')') {
        char c = builder->rest.at[0];
        if (c != '^' && c != '$') {
            if (whole.closed)
                fail(builder, anchor_problem);
            if (builder->rest.len == 0)
                break;
            struct fragment next = read_repeated(builder, at_start);
            append(builder, &whole, &next);
            at_start = false;
            continue;
        }
        if (c == '^' && !at_start)
            fail(builder, anchor_problem);
        whole.anchored = true;
        whole.closed = whole.closed || c == '$';
        builder->rest = slice_skip(builder->rest, builder->rest.len > 0 ? 1 : 0);
    }
    return whole;
}

static struct fragment read_choice(struct builder *builder, bool at_start)
{
    struct fragment whole = read_branch(builder, at_start);
    while (builder->rest.len > 0 && builder->rest.at[0] == '|') {
        builder->rest = slice_skip(builder->rest, 1);
        struct fragment next = read_branch(builder, at_start);
        set_join(&whole.first, &next.first);
        set_join(&whole.last, &next.last);
        whole.nullable = whole.nullable || next.nullable;
        whole.anchored = whole.anchored || next.anchored;
        whole.closed = whole.closed || next.closed;
    }
    return whole;
}

/* ---- from positions to masks ---- */

/* After any position of `from` may come any of `to`. */
struct jump {
    uint64_t *from;
    uint64_t *to;
};

struct pattern {
    size_t words; /* of each mask */
    bool nullable;
    uint64_t *first;
    uint64_t *last;
    uint64_t *next;    /* positions that their right neighbour may follow */
    uint64_t *again;   /* positions that may follow themselves */
    uint64_t *classes; /* of each byte: the positions that take it */
    size_t n_jumps;    /* what else may follow what */
    struct jump *jumps;
};

static uint64_t *new_mask(struct arena *arena, size_t words)
{
    uint64_t *mask = arena_alloc(arena, words * sizeof(*mask));
    if (mask)
        memset(mask, 0, words * sizeof(*mask));
    return mask;
}

/* Takes neighbour and self out of what follows a position. */
static void sort_out_neighbours(struct pattern *pattern, struct set *follow, size_t position)
{
    uint64_t *self = &follow->words[position / WORD_BITS];
    if (bit_is_set(follow->words, position))
        bit_set(pattern->again, position);
    *self &= ~(UINT64_C(1) << (position % WORD_BITS));
    size_t right = position + 1;
    if (right == PATTERN_POSITIONS_MAX || !bit_is_set(follow->words, right))
        return;
    bit_set(pattern->next, position);
    follow->words[right / WORD_BITS] &= ~(UINT64_C(1) << (right % WORD_BITS));
}

static bool add_jump(struct pattern *pattern, const struct set *follow, size_t position,
                     struct arena *arena)
{
    static const struct set none;
    size_t size = pattern->words * sizeof(uint64_t);
    if (memcmp(follow->words, none.words, size) == 0)
        return true;
    for (size_t i = 0; i < pattern->n_jumps; i++)
        if (memcmp(pattern->jumps[i].to, follow->words, size) == 0) {
            bit_set(pattern->jumps[i].from, position);
            return true;
        }
    struct jump jump = {new_mask(arena, pattern->words), new_mask(arena, pattern->words)};
    if (!jump.from || !jump.to)
        return false;
    memcpy(jump.to, follow->words, size);
    bit_set(jump.from, position);
    pattern->jumps[pattern->n_jumps++] = jump;
    return true;
}

static bool fill(struct pattern *pattern, struct builder *builder, const struct fragment *whole,
                 struct arena *arena)
{
    size_t words = pattern->words;
    memcpy(pattern->first, whole->first.words, words * sizeof(uint64_t));
    memcpy(pattern->last, whole->last.words, words * sizeof(uint64_t));
    for (size_t i = 0; i < builder->n; i++) {
        for (size_t c = 0; c < 256; c++)
            if (bit_is_set(builder->classes[i].words, c))
                bit_set(pattern->classes + c * words, i);
        sort_out_neighbours(pattern, &builder->follow[i], i);
        if (!add_jump(pattern, &builder->follow[i], i, arena))
            return false;
    }
    return true;
}

static const struct pattern *make(struct builder *builder, const struct fragment *whole,
                                  struct arena *arena)
{
    struct pattern *pattern = arena_alloc(arena, sizeof(*pattern));
    if (!pattern)
        return NULL;
    size_t words = builder->n > 0 ? (builder->n + WORD_BITS - 1) / WORD_BITS : 1;
    *pattern = (struct pattern){
        .words = words,
        .nullable = whole->nullable,
        .first = new_mask(arena, words),
        .last = new_mask(arena, words),
        .next = new_mask(arena, words),
        .again = new_mask(arena, words),
        .classes = new_mask(arena, 256 * words),
        .jumps = arena_alloc(arena, (builder->n + 1) * sizeof(struct jump)),
    };
    if (arena->failed || !fill(pattern, builder, whole, arena))
        return NULL;
    return pattern;
}

const struct pattern *pattern_compile(struct slice text, struct arena *arena,
                                      struct slice *ret_problem)
{
    struct slice problem = pattern_text_problem(text);
    if (problem.len > 0) {
        *ret_problem = problem;
        return NULL;
    }
    struct builder *builder MEM_AUTO = mem_zalloc(1, sizeof(*builder));
    *ret_problem = SLICE("out of memory");
    if (!builder)
        return NULL;
    builder->rest = text;
    struct fragment whole = read_choice(builder, true);
    if (builder->problem) {
        *ret_problem = slice_of(builder->problem);
        return NULL;
    }
    CHECK(builder->rest.len == 0);
    return make(builder, &whole, arena);
}

/* ---- matching ---- */

static bool mask_meets(const uint64_t *a, const uint64_t *b, size_t words)
{
    uint64_t both = 0;
    for (size_t i = 0; i < words; i++)
        both |= a[i] & b[i];
    return both != 0;
}

/* Where the positions in `at` lead. */
static void step(const struct pattern *pattern, const uint64_t *at, uint64_t *ret_next)
{
    uint64_t carry = 0;
    for (size_t i = 0; i < pattern->words; i++) {
        uint64_t moves = at[i] & pattern->next[i];
        ret_next[i] = moves << 1 | carry | (at[i] & pattern->again[i]);
        carry = moves >> (WORD_BITS - 1);
    }
    for (size_t j = 0; j < pattern->n_jumps; j++) {
        const struct jump *jump = &pattern->jumps[j];
        if (mask_meets(at, jump->from, pattern->words))
            for (size_t i = 0; i < pattern->words; i++)
                ret_next[i] |= jump->to[i];
    }
}

bool pattern_matches(const struct pattern *pattern, struct slice text)
{
    size_t words = pattern->words;
    uint64_t at[WORDS_MAX] = {0}, candidates[WORDS_MAX];
    CHECK(words <= WORDS_MAX);
    if (text.len == 0)
        return pattern->nullable;
    if (text.len > PATTERN_TEXT_MAX)
        return false;
    memcpy(candidates, pattern->first, words * sizeof(uint64_t));
    for (size_t n = 0; n < text.len; n++) {
        const uint64_t *class = pattern->classes + (unsigned char)text.at[n] * words;
        uint64_t any = 0;
        if (n > 0)
            step(pattern, at, candidates);
        for (size_t i = 0; i < words; i++)
            any |= at[i] = candidates[i] & class[i];
        if (!any)
            return false;
    }
    return mask_meets(at, pattern->last, words);
}
