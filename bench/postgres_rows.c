/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a PostgreSQL server can do at most: rows as large as those of a pair, inserted over one
 * connection, a pipeline and a commit for each batch of them. A batch of 0: every row as a program
 * without batches writes it, by a statement that begins and one that finishes, each with its own
 * round trip and commit.
 *
 * Prints one JSON object.
 */
#include "base/check.h"
#include "base/clock.h"
#include "base/crypto/random.h"
#include "base/mem.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define BATCH_MAX 1024
#define SAMPLES_MAX ((size_t)1024 * 1024)
#define HASH_BYTES 32
#define RECORD_BYTES 400
#define RESPONSE_BYTES 500

static const char *const set_up[] = {
    "CREATE TABLE IF NOT EXISTS bench_row(key_hash bytea PRIMARY KEY, record bytea NOT NULL,"
    " response bytea) WITH (fillfactor = 70)",
    "ALTER TABLE bench_row ALTER record SET STORAGE EXTERNAL,"
    " ALTER response SET STORAGE EXTERNAL",
};

/* Also the names of the prepared statements. */
static const char insert[] = "INSERT INTO bench_row VALUES ($1, $2, $3)";
static const char finish[] = "UPDATE bench_row SET response = $2 WHERE key_hash = $1";

struct bench {
    PGconn *conn;
    char hash[HASH_BYTES];
    char content[RESPONSE_BYTES];
    uint32_t *spans; /* of batches, in microseconds */
    size_t n_spans;
};

/* ---- statements ---- */

static void expect(const struct bench *bench, PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_PIPELINE_SYNC) {
        fprintf(stderr, "postgres_rows: %s", PQerrorMessage(bench->conn));
        exit(69);
    }
    PQclear(result);
}

static void new_hash(struct bench *bench)
{
    for (size_t i = 0; i < HASH_BYTES; i += sizeof(uint64_t)) {
        uint64_t part = random_u64();
        memcpy(bench->hash + i, &part, sizeof part);
    }
}

/* Sends it, and does not wait. `response` false: the row has none yet. */
static void send_insert(struct bench *bench, bool response)
{
    new_hash(bench);
    const char *values[] = {bench->hash, bench->content, response ? bench->content : NULL};
    int sizes[] = {HASH_BYTES, RECORD_BYTES, RESPONSE_BYTES}, formats[] = {1, 1, 1};
    CHECK(PQsendQueryPrepared(bench->conn, insert, 3, values, sizes, formats, 1) == 1);
}

static void send_plain(struct bench *bench, const char *sql)
{
    CHECK(PQsendQueryParams(bench->conn, sql, 0, NULL, NULL, NULL, NULL, 1) == 1);
}

static void insert_batch(struct bench *bench, size_t batch)
{
    send_plain(bench, "BEGIN");
    for (size_t i = 0; i < batch; i++)
        send_insert(bench, true);
    send_plain(bench, "COMMIT");
    CHECK(PQpipelineSync(bench->conn) == 1);
    for (size_t i = 0; i < batch + 2; i++) {
        expect(bench, PQgetResult(bench->conn));
        CHECK(!PQgetResult(bench->conn));
    }
    expect(bench, PQgetResult(bench->conn));
}

static void await_one(struct bench *bench)
{
    expect(bench, PQgetResult(bench->conn));
    CHECK(!PQgetResult(bench->conn));
}

static void write_single(struct bench *bench)
{
    send_insert(bench, false);
    await_one(bench);
    const char *values[] = {bench->hash, bench->content};
    int sizes[] = {HASH_BYTES, RESPONSE_BYTES}, formats[] = {1, 1};
    CHECK(PQsendQueryPrepared(bench->conn, finish, 2, values, sizes, formats, 1) == 1);
    await_one(bench);
}

/* ---- what is printed ---- */

static int64_t cpu_us(void)
{
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * CLOCK_US_PER_S +
           usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}

static int by_span(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return left < right ? -1 : left > right;
}

static void measure(struct bench *bench, size_t batch, int64_t span_us)
{
    int64_t cpu = cpu_us(), began = clock_boot_us(), now = began;
    double rows = 0;
    while (now < began + span_us && bench->n_spans < SAMPLES_MAX) {
        if (batch == 0)
            write_single(bench);
        else
            insert_batch(bench, batch);
        rows += batch == 0 ? 1 : (double)batch;
        int64_t ended = clock_boot_us();
        bench->spans[bench->n_spans++] = (uint32_t)(ended - now);
        now = ended;
    }
    size_t n = bench->n_spans;
    CHECK(n > 0);
    qsort(bench->spans, n, sizeof *bench->spans, by_span);
    printf("{\"in_flight\": %zu, \"pairs\": %.0f, \"pairs_per_s\": %.0f, \"cpu_us_per_pair\": %.2f,"
           " \"p50_us\": %u, \"p99_us\": %u}\n",
           batch, rows, rows * CLOCK_US_PER_S / (double)(now - began),
           (double)(cpu_us() - cpu) / rows, bench->spans[n / 2], bench->spans[(n - 1) * 99 / 100]);
}

/* ---- set-up ---- */

static void connect_to(struct bench *bench, const char *url)
{
    bench->conn = PQconnectdb(url);
    if (PQstatus(bench->conn) != CONNECTION_OK) {
        fprintf(stderr, "postgres_rows: %s", PQerrorMessage(bench->conn));
        exit(69);
    }
    PQclear(PQexec(bench->conn, "SET client_min_messages = warning"));
    for (size_t i = 0; i < sizeof set_up / sizeof *set_up; i++)
        expect(bench, PQexec(bench->conn, set_up[i]));
    expect(bench, PQprepare(bench->conn, insert, insert, 0, NULL));
    expect(bench, PQprepare(bench->conn, finish, finish, 0, NULL));
}

static bool read_number(const char *text, double most, double *ret_value)
{
    char *end = NULL;
    *ret_value = strtod(text, &end);
    return end != text && *end == '\0' && *ret_value >= 0 && *ret_value <= most;
}

int main(int argc, char **argv)
{
    double seconds = 0, batch = 0;
    if (argc != 4 || !read_number(argv[2], 3600, &seconds) ||
        !read_number(argv[3], BATCH_MAX, &batch)) {
        fputs("usage: postgres_rows URL SECONDS BATCH; batch 0: single statements\n", stderr);
        return 2;
    }
    struct bench bench = {.spans = mem_alloc(SAMPLES_MAX * sizeof(uint32_t))};
    CHECK(bench.spans);
    memset(bench.content, 'b', sizeof bench.content);
    connect_to(&bench, argv[1]);
    CHECK(batch == 0 || PQenterPipelineMode(bench.conn) == 1);
    measure(&bench, (size_t)batch, (int64_t)(seconds * CLOCK_US_PER_S));
    PQfinish(bench.conn);
    mem_free(bench.spans);
    return 0;
}
