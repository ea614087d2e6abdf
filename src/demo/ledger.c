/* SPDX-License-Identifier: Apache-2.0 */
#include "demo/ledger.h"

#include "base/check.h"
#include "base/json/json.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_MAX_LEN ((size_t)64 * 1024)

static const struct kind {
    struct slice name;
    struct slice prefix;
    const char *subject;
} kinds[LEDGER_KIND_COUNT] = {
#define X(name, text, prefix, subject)                                                             \
    {{text, sizeof text - 1}, {prefix, sizeof prefix - 1}, subject},
    LEDGER_KINDS(X)
#undef X
};

struct ledger {
    int fd;
    off_t size; /* of the whole lines in the file */
    bool torn;  /* part of a line follows them and could not be removed */
    struct ledger_entry *first;
    struct ledger_entry *last;
    size_t n;
    uint64_t numbers[LEDGER_KIND_COUNT]; /* the last one given out */
};

struct slice ledger_subject(enum ledger_kind kind)
{
    CHECK(kind < LEDGER_KIND_COUNT);
    return slice_of(kinds[kind].subject);
}

/* ---- ids ---- */

void ledger_add_id(struct buf *buf, enum ledger_kind kind, uint64_t number)
{
    CHECK(kind < LEDGER_KIND_COUNT);
    buf_add_slice(buf, kinds[kind].prefix);
    buf_printf(buf, "%06" PRIu64, number);
}

bool ledger_read_id(enum ledger_kind kind, struct slice id, uint64_t *ret_number)
{
    struct slice prefix = kinds[kind].prefix;
    return slice_starts(id, prefix) && id.len >= prefix.len + 6 &&
           slice_to_u64(slice_skip(id, prefix.len), UINT64_MAX / 2, ret_number);
}

/* ---- entries in memory ---- */

/* The entry, its line and its key are one allocation. NULL: out of memory, or the ledger is full.
 */
static struct ledger_entry *ledger_entry_new(const struct ledger *ledger,
                                             const struct ledger_entry *from)
{
    struct ledger_entry *entry = ledger->n < LEDGER_ENTRIES_MAX
                                     ? mem_alloc(sizeof *entry + from->line.len + from->key.len)
                                     : NULL;
    if (!entry)
        return NULL;
    char *text = (char *)(entry + 1);
    *entry = *from;
    memcpy(text, from->line.at, from->line.len);
    entry->line.at = text;
    if (from->key.at) {
        entry->key.at = text + from->line.len;
        memcpy(text + from->line.len, from->key.at, from->key.len);
    }
    return entry;
}

static void enter_entry(struct ledger *ledger, struct ledger_entry *entry)
{
    CHECK(!ledger->first == !ledger->last && ledger->n < LEDGER_ENTRIES_MAX);
    *(ledger->last ? &ledger->last->next : &ledger->first) = entry;
    ledger->last = entry;
    ledger->n++;
    if (entry->number > ledger->numbers[entry->kind])
        ledger->numbers[entry->kind] = entry->number;
}

/* ---- reading the file ---- */

static bool read_kind(const struct json *root, enum ledger_kind *ret_kind)
{
    const struct json *kind = json_at_as(root, SLICE("/kind"), JSON_STRING);
    for (int i = 0; kind && i < (int)LEDGER_KIND_COUNT; i++) {
        if (slice_eq(kind->text, kinds[i].name)) {
            *ret_kind = (enum ledger_kind)i;
            return true;
        }
    }
    return false;
}

/* What lookups use is checked; the rest of the line is passed on as it is. */
static bool read_line(struct slice line, struct arena *arena, struct ledger_entry *ret_entry)
{
    struct json *root;
    if (json_parse(arena, line, &root, NULL) != JSON_OK)
        return false;
    struct ledger_entry entry = {.line = line};
    const struct json *id = json_at_as(root, SLICE("/id"), JSON_STRING);
    const struct json *key = json_at(root, SLICE("/key"));
    if (!id || !key || !read_kind(root, &entry.kind) ||
        !ledger_read_id(entry.kind, id->text, &entry.number))
        return false;
    if (key->type == JSON_STRING)
        entry.key = slice_make(key->text.at ? key->text.at : "", key->text.len);
    else if (key->type != JSON_NULL)
        return false;
    *ret_entry = entry;
    return true;
}

static bool take_ledger_line(struct ledger *ledger, struct slice line)
{
    ARENA_AUTO struct arena arena = arena_make(4 * LINE_MAX_LEN);
    struct ledger_entry read;
    struct ledger_entry *entry =
        read_line(line, &arena, &read) ? ledger_entry_new(ledger, &read) : NULL;
    if (entry)
        enter_entry(ledger, entry);
    return entry;
}

static bool read_ledger_bytes(int fd, size_t size, struct buf *bytes)
{
    char *at = buf_room(bytes, size);
    while (at && bytes->len < size) {
        ssize_t got = pread(fd, at + bytes->len, size - bytes->len, (off_t)bytes->len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        buf_added(bytes, (size_t)got);
    }
    return at;
}

static bool read_entries(struct ledger *ledger, size_t size, struct buf *problem)
{
    BUF_AUTO struct buf bytes = buf_make(LEDGER_FILE_MAX);
    if (!read_ledger_bytes(ledger->fd, size, &bytes)) {
        buf_add_str(problem, "cannot be read");
        return false;
    }
    struct slice rest = buf_slice(&bytes);
    for (size_t n = 1; slice_find(rest, '\n') >= 0; n++) {
        struct slice line;
        rest = slice_cut(rest, '\n', &line);
        if (!take_ledger_line(ledger, line)) {
            buf_printf(problem, "line %zu is not an entry of a ledger, or out of memory", n);
            return false;
        }
    }
    ledger->size = (off_t)(bytes.len - rest.len);
    if (rest.len > 0 && ftruncate(ledger->fd, ledger->size) != 0) {
        buf_add_str(problem, "its unfinished last line cannot be removed");
        return false;
    }
    return true;
}

static bool open_ledger_file(struct ledger *ledger, const char *path, size_t *ret_size,
                             struct buf *problem)
{
    struct stat stat;
    ledger->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (ledger->fd < 0) {
        buf_add_str(problem, strerror(errno));
        return false;
    }
    if (flock(ledger->fd, LOCK_EX | LOCK_NB) != 0) {
        buf_add_str(problem, "another process holds it");
        return false;
    }
    if (fstat(ledger->fd, &stat) != 0 || !S_ISREG(stat.st_mode) ||
        stat.st_size > (off_t)LEDGER_FILE_MAX) {
        buf_add_str(problem, "not a regular file, or too large");
        return false;
    }
    *ret_size = (size_t)stat.st_size;
    return true;
}

struct ledger *ledger_open(const char *path, struct buf *problem)
{
    size_t size = 0;
    struct ledger *ledger = mem_zalloc(1, sizeof *ledger);
    if (!ledger) {
        buf_add_str(problem, "out of memory");
        return NULL;
    }
    if (!open_ledger_file(ledger, path, &size, problem) || !read_entries(ledger, size, problem)) {
        ledger_close(ledger);
        return NULL;
    }
    return ledger;
}

void ledger_close(struct ledger *ledger)
{
    if (!ledger)
        return;
    if (ledger->fd >= 0)
        close(ledger->fd);
    for (struct ledger_entry *entry = ledger->first, *next; entry; entry = next) {
        next = entry->next;
        mem_free(entry);
    }
    mem_free(ledger);
}

/* ---- appending ---- */

static void write_json(struct buf *buf, const struct ledger_order *order, uint64_t number)
{
    buf_add_str(buf, "{\"id\":\"");
    ledger_add_id(buf, order->kind, number);
    buf_add_char(buf, '"');
    json_add_text(buf, "kind", kinds[order->kind].name);
    if (order->key.at)
        json_add_text(buf, "key", order->key);
    else
        json_add_null(buf, "key");
    json_add_text(buf, kinds[order->kind].subject + 1, order->subject);
    json_add_i64(buf, "amount", (int64_t)order->amount);
    json_add_time(buf, "at", order->at_us);
    buf_add_str(buf, "}\n");
}

/* All of the line or nothing. */
static bool write_ledger_line(struct ledger *ledger, struct slice line)
{
    CHECK(line.len > 0 && line.at[line.len - 1] == '\n');
    if (ledger->torn || (size_t)ledger->size + line.len > LEDGER_FILE_MAX)
        return false;
    ssize_t wrote = write(ledger->fd, line.at, line.len);
    if (wrote == (ssize_t)line.len) {
        ledger->size += wrote;
        return true;
    }
    if (wrote > 0 && ftruncate(ledger->fd, ledger->size) != 0)
        ledger->torn = true;
    return false;
}

const struct ledger_entry *ledger_append(struct ledger *ledger, const struct ledger_order *order)
{
    CHECK(order->subject.len > 0 && order->amount > 0 && order->amount <= LEDGER_AMOUNT_MAX);
    BUF_AUTO struct buf line = buf_make(LINE_MAX_LEN);
    struct ledger_entry made = {
        .kind = order->kind, .number = ledger->numbers[order->kind] + 1, .key = order->key};
    write_json(&line, order, made.number);
    if (!buf_ok(&line))
        return NULL;
    made.line = slice_make(line.at, line.len - 1);
    struct ledger_entry *entry = ledger_entry_new(ledger, &made);
    if (!entry || !write_ledger_line(ledger, buf_slice(&line))) {
        mem_free(entry);
        return NULL;
    }
    enter_entry(ledger, entry);
    return entry;
}

bool ledger_sync(const struct ledger *ledger)
{
    return fsync(ledger->fd) == 0;
}

/* ---- looking ---- */

const struct ledger_entry *ledger_by_key(const struct ledger *ledger, enum ledger_kind kind,
                                         struct slice key)
{
    const struct ledger_entry *entry = ledger->first;
    while (entry && !(entry->kind == kind && entry->key.at && slice_eq(entry->key, key)))
        entry = entry->next;
    return entry;
}

const struct ledger_entry *ledger_by_number(const struct ledger *ledger, enum ledger_kind kind,
                                            uint64_t number)
{
    const struct ledger_entry *entry = ledger->first;
    while (entry && !(entry->kind == kind && entry->number == number))
        entry = entry->next;
    return entry;
}

const struct ledger_entry *ledger_first(const struct ledger *ledger)
{
    return ledger->first;
}
