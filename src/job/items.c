/* SPDX-License-Identifier: Apache-2.0 */
#include "job/items.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/text/utf8.h"

#include <inttypes.h>

#define BYTE_ORDER_MARK SLICE("\xEF\xBB\xBF")
#define NAME_SHOWN 60 /* bytes of a column's name in a sentence */

static const char too_long[] = "longer than 1048576 bytes";
_Static_assert(ITEMS_LONGEST == 1048576, "too_long says how long");
static const char stray_quote[] =
    "a quote inside a field: put the field in quotes and double each quote in it";
static const char behind_quote[] =
    "text behind the closing quote of a field: a quote in a quoted field is doubled";
static const char stray_cr[] = "a CR without LF: put the field in quotes";

static void begin_item(struct items *items)
{
    items->start = items->scanned;
    items->start_line = items->line;
    items->too_long = false;
    items->place = ITEMS_AT_FIELD;
    items->n_fields = 1;
    items->problem = NULL;
}

void items_init(struct items *items, enum items_form form)
{
    *items = (struct items){
        .form = form,
        .input = buf_make(SIZE_MAX - 1),
        .line = 1,
        .kept = arena_make(ITEMS_ARENA_MAX),
    };
    begin_item(items);
}

void items_fini(struct items *items)
{
    buf_fini(&items->input);
    arena_fini(&items->kept);
}

/* Moves no more bytes than were taken since the last time, so that each is moved once on average:
 * what is left may be long, and the taken items short. */
static void drop_taken(struct items *items)
{
    CHECK(items->start <= items->scanned && items->scanned <= items->input.len);
    if (items->start < items->input.len - items->start)
        return;
    buf_drop(&items->input, items->start);
    items->scanned -= items->start;
    items->start = 0;
}

bool items_feed(struct items *items, struct slice bytes)
{
    CHECK(!items->ended);
    drop_taken(items);
    buf_add_slice(&items->input, bytes);
    return buf_ok(&items->input);
}

void items_end(struct items *items)
{
    items->ended = true;
}

/* ---- finding an item's end ---- */

/* False: too few bytes to see whether there is a byte order mark. */
static bool skip_byte_order_mark(struct items *items)
{
    struct slice mark = BYTE_ORDER_MARK;
    struct slice first = slice_first(buf_slice(&items->input), mark.len);
    if (items->begun)
        return true;
    if (!items->ended && first.len < mark.len && slice_starts(mark, first))
        return false;
    items->begun = true;
    if (items->form != ITEMS_NUL && slice_eq(first, mark))
        items->start = items->scanned = mark.len;
    return true;
}

static void note_item_problem(struct items *items, const char *problem)
{
    if (items->problem)
        return;
    items->problem = problem;
    items->problem_line = items->line;
}

static void scan_quoted(struct items *items, char c)
{
    if (c == '"')
        items->place = ITEMS_AT_QUOTE;
    else if (c == '\n')
        items->line++;
}

/* A byte that is none of `,` and CR, nor in a quoted field. */
static void scan_text(struct items *items, char c)
{
    if (c == '"' && items->place == ITEMS_AT_QUOTE) {
        items->place = ITEMS_IN_QUOTED;
        return;
    }
    if (c == '"' && items->place == ITEMS_AT_FIELD) {
        items->place = ITEMS_IN_QUOTED;
        items->quote_line = items->line;
        return;
    }
    if (items->place == ITEMS_AT_QUOTE)
        note_item_problem(items, behind_quote);
    else if (c == '"')
        note_item_problem(items, stray_quote);
    items->place = ITEMS_IN_PLAIN;
}

static void scan_unquoted(struct items *items, char c)
{
    if (items->place == ITEMS_AT_CR)
        note_item_problem(items, stray_cr);
    if (c == ',') {
        items->place = ITEMS_AT_FIELD;
        items->n_fields++;
    } else if (c == '\r') {
        items->place = ITEMS_AT_CR;
    } else {
        scan_text(items, c);
    }
}

/* Goes to the LF that ends the record; false: it is not there yet. */
static bool scan_record(struct items *items)
{
    for (; items->scanned < items->input.len; items->scanned++) {
        char c = items->input.at[items->scanned];
        if (items->place == ITEMS_IN_QUOTED)
            scan_quoted(items, c);
        else if (c == '\n')
            return true;
        else
            scan_unquoted(items, c);
    }
    return false;
}

/* Goes to the next `end`; false: it is not there yet. */
static bool scan_to(struct items *items, char end)
{
    ptrdiff_t found = slice_find(slice_skip(buf_slice(&items->input), items->scanned), end);
    items->scanned = found < 0 ? items->input.len : items->scanned + (size_t)found;
    return found >= 0;
}

static bool scan_item(struct items *items)
{
    if (items->form == ITEMS_CSV)
        return scan_record(items);
    return scan_to(items, items->form == ITEMS_NUL ? '\0' : '\n');
}

/* Of an unfinished item: one byte more than is allowed may still be the CR of its end. */
static void drop_too_long(struct items *items)
{
    if (items->scanned - items->start > ITEMS_LONGEST + 1)
        items->too_long = true;
    if (items->too_long)
        items->start = items->scanned;
}

/* Whether all of the current item is there, up to `scanned`. Again after a true, it is true again.
 */
static bool find_end(struct items *items)
{
    if (scan_item(items))
        return true;
    drop_too_long(items);
    return items->ended && (items->too_long || items->scanned > items->start);
}

/* Goes behind the current item and its end. */
static void pass_item(struct items *items)
{
    if (items->scanned < items->input.len) {
        items->scanned++;
        items->line++;
    }
    begin_item(items);
}

static struct slice item_text(const struct items *items)
{
    struct slice text = slice_make(items->input.at + items->start, items->scanned - items->start);
    bool cr = items->form == ITEMS_CSV
                  ? items->place == ITEMS_AT_CR
                  : items->form != ITEMS_NUL && text.len > 0 && text.at[text.len - 1] == '\r';
    if (cr && text.len > 0)
        text.len--;
    return text;
}

static bool is_blank(struct slice text)
{
    size_t i = 0;
    while (i < text.len && (text.at[i] == ' ' || text.at[i] == '\t' || text.at[i] == '\r'))
        i++;
    return i == text.len;
}

static bool is_skipped(const struct items *items, struct slice text)
{
    if (items->too_long)
        return false;
    return text.len == 0 || (items->form == ITEMS_JSONL && is_blank(text));
}

/* ---- problems ---- */

static void report_item_problem(const struct items *items, const char *what, uint64_t line,
                                struct buf *problem)
{
    buf_clear(problem);
    if (items->form == ITEMS_NUL)
        buf_printf(problem, "item %" PRIu64 ": %s", items->number + 1, what);
    else
        buf_printf(problem, "line %" PRIu64 ": %s", line, what);
}

/* What is wrong with the current item as text, or NULL. */
static const char *find_problem(const struct items *items, struct slice text)
{
    bool csv = items->form == ITEMS_CSV;
    if (items->too_long || text.len > ITEMS_LONGEST)
        return too_long;
    if (csv && items->problem)
        return items->problem;
    if ((csv || items->form == ITEMS_LINES) && slice_find(text, '\0') >= 0)
        return "a NUL byte";
    return csv && !utf8_valid(text) ? "invalid UTF-8: convert the input to UTF-8" : NULL;
}

static bool check_item_text(const struct items *items, struct slice text, struct buf *problem)
{
    const char *what = find_problem(items, text);
    bool inside = what && what == items->problem;
    if (what)
        report_item_problem(items, what, inside ? items->problem_line : items->start_line, problem);
    return !what;
}

static bool check_count(const struct items *items, struct buf *problem)
{
    if (items->n_fields == items->n_columns)
        return true;
    report_item_problem(items, "the record has ", items->start_line, problem);
    buf_printf(problem, "%zu field%s, the header has %zu", items->n_fields,
               items->n_fields == 1 ? "" : "s", items->n_columns);
    return false;
}

/* ---- CSV: a well-formed record ---- */

/* How long a quoted field is that begins at `rest`, without its quotes; `*ret_doubled`: how many
 * quotes in it are doubled. */
static size_t measure_quoted(struct slice rest, size_t *ret_doubled)
{
    size_t doubled = 0;
    size_t i = 1;
    for (;;) {
        ptrdiff_t quote = slice_find(slice_skip(rest, i), '"');
        CHECK(quote >= 0);
        i += (size_t)quote + 1;
        if (i == rest.len || rest.at[i] != '"')
            break;
        doubled++;
        i++;
    }
    *ret_doubled = doubled;
    return i - 2;
}

/* A copy of `raw` with one of each two quotes; `.at` NULL: no memory. */
static struct slice halve_quotes(struct arena *arena, struct slice raw)
{
    char *text = arena_alloc(arena, raw.len);
    size_t len = 0;
    for (size_t i = 0; text && i < raw.len; i++) {
        text[len++] = raw.at[i];
        if (raw.at[i] == '"')
            i++;
    }
    return slice_make(text, len);
}

/* Takes the field off the front of `rest`, without the comma; `.at` NULL: no memory. */
static struct slice take_field(struct arena *arena, struct slice *rest)
{
    struct slice text = *rest;
    size_t doubled;
    if (!slice_take(rest, '"')) {
        ptrdiff_t comma = slice_find(text, ',');
        text = slice_first(text, comma < 0 ? text.len : (size_t)comma);
        *rest = slice_skip(*rest, text.len);
        return text;
    }
    size_t len = measure_quoted(text, &doubled);
    text = slice_first(*rest, len);
    *rest = slice_skip(*rest, len + 1);
    return doubled > 0 ? halve_quotes(arena, text) : text;
}

/* The `n` fields of a record that lies in `arena`: an array of strings, linked; NULL: no memory. */
static struct json *read_item_fields(struct arena *arena, struct slice text, size_t n)
{
    struct json *fields = arena_alloc(arena, n * sizeof *fields);
    for (size_t i = 0; fields && i < n; i++) {
        bool divided = i == 0 || slice_take(&text, ',');
        CHECK(divided);
        fields[i] = (struct json){.type = JSON_STRING, .text = take_field(arena, &text)};
        if (!fields[i].text.at)
            return NULL;
        if (i > 0)
            fields[i - 1].next = &fields[i];
    }
    CHECK(!fields || text.len == 0);
    return fields;
}

/* ---- CSV: the header ---- */

/* Writes the names one after the other, so that an item gets all of them by one copy. */
static bool gather_names(struct items *items)
{
    size_t len = 0;
    for (size_t i = 0; i < items->n_columns; i++)
        len += items->columns[i].text.len;
    char *names = arena_alloc(&items->kept, len);
    if (!names)
        return false;
    items->names = slice_make(names, len);
    for (size_t i = 0; i < items->n_columns; i++) {
        struct slice name = items->columns[i].text;
        if (name.len > 0)
            memcpy(names, name.at, name.len);
        items->columns[i].name = slice_make(names, name.len);
        names += name.len;
    }
    return true;
}

static bool check_named(const struct items *items, struct buf *problem)
{
    for (size_t i = 0; i < items->n_columns; i++) {
        if (items->columns[i].name.len > 0)
            continue;
        report_item_problem(items, "the header's column ", items->start_line, problem);
        buf_printf(problem, "%zu has no name", i + 1);
        return false;
    }
    return true;
}

static void report_twice(const struct items *items, const struct json *a, const struct json *b,
                         struct buf *problem)
{
    report_item_problem(items, "the header's columns ", items->start_line, problem);
    buf_printf(problem, "%td and %td are both named ", a - items->columns + 1,
               b - items->columns + 1);
    json_add_string(problem, slice_first(a->name, NAME_SHOWN));
}

static enum items_result check_unique(const struct items *items, struct buf *problem)
{
    size_t n = items->n_columns;
    MEM_AUTO const struct json **sorted = mem_zalloc(n, 2 * sizeof *sorted);
    if (!sorted)
        return ITEMS_NO_MEMORY;
    for (size_t i = 0; i < n; i++)
        sorted[i] = &items->columns[i];
    json_sort_members(sorted, n, sorted + n);
    for (size_t i = 1; i < n; i++) {
        if (!slice_eq(sorted[i - 1]->name, sorted[i]->name))
            continue;
        report_twice(items, sorted[i - 1], sorted[i], problem);
        return ITEMS_BROKEN;
    }
    return ITEMS_ONE;
}

static enum items_result keep_header(struct items *items, struct slice text, struct buf *problem)
{
    struct slice copy = arena_copy(&items->kept, text);
    items->n_columns = items->n_fields;
    items->columns = copy.at ? read_item_fields(&items->kept, copy, items->n_columns) : NULL;
    if (!items->columns || !gather_names(items))
        return ITEMS_NO_MEMORY;
    return check_named(items, problem) ? check_unique(items, problem) : ITEMS_BROKEN;
}

/* ITEMS_ONE: it was read. Else nothing has changed. */
static enum items_result read_header(struct items *items, struct slice text, struct buf *problem)
{
    if (!check_item_text(items, text, problem))
        return ITEMS_BROKEN;
    enum items_result result = keep_header(items, text, problem);
    if (result == ITEMS_ONE) {
        pass_item(items);
        return result;
    }
    arena_fini(&items->kept);
    items->columns = NULL;
    items->n_columns = 0;
    items->names = slice_make(NULL, 0);
    return result;
}

static bool lacks_header(const struct items *items)
{
    return items->form == ITEMS_CSV && !items->columns;
}

bool items_header_known(const struct items *items)
{
    return items->columns;
}

bool items_has_column(const struct items *items, struct slice pointer)
{
    for (size_t i = 0; i < items->n_columns; i++) {
        struct json column = {.type = JSON_STRING, .name = items->columns[i].name};
        const struct json record = {.type = JSON_OBJECT, .first = &column};
        if (json_at(&record, pointer) == &column)
            return true;
    }
    return false;
}

size_t items_column_count(const struct items *items)
{
    return items->n_columns;
}

struct slice items_column_at(const struct items *items, size_t i)
{
    CHECK(i < items->n_columns);
    return items->columns[i].name;
}

/* ---- taking an item ---- */

/* The record as an object; NULL: no memory. */
static struct json *make_object(const struct items *items, struct arena *arena, struct slice text)
{
    struct json *object = arena_alloc(arena, sizeof *object);
    struct json *fields = object ? read_item_fields(arena, text, items->n_columns) : NULL;
    struct slice names = fields ? arena_copy(arena, items->names) : slice_make(NULL, 0);
    if (!names.at)
        return NULL;
    for (size_t i = 0; i < items->n_columns; i++) {
        fields[i].name = slice_first(names, items->columns[i].name.len);
        names = slice_skip(names, fields[i].name.len);
    }
    *object = (struct json){.type = JSON_OBJECT, .first = fields, .count = items->n_columns};
    return object;
}

static enum items_result parse_line(const struct items *items, struct arena *arena,
                                    struct item *item, struct buf *problem)
{
    size_t offset;
    enum json_error error = json_parse(arena, item->text, &item->value, &offset);
    if (error == JSON_OK)
        return ITEMS_ONE;
    if (error == JSON_NO_MEMORY)
        return ITEMS_NO_MEMORY;
    report_item_problem(items, json_error_text(error), items->start_line, problem);
    buf_printf(problem, " at byte %zu", offset);
    return ITEMS_BAD;
}

/* What the current item is; nothing is passed. */
static enum items_result read_next_item(const struct items *items, struct arena *arena,
                                        struct item *ret_item, struct buf *problem)
{
    struct slice text = item_text(items);
    bool csv = items->form == ITEMS_CSV;
    if (!check_item_text(items, text, problem) || (csv && !check_count(items, problem)))
        return ITEMS_BAD;
    *ret_item = (struct item){
        .number = items->number + 1, .line = items->start_line, .text = arena_copy(arena, text)};
    if (!ret_item->text.at)
        return ITEMS_NO_MEMORY;
    if (items->form == ITEMS_JSONL)
        return parse_line(items, arena, ret_item, problem);
    if (csv)
        ret_item->value = make_object(items, arena, ret_item->text);
    return csv && !ret_item->value ? ITEMS_NO_MEMORY : ITEMS_ONE;
}

static enum items_result take_item(struct items *items, struct arena *arena, struct item *ret_item,
                                   struct buf *problem)
{
    struct item item;
    enum items_result result = read_next_item(items, arena, &item, problem);
    if (result == ITEMS_NO_MEMORY)
        return result;
    items->number++;
    pass_item(items);
    if (result == ITEMS_ONE)
        *ret_item = item;
    return result;
}

static bool is_broken(const struct items *items, struct buf *problem)
{
    bool at_end = items->ended && items->scanned == items->input.len;
    if (lacks_header(items) && items->too_long)
        report_item_problem(items, too_long, items->start_line, problem);
    else if (at_end && items->place == ITEMS_IN_QUOTED)
        report_item_problem(items, "the quote that begins here is not closed", items->quote_line,
                            problem);
    else
        return false;
    return true;
}

static enum items_result end_input(const struct items *items, struct buf *problem)
{
    if (!items->ended)
        return ITEMS_MORE;
    if (!lacks_header(items))
        return ITEMS_DONE;
    report_item_problem(items, "no header: the first line of CSV names its columns", items->line,
                        problem);
    return ITEMS_BROKEN;
}

enum items_result items_next(struct items *items, struct arena *arena, struct item *ret_item,
                             struct buf *problem)
{
    if (!skip_byte_order_mark(items))
        return ITEMS_MORE;
    for (;;) {
        bool whole = find_end(items);
        if (is_broken(items, problem))
            return ITEMS_BROKEN;
        if (!whole)
            return end_input(items, problem);
        struct slice text = item_text(items);
        if (is_skipped(items, text)) {
            pass_item(items);
            continue;
        }
        if (!lacks_header(items))
            return take_item(items, arena, ret_item, problem);
        enum items_result result = read_header(items, text, problem);
        if (result != ITEMS_ONE)
            return result;
    }
}
