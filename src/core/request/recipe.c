/* SPDX-License-Identifier: Apache-2.0 */
/* The recipe of a payload hash as text; declared in core/request/payload.h. */
#include "base/check.h"
#include "base/text/percent.h"
#include "core/request/payload.h"

#define RECIPE_VERSION "2"
#define RECIPE_OLD "1"

static const struct {
    enum payload_mode mode;
    struct slice word;
    bool has_pointers;
} modes[] = {
    {PAYLOAD_ALL, {"all", 3}, false},        {PAYLOAD_INCLUDE, {"include", 7}, true},
    {PAYLOAD_EXCLUDE, {"exclude", 7}, true}, {PAYLOAD_RAW, {"raw", 3}, false},
    {PAYLOAD_IGNORE, {"ignore", 6}, false},
};
/* A pointer becomes one word of a line of text. */
static void add_pointer(struct buf *buf, struct slice pointer)
{
    for (size_t i = 0; i < pointer.len; i++) {
        unsigned char c = (unsigned char)pointer.at[i];
        if (c <= ' ' || c == '%' || c == 0x7F)
            buf_printf(buf, "%%%02X", c);
        else
            buf_add_char(buf, (char)c);
    }
}

const char *payload_mode_name(enum payload_mode mode)
{
    CHECK(mode < COUNT_OF(modes) && modes[mode].mode == mode);
    return modes[mode].word.at;
}

void payload_recipe_write(const struct payload_selection *selection, struct buf *buf)
{
    CHECK(selection->n_pointers <= PAYLOAD_POINTERS_MAX);
    buf_add_str(buf, selection->version == 1 ? RECIPE_OLD " " : RECIPE_VERSION " ");
    buf_add_str(buf, selection->as_json ? "json " : "");
    buf_add_str(buf, payload_mode_name(selection->mode));
    for (size_t i = 0; modes[selection->mode].has_pointers && i < selection->n_pointers; i++) {
        buf_add_char(buf, ' ');
        add_pointer(buf, selection->pointers[i]);
    }
}

/* `word` decoded, in `arena`; `.at` NULL: no pointer, or no memory. */
static struct slice read_recipe_pointer(struct slice word, struct arena *arena)
{
    struct slice pointer = percent_decode(word, false, arena);
    bool valid = percent_is_valid(word) && json_pointer_valid(pointer);
    return valid ? pointer : slice_make(NULL, 0);
}

static bool read_pointers(struct slice words, struct arena *arena,
                          struct payload_selection *selection)
{
    struct slice word;
    while (slice_next(&words, ' ', &word)) {
        struct slice pointer = read_recipe_pointer(word, arena);
        if (!pointer.at || selection->n_pointers == PAYLOAD_POINTERS_MAX)
            return false;
        selection->pointers[selection->n_pointers++] = pointer;
    }
    return true;
}

bool payload_recipe_is_old(struct slice recipe)
{
    return slice_starts(recipe, SLICE(RECIPE_OLD " "));
}

bool payload_recipe_read(struct slice recipe, struct arena *arena,
                         struct payload_selection *ret_selection)
{
    struct slice word;
    bool old = payload_recipe_is_old(recipe);
    if (!old && !slice_starts(recipe, SLICE(RECIPE_VERSION " ")))
        return false;
    struct slice words = slice_skip(recipe, strlen(RECIPE_VERSION " "));
    bool as_json = !old && slice_starts(words, SLICE("json "));
    words = slice_cut(slice_skip(words, as_json ? strlen("json ") : 0), ' ', &word);
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        struct payload_selection selection = {
            .mode = modes[i].mode, .as_json = as_json, .version = old ? 1 : 2};
        if (!slice_eq(word, modes[i].word))
            continue;
        if (words.at && !modes[i].has_pointers)
            return false;
        if (!read_pointers(words, arena, &selection))
            return false;
        *ret_selection = selection;
        return true;
    }
    return false;
}
