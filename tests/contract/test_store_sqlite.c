/* SPDX-License-Identifier: Apache-2.0 */
/* What the SQLite store promises beyond test_store.c: its file, its processes, its crashes. */
#include "store_bed.h"

#include "base/mem.h"
#include "operator/keys.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEXT_MAX 2048
#define NOBODY 65534

/* ---- the file ---- */

static void everything_is_there_after_a_reopen(void **state)
{
    struct bed *bed = *state;
    bed_open(bed);
    int64_t done = proceed(bed, 1), running = proceed(bed, 2), doubtful = proceed(bed, 3);
    finish(bed, 1, done, "kept");
    act(bed, 3, STORE_DOUBT, doubtful);
    int64_t last = proceed(bed, 4);
    struct store_op forget = write_on(4, STORE_FORGET, last);
    forget.writing.force = true;
    run(bed, &forget);
    char secret[DIGEST_SIZE];
    memcpy(secret, store_secret(bed->store).at, sizeof secret);
    bed_close(bed);
    bed_open(bed);
    assert_memory_equal(store_secret(bed->store).at, secret, sizeof secret);
    struct store_op again = begin_on(1);
    run(bed, &again);
    assert_int_equal(again.result.verdict, RECORD_REPLAY);
    assert_true(slice_eq(again.result.found->body, SLICE("kept")));
    assert_true(slice_eq(again.result.found->fields, SLICE("A: b\r\n")));
    outcome_unref(again.result.found);
    assert_int_equal(verdict(bed, 3), RECORD_OUTCOME_UNKNOWN);
    assert_int_equal(finish(bed, 2, running, "late"), RECORD_WRITTEN);
    assert_true(proceed(bed, 4) > last + 1);
    assert_int_equal(store_counts(bed->store).forgets, 1);
    assert_int_equal(check_counts(bed), 4);
}

static void a_serve_counts_leases_anew_that_a_person_deleted(void **state)
{
    struct bed *bed = *state;
    bed_open(bed);
    proceed(bed, 1);
    proceed(bed, 2);
    bed_exec(bed, "DELETE FROM pawl_pending WHERE id = (SELECT min(id) FROM pawl_pending)");
    bed_close(bed);
    bed->config.role = STORE_SERVE;
    bed_open(bed);
    assert_int_equal(bed_number(bed, "SELECT leases FROM pawl_owner"), 1);
    bed_close(bed);
    bed_exec(bed, "DELETE FROM pawl_pending");
    bed_open(bed);
    assert_int_equal(bed_number(bed, "SELECT count(*) FROM pawl_owner"), 0);
}

static void the_file_and_its_lock_are_private(void **state)
{
    struct bed *bed = *state;
    mode_t mask = umask(0);
    bed_open(bed);
    umask(mask);
    struct stat info;
    assert_int_equal(stat(bed->path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    char lock[128];
    snprintf(lock, sizeof lock, "%s-pawl", bed->path);
    assert_int_equal(stat(lock, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
}

static void a_command_that_looks_never_creates_a_store(void **state)
{
    struct bed *bed = *state;
    bed->config.read_only_file = true;
    enum store_open_result result;
    char *problem MEM_AUTO = bed_refusal(bed, &result);
    assert_int_equal(result, STORE_OPEN_FAILED);
    assert_non_null(strstr(problem, bed->path));
    assert_int_equal(access(bed->path, F_OK), -1);
}

static struct digest digest_of_file(const char *path)
{
    static char bytes[65536];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t n = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    return digest_of(slice_make(bytes, n));
}

static void refuse_unchanged(struct bed *bed, const char *word)
{
    struct digest before = digest_of_file(bed->path);
    enum store_open_result result;
    char *problem MEM_AUTO = bed_refusal(bed, &result);
    assert_int_equal(result, STORE_OPEN_FAILED);
    assert_non_null(strstr(problem, bed->path));
    if (!strstr(problem, word))
        fail_msg("%s", problem);
    assert_null(strchr(problem, '\n'));
    struct digest after = digest_of_file(bed->path);
    assert_true(digest_eq(&before, &after));
}

static void another_program_s_database_is_refused_unchanged(void **state)
{
    struct bed *bed = *state;
    bed_exec(bed, "CREATE TABLE theirs(x); INSERT INTO theirs VALUES(1)");
    refuse_unchanged(bed, "another program");
}

static void a_newer_pawl_s_store_is_refused_unchanged(void **state)
{
    struct bed *bed = *state;
    bed_open(bed);
    bed_close(bed);
    bed_exec(bed, "PRAGMA user_version=99");
    refuse_unchanged(bed, "newer pawl");
}

static void what_is_no_database_is_refused_unchanged(void **state)
{
    struct bed *bed = *state;
    FILE *file = fopen(bed->path, "w");
    for (int i = 0; i < 200; i++)
        fputs("dear diary, today was a good day\n", file);
    fclose(file);
    refuse_unchanged(bed, "not an SQLite database");
}

static void a_directory_or_a_device_is_refused_by_name(void **state)
{
    struct bed *bed = *state;
    const char *const paths[] = {bed->dir, "/dev/null", "/no/such/place/pawl.db"};
    for (size_t i = 0; i < 3; i++) {
        bed->config.path = paths[i];
        enum store_open_result result;
        char *problem MEM_AUTO = bed_refusal(bed, &result);
        assert_int_equal(result, STORE_OPEN_FAILED);
        assert_non_null(strstr(problem, paths[i]));
    }
    bed->config.path = bed->path;
}

static void a_file_that_may_not_be_written_is_refused_by_name(void **state)
{
    struct bed *bed = *state;
    bed_open(bed);
    bed_close(bed);
    chmod(bed->path, 0400);
    chmod(bed->dir, 0755);
    /* Root may write everything: as nobody, then. */
    bool is_root = geteuid() == 0;
    assert_int_equal(is_root ? seteuid(NOBODY) : 0, 0);
    enum store_open_result result;
    char *problem MEM_AUTO = bed_refusal(bed, &result);
    assert_int_equal(is_root ? seteuid(0) : 0, 0);
    assert_int_equal(result, STORE_OPEN_FAILED);
    assert_non_null(strstr(problem, bed->path));
}

/* found: D-P5 */
static void a_record_named_in_full_is_found_without_a_scan(void **state)
{
    struct bed *bed = *state;
    bed_open(bed);
    struct store_op op = begin_on(1);
    op.key_hash = store_key_hash(bed->store, op.arrival.tenant, op.arrival.rule, op.arrival.key);
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    struct keys_wanted wanted = {
        .tenant = op.arrival.tenant, .rule = op.arrival.rule, .key = op.arrival.key, .limit = 2};
    struct keys_found found = {0};
    uint64_t before = store_counts(bed->store).work.reads;
    assert_int_equal(keys_list(bed->store, &wanted, &bed->parker.parker, &found), STORE_DONE);
    assert_int_equal(found.n, 1);
    assert_true(slice_eq(found.first->store.key, op.arrival.key));
    assert_in_range(store_counts(bed->store).work.reads - before, 1, 2);
    keys_found_fini(&found);
}

static int column_names(void *argument, int n, char **values, char **names)
{
    (void)values;
    struct buf *text = argument;
    for (int i = 0; i < n; i++) {
        buf_add_str(text, i ? " " : "");
        buf_add_str(text, names[i]);
    }
    return 1;
}

static int row_text(void *argument, int n, char **values, char **names)
{
    (void)names;
    struct buf *text = argument;
    for (int i = 0; i < n; i++) {
        buf_add_str(text, values[i] ? values[i] : "NULL");
        buf_add_str(text, i + 1 < n ? "|" : "\n");
    }
    return 0;
}

static void the_view_has_the_promised_columns_and_values(void **state)
{
    struct bed *bed = *state;
    bed_open(bed);
    int64_t token = proceed(bed, 1);
    struct outcome *outcome = outcome_new(201, false, SLICE("Location: /r/1\r\n"), SLICE("body"));
    struct store_op op = write_on(1, STORE_FINISH, token);
    op.writing.outcome = outcome;
    op.writing.keeps = true;
    run(bed, &op);
    outcome_unref(outcome);
    op = begin_on(2);
    op.begin.ttl_us = CLOCK_NEVER;
    run(bed, &op);
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(bed->path, &db), SQLITE_OK);
    struct buf names BUF_AUTO = buf_make(TEXT_MAX);
    struct buf rows BUF_AUTO = buf_make(TEXT_MAX);
    sqlite3_exec(db, "SELECT * FROM idempotency_keys", column_names, &names, NULL);
    buf_add_char(&names, 0);
    assert_string_equal(names.at,
                        "key payload_hash status result_ref http_code created_at expires_at"
                        " tenant rule completed_at target_hash token attempts");
    sqlite3_exec(db,
                 "SELECT key, length(payload_hash), status, result_ref, http_code,"
                 " created_at GLOB '20[0-9][0-9]-[0-1][0-9]-[0-3][0-9]T*:*:*.[0-9][0-9][0-9]Z',"
                 " CASE WHEN expires_at IS NULL THEN 'forever' ELSE expires_at > created_at END,"
                 " tenant, rule, completed_at >= created_at, attempts"
                 " FROM idempotency_keys ORDER BY token",
                 row_text, &rows, NULL);
    buf_add_char(&rows, 0);
    sqlite3_close(db);
    assert_string_equal(rows.at, "key|64|complete|/r/1|201|1|1|tenant|rule|1|1\n"
                                 "key|64|pending|NULL|NULL|1|forever|tenant|rule|NULL|1\n");
}

/* ---- other processes ---- */

/* And one of another role is not. */
static void refuse_a_second(struct bed *bed, enum store_role role, enum store_role other)
{
    struct bed second;
    bed->config.role = role;
    bed_open(bed);
    bed_share(bed, &second);
    second.config.role = role;
    enum store_open_result result;
    char *problem MEM_AUTO = bed_refusal(&second, &result);
    assert_int_equal(result, STORE_OPEN_IN_USE);
    char pid[32];
    snprintf(pid, sizeof pid, "(pid %ld)", (long)getpid());
    assert_non_null(strstr(problem, pid));
    second.config.role = other;
    bed_open(&second);
    assert_int_equal(store_is_alone(second.store), other != STORE_COMMAND);
    proceed(&second, 1);
    close_other(&second);
    assert_int_equal(verdict(bed, 1),
                     other == STORE_COMMAND ? RECORD_IN_PROGRESS : RECORD_OUTCOME_UNKNOWN);
}

static void a_second_serve_is_refused_with_the_pid_of_the_first(void **state)
{
    refuse_a_second(*state, STORE_SERVE, STORE_COMMAND);
}

/* found: the caller waited for a holder that there was not. A pipe takes locks, and no pid. */
static void a_lock_file_that_fails_is_not_a_store_in_use(void **state)
{
    struct bed *bed = *state;
    char name[512];
    bed_open(bed);
    bed_close(bed);
    snprintf(name, sizeof name, "%s-pawl", bed->config.path);
    unlink(name);
    assert_int_equal(mkfifo(name, 0600), 0);
    enum store_open_result result;
    bed->config.role = STORE_SERVE;
    char *problem MEM_AUTO = bed_refusal(bed, &result);
    assert_int_equal(result, STORE_OPEN_FAILED);
    assert_non_null(strstr(problem, strerror(ESPIPE)));
    unlink(name);
    bed_open(bed);
}

static void a_second_drainer_is_refused_with_the_pid_of_the_first_and_a_serve_is_not(void **state)
{
    refuse_a_second(*state, STORE_DRAINER, STORE_SERVE);
}

/* Runs `work` in a child that never returns from it by itself. */
static pid_t child_of(struct bed *bed, void (*work)(struct bed *bed, int fd), int fd)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        work(bed, fd);
        _exit(0);
    }
    return pid;
}

static void kill_child(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* In the role of the bed. */
static void begin_and_hold(struct bed *bed, int fd)
{
    bed_open(bed);
    struct store_op retried = begin_on(2);
    retried.begin.unknown = RECORD_UNKNOWN_RETRY;
    run(bed, &retried);
    struct store_op held = begin_on(3);
    run(bed, &held);
    if (write(fd, "x", 1) != 1)
        _exit(1);
    pause();
}

static void kill_one(struct bed *bed, enum store_role role)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    bed->config.role = role;
    pid_t pid = child_of(bed, begin_and_hold, ends[1]);
    bed->config.role = STORE_COMMAND;
    char told;
    assert_int_equal(read(ends[0], &told, 1), 1);
    close(ends[0]);
    close(ends[1]);
    bed_open(bed);
    proceed(bed, 1);
    bed_close(bed);
    bed_open(bed);
    struct store_op op = begin_on(2);
    op.begin.unknown = RECORD_UNKNOWN_RETRY;
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_IN_PROGRESS);
    kill_child(pid);
    op = begin_on(2);
    op.begin.unknown = RECORD_UNKNOWN_RETRY;
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    assert_int_equal(verdict(bed, 3), RECORD_OUTCOME_UNKNOWN);
    assert_int_equal(verdict(bed, 1), RECORD_IN_PROGRESS);
    bed_close(bed);
    bed->config.role = role;
    bed_open(bed);
    assert_int_equal(look(bed, 2).token, op.result.record.token);
}

static void a_killed_serve_lapses_at_once_and_others_by_their_lease(void **state)
{
    kill_one(*state, STORE_SERVE);
}

static void a_killed_drainer_lapses_at_once_and_others_by_their_lease(void **state)
{
    kill_one(*state, STORE_DRAINER);
}

static void a_drainer_that_was_killed_before_the_last_one_is_dead_beside_it(void **state)
{
    struct bed *bed = *state, next;
    bed->config.role = STORE_DRAINER;
    bed_open(bed);
    int64_t token = proceed(bed, 1);
    bed_close(bed);
    bed_share(bed, &next);
    next.config.role = STORE_DRAINER;
    bed_open(&next);
    proceed(&next, 2);
    bed->config.role = STORE_COMMAND;
    bed_open(bed);
    assert_int_equal(look(bed, 1).token, token);
    assert_int_not_equal(look(bed, 1).lapsed_at, 0);
    assert_int_equal(look(bed, 2).lapsed_at, 0);
    assert_int_equal(look(&next, 2).lapsed_at, 0);
    close_other(&next);
    assert_int_not_equal(look(bed, 2).lapsed_at, 0);
    assert_int_equal(check_counts(bed), 2);
}

/* Another process comes and goes: it is the last one, as far as it can see, or it is not. */
static void open_and_close_when_told(struct bed *bed, int fd)
{
    char told;
    if (read(fd, &told, 1) != 1)
        _exit(1);
    bed_open(bed);
    proceed(bed, 2);
    bed_close(bed);
}

/* POSIX takes all locks of a process on a file away when it closes any of its descriptors; SQLite
 * keeps its log for as long as anybody's lock says that it is in use. */
static void a_store_opened_twice_by_one_process_is_still_one_to_others(void **state)
{
    struct bed *bed = *state, second;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = child_of(bed, open_and_close_when_told, ends[0]);
    bed_open(bed);
    proceed(bed, 1);
    open_other(bed, &second);
    assert_int_equal(write(ends[1], "x", 1), 1);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    close(ends[0]);
    close(ends[1]);
    proceed(bed, 3);
    proceed(&second, 4);
    assert_int_equal(bed_number(bed, "SELECT count(*) FROM pawl_pending"), 4);
    close_other(&second);
    for (uint64_t key = 1; key <= 4; key++)
        assert_int_equal(verdict(bed, key), RECORD_IN_PROGRESS);
    bed_close(bed);
    bed_open(bed);
    for (uint64_t key = 1; key <= 4; key++)
        assert_int_equal(verdict(bed, key), RECORD_IN_PROGRESS);
}

#ifdef PAWL_HOOKS
enum { BYTE_TURNSTILE, BYTE_BATCH }; /* of the lock file (store/sqlite/lock.c) */

static bool lock_byte(int fd, int command, short type, off_t byte)
{
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    assert_int_equal(fcntl(fd, command, &range), 0);
    return range.l_type != F_UNLCK;
}

/* Another process holds the store while a batch of ours waits for it; each adds to what the store
 * takes for the time, so it must not be the wait. */
static void the_time_that_a_batch_waits_for_the_store_is_not_counted_twice(void **state)
{
    struct bed *bed = *state;
    char path[128];
    snprintf(path, sizeof path, "%s-pawl", bed->path);
    int64_t now = clock_wall_us();
    clock_test_set(now, now);
    bed_open(bed);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    proceed(bed, 1);
    for (uint64_t key = 2; key < 5; key++) {
        struct store_op op = begin_on(key);
        while (lock_byte(fd, F_OFD_GETLK, F_WRLCK, BYTE_BATCH))
            usleep(200);
        lock_byte(fd, F_OFD_SETLK, F_WRLCK, BYTE_BATCH);
        submit(bed, &op);
        while (!lock_byte(fd, F_OFD_GETLK, F_WRLCK, BYTE_TURNSTILE))
            usleep(200);
        now += SECOND / 10;
        clock_test_set(now, now);
        lock_byte(fd, F_OFD_SETLK, F_UNLCK, BYTE_BATCH);
        await(bed, &op);
        assert_int_equal(op.result.store_now, now);
        assert_int_equal(store_now(bed->store), now);
    }
    close(fd);
    assert_int_equal(bed_number(bed, "SELECT time - time_boot FROM pawl_state"), 0);
}
#endif

/* ---- crashes ---- */

#define CRASHES 12
#define KEYS_MOST 100000

struct ack {
    uint64_t key;
    int64_t token;
    int64_t finished;
};

static void work_until_killed(struct bed *bed, int fd)
{
    bed_open(bed);
    int64_t base = store_counts(bed->store).complete + store_counts(bed->store).pending;
    for (uint64_t key = (uint64_t)base; key < KEYS_MOST; key++) {
        struct store_op op = begin_on(key);
        run(bed, &op);
        struct ack ack = {.key = key, .token = op.result.record.token};
        if (op.result.verdict != RECORD_PROCEED || write(fd, &ack, sizeof ack) != sizeof ack)
            _exit(1);
        ack.finished = finish(bed, key, ack.token, "body") == RECORD_WRITTEN;
        if (!ack.finished || write(fd, &ack, sizeof ack) != sizeof ack)
            _exit(1);
    }
}

static void check_acked(struct bed *bed, const struct ack *ack, int64_t *highest)
{
    struct record record = look(bed, ack->key);
    assert_int_equal(record.token, ack->token);
    if (ack->finished)
        assert_int_equal(record.status, RECORD_COMPLETE);
    else
        assert_true(record.status == RECORD_COMPLETE || record.status == RECORD_PENDING);
    if (ack->token > *highest)
        *highest = ack->token;
}

static size_t read_and_check_acks(struct bed *bed, int fd, int64_t *highest)
{
    struct ack ack;
    size_t n = 0;
    for (; read(fd, &ack, sizeof ack) == (ssize_t)sizeof ack; n++)
        check_acked(bed, &ack, highest);
    return n;
}

static void nothing_acknowledged_is_lost_by_a_kill_at_any_moment(void **state)
{
    struct bed *bed = *state;
    bed->config.key_run = 16; /* a merge is always under way */
    size_t acks = 0;
    int64_t highest = 0;
    for (unsigned i = 0; i < CRASHES; i++) {
        int ends[2];
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        pid_t pid = child_of(bed, work_until_killed, ends[1]);
        close(ends[1]);
        if (i % 2 == 0) /* else also before it has done anything */
            assert_int_equal(poll(&(struct pollfd){.fd = ends[0], .events = POLLIN}, 1, 60000), 1);
        usleep(5000 + 3777 * i);
        kill_child(pid);
        bed_open(bed);
        acks += read_and_check_acks(bed, ends[0], &highest);
        close(ends[0]);
        check_counts(bed);
        int64_t token = proceed(bed, KEYS_MOST + i);
        assert_true(token > highest);
        bed_close(bed);
    }
    assert_true(acks >= CRASHES / 2);
}

#define T(name) BED_TEST_AFTER(name, bed_set_up_closed)

int main(void)
{
    struct CMUnitTest tests[] = {
        T(everything_is_there_after_a_reopen),
        T(a_serve_counts_leases_anew_that_a_person_deleted),
        T(the_file_and_its_lock_are_private),
        T(a_command_that_looks_never_creates_a_store),
        T(another_program_s_database_is_refused_unchanged),
        T(a_newer_pawl_s_store_is_refused_unchanged),
        T(what_is_no_database_is_refused_unchanged),
        T(a_directory_or_a_device_is_refused_by_name),
        T(a_file_that_may_not_be_written_is_refused_by_name),
        T(a_record_named_in_full_is_found_without_a_scan),
        T(the_view_has_the_promised_columns_and_values),
        T(a_second_serve_is_refused_with_the_pid_of_the_first),
        T(a_lock_file_that_fails_is_not_a_store_in_use),
        T(a_second_drainer_is_refused_with_the_pid_of_the_first_and_a_serve_is_not),
        T(a_killed_serve_lapses_at_once_and_others_by_their_lease),
        T(a_killed_drainer_lapses_at_once_and_others_by_their_lease),
        T(a_drainer_that_was_killed_before_the_last_one_is_dead_beside_it),
        T(a_store_opened_twice_by_one_process_is_still_one_to_others),
#ifdef PAWL_HOOKS
        T(the_time_that_a_batch_waits_for_the_store_is_not_counted_twice),
#endif
        T(nothing_acknowledged_is_lost_by_a_kill_at_any_moment),
    };
    return bed_run_on(BED_SQLITE, tests, sizeof tests / sizeof *tests);
}
