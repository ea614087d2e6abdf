/* SPDX-License-Identifier: Apache-2.0 */
/* Every arrow of store/committer/machine.h, walked by a committer over the toy backend. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "store/committer/committer.h"
#include "store/committer/machine.h"
#include "store/store.h"
#include "toy/hostile.h"
#include <stdio.h>

#define SECOND CLOCK_US_PER_S

struct stand {
    struct store *store;
    struct committer *committer; /* its only one */
    struct hostile_faults *faults;
    int64_t now;
    uint64_t next_key;
    struct store_op first; /* it proceeded */
    int stops;
};

static void note_stop(void *argument, const char *what)
{
    ((struct stand *)argument)->stops++;
    assert_non_null(what);
}

static void pass(struct stand *stand, int64_t span)
{
    stand->now += span;
    clock_test_set(stand->now, stand->now);
}

static struct store_op begin(struct stand *stand)
{
    struct store_op op = {.kind = STORE_BEGIN,
                          .arrival.tenant = SLICE("t"),
                          .arrival.rule = SLICE("r"),
                          .arrival.key = SLICE("k"),
                          .arrival.recipe = SLICE("v"),
                          .begin = {.lease_us = 30 * SECOND, .ttl_us = SECOND}};
    stand->next_key++;
    op.key_hash = digest_of(slice_make((const char *)&stand->next_key, sizeof stand->next_key));
    op.begin.attempt_id[0] = (unsigned char)stand->next_key;
    return op;
}

static void open_stand(struct stand *stand)
{
    struct store_config config = store_config_default();
    config.no_thread = true;
    config.fail_stop = note_stop;
    config.fail_stop_argument = stand;
    *stand = (struct stand){.now = clock_wall_us()};
    pass(stand, 0);
    struct backend *backend = hostile_toy(NULL);
    assert_non_null(backend);
    stand->faults = hostile_faults(backend);
    char *problem = NULL;
    assert_int_equal(store_open_over(&config, backend, &stand->store, &problem), STORE_OPENED);
    stand->committer = stand->store->committers[0];
    stand->first = begin(stand);
    store_submit(stand->store, &stand->first);
    (void)store_step(stand->store);
    assert_int_equal(stand->first.result.verdict, RECORD_PROCEED);
}

/* One batch with a begin in it, in which this happens; the begin ends at last or is taken back. */
static void meet(struct stand *stand, enum committer_event event)
{
    static const enum backend_status saves[COMMITTER_EVENTS] = {
        [COMMITTER_NO_SPACE] = BACKEND_FULL,
        [COMMITTER_HELD_UP] = BACKEND_BUSY,
        [COMMITTER_FAILED] = BACKEND_FATAL,
    };
    struct committer *c = stand->committer;
    if (event != COMMITTER_READS)
        pass(stand, SECOND);
    atomic_store(&stand->faults->gone, event == COMMITTER_LOST);
    atomic_store(&stand->faults->next_save, (int)saves[event]);
    struct store_op op = begin(stand);
    /* Without space begins wait while what must be written is tried; without the file they end. */
    if (committer_state(c) != COMMITTER_UP && event != COMMITTER_READS)
        op = (struct store_op){.kind = STORE_EXTEND,
                               .key_hash = stand->first.key_hash,
                               .writing.token = stand->first.result.record.token};
    store_submit(stand->store, &op);
    (void)store_step(stand->store);
    atomic_store(&stand->faults->next_save, BACKEND_OK);
    bool ended = store_op_ended(&op) || store_withdraw(stand->store, &op, false);
    assert_true(ended);
}

static void bring(struct stand *stand, enum committer_state state)
{
    static const enum committer_event ways[COMMITTER_STATES] = {
        [COMMITTER_UP] = COMMITTER_COMMITTED, [COMMITTER_FULL] = COMMITTER_NO_SPACE,
        [COMMITTER_HELD] = COMMITTER_HELD_UP, [COMMITTER_AWAY] = COMMITTER_LOST,
        [COMMITTER_DEAD] = COMMITTER_FAILED,
    };
    meet(stand, ways[state]);
    assert_int_equal(committer_state(stand->committer), state);
}

static void walk(enum committer_state from, enum committer_event event)
{
    struct stand stand;
    open_stand(&stand);
    bring(&stand, from);
    enum committer_state wanted = committer_next(from, event);
    meet(&stand, event);
    assert_int_equal(committer_state(stand.committer), wanted);
    assert_int_equal(stand.stops, wanted == COMMITTER_DEAD);
    store_close(stand.store);
    clock_test_set(0, 0);
}

static void a_batch_moves_the_committer_as_it_is_drawn(void **state)
{
    (void)state;
    for (int from = COMMITTER_UP; from < COMMITTER_DEAD; from++)
        for (int event = COMMITTER_READS; event < COMMITTER_EVENTS; event++)
            if (event != COMMITTER_READS || from == COMMITTER_FULL)
                walk((enum committer_state)from, (enum committer_event)event);
}

static void nothing_is_applied_any_more_once_it_is_dead(void **state)
{
    (void)state;
    struct stand stand;
    open_stand(&stand);
    bring(&stand, COMMITTER_DEAD);
    pass(&stand, 60 * SECOND);
    struct store_op op = begin(&stand);
    store_submit(stand.store, &op);
    assert_int_equal(op.result.status, STORE_DEAD);
    assert_false(store_step(stand.store));
    store_close(stand.store);
    clock_test_set(0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_moves_the_committer_as_it_is_drawn),
        cmocka_unit_test(nothing_is_applied_any_more_once_it_is_dead),
    };
    return cmocka_run_group_tests_name("store_machine", tests, NULL, NULL);
}
