/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens of one key grow, over all of its lives: also where a life came and went between the load
 * and the save of a batch (docs/model/tokens.pml). */
#include "between_bed.h"

/* A key that is claimed, completed and gone behind the next load. */
static void meanwhile_a_life_comes_and_goes(struct bed *bed, struct between *between,
                                            enum store_op_kind end)
{
    open_hostile(bed);
    between->ops[0] = begin_on(1);
    between->ops[1] = write_on(1, end, 0);
    between->ops[1].writing.force = true;
    meanwhile(bed, between, 2);
}

/* found: R26 */
static void a_token_of_a_key_is_above_those_of_lives_that_are_over(void **state)
{
    static const enum store_op_kind ends[] = {STORE_FORGET, STORE_DROP};
    struct bed *bed = *state;
    for (size_t i = 0; i < 2 && has_between(bed); i++) {
        static struct between between;
        meanwhile_a_life_comes_and_goes(bed, &between, ends[i]);
        int64_t token = proceed(bed, 1);
        assert_true(token > between.ops[0].result.record.token);
        act(bed, 1, STORE_DROP, token);
        close_other(&between.other);
    }
}

/* Of two other processes: one whose attempt lapses at once, and one that takes over. */
struct takers {
    struct bed first;
    struct bed second;
    int64_t token; /* of the second */
};

static void take_over_and_forget(void *argument)
{
    struct takers *takers = argument;
    struct store_op op = begin_on(1), over, forget = write_on(1, STORE_FORGET, 0);
    op.begin.lease_us = 1;
    op.begin.unknown = RECORD_UNKNOWN_RETRY;
    forget.writing.force = true;
    run(&takers->first, &op);
    do { /* store time of the second may be a little behind */
        over = begin_on(1);
        over.begin.unknown = RECORD_UNKNOWN_RETRY;
        run(&takers->second, &over);
    } while (over.result.verdict == RECORD_IN_PROGRESS);
    run(&takers->second, &forget);
    assert_int_equal(over.result.verdict, RECORD_PROCEED);
    assert_int_equal(forget.result.write, RECORD_WRITTEN);
    takers->token = over.result.record.token;
    assert_true(takers->token > op.result.record.token);
}

static void so_it_is_where_one_took_over_in_that_life(void **state)
{
    struct bed *bed = *state;
    static struct takers takers;
    if (!has_between(bed))
        return;
    open_hostile(bed);
    open_other(bed, &takers.first);
    open_other(bed, &takers.second);
    hostile_faults(bed->backend)->argument = &takers;
    hostile_faults(bed->backend)->loaded = take_over_and_forget;
    assert_true(proceed(bed, 1) > takers.token);
    close_other(&takers.second);
    close_other(&takers.first);
}

static void so_it_is_where_a_record_expired_and_was_swept(void **state)
{
    struct bed *bed = *state;
    static struct between between;
    if (bed->kind != BED_POSTGRES)
        return;
    open_hostile(bed);
    between.ops[0] = begin_on(1);
    between.ops[1] = write_on(1, STORE_RELEASE, 0);
    between.then = "UPDATE record SET expires_at = 1; UPDATE unheld SET at = 1;"
                   "SELECT sweep(1, 0, 10)";
    meanwhile(bed, &between, 2);
    assert_true(proceed(bed, 1) > between.ops[0].result.record.token);
    assert_int_equal(look(bed, 1).attempts, 1);
    close_other(&between.other);
}

/* Nobody counts what was old when it went, and whoever is older is too old. */
static void a_claim_whose_tokens_are_old_is_decided_again(void **state)
{
    struct bed *bed = *state;
    static struct between between;
    if (bed->kind != BED_POSTGRES)
        return;
    open_hostile(bed);
    between.ops[0] = begin_on(2);
    meanwhile(bed, &between, 1);
    bed_exec(bed, "ALTER SEQUENCE token INCREMENT BY 100000000");
    int64_t token = proceed(bed, 1);
    bed_exec(bed, "ALTER SEQUENCE token INCREMENT BY 256");
    assert_true(token > between.ops[0].result.record.token);
    close_other(&between.other);
}

#define T(name) BED_TEST_AFTER(name, set_up)

int main(void)
{
    struct CMUnitTest tests[] = {
        T(a_token_of_a_key_is_above_those_of_lives_that_are_over),
        T(so_it_is_where_one_took_over_in_that_life),
        T(so_it_is_where_a_record_expired_and_was_swept),
        T(a_claim_whose_tokens_are_old_is_decided_again),
    };
    return bed_run(tests, sizeof tests / sizeof *tests);
}
