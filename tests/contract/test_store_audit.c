/* SPDX-License-Identifier: Apache-2.0 */
/* What operators did is written down with what it changed, on every backend. */
#include "store_bed.h"

#include "base/buf.h"
#include "base/mem.h"

#define ALL SIZE_MAX

static void add_line(void *argument, const struct table_row *row)
{
    const struct store_audit *audit = (const struct store_audit *)row;
    struct buf *lines = argument;
    buf_printf(lines, "%.*s %s %.*s/%.*s/%.*s %s-%s %d%s\n", SLICE_ARG(audit->actor),
               store_act_name(audit->act), SLICE_ARG(audit->tenant), SLICE_ARG(audit->rule),
               SLICE_ARG(audit->key), record_status_name(audit->from),
               record_status_name(audit->to), audit->http_status, audit->force ? " forced" : "");
}

static void run_list(struct bed *bed, const struct table_query *query)
{
    struct store_op op = {.kind = STORE_QUERY, .query = query};
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_DONE);
}

static void check_audit(struct bed *bed, const char *expected)
{
    struct buf lines BUF_AUTO = buf_make(SIZE_MAX);
    struct table_query query = {
        .table = &audit_table, .limit = ALL, .each = add_line, .argument = &lines};
    run_list(bed, &query);
    buf_add_char(&lines, 0);
    assert_string_equal(lines.at, expected);
}

static struct store_op by_hand(uint64_t key, enum store_op_kind kind, int64_t token)
{
    struct store_op op = write_on(key, kind, token);
    op.writing.actor = SLICE("cli:ann");
    return op;
}

static enum record_write act_by_hand(struct bed *bed, struct store_op op)
{
    run(bed, &op);
    outcome_unref(op.result.found);
    assert_int_equal(op.result.status, STORE_DONE);
    return op.result.write;
}

static void each_act_is_written_down_with_what_it_changed(void **state)
{
    struct bed *bed = *state;
    int64_t tokens[3] = {proceed(bed, 0), proceed(bed, 1), proceed(bed, 2)};
    act(bed, 0, STORE_DOUBT, tokens[0]);
    act(bed, 1, STORE_DOUBT, tokens[1]);
    assert_int_equal(act_by_hand(bed, by_hand(0, STORE_RESOLVE, tokens[0])), RECORD_WRITTEN);
    assert_int_equal(act_by_hand(bed, by_hand(1, STORE_RELEASE_SETTLED, tokens[1])),
                     RECORD_WRITTEN);
    struct store_op forget = by_hand(2, STORE_FORGET, 0);
    forget.writing.force = true;
    assert_int_equal(act_by_hand(bed, forget), RECORD_WRITTEN);
    check_audit(bed, "cli:ann resolve tenant/rule/key unknown-complete 201\n"
                     "cli:ann release tenant/rule/key unknown-pending 0\n"
                     "cli:ann forget tenant/rule/key pending-absent 0 forced\n");
}

static void what_an_operators_probe_found_is_written_down_as_resolved(void **state)
{
    struct bed *bed = *state;
    struct store_op op = by_hand(1, STORE_FINISH, proceed(bed, 1));
    assert_int_equal(act_by_hand(bed, op), RECORD_WRITTEN);
    check_audit(bed, "cli:ann resolve tenant/rule/key pending-complete 201\n");
}

struct first {
    struct store_audit audit;
    size_t n;
};

static void note_first(void *argument, const struct table_row *row)
{
    const struct store_audit *audit = (const struct store_audit *)row;
    struct first *first = argument;
    if (first->n++ == 0)
        first->audit = *audit;
}

static void an_act_keeps_its_time_and_the_token_it_met(void **state)
{
    struct bed *bed = *state;
    int64_t token = proceed(bed, 1);
    act(bed, 1, STORE_DOUBT, token);
    struct store_op op = by_hand(1, STORE_FORGET, 0);
    op.writing.force = true;
    run(bed, &op);
    struct first first = {.n = 0};
    struct table_query query = {
        .table = &audit_table, .limit = ALL, .each = note_first, .argument = &first};
    run_list(bed, &query);
    assert_int_equal(first.n, 1);
    assert_int_equal(first.audit.token, token);
    assert_int_equal(first.audit.at, op.result.store_now);
}

static void what_changed_nothing_and_what_owners_do_is_not_written_down(void **state)
{
    struct bed *bed = *state;
    int64_t token = proceed(bed, 1);
    assert_int_equal(act_by_hand(bed, by_hand(1, STORE_RESOLVE, token)), RECORD_LIVE);
    assert_int_equal(act_by_hand(bed, by_hand(1, STORE_RESOLVE, token - 1)), RECORD_STALE);
    assert_int_equal(act_by_hand(bed, by_hand(2, STORE_FORGET, 0)), RECORD_STALE);
    finish(bed, 1, token, "done");
    assert_int_equal(act_by_hand(bed, by_hand(1, STORE_RESOLVE, token)), RECORD_ALREADY);
    check_audit(bed, "");
}

static void a_look_before_it_is_quiet_is_no_act(void **state)
{
    struct bed *bed = *state;
    struct store_op op = begin_on(1);
    op.begin.settle_us = TTL;
    run(bed, &op);
    act(bed, 1, STORE_DOUBT, op.result.record.token);
    struct store_op release = by_hand(1, STORE_RELEASE_SETTLED, op.result.record.token);
    assert_int_equal(act_by_hand(bed, release), RECORD_EARLY);
    check_audit(bed, "");
}

static void a_very_long_actor_is_cut_off(void **state)
{
    struct bed *bed = *state;
    static char name[STORE_ACTOR_MAX + 100];
    memset(name, 'x', sizeof name);
    struct store_op op = by_hand(1, STORE_FORGET, proceed(bed, 1));
    op.writing.actor = slice_make(name, sizeof name);
    op.writing.force = true;
    assert_int_equal(act_by_hand(bed, op), RECORD_WRITTEN);
    struct buf lines BUF_AUTO = buf_make(SIZE_MAX);
    struct table_query query = {
        .table = &audit_table, .limit = ALL, .each = add_line, .argument = &lines};
    run_list(bed, &query);
    assert_int_equal(strspn(lines.at, "x"), STORE_ACTOR_MAX);
}

static void forget_some(struct bed *bed, size_t n)
{
    for (uint64_t key = 0; key < n; key++) {
        struct store_op op = by_hand(key, STORE_FORGET, proceed(bed, key));
        op.writing.force = true;
        assert_int_equal(act_by_hand(bed, op), RECORD_WRITTEN);
    }
}

static void an_act_has_a_token_of_its_own_for_an_id(void **state)
{
    struct bed *bed = *state;
    forget_some(bed, 1);
    struct first first = {.n = 0};
    struct table_query query = {
        .table = &audit_table, .limit = ALL, .each = note_first, .argument = &first};
    run_list(bed, &query);
    assert_true(first.audit.row.id > first.audit.token);
    assert_true(proceed(bed, 1) > first.audit.row.id);
}

struct walk {
    int64_t last;
    size_t n;
};

static void step_on(void *argument, const struct table_row *row)
{
    const struct store_audit *audit = (const struct store_audit *)row;
    struct walk *walk = argument;
    assert_true(audit->row.id > walk->last);
    walk->last = audit->row.id;
    walk->n++;
}

static void acts_are_read_oldest_first_in_pieces(void **state)
{
    struct bed *bed = *state;
    forget_some(bed, 10);
    struct walk walk = {0};
    for (size_t piece = 0; piece < 4; piece++) {
        struct table_query query = {.table = &audit_table,
                                    .after = walk.last,
                                    .limit = 4,
                                    .each = step_on,
                                    .argument = &walk};
        run_list(bed, &query);
    }
    assert_int_equal(walk.n, 10);
    assert_int_equal(check_counts(bed), 0);
}

#ifdef PAWL_HOOKS
static void hold_clock(struct bed *bed, int64_t now)
{
    bed_close(bed);
    clock_test_set(now, now);
    bed->config.no_thread = true;
    bed_open(bed);
}

static void sweep_at(struct bed *bed, int64_t now)
{
    clock_test_set(now, now);
    while (store_step(bed->store))
        ;
}

static void acts_are_swept_after_their_time_and_no_sooner(void **state)
{
    struct bed *bed = *state;
    int64_t now = clock_wall_us();
    hold_clock(bed, now);
    forget_some(bed, 100);
    sweep_at(bed, now + STORE_AUDIT_KEEP_US - 1);
    struct walk walk = {0};
    struct table_query query = {
        .table = &audit_table, .limit = ALL, .each = step_on, .argument = &walk};
    run_list(bed, &query);
    assert_int_equal(walk.n, 100);
    now += STORE_AUDIT_KEEP_US;
    clock_test_set(now, now);
    forget_some(bed, 1);
    sweep_at(bed, now + 2 * SECOND);
    walk = (struct walk){0};
    run_list(bed, &query);
    assert_int_equal(walk.n, 1);
    bed_close(bed);
    clock_test_set(0, 0);
}
#endif

/* ---- with the act, or not at all ---- */

static void an_act_whose_commit_failed_is_written_once(void **state)
{
    struct bed *bed = *state;
    if (bed->kind != BED_TOY)
        return;
    static const enum backend_status failures[] = {BACKEND_FULL, BACKEND_BUSY, BACKEND_UNSURE};
    for (uint64_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        struct store_op op = by_hand(i, STORE_FORGET, proceed(bed, i));
        op.writing.force = true;
        atomic_store(&hostile_faults(bed->backend)->next_save, failures[i]);
        run(bed, &op);
        assert_int_equal(op.result.status, STORE_DONE);
    }
    check_audit(bed, "cli:ann forget tenant/rule/key pending-absent 0 forced\n"
                     "cli:ann forget tenant/rule/key pending-absent 0 forced\n"
                     "cli:ann forget tenant/rule/key pending-absent 0 forced\n");
}

#ifdef PAWL_HOOKS
static void an_act_for_which_memory_ran_out_is_tried_again_and_written_down_once(void **state)
{
    struct bed *bed = *state;
    int64_t now = clock_wall_us();
    hold_clock(bed, now);
    size_t n = 0;
    for (bool fired = true; fired; n++) {
        struct store_op op = by_hand(n, STORE_FORGET, proceed(bed, n));
        op.writing.force = true;
        mem_fail_nth((long)n + 1);
        submit(bed, &op);
        for (; !store_op_ended(&op); now += SECOND) {
            clock_test_set(now, now);
            store_step(bed->store);
        }
        fired = mem_fail_fired();
        mem_fail_nth(0);
        assert_int_equal(op.result.write, RECORD_WRITTEN);
    }
    assert_true(bed->kind == BED_SQLITE || n > 1);
    struct walk walk = {0};
    struct table_query query = {
        .table = &audit_table, .limit = ALL, .each = step_on, .argument = &walk};
    run_list(bed, &query);
    assert_int_equal(walk.n, n);
    bed_close(bed);
    clock_test_set(0, 0);
}
#endif

int main(void)
{
    struct CMUnitTest tests[] = {
        BED_TEST(each_act_is_written_down_with_what_it_changed),
        BED_TEST(what_an_operators_probe_found_is_written_down_as_resolved),
        BED_TEST(an_act_keeps_its_time_and_the_token_it_met),
        BED_TEST(what_changed_nothing_and_what_owners_do_is_not_written_down),
        BED_TEST(a_look_before_it_is_quiet_is_no_act),
        BED_TEST(a_very_long_actor_is_cut_off),
        BED_TEST(an_act_has_a_token_of_its_own_for_an_id),
        BED_TEST(acts_are_read_oldest_first_in_pieces),
#ifdef PAWL_HOOKS
        BED_TEST(acts_are_swept_after_their_time_and_no_sooner),
#endif
        BED_TEST(an_act_whose_commit_failed_is_written_once),
#ifdef PAWL_HOOKS
        BED_TEST(an_act_for_which_memory_ran_out_is_tried_again_and_written_down_once),
#endif
    };
    return bed_run(tests, sizeof tests / sizeof *tests);
}
