/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/steps.h"

/* A task of a list. */
#define STEP(n, how)                                                                               \
    {                                                                                              \
        .step = (n), .state = TASK_##how                                                           \
    }
#define DOUBT(n, how)                                                                              \
    {                                                                                              \
        .step = (n), .state = TASK_##how, .in_doubt = true, .must_park = TASK_##how == TASK_DEAD   \
    }

static void what_a_list_is_follows_from_its_tasks(void **state)
{
    static const struct {
        enum steps_state is;
        bool is_back;
        size_t n;
        struct steps_task tasks[4];
    } table[] = {
        {STEPS_RUNNING, false, 2, {STEP(1, DONE), STEP(2, WAITING)}},
        {STEPS_RUNNING, false, 2, {STEP(1, SENDING), STEP(2, WAITING)}},
        {STEPS_DONE, false, 2, {STEP(1, DONE), STEP(2, DONE)}},
        {STEPS_UNDOING, false, 2, {STEP(1, DONE), STEP(2, DEAD)}},
        {STEPS_PARKED, false, 2, {STEP(1, DONE), DOUBT(2, DEAD)}},
        {STEPS_RUNNING, false, 2, {DOUBT(1, WAITING), STEP(2, WAITING)}},
        {STEPS_UNDOING, false, 2, {STEP(1, DROPPED), STEP(2, WAITING)}},
        {STEPS_UNDONE, true, 2, {STEP(1, DEAD), STEP(2, DROPPED)}},
        {STEPS_PARTIAL, true, 2, {STEP(1, DONE), DOUBT(2, DROPPED)}},
        {STEPS_UNDOING, true, 3, {STEP(-1, WAITING), STEP(1, DONE), STEP(2, DEAD)}},
        {STEPS_UNDOING, true, 3, {STEP(-1, SENDING), STEP(1, DONE), STEP(2, DEAD)}},
        {STEPS_PARKED, true, 3, {STEP(-1, DEAD), STEP(1, DONE), STEP(2, DEAD)}},
        {STEPS_PARKED, true, 4, {STEP(-2, DONE), STEP(-1, DEAD), STEP(1, DONE), STEP(2, DONE)}},
        {STEPS_UNDOING, true, 4, {STEP(-2, WAITING), STEP(-1, DEAD), STEP(1, DONE), STEP(2, DONE)}},
        {STEPS_UNDONE, true, 3, {STEP(-1, DONE), STEP(1, DONE), STEP(2, DEAD)}},
        {STEPS_PARTIAL, true, 3, {STEP(-1, DROPPED), STEP(1, DONE), STEP(2, DEAD)}},
        {STEPS_PARTIAL, true, 3, {STEP(-1, DONE), STEP(1, DONE), DOUBT(2, DROPPED)}},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(table); i++)
        assert_int_equal(steps_judge(table[i].tasks, table[i].n, table[i].is_back), table[i].is);
}

/* Each act on a task that waits, is being sent, is done, dead, dropped. */
struct allowed {
    enum steps_act act;
    enum steps_answer answers[TASK_STATE_COUNT];
};

#define YES STEPS_MAY
#define NO STEPS_MAY_NOT
#define SENT STEPS_IN_SENDING
#define ASKS STEPS_IN_DOUBT

static void expect(enum steps_state list, const struct allowed *table, struct steps_task task,
                   const struct steps_wish *with)
{
    struct steps_wish wish = *with;
    for (size_t i = 0; i < 5; i++)
        for (int state = 0; state < TASK_STATE_COUNT; state++) {
            task.state = (enum task_state)state;
            wish.act = table[i].act;
            assert_int_equal(steps_may(list, &task, &wish), table[i].answers[state]);
        }
}

static void every_act_in_every_state_has_its_answer(void **state)
{
    static const struct allowed step[] = {{STEPS_RETRY, {NO, SENT, NO, YES, NO}},
                                          {STEPS_DROP, {NO, SENT, NO, YES, NO}},
                                          {STEPS_SETTLE_DONE, {NO, SENT, NO, YES, NO}},
                                          {STEPS_SETTLE_NOT_DONE, {NO, SENT, NO, YES, NO}},
                                          {STEPS_EDIT, {YES, SENT, NO, NO, NO}}};
    static const struct allowed begun[] = {{STEPS_RETRY, {NO, SENT, NO, YES, NO}},
                                           {STEPS_DROP, {NO, SENT, NO, ASKS, NO}},
                                           {STEPS_SETTLE_DONE, {NO, SENT, NO, YES, NO}},
                                           {STEPS_SETTLE_NOT_DONE, {NO, SENT, NO, YES, NO}},
                                           {STEPS_EDIT, {NO, SENT, NO, NO, NO}}};
    static const struct allowed undone[] = {{STEPS_RETRY, {NO, SENT, NO, NO, NO}},
                                            {STEPS_DROP, {NO, SENT, NO, NO, NO}},
                                            {STEPS_SETTLE_DONE, {NO, SENT, NO, NO, NO}},
                                            {STEPS_SETTLE_NOT_DONE, {NO, SENT, NO, NO, NO}},
                                            {STEPS_EDIT, {NO, SENT, NO, NO, NO}}};
    static const struct allowed reverse[] = {{STEPS_RETRY, {YES, SENT, NO, YES, NO}},
                                             {STEPS_DROP, {YES, SENT, NO, YES, NO}},
                                             {STEPS_SETTLE_DONE, {NO, SENT, NO, YES, NO}},
                                             {STEPS_SETTLE_NOT_DONE, {NO, SENT, NO, YES, NO}},
                                             {STEPS_EDIT, {YES, SENT, NO, YES, NO}}};
    static const struct steps_wish forward = {.is_back = false}, back = {.is_back = true};
    static const struct steps_task made = {.step = -1, .can_run = true};
    (void)state;
    expect(STEPS_RUNNING, step, (struct steps_task){.step = 1}, &forward);
    expect(STEPS_RUNNING, begun,
           (struct steps_task){.step = 1, .in_doubt = true, .has_begun = true}, &forward);
    expect(STEPS_UNDOING, undone, (struct steps_task){.step = 1}, &back);
    expect(STEPS_PARKED, undone, (struct steps_task){.step = 1, .in_doubt = true}, &back);
    expect(STEPS_UNDOING, reverse, made, &back);
    expect(STEPS_PARKED, reverse, made, &back);
}

static void nothing_is_done_to_a_list_that_is_over(void **state)
{
    static const enum steps_state over[] = {STEPS_DONE, STEPS_UNDONE, STEPS_PARTIAL, STEPS_KEPT};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(over); i++)
        for (int act = STEPS_RETRY; act <= STEPS_EDIT; act++) {
            const struct steps_task tasks[] = {{.step = -1, .state = TASK_DEAD, .can_run = true}};
            const struct steps_wish wish = {(enum steps_act)act, true, true};
            assert_true(steps_are_over(over[i]));
            assert_int_equal(steps_may(over[i], tasks, &wish), STEPS_MAY_NOT);
            assert_int_equal(steps_may_drop(over[i], tasks, 1, true), STEPS_MAY_NOT);
        }
    assert_true(slice_eq(steps_state_name(STEPS_KEPT), SLICE("kept")));
}

static void an_undo_that_cannot_be_made_is_edited_or_dropped(void **state)
{
    const struct steps_task task = {.step = -1, .state = TASK_DEAD};
    struct steps_wish wish = {STEPS_RETRY, true, true};
    (void)state;
    assert_int_equal(steps_may(STEPS_PARKED, &task, &wish), STEPS_UNMADE);
    wish.act = STEPS_EDIT;
    assert_int_equal(steps_may(STEPS_PARKED, &task, &wish), STEPS_MAY);
    wish.act = STEPS_DROP;
    assert_int_equal(steps_may(STEPS_PARKED, &task, &wish), STEPS_MAY);
}

static void a_whole_list_is_dropped_unless_it_is_sent_or_in_doubt(void **state)
{
    static const struct steps_task waits[] = {STEP(1, DONE), STEP(2, WAITING)},
                                   sent[] = {STEP(1, SENDING), STEP(2, WAITING)},
                                   doubted[] = {STEP(1, DONE), DOUBT(2, DEAD)},
                                   undone[] = {STEP(-1, WAITING), STEP(1, DONE), DOUBT(2, DROPPED)};
    (void)state;
    assert_int_equal(steps_may_drop(STEPS_RUNNING, waits, 2, false), STEPS_MAY);
    assert_int_equal(steps_may_drop(STEPS_RUNNING, sent, 2, true), STEPS_IN_SENDING);
    assert_int_equal(steps_may_drop(STEPS_PARKED, doubted, 2, false), STEPS_IN_DOUBT);
    assert_int_equal(steps_may_drop(STEPS_PARKED, doubted, 2, true), STEPS_MAY);
    assert_int_equal(steps_may_drop(STEPS_UNDOING, undone, 3, false), STEPS_MAY);
}

/* A 409 says that the key is known, as does what is busy there; a 5xx says nothing. */
static void a_refusal_behind_a_doubt_counts_where_the_service_dedupes(void **state)
{
    static const struct {
        int status;
        enum task_reason reason;
        bool dedupes, is_refusal;
        int64_t busy_since;
    } table[] = {
        {422, TASK_REASON_IN_DOUBT, true, true, 0},  {422, TASK_REASON_IN_DOUBT, false, false, 0},
        {422, TASK_REASON_DEADLINE, true, false, 0}, {409, TASK_REASON_IN_DOUBT, true, false, 0},
        {500, TASK_REASON_IN_DOUBT, true, false, 0}, {0, TASK_REASON_LOST, true, false, 0},
        {422, TASK_REASON_IN_DOUBT, true, false, 1}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        const struct task task = {
            .state = TASK_DEAD, .status = table[i].status, .busy_since = table[i].busy_since};
        assert_int_equal(steps_is_refusal(&task, table[i].reason, table[i].dedupes),
                         table[i].is_refusal);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_list_is_follows_from_its_tasks),
        cmocka_unit_test(every_act_in_every_state_has_its_answer),
        cmocka_unit_test(nothing_is_done_to_a_list_that_is_over),
        cmocka_unit_test(an_undo_that_cannot_be_made_is_edited_or_dropped),
        cmocka_unit_test(a_whole_list_is_dropped_unless_it_is_sent_or_in_doubt),
        cmocka_unit_test(a_refusal_behind_a_doubt_counts_where_the_service_dedupes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
