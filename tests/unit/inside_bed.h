/* SPDX-License-Identifier: Apache-2.0 */
/* Two connections to an application's file, and what tests of pawl/pawl.h do on them. */
#ifndef PAWL_TEST_INSIDE_BED_H
#define PAWL_TEST_INSIDE_BED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include <pawl/pawl.h>
#include <sqlite3.h>

#define HOUR_US (INT64_C(3600) * CLOCK_US_PER_S)
#define WALL_US (INT64_C(1800000000) * CLOCK_US_PER_S)

/* A connection and what pawl knows of it. */
struct side {
    sqlite3 *db;
    struct pawl *pawl;
};

struct bed {
    char path[64];
    struct side a, b;
};

static inline int run(sqlite3 *db, const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

#define RUN(db, sql) assert_int_equal(run(db, sql), SQLITE_OK)

static inline void connect(struct bed *bed, struct side *side)
{
    assert_int_equal(sqlite3_open(bed->path, &side->db), SQLITE_OK);
    RUN(side->db, "PRAGMA foreign_keys=ON");
    side->pawl = pawl_on_sqlite(side->db);
    assert_non_null(side->pawl);
}

static inline void disconnect(struct side *side)
{
    pawl_free(side->pawl);
    assert_int_equal(sqlite3_close(side->db), SQLITE_OK); /* no statement of ours is left */
    *side = (struct side){NULL, NULL};
}

/* An application's file, with a table and a format of its own. */
static inline int make_bed(void **state)
{
    struct bed *bed = calloc(1, sizeof *bed);
    snprintf(bed->path, sizeof bed->path, "inside-XXXXXX");
    int fd = mkstemp(bed->path);
    assert_true(fd >= 0);
    close(fd);
    clock_test_set(WALL_US, CLOCK_US_PER_S);
    connect(bed, &bed->a);
    RUN(bed->a.db, "PRAGMA journal_mode=WAL; PRAGMA application_id=7; PRAGMA user_version=42;"
                   "CREATE TABLE effect(what TEXT)");
    connect(bed, &bed->b);
    *state = bed;
    return 0;
}

static inline int remove_bed(void **state)
{
    struct bed *bed = *state;
    char name[80];
    disconnect(&bed->a);
    disconnect(&bed->b);
    const char *ends[] = {"", "-wal", "-shm", "-journal"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        snprintf(name, sizeof name, "%s%s", bed->path, ends[i]);
        unlink(name);
    }
    clock_test_set(0, 0);
    free(bed);
    return 0;
}

static inline int64_t number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *s;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return value;
}

static inline void assert_text(sqlite3 *db, const char *sql, const char *wanted)
{
    sqlite3_stmt *s;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(s, 0), wanted);
    sqlite3_finalize(s);
}

#define OK(side, call)                                                                             \
    do {                                                                                           \
        enum pawl_error error = call;                                                              \
        if (error)                                                                                 \
            fail_msg("%s: %d %s", #call, error, pawl_problem((side)->pawl));                       \
    } while (0)

static inline struct pawl_operation of_key(const char *key)
{
    return (struct pawl_operation){.tenant = "m1", .rule = "refunds.create", .key = key};
}

static inline struct pawl_begun begin(struct side *side, const struct pawl_operation *operation)
{
    struct pawl_begun begun;
    OK(side, pawl_begin(side->pawl, operation, &begun));
    return begun;
}

/* In a transaction of its own, which ends as it began. */
static inline enum pawl_decision decision(struct side *side, const struct pawl_operation *operation)
{
    RUN(side->db, "BEGIN IMMEDIATE");
    struct pawl_begun begun = begin(side, operation);
    RUN(side->db, "ROLLBACK");
    return begun.decision;
}

static inline void complete(struct side *side, int64_t token, int code, const char *body)
{
    const struct pawl_outcome outcome = {
        .http_code = code, .body = body, .body_size = strlen(body)};
    bool already = true;
    OK(side, pawl_complete(side->pawl, token, &outcome, &already));
    assert_false(already);
}

/* Begins, has its effect, completes and commits. */
static inline void effect(struct side *side, const struct pawl_operation *operation, int code,
                          const char *body)
{
    RUN(side->db, "BEGIN IMMEDIATE");
    struct pawl_begun begun = begin(side, operation);
    assert_int_equal(begun.decision, PAWL_PROCEED);
    RUN(side->db, "INSERT INTO effect VALUES('x')");
    complete(side, begun.token, code, body);
    RUN(side->db, "COMMIT");
}

static inline void later(int64_t us)
{
    clock_test_set(clock_wall_us() + us, clock_boot_us() + us);
}

#endif
