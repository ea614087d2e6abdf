/* SPDX-License-Identifier: Apache-2.0 */
/* Machines and events by pawl/pawl.h on SQLite; files of other kinds, and those that are refused.
 */
#include "inside_bed.h"

static enum pawl_error publish(struct pawl *pawl, const char *type, const char *id,
                               const char *data, bool *ret_already)
{
    const struct pawl_event event = {.type = type, .id = id, .data = data, .tenant = "m1"};
    return pawl_publish(pawl, &event, ret_already);
}

static enum pawl_error receive(struct pawl *pawl, const char *source, const char *hash,
                               struct pawl_received *ret_received)
{
    const struct pawl_incoming incoming = {
        .source = source, .event_id = "ev_1", .payload_hash = hash};
    return pawl_receive(pawl, &incoming, ret_received);
}

static struct pawl_transition move(struct side *side, const char *name, const char *id, int64_t seq)
{
    const struct pawl_action action = {.tenant = "m1",
                                       .machine = "offer",
                                       .id = "o1",
                                       .action = name,
                                       .action_id = id,
                                       .has_seq = seq != 0,
                                       .seq = seq};
    struct pawl_transition transition;
    OK(side, pawl_transition(side->pawl, &action, &transition));
    return transition;
}

static void a_machine_moves_once_for_each_action(void **state)
{
    struct bed *bed = *state;
    RUN(bed->a.db, "BEGIN IMMEDIATE");
    OK(&bed->a, pawl_install(bed->a.pawl));
    RUN(bed->a.db, "INSERT INTO pawl_machine(name, from_state, action, to_state) VALUES"
                   " ('offer', '', 'offer', 'offered'), ('offer', 'offered', 'pass', 'passed'),"
                   " ('offer', 'offered', 'accept', 'accepted')");
    RUN(bed->a.db, "COMMIT; BEGIN IMMEDIATE");
    struct pawl_transition t = move(&bed->a, "offer", "a1", 0);
    assert_int_equal(t.decision, PAWL_MOVED);
    assert_string_equal(t.from_state, "");
    assert_string_equal(t.to_state, "offered");
    assert_int_equal(move(&bed->a, "pass", "a2", 5).decision, PAWL_MOVED);
    RUN(bed->a.db, "COMMIT; BEGIN IMMEDIATE");
    t = move(&bed->a, "pass", "a2", 5);
    assert_int_equal(t.decision, PAWL_MOVED);
    assert_true(t.replayed);
    assert_string_equal(t.from_state, "offered");
    assert_int_equal(move(&bed->a, "accept", "a2", 0).decision, PAWL_OTHER_ACTION);
    t = move(&bed->a, "accept", "a3", 0);
    assert_int_equal(t.decision, PAWL_CONFLICT);
    assert_string_equal(t.to_state, "passed");
    assert_int_equal(move(&bed->a, "accept", "a4", 4).decision, PAWL_OUTDATED);
    const struct pawl_action unknown = {
        .machine = "offer", .id = "o1", .action = "fly", .action_id = "a9"};
    assert_int_equal(pawl_transition(bed->a.pawl, &unknown, &t), PAWL_INVALID);
    assert_non_null(strstr(pawl_problem(bed->a.pawl), "no action fly"));
    RUN(bed->a.db, "COMMIT");
    assert_text(bed->b.db, "SELECT state FROM pawl_machine_state", "passed");
}

static void events_go_out_and_come_in_once(void **state)
{
    struct bed *bed = *state;
    struct pawl *pawl = bed->a.pawl;
    bool already = true;
    char hash[65] = "";
    memset(hash, 'a', 64);
    struct pawl_received received;
    RUN(bed->a.db, "BEGIN IMMEDIATE");
    OK(&bed->a, publish(pawl, "refund.created", "ev_1", "{\"a\": 1.0}", &already));
    assert_false(already);
    OK(&bed->a, publish(pawl, "refund.created", "ev_1", "{\"a\":1}", &already));
    assert_true(already);
    assert_int_equal(publish(pawl, "refund.created", "ev_1", "{}", NULL), PAWL_OTHER);
    assert_int_equal(publish(pawl, "refund created", "ev_2", "{}", NULL), PAWL_INVALID);
    assert_int_equal(publish(pawl, "refund", "ev 2", "{}", NULL), PAWL_INVALID);
    assert_int_equal(publish(pawl, "refund", "", "{}", NULL), PAWL_MALFORMED);
    assert_int_equal(publish(pawl, "refund", "ev_2", "{", NULL), PAWL_INVALID);
    OK(&bed->a, receive(pawl, "payments", hash, &received));
    assert_int_equal(received.decision, PAWL_PROCEED);
    RUN(bed->a.db, "COMMIT");
    later(HOUR_US);
    RUN(bed->b.db, "BEGIN IMMEDIATE");
    OK(&bed->b, receive(bed->b.pawl, "payments", hash, &received));
    assert_int_equal(received.decision, PAWL_REPLAY);
    assert_string_equal(received.result, "ok");
    assert_true(received.received_at_us < WALL_US + HOUR_US);
    hash[0] = 'b';
    OK(&bed->b, receive(bed->b.pawl, "payments", hash, &received));
    assert_int_equal(received.decision, PAWL_OTHER_REQUEST);
    OK(&bed->b, receive(bed->b.pawl, "orders", hash, &received));
    assert_int_equal(received.decision, PAWL_PROCEED);
    RUN(bed->b.db, "COMMIT");
    assert_int_equal(number(bed->b.db, "SELECT count(*) FROM pawl_event WHERE is_new"), 1);
    assert_text(bed->b.db,
                "SELECT event_id||source||result||received_at FROM inbox_events"
                " WHERE source='payments'",
                "ev_1paymentsok2027-01-15T08:00:00.000Z");
    later(8 * 24 * HOUR_US);
    RUN(bed->b.db, "BEGIN IMMEDIATE");
    OK(&bed->b, receive(bed->b.pawl, "payments", hash, &received));
    assert_int_equal(received.decision, PAWL_PROCEED);
    RUN(bed->b.db, "COMMIT");
}

static void the_file_stays_the_applications(void **state)
{
    struct bed *bed = *state;
    struct pawl_operation operation = of_key("k1");
    RUN(bed->a.db, "CREATE TABLE idempotency_keys(key TEXT);"
                   "CREATE VIEW broken AS SELECT * FROM nowhere;"
                   "CREATE TABLE inbox_events(event_id TEXT)");
    effect(&bed->a, &operation, 200, "{}");
    assert_int_equal(number(bed->a.db, "PRAGMA application_id"), 7);
    assert_int_equal(number(bed->a.db, "PRAGMA user_version"), 42);
    assert_int_equal(number(bed->a.db, "SELECT count(*) FROM idempotency_keys"), 0);
    assert_text(bed->a.db, "PRAGMA integrity_check", "ok");
    assert_text(bed->a.db, "PRAGMA journal_mode", "wal");
    RUN(bed->a.db, "UPDATE pawl_state SET format = 99");
    struct pawl_begun begun;
    RUN(bed->b.db, "BEGIN IMMEDIATE");
    assert_int_equal(pawl_begin(bed->b.pawl, &operation, &begun), PAWL_CLOSED);
    assert_non_null(strstr(pawl_problem(bed->b.pawl), "newer pawl"));
    RUN(bed->b.db, "ROLLBACK");
}

static void a_store_of_pawls_own_is_refused(void **state)
{
    struct bed *bed = *state;
    struct pawl_operation operation = of_key("k1");
    struct pawl_begun begun;
    RUN(bed->a.db, "PRAGMA application_id=0x7061776c; BEGIN IMMEDIATE");
    assert_int_equal(pawl_begin(bed->a.pawl, &operation, &begun), PAWL_CLOSED);
    RUN(bed->a.db, "ROLLBACK; CREATE TABLE pawl_state(token); CREATE TABLE pawl_secret(secret);"
                   "BEGIN IMMEDIATE");
    assert_int_equal(pawl_begin(bed->a.pawl, &operation, &begun), PAWL_CLOSED);
    assert_non_null(strstr(pawl_problem(bed->a.pawl), "your own file"));
    RUN(bed->a.db, "ROLLBACK");
}

static void a_connection_that_is_none_is_told(void **state)
{
    (void)state;
    struct pawl *pawl = pawl_on_postgres(NULL);
    struct pawl_operation operation = of_key("k1");
    struct pawl_begun begun;
    assert_non_null(pawl);
    assert_int_equal(pawl_begin(pawl, &operation, &begun), PAWL_FAILED);
    assert_non_null(strstr(pawl_problem(pawl), "broken"));
    pawl_free(pawl);
}

static void other_kinds_of_files(void **state)
{
    (void)state;
    static const char *const pragmas[] = {"PRAGMA encoding='UTF-16'", "PRAGMA encoding='UTF-16be'",
                                          "PRAGMA auto_vacuum=FULL", "PRAGMA page_size=512",
                                          "PRAGMA journal_mode=DELETE"};
    for (size_t i = 0; i < sizeof pragmas / sizeof *pragmas; i++) {
        struct side side;
        assert_int_equal(sqlite3_open(":memory:", &side.db), SQLITE_OK);
        RUN(side.db, pragmas[i]);
        RUN(side.db, "PRAGMA foreign_keys=ON; CREATE TABLE effect(what TEXT)");
        side.pawl = pawl_on_sqlite(side.db);
        struct pawl_operation operation = of_key("k1");
        operation.once = "value";
        effect(&side, &operation, 201, "{\"r\":\"\xc3\xa4\"}");
        RUN(side.db, "BEGIN");
        struct pawl_begun begun = begin(&side, &operation);
        assert_int_equal(begun.decision, PAWL_REPLAY);
        assert_string_equal(begun.body, "{\"r\":\"\xc3\xa4\"}");
        OK(&side, publish(side.pawl, "a.b", "ev_1", "\"\xc3\xa4\"", NULL));
        bool already = false;
        OK(&side, publish(side.pawl, "a.b", "ev_1", "\"\xc3\xa4\"", &already));
        assert_true(already);
        RUN(side.db, "COMMIT");
        disconnect(&side);
    }
}

int main(void)
{
#define BED_TEST(test) cmocka_unit_test_setup_teardown(test, make_bed, remove_bed)
    const struct CMUnitTest tests[] = {
        BED_TEST(a_machine_moves_once_for_each_action),
        BED_TEST(events_go_out_and_come_in_once),
        BED_TEST(the_file_stays_the_applications),
        BED_TEST(a_store_of_pawls_own_is_refused),
        cmocka_unit_test(other_kinds_of_files),
        cmocka_unit_test(a_connection_that_is_none_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
