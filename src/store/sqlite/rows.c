/* SPDX-License-Identifier: Apache-2.0 */
/* One record: its row in pawl_pending or pawl_outcome. */
#include "base/check.h"
#include "store/sqlite/sqlite.h"

/* ---- columns and fields (sqlite_columns.h) ---- */

#define BIND_INT(binding, value) sqlite_bind_number(binding, (int64_t)(value))
#define BIND_BYTES(binding, value)                                                                 \
    sqlite_bind_bytes(binding, slice_make((const char *)(value), sizeof value))
#define BIND_TEXT(binding, value) sqlite_bind_text(binding, value)
#define BIND_LEASE(binding, value) bind_lease(binding, value)
#define BIND_RARE(binding, value) bind_rare(binding, value)
#define BIND(kind, column, field) BIND_##kind(binding, row->field);

static void bind_rare(struct sqlite_binding *binding, struct slice text)
{
    if (text.len > 0)
        sqlite_bind_text(binding, text);
    else
        sqlite_bind_null(binding);
}

static void bind_identity(struct sqlite_binding *binding, const struct store_row *row)
{
    SQLITE_IDENTITY(BIND)
}

static void bind_final_once(struct sqlite_binding *binding, const struct store_row *row)
{
    sqlite_bind_text(binding, row->once);
    SQLITE_FINAL_ONCE(BIND)
}

/* Where nothing refuses a COMMIT under a lease, none is left that a later transaction would be
 * refused for, or that it would set off against one of its own (foreign.c). */
static void bind_lease(struct sqlite_binding *binding, int64_t lease_until)
{
    bool unguarded = binding->sqlite->is_unguarded && lease_until != 0;
    sqlite_bind_number(binding, unguarded ? SQLITE_LEASE_UNGUARDED : lease_until);
}

static void bind_claim_once(struct sqlite_binding *binding, const struct store_row *row)
{
    SQLITE_CLAIM_ONCE(BIND)
}

/* What PENDING_INSERT and PENDING_UPDATE have in common. */
static void bind_claim(struct sqlite_binding *binding, const struct store_row *row)
{
    sqlite_bind_number(binding, row->record.status);
    if (record_is_released(&row->record))
        sqlite_bind_number(binding, row->record.expires_at);
    else
        sqlite_bind_null(binding);
    SQLITE_CLAIM(BIND)
    if (!binding->sqlite->is_foreign) {
        SQLITE_CLAIM_OF_RULE(BIND)
    }
}

/* A row that is being read, column by column. */
struct columns {
    const struct sqlite_backend *sqlite;
    struct arena *texts;
    sqlite3_stmt *statement;
    int at;
    bool ok;
    bool lacks_memory;
};

/* Whatever is no number is read as one: 0, if it does not begin with a digit. */
static int64_t read_int64(struct columns *columns)
{
    int at = columns->at++;
    int64_t number = sqlite3_column_int64(columns->statement, at);
    if (number == 0)
        columns->ok &= sqlite3_column_type(columns->statement, at) == SQLITE_INTEGER;
    return number;
}

static void read_row_bytes(struct columns *columns, void *ret_bytes, size_t n)
{
    struct slice bytes = sqlite_column_bytes(columns->statement, columns->at++);
    bool fits = bytes.len == n;
    columns->ok &= fits;
    if (fits)
        memcpy(ret_bytes, bytes.at, n);
}

static struct slice read_slice(struct columns *columns)
{
    struct slice text = sqlite_column_text(columns->sqlite, columns->statement, columns->at++);
    if (text.len == 0)
        return (struct slice){0};
    text = arena_copy(columns->texts, text);
    columns->lacks_memory |= !text.at;
    return text;
}

/* What its field cannot hold is odd, too. */
#define READ_INT(columns, ret)                                                                     \
    {                                                                                              \
        int64_t number = read_int64(columns);                                                      \
        (ret) = (__typeof__(ret))number;                                                           \
        (columns)->ok &= (int64_t)(ret) == number;                                                 \
    }
#define READ_LEASE(columns, ret) READ_INT(columns, ret)
#define READ_BYTES(columns, ret) read_row_bytes(columns, ret, sizeof ret)
#define READ_TEXT(columns, ret) ret = read_slice(columns)
#define READ_RARE(columns, ret) READ_TEXT(columns, ret)
#define READ(kind, column, field) READ_##kind(columns, row->field);

/* The once value; false: none, and the columns behind it are empty. */
static bool read_row_once(struct columns *columns, struct store_row *row)
{
    if (sqlite3_column_type(columns->statement, columns->at) == SQLITE_NULL)
        return false;
    READ_TEXT(columns, row->once);
    return true;
}

static bool read_pending(struct columns *columns, struct store_row *row)
{
    READ_INT(columns, row->record.status);
    bool expires = sqlite3_column_type(columns->statement, columns->at) != SQLITE_NULL;
    row->record.expires_at = sqlite3_column_int64(columns->statement, columns->at++);
    SQLITE_CLAIM(READ)
    if (!columns->sqlite->is_foreign) {
        SQLITE_CLAIM_OF_RULE(READ)
    }
    SQLITE_IDENTITY(READ)
    if (read_row_once(columns, row)) {
        SQLITE_CLAIM_ONCE(READ)
    }
    /* What is provisional is in both tables. */
    row->record.provisional = record_is_final(row->record.status);
    return columns->ok && row->record.status > RECORD_ABSENT &&
           row->record.status <= RECORD_UNKNOWN && row->record.lease_until >= 0 &&
           expires == record_is_released(&row->record);
}

static bool read_final(struct columns *columns, struct store_row *row)
{
    READ_INT(columns, row->record.status);
    READ_TEXT(columns, row->location);
    SQLITE_FINAL(READ)
    SQLITE_IDENTITY(READ)
    if (read_row_once(columns, row)) {
        SQLITE_FINAL_ONCE(READ)
    }
    return columns->ok && record_is_final(row->record.status);
}

/* ---- one row ---- */

static void read_columns(const struct sqlite_binding *binding, bool is_final, struct arena *texts,
                         struct store_row *row)
{
    struct columns columns = {
        .sqlite = binding->sqlite, .texts = texts, .statement = binding->statement, .ok = true};
    bool ok = is_final ? read_final(&columns, row) : read_pending(&columns, row);
    row->record.odd |= !ok;
    if (columns.lacks_memory)
        sqlite_fail(binding->sqlite, SQLITE_NOMEM);
    sqlite_judge_lease(binding->sqlite, &row->record);
}

/* Whether what is pending has an outcome beside it, too. */
static bool find_outcome_beside(struct sqlite_backend *sqlite, int64_t id)
{
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_OUTCOME_READ);
    sqlite_bind_number(&binding, id);
    bool found = sqlite_step(&binding);
    sqlite3_reset(binding.statement);
    return found;
}

/* Whether it is there. */
static bool find_at(struct sqlite_backend *sqlite, enum sqlite_statement name, struct arena *texts,
                    struct store_row *row)
{
    struct sqlite_binding binding = sqlite_bind(sqlite, name);
    sqlite_bind_number(&binding, row->id);
    bool found = sqlite_step(&binding);
    if (found)
        read_columns(&binding, name == SQL_OUTCOME_FIND, texts, row);
    sqlite3_reset(binding.statement);
    return found;
}

bool sqlite_find_row(struct sqlite_backend *sqlite, int64_t id, struct arena *texts,
                     struct store_row *ret_row)
{
    if (sqlite_recent_find(sqlite, id, texts, ret_row))
        return sqlite_judge_lease(sqlite, &ret_row->record);
    *ret_row = (struct store_row){.id = id};
    bool is_open = find_at(sqlite, SQL_PENDING_FIND, texts, ret_row);
    bool provisional = ret_row->record.provisional;
    bool is_final = (!is_open || provisional) && find_at(sqlite, SQL_OUTCOME_FIND, texts, ret_row);
    bool is_odd = ret_row->record.odd || (provisional && !is_final) ||
                  (is_open && !provisional && find_outcome_beside(sqlite, id)) ||
                  !backend_row_is_sound(ret_row);
    if ((is_open || is_final) && is_odd)
        backend_hold_row(&sqlite->backend, ret_row);
    return sqlite_ok(sqlite);
}

/* NULL: it failed. */
static struct store_row *find_id(struct sqlite_backend *sqlite, int64_t id, struct arena *arena)
{
    struct store_row *row = arena_alloc(arena, sizeof *row);
    if (!row)
        sqlite_fail(sqlite, SQLITE_NOMEM);
    return row && sqlite_find_row(sqlite, id, arena, row) ? row : NULL;
}

static bool is_keyed(const struct store_row *row, const struct digest *key)
{
    return row->record.status != RECORD_ABSENT && digest_eq(&row->key_hash, key);
}

static struct backend_bound *read_claim(const struct sqlite_binding *binding, struct arena *arena)
{
    struct columns of_bound = {
        .sqlite = binding->sqlite, .texts = arena, .statement = binding->statement, .ok = true};
    struct columns *columns = &of_bound;
    struct backend_bound *row = arena_alloc(arena, sizeof *row);
    if (!row) {
        sqlite_fail(binding->sqlite, SQLITE_NOMEM);
        return NULL;
    }
    READ_INT(columns, row->id);
    SQLITE_BOUND(READ)
    if (!columns->ok || row->expires_at < 0)
        backend_hold_bound(row);
    if (columns->lacks_memory)
        sqlite_fail(binding->sqlite, SQLITE_NOMEM);
    return row;
}

/* A name leads to what is not there, or is another one's: what it led to may have been done. */
static void hold_lost(struct sqlite_backend *sqlite, struct backend_name *name, int64_t id,
                      struct arena *arena)
{
    struct store_row *row = arena_alloc(arena, sizeof *row);
    if (!row) {
        sqlite_fail(sqlite, SQLITE_NOMEM);
        return;
    }
    *row =
        (struct store_row){.id = id, .key_hash = name->hash, .recipe = SLICE(PAYLOAD_RECIPE_ALL)};
    backend_hold_row(&sqlite->backend, row);
    name->row = row;
    name->bound = NULL;
}

static void follow_bound(struct sqlite_backend *sqlite, struct backend_name *name, int64_t id,
                         struct arena *arena)
{
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_BOUND_FIND);
    sqlite_bind_number(&binding, id);
    struct backend_bound *bound = sqlite_step(&binding) ? read_claim(&binding, arena) : NULL;
    sqlite3_reset(binding.statement);
    name->bound = bound;
    name->row = bound && sqlite_ok(sqlite) ? find_id(sqlite, bound->holder, arena) : NULL;
    bool leads = name->row && name->row->record.status != RECORD_ABSENT;
    if (sqlite_ok(sqlite) && (!leads || !digest_eq(&bound->key_hash, &name->hash)))
        hold_lost(sqlite, name, id, arena);
}

void sqlite_insert_bound(struct sqlite_backend *sqlite, const struct backend_bound *row)
{
    struct sqlite_binding insert = sqlite_bind(sqlite, SQL_BOUND_INSERT), *binding = &insert;
    sqlite_bind_number(binding, row->id);
    SQLITE_BOUND(BIND)
    sqlite_run(binding);
}

/* A name leads to a row that says that it has another one. */
static void hold_misnamed(struct sqlite_backend *sqlite, const struct backend_name *name,
                          struct store_row *row)
{
    if (!name->is_once)
        row->key_hash = name->hash;
    backend_hold_row(&sqlite->backend, row);
}

/* Reads row `id`, to which the name leads: by its key, its once value, or through a bound key. */
static void follow_name(struct sqlite_backend *sqlite, struct backend_name *name, int64_t id,
                        struct arena *arena)
{
    struct store_row *row = name->row = find_id(sqlite, id, arena);
    if (!row)
        return;
    if (row->record.status == RECORD_ABSENT && !name->is_once)
        follow_bound(sqlite, name, id, arena);
    else if (row->record.status == RECORD_ABSENT)
        hold_lost(sqlite, name, id, arena);
    else if (name->is_once ? !sqlite_is_named(sqlite, row, &name->hash)
                           : !is_keyed(row, &name->hash))
        hold_misnamed(sqlite, name, row);
}

/* What is pending under a key is what the key leads to. A row that lives for its once value is
 * there though its key leads elsewhere by now. */
static void try_hint(struct sqlite_backend *sqlite, struct backend_name *name, struct arena *arena)
{
    struct store_row *row = find_id(sqlite, name->hint, arena);
    if (!row || !is_keyed(row, &name->hash))
        return;
    name->hinted = row;
    name->row = record_is_final(row->record.status) ? NULL : row;
}

void sqlite_find(struct sqlite_backend *sqlite, struct backend_name *name, struct arena *arena)
{
    name->row = name->hinted = NULL;
    name->bound = NULL;
    if (name->hint != 0)
        try_hint(sqlite, name, arena);
    int64_t id = name->row ? 0 : sqlite_keys_find(sqlite, &name->hash);
    if (id != 0 && name->hinted && name->hinted->id == id)
        name->row = name->hinted;
    else if (id != 0)
        follow_name(sqlite, name, id, arena);
}

/* ---- new rows ---- */

static void bind_new_claim(struct sqlite_binding *binding, const struct backend_change *change)
{
    sqlite_bind_number(binding, change->row->id);
    bind_claim(binding, change->row);
    bind_identity(binding, change->row);
}

/* result_ref, headers, body, packed; `outcome` NULL: none is kept. */
static void bind_outcome(struct sqlite_binding *binding, const struct outcome *outcome)
{
    bool packed = outcome && outcome->packed.len > 0;
    if (outcome && outcome->location.len > 0)
        sqlite_bind_text(binding, outcome->location);
    else
        sqlite_bind_null(binding);
    if (outcome) {
        sqlite_bind_bytes(binding, outcome->fields);
        sqlite_bind_bytes(binding, packed ? buf_slice(&outcome->packed) : outcome->body);
    } else {
        sqlite_bind_null(binding);
        sqlite_bind_null(binding);
    }
    sqlite_bind_number(binding, packed);
}

static void bind_new_final(struct sqlite_binding *binding, const struct backend_change *change)
{
    const struct store_row *row = change->row;
    sqlite_bind_number(binding, row->id);
    sqlite_bind_number(binding, row->record.status);
    sqlite_bind_number(binding, backend_sweep_at(&row->record, change->outcome));
    bind_outcome(binding, change->outcome);
    SQLITE_FINAL(BIND)
    bind_identity(binding, row);
}

typedef void insert_bind(struct sqlite_binding *binding, const struct backend_change *change);

/* All that there are: `statement` takes one row, those behind it twice as many each. */
static void insert_all(struct sqlite_backend *sqlite, struct sqlite_inserts *inserts,
                       enum sqlite_statement statement, insert_bind *bind)
{
    for (size_t i = 0; i < inserts->n;) {
        const size_t left = inserts->n - i, doublings = left >= 8 ? 3 : left >= 4 ? 2 : left >= 2;
        struct sqlite_binding binding = sqlite_bind(sqlite, statement + (unsigned)doublings);
        for (size_t last = i + ((size_t)1 << doublings); i < last; i++)
            bind(&binding, inserts->changes[i]);
        sqlite_run(&binding);
    }
    inserts->n = 0;
}

static void insert_claims(struct sqlite_backend *sqlite)
{
    insert_all(sqlite, &sqlite->claims, SQL_PENDING_INSERT, bind_new_claim);
}

static void insert_finals(struct sqlite_backend *sqlite)
{
    insert_all(sqlite, &sqlite->finals, SQL_OUTCOME_INSERT, bind_new_final);
}

static void insert_pending(struct sqlite_backend *sqlite, const struct backend_change *change)
{
    const struct store_row *row = change->row;
    sqlite_recent_add(sqlite, row);
    if (row->once.len == 0) {
        sqlite->claims.changes[sqlite->claims.n++] = change;
        if (sqlite->claims.n == INSERT_ROWS)
            insert_claims(sqlite);
        return;
    }
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_PENDING_INSERT_ONCE);
    bind_new_claim(&binding, change);
    sqlite_bind_text(&binding, row->once);
    bind_claim_once(&binding, row);
    sqlite_run(&binding);
}

static void insert_final(struct sqlite_backend *sqlite, const struct backend_change *change)
{
    if (change->row->once.len == 0) {
        sqlite->finals.changes[sqlite->finals.n++] = change;
        if (sqlite->finals.n == INSERT_ROWS)
            insert_finals(sqlite);
        return;
    }
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_OUTCOME_INSERT_ONCE);
    bind_new_final(&binding, change);
    bind_final_once(&binding, change->row);
    sqlite_run(&binding);
}

/* ---- changes ---- */

static void update_pending(struct sqlite_backend *sqlite, const struct store_row *row)
{
    sqlite_recent_drop(sqlite, row->id);
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_PENDING_UPDATE);
    bind_claim(&binding, row);
    bind_claim_once(&binding, row);
    sqlite_bind_number(&binding, row->id);
    bool changed = sqlite_change(&binding);
    CHECK(changed || !sqlite_ok(sqlite));
}

static void hold_pending(struct sqlite_backend *sqlite, const struct store_row *row)
{
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_PENDING_HOLD);
    sqlite_bind_number(&binding, row->id);
    sqlite_bind_text(&binding, row->once);
    sqlite_run(&binding);
}

/* Whether it was there. */
static bool delete_from(struct sqlite_backend *sqlite, enum sqlite_statement name, int64_t id)
{
    sqlite_recent_drop(sqlite, id);
    struct sqlite_binding binding = sqlite_bind(sqlite, name);
    sqlite_bind_number(&binding, id);
    return sqlite_change(&binding);
}

static void remove_row(struct sqlite_backend *sqlite, const struct store_row *row, bool in_both)
{
    sqlite_unname_row(sqlite, row);
    if (!delete_from(sqlite, SQL_PENDING_DELETE, row->id) || in_both)
        delete_from(sqlite, SQL_OUTCOME_DELETE, row->id);
}

void sqlite_remove(struct sqlite_backend *sqlite, const struct store_row *row)
{
    remove_row(sqlite, row, false);
}

/* Of what is frozen, or was replayed to another key: its body may have been swept meanwhile, and
 * does not come back. */
static void lengthen_final(struct sqlite_backend *sqlite, const struct store_row *row)
{
    const struct record *record = &row->record;
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_OUTCOME_LENGTHEN);
    sqlite_bind_number(&binding, backend_sweep_at(record, record->kept));
    sqlite_bind_number(&binding, record->kept);
    sqlite_bind_number(&binding, record->expires_at);
    sqlite_bind_number(&binding, record->gone_at);
    sqlite_bind_number(&binding, record->once_until);
    sqlite_bind_number(&binding, row->id);
    sqlite_run(&binding);
}

/* It is in both tables for as long as it is provisional. */
static void freeze_row(struct sqlite_backend *sqlite, const struct backend_change *change)
{
    const struct store_row *row = change->row;
    if (row->record.provisional) {
        update_pending(sqlite, row);
        return;
    }
    delete_from(sqlite, SQL_PENDING_DELETE, row->id);
    bool filled_in = change->outcome || !row->record.kept;
    if (!filled_in) {
        lengthen_final(sqlite, row);
        return;
    }
    delete_from(sqlite, SQL_OUTCOME_DELETE, row->id);
    insert_final(sqlite, change);
}

static void finish_row(struct sqlite_backend *sqlite, const struct backend_change *change)
{
    const struct store_row *row = change->row;
    insert_final(sqlite, change);
    if (row->record.provisional) {
        update_pending(sqlite, row);
        return;
    }
    bool was = delete_from(sqlite, SQL_PENDING_DELETE, row->id);
    CHECK(was || !sqlite_ok(sqlite));
}

/* Anew: it may be in the other table, or in both. */
static void rewrite_row(struct sqlite_backend *sqlite, const struct backend_change *change)
{
    delete_from(sqlite, SQL_PENDING_DELETE, change->row->id);
    delete_from(sqlite, SQL_OUTCOME_DELETE, change->row->id);
    if (record_is_final(change->row->record.status))
        insert_final(sqlite, change);
    else
        insert_pending(sqlite, change);
}

/* Enters the names of a new row; of an existing row only a new `once` value, in place of the old.
 */
static void save_row_names(struct sqlite_backend *sqlite, const struct backend_change *change,
                           bool new_value)
{
    const struct store_row *row = change->row;
    if (change->before == RECORD_ABSENT)
        sqlite_keys_set(sqlite, &row->key_hash, row->id);
    if (new_value && change->once_before.len > 0)
        sqlite_drop_once(sqlite, row, change->once_before);
    if (new_value)
        sqlite_keys_set(sqlite, &change->once_name, row->id);
}

static void save_row(struct sqlite_backend *sqlite, const struct backend_change *change)
{
    const struct store_row *row = change->row;
    bool new_value = !digest_is_none(&change->once_name);
    bool finished = record_is_final(row->record.status);
    save_row_names(sqlite, change, new_value);
    if (new_value && change->before != RECORD_ABSENT && !finished)
        hold_pending(sqlite, row);
    if (change->was_odd)
        rewrite_row(sqlite, change);
    else if (change->was_provisional)
        freeze_row(sqlite, change);
    else if (record_is_final(change->before))
        lengthen_final(sqlite, row);
    else if (change->before == RECORD_ABSENT && finished)
        insert_final(sqlite, change);
    else if (change->before == RECORD_ABSENT)
        insert_pending(sqlite, change);
    else if (finished)
        finish_row(sqlite, change);
    else
        update_pending(sqlite, row);
}

static void save_change(struct sqlite_backend *sqlite, const struct backend_change *change)
{
    const struct store_row *row = change->row;
    if (change->bound)
        sqlite_bind_key(sqlite, change->bound);
    if (row && row->record.status != RECORD_ABSENT)
        save_row(sqlite, change);
    if (!row || row->record.status != RECORD_ABSENT)
        return;
    struct store_row gone = *row;
    gone.once = change->once_before;
    remove_row(sqlite, &gone, change->was_provisional || change->was_odd);
}

/* Rows of modules alone may not fit: the records are what load said, as it holds the lock. */
static void save_group(struct sqlite_backend *sqlite, struct backend_group *group,
                       struct sqlite_leases *own)
{
    const struct backend_change *change = group->changes;
    if (change && change->brought)
        change = sqlite_write_rows(sqlite, group);
    if (group->result != GROUP_OK)
        return;
    for (; change && sqlite_ok(sqlite); change = change->next) {
        backend_count(&sqlite->state.counts, change);
        if (change->row)
            sqlite_count_lease(sqlite, own, change);
        save_change(sqlite, change);
    }
}

void sqlite_save_groups(struct sqlite_backend *sqlite, struct backend_group *groups)
{
    struct sqlite_leases own = {0};
    sqlite->claims.n = sqlite->finals.n = 0; /* of a save that failed */
    for (struct backend_group *group = groups; group && sqlite_ok(sqlite); group = group->next)
        save_group(sqlite, group, &own);
    insert_claims(sqlite);
    insert_finals(sqlite);
    sqlite_save_leases(sqlite, &own);
}
