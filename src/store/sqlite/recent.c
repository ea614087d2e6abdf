/* SPDX-License-Identifier: Apache-2.0 */
/* Claims as this process wrote them: what comes next of one is nearly always its end, and that need
 * not read the row again. They are what the file says as long as nobody else writes it. */
#include "base/mem.h"
#include "store/sqlite/sqlite.h"

struct sqlite_recent {
    struct store_row row;
    size_t size; /* of `texts` */
    char texts[];
};

/* Where the texts of a row of pawl_pending are. */
#define OFFSET_INT(field)
#define OFFSET_LEASE(field)
#define OFFSET_BYTES(field)
#define OFFSET_TEXT(field) offsetof(struct store_row, field),
#define OFFSET_RARE(field) OFFSET_TEXT(field)
#define OFFSET(kind, column, field) OFFSET_##kind(field)
static const size_t offsets[] = {SQLITE_IDENTITY(OFFSET) SQLITE_CLAIM(OFFSET)
                                     offsetof(struct store_row, once)};
#define N_TEXTS (sizeof offsets / sizeof *offsets)

static struct slice *text_of_row(struct store_row *row, size_t i)
{
    return (struct slice *)((char *)row + offsets[i]);
}

/* To where their bytes are from now on; NULL: they stay. How many they are. */
static size_t move_texts(struct store_row *row, char *to)
{
    size_t size = 0;
    for (size_t i = 0; i < N_TEXTS; i++) {
        struct slice *text = text_of_row(row, i);
        if (to && text->len > 0)
            text->at = memcpy(to + size, text->at, text->len);
        else if (to)
            text->at = NULL;
        size += text->len;
    }
    return size;
}

static struct sqlite_recent **slot_of_id(struct sqlite_backend *sqlite, int64_t id)
{
    return &sqlite->recent[(uint64_t)id % SQLITE_RECENT];
}

void sqlite_recent_add(struct sqlite_backend *sqlite, const struct store_row *row)
{
    struct sqlite_recent **slot = slot_of_id(sqlite, row->id);
    struct store_row copy = *row;
    if (sqlite->is_foreign)
        return; /* an application may roll back unseen */
    size_t size = move_texts(&copy, NULL);
    mem_free(*slot);
    *slot = mem_alloc(sizeof **slot + size);
    if (!*slot)
        return;
    (*slot)->row = copy;
    (*slot)->size = size;
    move_texts(&(*slot)->row, (*slot)->texts);
}

bool sqlite_recent_find(struct sqlite_backend *sqlite, int64_t id, struct arena *texts,
                        struct store_row *ret_row)
{
    const struct sqlite_recent *recent = *slot_of_id(sqlite, id);
    char *at = recent && recent->row.id == id ? arena_alloc(texts, recent->size) : NULL;
    if (!at)
        return false;
    *ret_row = recent->row;
    move_texts(ret_row, at);
    return true;
}

void sqlite_recent_drop(struct sqlite_backend *sqlite, int64_t id)
{
    struct sqlite_recent **slot = slot_of_id(sqlite, id);
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

/* Changes with every commit, of whichever process. */
static unsigned recent_data_version(const struct sqlite_backend *sqlite)
{
    unsigned version = 0;
    sqlite3_file_control(sqlite->db, "main", SQLITE_FCNTL_DATA_VERSION, &version);
    return version;
}

void sqlite_recent_begin(struct sqlite_backend *sqlite)
{
    if (recent_data_version(sqlite) != sqlite->recent_version)
        sqlite_recent_clear(sqlite);
}

void sqlite_recent_committed(struct sqlite_backend *sqlite)
{
    sqlite->recent_version = recent_data_version(sqlite);
}
