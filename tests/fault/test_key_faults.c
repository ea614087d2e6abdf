/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several processes at work on one store at the same time, each with runs of keys of another size,
 * while everything below them fails and they are killed; against a model in memory. No key is ever
 * missed: who is told to proceed on one was right to.
 *
 * The driver opens nothing itself. What nobody was told is read from the tables afterwards, without
 * the index of keys. PAWL_KEYS_SEED, PAWL_KEYS_ROUNDS: another run, or a longer one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "key_worker.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORKERS 3
#define ROUNDS 1000
#define LOOK_EACH 40 /* rounds */

/* How a key stands in the tables. */
struct standing {
    int64_t rows;
    int64_t token;
    int64_t status;
    int64_t gone_at;
    bool released;
};

struct worker {
    struct desk *desk;
    pid_t pid; /* 0: none */
    int to;
    int from;
};

struct play {
    char dir[64];
    char path[96];
    uint64_t seed;
    uint64_t random;
    int64_t now;
    unsigned nap;                /* rounds, of all workers, that the first one still sleeps */
    struct standing model[KEYS]; /* rows: 0 or 1 */
    unsigned taken[KEYS];        /* by whose orders of this round: 1 + worker; 0: nobody's */
    struct standing *truth;      /* shared: of each key; and rows too many, and the store's time */
    struct worker workers[WORKERS];
    long told;
    long untold;
    long deaths;
};

static unsigned draw(struct play *play, unsigned below)
{
    play->random = play->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(play->random >> 33) % below;
}

static void hire(struct play *play, unsigned w)
{
    static const size_t runs[] = {1, 2, 3, 7, 1, 20, 64, 20, 64}; /* keys */
    struct worker *worker = &play->workers[w];
    int down[2], up[2];
    /* The first one has a filter, as the index is larger than its runs. */
    unsigned run = w == 0 ? draw(play, 4) : 3 + draw(play, 6);
    worker->desk->key_run = runs[run];
    assert_int_equal(pipe(down) | pipe(up), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        /* Whoever keeps an end of another worker's pipe would hide its death. */
        for (unsigned i = 0; i < WORKERS; i++)
            if (i != w && play->workers[i].pid) {
                close(play->workers[i].to);
                close(play->workers[i].from);
            }
        close(down[1]);
        close(up[0]);
        work(worker->desk, play->path, down[0], up[1]);
    }
    close(down[0]);
    close(up[1]);
    worker->pid = pid;
    worker->to = down[1];
    worker->from = up[0];
}

/* Its end: by a kill of its own, or because it is hung up on. */
static void dismiss(struct worker *worker, bool was_killed)
{
    int status = 0;
    close(worker->to);
    close(worker->from);
    assert_int_equal(waitpid(worker->pid, &status, 0), worker->pid);
    worker->pid = 0;
    bool by_kill = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    bool by_itself = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    assert_true(was_killed ? by_kill : by_itself);
}

static bool lives(const struct standing *standing, int64_t now)
{
    return standing->rows > 0 && standing->gone_at > now;
}

static void order(struct play *play, unsigned w, const struct order *order)
{
    struct desk *desk = play->workers[w].desk;
    assert_true(desk->n < ORDERS_MAX);
    desk->orders[desk->n++] = *order;
    play->taken[order->key] = w + 1;
    if (order->former != NONE)
        play->taken[order->former] = w + 1;
}

static struct order begin_on(struct play *play, unsigned key)
{
    static const int64_t ttls[] = {20 * SECOND, 200 * SECOND, CLOCK_NEVER};
    return (struct order){
        .kind = STORE_BEGIN, .key = key, .former = NONE, .ttl_us = ttls[draw(play, 3)]};
}

/* Something that makes sense for the key, and sometimes two things in one batch. */
static void order_some(struct play *play, unsigned w, unsigned key)
{
    const struct standing *known = &play->model[key];
    struct order begin = begin_on(play, key), act = begin;
    unsigned former = draw(play, KEYS);
    act.token = known->token;
    if (known->rows == 0 || known->released || draw(play, 3) == 0) {
        if (draw(play, 4) == 0 && former != key && !play->taken[former])
            begin.former = former;
        order(play, w, &begin);
        if (draw(play, 4) == 0 && begin.former == NONE)
            order(play, w, &begin);
    } else if (known->status == RECORD_PENDING && draw(play, 3) > 0) {
        act.kind = draw(play, 4) == 0 ? STORE_RELEASE : STORE_FINISH;
        order(play, w, &act);
    } else {
        act.kind = STORE_FORGET;
        order(play, w, &act);
        /* Without space what reads goes first, and meets the record that is yet to be forgotten. */
        if (draw(play, 2) == 0 && play->workers[w].desk->harm != HARM_FULL)
            order(play, w, &begin);
    }
}

/* The first worker is never stopped, so that its filter has seen all; the others come and go. */
static void choose_harm(struct play *play, unsigned w)
{
    static const enum harm harms[] = {HARM_NONE,   HARM_FULL, HARM_SQLITE_MEMORY,
                                      HARM_MEMORY, HARM_NONE, HARM_NONE,
                                      HARM_IO,     HARM_KILL};
    struct desk *desk = play->workers[w].desk;
    /* At first the file is made. */
    unsigned choice = play->told ? (unsigned)(sizeof harms / sizeof *harms) : 1;
    desk->harm = harms[draw(play, w == 0 && choice > 1 ? 4 : choice)];
    desk->harm_at = 1 + draw(play, draw(play, 2) ? 12 : 120);
    desk->close_after = w > 0 && draw(play, 12) == 0;
}

static void write_orders(struct play *play, unsigned w, bool look)
{
    struct desk *desk = play->workers[w].desk;
    desk->n = 0;
    desk->now = play->now;
    if (look) {
        desk->harm = HARM_NONE;
        for (unsigned key = 0; key < KEYS; key++)
            order(play, w, &(struct order){.kind = STORE_LOOK, .key = key, .former = NONE});
        return;
    }
    choose_harm(play, w);
    /* The first one sleeps now and then, for as long as the others take to log a run and merge it;
     * between that its filter becomes whole. */
    play->nap = play->nap > 0 ? play->nap - 1 : draw(play, 90) == 0 ? 1 + draw(play, 60) : 0;
    bool sleeps = w == 0 ? play->nap > 0 : draw(play, 2) == 0;
    unsigned wanted = draw(play, 8) == 0 ? 60 : 1 + draw(play, 6);
    if (sleeps)
        wanted = 0;
    for (unsigned i = 0; i < wanted; i++) {
        unsigned key = draw(play, KEYS);
        if (!play->taken[key])
            order_some(play, w, key);
    }
}

/* ---- what must have been said ---- */

static void remember(struct standing *known, const struct record *record)
{
    *known = (struct standing){
        .rows = 1, .token = record->token, .status = record->status, .gone_at = CLOCK_NEVER};
    known->released = record->status == RECORD_PENDING && record->lease_until == 0;
    if (known->released)
        known->gone_at = record->expires_at;
    if (record->status == RECORD_COMPLETE)
        known->gone_at = record->gone_at;
}

static void check_begin(struct play *play, const struct order *order)
{
    struct standing *own = &play->model[order->key];
    struct standing *known = own;
    if (order->former != NONE && !lives(own, order->at) &&
        lives(&play->model[order->former], order->at))
        known = &play->model[order->former];
    assert_int_equal(order->under_former, known != own);
    enum record_verdict due = RECORD_PROCEED;
    if (lives(known, order->at) && !known->released)
        due = known->status == RECORD_PENDING ? RECORD_IN_PROGRESS : RECORD_RESULT_NOT_KEPT;
    if (order->verdict != due)
        fail_msg("key %u: told %d, and %d is true (seed %llu)", order->key, (int)order->verdict,
                 (int)due, (unsigned long long)play->seed);
    if (due == RECORD_PROCEED)
        assert_true(order->record.token > known->token);
    else
        assert_int_equal(order->record.token, known->token);
    remember(known, &order->record);
}

static void check_told(struct play *play, const struct order *order)
{
    struct standing *known = &play->model[order->key];
    bool lived = lives(known, order->at);
    play->told++;
    if (order->kind == STORE_BEGIN) {
        check_begin(play, order);
        return;
    }
    if (order->kind == STORE_LOOK) {
        assert_int_equal(order->record.status, lived ? known->status : RECORD_ABSENT);
        assert_true(!lived || order->record.token == known->token);
        return;
    }
    if (!lived)
        return;
    assert_int_equal(order->write, RECORD_WRITTEN);
    if (order->kind == STORE_FORGET)
        *known = (struct standing){.token = known->token};
    else
        remember(known, &order->record);
}

/* ---- the tables themselves ---- */

static const char rows_of_key[] =
    "SELECT count(*), max(token), max(status), max(gone), max(released) FROM"
    " (SELECT token, status, ifnull(expires_at, 9223372036854775807) AS gone,"
    "   expires_at IS NOT NULL AS released FROM pawl_pending WHERE key_hash = ?1"
    "  UNION ALL SELECT token, status, gone_at, 0 FROM pawl_outcome WHERE key_hash = ?1)";

static int64_t number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *s = NULL;
    int64_t value = -1;
    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW)
        value = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return value;
}

static void read_tables(struct play *play)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *s = NULL;
    /* What a failed sync left in the log might come back; a commit lies over it for good. */
    static const char pin[] = "PRAGMA wal_autocheckpoint=0; UPDATE pawl_state SET token=token";
    if (sqlite3_open(play->path, &db) != SQLITE_OK ||
        sqlite3_busy_timeout(db, 10000) != SQLITE_OK ||
        sqlite3_exec(db, pin, NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(db, rows_of_key, -1, &s, NULL) != SQLITE_OK)
        _exit(1);
    for (unsigned key = 0; key < KEYS; key++) {
        struct digest hash = key_hash(key);
        sqlite3_bind_blob(s, 1, hash.bytes, DIGEST_SIZE, SQLITE_STATIC);
        if (sqlite3_step(s) != SQLITE_ROW)
            _exit(1);
        play->truth[key] = (struct standing){
            .rows = sqlite3_column_int64(s, 0),
            .token = sqlite3_column_int64(s, 1),
            .status = sqlite3_column_int64(s, 2),
            .gone_at = sqlite3_column_int64(s, 3),
            .released = sqlite3_column_int(s, 4),
        };
        sqlite3_reset(s);
    }
    sqlite3_finalize(s);
    play->truth[KEYS].rows =
        number(db, "SELECT (SELECT pending + complete + failed + unknown FROM pawl_state)"
                   " - (SELECT count(*) FROM pawl_pending) - (SELECT count(*) FROM pawl_outcome)");
    play->truth[KEYS].gone_at = number(db, "SELECT time FROM pawl_state");
    sqlite3_close(db);
    _exit(0);
}

static void look_at_tables(struct play *play)
{
    int status = 0;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        read_tables(play);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(play->truth[KEYS].rows, 0);
    for (unsigned key = 0; key < KEYS; key++)
        if (play->truth[key].rows > 1)
            fail_msg("key %u has two rows (seed %llu)", key, (unsigned long long)play->seed);
}

static bool may_end(const struct desk *desk, unsigned key)
{
    for (size_t i = 0; i < desk->n; i++)
        if (desk->orders[i].key == key && desk->orders[i].kind == STORE_FORGET)
            return true;
    return false;
}

/* Nobody was told how it ended: either way is right, but nothing that lives has gone by itself. */
static void adopt(struct play *play, const struct desk *desk, unsigned key)
{
    struct standing *known = &play->model[key], *truth = &play->truth[key];
    bool stays = lives(known, play->truth[KEYS].gone_at) && !known->released && !may_end(desk, key);
    if (stays && (truth->rows != 1 || truth->token != known->token))
        fail_msg("key %u was lost (seed %llu)", key, (unsigned long long)play->seed);
    int64_t token = known->token > truth->token ? known->token : truth->token;
    *known = *truth;
    known->token = token;
    play->untold++;
}

static bool is_told(const struct desk *desk, unsigned key)
{
    for (size_t i = 0; i < desk->n; i++)
        if ((desk->orders[i].key == key || desk->orders[i].former == key) && !desk->orders[i].told)
            return false;
    return true;
}

static void settle(struct play *play, const struct desk *desk)
{
    bool looked = false;
    for (size_t i = 0; i < desk->n; i++) {
        const struct order *order = &desk->orders[i];
        if (order->told && is_told(desk, order->key))
            check_told(play, order);
        if (!order->told && !looked)
            look_at_tables(play);
        looked |= !order->told;
    }
    for (unsigned key = 0; key < KEYS; key++)
        if (!is_told(desk, key))
            adopt(play, desk, key);
}

static void one_round(struct play *play, bool look)
{
    memset(play->taken, 0, sizeof play->taken);
    for (unsigned w = 0; w < WORKERS; w++) {
        if (!play->workers[w].pid)
            hire(play, w);
        write_orders(play, w, look);
    }
    for (unsigned w = 0; w < WORKERS; w++)
        if (play->workers[w].desk->n > 0)
            assert_int_equal(write(play->workers[w].to, "x", 1), 1);
    for (unsigned w = 0; w < WORKERS; w++) {
        struct worker *worker = &play->workers[w];
        char byte;
        if (worker->desk->n > 0 && read(worker->from, &byte, 1) != 1) {
            assert_int_equal(worker->desk->harm, HARM_KILL);
            dismiss(worker, true);
            play->deaths++;
        }
        play->now = worker->desk->now > play->now ? worker->desk->now : play->now;
    }
    for (unsigned w = 0; w < WORKERS; w++)
        settle(play, play->workers[w].desk);
}

static void *shared(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(at != MAP_FAILED);
    return at;
}

static uint64_t given(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    uint64_t value = otherwise;
    if (text)
        assert_true(slice_to_u64(slice_of(text), INT32_MAX, &value));
    return value;
}

static void play_init(struct play *play)
{
    const char *place = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    *play = (struct play){.seed = given("PAWL_KEYS_SEED", 1), .now = EPOCH};
    play->random = play->seed;
    snprintf(play->dir, sizeof play->dir, "%s/pawl-keys-XXXXXX", place);
    assert_non_null(mkdtemp(play->dir));
    snprintf(play->path, sizeof play->path, "%s/pawl.db", play->dir);
    play->truth = shared((KEYS + 1) * sizeof *play->truth);
    for (unsigned w = 0; w < WORKERS; w++)
        play->workers[w].desk = shared(sizeof *play->workers[w].desk);
}

static void play_fini(struct play *play)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-pawl"};
    for (unsigned w = 0; w < WORKERS; w++) {
        if (play->workers[w].pid)
            dismiss(&play->workers[w], false);
        munmap(play->workers[w].desk, sizeof *play->workers[w].desk);
    }
    munmap(play->truth, (KEYS + 1) * sizeof *play->truth);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s%s", play->path, suffixes[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(play->dir), 0);
}

static void no_key_is_missed_whatever_fails_and_whoever_is_killed(void **state)
{
    (void)state;
    static struct play play;
    play_init(&play);
    uint64_t rounds = given("PAWL_KEYS_ROUNDS", ROUNDS);
    for (uint64_t i = 1; i <= rounds; i++) {
        one_round(&play, i % LOOK_EACH == 0);
        play.now += (int64_t)draw(&play, 4) * SECOND;
    }
    look_at_tables(&play);
    print_message("seed %llu: %ld told, %ld untold, %ld killed\n", (unsigned long long)play.seed,
                  play.told, play.untold, play.deaths);
    assert_true(play.deaths > 0 && play.untold > 0);
    play_fini(&play);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_key_is_missed_whatever_fails_and_whoever_is_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
