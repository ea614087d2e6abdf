/* SPDX-License-Identifier: Apache-2.0 */
#include "core/request/path.h"
#include "base/crypto/digest.h"
#include "base/text/ascii.h"
#include "base/text/percent.h"

static bool is_unreserved(char c)
{
    return slice_is_word(slice_make(&c, 1), SLICE_URL_MARKS);
}

/* One byte of a path, as sent or behind an escape. */
struct path_byte {
    char c;
    bool escaped;
    size_t size; /* as sent: 1, or 3 */
};

static struct path_byte byte_at(struct slice path, size_t at)
{
    struct path_byte byte = {.c = path.at[at], .size = 1};
    byte.escaped = percent_starts(slice_skip(path, at), &byte.c);
    if (byte.escaped)
        byte.size = PERCENT_SIZE;
    return byte;
}

/* ---- the normal form ---- */

/* A '%' that starts no escape becomes %25, which is how servers that take it read it; left alone it
 * might start one with what is decoded behind it, and normalising twice would not be as once. */
static size_t normalise_path(struct slice path, char *text)
{
    size_t len = 0;
    for (size_t at = 0; at < path.len;) {
        struct path_byte byte = byte_at(path, at);
        if (byte.escaped && !is_unreserved(byte.c)) {
            percent_write(byte.c, text + len);
            len += PERCENT_SIZE;
        } else {
            text[len++] = byte.c;
            if (byte.c == '%') {
                text[len++] = '2';
                text[len++] = '5';
            }
        }
        at += byte.size;
    }
    return len;
}

struct slice path_normalise(struct slice path, struct arena *arena)
{
    size_t percents = 0;
    for (size_t i = 0; i < path.len; i++)
        percents += path.at[i] == '%';
    char *text = arena_alloc(arena, path.len + 2 * percents + 1);
    if (!text)
        return slice_make(NULL, 0);
    size_t len = normalise_path(path, text);
    if (len == 0)
        text[len++] = '/';
    if (len > 1 && text[len - 1] == '/')
        len--;
    return slice_make(text, len);
}

/* ---- what servers read in different ways ---- */

/* "." or "..", perhaps with parameters behind it, which some servers drop first. */
static bool is_dot_segment(struct slice segment)
{
    size_t dots = 0;
    for (size_t at = 0; at < segment.len;) {
        struct path_byte byte = byte_at(segment, at);
        if (byte.c == ';')
            break;
        if (byte.c != '.' || ++dots > 2)
            return false;
        at += byte.size;
    }
    return dots > 0;
}

bool path_is_ambiguous(struct slice path)
{
    for (size_t at = 0; at < path.len;) {
        struct path_byte byte = byte_at(path, at);
        if (byte.c == '\\' || byte.c == '\0' || (byte.escaped && byte.c == '/'))
            return true;
        at += byte.size;
    }
    struct slice rest = path, segment;
    while (slice_next(&rest, '/', &segment)) {
        bool first = segment.at == path.at;
        if (is_dot_segment(segment) || (segment.len == 0 && !first && rest.at))
            return true;
    }
    return path.len >= 2 && path.at[0] == '/' && path.at[1] == '/';
}

/* An escape of what would end the path. */
static bool is_end(struct path_byte byte)
{
    return byte.escaped && (byte.c == '?' || byte.c == '#');
}

/* What is left of a segment for a server that drops ";parameters", what would end the path, and
 * spaces at both ends. */
static struct slice name_of_segment(struct slice segment)
{
    size_t begin = 0, end = 0;
    for (size_t at = 0; at < segment.len;) {
        struct path_byte byte = byte_at(segment, at);
        if (byte.c == ';' || is_end(byte))
            break;
        at += byte.size;
        if (byte.c != ' ')
            end = at;
        else if (end == 0)
            begin = at;
    }
    return slice_make(segment.at + begin, end > begin ? end - begin : 0);
}

bool path_has_dots(struct slice segment)
{
    size_t begin = 0;
    for (size_t at = 0; at < segment.len;) {
        struct path_byte byte = byte_at(segment, at);
        if ((byte.c == '/' || byte.c == '\\') &&
            is_dot_segment(name_of_segment(slice_make(segment.at + begin, at - begin))))
            return true;
        at += byte.size;
        if (byte.c == '/' || byte.c == '\\')
            begin = at;
    }
    return is_dot_segment(name_of_segment(slice_skip(segment, begin)));
}

bool path_is_nameless(struct slice segment)
{
    struct slice name = name_of_segment(segment);
    for (size_t at = 0; at < name.len;) {
        struct path_byte byte = byte_at(name, at);
        if (byte.c != '/' && byte.c != '\\')
            return false;
        at += byte.size;
    }
    return true;
}

/* The choices that a byte gives; those that leave empty or dot segments behind give more. */
static unsigned choices_of(struct path_byte byte, char after)
{
    if (byte.c == '/')
        return byte.escaped ? PATH_SLASH_ESCAPE : 0;
    if (byte.c == '\\')
        return PATH_BACKSLASH;
    if (byte.c == ';')
        return PATH_PARAMETERS | PATH_MERGE;
    if (byte.c == '\0')
        return PATH_NUL_ENDS | PATH_NUL_DROPS;
    if (is_end(byte))
        return PATH_QUERY_ENDS | PATH_DOTS | PATH_MERGE;
    if (byte.escaped && (ascii_is_control(byte.c) || byte.c == ' '))
        return PATH_DROP | PATH_MERGE | PATH_DOTS;
    return byte.c == '.' && (after == '/' || after == '\0' || after == ';') ? PATH_DROP : 0;
}

unsigned path_choices(struct slice normalised)
{
    unsigned choices = path_is_ambiguous(normalised) ? PATH_MERGE | PATH_DOTS : 0;
    for (size_t at = 0; at < normalised.len;) {
        struct path_byte byte = byte_at(normalised, at);
        at += byte.size;
        choices |= choices_of(byte, at < normalised.len ? normalised.at[at] : '\0');
    }
    return choices;
}

/* `first`, `last`: in its segment; `after`: behind it. */
static bool is_unclean(struct path_byte byte, bool first, bool last, char after)
{
    bool space = byte.escaped && byte.c == ' ';
    if (byte.c == ';' || is_end(byte) || (byte.escaped && ascii_is_control(byte.c)))
        return true;
    if (byte.escaped && byte.c == '%')
        return after == 'u' || after == 'U';
    return (space && (first || last)) || (byte.c == '.' && last);
}

bool path_is_unclean(struct slice normalised)
{
    bool first = true;
    for (size_t at = 0; at < normalised.len;) {
        struct path_byte byte = byte_at(normalised, at);
        at += byte.size;
        char after = at < normalised.len ? normalised.at[at] : '/';
        if (is_unclean(byte, first, after == '/', after))
            return true;
        first = byte.c == '/' && !byte.escaped;
    }
    return false;
}

/* ---- decoded once too often ---- */

static bool take_continuation(struct slice path, size_t at, unsigned *value)
{
    struct path_byte byte = at < path.len ? byte_at(path, at) : (struct path_byte){0};
    if (!byte.escaped || ((unsigned char)byte.c & 0xC0) != 0x80)
        return false;
    *value = *value << 6 | ((unsigned char)byte.c & 0x3F);
    return true;
}

/* An ASCII character in two or three bytes of UTF-8, which is one byte too many. */
static bool is_overlong(struct slice path, size_t at, char *ret_c, size_t *ret_size)
{
    struct path_byte first = byte_at(path, at);
    unsigned char lead = (unsigned char)first.c;
    unsigned value = lead & 0x1F;
    size_t n = lead == 0xC0 || lead == 0xC1 ? 1 : lead == 0xE0 ? 2 : 0;
    if (!first.escaped || n == 0)
        return false;
    for (size_t i = 1; i <= n; i++)
        if (!take_continuation(path, at + 3 * i, &value))
            return false;
    if (value >= 0x80)
        return false;
    *ret_c = (char)value;
    *ret_size = 3 * (n + 1);
    return true;
}

/* %25 before two digits, or before `u` and four, of which the first two are 0. */
static bool is_nested(struct slice path, size_t at, char *ret_c, size_t *ret_size)
{
    struct slice rest = slice_skip(path, at);
    if (!slice_starts(rest, SLICE("%25")))
        return false;
    rest = slice_skip(rest, 3);
    bool wide = rest.len >= 5 && (rest.at[0] == 'u' || rest.at[0] == 'U') && rest.at[1] == '0' &&
                rest.at[2] == '0';
    struct slice digits = slice_skip(rest, wide ? 3 : 0);
    if (digits.len < 2 || !hex_decode(slice_make(digits.at, 2), ret_c, 1))
        return false;
    *ret_size = 3 + (wide ? 5 : 2);
    return true;
}

static bool is_decoded_again(struct slice path, size_t at, char *ret_c, size_t *ret_size)
{
    return path.at[at] == '%' &&
           (is_nested(path, at, ret_c, ret_size) || is_overlong(path, at, ret_c, ret_size));
}

struct slice path_decode_again(struct slice normalised, struct arena *arena)
{
    char c;
    size_t size, len = 0, at = 0;
    while (at < normalised.len && !is_decoded_again(normalised, at, &c, &size))
        at++;
    if (at >= normalised.len)
        return normalised;
    char *text = arena_alloc(arena, normalised.len);
    if (!text)
        return slice_make(NULL, 0);
    for (at = 0; at < normalised.len; at += size) {
        size = byte_at(normalised, at).size;
        if (is_decoded_again(normalised, at, &c, &size)) {
            percent_write(c, text + len);
            len += PERCENT_SIZE;
        } else {
            memcpy(text + len, normalised.at + at, size);
            len += size;
        }
    }
    return path_normalise(slice_make(text, len), arena);
}

/* ---- one reading ---- */

/* The path read so far: `text` ends in the segment that starts at `segment`, behind a '/'. */
struct reader {
    unsigned reading;
    char *text;
    size_t len;
    size_t segment;
    bool parameters; /* the rest of this segment is dropped */
};

/* Takes the segment that just ended, and with ".." the one before it, off the text. True: it is a
 * dot segment. */
static bool resolve_dots(struct reader *reader)
{
    struct slice segment =
        slice_make(reader->text + reader->segment, reader->len - reader->segment);
    if (slice_eq(segment, SLICE("."))) {
        reader->len = reader->segment;
        return true;
    }
    if (!slice_eq(segment, SLICE("..")))
        return false;
    reader->len = reader->segment;
    if (reader->len > 1) {
        reader->len--;
        while (reader->text[reader->len - 1] != '/')
            reader->len--;
    }
    return true;
}

/* Dots at the end of a segment, unless it is nothing else. */
static void drop_dots(struct reader *reader)
{
    size_t len = reader->len;
    while (len > reader->segment && reader->text[len - 1] == '.')
        len--;
    if (len > reader->segment)
        reader->len = len;
}

/* The segment ended; `separated`: by a separator, not by the end of the path. */
static void end_path_segment(struct reader *reader, bool separated)
{
    if (reader->reading & PATH_DROP)
        drop_dots(reader);
    bool empty = reader->len == reader->segment;
    bool resolved = reader->reading & PATH_DOTS && resolve_dots(reader);
    if (separated && !resolved && !(empty && reader->reading & PATH_MERGE))
        reader->text[reader->len++] = '/';
    reader->segment = reader->len;
    reader->parameters = false;
}

static bool byte_separates(unsigned reading, struct path_byte byte)
{
    if (byte.c == '/')
        return !byte.escaped || reading & PATH_SLASH_ESCAPE;
    return byte.c == '\\' && reading & PATH_BACKSLASH;
}

static bool is_dropped(unsigned reading, struct path_byte byte)
{
    if (byte.c == '\0')
        return reading & PATH_NUL_DROPS;
    return byte.escaped && reading & PATH_DROP && (ascii_is_control(byte.c) || byte.c == ' ');
}

static void read_byte(struct reader *reader, struct path_byte byte, const char *sent)
{
    if (byte_separates(reader->reading, byte)) {
        end_path_segment(reader, true);
        return;
    }
    if (byte.c == ';' && reader->reading & PATH_PARAMETERS)
        reader->parameters = true;
    if (reader->parameters || is_dropped(reader->reading, byte))
        return;
    memcpy(reader->text + reader->len, sent, byte.size);
    reader->len += byte.size;
}

size_t path_read(struct slice normalised, unsigned reading, char *ret_text)
{
    struct reader reader = {.reading = reading, .text = ret_text, .len = 1, .segment = 1};
    ret_text[0] = '/';
    size_t at = normalised.len > 0 && normalised.at[0] == '/';
    while (at < normalised.len) {
        struct path_byte byte = byte_at(normalised, at);
        if ((byte.c == '\0' && reading & PATH_NUL_ENDS) ||
            (is_end(byte) && reading & PATH_QUERY_ENDS))
            break;
        read_byte(&reader, byte, normalised.at + at);
        at += byte.size;
    }
    end_path_segment(&reader, false);
    if (reader.len > 1 && ret_text[reader.len - 1] == '/')
        reader.len--;
    return reader.len;
}
