/* SPDX-License-Identifier: Apache-2.0 */
/* Finding what names lead to, the time, and tokens. */
#include "store/postgres/postgres.h"

#define TOKENS 256 /* of a block: the increment of pawl.token */
/* Of a kept response that comes with its record; a larger one is asked for when it is wanted. */
#define OUTCOME_SMALL 16384

/* What stands before a row in the type pawl.loaded of the schema; behind it stand the columns of
 * columns.h. None is named in a load: that would be parsed in each batch. */
enum {
    AT_NAME,
    AT_BOUND,
    AT_BOUND_UNTIL,
    AT_ACKNOWLEDGES,
    AT_RECIPE,
    AT_PAYLOAD_HASH,
    AT_TARGET_HASH,
    AT_BY_HINT,
    AT_NAMED,
    AT_BEAT,
    AT_PACKED,
    AT_HEADERS,
    AT_BODY,
    AT_ROW,
};

/* ---- rows ---- */

/* None is 0. False: it is another number of bytes. */
static bool read_fixed(const PGresult *result, int row, int column, void *ret_bytes, size_t n)
{
    struct slice bytes = postgres_bytes(result, row, column);
    memset(ret_bytes, 0, n);
    if (bytes.len == n)
        memcpy(ret_bytes, bytes.at, n);
    return bytes.len == n || bytes.len == 0;
}

/* What its field cannot hold is odd. */
#define READ_INT(field)                                                                            \
    {                                                                                              \
        int64_t number = postgres_number(result, row, at++);                                       \
        (field) = (__typeof__(field))number;                                                       \
        fits = fits && (int64_t)(field) == number;                                                 \
    }
#define READ_BYTES(field) fits = read_fixed(result, row, at++, field, sizeof field) && fits;
#define READ_TEXT(field) field = postgres_bytes(result, row, at++);
#define READ(kind, column, field) READ_##kind(ret_row->field)

void postgres_read_row(struct postgres_backend *postgres, const PGresult *result, int row, int at,
                       struct store_row *ret_row)
{
    *ret_row = (struct store_row){.id = postgres_number(result, row, at)};
    ret_row->version = postgres_number(result, row, at + 1);
    bool fits = true;
    at += 2;
    POSTGRES_READ(READ)
    if (!fits || !backend_row_is_sound(ret_row))
        backend_hold_row(&postgres->backend, ret_row);
}

void postgres_judge(const struct postgres_backend *postgres, struct record *record, int64_t beat_at)
{
    static const struct backend_holder none;
    const struct backend_owner *self = &postgres->backend.self;
    struct backend_owner owner = {.incarnation = record->owner, .beat_at = beat_at};
    if (owner.incarnation == self->incarnation && owner.beat_at < self->beat_at)
        owner.beat_at = self->beat_at;
    if (record_holder(record) != 0)
        backend_judge_lease(record, &owner, &none, postgres->now);
}

struct backend_counts postgres_read_counts(const PGresult *result, int row, int at)
{
    struct backend_counts counts = {0};
#define READ_COUNT(field) counts.field = postgres_number(result, row, at++);
    POSTGRES_COUNTS(READ_COUNT)
#undef READ_COUNT
    return counts;
}

/* ---- names ---- */

/* Keys first, in order, then once values. */
static void add_hashes(struct postgres_backend *postgres, bool once)
{
    struct postgres_params *params = &postgres->params;
    postgres_array_begin(params, POSTGRES_BYTEA);
    for (size_t i = 0; i < postgres->n_names; i++)
        if (postgres->names[i].is_once == once)
            postgres_item_bytes(
                params, slice_make((const char *)postgres->names[i].hash.bytes, DIGEST_SIZE));
    postgres_array_end(params);
}

static void add_loaded_names(struct postgres_backend *postgres)
{
    struct postgres_params *params = &postgres->params;
    postgres_params_clear(params);
    add_hashes(postgres, false);
    postgres_array_begin(params, POSTGRES_INT8);
    for (size_t i = 0; i < postgres->n_names; i++)
        if (!postgres->names[i].is_once)
            postgres_item_number(params, postgres->names[i].hint);
    postgres_array_end(params);
    add_hashes(postgres, true);
    postgres_add_number(params, OUTCOME_SMALL);
}

static struct backend_bound *read_loaded_bound(const struct postgres_backend *postgres, int row,
                                               struct arena *arena)
{
    const PGresult *found = postgres->found;
    struct backend_bound *bound = arena_alloc(arena, sizeof *bound);
    if (!bound)
        return NULL;
    *bound = (struct backend_bound){
        .id = postgres_number(found, row, AT_BOUND),
        .expires_at = postgres_number(found, row, AT_BOUND_UNTIL),
        .acknowledges = postgres_number(found, row, AT_ACKNOWLEDGES) != 0,
        .recipe = postgres_bytes(found, row, AT_RECIPE),
        .holder = postgres_number(found, row, AT_ROW),
    };
    bool fits = read_fixed(found, row, AT_PAYLOAD_HASH, bound->payload_hash.bytes, DIGEST_SIZE) &&
                read_fixed(found, row, AT_TARGET_HASH, bound->target_hash.bytes, DIGEST_SIZE);
    if (!fits || bound->expires_at < 0)
        backend_hold_bound(bound);
    return bound;
}

static bool read_found(struct postgres_backend *postgres, int at, struct backend_name *name,
                       struct arena *arena)
{
    const PGresult *found = postgres->found;
    struct store_row *row = arena_alloc(arena, sizeof *row);
    if (!row)
        return false;
    postgres_read_row(postgres, found, at, AT_ROW, row);
    row->found_at = at + 1;
    postgres_judge(postgres, &row->record, postgres_number(found, at, AT_BEAT));
    bool by_hint = postgres_number(found, at, AT_BY_HINT) != 0;
    if (by_hint)
        name->hinted = row;
    if (!by_hint || postgres_number(found, at, AT_NAMED) != 0)
        name->row = row;
    if (postgres_number(found, at, AT_BOUND) == 0)
        return true;
    name->bound = read_loaded_bound(postgres, at, arena);
    if (name->bound)
        name->bound->key_hash = name->hash;
    return name->bound;
}

/* In the order in which they were asked for. */
static void order_names(struct backend_name *names, size_t n, struct backend_name **ret_ordered)
{
    size_t at = 0;
    for (int once = 0; once < 2; once++)
        for (size_t i = 0; i < n; i++)
            if (names[i].is_once == (once == 1))
                ret_ordered[at++] = &names[i];
}

static enum backend_status read_loaded_rows(struct postgres_backend *postgres,
                                            struct backend_name *names, size_t n,
                                            struct arena *arena)
{
    struct backend_name **ordered = arena_alloc(arena, (n + 1) * sizeof *ordered);
    if (!ordered)
        return BACKEND_NO_MEMORY;
    order_names(names, n, ordered);
    for (int at = 0; at < PQntuples(postgres->found); at++) {
        size_t name = (size_t)postgres_number(postgres->found, at, AT_NAME) - 1;
        if (name >= n)
            return postgres_distrust(postgres, BACKEND_AWAY);
        if (!read_found(postgres, at, ordered[name], arena))
            return BACKEND_NO_MEMORY;
    }
    return BACKEND_OK;
}

/* ---- the operation ---- */

#define COUNTED(field) +1
/* What pawl.draw returns: the time, a token, the counts, the terms, the removals. */
enum {
    AT_COUNTS = 2,
    AT_TERMS = AT_COUNTS POSTGRES_COUNTS(COUNTED),
    AT_REMOVALS = AT_TERMS + TERMS_COUNT
};

struct terms postgres_read_terms(const PGresult *result, int at)
{
    struct terms terms;
#define X(name) terms.name = postgres_number(result, 0, at++);
    TERMS(X)
#undef X
    return terms;
}

static enum backend_status read_drawn(struct postgres_backend *postgres, const PGresult *drawn,
                                      struct backend_read *ret_read)
{
    if (PQntuples(drawn) != 1 || postgres_number(drawn, 0, 1) < TOKENS)
        return postgres_distrust(postgres, BACKEND_AWAY);
    int64_t now = postgres_number(drawn, 0, 0);
    postgres->now = now > postgres->now ? now : postgres->now;
    postgres->version = postgres_number(drawn, 0, 1) - TOKENS + 1;
    if (postgres->highest < postgres_number(drawn, 0, 1))
        postgres->highest = postgres_number(drawn, 0, 1);
    postgres->counts = postgres_read_counts(drawn, 0, AT_COUNTS);
    ret_read->terms = postgres_read_terms(drawn, AT_TERMS);
    postgres->removals = postgres_number(drawn, 0, AT_REMOVALS);
    ret_read->now = postgres->now;
    ret_read->token = postgres->version;
    ret_read->n_tokens = TOKENS;
    ret_read->forgets = postgres->counts.forgets;
    return BACKEND_OK;
}

enum { AT_LOADED = 1 }; /* among the statements of a load: limits come first */

static enum backend_status send_load(struct postgres_backend *postgres)
{
    enum backend_status status = postgres_start(postgres);
    if (status != BACKEND_OK)
        return status;
    postgres_params_clear(&postgres->params);
    postgres_queue_call(postgres, CALL_reads);
    if (postgres->n_names > 0) {
        add_loaded_names(postgres);
        postgres_queue_call(postgres, CALL_load);
    }
    postgres_params_clear(&postgres->params);
    postgres_add_number(&postgres->params, postgres_test_time());
    postgres_add_bytes(&postgres->params, postgres_identity(postgres));
    postgres_queue_call(postgres, CALL_draw);
    postgres->mark.loaded = 0;
    if (postgres->must_commit)
        postgres_queue_see_mark(postgres);
    return postgres_finish(postgres);
}

enum backend_status postgres_load(struct backend *backend, struct backend_name *names, size_t n,
                                  struct arena *arena, struct backend_read *ret_read)
{
    struct postgres_backend *postgres = postgres_of(backend);
    postgres->names = names;
    postgres->n_names = n;
    PQclear(postgres->found);
    postgres->found = NULL;
    enum backend_status status = postgres_fence(postgres);
    if (status != BACKEND_OK)
        return status;
    for (size_t i = 0; i < n; i++) {
        names[i].row = names[i].hinted = NULL;
        names[i].bound = NULL;
    }
    ret_read->boot = clock_boot_us();
    status = send_load(postgres);
    if (postgres->failure.forgot) {
        ret_read->boot = clock_boot_us();
        status = send_load(postgres);
    }
    if (status != BACKEND_OK) {
        postgres_mark_saved(postgres, status);
        return status;
    }
    size_t found = AT_LOADED, drawn = found + (n > 0);
    if (postgres->must_commit)
        postgres->mark.loaded = postgres_number(postgres->results[drawn + 1], 0, 0);
    status = read_drawn(postgres, postgres->results[drawn], ret_read);
    if (n == 0 || status != BACKEND_OK)
        return status;
    postgres->found = postgres->results[found];
    postgres->results[found] = NULL;
    return read_loaded_rows(postgres, names, n, arena);
}

/* ---- kept responses ---- */

/* Whether the last load brought it along with the row. */
static bool has_small(const struct postgres_backend *postgres, const struct store_row *row)
{
    int at = row->found_at - 1;
    return at >= 0 && at < PQntuples(postgres->found) &&
           postgres_number(postgres->found, at, AT_ROW) == row->id &&
           postgres_number(postgres->found, at, AT_ROW + 1) == row->version &&
           !PQgetisnull(postgres->found, at, AT_HEADERS);
}

/* What is asked for, and where its three columns are. */
struct kept {
    const PGresult *result;
    int at;
    int column;
    const struct store_row *row;
    uint64_t most;
};

static enum backend_status read_outcome(const struct kept *kept, struct outcome **ret_outcome,
                                        uint64_t *ret_size)
{
    struct slice fields = postgres_bytes(kept->result, kept->at, kept->column + 1);
    struct slice body = postgres_bytes(kept->result, kept->at, kept->column + 2);
    bool packed = postgres_number(kept->result, kept->at, kept->column) != 0;
    size_t body_size = packed ? outcome_unpacked_size(body) : body.len;
    *ret_size = sizeof(struct outcome) + fields.len + body_size;
    if (*ret_size > kept->most)
        return BACKEND_OK;
    bool failed = kept->row->record.status == RECORD_FAILED;
    int status = kept->row->record.http_status;
    *ret_outcome = packed ? outcome_new_packed(status, failed, fields, body)
                          : outcome_new(status, failed, fields, body);
    return *ret_outcome ? BACKEND_OK : BACKEND_NO_MEMORY;
}

/* Of a record that has none: it has no status either, and is not replayed. */
static enum backend_status give_missing(const struct record *record, struct outcome **ret_outcome)
{
    struct slice none = {0};
    *ret_outcome = outcome_new(0, record->status == RECORD_FAILED, none, none);
    return *ret_outcome ? BACKEND_OK : BACKEND_NO_MEMORY;
}

enum backend_status postgres_outcome(struct backend *backend, const struct store_row *row,
                                     uint64_t most, struct outcome **ret_outcome,
                                     uint64_t *ret_size)
{
    struct postgres_backend *postgres = postgres_of(backend);
    *ret_outcome = NULL;
    *ret_size = 0;
    struct kept small = {postgres->found, row->found_at - 1, AT_PACKED, row, most};
    if (has_small(postgres, row))
        return read_outcome(&small, ret_outcome, ret_size);
    enum backend_status status = postgres_start(postgres);
    if (status != BACKEND_OK)
        return status;
    postgres_queue_limits(postgres, POSTGRES_READS);
    postgres_params_clear(&postgres->params);
    postgres_add_number(&postgres->params, row->id);
    postgres_add_number(&postgres->params, row->version);
    postgres_queue(postgres,
                   "SELECT c.packed, c.headers, c.body FROM pawl.record r"
                   " LEFT JOIN pawl.outcome c ON c.id = r.id WHERE r.id = $1 AND r.version = $2",
                   &postgres->params);
    status = postgres_finish(postgres);
    if (status != BACKEND_OK)
        return status;
    struct kept kept = {postgres->results[1], 0, 0, row, most};
    if (PQntuples(kept.result) == 0)
        return BACKEND_BUSY;
    bool is_missing = PQgetisnull(kept.result, 0, 0);
    if (!is_missing && PQgetisnull(kept.result, 0, 1))
        return BACKEND_OK;
    return is_missing ? give_missing(&row->record, ret_outcome)
                      : read_outcome(&kept, ret_outcome, ret_size);
}
