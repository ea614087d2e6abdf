/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many durable pairs (a begin that proceeds, its finish with an outcome) the store does a
 * second: one thread keeps a number of them in flight, as one loop of the gateway does.
 *
 *   begin submitted -> ended -> finish submitted -> ended -> (the next pair)
 *
 * Prints one JSON object a line and a number in flight. What is begun may be of a rule with `emit`
 * or `once`, or three of ten begins are replays, each of which counts as a pair.
 */
#include "base/check.h"
#include "base/crypto/random.h"
#include "base/mem.h"
#include "store/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define IN_FLIGHT_MAX 256
#define SAMPLES_MAX ((size_t)4 * 1024 * 1024)
#define FIELDS_BYTES 200
#define BODY_BYTES 300
#define TTL_US                                                                                     \
    (INT64_C(365) * 24 * 3600 * CLOCK_US_PER_S) /* a store may be kept for later runs              \
                                                 */
#define FILL_SLICE 500000
#define LEASE_US (30 * CLOCK_US_PER_S)
#define REPLAYED 4096 /* the first pairs, before any replay */

enum kind { PLAIN, EMIT, ONCE, REPLAYS, KINDS };
static const char *const kinds[KINDS] = {"plain", "emit", "once", "replays"};

static const size_t depths[] = {1, 16, 64, IN_FLIGHT_MAX};

struct bench;

/* One pair in flight. */
struct pair {
    struct parker parker; /* first: the two are cast into each other */
    struct bench *bench;
    struct store_op op;
    struct store_result claim;
    struct store_once once;
    char key[40];
    int64_t started_us; /* of the operation under way */
    struct pair *next_woken;
};

/* Spans of one kind of operation, in microseconds. */
struct spans {
    uint32_t *at;
    size_t n;
};

struct bench {
    struct store *store;
    struct outcome *outcome;
    enum kind kind;
    bool replays; /* the first pairs are complete */
    uint64_t salt;
    uint64_t next_key;
    struct mutex mutex;
    struct cond cond;
    struct pair *woken; /* mutex; the last one first */
    bool sleeping;      /* mutex */
    struct spans begins;
    struct spans finishes;
    struct pair pairs[IN_FLIGHT_MAX];
};

struct goal {
    size_t in_flight;
    uint64_t pairs; /* to begin; 0: as many as fit */
    int64_t until;  /* boot time: nothing begins after it */
};

/* ---- waking the one client thread ---- */

static void wake_pair(struct parker *parker)
{
    struct pair *pair = (struct pair *)parker;
    struct bench *bench = pair->bench;
    mutex_lock(&bench->mutex);
    pair->next_woken = bench->woken;
    bench->woken = pair;
    bool wake = bench->sleeping;
    bench->sleeping = false;
    mutex_unlock(&bench->mutex);
    if (wake)
        cond_signal(&bench->cond);
}

/* In the order of waking, as the gateway's inbox keeps it: outcomes that arrive in the order of
 * their rows are appended to the file, others split its pages. */
static struct pair *await_woken(struct bench *bench)
{
    mutex_lock(&bench->mutex);
    while (!bench->woken) {
        bench->sleeping = true;
        cond_wait(&bench->cond, &bench->mutex);
    }
    struct pair *woken = bench->woken;
    bench->woken = NULL;
    mutex_unlock(&bench->mutex);
    struct pair *in_order = NULL;
    for (struct pair *next = NULL; woken; woken = next) {
        next = woken->next_woken;
        woken->next_woken = in_order;
        in_order = woken;
    }
    return in_order;
}

/* ---- pairs ---- */

/* Names a new record; the bytes are as random as those of a keyed hash. */
static struct digest key_hash_of(const struct bench *bench, uint64_t number)
{
    struct digest digest;
    uint64_t state = bench->salt + number;
    for (size_t i = 0; i < DIGEST_SIZE; i += sizeof state) {
        uint64_t mixed = state += UINT64_C(0x9e3779b97f4a7c15);
        mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
        mixed ^= mixed >> 31;
        memcpy(digest.bytes + i, &mixed, sizeof mixed);
        state = mixed;
    }
    return digest;
}

static void submit(struct pair *pair, const struct store_op *op)
{
    pair->op = *op;
    pair->op.parker = &pair->parker;
    pair->started_us = clock_boot_us();
    store_submit(pair->bench->store, &pair->op);
}

/* A new one, or one of the first. */
static uint64_t pick_key(struct bench *bench)
{
    uint64_t number = bench->next_key++;
    return bench->replays && number % 10 < 3 ? number * 7919 % REPLAYED : number;
}

static void add_once(struct pair *pair, struct store_op *op)
{
    struct slice value = slice_of(pair->key);
    pair->once = (struct store_once){
        .text = value,
        .hash = store_once_hash(store_digest_key(pair->bench->store), op->arrival.tenant,
                                op->arrival.rule, value),
        .as_key = store_key_hash(pair->bench->store, op->arrival.tenant, op->arrival.rule, value)};
    op->arrival.once = &pair->once;
    op->begin.once_ttl_us = TTL_US;
    op->begin.once_replay = true;
}

static void submit_begin(struct pair *pair)
{
    uint64_t number = pick_key(pair->bench);
    struct digest hash = key_hash_of(pair->bench, number);
    /* A once value is not one of another run, either. */
    snprintf(pair->key, sizeof pair->key, "order-%08x-%015llu", (unsigned)pair->bench->salt,
             (unsigned long long)number);
    struct store_op op = {
        .kind = STORE_BEGIN,
        .key_hash = hash,
        .arrival.tenant = SLICE("none"),
        .arrival.rule = SLICE("payments.create"),
        .arrival.key = slice_of(pair->key),
        .arrival.recipe = SLICE("1 all"),
        .begin = {.payload_hash = hash,
                  .target_hash = hash,
                  .lease_us = LEASE_US,
                  .ttl_us = TTL_US},
    };
    memcpy(op.begin.attempt_id, hash.bytes, RECORD_ATTEMPT_ID_SIZE);
    if (pair->bench->kind == EMIT)
        op.arrival.origin = SLICE("POST /payments\tpayment.created\n127.0.0.1\n\n\n");
    if (pair->bench->kind == ONCE)
        add_once(pair, &op);
    submit(pair, &op);
}

static void submit_finish(struct pair *pair)
{
    pair->claim = pair->op.result;
    struct store_op op = {
        .kind = STORE_FINISH,
        .key_hash = pair->op.key_hash,
        .writing.token = pair->op.result.record.token,
        .row_hint = pair->op.result.row,
        .writing.claim = &pair->claim,
        .writing.outcome = pair->bench->outcome,
        .writing.final = RECORD_COMPLETE,
        .writing.http_status = 201,
        .writing.keeps = true,
    };
    submit(pair, &op);
}

static void note(struct spans *spans, const struct pair *pair)
{
    if (spans->n < SAMPLES_MAX)
        spans->at[spans->n++] = (uint32_t)(clock_boot_us() - pair->started_us);
}

static bool may_begin(const struct goal *goal, uint64_t begun)
{
    return (goal->pairs == 0 || begun < goal->pairs) && clock_boot_us() < goal->until;
}

/* What an operation that ended leads to. True: a pair is complete, or was. */
static bool go_on(struct pair *pair)
{
    struct bench *bench = pair->bench;
    CHECK(store_op_ended(&pair->op) && pair->op.result.status == STORE_DONE);
    if (pair->op.kind == STORE_BEGIN) {
        bool is_replay = pair->op.result.verdict == RECORD_REPLAY;
        CHECK(is_replay ? bench->replays : pair->op.result.verdict == RECORD_PROCEED);
        note(&bench->begins, pair);
        outcome_unref(pair->op.result.found);
        if (!is_replay)
            submit_finish(pair);
        return is_replay;
    }
    CHECK(pair->op.result.write == RECORD_WRITTEN);
    note(&bench->finishes, pair);
    return true;
}

/* Runs pairs until the goal is met and all that began are complete. */
static uint64_t run_pairs(struct bench *bench, const struct goal *goal)
{
    uint64_t begun = 0, complete = 0;
    bench->begins.n = bench->finishes.n = 0;
    for (; begun < goal->in_flight && may_begin(goal, begun); begun++)
        submit_begin(&bench->pairs[begun]);
    while (complete < begun) {
        struct pair *next = NULL;
        for (struct pair *pair = await_woken(bench); pair; pair = next) {
            next = pair->next_woken;
            if (!go_on(pair))
                continue;
            complete++;
            if (may_begin(goal, begun)) {
                begun++;
                submit_begin(pair);
            }
        }
    }
    return complete;
}

/* ---- what is printed ---- */

static int64_t cpu_us(int who)
{
    struct rusage usage;
    CHECK(getrusage(who, &usage) == 0);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * CLOCK_US_PER_S +
           usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}

static int by_span(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return left < right ? -1 : left > right;
}

static unsigned percentile(struct spans *spans, unsigned per_mille)
{
    CHECK(spans->n > 0);
    qsort(spans->at, spans->n, sizeof *spans->at, by_span);
    return spans->at[(spans->n - 1) * per_mille / 1000];
}

static void measure(struct bench *bench, size_t in_flight, int64_t span_us)
{
    int64_t records = store_counts(bench->store).complete;
    int64_t all = cpu_us(RUSAGE_SELF), client = cpu_us(RUSAGE_THREAD), began = clock_boot_us();
    struct goal goal = {.in_flight = in_flight, .until = began + span_us};
    double pairs = (double)run_pairs(bench, &goal);
    double seconds = (double)(clock_boot_us() - began) / CLOCK_US_PER_S;
    all = cpu_us(RUSAGE_SELF) - all;
    client = cpu_us(RUSAGE_THREAD) - client;
    printf("{\"in_flight\": %zu, \"records\": %lld, \"seconds\": %.2f, \"pairs\": %.0f, "
           "\"pairs_per_s\": %.0f, \"cpu_us_per_pair\": %.2f, \"store_cpu_us_per_pair\": %.2f, "
           "\"begin_p50_us\": %u, \"begin_p99_us\": %u, \"finish_p50_us\": %u, "
           "\"finish_p99_us\": %u}\n",
           in_flight, (long long)records, seconds, pairs, pairs / seconds, (double)all / pairs,
           (double)(all - client) / pairs, percentile(&bench->begins, 500),
           percentile(&bench->begins, 990), percentile(&bench->finishes, 500),
           percentile(&bench->finishes, 990));
    fflush(stdout);
}

/* ---- set-up ---- */

static struct outcome *outcome_for_all(void)
{
    char fields[FIELDS_BYTES], body[BODY_BYTES];
    memset(fields, 'f', sizeof fields);
    memcpy(fields, "Content-Type: application/json\r\nX-Fill: ", 40);
    memcpy(fields + sizeof fields - 2, "\r\n", 2);
    memset(body, 'b', sizeof body);
    return outcome_new(201, false, slice_make(fields, sizeof fields),
                       slice_make(body, sizeof body));
}

static struct bench *bench_new(struct store *store)
{
    struct bench *bench = mem_zalloc(1, sizeof *bench);
    CHECK(bench);
    bench->store = store;
    bench->outcome = outcome_for_all();
    bench->salt = random_u64();
    bench->begins.at = mem_alloc(SAMPLES_MAX * sizeof *bench->begins.at);
    bench->finishes.at = mem_alloc(SAMPLES_MAX * sizeof *bench->finishes.at);
    CHECK(bench->outcome && bench->begins.at && bench->finishes.at);
    mutex_init(&bench->mutex);
    cond_init(&bench->cond);
    for (size_t i = 0; i < IN_FLIGHT_MAX; i++) {
        bench->pairs[i].parker.wake = wake_pair;
        bench->pairs[i].bench = bench;
    }
    return bench;
}

static void bench_free(struct bench *bench)
{
    cond_fini(&bench->cond);
    mutex_fini(&bench->mutex);
    mem_free(bench->finishes.at);
    mem_free(bench->begins.at);
    outcome_unref(bench->outcome);
    mem_free(bench);
}

static void preload(struct bench *bench, int64_t records)
{
    int64_t present = store_counts(bench->store).complete;
    if (present >= records)
        return;
    while ((present = store_counts(bench->store).complete) < records) {
        int64_t next = records - present < FILL_SLICE ? records - present : FILL_SLICE;
        struct goal goal = {IN_FLIGHT_MAX, (uint64_t)next, CLOCK_NEVER};
        run_pairs(bench, &goal);
        if (records > FILL_SLICE)
            fprintf(stderr, "store: %lld of %lld records\n", (long long)(present + next),
                    (long long)records);
    }
    /* What the kernel still has to write of it must not fall into what is measured. */
    sync();
}

/* What begins then is measured. */
static void begin_kind(struct bench *bench, enum kind kind)
{
    struct goal goal = {IN_FLIGHT_MAX, REPLAYED, CLOCK_NEVER};
    bench->kind = kind;
    if (kind == REPLAYS)
        (void)run_pairs(bench, &goal);
    bench->replays = kind == REPLAYS;
}

static enum kind read_kind(const char *text)
{
    size_t kind = 0;
    while (kind < KINDS && strcmp(kinds[kind], text) != 0)
        kind++;
    return kind;
}

static bool read_number(const char *text, int64_t *ret_value)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < 0)
        return false;
    *ret_value = value;
    return true;
}

static bool read_seconds(const char *text, int64_t *ret_us)
{
    char *end = NULL;
    double seconds = strtod(text, &end);
    *ret_us = (int64_t)(seconds * CLOCK_US_PER_S);
    return end != text && *end == '\0' && seconds >= 0 && seconds <= 3600;
}

int main(int argc, char **argv)
{
    int64_t records = 1000000, span_us = 5 * CLOCK_US_PER_S, only = 0, sessions = 1;
    enum kind kind = argc < 7 ? PLAIN : read_kind(argv[6]);
    bool ok = argc >= 2 && argc <= 7 && kind < KINDS &&
              (argc < 3 || read_number(argv[2], &records)) &&
              (argc < 4 || read_seconds(argv[3], &span_us)) &&
              (argc < 5 || (read_number(argv[4], &only) && only <= IN_FLIGHT_MAX)) &&
              (argc < 6 || (read_number(argv[5], &sessions) && sessions <= STORE_SESSIONS_MOST));
    if (!ok) {
        fputs("usage: store_pairs STORE [RECORDS [SECONDS [IN_FLIGHT [SESSIONS [KIND]]]]]; 0 "
              "seconds: "
              "only fill; 0 in flight: 1, 16, 64, 256; 0 sessions: by what is in flight; kind: "
              "plain, "
              "emit, once, replays (30 %)\n",
              stderr);
        return 2;
    }
    struct store_config config = store_config_default();
    config.path = argv[1];
    config.role = STORE_SERVE;
    config.sessions = (size_t)sessions;
    struct store *store = NULL;
    char *problem MEM_AUTO = NULL;
    if (store_open(&config, &store, &problem) != STORE_OPENED) {
        fprintf(stderr, "store_pairs: %s\n", problem ? problem : "out of memory");
        return 69;
    }
    struct bench *bench = bench_new(store);
    preload(bench, records);
    begin_kind(bench, kind);
    for (size_t i = 0; span_us > 0 && i < sizeof depths / sizeof *depths; i++)
        if (only == 0 || (size_t)only == depths[i])
            measure(bench, depths[i], span_us);
    store_close(store);
    bench_free(bench);
    return 0;
}
