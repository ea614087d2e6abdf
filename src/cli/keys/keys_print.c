/* SPDX-License-Identifier: Apache-2.0 */
/* Records for people. Whatever came from outside is escaped. */
#include "cli/keys/keys.h"
#include "cli/lib/print.h"

#define CELL_MAX ((size_t)1024 * 1024)
#define COLUMN_MOST 40 /* wider cells push their line, not the table */

/* ---- the table ---- */

#define KEYS_COLUMNS(X) X(STATUS) X(HTTP) X(TOKEN) X(ATTEMPTS) X(CREATED) X(TENANT) X(RULE) X(KEY)

enum column {
#define X(name) COLUMN_##name,
    KEYS_COLUMNS(X)
#undef X
        COLUMNS
};

static void add_status(struct buf *cell, const struct keys_view *view)
{
    const struct record *record = view->record;
    const char *lease = keys_lease_name(view);
    bool released = lease && view->lease == RECORD_LEASE_NONE; /* nobody runs it */
    bool expected = record->provisional && view->lease == RECORD_LEASE_LIVE;
    buf_add_str(cell, released ? lease : record_status_name(record->status));
    if (record->provisional)
        buf_add_str(cell, ",provisional");
    if (lease && !released && !expected)
        buf_printf(cell, ",%s", lease);
    if (lease && record->doubt)
        buf_add_str(cell, ",in-doubt");
    if (!lease && record->status != RECORD_UNKNOWN && view->now >= record->expires_at)
        buf_add_str(cell, ",expired");
}

/* One line of the table: the text of each column, and what is known of how wide they are. */
struct line {
    struct buf cells[COLUMNS];
    size_t widths[COLUMNS];
};

static void fill_line(struct line *line, const struct keys_row *row, int64_t now)
{
    struct keys_view view = {
        .row = &row->store, .record = &row->store.record, .lease = row->lease, .now = now};
    struct buf *cells = line->cells;
    for (enum column column = 0; column < COLUMNS; column++)
        buf_clear(&cells[column]);
    add_status(&cells[COLUMN_STATUS], &view);
    if (view.record->http_status == 0)
        buf_add_char(&cells[COLUMN_HTTP], '-');
    else
        buf_add_i64(&cells[COLUMN_HTTP], view.record->http_status);
    buf_add_i64(&cells[COLUMN_TOKEN], view.record->token);
    buf_add_i64(&cells[COLUMN_ATTEMPTS], view.record->attempts);
    print_moment(&cells[COLUMN_CREATED], view.record->created_at);
    print_text(&cells[COLUMN_TENANT], view.row->tenant);
    print_text(&cells[COLUMN_RULE], view.row->rule);
    print_text(&cells[COLUMN_KEY], view.row->key);
}

static void print_cell(FILE *to, const struct line *line, enum column column, struct slice text)
{
    bool last = column + 1 == COLUMNS;
    fprintf(to, "%-*.*s%s", last ? 0 : (int)line->widths[column], SLICE_ARG(text),
            last ? "\n" : "  ");
}

void keys_print_table(FILE *to, const struct keys_found *found, int64_t now)
{
    static const char *const names[COLUMNS] = {
#define X(name) #name,
        KEYS_COLUMNS(X)
#undef X
    };
    struct line line;
    for (enum column column = 0; column < COLUMNS; column++) {
        line.cells[column] = buf_make(CELL_MAX);
        line.widths[column] = strlen(names[column]);
    }
    for (const struct keys_row *row = found->first; row; row = row->next) {
        fill_line(&line, row, now);
        for (enum column column = 0; column < COLUMNS; column++) {
            size_t width = line.cells[column].len;
            if (width > line.widths[column] && width <= COLUMN_MOST)
                line.widths[column] = width;
        }
    }
    for (enum column column = 0; column < COLUMNS; column++)
        print_cell(to, &line, column, slice_of(names[column]));
    for (const struct keys_row *row = found->first; row; row = row->next) {
        fill_line(&line, row, now);
        for (enum column column = 0; column < COLUMNS; column++)
            print_cell(to, &line, column, buf_slice(&line.cells[column]));
    }
    for (enum column column = 0; column < COLUMNS; column++)
        buf_fini(&line.cells[column]);
}

/* ---- one record ---- */

/* The store does not know the rules. */
static void add_due(struct buf *to, int64_t us)
{
    print_label(to, "next probe:");
    print_moment(to, us);
    buf_add_str(to, " (where its rule has probe_headers)\n");
}

static void add_key_digest(struct buf *to, const char *name, const struct digest *digest)
{
    char hex[DIGEST_HEX_SIZE + 1];
    if (digest_is_none(digest))
        return;
    hex_encode(digest->bytes, DIGEST_SIZE, hex);
    print_fact(to, name, slice_of(hex));
}

static void add_lease(struct buf *to, const struct keys_view *view)
{
    const char *name = keys_lease_name(view);
    if (!name)
        return;
    print_label(to, "lease:");
    buf_add_str(to, name);
    if (view->lease == RECORD_LEASE_LIVE)
        buf_printf(to, ", %lld s left",
                   (long long)clock_seconds_left(view->now, view->record->lease_until));
    buf_add_str(to, view->record->probing ? ", probing\n" : "\n");
}

static void add_key_doubt(struct buf *to, const struct keys_view *view)
{
    const struct record *record = view->record;
    if (record->status != RECORD_PENDING && record->status != RECORD_UNKNOWN)
        return;
    print_fact(to, "in doubt:",
               record_in_doubt(record, view->lease) ? SLICE("yes, it may have happened")
                                                    : SLICE("no"));
    print_fact(to, "unknown:", slice_of(record_unknown_name(record->unknown)));
    print_fact_number(to, "settle [s]:", (record->settle_us + CLOCK_US_PER_S - 1) / CLOCK_US_PER_S);
    print_fact_moment(to, "quiet at:", record->quiet_at);
    if (record->quiet_at > view->now)
        print_fact_number(to, "quiet in [s]:", clock_seconds_left(view->now, record->quiet_at));
    if (keys_probe_due(view) > 0)
        add_due(to, keys_probe_due(view));
}

/* Which request it was, and why its outcome is in doubt. */
static void add_key_origin(struct buf *to, const struct keys_view *view)
{
    BUF_AUTO struct buf text = buf_make(ORIGIN_MAX);
    struct origin origin;
    record_cause_write(view->record->cause, &text);
    if (text.len > 0)
        print_fact(to, "cause:", buf_slice(&text));
    if (!keys_origin(view, &origin))
        return;
    buf_clear(&text);
    buf_add_slice(&text, origin.method);
    buf_add_char(&text, ' ');
    buf_add_slice(&text, origin.path);
    print_fact(to, "request:", buf_slice(&text));
    print_fact(to, "client:", origin.client);
    if (origin.correlation_id.len > 0)
        print_fact(to, "correlation:", origin.correlation_id);
    if (origin.trace_id.len > 0)
        print_fact(to, "trace:", origin.trace_id);
    if (origin.body.len > 0)
        print_fact(to, "body:", origin.body);
}

static void add_key_response(struct buf *to, const struct keys_view *view)
{
    const struct record *record = view->record;
    if (record->status != RECORD_COMPLETE && record->status != RECORD_FAILED)
        return;
    print_fact_moment(to, "completed:", record->completed_at);
    if (record->http_status > 0) /* a job has none: its exit code is among the lines below */
        print_fact_number(to, "http status:", record->http_status);
    if (!view->outcome) {
        print_fact(to, "response:", record->kept ? SLICE("expired") : SLICE("not kept"));
        return;
    }
    print_label(to, "response:");
    buf_printf(to, "%zu bytes of body\n", view->outcome->body.len);
    print_fields(to, view->outcome->fields);
}

void keys_print_record(struct buf *to, const struct keys_view *view)
{
    const struct record *record = view->record;
    print_fact(to, "key:", view->row->key);
    if (view->row->once.len > 0)
        print_fact(to, "once:", view->row->once);
    print_fact(to, "tenant:", view->row->tenant);
    char hash[LOG_KEYED_SIZE];
    struct slice tenant_hash = keys_tenant_hash(view, hash);
    if (tenant_hash.len > 0)
        print_fact(to, "tenant hash:", tenant_hash);
    print_fact(to, "rule:", view->row->rule);
    print_fact(to, "status:", slice_of(record_status_name(record->status)));
    if (record->provisional)
        print_fact(to, "provisional:",
                   SLICE("completed by the service; the gateway may still fill in "
                         "headers and body"));
    add_lease(to, view);
    print_fact_number(to, "token:", record->token);
    print_label(to, "attempts:");
    buf_printf(to, "%lld, probes included\n", (long long)record->attempts);
    print_fact_moment(to, "created:", record->created_at);
    print_fact_moment(to, "started:", record->started_at);
    add_key_doubt(to, view);
    add_key_origin(to, view);
    print_fact_moment(to, "expires:", record->provisional ? 0 : record->expires_at);
    if (record->tombstone_us > 0 && !record->provisional)
        print_fact_moment(to, "kept until:", record->gone_at);
    if (record->once_until > 0 && !record->provisional)
        print_fact_moment(to, "once until:", record->once_until);
    add_key_digest(to, "payload hash:", &record->payload_hash);
    add_key_digest(to, "target hash:", &record->target_hash);
    print_fact(to, "recipe:", view->row->recipe);
    add_key_response(to, view);
}

void keys_add_name(struct buf *buf, const struct store_row *row)
{
    print_escaped(buf, row->rule);
    buf_add_str(buf, " \"");
    print_escaped(buf, row->key);
    buf_add_char(buf, '"');
    if (row->tenant.len == 0)
        return;
    buf_add_str(buf, " of tenant \"");
    print_escaped(buf, row->tenant);
    buf_add_char(buf, '"');
}
