/* SPDX-License-Identifier: Apache-2.0 */
/* The store, and the engine upon it. */
#include "store/store.h"
#include "base/check.h"
#include "base/crypto/digest.h"
#include "base/mem.h"
#include "base/time/timestamp.h"
#include "daemon/check.h"
#include "daemon/fail_stop.h"
#include "daemon/parts/parts.h"
#include "operator/tallies.h"
#include <math.h>
#include <time.h>

#define SILENT_US (5 * CLOCK_US_PER_S) /* a store that was silent for so long is not ready */
#define IN_USE_TRIES 20                /* tries to open a store that another serve holds, and */
#define IN_USE_NS 50000000L            /* what lies between two of them */
#define PROBLEM_MAX ((size_t)1024)

/* What the log says already, so that each change is logged once. */
struct store_part {
    struct daemon *daemon;
    struct tallies *tallies;
    struct buf odd_rows; /* lines of a table and an id */
    bool down;
    bool clock_refused;
    enum weakness_kind weakness;
    uint64_t clock_jumps;
    uint64_t went_back;
};

/* ---- life ---- */

/* Its holder may be about to end: a process that was killed releases it a moment later. */
static bool open_when_free(struct daemon *daemon, const struct store_config *wanted,
                           char **ret_problem)
{
    enum store_open_result result = store_open(wanted, &daemon->store, ret_problem);
    for (int try = 0; try < IN_USE_TRIES && result == STORE_OPEN_IN_USE; try++) {
        nanosleep(&(struct timespec){.tv_nsec = IN_USE_NS}, NULL);
        mem_free(*ret_problem);
        *ret_problem = NULL;
        result = store_open(wanted, &daemon->store, ret_problem);
    }
    return result == STORE_OPENED;
}

static bool start(void **self, struct daemon *daemon, char **ret_problem)
{
    struct store_config wanted = store_config_default();
    CHECK(!daemon->store && !daemon->engine);
    wanted.path = daemon->options->store_path;
    wanted.role = STORE_SERVE;
    wanted.may_be_foreign = !config_has_gateway(daemon->config);
    wanted.accepts_weaker = daemon->config->accept_weaker;
    wanted.limits = daemon->config->store_limits;
    wanted.sessions = daemon->config->store_sessions;
    wanted.fail_stop = fail_stop;
    wanted.fail_stop_argument = &daemon->log;
    if (!check_store_fits(daemon->config, wanted.path, ret_problem) ||
        !open_when_free(daemon, &wanted, ret_problem))
        return false;
    struct store_part *part = *self;
    part->daemon = daemon;
    part->odd_rows = buf_make(SIZE_MAX);
    part->tallies = tallies_new(daemon->store, daemon->metrics);
    daemon->engine = engine_new(daemon->store, daemon->config->cache);
    if (daemon->engine && part->tallies)
        return true;
    engine_free(daemon->engine);
    store_close(daemon->store);
    tallies_free(part->tallies);
    return false;
}

static bool prepare(void *self, const struct daemon *daemon, const struct config *config,
                    char **ret_problem)
{
    (void)self;
    return check_store_fits(config, daemon->options->store_path, ret_problem) &&
           store_make_room(daemon->store, &config->store_limits);
}

static void reload(void *self, const struct config *config)
{
    const struct daemon *daemon = ((struct store_part *)self)->daemon;
    if (!config)
        return;
    store_configure(daemon->store, &config->store_limits);
    engine_set_cache(daemon->engine, config->cache);
}

static void stop(void *self)
{
    store_close(((struct store_part *)self)->daemon->store);
}

static void free_store(void *self)
{
    struct store_part *part = self;
    engine_free(part->daemon->engine);
    tallies_free(part->tallies);
    buf_fini(&part->odd_rows);
}

/* ---- readiness and log ---- */

static void add_frozen(struct buf *why, const struct terms *terms)
{
    buf_add_str(why, "an operator froze it");
    if (terms->frozen_at != 0) {
        buf_add_str(why, " at ");
        timestamp_print(why, terms->frozen_at);
    }
    buf_add_str(why, "; `pawl store thaw` ends that");
}

static void add_back(struct store *store, struct buf *why)
{
    buf_add_str(why, "it went back: it lacks what it had acknowledged; find out what "
                     "(docs/guide/runbook.md), then run `");
    store_restored_command(store, why);
    buf_add_str(why, "`");
}

/* Whether it takes new operations, has its reserve of space and responded lately: what readiness,
 * the gauge and the log line mean by "up". */
static bool is_up(struct store *store, struct buf *why)
{
    bool responds = clock_after(store_counts(store).last_ok_at, SILENT_US) >= clock_boot_us();
    const struct terms terms = store_terms(store);
    enum store_status closed = store_closed(store);
    if (!store_is_up(store))
        store_problem(store, why);
    else if (closed == STORE_WENT_BACK)
        add_back(store, why);
    else if (closed == STORE_FROZEN)
        add_frozen(why, &terms);
    else if (!responds)
        buf_printf(why, "the store has not responded for %d seconds",
                   (int)(SILENT_US / CLOCK_US_PER_S));
    return store_is_up(store) && responds && closed == STORE_DONE;
}

static bool is_ready(void *self, struct buf *why)
{
    size_t before = why->len;
    buf_add_str(why, "the store takes no new operations: ");
    if (!is_up(((struct store_part *)self)->daemon->store, why))
        return false;
    buf_cut(why, before);
    return true;
}

static void log_store(struct store_part *part)
{
    struct log_line line;
    struct buf problem BUF_AUTO = buf_make(PROBLEM_MAX);
    bool up = is_up(part->daemon->store, &problem);
    if (up != part->down)
        return;
    part->down = !up;
    log_line_start(&line, up ? LOG_LEVEL_INFO : LOG_LEVEL_ERROR, up ? "store_up" : "store_down");
    if (!up)
        log_line_str(&line, "problem", buf_slice(&problem));
    log_line_end(part->daemon->log, &line);
}

/* Records that expired by a wrong clock stay so: store time never goes back. */
static void log_clock(struct store_part *part)
{
    struct store_counts counts = store_counts(part->daemon->store);
    struct log_line line;
    if (counts.clock_jumps != part->clock_jumps) {
        log_line_start(&line, LOG_LEVEL_ERROR, "clock_jumped");
        log_line_i64(&line, "ahead_s", counts.clock_jump_us / CLOCK_US_PER_S);
        log_line_end(part->daemon->log, &line);
    }
    if (counts.clock_refused != part->clock_refused) {
        log_line_start(&line, counts.clock_refused ? LOG_LEVEL_ERROR : LOG_LEVEL_INFO,
                       counts.clock_refused ? "clock_refused" : "clock_believed");
        log_line_end(part->daemon->log, &line);
    }
    part->clock_jumps = counts.clock_jumps;
    part->clock_refused = counts.clock_refused;
}

static bool has_line(struct slice lines, struct slice wanted)
{
    for (struct slice line; slice_next(&lines, '\n', &line);)
        if (slice_eq(line, wanted))
            return true;
    return false;
}

/* Once each, for as long as it is odd. */
static void log_odd_rows(struct store_part *part)
{
    struct buf now BUF_AUTO = buf_make(SIZE_MAX);
    store_odd_rows(part->daemon->store, &now);
    if (!buf_ok(&now))
        return;
    struct slice rest = buf_slice(&now), row, table;
    while (slice_next(&rest, '\n', &row)) {
        struct log_line line;
        uint64_t number = 0;
        if (row.len == 0 || has_line(buf_slice(&part->odd_rows), row))
            continue;
        (void)slice_to_u64(slice_cut(row, ' ', &table), INT64_MAX, &number);
        log_line_start(&line, LOG_LEVEL_ERROR, "row_held");
        log_line_str(&line, "table", table);
        log_line_i64(&line, "id", (int64_t)number);
        log_line_end(part->daemon->log, &line);
    }
    buf_clear(&part->odd_rows);
    buf_add_slice(&part->odd_rows, buf_slice(&now));
}

/* Each change, also one that came after the start was accepted. */
static void log_weakness(struct store_part *part)
{
    struct weakness weakness = store_weakness(part->daemon->store);
    struct log_line line;
    if (!check_weakness_is_told(&weakness, part->daemon->config))
        weakness.kind = WEAKNESS_NONE;
    if (weakness.kind == part->weakness)
        return;
    bool is_weaker = weakness.kind != WEAKNESS_NONE;
    enum log_level level = weakness.kind == WEAKNESS_LOSES ? LOG_LEVEL_ERROR : LOG_LEVEL_INFO;
    part->weakness = weakness.kind;
    log_line_start(&line, level, is_weaker ? "store_weaker" : "store_durable");
    if (is_weaker)
        log_line_str(&line, "problem", slice_of(weakness.why));
    log_line_end(part->daemon->log, &line);
}

/* Each time that this process noticed it; of what others noticed the store says so. */
static void log_back(struct store_part *part)
{
    struct store *store = part->daemon->store;
    struct store_counts counts = store_counts(store);
    struct buf text BUF_AUTO = buf_make(PROBLEM_MAX);
    struct log_line line;
    if (counts.went_back == part->went_back)
        return;
    part->went_back = counts.went_back;
    log_line_start(&line, LOG_LEVEL_ERROR, "store_went_back");
    log_line_str(&line, "store", slice_of(store_place(store)));
    if (timestamp_print(&text, counts.back_since))
        log_line_str(&line, "since", buf_slice(&text));
    log_line_i64(&line, "above", counts.back_above);
    buf_clear(&text);
    store_restored_command(store, &text);
    if (!part->daemon->config->accept_weaker)
        log_line_str(&line, "run", buf_slice(&text));
    log_line_end(part->daemon->log, &line);
}

static void watch(void *self)
{
    log_back(self);
    log_store(self);
    log_odd_rows(self);
    log_weakness(self);
    log_clock(self);
    tallies_watch(((struct store_part *)self)->tallies);
}

/* ---- metrics ---- */

static void write_records(struct buf *page, const struct store_counts *counts, int64_t now)
{
    const struct page_series *records = SERIES(RECORDS);
    int64_t oldest = counts->unknown_oldest ? clock_left(counts->unknown_oldest, now) : 0;
    page_begin(page, records);
    page_sample(page, records, "status", "pending", (uint64_t)counts->pending);
    page_sample(page, records, "status", "released", (uint64_t)counts->released);
    page_sample(page, records, "status", "complete", (uint64_t)counts->complete);
    page_sample(page, records, "status", "failed", (uint64_t)counts->failed);
    page_sample(page, records, "status", "unknown", (uint64_t)counts->unknown);
    page_value(page, SERIES(WAITING), (double)counts->waiting);
    page_value(page, SERIES(STALE), (double)counts->stale);
    page_value(page, SERIES(EXPIRED), (double)counts->expired);
    page_value(page, SERIES(UNKNOWN_OLDEST), (double)oldest / (double)CLOCK_US_PER_S);
}

/* Its name is from its secret, which the gateways on it share: whoever adds up their gauges counts
 * a store once. */
static void write_info(struct buf *page, const struct store *store)
{
    struct slice purpose = SLICE("store");
    struct digest digest = digest_keyed(store_digest_key(store), &purpose, 1);
    char hex[DIGEST_HEX_SIZE + 1];
    hex_encode(digest.bytes, DIGEST_SIZE, hex);
    hex[16] = '\0';
    page_begin(page, SERIES(STORE_INFO));
    page_sample(page, SERIES(STORE_INFO), "store", hex, 1);
}

static void write_space(struct buf *page, const struct store_counts *counts)
{
    bool known = counts->space_free != UINT64_MAX;
    page_value(page, SERIES(STORE_FREE), known ? (double)counts->space_free : NAN);
    page_value(page, SERIES(STORE_RESERVE), (double)counts->disk_reserve);
}

static void write_work(struct buf *page, const struct store_work *work)
{
    const struct page_series *operations = SERIES(STORE_OPERATIONS), *tries = SERIES(STORE_RETRIES);
    page_value(page, SERIES(STORE_BATCHES), (double)work->batches);
    page_begin(page, operations);
    page_sample(page, operations, "kind", "write", work->operations);
    page_sample(page, operations, "kind", "read", work->reads);
    page_histogram(page, SERIES(STORE_COMMIT),
                   &(struct page_histogram){STORE_COMMIT_BUCKETS, store_commit_bounds_us,
                                            work->commit_buckets, work->commit_us,
                                            (double)CLOCK_US_PER_S});
    page_histogram(page, SERIES(STORE_BATCH),
                   &(struct page_histogram){STORE_BATCH_BUCKETS, store_batch_bounds,
                                            work->batch_buckets, work->operations, 1});
    page_value(page, SERIES(STORE_CHECKPOINTS), (double)work->checkpoints);
    page_begin(page, tries);
    page_sample(page, tries, "reason", "full", work->retries_full);
    page_sample(page, tries, "reason", "busy", work->retries_busy);
}

static void write_decisions(struct buf *page, struct store *store)
{
    const struct page_series *series = SERIES(SQL_DECISIONS);
    struct buf lines BUF_AUTO = buf_make(PAGE_MAX);
    page_begin(page, series);
    store_decisions(store, &lines);
    for (struct slice rest = buf_slice(&lines), line; rest.len > 0;) {
        size_t len = (size_t)((const char *)memchr(rest.at, '\n', rest.len) - rest.at) + 1;
        line = slice_make(rest.at, len);
        rest = slice_make(rest.at + len, rest.len - len);
        buf_add_str(page, series->name);
        buf_add_slice(page, line);
    }
}

static uint64_t count_rows(struct slice lines, struct slice table)
{
    uint64_t n = 0;
    for (struct slice line, of; slice_next(&lines, '\n', &line);) {
        (void)slice_cut(line, ' ', &of);
        n += slice_eq(of, table);
    }
    return n;
}

static void write_held(struct buf *page, struct store *store)
{
    struct buf rows BUF_AUTO = buf_make(SIZE_MAX);
    store_odd_rows(store, &rows);
    page_begin(page, SERIES(ROWS_HELD));
    for (const struct table *const *table = store_tables(); *table; table++)
        page_sample(page, SERIES(ROWS_HELD), "table", (*table)->name,
                    count_rows(buf_slice(&rows), slice_of((*table)->name)));
    page_sample(page, SERIES(ROWS_HELD), "table", STORE_RECORDS,
                count_rows(buf_slice(&rows), SLICE(STORE_RECORDS)));
}

static void write_metrics(void *self, struct buf *page)
{
    struct store *store = ((struct store_part *)self)->daemon->store;
    struct store_counts counts = store_counts(store);
    struct buf why BUF_AUTO = buf_make(PROBLEM_MAX);
    write_records(page, &counts, store_now(store));
    page_value(page, SERIES(STORE_UP), is_up(store, &why));
    page_value(page, SERIES(STORE_WEAKER), store_weakness(store).kind == WEAKNESS_LOSES);
    page_value(page, SERIES(STORE_WENT_BACK), (double)counts.went_back);
    write_info(page, store);
    page_value(page, SERIES(STORE_QUEUED), (double)counts.queued);
    write_space(page, &counts);
    write_work(page, &counts.work);
    write_decisions(page, store);
    write_held(page, store);
    tallies_write(((struct store_part *)self)->tallies, page);
}

const struct part store_part = {
    .name = "store",
    .size = sizeof(struct store_part),
    .start = start,
    .prepare = prepare,
    .reload = reload,
    .watch = watch,
    .ready = is_ready,
    .metrics = write_metrics,
    .stop = stop,
    .free = free_store,
};
