/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl stats`: what commands counted in a store: no `serve` has seen it. */
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/tasks/queue.h"
#include "observe/page.h"
#include "operator/counters.h"
#include <stdio.h>

#define TIMEOUT_US (10 * CLOCK_US_PER_S)

struct stats_options {
    struct queue_session session;
    bool prometheus;
};

static void add_page(const struct counters *counters, struct buf *page)
{
    for (size_t i = 0; counters_series[i]; i++) {
        page_begin(page, counters_series[i]);
        counters_add_samples(counters, counters_series[i], page);
    }
}

static void add_stats_lines(const struct counters *counters, bool json, struct buf *text)
{
    for (size_t at = 0; at < counters->n; at++) {
        const struct counter_sum *sum = &counters->at[at];
        if (!json) {
            buf_printf(text, "%.*s  %.*s  %lld\n", SLICE_ARG(sum->name), SLICE_ARG(sum->labels),
                       (long long)sum->value);
            continue;
        }
        buf_add_char(text, '{');
        json_add_text(text, "name", sum->name);
        json_add_text(text, "labels", sum->labels);
        json_add_i64(text, "value", sum->value);
        buf_add_str(text, "}\n");
    }
}

static enum store_status read_counters(struct queue_session *session, struct counters *counters)
{
    struct table_query query = counters_query(counters);
    struct store_op op = {.kind = STORE_QUERY, .query = &query};
    store_run(session->store, &op, &session->parker.parker,
              clock_after(clock_boot_us(), TIMEOUT_US));
    return op.result.status == STORE_DONE && counters->arena.failed ? STORE_NO_MEMORY
                                                                    : op.result.status;
}

static int print_stats(struct stats_options *options, struct counters *counters)
{
    BUF_AUTO struct buf text = buf_make(SIZE_MAX);
    int code = queue_complain(&options->session, read_counters(&options->session, counters));
    if (code == EXIT_DONE && options->prometheus)
        add_page(counters, &text);
    else if (code == EXIT_DONE)
        add_stats_lines(counters, options->session.json, &text);
    if (text.len > 0)
        fwrite(text.at, 1, text.len, stdout);
    return code;
}

static int show_stats(void *given)
{
    struct stats_options *options = given;
    struct queue_session *session = &options->session;
    if (session->json && options->prometheus)
        return command_misused(session->command, "--json and --prometheus exclude each other");
    struct counters *counters = mem_zalloc(1, sizeof *counters);
    if (!counters)
        return command_failed(session->command, EXIT_UNAVAILABLE, "out of memory");
    counters_init(counters);
    int code = queue_open(session, STORE_COMMAND, false);
    if (code == EXIT_DONE)
        code = print_stats(options, counters);
    counters_fini(counters);
    mem_free(counters);
    return code;
}

/* ---- the row ---- */

#define OPTIONS struct stats_options
const struct command command_stats = {
    .name = "stats",
    .summary = "print what commands counted in a store",
    .synopsis = "[--prometheus | --json] [--store PATH]",
    .about = "Prints the counters that commands keep in the store, where no gateway counts: "
             "operations, retries and what was given up, by retry profile. With --json each is an "
             "object on a line of its own.",
    .flags = FLAGS(SWITCH(prometheus, "prometheus", 0, "print the text format of Prometheus"),
                   FLAG_JSON(session.json), FLAG_STORE(session.store_path)),
    .exits = {{EXIT_USAGE, NULL}, {NO_STORE}},
    ACTS(queue_run, show_stats),
};
