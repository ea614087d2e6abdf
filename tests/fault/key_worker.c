/* SPDX-License-Identifier: Apache-2.0 */
#include "key_worker.h"

#include "base/crypto/random.h"
#include "base/mem.h"
#include "store/sqlite/faults.h"
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define LEASE (1000000 * SECOND)
#define TURNS_MAX 2000

struct digest key_hash(unsigned key)
{
    uint64_t number = key;
    struct digest hash = digest_of(slice_make(&number, sizeof number));
    if (key % 2 == 0)
        memset(hash.bytes, key % 4 == 0 ? 0 : 0xff, 15);
    if (key % 2 == 0)
        hash.bytes[15] = (unsigned char)(key / 4);
    return hash;
}

/* ---- what fails ---- */

static sqlite3_mem_methods plain;
static long sqlite_left;
static long calls_left; /* of the system, until the kill */

static bool must_fail(void)
{
    return sqlite_left > 0 && --sqlite_left == 0;
}

static void *failing_alloc(int size)
{
    return must_fail() ? NULL : plain.xMalloc(size);
}

static void *failing_realloc(void *at, int size)
{
    return must_fail() ? NULL : plain.xRealloc(at, size);
}

/* Half of what was to be written is there, as after a kill within a large write. */
static ssize_t deadly_write(int fd, const void *from, size_t n, off_t at)
{
    bool dies = calls_left > 0 && --calls_left == 0;
    ssize_t written = pwrite(fd, from, dies ? n / 2 : n, at);
    if (dies)
        raise(SIGKILL);
    return written;
}

static void install_harm(void)
{
    sqlite3_config(SQLITE_CONFIG_GETMALLOC, &plain);
    sqlite3_mem_methods failing = plain;
    failing.xMalloc = failing_alloc;
    failing.xRealloc = failing_realloc;
    sqlite3_config(SQLITE_CONFIG_MALLOC, &failing);
    sqlite3_vfs *vfs = sqlite3_vfs_find("unix");
    static const char *const names[] = {"pwrite", "pwrite64"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        vfs->xSetSystemCall(vfs, names[i], (sqlite3_syscall_ptr)deadly_write);
    sqlite_faults_install();
}

static void arm(enum harm harm, long at)
{
    unsigned calls = harm == HARM_FULL ? SQLITE_FAULT_WRITE : SQLITE_FAULT_ANY;
    bool io = harm == HARM_FULL || harm == HARM_IO;
    sqlite_faults_arm(calls, harm == HARM_FULL ? SQLITE_FULL : SQLITE_IOERR, io ? at : 0);
    mem_fail_nth(harm == HARM_MEMORY ? at : 0);
    sqlite_left = harm == HARM_SQLITE_MEMORY ? at : 0;
    calls_left = harm == HARM_KILL ? at : 0;
}

/* ---- work ---- */

struct hand {
    struct store *store; /* NULL: not open */
    struct parker parker;
    bool dead;
};

static void stop(void *argument, const char *what)
{
    (void)what;
    ((struct hand *)argument)->dead = true;
}

static void wake(struct parker *parker)
{
    (void)parker;
}

static void clock_to(struct desk *desk, int64_t now)
{
    desk->now = now;
    clock_test_set(now, now - EPOCH + SECOND);
}

static void open_store(struct hand *hand, const struct desk *desk, const char *path)
{
    struct store_config config = store_config_default();
    config.path = path;
    config.no_thread = true;
    config.limits.disk_reserve = 1;
    config.checkpoint_pages = 24;
    config.key_run = desk->key_run;
    config.fail_stop = stop;
    config.fail_stop_argument = hand;
    char *problem MEM_AUTO = NULL;
    hand->dead = false;
    if (store_open(&config, &hand->store, &problem) != STORE_OPENED)
        hand->store = NULL;
}

static struct store_op op_of(const struct order *order, const struct digest *former)
{
    struct store_op op = {.kind = order->kind,
                          .key_hash = key_hash(order->key),
                          .begin = {.lease_us = LEASE, .ttl_us = order->ttl_us}};
    bool has_former = order->former != NONE;
    if (order->kind == STORE_BEGIN)
        op.arrival = (struct store_arrival){.former = has_former ? former : NULL,
                                            .n_former = has_former,
                                            .tenant = SLICE("tenant"),
                                            .rule = SLICE("rule"),
                                            .key = SLICE("key"),
                                            .recipe = SLICE("recipe")};
    else if (order->kind != STORE_LOOK)
        op.writing = (struct store_writing){
            .token = order->token, .final = RECORD_COMPLETE, .http_status = 201, .force = true};
    random_bytes(op.begin.attempt_id, sizeof op.begin.attempt_id);
    return op;
}

static void note(struct order *order, struct store_op *op)
{
    order->told = op->result.status == STORE_DONE;
    order->verdict = op->result.verdict;
    order->write = op->result.write;
    order->record = op->result.record;
    order->at = op->result.store_now;
    struct digest own = key_hash(order->key);
    order->under_former = !digest_eq(&op->key_hash, &own);
    outcome_unref(op->result.found);
    mem_free(op->result.found_recipe);
}

static bool all_ended(const struct store_op *ops, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!store_op_ended(&ops[i]))
            return false;
    return true;
}

static void carry_out(struct hand *hand, struct desk *desk)
{
    static struct store_op ops[ORDERS_MAX];
    static struct digest formers[ORDERS_MAX];
    for (size_t i = 0; i < desk->n; i++) {
        formers[i] = key_hash(desk->orders[i].former);
        ops[i] = op_of(&desk->orders[i], &formers[i]);
        ops[i].parker = &hand->parker;
        store_submit(hand->store, &ops[i]);
    }
    for (int turn = 0; turn < TURNS_MAX && !all_ended(ops, desk->n); turn++)
        if (!store_step(hand->store))
            clock_to(desk, desk->now + SECOND / 10);
    if (!all_ended(ops, desk->n))
        _exit(1);
    for (size_t i = 0; i < desk->n; i++)
        note(&desk->orders[i], &ops[i]);
}

void work(struct desk *desk, const char *path, int from, int to)
{
    struct hand hand = {.parker = {.wake = wake}};
    char byte;
    install_harm();
    while (read(from, &byte, 1) == 1) {
        clock_to(desk, desk->now);
        arm(desk->harm, desk->harm_at);
        if (!hand.store)
            open_store(&hand, desk, path);
        if (hand.store)
            carry_out(&hand, desk);
        if (hand.dead || desk->close_after) {
            store_close(hand.store);
            hand.store = NULL;
        }
        arm(HARM_NONE, 0);
        if (write(to, &byte, 1) != 1)
            break;
    }
    arm(HARM_NONE, 0);
    store_close(hand.store);
    _exit(0);
}
