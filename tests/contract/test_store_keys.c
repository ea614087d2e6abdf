/* SPDX-License-Identifier: Apache-2.0 */
/* That the SQLite store knows every key: one in its log, in a merge, in its index, and in a file of
 * an older format. */
#include "store_bed.h"

#include "base/mem.h"
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int set_up(void **state)
{
    int failed = bed_set_up_closed(state);
    ((struct bed *)*state)->config.key_run = 7;
    return failed;
}

#define MODEL_KEYS 60
#define MODEL_STEPS 1500

/* What must be known of each key; 0: nothing. */
struct model {
    uint64_t random;
    int64_t tokens[MODEL_KEYS];
    bool done[MODEL_KEYS];
};

static unsigned draw(struct model *model, unsigned below)
{
    model->random = model->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(model->random >> 33) % below;
}

static void forget_key(struct bed *bed, struct model *model, unsigned key)
{
    struct store_op op = write_on(key, STORE_FORGET, model->tokens[key]);
    op.writing.force = true;
    run(bed, &op);
    assert_int_equal(op.result.write, RECORD_WRITTEN);
    model->tokens[key] = 0;
}

static void model_step(struct bed *bed, struct model *model)
{
    unsigned key = draw(model, MODEL_KEYS);
    if (model->tokens[key] == 0) {
        model->tokens[key] = proceed(bed, key);
        model->done[key] = false;
        return;
    }
    assert_int_equal(look(bed, key).token, model->tokens[key]);
    assert_int_equal(verdict(bed, key), model->done[key] ? RECORD_REPLAY : RECORD_IN_PROGRESS);
    if (draw(model, 3) == 0) {
        forget_key(bed, model, key);
    } else if (!model->done[key]) {
        assert_int_equal(finish(bed, key, model->tokens[key], "body"), RECORD_WRITTEN);
        model->done[key] = true;
    }
}

/* No key of the index names a row that is gone, unless the log says so too. */
static void check_index(const struct bed *bed)
{
    static const char stray[] =
        "SELECT count(*) FROM pawl_key_index WHERE id NOT IN (SELECT id FROM pawl_pending)"
        " AND id NOT IN (SELECT id FROM pawl_outcome)"
        " AND NOT EXISTS (SELECT 1 FROM pawl_key_log WHERE instr(keys, k))";
    assert_int_equal(bed_number(bed, stray), 0);
    assert_true(bed_number(bed, "SELECT count(*) FROM pawl_key_index") > 0);
}

static void every_key_is_found_whichever_process_logged_or_merged_it(void **state)
{
    struct bed *bed = *state, other;
    struct model model = {.random = 1};
    bed_open(bed);
    bed_share(bed, &other);
    other.config.key_run = 12;
    bed_open(&other);
    struct bed *both[] = {bed, &other};
    for (int i = 0; i < MODEL_STEPS; i++) {
        struct bed *one = both[draw(&model, 2)];
        model_step(one, &model);
        if (draw(&model, 100) == 0) {
            bed_close(one);
            bed_open(one);
            check_index(one);
        }
    }
    close_other(&other);
    for (unsigned key = 0; key < MODEL_KEYS; key++)
        assert_int_equal(look(bed, key).token, model.tokens[key]);
    assert_in_range(bed_number(bed, "SELECT key_closed FROM pawl_state"), 1, INT64_MAX);
    check_counts(bed);
}

static void proceed_on_all(struct bed *bed, uint64_t from, uint64_t to)
{
    for (uint64_t key = from; key < to; key++)
        proceed(bed, key);
}

static void check_all_running(struct bed *bed, uint64_t n)
{
    for (uint64_t key = 0; key < n; key++)
        assert_int_equal(verdict(bed, key), RECORD_IN_PROGRESS);
}

static void keys_logged_before_a_restart_are_found_wherever_the_merge_stood(void **state)
{
    struct bed *bed = *state;
    for (uint64_t n = 1; n < 3 * bed->config.key_run; n++) {
        bed_open(bed);
        proceed_on_all(bed, 0, n);
        bed_close(bed);
        bed_open(bed);
        proceed_on_all(bed, n, n + 20);
        check_all_running(bed, n + 20);
        bed_close(bed);
        check_index(bed);
        unlink(bed->path);
    }
}

static void a_merge_keeps_its_pace_when_every_key_comes_from_another_process(void **state)
{
    struct bed *bed = *state;
    for (uint64_t key = 0; key < 60; key++) {
        bed_open(bed);
        proceed(bed, key);
        bed_close(bed);
        int64_t log = bed_number(bed, "SELECT count(*) FROM pawl_key_log");
        assert_in_range(log, 1, 2 * bed->config.key_run);
    }
    bed_open(bed);
    check_all_running(bed, 60);
}

static void keys_that_another_process_logged_and_merged_meanwhile_are_found(void **state)
{
    struct bed *bed = *state, other;
    bed_open(bed);
    proceed_on_all(bed, 0, 2);
    open_other(bed, &other);
    proceed_on_all(&other, 2, 40);
    check_all_running(bed, 40);
    close_other(&other);
}

/* Makes the log say that the key of `first` names `row`. */
static void log_falsely(const struct bed *bed, int64_t first, int64_t row)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *s = NULL;
    unsigned char entry[24] = {0};
    assert_int_equal(sqlite3_open(bed->path, &db), SQLITE_OK);
    sqlite3_prepare_v2(db, "SELECT k FROM pawl_key_index WHERE id=?1", -1, &s, NULL);
    sqlite3_bind_int64(s, 1, first);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    memcpy(entry, sqlite3_column_blob(s, 0), 16);
    for (size_t i = sizeof entry; i > 16; i--, row >>= 8)
        entry[i - 1] = (unsigned char)row;
    sqlite3_finalize(s);
    sqlite3_exec(db, "UPDATE pawl_state SET key_seq=key_seq+1", NULL, NULL, NULL);
    sqlite3_prepare_v2(db, "INSERT INTO pawl_key_log SELECT key_seq, ?1 FROM pawl_state", -1, &s,
                       NULL);
    sqlite3_bind_blob(s, 1, entry, sizeof entry, SQLITE_STATIC);
    assert_int_equal(sqlite3_step(s), SQLITE_DONE);
    sqlite3_finalize(s);
    sqlite3_close(db);
}

static void note_stop(void *argument, const char *what)
{
    snprintf(argument, 256, "%s", what);
}

/* found: D-P2 */
static void a_key_that_names_a_second_record_while_the_first_lives_stops_the_store(void **state)
{
    struct bed *bed = *state;
    char why[256] = "";
    bed->config.fail_stop = note_stop;
    bed->config.fail_stop_argument = why;
    bed_open(bed);
    proceed_on_all(bed, 0, 40);
    bed_close(bed);
    int64_t first = bed_number(bed, "SELECT min(id) FROM pawl_pending");
    int64_t second = bed_number(bed, "SELECT id FROM pawl_pending ORDER BY id LIMIT 1 OFFSET 1");
    log_falsely(bed, first, second);
    bed_open(bed);
    for (uint64_t key = 100; key < 140 && !why[0]; key++) {
        struct store_op op = begin_on(key);
        run(bed, &op);
    }
    char expected[96];
    snprintf(expected, sizeof expected, "records %lld and %lld have one key", (long long)first,
             (long long)second);
    assert_non_null(strstr(why, expected));
}

#ifdef PAWL_HOOKS
enum { LIVES_ROUNDS = 120, LIVES_BATCH = 32, LIVES_RUN = 128, LIVES_KEYS = 1000 };

/* Which keys live how often: the k-th draw out of `keys`, every second one out of the first few. */
struct lives {
    unsigned keys;
    unsigned favourites;
    struct model model;
    struct store_op ops[LIVES_BATCH];
};

/* A batch of short lives: begun, finished, expired before the same key comes again. */
static void live(struct bed *bed, struct lives *lives, int64_t *now)
{
    for (int i = 0; i < LIVES_BATCH; i++) {
        bool favourite = lives->favourites > 0 && i % 2;
        unsigned key = draw(&lives->model, favourite ? lives->favourites : lives->keys);
        lives->ops[i] = begin_on(key);
        lives->ops[i].begin.ttl_us = RECORD_ROW_LEAST_US;
        store_submit(bed->store, &lives->ops[i]);
    }
    store_step(bed->store);
    for (int i = 0; i < LIVES_BATCH; i++) {
        struct store_op *op = &lives->ops[i];
        outcome_unref(op->result.found);
        int64_t token = op->result.verdict == RECORD_PROCEED ? op->result.record.token : 0;
        struct digest key_hash = op->key_hash;
        *op = (struct store_op){.kind = STORE_FINISH,
                                .key_hash = key_hash,
                                .writing.token = token,
                                .writing.final = RECORD_COMPLETE,
                                .writing.http_status = 201};
        store_submit(bed->store, op);
    }
    store_step(bed->store);
    *now += INT64_C(5) * RECORD_ROW_LEAST_US / 4;
    clock_test_set(*now, *now);
}

static int64_t log_bytes(const struct bed *bed)
{
    return bed_number(bed, "SELECT coalesce(sum(length(keys)), 0) FROM pawl_key_log");
}

/* found: D-B3 */
static void the_key_log_and_the_file_stay_small_whichever_keys_live_how_often(void **state)
{
    struct bed *bed = *state;
    static struct lives lives;
    static const unsigned kinds[][2] = {{1, 0},          {3, 0},          {LIVES_RUN - 1, 0},
                                        {LIVES_KEYS, 0}, {LIVES_KEYS, 5}, {1000000, 0}};
    int64_t now = clock_wall_us();
    clock_test_set(now, now);
    bed->config.key_run = LIVES_RUN;
    bed->config.no_thread = true;
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        lives = (struct lives){
            .keys = kinds[kind][0], .favourites = kinds[kind][1], .model.random = kind};
        int64_t most = 0, pages = 0;
        bed_open(bed);
        for (int round = 0; round < LIVES_ROUNDS; round++) {
            live(bed, &lives, &now);
            most = log_bytes(bed) > most ? log_bytes(bed) : most;
            if (round == LIVES_ROUNDS / 2)
                pages = bed_number(bed, "PRAGMA page_count");
        }
        assert_in_range(most, 24, 24 * (3 * LIVES_RUN + 4 * LIVES_BATCH + 64));
        assert_in_range(bed_number(bed, "PRAGMA page_count"), 1, pages + 8);
        bed_close(bed);
        unlink(bed->path);
    }
    clock_test_set(0, 0);
}
#endif

static void a_log_that_does_not_fit_its_marks_is_refused(void **state)
{
    struct bed *bed = *state;
    static const char *const harm[] = {
        "UPDATE pawl_state SET key_bucket=65537",
        "UPDATE pawl_state SET key_bucket=65536, key_closed=key_seq+1",
        "UPDATE pawl_state SET key_closed=0; UPDATE pawl_key_log SET keys=x'00'",
        "UPDATE pawl_key_log SET keys=x''",
    };
    bed_open(bed);
    proceed(bed, 1);
    bed_close(bed);
    for (size_t i = 0; i < sizeof harm / sizeof *harm; i++) {
        bed_exec(bed, harm[i]);
        enum store_open_result result;
        char *problem MEM_AUTO = bed_refusal(bed, &result);
        assert_int_equal(result, STORE_OPEN_FAILED);
        assert_non_null(strstr(problem, bed->path));
    }
}

/* ---- other formats ---- */

/* What format 2 was: each key in the index at once, and no log. */
static const char to_format_2[] =
    "INSERT OR REPLACE INTO pawl_key_index SELECT substr(key_hash, 1, 16), id FROM pawl_pending;"
    "INSERT OR REPLACE INTO pawl_key_index SELECT substr(key_hash, 1, 16), id FROM pawl_outcome;"
    "ALTER TABLE pawl_key_index RENAME TO pawl_key; DROP TABLE pawl_key_log;"
    "ALTER TABLE pawl_state DROP COLUMN key_seq; ALTER TABLE pawl_state DROP COLUMN key_closed;"
    "ALTER TABLE pawl_state DROP COLUMN key_bucket;" BED_TO_FORMAT_4 BED_TO_FORMAT_3
    "PRAGMA user_version=2;";

static void a_store_of_format_2_keeps_all_it_holds(void **state)
{
    struct bed *bed = *state;
    bed_open(bed);
    int64_t done = proceed(bed, 1), running = proceed(bed, 2);
    finish(bed, 1, done, "kept");
    bed_close(bed);
    bed_exec(bed, to_format_2);
    bed_open(bed);
    assert_int_equal(verdict(bed, 1), RECORD_REPLAY);
    assert_int_equal(verdict(bed, 2), RECORD_IN_PROGRESS);
    assert_int_equal(finish(bed, 2, running, "late"), RECORD_WRITTEN);
    assert_true(proceed(bed, 3) > running);
    assert_int_equal(check_counts(bed), 3);
}

#define T(name) BED_TEST_AFTER(name, set_up)

int main(void)
{
    struct CMUnitTest tests[] = {
        T(every_key_is_found_whichever_process_logged_or_merged_it),
        T(keys_logged_before_a_restart_are_found_wherever_the_merge_stood),
        T(a_merge_keeps_its_pace_when_every_key_comes_from_another_process),
        T(keys_that_another_process_logged_and_merged_meanwhile_are_found),
        T(a_key_that_names_a_second_record_while_the_first_lives_stops_the_store),
#ifdef PAWL_HOOKS
        T(the_key_log_and_the_file_stay_small_whichever_keys_live_how_often),
#endif
        T(a_log_that_does_not_fit_its_marks_is_refused),
        T(a_store_of_format_2_keeps_all_it_holds),
    };
    return bed_run_on(BED_SQLITE, tests, sizeof tests / sizeof *tests);
}
