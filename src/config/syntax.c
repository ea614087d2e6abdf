/* SPDX-License-Identifier: Apache-2.0 */
#include "config/syntax.h"

#define INDENTATION "wrong indentation (the options of one map begin in the same column)"
#define NO_START "cannot begin a name or a value (put the value in quotes)"
#define BRACE "a value that contains '{' must be quoted: \"{header:NAME}\""
#define TAB "a tab (indent with spaces)"

enum where { ANYWHERE, FIRST_IN_LINE, AFTER_COLON, AT_END };

/* The first row that fits counts. */
static const struct mistake {
    const char *problem; /* a part of what libyaml says, or of when it says so */
    enum where where;
    const char *at;   /* one of these characters is at the place; NULL: any */
    bool from_start;  /* the place is where the part begins that could not be read */
    bool shows_char;  /* the text begins with the character at the place */
    bool shows_start; /* the line where the list or map begins follows it */
    const char *text;
} mistakes[] = {
    {"control characters", .text = "a control character (remove it)"},
    {"octet", .text = "not UTF-8 (save the file as UTF-8)"},
    {"UTF-8", .text = "not UTF-8 (save the file as UTF-8)"},
    {"directive", .text = "a line that begins with '%' is not supported (remove it)"},
    {"cannot start any token", .at = "\t", .text = TAB},
    {"found a tab character", .text = TAB},
    {"cannot start any token", .shows_char = true, .text = NO_START},
    {"alphabetic or numeric", .from_start = true, .shows_char = true, .text = NO_START},
    {"comment or line break", .from_start = true, .shows_char = true, .text = NO_START},
    {"a tag", .from_start = true, .shows_char = true, .text = NO_START},
    {"mapping keys are not allowed", .shows_char = true, .text = NO_START},
    {"could not find expected ':'", .from_start = true,
     .text = "a line without ': ' (expected NAME: VALUE, with a space after the colon)"},
    {"mapping values are not allowed", AFTER_COLON,
     .text = "a second ': ' in one line (quote a value that contains ': ')"},
    {"mapping values are not allowed",
     .text = "indented deeper than the line above (the options of one map begin in the same "
             "column)"},
    {"expected '-' indicator",
     .text = "wrong indentation (an item of a list begins with '- ', and its options begin in the "
             "same column)"},
    {"expected key", FIRST_IN_LINE, .at = "-",
     .text = "an item of a list where an option was expected (a list begins below its name)"},
    {"expected key", FIRST_IN_LINE, .text = INDENTATION},
    {"expected key", .at = "]}", .shows_char = true,
     .text = "closes nothing (remove it, or quote the value)"},
    {"expected key",
     .text = "text after the end of a value (quote the whole value, as in \"{header:NAME}\")"},
    {"<document start>", .text = INDENTATION},
    {"unexpected end of stream", .from_start = true, .text = "a quote that is never closed"},
    {"unexpected document indicator", .from_start = true, .text = "a quote that is never closed"},
    {"',' or ']'", .at = "{", .text = BRACE},
    {"',' or '}'", .at = "{", .text = BRACE},
    {"',' or ']'", .shows_start = true, .text = "expected ',' or ']' in the list"},
    {"',' or '}'", .shows_start = true, .text = "expected ',' or '}' in the map"},
    {"node content", AT_END, .text = "the file ends within a list or map that is not closed"},
    {"node content", .shows_char = true, .text = NO_START},
    {"escape", .from_start = true,
     .text = "an unknown escape such as \\d in double quotes (use single quotes, or \\\\)"},
    {"hexdecimal", .from_start = true,
     .text = "an unknown escape such as \\d in double quotes (use single quotes, or \\\\)"},
    {"block sequence entries",
     .text = "'- ' behind a name (begin each item on a line of its own, or write [A, B])"},
};

/* ---- places ---- */

/* Of a character of several bytes, after the first. */
static bool is_line_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

struct place syntax_place(struct slice text, size_t offset)
{
    struct place place = {1, 1};
    for (size_t i = 0; i < offset && i < text.len; i++) {
        bool is_line_end = text.at[i] == '\n';
        place.line += is_line_end;
        place.column = is_line_end ? 1 : place.column + !is_line_continuation(text.at[i]);
    }
    return place;
}

/* The line of a place, divided there. */
static void cut_line(struct slice text, struct place place, struct slice *ret_before,
                     struct slice *ret_after)
{
    struct slice line = text;
    size_t n = 0;
    for (size_t i = 0; i < place.line && text.at; i++)
        text = slice_cut(text, '\n', &line);
    for (size_t column = 1; n < line.len; n++) {
        column += n > 0 && !is_line_continuation(line.at[n]);
        if (column == place.column)
            break;
    }
    *ret_before = slice_first(line, n);
    *ret_after = slice_skip(line, n);
}

/* ---- the table ---- */

static bool is_at_mistake(enum where where, struct slice before, struct slice after)
{
    switch (where) {
    case ANYWHERE:
        break;
    case FIRST_IN_LINE:
        return slice_trim(before).len == 0;
    case AFTER_COLON:
        return before.len > 0 && memmem(before.at, before.len, ": ", 2);
    case AT_END:
        return after.len == 0;
    }
    return true;
}

static bool says_part(const char *said, const char *part)
{
    return said && strstr(said, part);
}

static bool mistake_fits(const struct mistake *row, const struct syntax_error *error,
                         struct slice before, struct slice after)
{
    return (says_part(error->problem, row->problem) || says_part(error->context, row->problem)) &&
           is_at_mistake(row->where, before, after) &&
           (!row->at || (after.len > 0 && strchr(row->at, after.at[0])));
}

static const struct mistake *find_mistake(const struct syntax_error *error, struct slice before,
                                          struct slice after)
{
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++)
        if (mistake_fits(&mistakes[i], error, before, after))
            return &mistakes[i];
    return NULL;
}

void syntax_complain(struct complaints *complaints, const struct syntax_error *error,
                     struct slice text)
{
    struct slice before, after, key = SLICE("config");
    struct place place = error->place;
    cut_line(text, place, &before, &after);
    const struct mistake *mistake = find_mistake(error, before, after);
    if (!mistake) {
        complaints_add(complaints, place, key, "not valid YAML: %s", error->problem);
        return;
    }
    if (mistake->from_start) {
        place = error->start;
        cut_line(text, place, &before, &after);
    }
    if (mistake->shows_char && after.len > 0 && (unsigned char)after.at[0] < 0x80)
        complaints_add(complaints, place, key, "not valid YAML: '%c' %s", after.at[0],
                       mistake->text);
    else if (mistake->shows_start)
        complaints_add(complaints, place, key, "not valid YAML: %s that begins on line %zu",
                       mistake->text, error->start.line);
    else
        complaints_add(complaints, place, key, "not valid YAML: %s", mistake->text);
}
