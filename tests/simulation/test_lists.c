/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of the queue in virtual time, over the store and the courier: their sender is killed at any
 * point, every answer may be lost, services dedupe or do not, undos cannot be filled in or are
 * refused, and a person does anything at any moment, in doubt what is so. The oracle: every list
 * comes to an end, no end says what is not so, nothing is sent that nobody wrote, no row goes
 * before the list is over, and then all go. Rare states are counted, and all of them must come. Of
 * lists whose every answer is lost each act must come in each state where it is allowed, and none
 * elsewhere.
 *
 * LISTS_SEEDS=n runs so many, LISTS_SEED=n one of them, both ways.
 */
#include <string.h>

#include "fiber/fiber.h"
#include "lists_world.h"
#include "store/rows.h"

/* 1: any refusal behind a doubt is believed; 2: what is dead may always be touched. */
#ifndef MUTANT
#define MUTANT 0
#endif

#if MUTANT == 1
bool __wrap_steps_is_refusal(const struct task *task, enum task_reason reason, bool dedupes);
bool __wrap_steps_is_refusal(const struct task *task, enum task_reason reason, bool dedupes)
{
    (void)task;
    (void)dedupes;
    return reason == TASK_REASON_IN_DOUBT;
}
#elif MUTANT == 2
enum steps_answer __wrap_steps_may(enum steps_state state, const struct steps_task *task,
                                   const struct steps_wish *wish);
enum steps_answer __wrap_steps_may(enum steps_state state, const struct steps_task *task,
                                   const struct steps_wish *wish)
{
    bool may = !steps_are_over(state) && task->state == TASK_DEAD && wish->act != STEPS_EDIT;
    return may ? STEPS_MAY : STEPS_MAY_NOT;
}
#endif

/* ---- reading the store ---- */

/* However often the store is away. */
static struct store_found find(const struct table_query *query, struct arena *arena)
{
    struct rows rows = {
        .store = sim.store, .parker = fiber_parker(), .arena = arena, .within_us = CLOCK_NEVER};
    struct store_found found;
    while (rows_find(&rows, query, &found) != STORE_DONE)
        fiber_sleep_until(sim.boot + S / 10);
    return found;
}

static struct store_found read_tasks(struct arena *arena)
{
    const struct store_task like = {.list_id = sim.list};
    const struct table_query query = {.table = &task_table,
                                      .by = TABLE_BY_INDEX,
                                      .index = &task_indexes[TASK_BY_STEP],
                                      .prefix = 1,
                                      .like = &like.row,
                                      .limit = 2 * STEPS};
    return find(&query, arena);
}

static const void *read_row(const struct table *table, int64_t id, struct arena *arena)
{
    const struct table_query query = {.table = table, .after = id - 1, .limit = 1};
    struct store_found found = find(&query, arena);
    return found.n == 1 && found.rows[0]->id == id ? found.rows[0] : NULL;
}

/* ---- the service ---- */

static void die(struct process *process)
{
    process->dead = true;
    courier_drain(process->courier);
}

static struct courier_result answer(enum retry_class class, int status)
{
    return (struct courier_result){.task = {.class = class,
                                            .reason = class == RETRY_DONE    ? TASK_REASON_NONE
                                                      : class == RETRY_LATER ? TASK_REASON_TIMED_OUT
                                                                             : TASK_REASON_FINAL,
                                            .hint_us = RETRY_NO_HINT,
                                            .status = status,
                                            .is_in_doubt = class == RETRY_LATER && status == 0}};
}

static struct courier_result unreached(void)
{
    struct courier_result result = answer(RETRY_LATER, 0);
    result.task.reason = TASK_REASON_NOT_REACHED;
    result.task.is_in_doubt = false;
    result.task.is_unreached = true;
    return result;
}

/* It has no response any more. */
static struct courier_result done_before(void)
{
    struct courier_result result = answer(RETRY_IN_DOUBT, 410);
    result.task.reason = TASK_REASON_HAPPENED;
    result.task.is_in_doubt = true;
    reach(RARE_DONE_BEFORE);
    return result;
}

static bool loses_answer(uint64_t n)
{
    return (sim.loses && !sim.calm) || one_in(n);
}

static struct courier_result meet_step(const struct store_task *stored)
{
    struct truth *truth = &sim.steps[stored->step - 1];
    bool knows = sim.dedupes && truth->happened;
    if (one_in(6))
        return unreached();
    if (loses_answer(6)) {
        truth->happened |= one_in(2);
        sim.reached[RARE_LOST_DONE] += truth->happened;
        return answer(RETRY_LATER, 0);
    }
    if (!knows && one_in(4)) {
        sim.reached[RARE_REFUSED_DOUBT] += stored->task.in_doubt;
        sim.reached[RARE_REFUSED_DONE] += truth->happened;
        return answer(stored->task.in_doubt ? RETRY_IN_DOUBT : RETRY_FINAL, 422);
    }
    if (knows && one_in(6))
        return done_before();
    truth->happened = true;
    return answer(RETRY_DONE, 201);
}

static struct courier_result meet_undo(const struct store_task *stored)
{
    struct truth *truth = &sim.steps[-stored->step - 1];
    truth->undo_sent = true;
    if (loses_answer(4)) {
        truth->undone |= one_in(2);
        return answer(RETRY_LATER, 0);
    }
    if (one_in(4))
        return answer(RETRY_FINAL, 422);
    truth->undone = true;
    return answer(RETRY_DONE, 200);
}

static struct courier_result attempt(const struct courier_kind *kind,
                                     struct courier_delivery *delivery)
{
    struct process *process = kind->argument;
    const struct store_task *stored = &delivery->stored;
    ARENA_AUTO struct arena arena = arena_make(SIZE_MAX);
    const struct store_request *request = read_row(&request_table, stored->row.id, &arena);
    bool is_undo = stored->step < 0;
    if (process->dead || sim.boot >= delivery->send_by)
        return unreached();
    SIM_CHECK(request && slice_starts(request->url,
                                      is_undo ? SLICE("http://s/undo/") : SLICE("http://s/do/")));
    bool dies_before = one_in(12);
    if (dies_before)
        die(process);
    struct courier_result result = dies_before ? answer(RETRY_LATER, 0)
                                   : is_undo   ? meet_undo(stored)
                                               : meet_step(stored);
    fiber_sleep_until(sim.boot + (int64_t)draw(4) * S);
    if (!process->dead && one_in(12))
        die(process);
    if (process->dead)
        reach(is_undo ? RARE_KILLED_UNDOING : RARE_KILLED_SENDING);
    return result;
}

/* ---- the kind ---- */

static enum store_status save(struct rows *rows)
{
    rows->within_us = CLOCK_NEVER;
    return rows_save(rows);
}

static struct courier_verdict claim(const struct courier_kind *kind,
                                    struct courier_delivery *delivery, struct rows *rows)
{
    const struct process *process = kind->argument;
    (void)delivery;
    if (process->dead)
        return (struct courier_verdict){.claim = COURIER_DOWN};
    enum store_status status = save(rows);
    return (struct courier_verdict){.claim = status == STORE_DONE       ? COURIER_CLAIMED
                                             : status == STORE_CONFLICT ? COURIER_TAKEN
                                                                        : COURIER_DOWN};
}

static enum store_status end(const struct courier_kind *kind, struct courier_delivery *delivery,
                             struct rows *rows)
{
    const struct process *process = kind->argument;
    (void)delivery;
    if (process->dead)
        return STORE_DEAD;
    return save(rows);
}

static enum store_status follow(const struct courier_kind *kind, struct courier_delivery *delivery,
                                const struct store_task *ended, struct rows *rows)
{
    bool is_filled = sim.calm || draw(4) > 0;
    const struct undo_response response = {
        .url = SLICE("http://s/do/1"),
        .fields = sim.speaks ? SLICE("Idempotency-Status: stored\r\n") : SLICE("A: b\r\n"),
        .body = is_filled ? SLICE("{\"id\":7}") : SLICE("{\"id\":\"..\"}")};
    bool has_response = delivery && ended->task.status > 0;
    (void)kind;
    if (has_response && ended->task.state == TASK_DONE && ended->step > 0 && !is_filled)
        reach(RARE_UNFILLED);
    return queue_steps_follow(ended, has_response ? &response : NULL, rows);
}

static void run_courier(void *argument)
{
    struct process *process = argument;
    (void)courier_run(process->courier, COURIER_FOLLOW);
    process->ended = true;
}

static void start_process(void)
{
    SIM_CHECK(sim.n_all < PROCESSES);
    struct process *process = calloc(1, sizeof *process);
    SIM_CHECK(process);
    process->kind = (struct courier_kind){.name = SLICE(QUEUE_KIND),
                                          .limits = {2, TIMEOUT_US, TASK_KEEP_DONE_US, NULL},
                                          .keep_dead_us = TASK_KEEP_DEAD_US,
                                          .claim = claim,
                                          .attempt = attempt,
                                          .end = end,
                                          .follow = follow,
                                          .argument = process};
    process->kinds[0] = &process->kind;
    const struct courier_config config = {
        .store = sim.store, .kinds = process->kinds, .n_kinds = 1, .owner = sim.n_all + 1};
    process->courier = courier_new(&config);
    SIM_CHECK(process->courier && fiber_spawn(sim.loop, "courier", run_courier, process));
    sim.all[sim.n_all++] = process;
}

/* ---- the list ---- */

static void add_list(void)
{
    struct queue_operation steps[STEPS];
    struct queue_added added[STEPS];
    struct queue_adding adding = {steps, STEPS, added, 0, 0};
    struct queue_list list = {.dedupes = sim.says};
    for (int i = 0; i < STEPS; i++) {
        sim.has_undo[i] = draw(5) > 0;
        steps[i] = (struct queue_operation){
            .method = SLICE("POST"),
            .url = SLICE("http://s/do/1"),
            .lasts_us = draw(sim.loses ? 8 : 2) == 0 ? 0 : 20 * S,
            .undo = sim.has_undo[i]
                        ? SLICE("{\"method\":\"DELETE\",\"url\":\"http://s/undo/{response:/id}\"}")
                        : SLICE("")};
    }
    SIM_CHECK(queue_add_linked(sim.store, &adding, fiber_parker(), &list) == STORE_DONE);
    sim.list = list.id;
}

static void expect_true_end(enum steps_state state, const struct store_found *tasks)
{
    int happened = 0, stands = 0, sent = 0, given_up = 0, doubted = 0;
    for (int i = 0; i < STEPS; i++) {
        const struct truth *truth = &sim.steps[i];
        happened += truth->happened;
        bool is_undone = truth->undone || truth->undone_by_hand;
        stands += truth->happened && sim.has_undo[i] && !is_undone;
        sent += truth->undo_sent;
    }
    for (size_t i = 0; i < tasks->n; i++) {
        const struct store_task *task = (const struct store_task *)tasks->rows[i];
        given_up += task->task.state == TASK_DROPPED && (task->step < 0 || task->task.in_doubt);
        doubted += task->step > 0 && task->task.state == TASK_DEAD && task->task.in_doubt;
    }
    SIM_CHECK(state != STEPS_DONE || (happened == STEPS && sent == 0));
    SIM_CHECK(state != STEPS_UNDONE || (stands == 0 && given_up == 0 && doubted == 0));
    SIM_CHECK(state != STEPS_PARTIAL || given_up > 0);
    SIM_CHECK(state != STEPS_KEPT || sent == 0);
    reach(state == STEPS_DONE     ? RARE_DONE
          : state == STEPS_UNDONE ? RARE_UNDONE
          : state == STEPS_KEPT   ? RARE_KEPT
                                  : RARE_PARTIAL);
}

/* All rows are there until it is over, and then go at the same time. */
static void expect_rows(const struct store_task_list *list, const struct store_found *tasks)
{
    SIM_CHECK(list && tasks->n >= STEPS);
    for (size_t i = 0; i < tasks->n; i++) {
        const struct store_task *task = (const struct store_task *)tasks->rows[i];
        bool has_ended = task->task.ended_at != 0, is_over = steps_are_over(list->state);
        SIM_CHECK(!is_over || has_ended);
        SIM_CHECK(!has_ended || task->task.gone_at == list->gone_at);
    }
    sim.reached[RARE_LONG] += sim.boot > 8 * DAY && !steps_are_over(list->state);
}

/* ---- a person ---- */

static void count_act(const struct queue_steps_acted *acted)
{
    static const enum rare rares[] = {[STEPS_MAY] = RARE_ACTED,
                                      [STEPS_MAY_NOT] = RARE_NOT_ALLOWED,
                                      [STEPS_UNMADE] = RARE_NOT_MADE,
                                      [STEPS_IN_SENDING] = RARE_NOT_WHILE_SENT,
                                      [STEPS_IN_DOUBT] = RARE_NOT_IN_DOUBT};
    SIM_CHECK(acted->end != QUEUE_STEPS_NONE);
    SIM_CHECK((acted->end == QUEUE_STEPS_ACTED) == (acted->answer == STEPS_MAY));
    reach(rares[acted->answer]);
}

static struct truth *truth_of(const struct store_task *task)
{
    return &sim.steps[(task->step < 0 ? -task->step : task->step) - 1];
}

/* Whoever says what became of a step or an undo has looked. */
static bool is_so(const struct store_task *task, const struct queue_steps_wish *wish)
{
    const struct truth *truth = truth_of(task);
    bool is_done = task->step < 0 ? truth->undone || truth->undone_by_hand : truth->happened;
    if (wish->act == STEPS_SETTLE_DONE)
        return is_done;
    return !is_done || task->step < 0 || wish->act != STEPS_SETTLE_NOT_DONE;
}

static void act_on(const struct store_task *task, enum steps_act act, bool force)
{
    static const struct queue_operation mended = {.url = {"http://s/undo/7", 15},
                                                  .method = {"DELETE", 6}};
    static const struct queue_operation same = {.url = {"http://s/do/2", 13}};
    struct queue_steps_acted acted = {0};
    const struct queue_steps_wish wish = {.id = task->row.id,
                                          .act = act,
                                          .response = one_in(task->step == 1 ? 2 : 6)
                                                          ? SLICE("{\"id\":\"..\"}")
                                                          : SLICE("{\"id\":7}"),
                                          .operation = task->step < 0 ? &mended : &same,
                                          .actor = {.name = SLICE("sim"), .force = force}};
    struct truth *truth = truth_of(task);
    bool was_by_hand = truth->undone_by_hand;
    truth->undone_by_hand |= task->step < 0 && act == STEPS_SETTLE_DONE && !truth->undone;
    if (!is_so(task, &wish) ||
        queue_steps_act(sim.store, &wish, fiber_parker(), &acted) != STORE_DONE)
        return;
    count_act(&acted);
    if (acted.end == QUEUE_STEPS_ACTED)
        SIM_CHECK(acts_count(sim.acts, task, act, &acted));
    else
        truth->undone_by_hand = was_by_hand;
}

static void drop_list(void)
{
    char number[32];
    struct queue_steps_acted acted = {0};
    (void)snprintf(number, sizeof number, "%lld", (long long)sim.list);
    const struct queue_steps_drop wish = {.list = slice_of(number),
                                          .keep = draw(2) == 0,
                                          .actor = {.name = SLICE("sim"), .force = draw(2) == 0}};
    if (queue_steps_drop(sim.store, &wish, fiber_parker(), &acted) != STORE_DONE)
        return;
    count_act(&acted);
    if (acted.end != QUEUE_STEPS_ACTED)
        return;
    reach(RARE_DROPPED);
    sim.acts->of_lists[acted.before][wish.keep]++;
}

/* Where all is well, whatever parked the list is taken up: as it is, or again. */
static void mend(const struct store_found *tasks)
{
    for (size_t i = 0; i < tasks->n; i++) {
        const struct store_task *task = (const struct store_task *)tasks->rows[i];
        if (task->task.state == TASK_DEAD)
            act_on(task, (enum steps_act)draw(5), true);
    }
}

/* Mostly of what may be acted on: in a list that goes back its undos, which come first; and of
 * these the last one. */
static const struct store_task *choose(const struct store_found *tasks)
{
    size_t n = 0;
    while (n < tasks->n && ((const struct store_task *)tasks->rows[n])->step < 0)
        n++;
    size_t at = n > 0 && draw(2) == 0 ? n - 1 : draw(n > 0 && draw(4) > 0 ? n : tasks->n);
    return (const struct store_task *)tasks->rows[at];
}

/* Mostly lists go on to their last step, and so have something to undo. */
static enum steps_act choose_act(const struct store_task *task)
{
    bool goes_on = task->step > 0 && task->step < STEPS && draw(8) > 0;
    return !goes_on                   ? (enum steps_act)draw(ACTS)
           : truth_of(task)->happened ? STEPS_SETTLE_DONE
                                      : STEPS_RETRY;
}

static void act(void *argument)
{
    (void)argument;
    while (!sim.over) {
        ARENA_AUTO struct arena arena = arena_make(SIZE_MAX);
        struct store_found tasks = read_tasks(&arena);
        const struct store_task *task = choose(&tasks);
        if (sim.calm)
            mend(&tasks);
        else if (draw(sim.loses ? 60 : 30) == 0)
            drop_list();
        else if (draw(2) == 0)
            act_on(task, choose_act(task), draw(2) == 0);
        fiber_sleep_until(sim.boot + (int64_t)(1 + draw(sim.loses ? 6 : 30)) * S);
    }
}

/* ---- time and chance ---- */

static void look(void *argument)
{
    (void)argument;
    while (!sim.over) {
        ARENA_AUTO struct arena arena = arena_make(SIZE_MAX);
        const struct store_task_list *list = read_row(&task_list_table, sim.list, &arena), *before;
        struct store_found tasks;
        do {
            before = list;
            tasks = read_tasks(&arena);
            list = read_row(&task_list_table, sim.list, &arena);
            SIM_CHECK(before && list);
        } while (before->row.version != list->row.version);
        bool is_back = tasks.n > 0 && ((const struct store_task *)tasks.rows[0])->step < 0;
        expect_rows(list, &tasks);
        if (list->state == STEPS_PARKED)
            reach(is_back ? RARE_PARKED_UNDO : RARE_PARKED_STEP);
        if (steps_are_over(list->state)) {
            expect_true_end(list->state, &tasks);
            sim.over = true;
        }
        fiber_sleep_until(sim.boot + S);
    }
}

static void turn(void)
{
    for (int i = 0; i < 3; i++) {
        (void)store_step(sim.store);
        fiber_yield();
    }
    if (sim.list != 0 && one_in(40)) {
        atomic_store(&sim.faults->next_save, draw(2) == 0 ? BACKEND_UNSURE : BACKEND_AWAY);
        reach(RARE_UNSURE);
    }
    bool is_far = one_in(60);
    advance(is_far ? 5 * DAY : (int64_t)draw(sim.calm ? 60000 : 3000) * CLOCK_US_PER_MS);
    if (sim.all[sim.n_all - 1]->dead && !sim.over)
        start_process();
}

static bool all_have_ended(void)
{
    for (int i = 0; i < sim.n_all; i++)
        if (!sim.all[i]->ended)
            return false;
    return true;
}

/* Nothing of it is left a month after its end. */
static void expect_all_gone(void *argument)
{
    ARENA_AUTO struct arena arena = arena_make(SIZE_MAX);
    (void)argument;
    SIM_CHECK(read_tasks(&arena).n == 0 && !read_row(&task_list_table, sim.list, &arena));
    sim.list = 0;
}

static void drive(void *argument)
{
    (void)argument;
    for (int i = 0; i < TURNS_MOST && !sim.over; i++) {
        sim.calm = i > (sim.loses ? TURNS_LOST : TURNS_HOSTILE);
        turn();
    }
    SIM_CHECK(sim.over);
    for (int i = 0; i < sim.n_all; i++)
        courier_drain(sim.all[i]->courier);
    while (!all_have_ended())
        turn();
    for (int i = 0; i < 100; i++) /* whoever acts sees that it is over */
        turn();
    advance(TASK_KEEP_DEAD_US + DAY);
    for (int i = 0; i < 50; i++)
        turn();
    SIM_CHECK(fiber_spawn(sim.loop, "gone", expect_all_gone, NULL));
    while (sim.list != 0)
        turn();
}

static void begin(void *argument)
{
    (void)argument;
    add_list();
    SIM_CHECK(fiber_spawn(sim.loop, "act", act, NULL) && fiber_spawn(sim.loop, "look", look, NULL));
}

/* What was seen of a number of lists. */
struct seen {
    uint64_t reached[RARE_COUNT];
    struct acts_seen acts;
};

static void run(uint64_t seed, bool loses, struct seen *seen)
{
    struct store_config config = store_config_default();
    char *problem = NULL;
    memset(&sim, 0, sizeof sim);
    sim.seed = sim.random = seed;
    sim.loses = loses;
    sim.acts = &seen->acts;
    sim.dedupes = draw(3) > 0;
    sim.says = sim.dedupes && draw(2) == 0;
    sim.speaks = sim.dedupes && draw(2) == 0;
    advance(1000 * S);
    config.no_thread = true;
    sim.loop = loop_new(4096);
    struct backend *backend = hostile_toy(NULL);
    sim.faults = hostile_faults(backend);
    SIM_CHECK(store_open_over(&config, backend, &sim.store, &problem) == STORE_OPENED);
    start_process();
    SIM_CHECK(fiber_spawn(sim.loop, "begin", begin, NULL));
    SIM_CHECK(fiber_spawn(sim.loop, "drive", drive, NULL));
    loop_stop(sim.loop);
    loop_run(sim.loop);
    for (int i = 0; i < sim.n_all; i++) {
        courier_free(sim.all[i]->courier);
        free(sim.all[i]);
    }
    store_close(sim.store);
    loop_free(sim.loop);
    clock_test_set(0, 0);
    for (int i = 0; i < RARE_COUNT; i++)
        seen->reached[i] += sim.reached[i];
}

/* The first seed, and how many. */
static void run_many(uint64_t first, uint64_t n, bool loses, struct seen *seen)
{
    memset(seen, 0, sizeof *seen);
    for (uint64_t seed = first; seed < first + n; seed++)
        run(seed, loses, seen);
}

int main(void)
{
    static const char *const names[RARE_COUNT] = {
#define X(name, text) text,
        RARES(X)
#undef X
    };
    static struct seen mixed, lost;
    const char *only = getenv("LISTS_SEED"), *seeds = getenv("LISTS_SEEDS");
    uint64_t first = only ? strtoull(only, NULL, 10) : 1;
    run_many(first, only ? 1 : seeds ? strtoull(seeds, NULL, 10) : SEEDS, false, &mixed);
    run_many(first, only ? 1 : SEEDS_LOST, true, &lost);
    int missing = 0;
    for (int i = 0; i < RARE_COUNT; i++) {
        printf("%10llu  %s\n", (unsigned long long)mixed.reached[i], names[i]);
        missing += mixed.reached[i] == 0;
    }
    puts("where every answer was lost:");
    missing += acts_print(&lost.acts);
    return missing > 0 && !only;
}
