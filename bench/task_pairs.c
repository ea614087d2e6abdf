/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the store does for the courier: adds tasks with their requests, finds the first due one of
 * each lane, and claims and ends tasks, a number of them in flight. A claim is the begin of a
 * record with the change of its task, an end the outcome with the task and its attempt.
 *
 *      task_pairs PATH|URL TASKS LANES
 *
 * Prints one JSON object a line and a figure.
 */
#include "base/check.h"
#include "base/crypto/random.h"
#include "base/mem.h"
#include "store/store.h"
#include "store/tables/tasks.h"
#include <stdio.h>
#include <stdlib.h>

#define IN_FLIGHT 32
#define TASKS_OF_OP 64
#define HOUR_US (3600 * CLOCK_US_PER_S)

struct bench {
    struct store *store;
    struct thread_parker parker;
    struct store_task *tasks;
    char (*texts)[2][64]; /* of each: key, lane */
    size_t n;
    size_t n_lanes;
};

static double seconds_since(int64_t from)
{
    return (double)(clock_boot_us() - from) / (double)CLOCK_US_PER_S;
}

static void run(struct bench *bench, struct store_op *op)
{
    store_run(bench->store, op, &bench->parker.parker, CLOCK_NEVER);
    CHECK(op->result.status == STORE_DONE);
}

/* ---- adding ---- */

static void make_task(struct bench *bench, size_t i)
{
    char *key = bench->texts[i][0], *lane = bench->texts[i][1];
    snprintf(key, sizeof bench->texts[i][0], "%016llx-%zu", (unsigned long long)random_u64(), i);
    snprintf(lane, sizeof bench->texts[i][1], "https://host-%zu.example", i % bench->n_lanes);
    bench->tasks[i] = (struct store_task){
        .kind = SLICE("queue"),
        .lane = slice_of(lane),
        .key = slice_of(key),
        .task = {.state = TASK_WAITING, .due_at = 1, .deadline_at = CLOCK_NEVER, .created_at = 1},
    };
    store_task_settle(&bench->tasks[i]);
}

static void add_some(struct bench *bench, size_t first, size_t n)
{
    static struct table_change changes[2 * TASKS_OF_OP];
    static struct store_request requests[TASKS_OF_OP];
    for (size_t i = 0; i < n; i++) {
        struct store_task *task = &bench->tasks[first + i];
        make_task(bench, first + i);
        requests[i] = (struct store_request){.method = SLICE("POST"),
                                             .url = task->lane,
                                             .fields = SLICE("Content-Type: application/json\r\n"),
                                             .body = SLICE("{\"amount\":1250,\"to\":\"acct_1\"}")};
        changes[2 * i] = (struct table_change){.table = &task_table, .row = &task->row};
        changes[2 * i + 1] = (struct table_change){
            .table = &request_table, .row = &requests[i].row, .parent = &task->row};
    }
    struct store_op op = {.kind = STORE_ROWS, .brings = changes, .n_brings = 2 * n};
    run(bench, &op);
    for (size_t i = 0; i < n; i++)
        bench->tasks[first + i].row.version = changes[2 * i].version;
}

static void add_all(struct bench *bench)
{
    int64_t from = clock_boot_us();
    for (size_t i = 0; i < bench->n; i += TASKS_OF_OP)
        add_some(bench, i, bench->n - i < TASKS_OF_OP ? bench->n - i : TASKS_OF_OP);
    double seconds = seconds_since(from);
    printf("{\"what\":\"add\",\"tasks\":%zu,\"seconds\":%.3f,\"a_second\":%.0f}\n", bench->n,
           seconds, (double)bench->n / seconds);
}

/* ---- which lanes have something due ---- */

static void count_row(void *argument, const struct table_row *row)
{
    (void)row;
    ++*(size_t *)argument;
}

static void scan_lanes(struct bench *bench)
{
    for (int i = 0; i < 3; i++) {
        size_t found = 0;
        struct store_task like = {.kind = SLICE("queue")};
        struct table_query query = {.table = &task_table,
                                    .by = TABLE_BY_INDEX,
                                    .index = &task_indexes[TASK_BY_LANE],
                                    .like = &like.row,
                                    .prefix = 1,
                                    .is_first_of_each = true,
                                    .limit = SIZE_MAX,
                                    .each = count_row,
                                    .argument = &found};
        struct store_op op = {.kind = STORE_QUERY, .query = &query};
        int64_t from = clock_boot_us();
        run(bench, &op);
        printf("{\"what\":\"lanes\",\"lanes\":%zu,\"ms\":%.2f}\n", found,
               1000 * seconds_since(from));
    }
}

/* ---- claims and ends ---- */

/* One delivery in flight. */
struct delivery {
    struct bench *bench;
    struct store_task *task; /* NULL: none */
    struct store_attempt attempt;
    struct table_change changes[2];
    struct store_op op;
};

static void claim(struct delivery *delivery, struct store_task *task)
{
    delivery->task = task;
    task->task.state = TASK_SENDING;
    task->task.attempts = task->task.tries = 1;
    task->task.lease_until = HOUR_US;
    task->task.owner = 1;
    store_task_settle(task);
    delivery->changes[0] =
        (struct table_change){.table = &task_table, .act = TABLE_UPDATE, .row = &task->row};
    struct digest hash = digest_of(task->key);
    delivery->op = (struct store_op){
        .kind = STORE_BEGIN,
        .key_hash = hash,
        .arrival.rule = SLICE("send"),
        .arrival.key = task->key,
        .arrival.recipe = SLICE("1 all"),
        .begin = {.payload_hash = hash,
                  .target_hash = hash,
                  .lease_us = 30 * CLOCK_US_PER_S,
                  .ttl_us = 24 * HOUR_US},
        .brings = delivery->changes,
        .n_brings = 1,
    };
    memcpy(delivery->op.begin.attempt_id, hash.bytes, RECORD_ATTEMPT_ID_SIZE);
    store_submit(delivery->bench->store, &delivery->op);
}

static void end(struct delivery *delivery)
{
    struct store_task *task = delivery->task;
    task->row.version = delivery->changes[0].version;
    task->task.state = TASK_DONE;
    task->task.status = 201;
    task->task.ended_at = 1;
    task->task.gone_at = CLOCK_NEVER;
    store_task_settle(task);
    delivery->attempt = (struct store_attempt){.task = task->row.id, .n = 1, .status = 201};
    delivery->changes[1] =
        (struct table_change){.table = &attempt_table, .row = &delivery->attempt.row};
    delivery->op = (struct store_op){
        .kind = STORE_FINISH,
        .key_hash = delivery->op.key_hash,
        .writing.token = delivery->op.result.record.token,
        .row_hint = delivery->op.result.row,
        .writing.final = RECORD_COMPLETE,
        .writing.http_status = 201,
        .writing.keeps = true,
        .brings = delivery->changes,
        .n_brings = 2,
    };
    store_submit(delivery->bench->store, &delivery->op);
}

/* True: the delivery is over. */
static bool go_on(struct delivery *delivery)
{
    CHECK(delivery->op.result.status == STORE_DONE);
    if (delivery->op.kind != STORE_BEGIN)
        return true;
    CHECK(delivery->op.result.verdict == RECORD_PROCEED);
    end(delivery);
    return false;
}

static void deliver_all(struct bench *bench)
{
    struct delivery *deliveries = mem_zalloc(IN_FLIGHT, sizeof *deliveries);
    CHECK(deliveries);
    size_t begun = 0, done = 0;
    int64_t from = clock_boot_us();
    while (done < bench->n) {
        for (size_t i = 0; i < IN_FLIGHT; i++) {
            struct delivery *delivery = &deliveries[i];
            delivery->bench = bench;
            if (delivery->task && store_op_ended(&delivery->op) && go_on(delivery)) {
                delivery->task = NULL;
                done++;
            }
            if (!delivery->task && begun < bench->n)
                claim(delivery, &bench->tasks[begun++]);
        }
        store_step(bench->store);
    }
    double seconds = seconds_since(from);
    mem_free(deliveries);
    printf("{\"what\":\"deliver\",\"in_flight\":%d,\"tasks\":%zu,\"seconds\":%.3f,"
           "\"a_second\":%.0f}\n",
           IN_FLIGHT, bench->n, seconds, (double)bench->n / seconds);
}

static void open_store(struct bench *bench, const char *path, bool no_thread)
{
    struct store_config config = store_config_default();
    char *problem = NULL;
    config.path = path;
    config.no_thread = no_thread;
    if (store_open(&config, &bench->store, &problem) != STORE_OPENED) {
        fprintf(stderr, "task_pairs: %s\n", problem ? problem : "out of memory");
        exit(1);
    }
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fputs("usage: task_pairs PATH|URL TASKS LANES\n", stderr);
        return 2;
    }
    struct bench bench = {.n = strtoul(argv[2], NULL, 10), .n_lanes = strtoul(argv[3], NULL, 10)};
    bench.tasks = mem_zalloc(bench.n, sizeof *bench.tasks);
    bench.texts = mem_zalloc(bench.n, sizeof *bench.texts);
    CHECK(bench.tasks && bench.texts && bench.n_lanes > 0);
    thread_parker_init(&bench.parker);
    open_store(&bench, argv[1], false);
    add_all(&bench);
    scan_lanes(&bench);
    store_close(bench.store);
    open_store(&bench, argv[1], true);
    deliver_all(&bench);
    store_close(bench.store);
    thread_parker_fini(&bench.parker);
    mem_free(bench.tasks);
    mem_free(bench.texts);
    return 0;
}
