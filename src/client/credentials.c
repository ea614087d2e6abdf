/* SPDX-License-Identifier: Apache-2.0 */
#include "client/credentials.h"

#include "base/check.h"
#include "base/mem.h"
#include "client/fields.h"
#include "client/queue.h"
#include "store/rows.h"
#include <assert.h>
#include <sys/stat.h>

#define ARENA_MAX ((size_t)64 * 1024 * 1024)
#define PAGE ((size_t)64) /* rows of one commit */

static_assert(CREDENTIALS_LEAST_US <= CREDENTIALS_MOST_US, "a wait grows");
static_assert(PAGE <= TABLE_BRINGS_MAX, "a page is woken in one commit");

struct refused {
    struct refused *next;
    struct slice lane; /* behind the struct, as are its fields */
    struct slice fields;
    uint64_t stamp;
    int64_t until; /* boot time */
    int64_t delay_us;
    bool is_tried; /* an attempt is under way */
    int status;
};

struct credentials {
    struct refused *refused;
    bool is_accepted; /* one was, since the last look */
};

struct credentials *credentials_new(void)
{
    return mem_zalloc(1, sizeof(struct credentials));
}

void credentials_free(struct credentials *credentials)
{
    for (struct refused *at = credentials ? credentials->refused : NULL, *next; at; at = next) {
        next = at->next;
        mem_free(at);
    }
    mem_free(credentials);
}

/* ---- sets ---- */

static uint64_t stamp_of_file(struct slice path)
{
    BUF_AUTO struct buf name = buf_make(SIZE_MAX);
    struct stat about;
    buf_add_slice(&name, path);
    buf_add_char(&name, '\0');
    if (!buf_ok(&name) || stat(name.at, &about) != 0)
        return 1;
    return (uint64_t)about.st_mtim.tv_sec * 1000000007U ^ (uint64_t)about.st_mtim.tv_nsec << 20 ^
           (uint64_t)about.st_size << 50 ^ (uint64_t)about.st_ino;
}

uint64_t credentials_stamp(struct slice fields)
{
    struct headers lines;
    uint64_t stamp = 0;
    if (!client_fields_split(fields, &lines))
        return 0;
    for (size_t i = 0; i < lines.n; i++)
        if (slice_eq(lines.at[i].name, SLICE("@")))
            stamp = stamp * 31 + stamp_of_file(lines.at[i].value);
    return stamp;
}

/* Where it is; `*` of it NULL: it is not refused. */
static struct refused **find_refused(struct credentials *credentials,
                                     const struct credentials_set *set)
{
    struct refused **at = &credentials->refused;
    while (*at && !(slice_eq((*at)->lane, set->lane) && slice_eq((*at)->fields, set->fields)))
        at = &(*at)->next;
    return at;
}

static void forget_refused(struct credentials *credentials, struct refused **at)
{
    struct refused *refused = *at;
    *at = refused->next;
    credentials->is_accepted = true;
    mem_free(refused);
}

static struct refused *make_refused(const struct credentials_set *set)
{
    struct refused *made = mem_zalloc(1, sizeof *made + set->lane.len + set->fields.len + 1);
    if (!made)
        return NULL;
    char *text = (char *)(made + 1);
    memcpy(text, set->lane.at, set->lane.len);
    if (set->fields.len > 0)
        memcpy(text + set->lane.len, set->fields.at, set->fields.len);
    made->lane = slice_make(text, set->lane.len);
    made->fields = slice_make(text + set->lane.len, set->fields.len);
    return made;
}

int64_t credentials_wait_us(struct credentials *credentials, const struct credentials_set *set,
                            bool *ret_tries)
{
    struct refused **at = find_refused(credentials, set), *refused = *at;
    int64_t now = clock_boot_us();
    *ret_tries = false;
    if (!refused)
        return 0;
    if (refused->stamp != set->stamp) {
        forget_refused(credentials, at);
        return 0;
    }
    if (refused->is_tried || now < refused->until)
        return CREDENTIALS_MOST_US; /* until the one that tries wakes it */
    refused->is_tried = *ret_tries = true;
    return 0;
}

int64_t credentials_refuse(struct credentials *credentials, const struct credentials_set *set,
                           int status)
{
    struct refused **at = find_refused(credentials, set), *refused = *at;
    if (!refused)
        refused = *at = make_refused(set);
    if (!refused)
        return CREDENTIALS_MOST_US;
    if (refused->delay_us == 0)
        refused->delay_us = CREDENTIALS_LEAST_US;
    else if (refused->is_tried)
        refused->delay_us = clock_first(2 * refused->delay_us, CREDENTIALS_MOST_US);
    CHECK(refused->delay_us >= CREDENTIALS_LEAST_US && refused->delay_us <= CREDENTIALS_MOST_US);
    refused->until = clock_after(clock_boot_us(), refused->delay_us);
    refused->stamp = set->stamp;
    refused->status = status;
    refused->is_tried = false;
    return refused->delay_us;
}

void credentials_accept(struct credentials *credentials, const struct credentials_set *set)
{
    struct refused **at = find_refused(credentials, set);
    if (*at)
        forget_refused(credentials, at);
}

void credentials_give_back(struct credentials *credentials, const struct credentials_set *set)
{
    struct refused *refused = *find_refused(credentials, set);
    if (refused)
        refused->is_tried = false;
}

bool credentials_look(struct credentials *credentials)
{
    for (struct refused **at = &credentials->refused; *at;) {
        if (!(*at)->is_tried && credentials_stamp((*at)->fields) != (*at)->stamp)
            forget_refused(credentials, at);
        else
            at = &(*at)->next;
    }
    bool is_accepted = credentials->is_accepted;
    credentials->is_accepted = false;
    return is_accepted;
}

bool credentials_any(const struct credentials *credentials)
{
    return credentials->refused;
}

void credentials_describe(const struct credentials *credentials, struct buf *lines)
{
    static const struct slice others[] = {
        {"Content-Type", 12}, {"If-Match", 8}, {"Accept", 6}, {"User-Agent", 10}};
    for (const struct refused *one = credentials->refused; one; one = one->next) {
        struct headers headers;
        const char *between = "";
        if (!client_fields_split(one->fields, &headers))
            headers_clear(&headers);
        buf_printf(lines, "%.*s refuses who sends (%d); renew ", SLICE_ARG(one->lane), one->status);
        for (size_t i = 0; i < headers.n; i++) {
            bool is_file = slice_eq(headers.at[i].name, SLICE("@"));
            if (HEADERS_AMONG(headers.at[i].name, others))
                continue;
            buf_printf(lines, "%s%s%.*s", between, is_file ? "" : "the header ",
                       SLICE_ARG(is_file ? headers.at[i].value : headers.at[i].name));
            between = ", or ";
        }
        buf_add_str(lines, *between ? "\n" : "the credentials: none are sent\n");
    }
}

/* ---- waking ---- */

/* Those of the page that wait for credentials. */
static void put_woken(const struct store_found *found, struct rows *rows)
{
    rows->n = 0;
    for (size_t i = 0; i < found->n; i++) {
        struct store_task *stored = (struct store_task *)found->rows[i];
        if (store_task_reason(stored) != TASK_REASON_CREDENTIALS ||
            !task_wake(&stored->task, found->now))
            continue;
        store_task_derive(stored);
        rows_put(rows, TABLE_UPDATE, &task_table, &stored->row, NULL);
    }
}

/* Together; where another one changed one of them, one by one: that one is awake. */
static enum store_status save_page(const struct rows *rows)
{
    struct rows one = *rows;
    enum store_status status = rows_save(&one);
    one.n = 1;
    for (size_t i = 0; i < rows->n && status == STORE_CONFLICT; i++) {
        one.changes = &rows->changes[i];
        enum store_status saved = rows_save(&one);
        status = saved == STORE_DONE ? STORE_CONFLICT : saved;
    }
    return status == STORE_CONFLICT ? STORE_DONE : status;
}

enum store_status credentials_wake(struct store *store, struct parker *parker)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct store_task like = {.kind = SLICE(QUEUE_KIND), .task = {.state = TASK_WAITING}};
    struct table_query query = {.table = &task_table,
                                .by = TABLE_BY_INDEX,
                                .index = &task_indexes[TASK_BY_STATE],
                                .prefix = 2,
                                .like = &like.row,
                                .behind = &like.row,
                                .is_sound_only = true,
                                .limit = PAGE};
    enum store_status status;
    struct store_found found;
    struct table_change changes[PAGE];
    struct rows rows = {
        .store = store, .parker = parker, .arena = &arena, .changes = changes, .most = PAGE};
    do {
        arena_reset(&arena);
        status = rows_find(&rows, &query, &found);
        if (status != STORE_DONE)
            return status;
        like.row.id = found.n > 0 ? found.rows[found.n - 1]->id : 0;
        put_woken(&found, &rows);
        status = save_page(&rows);
    } while (status == STORE_DONE && found.n == PAGE);
    return status;
}
