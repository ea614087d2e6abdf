/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/operator.h"

#include "daemon/resolve.h"
#include "operator/keys.h"
#include <errno.h>
#include <math.h>

#define PROBLEM_MAX ((size_t)512)

static double seconds(int64_t span_us)
{
    return (double)span_us / (double)CLOCK_US_PER_S;
}

static void read_store(const struct store_counts *counts, struct metrics_reading *reading)
{
    const struct store_work *work = &counts->work;
    double *value = reading->value;
    bool space_known = counts->space_free != UINT64_MAX;
    value[METRIC_STORE_QUEUED] = (double)counts->queued;
    value[METRIC_STORE_FREE] = space_known ? (double)counts->space_free : NAN;
    value[METRIC_STORE_RESERVE] = (double)counts->disk_reserve;
    value[METRIC_STORE_BATCHES] = (double)work->batches;
    value[METRIC_STORE_CHECKPOINTS] = (double)work->checkpoints;
    reading->store_writes = work->operations;
    reading->store_reads = work->reads;
    reading->store_full = work->retries_full;
    reading->store_busy = work->retries_busy;
    reading->store_commit = (struct metrics_steps){
        .n = STORE_COMMIT_BUCKETS, .bounds = store_commit_bounds_us, .sum = work->commit_us};
    memcpy(reading->store_commit.buckets, work->commit_buckets, sizeof work->commit_buckets);
    reading->store_batch = (struct metrics_steps){
        .n = STORE_BATCH_BUCKETS, .bounds = store_batch_bounds, .sum = work->operations};
    memcpy(reading->store_batch.buckets, work->batch_buckets, sizeof work->batch_buckets);
}

static void read_gauges(void *argument, struct metrics_reading *reading)
{
    const struct operator_view *view = argument;
    struct store_counts counts = store_counts(view->store);
    struct gateway_load load = gateway_load(view->gateway);
    reading->pending = counts.pending;
    reading->released = counts.released;
    reading->complete = counts.complete;
    reading->failed = counts.failed;
    reading->unknown = counts.unknown;
    read_store(&counts, reading);
    reading->value[METRIC_STALE] = (double)counts.stale;
    reading->value[METRIC_EXPIRED] = (double)counts.expired;
    if (counts.unknown_oldest != 0)
        reading->value[METRIC_UNKNOWN_OLDEST] =
            seconds(keys_left(counts.unknown_oldest, store_now(view->store)));
    reading->value[METRIC_WAITING] = (double)counts.waiting;
    reading->value[METRIC_CONNECTIONS] = (double)load.connections;
    reading->value[METRIC_IN_FLIGHT] = (double)load.in_flight;
    reading->value[METRIC_BUFFERED] = (double)load.buffered;
    reading->value[METRIC_STORE_UP] = admin_store_is_ready(view->store, NULL);
    reading->value[METRIC_LOG_DROPPED] = (double)log_dropped(view->log);
}

static const char *unready(void *argument)
{
    struct operator_view *view = argument;
    if (atomic_load(&view->leaving) || gateway_load(view->gateway).draining)
        return "the gateway is shutting down";
    return NULL;
}

_Static_assert(STORE_COMMIT_BUCKETS <= METRICS_STEPS_MAX &&
                   STORE_BATCH_BUCKETS <= METRICS_STEPS_MAX,
               "the store's histograms fit the page");

static void explain(const struct config_address *address, int error, char **ret_problem)
{
    struct buf text = buf_make(PROBLEM_MAX);
    buf_printf(&text, "cannot listen on %.*s:%u (`admin:`): ", SLICE_ARG(address->host),
               (unsigned)address->port);
    if (error == -EADDRINUSE)
        buf_add_str(
            &text,
            "the address is in use; stop the process that uses it, or choose another `admin:`");
    else if (error == -EACCES)
        buf_add_str(&text, "others can reach this address, or it is not ours; set `admin_token:`, "
                           "or choose one on loopback and a port above 1023");
    else
        buf_add_str(&text, strerror(-error));
    *ret_problem = buf_take(&text);
}

bool operator_listen(const struct config *config, struct operator_view *view,
                     struct admin **ret_admin, char **ret_problem)
{
    struct admin_config wanted = {
        .token = config->admin_token,
        .store = view->store,
        .metrics = view->metrics,
        .log = view->log,
        .log_keys_hashed = config->gateway.log_keys_hashed,
        .read = read_gauges,
        .unready = unready,
        .argument = view,
    };
    int error = 0;
    *ret_admin = NULL;
    if (config->admin.host.len == 0)
        return true;
    if (!resolve_address(&config->admin, &wanted.listen, ret_problem))
        return false;
    *ret_admin = admin_start(&wanted, &error);
    if (!*ret_admin)
        explain(&config->admin, error, ret_problem);
    return *ret_admin;
}
