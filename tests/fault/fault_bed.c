/* SPDX-License-Identifier: Apache-2.0 */
#include "fault_bed.h"

#include "base/crypto/random.h"
#include "base/mem.h"
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EPOCH (INT64_C(1700000000) * SECOND)
#define STEP (SECOND / 10)
#define TURNS 2000
#define LARGE ((size_t)60000)
#define PACKED ((size_t)6000)

static void clock_to(struct fault_bed *bed, int64_t now)
{
    bed->now = now;
    clock_test_set(now, now - EPOCH + SECOND);
}

static void stop(void *argument, const char *what)
{
    struct fault_bed *bed = argument;
    bed->dead = true;
    snprintf(bed->why, sizeof bed->why, "%s", what);
}

static bool step_or_wait(struct parker *parker, int64_t deadline_us)
{
    (void)deadline_us;
    struct fault_bed *bed =
        (struct fault_bed *)(void *)((char *)parker - offsetof(struct fault_bed, parker));
    if (!store_step(bed->store))
        clock_to(bed, bed->now + STEP);
    return true;
}

static void wake(struct parker *parker)
{
    (void)parker;
}

void fault_bed_init(struct fault_bed *bed)
{
    *bed = (struct fault_bed){.config = store_config_default(),
                              .parker = {.park = step_or_wait, .wake = wake}};
    /* In memory where there is such a place: thousands of runs sync. */
    const char *place = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(bed->dir, sizeof bed->dir, "%s/pawl-fault-XXXXXX", place);
    assert_non_null(mkdtemp(bed->dir));
    snprintf(bed->path, sizeof bed->path, "%s/pawl.db", bed->dir);
    bed->config.path = bed->path;
    bed->config.role = STORE_SERVE;
    bed->config.no_thread = true;
    bed->config.limits.disk_reserve = 1;
    bed->config.checkpoint_pages = 24;
    bed->config.key_run = 3;
    bed->config.fail_stop = stop;
    bed->config.fail_stop_argument = bed;
    clock_to(bed, EPOCH);
}

void fault_bed_fini(struct fault_bed *bed)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-pawl", "-journal", ".before-1"};
    fault_bed_close(bed);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s%s", bed->path, suffixes[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(bed->dir), 0);
    clock_test_set(0, 0);
}

bool fault_bed_open(struct fault_bed *bed)
{
    char *problem MEM_AUTO = NULL;
    bed->dead = false;
    if (store_open(&bed->config, &bed->store, &problem) == STORE_OPENED)
        return true;
    bed->store = NULL;
    snprintf(bed->why, sizeof bed->why, "%s", problem ? problem : "out of memory");
    return false;
}

void fault_bed_close(struct fault_bed *bed)
{
    store_close(bed->store);
    bed->store = NULL;
}

void fault_bed_run(struct fault_bed *bed, struct store_op *op)
{
    op->parker = &bed->parker;
    store_submit(bed->store, op);
    for (int turn = 0; !store_op_ended(op); turn++) {
        assert_in_range(turn, 0, TURNS);
        step_or_wait(&bed->parker, CLOCK_NEVER);
    }
}

/* ---- what is done with one key ---- */

static struct digest key_of(uint64_t key)
{
    return digest_of(slice_make(&key, sizeof key));
}

static struct store_op begin_on(uint64_t key, int64_t ttl_us)
{
    struct store_op op = {.kind = STORE_BEGIN,
                          .key_hash = key_of(key),
                          .arrival.tenant = SLICE("tenant"),
                          .arrival.rule = SLICE("rule"),
                          .arrival.key = SLICE("key"),
                          .arrival.recipe = SLICE("recipe"),
                          .begin = {.lease_us = LEASE, .ttl_us = ttl_us}};
    random_bytes(op.begin.attempt_id, sizeof op.begin.attempt_id);
    return op;
}

/* The answer of a key: of three one is large and nothing makes it small, and one is packed. */
static struct outcome *outcome_of(uint64_t key)
{
    static char bytes[LARGE];
    uint64_t x = key + 1;
    size_t len = key % 3 == 1 ? LARGE : key % 3 == 2 ? PACKED : 40;
    for (size_t i = 0; i < len; i++) {
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        bytes[i] = key % 3 == 2 ? (char)(key + i % 7) : (char)(x >> 56);
    }
    struct outcome *outcome =
        outcome_new(201, false, SLICE("Location: /r/1\r\n"), slice_make(bytes, len));
    COMPRESS_AUTO struct compress compress = {0};
    if (outcome)
        outcome_pack(outcome, &compress);
    return outcome;
}

static void drop_results(struct store_op *op)
{
    outcome_unref(op->result.found);
    mem_free(op->result.found_recipe);
    op->result.found = NULL;
    op->result.found_recipe = NULL;
}

static bool has_task(uint64_t key)
{
    return key >= FIRST_TASK && key < FIRST_TASK + TASKS;
}

/* With a claim its task is inserted, with an outcome changed, and with it comes an attempt. */
static void bring_task(struct fault_bed *bed, uint64_t key, struct store_op *op)
{
    static const char keys[] = "0123456789abcdefghijklmn";
    struct store_task *task = &bed->tasks[key - FIRST_TASK];
    bool ends = op->kind == STORE_FINISH;
    if (!ends)
        *task = (struct store_task){
            .kind = SLICE("fault"), .lane = SLICE("lane"), .key = slice_make(&keys[key], 1)};
    task->task.state = ends ? TASK_DONE : TASK_SENDING;
    task->task.lease_until = bed->now + LEASE;
    task->task.attempts = task->task.tries = 1;
    task->task.ended_at = ends ? bed->now : 0;
    store_task_derive(task);
    bed->attempt = (struct store_attempt){.task = task->row.id, .n = 1};
    bed->changes[0] = (struct table_change){
        .table = &task_table, .act = ends ? TABLE_UPDATE : TABLE_INSERT, .row = &task->row};
    bed->changes[1] = (struct table_change){.table = &attempt_table, .row = &bed->attempt.row};
    op->brings = bed->changes;
    op->n_brings = ends ? 2 : 1;
}

/* A client that comes again while the store is short of something. */
static struct store_op begin_until_decided(struct fault_bed *bed, uint64_t key, int64_t ttl_us)
{
    struct store_op op;
    int turn = 0;
    do {
        assert_in_range(turn++, 0, 50);
        op = begin_on(key, ttl_us);
        if (has_task(key))
            bring_task(bed, key, &op);
        fault_bed_run(bed, &op);
        if (op.result.status == STORE_FULL || op.result.status == STORE_NO_MEMORY ||
            op.result.status == STORE_DOWN)
            clock_to(bed, bed->now + STEP);
        else
            break;
    } while (true);
    return op;
}

/* False: the store stopped. */
static bool claim(struct fault_bed *bed, uint64_t key, int64_t ttl_us)
{
    struct known *known = &bed->known[key];
    struct store_op op = begin_until_decided(bed, key, ttl_us);
    if (op.result.status == STORE_DEAD)
        return false;
    assert_int_equal(op.result.status, STORE_DONE);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    assert_true(op.result.record.token > known->token);
    *known = (struct known){.token = op.result.record.token, .claimed = true};
    if (has_task(key))
        bed->tasks[key - FIRST_TASK].row.version = bed->changes[0].version;
    return true;
}

static bool act(struct fault_bed *bed, uint64_t key, enum store_op_kind kind)
{
    struct known *known = &bed->known[key];
    struct store_op op = {.kind = kind,
                          .key_hash = key_of(key),
                          .writing.token = known->token,
                          .writing.force = true,
                          .writing.final = RECORD_COMPLETE,
                          .writing.http_status = 201};
    if (kind == STORE_FINISH) {
        op.writing.keeps = true;
        while (!(op.writing.outcome = outcome_of(key)))
            ;
    }
    if (kind == STORE_FINISH && has_task(key))
        bring_task(bed, key, &op);
    if (kind == STORE_FORGET) {
        op.writing.actor = SLICE("test");
        bed->audits_asked++;
    }
    known->may_be_done |= kind == STORE_FINISH;
    known->may_proceed |= kind == STORE_RELEASE || kind == STORE_FORGET;
    fault_bed_run(bed, &op);
    drop_results(&op);
    outcome_unref(op.writing.outcome);
    if (op.result.status == STORE_DEAD)
        return false;
    assert_int_equal(op.result.status, STORE_DONE);
    assert_int_equal(op.result.write, RECORD_WRITTEN);
    bed->audits_told += kind == STORE_FORGET;
    known->claimed &= kind == STORE_DOUBT;
    known->told |= kind == STORE_FINISH;
    known->told &= kind != STORE_FORGET;
    return true;
}

static bool complete(struct fault_bed *bed, uint64_t key, int64_t ttl_us)
{
    return claim(bed, key, ttl_us) && act(bed, key, STORE_FINISH);
}

/* Idle time, in which the store renews leases and sweeps. */
static bool pass_time(struct fault_bed *bed, int64_t span_us)
{
    for (int64_t end = bed->now + span_us; bed->now < end;) {
        while (store_step(bed->store))
            ;
        clock_to(bed, bed->now + 5 * SECOND);
    }
    return !bed->dead;
}

/* ---- the story ---- */

static bool first_chapter(struct fault_bed *bed)
{
    for (uint64_t key = 0; key < 4; key++)
        if (!complete(bed, key, TTL))
            return false;
    bed->known[4].may_proceed = true; /* it will expire, some time in this chapter */
    bool told = complete(bed, 4, SHORT_TTL);
    bed->known[4] = (struct known){.may_proceed = true, .may_be_done = true};
    return told && claim(bed, 5, TTL) && act(bed, 5, STORE_RELEASE) && complete(bed, 5, TTL) &&
           claim(bed, 6, TTL) && act(bed, 6, STORE_RELEASE) && claim(bed, 7, TTL) &&
           act(bed, 7, STORE_DOUBT) && complete(bed, 8, TTL) && act(bed, 8, STORE_FORGET) &&
           claim(bed, 9, TTL) && pass_time(bed, 2 * SHORT_TTL) && act(bed, 9, STORE_FINISH);
}

static bool second_chapter(struct fault_bed *bed)
{
    for (uint64_t key = 10; key < 14; key++)
        if (!complete(bed, key, TTL))
            return false;
    return claim(bed, 14, TTL) && claim(bed, 15, TTL) && act(bed, 15, STORE_DOUBT) &&
           act(bed, 15, STORE_FINISH);
}

void fault_bed_story(struct fault_bed *bed)
{
    if (!fault_bed_open(bed))
        return;
    bool goes_on = first_chapter(bed);
    fault_bed_close(bed);
    if (!goes_on || !fault_bed_open(bed))
        return;
    second_chapter(bed);
    fault_bed_close(bed);
}

/* ---- what must hold afterwards ---- */

static void check_whole(const struct fault_bed *bed)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *s = NULL;
    assert_int_equal(sqlite3_open_v2(bed->path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &s, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(s, 0), "ok");
    sqlite3_finalize(s);
    sqlite3_close(db);
}

static bool tally(void *argument, const struct store_row *row, enum record_lease lease)
{
    (void)lease;
    int64_t *by_status = argument;
    by_status[record_is_released(&row->record) ? RECORD_ABSENT : row->record.status]++;
    return true;
}

static void check_counts(struct fault_bed *bed)
{
    int64_t n[RECORD_UNKNOWN + 1] = {0};
    struct store_list list = {.most = SIZE_MAX, .each = tally, .argument = n};
    struct store_op op = {.kind = STORE_LIST, .list = &list};
    pass_time(bed, 5 * SECOND); /* what expired is counted until it was swept */
    fault_bed_run(bed, &op);
    assert_int_equal(op.result.status, STORE_DONE);
    struct store_counts counts = store_counts(bed->store);
    assert_int_equal(counts.pending, n[RECORD_PENDING]);
    assert_int_equal(counts.released, n[RECORD_ABSENT]);
    assert_int_equal(counts.complete, n[RECORD_COMPLETE]);
    assert_int_equal(counts.failed, n[RECORD_FAILED]);
    assert_int_equal(counts.unknown, n[RECORD_UNKNOWN]);
}

static void count_audit(void *argument, const struct table_row *row)
{
    assert_int_equal(((const struct store_audit *)row)->act, STORE_ACT_FORGET);
    (*(size_t *)argument)++;
}

/* An act and its line stand or fall together. */
static void check_audits(struct fault_bed *bed)
{
    size_t n = 0;
    struct table_query query = {
        .table = &audit_table, .limit = SIZE_MAX, .each = count_audit, .argument = &n};
    struct store_op op = {.kind = STORE_QUERY, .query = &query};
    fault_bed_run(bed, &op);
    assert_int_equal(op.result.status, STORE_DONE);
    assert_in_range(n, bed->audits_told, bed->audits_asked);
    struct store_op forgotten = {.kind = STORE_LOOK, .key_hash = key_of(8)};
    fault_bed_run(bed, &forgotten);
    drop_results(&forgotten);
    assert_int_equal(n == 1, bed->audits_asked && forgotten.result.record.status == RECORD_ABSENT);
}

struct sought_task {
    struct slice key;
    enum task_state state; /* TASK_WAITING: there is none */
};

static void note_task(void *argument, const struct table_row *row)
{
    struct sought_task *sought = argument;
    const struct store_task *task = (const struct store_task *)row;
    if (slice_eq(task->key, sought->key))
        sought->state = task->task.state;
}

/* A record and its task stand or fall together. */
static void check_task(struct fault_bed *bed, uint64_t key)
{
    struct sought_task sought = {.key = bed->tasks[key - FIRST_TASK].key};
    struct table_query query = {
        .table = &task_table, .limit = SIZE_MAX, .each = note_task, .argument = &sought};
    struct store_op op = {.kind = STORE_QUERY, .query = &query};
    struct store_op look = {.kind = STORE_LOOK, .key_hash = key_of(key)};
    fault_bed_run(bed, &op);
    assert_int_equal(op.result.status, STORE_DONE);
    fault_bed_run(bed, &look);
    drop_results(&look);
    enum record_status status = look.result.record.status;
    assert_int_equal(sought.state, status == RECORD_ABSENT     ? TASK_WAITING
                                   : status == RECORD_COMPLETE ? TASK_DONE
                                                               : TASK_SENDING);
}

static void check_key(struct fault_bed *bed, uint64_t key)
{
    const struct known *known = &bed->known[key];
    struct store_op op = begin_on(key, TTL);
    fault_bed_run(bed, &op);
    assert_int_equal(op.result.status, STORE_DONE);
    if (op.result.verdict == RECORD_REPLAY) {
        COMPRESS_AUTO struct compress compress = {0};
        struct outcome *expected = outcome_of(key);
        assert_int_equal(outcome_unpack(op.result.found, &compress), OUTCOME_UNPACKED);
        assert_true(known->may_be_done && outcome_eq(op.result.found, expected));
        outcome_unref(expected);
    } else if (op.result.verdict == RECORD_PROCEED) {
        assert_false(known->told && !known->may_proceed);
        assert_false(known->claimed && !known->may_proceed);
        assert_true(op.result.record.token > known->token);
    } else {
        /* In doubt: a claim of the dead, told or not. */
        assert_int_equal(op.result.verdict, RECORD_OUTCOME_UNKNOWN);
        assert_false(known->told && !known->may_proceed);
    }
    drop_results(&op);
}

void fault_bed_check(struct fault_bed *bed)
{
    fault_bed_close(bed);
    if (!fault_bed_open(bed))
        fail_msg("it does not open again: %s", bed->why);
    check_counts(bed);
    check_audits(bed);
    for (uint64_t key = FIRST_TASK; key < FIRST_TASK + TASKS; key++)
        check_task(bed, key);
    for (uint64_t key = 0; key < KEYS - 1; key++)
        check_key(bed, key);
    assert_true(complete(bed, KEYS - 1, TTL));
    assert_false(bed->dead);
    fault_bed_close(bed);
    check_whole(bed);
}
