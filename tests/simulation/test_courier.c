/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The courier in virtual time: two processes share a store of tasks, their lanes fail, hang and
 * come back, processes die at any point, the store conflicts, clocks jump. The receiver's oracle:
 * no task has two attempts at a time, nor has an order; an order is in sequence, and its first task
 * has a time; every attempt was counted before it left; nothing is lost. Rare states are counted,
 * and all of them must come.
 *
 * COURIER_STEPS=n runs so many steps a seed, COURIER_SEED=n one seed; --long a million in all.
 */
#include <string.h>

#include "courier_world.h"
#include "fiber/fiber.h"
#include "store/tables/orders.h"

#ifndef MUTANT
#define MUTANT 0 /* 1: claims without the version; 2: counts an attempt after it was sent */
#endif           /* 3: looks at no order */

#if MUTANT == 3
enum store_status __wrap_order_find_earlier(struct rows *rows, const struct store_task *stored,
                                            struct store_task *ret_task);
enum store_status __wrap_order_find_earlier(struct rows *rows, const struct store_task *stored,
                                            struct store_task *ret_task)
{
    (void)rows, (void)stored;
    ret_task->row.id = 0;
    return STORE_DONE;
}
#endif

/* ---- reading the store ---- */

static struct rows rows_in(struct arena *arena)
{
    return (struct rows){
        .store = sim.adder, .parker = fiber_parker(), .arena = arena, .within_us = CLOCK_NEVER};
}

static struct store_task read_task(int64_t id, struct arena *arena)
{
    struct rows rows = rows_in(arena);
    struct store_task task;
    SIM_CHECK(rows_by_id(&rows, &task_table, id, &task.row) == STORE_DONE && task.row.id == id);
    return task;
}

/* The first or last unfinished task of an order. */
static bool read_order(struct slice ord, bool last, struct arena *arena,
                       struct store_task *ret_task)
{
    const struct store_task like = {.kind = SLICE("sim"), .open = ord};
    const struct table_query query = {.table = &task_table,
                                      .by = TABLE_BY_INDEX,
                                      .like = &like.row,
                                      .index = &task_indexes[TASK_BY_ORDER],
                                      .prefix = 2,
                                      .is_backward = last,
                                      .limit = 1};
    struct rows rows = rows_in(arena);
    struct store_found found;
    SIM_CHECK(rows_find(&rows, &query, &found) == STORE_DONE);
    if (found.n > 0)
        *ret_task = *(const struct store_task *)found.rows[0];
    return found.n > 0;
}

static struct received *received_of(int64_t id)
{
    for (int i = sim.n_tasks - 1; i >= 0; i--)
        if (sim.tasks[i].id == id)
            return &sim.tasks[i];
    SIM_CHECK(!"a task that was added");
    return NULL;
}

/* ---- the kind ---- */

static void die(struct process *process, enum rare where)
{
    reach(where);
    process->dead = true;
    courier_drain(process->courier);
}

static enum store_status save(struct rows *rows)
{
    rows->within_us = CLOCK_NEVER;
    return rows_save(rows);
}

/* A mutant that saves the task whatever its row's version is. */
static enum store_status save_blindly(struct rows *rows)
{
    ARENA_AUTO struct arena arena = arena_make(SIZE_MAX);
    struct table_row *task = rows->changes[0].row;
    task->version = read_task(task->id, &arena).row.version;
    rows->n = 1;
    return save(rows);
}

static struct courier_verdict claim(const struct courier_kind *kind,
                                    struct courier_delivery *delivery, struct rows *rows)
{
    struct process *process = kind->argument;
    enum store_status status = STORE_DONE;
    (void)delivery;
    if (!process->dead && one_in(300))
        die(process, RARE_KILLED_BEFORE_CLAIM);
    if (process->dead)
        return (struct courier_verdict){.claim = COURIER_DOWN};
    if (one_in(100)) {
        reach(RARE_STORE_DOWN);
        return (struct courier_verdict){.claim = COURIER_DOWN};
    }
    if (MUTANT == 1)
        status = save_blindly(rows);
    else if (MUTANT != 2)
        status = save(rows);
    if (status == STORE_CONFLICT)
        reach(RARE_TAKEN);
    return (struct courier_verdict){.claim = status == STORE_DONE       ? COURIER_CLAIMED
                                             : status == STORE_CONFLICT ? COURIER_TAKEN
                                                                        : COURIER_DOWN};
}

/* What must be true when the first byte leaves. */
static void expect_may_send(struct process *process, const struct courier_delivery *delivery)
{
    const struct store_task *stored = &delivery->stored;
    ARENA_AUTO struct arena arena = arena_make(SIZE_MAX);
    struct store_task saved = read_task(stored->row.id, &arena), first;
    struct received *task = received_of(stored->row.id);
    if (process->dead || sim.boot >= delivery->send_by)
        return;
    bool is_ours = saved.task.state == TASK_SENDING && saved.task.owner == process->owner;
    SIM_CHECK(is_ours && saved.task.tries == stored->task.tries && saved.task.attempts > 0);
    SIM_CHECK(task->until <= sim.boot);
    if (stored->ord.len == 0)
        return;
    SIM_CHECK(read_order(stored->ord, false, &arena, &first));
    bool is_in_time = sim.boot < clock_after(received_of(first.row.id)->retried_at, CLAIM_US);
    SIM_CHECK(first.row.id == stored->row.id || is_in_time);
    for (int i = 0; i < sim.n_tasks; i++)
        SIM_CHECK(sim.tasks[i].order != task->order || sim.tasks[i].until <= sim.boot);
    reach(RARE_IN_ORDER);
}

static bool wait_for(struct process *process, int64_t until)
{
    while (sim.boot < until && !process->dead) {
        fiber_sleep_until(clock_first(until, sim.boot + S / 4));
        if (!process->dead && one_in(500))
            die(process, RARE_KILLED_SENDING);
    }
    return !process->dead;
}

static struct courier_result result_of(enum retry_class class, enum task_reason reason, int status)
{
    return (struct courier_result){
        .task = {.class = class,
                 .reason = reason,
                 .hint_us = one_in(20) ? (int64_t)draw(100) * S : RETRY_NO_HINT,
                 .status = status,
                 .is_unreached = reason == TASK_REASON_NOT_REACHED,
                 .is_in_doubt = reason == TASK_REASON_TIMED_OUT}};
}

static struct courier_result meet(struct process *process, const struct courier_delivery *delivery,
                                  struct received *task)
{
    enum mood mood = sim.calm ? WELL : sim.moods[delivery->stored.lane.at[0] - 'a'];
    int64_t takes = mood == HANGS ? TIMEOUT_US : (int64_t)draw(200) * CLOCK_US_PER_MS;
    if (mood == AWAY) {
        reach(RARE_UNREACHED);
        return result_of(RETRY_LATER, TASK_REASON_NOT_REACHED, 0);
    }
    task->has_effect |= mood == WELL || (mood == HANGS && draw(2) == 0);
    (void)wait_for(process, clock_first(sim.boot + takes, delivery->until));
    if (mood == HANGS) {
        reach(RARE_HUNG);
        return result_of(RETRY_LATER, TASK_REASON_TIMED_OUT, 0);
    }
    if (mood == WELL)
        return result_of(RETRY_DONE, TASK_REASON_NONE, 201);
    return mood == FAILS ? result_of(RETRY_LATER, TASK_REASON_NOT_DONE, 503)
                         : result_of(RETRY_FINAL, TASK_REASON_FINAL, 422);
}

static struct courier_result attempt(const struct courier_kind *kind,
                                     struct courier_delivery *delivery)
{
    struct process *process = kind->argument;
    struct received *task = received_of(delivery->stored.row.id);
    if (!process->dead && one_in(300))
        die(process, RARE_KILLED_CLAIMED);
    expect_may_send(process, delivery);
    if (process->dead || sim.boot >= delivery->send_by) {
        task->lost += process->dead;
        return result_of(RETRY_LATER, TASK_REASON_NOT_REACHED, 0);
    }
    if (task->lost > 0)
        reach(RARE_AGAIN);
    task->until = delivery->until;
    task->by = process;
    struct courier_result result = meet(process, delivery, task);
    if (task->by == process)
        task->until = 0;
    if (!process->dead && one_in(300))
        die(process, RARE_KILLED_BEFORE_END);
    task->lost += process->dead;
    return result;
}

static enum store_status end(const struct courier_kind *kind, struct courier_delivery *delivery,
                             struct rows *rows)
{
    struct process *process = kind->argument;
    (void)delivery;
    if (one_in(100)) /* a store so slow that the lease is over */
        fiber_sleep_until(sim.boot + 60 * S);
    if (process->dead)
        return STORE_DEAD;
    if (rows->n == 0) {
        reach(RARE_END_LATE);
        return STORE_DONE;
    }
    if (MUTANT == 2)
        return save_blindly(rows);
    const struct store_task *task = (const struct store_task *)rows->changes[0].row;
    enum store_status status = save(rows);
    if (status == STORE_CONFLICT)
        reach(RARE_END_CONFLICT);
    if (status == STORE_DONE && task->task.state == TASK_DONE)
        reach(RARE_SUCCEEDED);
    if (status == STORE_DONE && task->task.state == TASK_DEAD)
        reach(RARE_DEAD);
    return status;
}

/* ---- processes ---- */

static struct store *open_store(struct hostile_faults **ret_faults)
{
    struct store_config config = store_config_default();
    struct store *store = NULL;
    char *problem = NULL;
    config.no_thread = true;
    struct backend *backend = hostile_toy(sim.keeper);
    SIM_CHECK(backend);
    if (ret_faults)
        *ret_faults = hostile_faults(backend);
    SIM_CHECK(store_open_over(&config, backend, &store, &problem) == STORE_OPENED);
    return store;
}

static void run_courier(void *argument)
{
    struct process *process = argument;
    (void)courier_run(process->courier, COURIER_FOLLOW);
    struct lanes_counts counts = courier_count(process->courier).lanes;
    sim.reached[RARE_OPENED] += counts.opened;
    process->ended = true;
}

static void start_process(int at)
{
    SIM_CHECK(sim.n_all < INCARNATIONS);
    struct process *process = calloc(1, sizeof *process);
    SIM_CHECK(process);
    process->store = open_store(&process->faults);
    process->owner = ++sim.n_all;
    process->kind = (struct courier_kind){.name = SLICE("sim"),
                                          .limits = {2, TIMEOUT_US, 60 * S},
                                          .keep_dead_us = TASK_KEEP_DEAD_US * 100,
                                          .claim = claim,
                                          .attempt = attempt,
                                          .end = end,
                                          .argument = process};
    process->kinds[0] = &process->kind;
    process->config = (struct courier_config){.store = process->store,
                                              .kinds = process->kinds,
                                              .n_kinds = 1,
                                              .overall = 8,
                                              .owner = process->owner};
    process->courier = courier_new(&process->config);
    SIM_CHECK(process->courier && fiber_spawn(sim.loop, "courier", run_courier, process));
    sim.all[sim.n_all - 1] = sim.now[at] = process;
}

static void free_process(int at)
{
    struct process *process = sim.all[at];
    courier_free(process->courier);
    store_close(process->store);
    free(process);
    sim.all[at] = NULL;
}

/* ---- whoever adds and retries ---- */

static void fill_task(struct store_task *task, char *lane, char *order, char *key)
{
    int number = (int)draw(2 * ORDERS) - ORDERS;
    lane[0] = (char)('a' + draw(LANES));
    order[0] = (char)('A' + number);
    (void)snprintf(key, 16, "%d", sim.n_tasks);
    *task = (struct store_task){
        .kind = SLICE("sim"),
        .lane = slice_make(lane, 1),
        .key = slice_of(key),
        .ord = slice_make(order, number > 0),
        .skips = draw(2) == 0,
        .lasts_us = draw(4) == 0 ? (int64_t)(1 + draw(300)) * S : 0,
        .task = {.due_at = store_now(sim.adder),
                 .deadline_at = CLOCK_NEVER,
                 .gone_at = CLOCK_NEVER,
                 .profile = draw(3) == 0 ? RETRY_PROFILE_webhook : RETRY_PROFILE_queue,
                 .created_at = store_now(sim.adder)},
    };
}

static enum store_status try_to_add(struct store_task *task)
{
    ARENA_AUTO struct arena arena = arena_make(SIZE_MAX);
    struct store_task last = {0};
    bool has_last = task->ord.len > 0 && read_order(task->ord, true, &arena, &last);
    task->row = (struct table_row){0};
    task->task.due_at = has_last ? CLOCK_NEVER : store_now(sim.adder);
    store_task_derive(task);
    struct table_change changes[] = {
        {.table = &task_table, .act = TABLE_INSERT, .row = &task->row},
        {.table = &task_table, .act = TABLE_TOUCH, .row = &last.row},
    };
    struct store_op op = {.kind = STORE_ROWS, .brings = changes, .n_brings = has_last ? 2 : 1};
    store_run(sim.adder, &op, fiber_parker(), CLOCK_NEVER);
    if (op.result.status == STORE_DONE && has_last && last.task.state == TASK_SENDING)
        reach(RARE_ADDED_BEHIND);
    return op.result.status;
}

/* The receiver knows the task before it is saved: it may be sent before its adder wakes up. */
static void add_task(void)
{
    struct store_task task;
    char lane[1], order[1], key[16];
    if (sim.n_tasks == TASKS)
        return;
    fill_task(&task, lane, order, key);
    enum store_status status;
    do
        status = try_to_add(&task);
    while (status == STORE_CONFLICT);
    SIM_CHECK(status == STORE_DONE);
    sim.tasks[sim.n_tasks++] =
        (struct received){.id = task.row.id, .order = task.ord.len > 0 ? order[0] : -sim.n_tasks};
}

static struct store_found find_some(enum task_state state, struct arena *arena)
{
    const struct store_task like = {.kind = SLICE("sim"), .task = {.state = state}};
    const struct table_query query = {.table = &task_table,
                                      .by = TABLE_BY_INDEX,
                                      .like = &like.row,
                                      .index = &task_indexes[TASK_BY_STATE],
                                      .prefix = 2,
                                      .limit = 64};
    struct rows rows = rows_in(arena);
    struct store_found found;
    SIM_CHECK(rows_find(&rows, &query, &found) == STORE_DONE);
    return found;
}

/* With what else changes; a change without a row is none. */
static bool save_task(struct store_task *task, struct table_change other)
{
    store_task_derive(task);
    struct table_change changes[] = {{.table = &task_table, .act = TABLE_UPDATE, .row = &task->row},
                                     other};
    struct store_op op = {.kind = STORE_ROWS, .brings = changes, .n_brings = other.row ? 2 : 1};
    store_run(sim.adder, &op, fiber_parker(), CLOCK_NEVER);
    task->row.version = changes[0].version;
    return op.result.status == STORE_DONE;
}

static bool retry(struct store_task *task)
{
    task_retry(&task->task, false, store_now(sim.adder));
    if (!save_task(task, (struct table_change){0}))
        return false;
    received_of(task->row.id)->retried_at = sim.boot;
    reach(RARE_RETRIED);
    return true;
}

static void retry_dead(void)
{
    ARENA_AUTO struct arena arena = arena_make(SIZE_MAX);
    struct store_found found = find_some(TASK_DEAD, &arena);
    for (size_t i = 0; i < found.n && i < 4; i++) {
        struct store_task task = *(const struct store_task *)found.rows[i];
        (void)retry(&task);
    }
}

/* A dead one perhaps retried before; however long it takes from what is read to what is saved. */
static void drop_one(void)
{
    ARENA_AUTO struct arena arena = arena_make(SIZE_MAX);
    struct table_change next = {0};
    struct rows rows = {
        .store = sim.adder, .parker = fiber_parker(), .arena = &arena, .changes = &next, .most = 1};
    struct store_found found = find_some(draw(3) == 0 ? TASK_WAITING : TASK_DEAD, &arena);
    if (found.n == 0)
        return;
    struct store_task task = *(const struct store_task *)found.rows[draw(found.n)];
    if (task.task.state == TASK_DEAD && draw(4) > 0 && !retry(&task))
        return;
    if (task.task.due_at != CLOCK_NEVER || task.task.holds)
        SIM_CHECK(order_put_next(&rows, &task) == STORE_DONE);
    fiber_sleep_until(sim.boot + (int64_t)draw(5) * S);
    task_drop(&task.task, &task_terms_of_acts, store_now(sim.adder));
    if (!save_task(&task, next))
        return;
    received_of(task.row.id)->has_effect = true;
    reach(RARE_DROPPED);
}

/* Or nothing would send those behind it. */
static void expect_first_ones_to_have_a_time(void)
{
    for (char name = 'A'; name < 'A' + ORDERS; name++) {
        ARENA_AUTO struct arena arena = arena_make(SIZE_MAX);
        struct store_task first;
        if (read_order(slice_make(&name, 1), false, &arena, &first))
            SIM_CHECK(first.task.state != TASK_WAITING || first.task.due_at != CLOCK_NEVER);
    }
}

static void act(void *argument)
{
    (void)argument;
    while (!sim.over) {
        expect_first_ones_to_have_a_time();
        if (!sim.calm && draw(2) == 0)
            add_task();
        else if (sim.calm || draw(20) == 0)
            retry_dead();
        else if (draw(2) == 0)
            drop_one();
        fiber_sleep_until(sim.boot + (int64_t)draw(40) * S / 4);
    }
}

/* ---- time and chance ---- */

static void step_stores(void)
{
    for (int i = 0; i < sim.n_all; i++)
        if (sim.all[i])
            (void)store_step(sim.all[i]->store);
    (void)store_step(sim.adder);
}

static void disturb(void)
{
    if (one_in(20))
        sim.moods[draw(LANES)] = draw(2) == 0 ? WELL : (enum mood)draw(MOODS);
    if (one_in(5000)) {
        reach(RARE_JUMPED);
        advance(3600 * S);
    }
    if (one_in(50))
        atomic_store(&sim.now[draw(PROCS)]->faults->next_save,
                     draw(2) == 0 ? BACKEND_UNSURE : BACKEND_AWAY);
    for (int i = 0; i < PROCS; i++)
        if (sim.now[i]->dead)
            start_process(i);
    for (int i = 0; i < sim.n_all; i++)
        if (sim.all[i] && sim.all[i]->ended && sim.all[i]->dead)
            free_process(i);
}

static void step(void)
{
    sim.steps++;
    for (int i = 0; i < 3; i++) {
        step_stores();
        fiber_yield();
    }
    disturb();
    advance((int64_t)draw(sim.calm ? 2000 : 400) * CLOCK_US_PER_MS);
}

static void count_row(void *argument, const struct table_row *row)
{
    *(bool *)argument |= ((const struct store_task *)row)->task.state < TASK_DONE ||
                         ((const struct store_task *)row)->task.state == TASK_DEAD;
}

static bool all_done(void)
{
    bool left = false;
    const struct table_query query = {.table = &task_table,
                                      .by = TABLE_BY_ID,
                                      .limit = TASKS,
                                      .each = count_row,
                                      .argument = &left};
    struct store_op op = {.kind = STORE_QUERY, .query = &query};
    store_run(sim.adder, &op, fiber_parker(), CLOCK_NEVER);
    SIM_CHECK(op.result.status == STORE_DONE);
    return !left;
}

/* Once nothing fails any more, and dead tasks are retried, all of them arrive. */
static void expect_all_to_arrive(void *argument)
{
    (void)argument;
    while (!sim.over) {
        if (sim.calm && all_done())
            sim.over = true;
        fiber_sleep_until(sim.boot + 60 * S);
    }
}

static void drive(void *argument)
{
    (void)argument;
    while (sim.steps < sim.most_steps)
        step();
    sim.calm = true;
    for (int i = 0; i < CALM_STEPS && !sim.over; i++)
        step();
    SIM_CHECK(sim.over);
    for (int i = 0; i < sim.n_tasks; i++)
        SIM_CHECK(sim.tasks[i].has_effect);
    for (int i = 0; i < PROCS; i++)
        courier_drain(sim.now[i]->courier);
    bool left = true;
    while (left) {
        left = false;
        step();
        for (int i = 0; i < sim.n_all; i++)
            left |= sim.all[i] && !sim.all[i]->ended;
    }
    for (int i = 0; i < 200; i++) /* whoever acts sees that it is over */
        step();
}

static void run(uint64_t seed, uint64_t steps, uint64_t *reached)
{
    memset(&sim, 0, sizeof sim);
    sim.seed = sim.random = seed;
    sim.most_steps = steps;
    advance(1000 * S);
    sim.keeper = hostile_toy(NULL);
    sim.loop = loop_new(4096);
    SIM_CHECK(sim.keeper && sim.loop);
    sim.adder = open_store(NULL);
    for (int i = 0; i < PROCS; i++)
        start_process(i);
    SIM_CHECK(fiber_spawn(sim.loop, "act", act, NULL));
    SIM_CHECK(fiber_spawn(sim.loop, "look", expect_all_to_arrive, NULL));
    SIM_CHECK(fiber_spawn(sim.loop, "drive", drive, NULL));
    loop_stop(sim.loop);
    loop_run(sim.loop);
    for (int i = 0; i < sim.n_all; i++)
        if (sim.all[i])
            free_process(i);
    store_close(sim.adder);
    sim.keeper->ops->close(sim.keeper);
    loop_free(sim.loop);
    clock_test_set(0, 0);
    for (int i = 0; i < RARE_COUNT; i++)
        reached[i] += sim.reached[i];
}

int main(int argc, char **argv)
{
    static const char *const names[RARE_COUNT] = {
#define X(name, text) text,
        RARES(X)
#undef X
    };
    bool is_long = argc > 1 && strcmp(argv[1], "--long") == 0;
    uint64_t reached[RARE_COUNT] = {0};
    const char *only = getenv("COURIER_SEED"), *steps = getenv("COURIER_STEPS");
    uint64_t first = only ? strtoull(only, NULL, 10) : 1, last = only ? first : SEEDS;
    uint64_t each = steps ? strtoull(steps, NULL, 10) : is_long ? STEPS_LONG : STEPS;
    for (uint64_t seed = first; seed <= last; seed++)
        run(seed, each, reached);
    int missing = 0;
    for (int i = 0; i < RARE_COUNT; i++) {
        printf("%10llu  %s\n", (unsigned long long)reached[i], names[i]);
        missing += reached[i] == 0;
    }
    return missing > 0 && !only;
}
