/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the SQLite backend: the file, its locks, its schema, its statements. */
#include "base/check.h"
#include "base/mem.h"
#include "store/sqlite/copy.h"
#include "store/sqlite/faults.h"
#include "store/sqlite/medium.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/vfs.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* A command reads the runs of new keys anew each time: it closes them while they are short. */
#define COMMAND_KEY_RUN ((size_t)4096)
#define BUSY_MS 200 /* one try, where a sqlite3 shell or a backup holds a write lock */
#define LOCK_SPAN_US INT64_C(200000) /* one try, where another pawl process does */
#define CHECKPOINT_PAGES 1000 /* of the WAL: field measurement, docs/decisions/0003-schema.md */

/* An application may be about to make its own tables there. */
#define EMPTY                                                                                      \
    "it is empty; where it is an application's, make pawl's tables first (pawl_install), else "    \
    "remove it"

static void explain_problem(struct sqlite_backend *sqlite, const char *what)
{
    snprintf(sqlite->backend.problem, sizeof sqlite->backend.problem, "%s: %s", sqlite->path, what);
}

/* Of a call that failed, with its errno. */
static void explain_error(struct sqlite_backend *sqlite, int error)
{
    bool denied = error == EACCES || error == EROFS;
    snprintf(sqlite->backend.problem, sizeof sqlite->backend.problem, "%s: %s%s", sqlite->path,
             strerror(error),
             denied ? "; the user that pawl runs as needs to write the file and its folder" : "");
}

/* What is wrong with a path that leads to something other than a file, and what to do about it. */
static const char *wrong_kind(mode_t mode)
{
    if (S_ISDIR(mode))
        return "is a folder; name a file in it";
    if (S_ISLNK(mode))
        return "is a symbolic link; name the file that it leads to";
    return "is not a regular file";
}

static bool check_file(struct sqlite_backend *sqlite)
{
    struct stat info;
    bool there = lstat(sqlite->path, &info) == 0;
    if (there && !S_ISREG(info.st_mode)) {
        explain_problem(sqlite, wrong_kind(info.st_mode));
        return false;
    }
    if (there && faccessat(AT_FDCWD, sqlite->path, R_OK | W_OK, AT_EACCESS) == 0)
        return true;
    explain_error(sqlite, errno);
    return false;
}

/* A file that is there is not opened here: to close it again would take away the locks of every
 * SQLite connection that this process has on it (fcntl(2)), and with them the log in use. */
static bool create_file(struct sqlite_backend *sqlite, const struct store_config *config)
{
    struct stat info;
    if (lstat(sqlite->path, &info) == 0 || errno != ENOENT)
        return check_file(sqlite);
    bool is_relay = config->may_be_foreign && config->role == STORE_SERVE;
    if (config->read_only_file || is_relay) {
        explain_problem(sqlite, is_relay ? "there is no store here; whoever publishes makes it: an "
                                           "application (pawl_install), or `pawl webhook publish`"
                                         : "there is no store here");
        return false;
    }
    int fd = open(sqlite->path, O_RDWR | O_CLOEXEC | O_CREAT | O_EXCL, 0600);
    if (fd >= 0) {
        close(fd);
        return true;
    }
    if (errno == EEXIST)
        return check_file(sqlite);
    if (errno == ENOENT)
        explain_problem(sqlite, "its folder does not exist; make it, or choose another path");
    else
        explain_error(sqlite, errno);
    return false;
}

/* A look by root leaves nothing that the store's own user may not open. SQLite does the same with
 * its files. */
static void give_to_owner(const struct sqlite_backend *sqlite)
{
    struct stat database, lock;
    if (geteuid() != 0 || stat(sqlite->path, &database) != 0 ||
        fstat(sqlite->lock.fd, &lock) != 0 || lock.st_uid == database.st_uid)
        return;
    if (fchown(sqlite->lock.fd, database.st_uid, database.st_gid) != 0)
        return; /* a file system without owners */
}

static bool open_lock(struct sqlite_backend *sqlite)
{
    struct buf name BUF_AUTO = buf_make(8192);
    buf_add_str(&name, sqlite->path);
    buf_add(&name, "-pawl", sizeof "-pawl");
    if (!buf_ok(&name)) {
        explain_problem(sqlite, "out of memory");
        return false;
    }
    int code = store_lock_open(&sqlite->lock, name.at);
    if (code != 0) {
        snprintf(sqlite->backend.problem, sizeof sqlite->backend.problem, "%s: %s", name.at,
                 strerror(-code));
        return false;
    }
    give_to_owner(sqlite);
    return true;
}

static void explain_holder(struct sqlite_backend *sqlite, enum store_role role, const char *what)
{
    snprintf(sqlite->backend.problem, sizeof sqlite->backend.problem,
             "%s is in use by another `pawl %s` (pid %lld); %s", sqlite->path,
             role == STORE_SERVE ? "serve" : "queue drain",
             (long long)store_lock_holder(&sqlite->lock, role), what);
}

static bool take_life(struct sqlite_backend *sqlite, enum store_role role,
                      enum store_open_result *ret_result)
{
    int code = store_lock_life(&sqlite->lock, role);
    if (code == 0)
        return true;
    if (code != -EAGAIN) {
        explain_problem(sqlite, strerror(-code));
        return false;
    }
    *ret_result = STORE_OPEN_IN_USE;
    explain_holder(sqlite, role, "stop it, or use another store");
    return false;
}

/* Those of the connection; of the file, where that is ours. */
static bool set_pragmas(struct sqlite_backend *sqlite)
{
    static const char connection[] =
        "PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0; PRAGMA cache_size=-4096;"
        "PRAGMA mmap_size=0; PRAGMA temp_store=MEMORY; PRAGMA foreign_keys=OFF;"
        "PRAGMA trusted_schema=OFF;";
    char mode[16] = "";
    if (sqlite3_exec(sqlite->db, connection, NULL, NULL, NULL) != SQLITE_OK)
        return false;
    if (sqlite->is_foreign)
        return true;
    int code = sqlite3_exec(sqlite->db, "PRAGMA page_size=4096; PRAGMA journal_size_limit=67108864",
                            NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = sqlite_ask_word(sqlite->db, "PRAGMA journal_mode=WAL", mode, sizeof mode);
    sqlite->is_wal = code == SQLITE_OK && strcmp(mode, "wal") == 0;
    return sqlite->is_wal;
}

/* A process that began before this one may not know what a newer format means: what it does for
 * somebody just now could not be written down. */
static bool check_nobody_else(struct sqlite_backend *sqlite, enum store_open_result *ret_result)
{
    static const enum store_role roles[] = {STORE_SERVE, STORE_DRAINER};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        if (roles[i] == sqlite->lock.role || !store_lock_life_held(&sqlite->lock, roles[i]))
            continue;
        *ret_result = STORE_OPEN_IN_USE;
        explain_holder(sqlite, roles[i],
                       "the store is of an older version, and is not changed under it; stop it, "
                       "or use that version");
        return false;
    }
    return true;
}

/* Nobody writes meanwhile: the copy holds all that the new format is made of. */
static bool keep_copy(struct sqlite_backend *sqlite, int64_t format,
                      enum store_open_result *ret_result)
{
    char *name MEM_AUTO = sqlite_copy_name(sqlite->path, format);
    struct sqlite_copy copy = {.bytes = 0};
    struct stat database;
    enum sqlite_copy_result result =
        name ? sqlite_copy_keep(sqlite->path, name, &copy) : SQLITE_COPY_FAILED;
    if (result == SQLITE_COPY_MADE && geteuid() == 0 && stat(sqlite->path, &database) == 0 &&
        lchown(name, database.st_uid, database.st_gid) != 0)
        return true; /* a file system without owners */
    if (result == SQLITE_COPY_MADE)
        return true;
    if (result == SQLITE_COPY_IN_USE)
        *ret_result = STORE_OPEN_IN_USE;
    snprintf(sqlite->backend.problem, sizeof sqlite->backend.problem,
             "its format changes, and not without a copy: %.400s",
             name ? copy.problem : "out of memory");
    return false;
}

/* What is wrong with the file, its check says again. */
static bool prepare_migration(struct sqlite_backend *sqlite, enum store_open_result *ret_result)
{
    int64_t format = 0;
    if (sqlite->is_foreign || sqlite_schema_check(sqlite->db, &format) || format == 0 ||
        format == PAWL_FORMAT)
        return true;
    return check_nobody_else(sqlite, ret_result) && keep_copy(sqlite, format, ret_result);
}

static bool install_schema(struct sqlite_backend *sqlite, enum store_open_result *ret_result)
{
    if (sqlite3_exec(sqlite->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK) {
        explain_problem(sqlite, sqlite3_errmsg(sqlite->db));
        return false;
    }
    if (!prepare_migration(sqlite, ret_result)) {
        (void)sqlite3_exec(sqlite->db, "ROLLBACK", NULL, NULL, NULL);
        return false;
    }
    const char *problem = sqlite_schema_install(sqlite);
    if (problem)
        explain_problem(sqlite, problem);
    const char *end = problem ? "ROLLBACK" : "COMMIT";
    if (sqlite3_exec(sqlite->db, end, NULL, NULL, NULL) == SQLITE_OK)
        return !problem;
    if (!problem)
        explain_problem(sqlite, sqlite3_errmsg(sqlite->db));
    return false;
}

/* A file of an application, with tables of pawl's. */
static bool check_foreign(struct sqlite_backend *sqlite, const struct store_config *config)
{
    int64_t format = 0;
    bool is_good = false;
    if (!config->may_be_foreign) {
        explain_problem(sqlite, "it is an application's own database, where pawl only delivers "
                                "webhooks; use another store, or, for `pawl serve`, a config "
                                "without `upstream:`");
        return false;
    }
    int code = sqlite_ask_number(sqlite->db, "SELECT format FROM pawl_state", &format);
    const char *problem = code == SQLITE_OK ? sqlite_foreign_format_problem(format) : NULL;
    if (code == SQLITE_OK && !problem)
        code = sqlite_foreign_journal(sqlite, &is_good);
    if (code != SQLITE_OK)
        problem = sqlite3_errmsg(sqlite->db);
    if (problem)
        explain_problem(sqlite, problem);
    return !problem && is_good;
}

/* The way back, where the newer pawl made one from this format. */
static void explain_newer(struct sqlite_backend *sqlite, int64_t format)
{
    char *copy MEM_AUTO = sqlite_copy_name(sqlite->path, PAWL_FORMAT);
    bool is_there = copy && access(copy, F_OK) == 0;
    snprintf(sqlite->backend.problem, sizeof sqlite->backend.problem,
             "%s: it was written by a newer pawl (format %lld, this one knows %d); run that "
             "version, or %s%s",
             sqlite->path, (long long)format, PAWL_FORMAT,
             is_there ? "go back, without what was done since, to " : "restore an older backup",
             is_there ? copy : "");
}

/* Of one moment, since another process may be making the store. */
static bool look_at_database(struct sqlite_backend *sqlite, const struct store_config *config)
{
    int64_t format = 0, application = 0;
    int code = sqlite_ask_number(sqlite->db, "PRAGMA application_id", &application);
    if (code == SQLITE_OK && application != PAWL_APPLICATION_ID)
        code = sqlite_foreign_find(sqlite, &sqlite->is_foreign);
    sqlite->backend.lacks_terms = sqlite->is_foreign;
    if (code == SQLITE_OK && sqlite->is_foreign)
        return check_foreign(sqlite, config);
    const char *problem = sqlite_schema_check(sqlite->db, &format);
    bool may_make = !config->read_only_file && config->role == STORE_COMMAND;
    if (!problem && format == 0 && config->may_be_foreign && !may_make)
        problem = EMPTY;
    if (problem && application == PAWL_APPLICATION_ID && format > PAWL_FORMAT)
        explain_newer(sqlite, format);
    else if (problem)
        explain_problem(sqlite, problem);
    return !problem;
}

/* Looks before there is a lock file: nothing is left beside a file that is not a store. It only
 * reads, as any reader of the store may without the lock. */
static bool check_database(struct sqlite_backend *sqlite, const struct store_config *config)
{
    (void)sqlite3_exec(sqlite->db, "BEGIN", NULL, NULL, NULL);
    bool is_good = look_at_database(sqlite, config);
    (void)sqlite3_exec(sqlite->db, "ROLLBACK", NULL, NULL, NULL);
    return is_good;
}

static bool connect_file(struct sqlite_backend *sqlite, const struct store_config *config)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    int code = sqlite3_open_v2(sqlite->path, &sqlite->db, flags, sqlite_vfs_name());
    if (code != SQLITE_OK) {
        explain_problem(sqlite, sqlite->db ? sqlite3_errmsg(sqlite->db) : "out of memory");
        return false;
    }
    /* A start waits as long as a running store does. */
    int64_t busy_ms = sqlite->lock_span_us / CLOCK_US_PER_MS;
    sqlite3_busy_timeout(sqlite->db, busy_ms < INT_MAX ? (int)busy_ms : INT_MAX);
    return check_database(sqlite, config);
}

static int note_wal_pages(void *argument, sqlite3 *db, const char *schema, int pages)
{
    (void)db, (void)schema;
    ((struct sqlite_backend *)argument)->wal_pages = pages;
    return SQLITE_OK;
}

/* Everything that writes the file happens under the batch lock. */
static bool open_store_database(struct sqlite_backend *sqlite, enum store_role role,
                                enum store_open_result *ret_result)
{
    if (!set_pragmas(sqlite)) {
        explain_problem(sqlite, sqlite3_errmsg(sqlite->db));
        return false;
    }
    /* After the pragmas: wal_autocheckpoint takes the hook away. */
    sqlite3_wal_hook(sqlite->db, note_wal_pages, sqlite);
    if (!install_schema(sqlite, ret_result))
        return false;
    bool stays = role != STORE_COMMAND;
    if (stays ? !sqlite_prepare_all(sqlite) : !sqlite_prepare_rollback(sqlite)) {
        explain_problem(sqlite, sqlite3_errmsg(sqlite->db));
        return false;
    }
    sqlite_note_wal(sqlite);
    return true;
}

static bool open_all(struct sqlite_backend *sqlite, const struct store_config *config,
                     enum store_open_result *ret_result)
{
    sqlite->medium = sqlite_medium_look(sqlite->path);
    sqlite->backend.weakness = sqlite->medium;
    if (!backend_check_weakness(&sqlite->backend, config) || !create_file(sqlite, config) ||
        !connect_file(sqlite, config) || !open_lock(sqlite))
        return false;
    if (config->role != STORE_COMMAND && !take_life(sqlite, config->role, ret_result))
        return false;
    sqlite->backend.is_alone = config->role != STORE_COMMAND;
    if (store_lock_take(&sqlite->lock, sqlite->lock_span_us) != 0) {
        explain_problem(sqlite,
                        "another pawl process has kept the store locked for too long; try again");
        return false;
    }
    bool ok = open_store_database(sqlite, config->role, ret_result);
    store_lock_free(&sqlite->lock);
    return ok;
}

struct backend *sqlite_backend_open(const struct store_config *config,
                                    enum store_open_result *ret_result, char **ret_problem)
{
    *ret_result = STORE_OPEN_FAILED;
    *ret_problem = NULL;
    /* Nobody reads SQLite's memory statistics, and they cost a lock at every allocation. Has no
     * effect once SQLite is in use. */
    if (config->owns_sqlite || config->role != STORE_COMMAND)
        sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    bool is_brief = config->role == STORE_COMMAND && config->key_run == 0;
    size_t key_run = is_brief ? COMMAND_KEY_RUN : config->key_run;
#ifdef PAWL_HOOKS
    sqlite_faults_by_environment();
    key_run = sqlite_faults_key_run(key_run);
#endif
    struct sqlite_backend *sqlite = mem_zalloc(1, sizeof *sqlite);
    char *path = mem_copy(config->path, strlen(config->path));
    if (!sqlite || !path || !sqlite_keys_init(&sqlite->keys, key_run)) {
        mem_free(sqlite);
        mem_free(path);
        return NULL;
    }
    sqlite->backend.ops = &sqlite_ops;
    sqlite->backend.outcome_max = SQLITE_OUTCOME_MAX;
    sqlite->lock.fd = -1;
    sqlite->path = path;
    /* A command writes for a moment, as the sqlite3 shell would. */
    sqlite->accepts_weaker = config->accepts_weaker || config->role == STORE_COMMAND;
    sqlite->texts = arena_make(SIZE_MAX);
    sqlite->backend.place = path;
    sqlite_tables_init(sqlite, config->tables);
    sqlite->boot_id = clock_boot_id();
    sqlite->lock_span_us = config->limits.timeout_us;
    sqlite->checkpoint_pages =
        config->checkpoint_pages ? config->checkpoint_pages : CHECKPOINT_PAGES;
    if (open_all(sqlite, config, ret_result)) {
        sqlite->lock_span_us = LOCK_SPAN_US;
        sqlite3_busy_timeout(sqlite->db, BUSY_MS);
        *ret_result = STORE_OPENED;
        return &sqlite->backend;
    }
    *ret_problem = mem_copy(sqlite->backend.problem, strlen(sqlite->backend.problem));
    /* Without a wait for the process that holds it: there is nothing of ours to checkpoint. */
    sqlite->lock_span_us = 0;
    sqlite_ops.close(&sqlite->backend);
    return NULL;
}
