/* SPDX-License-Identifier: Apache-2.0 */
/* Claims as this process wrote them: what comes next of one is nearly always its end, and that need
 * not read the row again. They are what the file says as long as nobody else writes it. */
#include "base/mem.h"
#include "store/sqlite/sqlite.h"

struct sqlite_recent {
    struct store_row row;
    size_t size; /* of its texts: */
    char texts[];
};

static void measure(size_t *size, const struct slice *text)
{
    *size += text->len;
}

static void move(char **to, struct slice *text)
{
    if (text->len > 0)
        memcpy(*to, text->at, text->len);
    *text = text->len > 0 ? slice_make(*to, text->len) : (struct slice){0};
    *to += text->len;
}

/* The texts that stand in pawl_pending. */
#define TEXT_INT(call, field)
#define TEXT_BYTES(call, field)
#define TEXT_TEXT(call, field) call(to, &row->field);
#define TEXT_RARE(call, field) TEXT_TEXT(call, field)
#define MEASURE(kind, column, field) TEXT_##kind(measure, field)
#define MOVE(kind, column, field) TEXT_##kind(move, field)

static size_t size_of_texts(const struct store_row *row)
{
    size_t size = 0, *to = &size;
    SQLITE_IDENTITY(MEASURE)
    SQLITE_CLAIM(MEASURE)
    measure(to, &row->once);
    return size;
}

static void move_texts(struct store_row *row, char *at)
{
    char **to = &at;
    SQLITE_IDENTITY(MOVE)
    SQLITE_CLAIM(MOVE)
    move(to, &row->once);
}

static struct sqlite_recent **place(struct sqlite_backend *sqlite, int64_t id)
{
    return &sqlite->recent[(uint64_t)id % SQLITE_RECENT];
}

void sqlite_recent_add(struct sqlite_backend *sqlite, const struct store_row *row)
{
    struct sqlite_recent **slot = place(sqlite, row->id);
    size_t size = size_of_texts(row);
    mem_free(*slot);
    *slot = mem_alloc(sizeof **slot + size);
    if (!*slot)
        return;
    (*slot)->row = *row;
    (*slot)->size = size;
    move_texts(&(*slot)->row, (*slot)->texts);
}

bool sqlite_recent_find(struct sqlite_backend *sqlite, int64_t id, struct arena *texts,
                        struct store_row *ret_row)
{
    const struct sqlite_recent *recent = *place(sqlite, id);
    char *at = recent && recent->row.id == id ? arena_alloc(texts, recent->size) : NULL;
    if (!at)
        return false;
    *ret_row = recent->row;
    move_texts(ret_row, at);
    return true;
}

void sqlite_recent_drop(struct sqlite_backend *sqlite, int64_t id)
{
    struct sqlite_recent **slot = place(sqlite, id);
    if (!*slot || (*slot)->row.id != id)
        return;
    mem_free(*slot);
    *slot = NULL;
}

void sqlite_recent_clear(struct sqlite_backend *sqlite)
{
    for (size_t i = 0; i < SQLITE_RECENT; i++)
        mem_free(sqlite->recent[i]);
    memset(sqlite->recent, 0, sizeof sqlite->recent);
}

/* Moves with every commit, whoever's it is. */
static unsigned version_of(const struct sqlite_backend *sqlite)
{
    unsigned version = 0;
    sqlite3_file_control(sqlite->db, "main", SQLITE_FCNTL_DATA_VERSION, &version);
    return version;
}

void sqlite_recent_begin(struct sqlite_backend *sqlite)
{
    if (version_of(sqlite) != sqlite->recent_version)
        sqlite_recent_clear(sqlite);
}

void sqlite_recent_committed(struct sqlite_backend *sqlite)
{
    sqlite->recent_version = version_of(sqlite);
}
