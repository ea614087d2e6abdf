/* SPDX-License-Identifier: Apache-2.0 */
/* Operations under a key by pawl/pawl.h on SQLite: each decision and each refusal. */
#include "inside_bed.h"

static void a_retry_gets_the_first_response(void **state)
{
    struct bed *bed = *state;
    struct pawl_operation operation = of_key("k1");
    RUN(bed->a.db, "BEGIN IMMEDIATE");
    struct pawl_begun begun = begin(&bed->a, &operation);
    assert_int_equal(begun.decision, PAWL_PROCEED);
    assert_null(begun.warning);
    assert_true(begun.first_at_us >= WALL_US);
    int64_t first_at = begun.first_at_us;
    RUN(bed->a.db, "INSERT INTO effect VALUES('refund')");
    const struct pawl_outcome outcome = {
        .http_code = 201,
        .body = "{\"id\":\0007}",
        .body_size = 9,
        .headers = "{\"Location\":\"/refunds/7\",\"X-Cost\":12,\"Link\":[\"<a>\",\"<b>\"],"
                   "\"Date\":\"now\",\"Set-Cookie\":\"s=1\"}"};
    OK(&bed->a, pawl_complete(bed->a.pawl, begun.token, &outcome, NULL));
    assert_int_equal(sqlite3_last_insert_rowid(bed->a.db), 1);
    RUN(bed->a.db, "COMMIT");

    for (int i = 0; i < 2; i++) {
        struct side *side = i ? &bed->a : &bed->b;
        RUN(side->db, "BEGIN IMMEDIATE");
        begun = begin(side, &operation);
        assert_int_equal(begun.decision, PAWL_REPLAY);
        assert_int_equal(begun.http_code, 201);
        assert_int_equal(begun.body_size, 9);
        assert_memory_equal(begun.body, "{\"id\":\0007}", 10);
        assert_string_equal(begun.headers, "{\"Location\":\"/refunds/7\",\"X-Cost\":\"12\","
                                           "\"Link\":[\"<a>\",\"<b>\"]}");
        assert_string_equal(begun.result_ref, "/refunds/7");
        assert_int_equal(begun.first_at_us, first_at);
        RUN(side->db, "COMMIT");
    }
    assert_int_equal(number(bed->a.db, "SELECT count(*) FROM effect"), 1);
    assert_text(bed->b.db,
                "SELECT key||status||http_code||result_ref||created_at||expires_at"
                " FROM idempotency_keys",
                "k1complete201/refunds/72027-01-15T08:00:00.000Z2027-01-16T08:00:00.000Z");
}

static void what_rolls_back_never_was(void **state)
{
    struct bed *bed = *state;
    struct pawl_operation operation = of_key("k1");
    /* The first time the tables go, too, and with them the secret by which keys are named. */
    for (int i = 0; i < 3; i++) {
        RUN(bed->a.db, "BEGIN IMMEDIATE");
        struct pawl_begun begun = begin(&bed->a, &operation);
        assert_int_equal(begun.decision, PAWL_PROCEED);
        complete(&bed->a, begun.token, 200, "{}");
        RUN(bed->a.db, "ROLLBACK");
        if (i == 1)
            effect(&bed->b, &(struct pawl_operation){.rule = "other", .key = "k2"}, 200, "1");
    }
    effect(&bed->b, &operation, 200, "b");
    assert_int_equal(decision(&bed->a, &operation), PAWL_REPLAY);
    assert_int_equal(number(bed->a.db, "SELECT pending + complete FROM pawl_state"), 2);
}

static void a_transaction_begins_a_key_once(void **state)
{
    struct bed *bed = *state;
    struct pawl_operation one = of_key("k1"), two = of_key("k2");
    const char *const keys[] = {"k2", "k1"}, *const bad[] = {""};
    RUN(bed->a.db, "BEGIN IMMEDIATE");
    OK(&bed->a, pawl_lock(bed->a.pawl, "m1", one.rule, keys, 2));
    assert_int_equal(pawl_lock(bed->a.pawl, "m1", one.rule, bad, 1), PAWL_MALFORMED);
    struct pawl_begun first = begin(&bed->a, &one);
    assert_int_equal(begin(&bed->a, &one).decision, PAWL_BEGUN_HERE);
    RUN(bed->a.db, "SAVEPOINT s");
    struct pawl_begun second = begin(&bed->a, &two);
    assert_int_equal(second.decision, PAWL_PROCEED);
    RUN(bed->a.db, "ROLLBACK TO s; RELEASE s");
    const struct pawl_outcome outcome = {.http_code = 200};
    assert_int_equal(pawl_complete(bed->a.pawl, second.token, &outcome, NULL), PAWL_STALE);
    assert_int_equal(begin(&bed->a, &one).decision, PAWL_BEGUN_HERE);
    second = begin(&bed->a, &two);
    assert_int_equal(second.decision, PAWL_PROCEED);
    complete(&bed->a, first.token, 200, "1");
    complete(&bed->a, second.token, 404, "2");
    bool already = false;
    OK(&bed->a, pawl_complete(bed->a.pawl, first.token, &outcome, &already));
    assert_true(already);
    assert_int_equal(begin(&bed->a, &one).decision, PAWL_REPLAY);
    RUN(bed->a.db, "COMMIT");
    RUN(bed->a.db, "BEGIN IMMEDIATE");
    assert_int_equal(pawl_complete(bed->a.pawl, first.token, &outcome, NULL), PAWL_STALE);
    assert_int_equal(pawl_release(bed->a.pawl, first.token, NULL), PAWL_STALE);
    assert_non_null(strstr(pawl_problem(bed->a.pawl), "stale"));
    RUN(bed->a.db, "ROLLBACK");
    assert_text(bed->a.db, "SELECT group_concat(status) FROM idempotency_keys", "complete,failed");
}

static void what_is_released_runs_again(void **state)
{
    struct bed *bed = *state;
    struct pawl_operation operation = of_key("k1"), other = of_key("k2");
    for (int i = 0; i < 2; i++) {
        RUN(bed->a.db, "BEGIN IMMEDIATE");
        struct pawl_begun begun = begin(&bed->a, &operation);
        assert_int_equal(begun.decision, PAWL_PROCEED);
        bool already = true;
        OK(&bed->a, pawl_release(bed->a.pawl, begun.token, &already));
        assert_false(already);
        OK(&bed->a, pawl_release(bed->a.pawl, begun.token, &already));
        assert_true(already);
        RUN(bed->a.db, "COMMIT");
    }
    /* Its token is not its row's, and is not the last one. */
    RUN(bed->b.db, "BEGIN IMMEDIATE");
    struct pawl_begun begun = begin(&bed->b, &operation), last = begin(&bed->b, &other);
    complete(&bed->b, begun.token, 200, "done");
    complete(&bed->b, last.token, 200, "done");
    RUN(bed->b.db, "COMMIT");
    assert_int_equal(decision(&bed->a, &operation), PAWL_REPLAY);
}

static void commit_needs_an_end(void **state)
{
    struct bed *bed = *state;
    struct pawl_operation operation = of_key("k1");
    RUN(bed->a.db, "BEGIN IMMEDIATE");
    struct pawl_begun begun = begin(&bed->a, &operation);
    assert_int_equal(run(bed->a.db, "COMMIT"), SQLITE_CONSTRAINT);
    complete(&bed->a, begun.token, 200, "{}");
    RUN(bed->a.db, "COMMIT");
}

static void without_foreign_keys_it_is_unknown(void **state)
{
    struct bed *bed = *state;
    struct pawl_operation operation = of_key("k1");
    RUN(bed->a.db, "PRAGMA foreign_keys=OFF; BEGIN IMMEDIATE");
    struct pawl_begun begun = begin(&bed->a, &operation);
    assert_non_null(strstr(begun.warning, "foreign_keys"));
    RUN(bed->a.db, "COMMIT");
    assert_int_equal(decision(&bed->b, &operation), PAWL_OUTCOME_UNKNOWN);
    RUN(bed->a.db, "BEGIN IMMEDIATE");
    const struct pawl_outcome outcome = {.http_code = 200};
    assert_int_equal(pawl_complete(bed->a.pawl, begun.token, &outcome, NULL), PAWL_STALE);
    assert_int_equal(begin(&bed->a, &operation).decision, PAWL_OUTCOME_UNKNOWN);
    RUN(bed->a.db, "COMMIT");
    assert_text(bed->b.db, "SELECT status FROM idempotency_keys", "unknown");
}

static void other_requests_are_told_apart(void **state)
{
    struct bed *bed = *state;
    char one[65], two[65];
    memset(one, '1', 64);
    memset(two, '2', 64);
    one[64] = two[64] = 0;
    struct pawl_operation operation = of_key("k1");
    operation.payload_hash = one;
    effect(&bed->a, &operation, 200, "{}");
    assert_int_equal(decision(&bed->b, &operation), PAWL_REPLAY);
    operation.payload_hash = NULL;
    assert_int_equal(decision(&bed->b, &operation), PAWL_REPLAY);
    operation.payload_hash = two;
    assert_int_equal(decision(&bed->b, &operation), PAWL_OTHER_REQUEST);
    operation.tenant = "m2";
    assert_int_equal(decision(&bed->b, &operation), PAWL_PROCEED);
    operation.tenant = NULL;
    assert_int_equal(decision(&bed->b, &operation), PAWL_PROCEED);
}

static void arguments_are_checked(void **state)
{
    struct bed *bed = *state;
    char long_key[257];
    memset(long_key, 'k', 256);
    long_key[256] = 0;
    struct pawl_begun begun;
    struct pawl_operation operation = of_key("k1");
    assert_int_equal(pawl_begin(bed->a.pawl, &operation, &begun), PAWL_INVALID);
    assert_non_null(strstr(pawl_problem(bed->a.pawl), "BEGIN IMMEDIATE"));
    RUN(bed->a.db, "BEGIN IMMEDIATE");
    const char *bad[] = {"", long_key, NULL, "tab\t", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        operation = of_key(bad[i]);
        assert_int_equal(pawl_begin(bed->a.pawl, &operation, &begun), PAWL_MALFORMED);
    }
    operation = (struct pawl_operation){.tenant = "credential:x", .rule = "r", .key = "k"};
    assert_int_equal(pawl_begin(bed->a.pawl, &operation, &begun), PAWL_MALFORMED);
    operation = (struct pawl_operation){.rule = "a b", .key = "k"};
    assert_int_equal(pawl_begin(bed->a.pawl, &operation, &begun), PAWL_MALFORMED);
    operation = of_key("k1");
    operation.ttl_ms = -1;
    assert_int_equal(pawl_begin(bed->a.pawl, &operation, &begun), PAWL_INVALID);
    operation = of_key("k1");
    operation.payload_hash = "abc";
    assert_int_equal(pawl_begin(bed->a.pawl, &operation, &begun), PAWL_INVALID);
    assert_int_equal(number(bed->a.db, "SELECT count(*) FROM pawl_pending"), 0);
    operation = of_key("k1");
    begun = begin(&bed->a, &operation);
    const struct pawl_outcome worse[] = {
        {.http_code = 199},
        {.http_code = 600},
        {.http_code = 204, .body = "x", .body_size = 1},
        {.http_code = 200, .headers = "[]"},
        {.http_code = 200, .headers = "{\"a b\":\"c\"}"},
        {.http_code = 200, .headers = "{\"a\":\"c\\nd\"}"},
        {.http_code = 200, .headers = "{\"a\":null}"},
    };
    for (size_t i = 0; i < sizeof worse / sizeof *worse; i++)
        assert_int_equal(pawl_complete(bed->a.pawl, begun.token, &worse[i], NULL), PAWL_INVALID);
    complete(&bed->a, begun.token, 200, "after all");
    RUN(bed->a.db, "COMMIT");
}

static void a_second_identity(void **state)
{
    struct bed *bed = *state;
    struct pawl_operation operation = of_key("k1"), second = of_key("k2");
    operation.once = second.once = "charge-7";
    effect(&bed->a, &operation, 201, "refund");
    assert_int_equal(decision(&bed->b, &second), PAWL_REPLAY);
    second.duplicate = PAWL_DUPLICATE_REJECT;
    RUN(bed->b.db, "BEGIN IMMEDIATE");
    struct pawl_begun begun = begin(&bed->b, &second);
    assert_int_equal(begun.decision, PAWL_REJECTED);
    assert_int_equal(begun.http_code, 201);
    assert_null(begun.body);
    RUN(bed->b.db, "COMMIT");
    second.duplicate = PAWL_DUPLICATE_ACK;
    RUN(bed->b.db, "BEGIN IMMEDIATE");
    begun = begin(&bed->b, &second);
    assert_int_equal(begun.decision, PAWL_REPLAY);
    assert_int_equal(begun.http_code, 204);
    RUN(bed->b.db, "COMMIT");
    /* Its own key is its own: a retry of the first is a replay whatever `duplicate` says. */
    operation.duplicate = PAWL_DUPLICATE_REJECT;
    assert_int_equal(decision(&bed->a, &operation), PAWL_REPLAY);
    struct pawl_operation plain = of_key("k3");
    effect(&bed->a, &plain, 200, "{}");
    plain.duplicate = PAWL_DUPLICATE_REJECT;
    assert_int_equal(decision(&bed->a, &plain), PAWL_REJECTED);
    second = of_key("k4");
    second.once = "charge-8";
    assert_int_equal(decision(&bed->b, &second), PAWL_PROCEED);
}

static void a_duplicate_that_is_none_is_refused(void **state)
{
    struct bed *bed = *state;
    struct pawl_operation operation = of_key("k1");
    struct pawl_begun begun;
    operation.duplicate = (enum pawl_duplicate)(PAWL_DUPLICATE_ACK + 1);
    RUN(bed->a.db, "BEGIN IMMEDIATE");
    assert_int_equal(pawl_begin(bed->a.pawl, &operation, &begun), PAWL_INVALID);
    assert_string_equal(pawl_problem(bed->a.pawl), "duplicate must be replay, reject or ack");
    RUN(bed->a.db, "ROLLBACK");
}

static enum pawl_error claim(struct pawl *pawl, const char *key, const char *row,
                             struct pawl_claimed *ret_claimed)
{
    const struct pawl_claim claim = {.tenant = "m1", .rule = "products", .key = key, .row = row};
    return pawl_claim(pawl, &claim, ret_claimed);
}

static void a_key_expires_and_a_claim_does_not(void **state)
{
    struct bed *bed = *state;
    struct pawl_operation operation = of_key("k1"), tombstone = of_key("k2");
    tombstone.tombstone_ms = INT64_C(48) * 3600 * 1000;
    struct pawl_claimed claimed;
    effect(&bed->a, &operation, 200, "{}");
    effect(&bed->a, &tombstone, 200, "{}");
    RUN(bed->a.db, "BEGIN IMMEDIATE");
    OK(&bed->a, claim(bed->a.pawl, "P1", "{\"n\":1}", &claimed));
    assert_true(claimed.claimed);
    assert_null(claimed.existing);
    RUN(bed->a.db, "COMMIT");
    later(25 * HOUR_US);
    assert_int_equal(decision(&bed->b, &operation), PAWL_PROCEED);
    assert_int_equal(decision(&bed->b, &tombstone), PAWL_RESULT_EXPIRED);
    RUN(bed->b.db, "BEGIN IMMEDIATE");
    OK(&bed->b, claim(bed->b.pawl, "P1", "{\"n\":2}", &claimed));
    assert_false(claimed.claimed);
    assert_string_equal(claimed.existing, "{\"n\":1}");
    assert_true(claimed.at_us < WALL_US + HOUR_US);
    assert_int_equal(claim(bed->b.pawl, "P2", "{", &claimed), PAWL_INVALID);
    RUN(bed->b.db, "ROLLBACK");
    /* What is over is swept by some of those that come. */
    effect(&bed->a, &operation, 200, "{}");
    later(100 * HOUR_US);
    for (int i = 0; i < 16; i++) {
        char key[8];
        snprintf(key, sizeof key, "n%d", i);
        struct pawl_operation fresh = of_key(key);
        effect(&bed->a, &fresh, 200, "{}");
    }
    assert_int_equal(number(bed->a.db, "SELECT count(*) FROM pawl_outcome"), 17);
}

static void a_snapshot_that_is_old_starts_again(void **state)
{
    struct bed *bed = *state;
    struct pawl_operation operation = of_key("k1"), other = of_key("k2");
    effect(&bed->a, &other, 200, "{}");
    RUN(bed->b.db, "BEGIN");
    assert_int_equal(number(bed->b.db, "SELECT count(*) FROM effect"), 1);
    effect(&bed->a, &operation, 200, "first");
    struct pawl_begun begun;
    assert_int_equal(pawl_begin(bed->b.pawl, &operation, &begun), PAWL_AGAIN);
    RUN(bed->b.db, "ROLLBACK");
    assert_int_equal(decision(&bed->b, &operation), PAWL_REPLAY);
    /* While another one writes it is the same, at the first write. */
    struct pawl_operation third = of_key("k3");
    RUN(bed->a.db, "BEGIN IMMEDIATE");
    assert_int_equal(begin(&bed->a, &third).decision, PAWL_PROCEED);
    RUN(bed->b.db, "BEGIN");
    assert_int_equal(pawl_begin(bed->b.pawl, &third, &begun), PAWL_AGAIN);
    RUN(bed->b.db, "ROLLBACK");
    RUN(bed->a.db, "ROLLBACK");
    assert_int_equal(decision(&bed->b, &third), PAWL_PROCEED);
}

int main(void)
{
#define BED_TEST(test) cmocka_unit_test_setup_teardown(test, make_bed, remove_bed)
    const struct CMUnitTest tests[] = {
        BED_TEST(a_retry_gets_the_first_response),
        BED_TEST(what_rolls_back_never_was),
        BED_TEST(a_transaction_begins_a_key_once),
        BED_TEST(what_is_released_runs_again),
        BED_TEST(commit_needs_an_end),
        BED_TEST(without_foreign_keys_it_is_unknown),
        BED_TEST(other_requests_are_told_apart),
        BED_TEST(arguments_are_checked),
        BED_TEST(a_second_identity),
        BED_TEST(a_duplicate_that_is_none_is_refused),
        BED_TEST(a_key_expires_and_a_claim_does_not),
        BED_TEST(a_snapshot_that_is_old_starts_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
