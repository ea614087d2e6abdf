/* SPDX-License-Identifier: Apache-2.0 */
/* Which rules of a store's records a config does not know (daemon/check.h). */
#include "store_bed.h"

#include "daemon/check.h"
#include <stdio.h>
#include <unistd.h>

#define RULES 12 /* more than are told */
#define TOLD 8

static void count_line(void *argument, struct slice line)
{
    size_t *n = argument;
    assert_true(slice_find(line, '\'') > 0);
    ++*n;
}

/* Until the list is queued as well, so that one batch takes both. */
static void await_list(void *argument)
{
    while (store_counts(((struct bed *)argument)->store).queued < 2)
        usleep(500);
}

static void of_a_batch_that_is_tried_again_each_rule_is_reported_once(void **state)
{
    struct bed *bed = *state;
    char names[RULES][8];
    for (uint64_t i = 0; i < RULES; i++) {
        struct store_op op = begin_on(i);
        snprintf(names[i], sizeof names[i], "rule%d", (int)i);
        op.arrival.rule = slice_of(names[i]);
        run(bed, &op);
    }
    struct rule_set rules = {.n = 0};
    struct config config = {.gateway.rules = &rules, .upstream.host = SLICE("127.0.0.1")};
    size_t told = 0;
    struct store_op another = begin_on(RULES);
    struct hostile_faults *faults = hostile_faults(bed->backend);
    faults->argument = bed;
    faults->loaded = await_list;
    atomic_store(&faults->next_save, BACKEND_BUSY);
    submit(bed, &another);
    check_rules_known(bed->store, &config, count_line, &told);
    await(bed, &another);
    assert_int_equal(told, TOLD);
}

/* `pawl send`, `run` and `each` keep records that are no gateway's. */
static void records_of_commands_are_of_no_lost_rule(void **state)
{
    static const char *const rules[] = {"send", "job", "nightly"};
    struct bed *bed = *state;
    for (uint64_t i = 0; i < 3; i++) {
        struct store_op op = begin_on(i);
        op.arrival.tenant = SLICE("");
        op.arrival.rule = slice_of(rules[i]);
        op.arrival.recipe = i == 2 ? SLICE("job1") : op.arrival.recipe;
        run(bed, &op);
    }
    struct rule_set none = {.n = 0};
    struct config config = {.gateway.rules = &none, .upstream.host = SLICE("127.0.0.1")};
    size_t told = 0;
    check_rules_known(bed->store, &config, count_line, &told);
    assert_int_equal(told, 0);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        BED_TEST(of_a_batch_that_is_tried_again_each_rule_is_reported_once),
        BED_TEST(records_of_commands_are_of_no_lost_rule),
    };
    return bed_run_on(BED_TOY, tests, sizeof tests / sizeof *tests);
}
