/* SPDX-License-Identifier: Apache-2.0 */
/* Reads all of an input's items into a log, as the tests of items do. After <cmocka.h>. */
#ifndef PAWL_TESTS_ITEMS_READING_H
#define PAWL_TESTS_ITEMS_READING_H

#include "job/items.h"

#define ROOM ((size_t)1 << 28)

static inline void log_fields(struct buf *log, const struct json *object)
{
    assert_int_equal(object->type, JSON_OBJECT);
    size_t n = 0;
    for (const struct json *field = object->first; field; field = field->next, n++) {
        assert_int_equal(field->type, JSON_STRING);
        buf_printf(log, " %.*s=", SLICE_ARG(field->name));
        json_add_string(log, field->text);
    }
    assert_int_equal(object->count, n);
}

/* `1 "text"`, of CSV its fields behind it; of JSONL its type. */
static inline void log_item(struct buf *log, enum items_form form, const struct item *item)
{
    assert_int_equal(item->text.at[item->text.len], '\0');
    buf_printf(log, "%d ", (int)item->number);
    json_add_string(log, item->text);
    assert_true((form >= ITEMS_CSV) == (item->value != NULL));
    if (form == ITEMS_CSV)
        log_fields(log, item->value);
    if (form == ITEMS_JSONL)
        buf_printf(log, " type %d", (int)item->value->type);
    buf_add_char(log, '\n');
}

/* Takes what there is, and checks that nothing is left to be looked at again. */
static inline enum items_result drain(struct items *items, struct buf *log)
{
    for (;;) {
        ARENA_AUTO struct arena arena = arena_make(ITEMS_ARENA_MAX);
        BUF_AUTO struct buf problem = buf_make(1000);
        struct item item;
        enum items_result result = items_next(items, &arena, &item, &problem);
        assert_int_not_equal(result, ITEMS_NO_MEMORY);
        if (result == ITEMS_ONE)
            log_item(log, items->form, &item);
        else if (result == ITEMS_BAD || result == ITEMS_BROKEN)
            buf_printf(log, "%s: %.*s\n", result == ITEMS_BAD ? "bad" : "broken",
                       SLICE_ARG(buf_slice(&problem)));
        if (result == ITEMS_MORE && items->begun)
            assert_int_equal(items->scanned, items->input.len);
        if (result != ITEMS_ONE && result != ITEMS_BAD)
            return result;
    }
}

static inline void read_pieces(enum items_form form, struct slice input, size_t piece,
                               struct buf *log)
{
    struct items items;
    enum items_result result = ITEMS_MORE;
    items_init(&items, form);
    while (input.len > 0 && result == ITEMS_MORE) {
        struct slice head = slice_first(input, piece);
        assert_true(items_feed(&items, head));
        input = slice_skip(input, head.len);
        result = drain(&items, log);
    }
    assert_true(result == ITEMS_MORE || result == ITEMS_BROKEN);
    items_end(&items);
    if (result == ITEMS_MORE)
        result = drain(&items, log);
    assert_true(result == ITEMS_DONE || result == ITEMS_BROKEN);
    assert_int_equal(drain(&items, &(struct buf){.max = 1000, .failed = true}), result);
    items_fini(&items);
}

/* However the input is cut. */
static inline void expect(enum items_form form, struct slice input, const char *wanted)
{
    static const size_t pieces[] = {SIZE_MAX, 1, 2, 3, 5, 7};
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        BUF_AUTO struct buf log = buf_make(ROOM);
        read_pieces(form, input, pieces[i], &log);
        buf_add_char(&log, '\0');
        assert_true(buf_ok(&log));
        assert_string_equal(log.at, wanted);
    }
}

#endif
