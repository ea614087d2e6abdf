/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl stats`: what commands counted in a store: no `serve` has seen it. */
#include "base/json.h"
#include "base/mem.h"
#include "cli/queue.h"
#include "observe/page.h"
#include "operator/counters.h"
#include <stdio.h>

static const struct page_series *const series[] = {SERIES(RETRY_OPERATIONS), SERIES(RETRY_ATTEMPTS),
                                                   SERIES(RETRY_EXHAUSTED)};

static void add_page(const struct counters *counters, struct buf *page)
{
    for (size_t i = 0; i < sizeof series / sizeof *series; i++) {
        page_begin(page, series[i]);
        for (size_t at = 0; at < counters->n; at++)
            if (slice_eq(counters->at[at].name, slice_of(series[i]->name)))
                buf_printf(page, "%s{%.*s} %lld\n", series[i]->name,
                           SLICE_ARG(counters->at[at].labels), (long long)counters->at[at].value);
    }
}

static void add_lines(const struct counters *counters, bool json, struct buf *text)
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

int stats_run(struct queue_session *session)
{
    BUF_AUTO struct buf text = buf_make(SIZE_MAX);
    if (session->json && session->prometheus)
        return command_misused(session->command, "--json and --prometheus exclude each other");
    struct counters *counters = mem_zalloc(1, sizeof *counters);
    int code = queue_open(session, STORE_COMMAND, false);
    if (code == EXIT_DONE && !counters)
        code = command_failed(session->command, EXIT_UNAVAILABLE, "out of memory");
    if (code == EXIT_DONE)
        code = queue_complain(session,
                              counters_read(session->store, &session->parker.parker, counters));
    if (code == EXIT_DONE && session->prometheus)
        add_page(counters, &text);
    else if (code == EXIT_DONE)
        add_lines(counters, session->json, &text);
    if (text.len > 0)
        fwrite(text.at, 1, text.len, stdout);
    if (counters)
        counters_fini(counters);
    mem_free(counters);
    return code;
}
