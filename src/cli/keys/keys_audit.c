/* SPDX-License-Identifier: Apache-2.0 */
/* Who did what to records by hand. */
#include "base/check.h"
#include "base/time/timestamp.h"
#include "cli/command/command.h"
#include "cli/keys/keys.h"
#include "cli/lib/print.h"
#include "operator/audit.h"

struct keys_audit_options {
    struct keys_options keys;
    size_t limit;
};

static void add_keys_act_text(struct buf *line, const struct store_audit *audit,
                              struct slice reason)
{
    struct store_row row = {.tenant = audit->tenant, .rule = audit->rule, .key = audit->key};
    timestamp_print(line, audit->at);
    buf_add_char(line, ' ');
    print_escaped(line, audit->actor);
    buf_printf(line, " %s ", store_act_name(audit->act));
    keys_add_name(line, &row);
    buf_printf(line, ": %s -> %s", record_status_name(audit->from), audit_result(audit));
    if (audit->http_status > 0)
        buf_printf(line, " %d", audit->http_status);
    buf_printf(line, ", token %lld%s", (long long)audit->token, audit->force ? ", forced" : "");
    if (reason.len > 0)
        buf_add_str(line, ": ");
    print_escaped(line, reason);
}

static int print_act(const struct keys_options *options, const struct store_audit *audit,
                     struct slice reason)
{
    BUF_AUTO struct buf line = buf_make(SIZE_MAX);
    if (options->json)
        audit_add_json(&line, audit, reason);
    else
        add_keys_act_text(&line, audit, reason);
    buf_add_char(&line, '\n');
    return print_buf(options->command, &line);
}

/* Walks over all acts and prints those behind the first `skip`; `*ret_n`: how many there are. */
static int walk_keys_acts(struct keys_session *session, size_t skip, size_t *ret_n)
{
    AUDIT_PAGE_AUTO struct audit_page page = {.table = &audit_table, .limit = AUDIT_PAGE_MOST};
    size_t n = 0;
    int code = EXIT_DONE;
    do {
        code = keys_complain(session, audit_read(session->store, &session->parker.parker, &page));
        for (size_t i = 0; i < page.acts.n && code == EXIT_DONE; i++)
            if (n++ >= skip)
                code = print_act(session->options, (const struct store_audit *)page.acts.rows[i],
                                 page.reasons[i]);
    } while (code == EXIT_DONE && page.next != 0);
    *ret_n = n;
    return code;
}

static int list_key_acts(void *given)
{
    const struct keys_audit_options *options = given;
    CHECK(options->limit > 0);
    KEYS_SESSION_AUTO struct keys_session session = {0};
    size_t n = 0;
    int code = keys_open(&session, &options->keys);
    if (code == EXIT_DONE)
        code = walk_keys_acts(&session, SIZE_MAX, &n);
    if (code == EXIT_DONE)
        code = walk_keys_acts(&session, n > options->limit ? n - options->limit : 0, &n);
    if (code == EXIT_DONE && n > options->limit)
        fprintf(stderr, "pawl keys audit: these are the last %zu of %zu; see --limit\n",
                options->limit, n);
    return code;
}

/* ---- the row ---- */

#define OPTIONS struct keys_audit_options
const struct command command_keys_audit = {
    .name = "keys audit",
    .summary = "list who settled or deleted records by hand",
    .synopsis = "[OPTIONS]",
    .about = "Prints who resolved, released or forgot which record, oldest first; if there are "
             "more acts than --limit, the last ones. Acts are kept for 400 days. With --json each "
             "act is an object on a line of its own.",
    .flags = FLAGS(FLAG_LIMIT(limit), FLAG_JSON(keys.json), FLAG_STORE(keys.store)),
    .exits = {{EXIT_USAGE, NULL}, {NO_STORE}},
    ACTS(keys_run, list_key_acts, .limit = KEYS_LIMIT_DEFAULT),
};
