/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the items of a job. The first byte selects the form (its lowest two bits) and the
 * length of the pieces. Fed at once and in pieces the results are the same, down to the sentences
 * about problems; CSV that is written from what was read is read as the same.
 */
#include "base/check.h"
#include "fuzz.h"
#include "job/items.h"

#define ROOM ((size_t)1 << 30)

/* Recursion is bounded by JSON_DEPTH_MAX. */
static void write_value(struct buf *log, const struct json *value)
{
    size_t n = 0;
    json_add_string(log, value->name);
    buf_printf(log, "=%d", (int)value->type);
    json_add_string(log, value->text);
    for (const struct json *child = value->first; child; child = child->next, n++)
        write_value(log, child);
    CHECK(n == value->count);
    buf_add_char(log, ';');
}

static void write_item(struct buf *log, const struct items *items, const struct item *item)
{
    bool tree = items->form == ITEMS_CSV || items->form == ITEMS_JSONL;
    CHECK(item->text.len > 0 && item->text.len <= ITEMS_LONGEST);
    CHECK(item->text.at[item->text.len] == '\0' && tree == (item->value != NULL));
    CHECK(items->form != ITEMS_CSV || item->value->count == items_column_count(items));
    buf_printf(log, "%d ", (int)item->number);
    json_add_string(log, item->text);
    if (tree)
        write_value(log, item->value);
    buf_add_char(log, '\n');
}

static void write_csv_field(struct buf *csv, struct slice text, bool last)
{
    buf_add_char(csv, '"');
    for (size_t i = 0; i < text.len; i++) {
        buf_add_char(csv, text.at[i]);
        if (text.at[i] == '"')
            buf_add_char(csv, '"');
    }
    buf_add_str(csv, last ? "\"\n" : "\",");
}

static void write_csv_record(struct buf *csv, const struct json *object)
{
    for (const struct json *field = object->first; field; field = field->next)
        write_csv_field(csv, field->text, !field->next);
}

/* By a pointer to it. */
static void check_column(const struct items *items, struct slice name)
{
    BUF_AUTO struct buf pointer = buf_make(ROOM);
    buf_add_char(&pointer, '/');
    for (size_t i = 0; i < name.len; i++)
        if (name.at[i] == '~' || name.at[i] == '/')
            buf_add_str(&pointer, name.at[i] == '~' ? "~0" : "~1");
        else
            buf_add_char(&pointer, name.at[i]);
    CHECK(items_has_column(items, buf_slice(&pointer)));
}

static void write_csv_header(struct buf *csv, const struct items *items)
{
    size_t n = items_column_count(items);
    for (size_t i = 0; csv->len == 0 && i < n; i++)
        check_column(items, items_column_at(items, i));
    for (size_t i = 0; i < n; i++)
        write_csv_field(csv, items_column_at(items, i), i + 1 == n);
}

/* Takes what there is; `csv` gets it as CSV. */
static enum items_result take_all(struct items *items, struct buf *log, struct buf *csv)
{
    for (;;) {
        ARENA_AUTO struct arena arena = arena_make(ITEMS_ARENA_MAX);
        BUF_AUTO struct buf problem = buf_make(ROOM);
        struct item item;
        enum items_result result = items_next(items, &arena, &item, &problem);
        CHECK(result != ITEMS_NO_MEMORY);
        CHECK((problem.len > 0) == (result == ITEMS_BAD || result == ITEMS_BROKEN));
        if (problem.len > 0)
            buf_printf(log, "%d %.*s\n", (int)result, SLICE_ARG(buf_slice(&problem)));
        if (csv->len == 0 && items_header_known(items))
            write_csv_header(csv, items);
        if (result == ITEMS_ONE)
            write_item(log, items, &item);
        if (result == ITEMS_ONE && items->form == ITEMS_CSV)
            write_csv_record(csv, item.value);
        if (result != ITEMS_ONE && result != ITEMS_BAD)
            return result;
    }
}

static void read_items(enum items_form form, struct slice bytes, size_t piece, struct buf *log,
                       struct buf *csv)
{
    struct items items;
    enum items_result result = ITEMS_MORE;
    items_init(&items, form);
    while (bytes.len > 0 && result == ITEMS_MORE) {
        struct slice head = slice_first(bytes, piece);
        CHECK(items_feed(&items, head));
        bytes = slice_skip(bytes, head.len);
        result = take_all(&items, log, csv);
    }
    items_end(&items);
    if (result == ITEMS_MORE)
        result = take_all(&items, log, csv);
    CHECK(result == ITEMS_DONE || result == ITEMS_BROKEN);
    CHECK(result == ITEMS_BROKEN || items.start == items.input.len);
    items_fini(&items);
}

/* All that is read of well-formed CSV is read again from what was written of it. */
static void check_written(struct slice csv)
{
    BUF_AUTO struct buf log = buf_make(ROOM), again = buf_make(ROOM);
    read_items(ITEMS_CSV, csv, csv.len, &log, &again);
    CHECK(buf_ok(&again) && slice_eq(csv, buf_slice(&again)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    BUF_AUTO struct buf whole = buf_make(ROOM), pieces = buf_make(ROOM);
    BUF_AUTO struct buf csv = buf_make(ROOM), csv_pieces = buf_make(ROOM);
    if (n < 2)
        return 0;
    struct slice bytes = slice_make(data + 1, n - 1);
    enum items_form form = data[0] & 3;
    read_items(form, bytes, bytes.len, &whole, &csv);
    read_items(form, bytes, 1 + data[0] / 4, &pieces, &csv_pieces);
    CHECK(buf_ok(&whole) && buf_ok(&csv));
    CHECK(slice_eq(buf_slice(&whole), buf_slice(&pieces)));
    CHECK(slice_eq(buf_slice(&csv), buf_slice(&csv_pieces)));
    if (csv.len > 0)
        check_written(buf_slice(&csv));
    return 0;
}
