/* SPDX-License-Identifier: Apache-2.0 */
#include "store/sqlite/copy.h"

#include "base/buf.h"
#include "base/check.h"
#include "base/mem.h"
#include "store/sqlite/prove.h"
#include "store/sqlite/sqlite.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define BUSY_MS 5000

static enum sqlite_copy_result fail_copy(struct sqlite_copy *copy, const char *path,
                                         const char *what)
{
    snprintf(copy->problem, sizeof copy->problem, "%s: %s", path, what);
    return SQLITE_COPY_FAILED;
}

static bool is_named(int fd, const char *path)
{
    struct stat opened, named;
    return fstat(fd, &opened) == 0 && lstat(path, &named) == 0 && opened.st_ino == named.st_ino &&
           opened.st_dev == named.st_dev;
}

/* The lock is of the open file, and ends with this process. A file system without locks keeps no
 * two apart. Whoever waited for nobody may hold a file by now that was given its name. */
static enum sqlite_copy_result open_partial(const char *path, struct sqlite_copy *copy, int *ret_fd)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return fail_copy(copy, path, strerror(errno));
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    bool is_held = fcntl(fd, F_OFD_SETLK, &all) != 0 && (errno == EAGAIN || errno == EACCES);
    if (is_held || !is_named(fd, path)) {
        close(fd);
        fail_copy(copy, path, "another copy is being made there");
        return SQLITE_COPY_IN_USE;
    }
    *ret_fd = fd;
    if (ftruncate(fd, 0) == 0)
        return SQLITE_COPY_MADE;
    return fail_copy(copy, path, strerror(errno));
}

/* What is written is synced as a whole, behind it. Its locks are ours (open_partial). */
static bool copy_pages(sqlite3 *from, const char *path, struct sqlite_copy *copy)
{
    int flags =
        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    sqlite3 *to = NULL;
    int code = sqlite3_open_v2(path, &to, flags, "unix-none");
    if (code == SQLITE_OK)
        code =
            sqlite3_exec(to, "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF", NULL, NULL, NULL);
    sqlite3_backup *backup =
        code == SQLITE_OK ? sqlite3_backup_init(to, "main", from, "main") : NULL;
    int stepped = backup ? sqlite3_backup_step(backup, -1) : SQLITE_ERROR;
    if (backup)
        sqlite3_backup_finish(backup);
    bool is_copied = stepped == SQLITE_DONE;
    if (!is_copied)
        fail_copy(copy, path, to ? sqlite3_errmsg(to) : "out of memory");
    return sqlite3_close(to) == SQLITE_OK && is_copied;
}

/* Not over a file that is there. Some file systems cannot say that in one call. */
static int give_name(const char *partial, const char *to)
{
    struct stat there;
    if (renameat2(AT_FDCWD, partial, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    if (lstat(to, &there) == 0) {
        errno = EEXIST;
        return -1;
    }
    return rename(partial, to);
}

static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? mem_copy(path, (size_t)(slash - path) + 1) : mem_copy(".", 1);
}

static bool sync_folder(const char *path)
{
    char *folder MEM_AUTO = folder_of(path);
    int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    bool is_synced = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    return is_synced;
}

/* A full disk would stop a store on it, too. */
static bool check_room(const char *to, struct sqlite_copy *copy)
{
    char *folder MEM_AUTO = folder_of(to);
    struct statvfs space;
    if (!folder || statvfs(folder, &space) != 0)
        return true; /* to open it says what is wrong */
    uint64_t free_bytes = (uint64_t)space.f_bavail * space.f_frsize;
    if (free_bytes >= (uint64_t)copy->bytes)
        return true;
    snprintf(copy->problem, sizeof copy->problem,
             "%s: the copy takes %llu MiB, and %llu are free there", to,
             (unsigned long long)copy->bytes >> 20, (unsigned long long)free_bytes >> 20);
    return false;
}

static bool write_copy(sqlite3 *from, const char *partial, const char *to, int fd,
                       struct sqlite_copy *copy)
{
    if (!copy_pages(from, partial, copy))
        return false;
    if (fsync(fd) == 0 && give_name(partial, to) == 0) {
        if (sync_folder(to))
            return true;
        (void)unlink(to);
    }
    fail_copy(copy, to, strerror(errno));
    return false;
}

static int read_moment(sqlite3 *db, struct sqlite_copy *copy)
{
    int code = sqlite_ask_number(db, "SELECT token FROM pawl_state", &copy->token);
    if (code == SQLITE_OK)
        code = sqlite_ask_number(db, "SELECT time FROM pawl_state", &copy->time);
    return code == SQLITE_OK ? sqlite_ask_file_size(db, &copy->bytes) : code;
}

static enum sqlite_copy_result copy_moment(sqlite3 *from, const char *to, struct sqlite_copy *copy)
{
    char partial[PATH_MAX];
    struct stat there;
    if ((size_t)snprintf(partial, sizeof partial, "%s.partial", to) >= sizeof partial)
        return fail_copy(copy, to, strerror(ENAMETOOLONG));
    if (lstat(to, &there) == 0)
        return fail_copy(copy, to, "it is there already, and is not replaced");
    if (!check_room(to, copy))
        return SQLITE_COPY_FAILED;
    int fd = -1;
    enum sqlite_copy_result result = open_partial(partial, copy, &fd);
    if (result == SQLITE_COPY_MADE && !write_copy(from, partial, to, fd, copy))
        result = SQLITE_COPY_FAILED;
    if (fd < 0)
        return result;
    if (result != SQLITE_COPY_MADE && is_named(fd, partial))
        (void)unlink(partial);
    close(fd);
    return result;
}

static enum sqlite_copy_result copy_database(sqlite3 *from, const char *to,
                                             struct sqlite_copy *copy)
{
    CHECK(from && sqlite3_get_autocommit(from));
    enum sqlite_copy_result result = SQLITE_COPY_FAILED;
    if (sqlite3_exec(from, "BEGIN", NULL, NULL, NULL) == SQLITE_OK &&
        read_moment(from, copy) == SQLITE_OK)
        result = copy_moment(from, to, copy);
    else
        fail_copy(copy, sqlite3_db_filename(from, "main"), sqlite3_errmsg(from));
    (void)sqlite3_exec(from, "ROLLBACK", NULL, NULL, NULL);
    return result;
}

enum sqlite_copy_result sqlite_copy_store(const char *from, const char *to,
                                          struct sqlite_copy *ret_copy)
{
    *ret_copy = (struct sqlite_copy){.bytes = 0};
    int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    int64_t format = 0;
    if (access(from, R_OK) != 0)
        return fail_copy(ret_copy, from,
                         errno == ENOENT ? "there is no store here" : strerror(errno));
    sqlite3 *db = NULL;
    int code = sqlite3_open_v2(from, &db, flags, NULL);
    const char *problem = code != SQLITE_OK ? (db ? sqlite3_errmsg(db) : "out of memory") : NULL;
    if (!problem) {
        sqlite3_busy_timeout(db, BUSY_MS);
        problem = sqlite_schema_check_kept(db, &format);
    }
    enum sqlite_copy_result result =
        problem ? fail_copy(ret_copy, from, problem) : copy_database(db, to, ret_copy);
    sqlite3_close(db);
    return result;
}

static bool compare_values(sqlite3_stmt *one, sqlite3_stmt *other, int column)
{
    int n = sqlite3_column_bytes(one, column);
    return n == sqlite3_column_bytes(other, column) &&
           (n == 0 || memcmp(sqlite3_column_blob(one, column), sqlite3_column_blob(other, column),
                             (size_t)n) == 0);
}

/* Whether the statement says the same first. */
static bool compare_first_rows(sqlite3 *one, sqlite3 *other, const char *sql)
{
    sqlite3_stmt *a = NULL, *b = NULL;
    bool is_same = sqlite3_prepare_v2(one, sql, -1, &a, NULL) == SQLITE_OK &&
                   sqlite3_prepare_v2(other, sql, -1, &b, NULL) == SQLITE_OK &&
                   sqlite3_step(a) == SQLITE_ROW && sqlite3_step(b) == SQLITE_ROW &&
                   sqlite3_column_count(a) == sqlite3_column_count(b);
    for (int i = 0; is_same && i < sqlite3_column_count(a); i++)
        is_same = compare_values(a, b, i);
    sqlite3_finalize(a);
    sqlite3_finalize(b);
    return is_same;
}

/* Whether a copy is of the store as it is: each batch changes the row of state, by its token, its
 * counts or its time. */
static bool is_of_this_moment(const char *from, const char *to)
{
    sqlite3 *store = sqlite_prove_open(from), *copy = sqlite_prove_open(to);
    bool is_same = store && copy && compare_first_rows(store, copy, "PRAGMA user_version") &&
                   compare_first_rows(store, copy, "SELECT secret FROM pawl_secret") &&
                   compare_first_rows(store, copy, "SELECT * FROM pawl_state");
    sqlite3_close(copy);
    sqlite3_close(store);
    return is_same;
}

char *sqlite_copy_name(const char *path, int64_t format)
{
    struct buf name BUF_AUTO = buf_make(SIZE_MAX);
    buf_printf(&name, "%s.before-%lld", path, (long long)format);
    return buf_ok(&name) ? mem_copy(name.at, name.len) : NULL;
}

enum sqlite_copy_result sqlite_copy_keep(const char *from, const char *to,
                                         struct sqlite_copy *ret_copy)
{
    struct stat there;
    if (lstat(to, &there) != 0)
        return sqlite_copy_store(from, to, ret_copy);
    *ret_copy = (struct sqlite_copy){.bytes = 0};
    if (is_of_this_moment(from, to))
        return SQLITE_COPY_MADE;
    return fail_copy(ret_copy, to, "it is there already, and of another moment; move it away");
}
