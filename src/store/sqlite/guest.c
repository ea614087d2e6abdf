/* SPDX-License-Identifier: Apache-2.0 */
#include "store/sqlite/guest.h"

#include "base/crypto/random.h"
#include "base/mem.h"
#include "store/sqlite/sqlite.h"
#include <stdio.h>

struct guest {
    struct sqlite_backend sqlite; /* first: the two are cast into each other */
    sqlite3_stmt *enter;          /* format, secret */
    sqlite3_stmt *dirty;          /* whether uncommitted data of others is read */
    unsigned version;             /* of the file, in the transaction that `self` is of */
    bool made;                    /* the schema was made here, at that version: */
    unsigned made_at;
    bool entered;        /* the connection's mutex is held */
    sqlite3_int64 rowid; /* the application's last one */
};

static struct guest *guest_of(struct backend *backend)
{
    return (struct guest *)backend;
}

/* ---- the connection, for the time of a call ---- */

static void hold_guest_lock(struct guest *guest)
{
    if (guest->entered)
        return;
    sqlite3_mutex_enter(sqlite3_db_mutex(guest->sqlite.db));
    guest->rowid = sqlite3_last_insert_rowid(guest->sqlite.db);
    guest->entered = true;
}

static void let_go(struct guest *guest)
{
    if (!guest->entered)
        return;
    sqlite3_set_last_insert_rowid(guest->sqlite.db, guest->rowid);
    sqlite3_mutex_leave(sqlite3_db_mutex(guest->sqlite.db));
    guest->entered = false;
}

/* ---- entering ---- */

static enum sqlite_guest_state refuse_guest(struct guest *guest, const char *why)
{
    struct backend *backend = &guest->sqlite.backend;
    snprintf(backend->problem, sizeof backend->problem, "%s: %s", guest->sqlite.path, why);
    return SQLITE_GUEST_CLOSED;
}

static void explain_guest(struct sqlite_backend *sqlite)
{
    snprintf(sqlite->backend.problem, sizeof sqlite->backend.problem, "%s: %s", sqlite->path,
             sqlite3_errmsg(sqlite->db));
}

static enum sqlite_guest_state state_of_failure(int code)
{
    int kind = code & 0xff;
    bool busy = kind == SQLITE_BUSY || kind == SQLITE_LOCKED;
    return busy ? SQLITE_GUEST_BUSY : SQLITE_GUEST_FAILED;
}

static enum sqlite_guest_state fail_guest(struct guest *guest, int code)
{
    explain_guest(&guest->sqlite);
    return state_of_failure(code);
}

static unsigned guest_data_version(const struct guest *guest)
{
    unsigned version = 0;
    sqlite3_file_control(guest->sqlite.db, "main", SQLITE_FCNTL_DATA_VERSION, &version);
    return version;
}

/* All of it or nothing, whatever the application does after an error: so what undoes it is made
 * while there is memory for it. */
static int install_whole(struct sqlite_backend *sqlite)
{
    sqlite3_stmt *undo = NULL, *end = NULL;
    int code = sqlite3_prepare_v2(sqlite->db, "ROLLBACK TO pawl_schema", -1, &undo, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_prepare_v2(sqlite->db, "RELEASE pawl_schema", -1, &end, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_exec(sqlite->db, "SAVEPOINT pawl_schema", NULL, NULL, NULL);
    bool is_open = code == SQLITE_OK;
    if (is_open && !sqlite_foreign_install(sqlite))
        code = sqlite3_errcode(sqlite->db);
    if (code != SQLITE_OK)
        explain_guest(sqlite); /* before what undoes it says that all is well */
    if (is_open && code != SQLITE_OK)
        sqlite3_step(undo);
    if (is_open)
        sqlite3_step(end);
    sqlite3_finalize(undo);
    sqlite3_finalize(end);
    return code;
}

static enum sqlite_guest_state install_guest(struct guest *guest)
{
    struct sqlite_backend *sqlite = &guest->sqlite;
    int64_t application = 0;
    int code = sqlite_ask_number(sqlite->db, "PRAGMA main.application_id", &application);
    if (code == SQLITE_OK && application == PAWL_APPLICATION_ID)
        return refuse_guest(guest, "it is a store of pawl's own; keep the record in your own file");
    if (code != SQLITE_OK)
        return fail_guest(guest, code);
    code = install_whole(sqlite);
    if (code != SQLITE_OK)
        return state_of_failure(code);
    guest->made = true;
    guest->made_at = guest_data_version(guest);
    return SQLITE_GUEST_READY;
}

static enum sqlite_guest_state find_schema(struct guest *guest)
{
    bool there = false;
    int code = sqlite_foreign_find(&guest->sqlite, &there);
    if (code != SQLITE_OK)
        return fail_guest(guest, code);
    return there ? SQLITE_GUEST_READY : install_guest(guest);
}

/* Prepares what reads it. At first, and after the application took back the schema. */
static enum sqlite_guest_state prepare_guest(struct guest *guest)
{
    struct sqlite_backend *sqlite = &guest->sqlite;
    enum sqlite_guest_state state = find_schema(guest);
    if (state != SQLITE_GUEST_READY)
        return state;
    sqlite3_finalize(guest->enter);
    int code = sqlite3_prepare_v3(sqlite->db, "SELECT format, secret FROM pawl_state, pawl_secret",
                                  -1, SQLITE_PREPARE_PERSISTENT, &guest->enter, NULL);
    if (code == SQLITE_ERROR)
        return refuse_guest(guest, "it is a store of pawl's own; keep the record in your own file");
    return code == SQLITE_OK ? SQLITE_GUEST_READY : fail_guest(guest, code);
}

static enum sqlite_guest_state judge_format(struct guest *guest, int64_t format)
{
    const char *problem = sqlite_foreign_format_problem(format);
    return problem ? refuse_guest(guest, problem) : SQLITE_GUEST_READY;
}

/* Reads format and secret: what another connection did to the tables, or a rollback, is seen here
 * and nowhere else. */
static enum sqlite_guest_state read_guest_format(struct guest *guest, int *ret_code)
{
    unsigned char *secret = guest->sqlite.backend.secret;
    int code = *ret_code = sqlite3_step(guest->enter);
    enum sqlite_guest_state state = SQLITE_GUEST_FAILED;
    if (code == SQLITE_ROW && sqlite3_column_bytes(guest->enter, 1) == DIGEST_SIZE) {
        memcpy(secret, sqlite3_column_blob(guest->enter, 1), DIGEST_SIZE);
        state = judge_format(guest, sqlite3_column_int64(guest->enter, 0));
    } else if (code == SQLITE_ROW || code == SQLITE_DONE) {
        state = refuse_guest(guest, "its tables are damaged: pawl_secret");
    }
    sqlite3_reset(guest->enter);
    return state;
}

/* Whether schema and secret are still those that were read. A version is one of a snapshot, which
 * must have been taken. What this version made a rollback may have taken back, and that leaves the
 * version as it is. */
static bool is_settled_guest(const struct guest *guest)
{
    bool has_snapshot = sqlite3_txn_state(guest->sqlite.db, "main") != SQLITE_TXN_NONE;
    bool may_be_gone = guest->made && guest->made_at == guest->version;
    return guest->enter && has_snapshot && !may_be_gone &&
           guest_data_version(guest) == guest->version;
}

/* Of another connection's transaction in a shared cache, which may yet be rolled back. */
static enum sqlite_guest_state refuse_dirty_reads(struct guest *guest)
{
    int code = SQLITE_OK;
    if (!guest->dirty)
        code = sqlite3_prepare_v3(guest->sqlite.db, "PRAGMA read_uncommitted", -1,
                                  SQLITE_PREPARE_PERSISTENT, &guest->dirty, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_step(guest->dirty);
    bool on = code == SQLITE_ROW && sqlite3_column_int(guest->dirty, 0) != 0;
    sqlite3_reset(guest->dirty);
    if (code != SQLITE_ROW)
        return fail_guest(guest, code);
    return on ? refuse_guest(guest, "PRAGMA read_uncommitted is on; turn it off")
              : SQLITE_GUEST_READY;
}

static enum sqlite_guest_state enter_guest(struct guest *guest)
{
    int code = SQLITE_OK;
    if (sqlite3_get_autocommit(guest->sqlite.db))
        return SQLITE_GUEST_IDLE;
    enum sqlite_guest_state state = refuse_dirty_reads(guest);
    if (state == SQLITE_GUEST_READY && is_settled_guest(guest))
        return SQLITE_GUEST_READY;
    if (state == SQLITE_GUEST_READY && !guest->enter)
        state = prepare_guest(guest);
    if (state != SQLITE_GUEST_READY)
        return state;
    state = read_guest_format(guest, &code);
    if (code == SQLITE_ERROR && prepare_guest(guest) == SQLITE_GUEST_READY)
        state = read_guest_format(guest, &code);
    return state == SQLITE_GUEST_FAILED ? fail_guest(guest, code) : state;
}

/* The snapshot is taken: by now the version is that of this transaction. One that was rolled back
 * may have had the same, and left nothing that has this owner. */
static void draw_self(struct guest *guest)
{
    struct backend_owner *self = &guest->sqlite.backend.self;
    unsigned version = guest_data_version(guest);
    if (self->incarnation == 0 || version != guest->version)
        self->incarnation = random_id();
    guest->version = version;
}

enum sqlite_guest_state sqlite_guest_enter(struct backend *backend)
{
    struct guest *guest = guest_of(backend);
    hold_guest_lock(guest);
    enum sqlite_guest_state state = enter_guest(guest);
    if (state == SQLITE_GUEST_READY)
        draw_self(guest);
    let_go(guest);
    return state;
}

int64_t sqlite_guest_self(const struct backend *backend)
{
    return backend->self.incarnation;
}

const unsigned char *sqlite_guest_secret(const struct backend *backend)
{
    return backend->secret;
}

bool sqlite_guest_is_nested(const struct backend *backend)
{
    sqlite3 *db = ((const struct guest *)backend)->sqlite.db;
    sqlite3_stmt *s = sqlite3_next_stmt(db, NULL);
    while (s && (!sqlite3_stmt_busy(s) || sqlite3_stmt_readonly(s)))
        s = sqlite3_next_stmt(db, s);
    return s;
}

bool sqlite_guest_is_read_only(const struct backend *backend)
{
    return sqlite3_db_readonly(((const struct guest *)backend)->sqlite.db, "main") == 1;
}

bool sqlite_guest_is_guarded(const struct backend *backend)
{
    int on = 0;
    sqlite3_db_config(((const struct guest *)backend)->sqlite.db, SQLITE_DBCONFIG_ENABLE_FKEY, -1,
                      &on);
    return on != 0;
}

/* ---- a row ---- */

bool sqlite_guest_find(struct backend *backend, int64_t id, struct store_row *ret_row)
{
    struct guest *guest = guest_of(backend);
    struct sqlite_backend *sqlite = sqlite_call(backend);
    hold_guest_lock(guest);
    arena_reset(&sqlite->texts);
    sqlite_find_row(sqlite, id, &sqlite->texts, ret_row);
    let_go(guest);
    return sqlite_ok(sqlite);
}

/* ---- backend_ops ---- */

static void guest_abandon(struct backend *backend)
{
    let_go(guest_of(backend));
}

static enum backend_status conclude_guest(struct guest *guest)
{
    if (!sqlite_ok(&guest->sqlite))
        guest_abandon(&guest->sqlite.backend);
    return guest->sqlite.status;
}

static bool take_up(struct guest *guest)
{
    struct sqlite_backend *sqlite = &guest->sqlite;
    if (guest->entered) /* by maintain */
        return true;
    hold_guest_lock(guest);
    sqlite->maintained = false;
    sqlite->is_unguarded = !sqlite_guest_is_guarded(&sqlite->backend);
    sqlite_read_state(sqlite);
    return sqlite_ok(sqlite);
}

static enum backend_status guest_maintain(struct backend *backend, struct backend_chores *chores)
{
    struct guest *guest = guest_of(backend);
    struct sqlite_backend *sqlite = sqlite_call(backend);
    if (take_up(guest))
        sqlite_do_chores(sqlite, chores);
    sqlite->maintained = chores->swept > 0;
    return conclude_guest(guest);
}

static enum backend_status guest_load(struct backend *backend, struct backend_name *names, size_t n,
                                      struct arena *arena, struct backend_read *ret_read)
{
    struct guest *guest = guest_of(backend);
    struct sqlite_backend *sqlite = sqlite_call(backend);
    take_up(guest);
    for (size_t i = 0; i < n && sqlite_ok(sqlite); i++)
        sqlite_find(sqlite, &names[i], arena);
    if (sqlite_ok(sqlite))
        sqlite_fill_read(sqlite, names, n, ret_read);
    return conclude_guest(guest);
}

/* However much failed before; where SQLite has rolled back all, there is nothing to undo. */
static void run_anyway(struct sqlite_backend *sqlite, enum sqlite_statement name)
{
    sqlite3_stmt *statement = sqlite->statements[name];
    if (sqlite3_get_autocommit(sqlite->db) || !statement)
        return;
    sqlite3_step(statement);
    sqlite3_reset(statement);
}

/* All of it or nothing, whatever the application does after an error. By a name of its own, as the
 * savepoint of a group's rows may be left open inside it. */
static void write_groups(struct sqlite_backend *sqlite, struct backend_save *save)
{
    (void)sqlite_bind(sqlite, SQL_CALL_ROLLBACK_TO); /* made while there is memory for it */
    (void)sqlite_bind(sqlite, SQL_CALL_RELEASE);
    if (!sqlite_run_named(sqlite, SQL_CALL_SAVEPOINT))
        return;
    sqlite_save_groups(sqlite, save->groups);
    if (sqlite_ok(sqlite))
        sqlite_write_state(sqlite, save);
    if (!sqlite_ok(sqlite))
        run_anyway(sqlite, SQL_CALL_ROLLBACK_TO);
    run_anyway(sqlite, SQL_CALL_RELEASE);
}

static enum backend_status guest_save(struct backend *backend, struct backend_save *save)
{
    struct guest *guest = guest_of(backend);
    struct sqlite_backend *sqlite = sqlite_call(backend);
    save->changed = save->groups || sqlite->maintained;
    if (save->changed)
        write_groups(sqlite, save);
    save->counts = sqlite->state.counts;
    let_go(guest);
    return sqlite->status;
}

static void guest_close(struct backend *backend)
{
    struct guest *guest = guest_of(backend);
    struct sqlite_backend *sqlite = &guest->sqlite;
    sqlite_finalize_all(sqlite);
    sqlite3_finalize(guest->enter);
    sqlite3_finalize(guest->dirty);
    sqlite_tables_fini(sqlite);
    arena_fini(&sqlite->texts);
    mem_free(sqlite->path);
    mem_free(guest);
}

static const struct backend_ops guest_ops = {
    .load = guest_load,
    .maintain = guest_maintain,
    .save = guest_save,
    .abandon = guest_abandon,
    .outcome = sqlite_outcome,
    .list = sqlite_list,
    .query = sqlite_query,
    .close = guest_close,
};

struct backend *sqlite_guest_open(sqlite3 *db, const struct table *const *tables)
{
    struct guest *guest = mem_zalloc(1, sizeof *guest);
    const char *name = sqlite3_db_filename(db, "main");
    name = name && *name ? name : ":memory:";
    char *path = mem_copy(name, strlen(name));
    if (!guest || !path) {
        mem_free(guest);
        mem_free(path);
        return NULL;
    }
    struct sqlite_backend *sqlite = &guest->sqlite;
    sqlite->backend =
        (struct backend){.ops = &guest_ops, .place = path, .outcome_max = SQLITE_OUTCOME_MAX};
    sqlite->db = db;
    sqlite->path = path;
    sqlite->is_foreign = sqlite->is_guest = sqlite->backend.lacks_terms = true;
    sqlite->lock.fd = -1;
    sqlite->texts = arena_make(SIZE_MAX);
    sqlite->boot_id = clock_boot_id();
    sqlite_tables_init(sqlite, tables);
    return &sqlite->backend;
}
