/* SPDX-License-Identifier: Apache-2.0 */
/* Whether an operation was added a short while ago under another key. Row ids are store time, so
 * only what was added within the window is read. */
#include "base/compress.h"
#include "client/fields.h"
#include "client/operation.h"
#include "client/queue.h"
#include "client/request.h"
#include "store/find.h"

#define TIMEOUT_US (30 * CLOCK_US_PER_S) /* for one operation of the store */
#define ARENA_MAX (CLIENT_BODY_MAX * 42) /* client_name_record, and a page of rows */
#define PAGE_ROWS ((size_t)64)

struct hashes {
    struct digest payload;
    struct digest target;
};

/* As the record of an operation has them. */
static bool hash(const struct queue_operation *operation, struct arena *arena,
                 struct hashes *ret_hashes)
{
    struct headers *headers = arena_alloc(arena, sizeof *headers);
    struct attempt *attempt = arena_alloc(arena, sizeof *attempt);
    struct client_operation made = {
        .method = operation->method, .headers = headers, .body = operation->body};
    const char *problem;
    if (!headers || !attempt || !client_fields_split(operation->fields, headers) ||
        !url_read(operation->url, &made.url, &problem) ||
        !client_name_record(&made, arena, attempt))
        return false;
    *ret_hashes = (struct hashes){attempt->begin.payload_hash, attempt->begin.target_hash};
    return true;
}

static bool read_operation(const struct store_request *request, struct arena *arena,
                           struct queue_operation *ret_operation)
{
    COMPRESS_AUTO struct compress compress = {0};
    BUF_AUTO struct buf body = buf_make(SIZE_MAX);
    *ret_operation = (struct queue_operation){.method = request->method,
                                              .url = request->url,
                                              .fields = request->fields,
                                              .body = request->body};
    if (!request->packed)
        return true;
    if (!compress_unpack(&compress, request->body, CLIENT_BODY_MAX, &body))
        return false;
    ret_operation->body = arena_copy(arena, buf_slice(&body));
    return ret_operation->body.at;
}

/* A look for one operation. */
struct look {
    struct store *store;
    struct parker *parker;
    const struct queue_operation *operation;
    struct hashes wanted;
    int64_t since; /* store time */
};

static enum store_status find(const struct look *look, const struct table_query *query,
                              struct arena *arena, struct store_found *ret_found)
{
    *ret_found = (struct store_found){.arena = arena};
    return store_find_rows(look->store, query, look->parker,
                           clock_after(clock_boot_us(), TIMEOUT_US), ret_found);
}

static enum store_status compare(const struct look *look, const struct store_task *task,
                                 struct arena *arena, bool *ret_same)
{
    struct table_query query = {.table = &request_table, .after = task->row.id - 1, .limit = 1};
    struct store_found found;
    struct queue_operation operation;
    struct hashes hashes;
    enum store_status status = find(look, &query, arena, &found);
    *ret_same = false;
    if (status != STORE_DONE || found.n == 0 || found.rows[0]->id != task->row.id)
        return status;
    if (!read_operation((const struct store_request *)found.rows[0], arena, &operation) ||
        !hash(&operation, arena, &hashes))
        return STORE_NO_MEMORY;
    *ret_same = digest_eq(&hashes.payload, &look->wanted.payload) &&
                digest_eq(&hashes.target, &look->wanted.target);
    return STORE_DONE;
}

static bool is_candidate(const struct look *look, const struct store_task *task)
{
    return slice_eq(task->kind, SLICE(QUEUE_KIND)) && task->task.created_at >= look->since &&
           task->task.state != TASK_DROPPED && !slice_eq(task->key, look->operation->key);
}

/* One page behind `*after`, which moves on; 0: the end was reached, or it is found. */
static enum store_status look_at_page(const struct look *look, int64_t *after, int64_t *ret_id)
{
    struct arena arena = arena_make(ARENA_MAX);
    struct table_query query = {.table = &task_table, .after = *after, .limit = PAGE_ROWS};
    struct store_found found;
    enum store_status status = find(look, &query, &arena, &found);
    for (size_t i = 0; status == STORE_DONE && *ret_id == 0 && i < found.n; i++) {
        const struct store_task *task = (const struct store_task *)found.rows[i];
        bool same = false;
        if (is_candidate(look, task))
            status = compare(look, task, &arena, &same);
        *ret_id = same ? task->row.id : 0;
    }
    *after = found.n == PAGE_ROWS && *ret_id == 0 ? found.rows[found.n - 1]->id : 0;
    arena_fini(&arena);
    return status;
}

enum store_status queue_find_same(struct store *store, const struct queue_operation *operation,
                                  int64_t window_us, struct parker *parker, int64_t *ret_id)
{
    struct arena arena = arena_make(ARENA_MAX);
    int64_t now = store_now(store);
    struct look look = {.store = store,
                        .parker = parker,
                        .operation = operation,
                        .since = now > window_us ? now - window_us : 1};
    struct queue_operation wanted = *operation;
    int64_t after = look.since - 1;
    if (wanted.method.len == 0)
        wanted.method = wanted.has_body ? SLICE("POST") : SLICE("GET");
    *ret_id = 0;
    enum store_status status = hash(&wanted, &arena, &look.wanted) ? STORE_DONE : STORE_NO_MEMORY;
    arena_fini(&arena);
    do
        status = status == STORE_DONE ? look_at_page(&look, &after, ret_id) : status;
    while (status == STORE_DONE && after != 0);
    return status;
}
