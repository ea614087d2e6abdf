/* SPDX-License-Identifier: Apache-2.0 */
/* Who did what to records by hand. */
#include "base/arena.h"
#include "base/json.h"
#include "base/timestamp.h"
#include "cli/command.h"
#include "cli/keys.h"
#include "cli/print.h"

#define PIECE_MAX 32 /* acts copied while the store is held */
#define PIECE_BYTES ((size_t)16 * 1024 * 1024)

/* ---- reading ---- */

/* Acts, and the reasons that were given for some of them. */
struct piece {
    struct arena arena;
    struct store_audit at[PIECE_MAX];
    struct slice reasons[PIECE_MAX];
    size_t n;
    int64_t last; /* id; 0: none yet */
};

static void start_piece(void *argument)
{
    struct piece *piece = argument;
    piece->n = 0;
}

/* Runs on the committer's thread inside its transaction, so it only copies. */
static void copy_act(void *argument, const struct table_row *row)
{
    struct piece *piece = argument;
    const struct store_audit *audit = (const struct store_audit *)row;
    piece->reasons[piece->n] = (struct slice){0};
    struct store_audit *copy = &piece->at[piece->n++];
    *copy = *audit;
    copy->actor = arena_copy(&piece->arena, audit->actor);
    copy->attempt_id = (struct slice){0};
    copy->tenant = arena_copy(&piece->arena, audit->tenant);
    copy->rule = arena_copy(&piece->arena, audit->rule);
    copy->key = arena_copy(&piece->arena, audit->key);
}

/* Of the act that it is about, if that is in the piece. */
static void copy_reason(void *argument, const struct table_row *row)
{
    struct piece *piece = argument;
    const struct store_reason *reason = (const struct store_reason *)row;
    for (size_t i = 0; i < piece->n; i++)
        if (piece->at[i].row.id == reason->act)
            piece->reasons[i] = arena_copy(&piece->arena, reason->text);
}

/* A reason is written right behind its act, so that it has a higher id. */
static int read_reasons(struct keys_session *session, struct piece *piece)
{
    if (piece->n == 0)
        return EXIT_DONE;
    struct table_query query = {.table = &reason_table,
                                .after = piece->at[0].row.id,
                                .limit = PIECE_MAX,
                                .each = copy_reason,
                                .argument = piece};
    return keys_complain(session, keys_query(session->store, &query, &session->parker.parker));
}

/* The acts after piece->last. An exit code; what went wrong was said. */
static int read_piece(struct keys_session *session, struct piece *piece)
{
    arena_fini(&piece->arena);
    piece->arena = arena_make(PIECE_BYTES);
    struct table_query query = {.table = &audit_table,
                                .after = piece->last,
                                .limit = PIECE_MAX,
                                .restart = start_piece,
                                .each = copy_act,
                                .argument = piece};
    int code = keys_complain(session, keys_query(session->store, &query, &session->parker.parker));
    if (code == EXIT_DONE)
        code = read_reasons(session, piece);
    if (code == EXIT_DONE && piece->arena.failed)
        return command_failed(session->options->command, EXIT_UNAVAILABLE, "out of memory");
    if (piece->n > 0)
        piece->last = piece->at[piece->n - 1].row.id;
    return code;
}

/* ---- printing ---- */

/* What an operator calls it: a pending record without a lease is released. */
static const char *result_name(const struct store_audit *audit)
{
    if (audit->to == RECORD_PENDING)
        return "released";
    return record_status_name(audit->to);
}

static void add_text(struct buf *line, const struct store_audit *audit, struct slice reason)
{
    struct store_row row = {.tenant = audit->tenant, .rule = audit->rule, .key = audit->key};
    timestamp_print(line, audit->at);
    buf_add_char(line, ' ');
    print_escaped(line, audit->actor);
    buf_printf(line, " %s ", store_act_name(audit->act));
    keys_add_name(line, &row);
    buf_printf(line, ": %s -> %s", record_status_name(audit->from), result_name(audit));
    if (audit->http_status > 0)
        buf_printf(line, " %d", audit->http_status);
    buf_printf(line, ", token %lld%s", (long long)audit->token, audit->force ? ", forced" : "");
    if (reason.len > 0)
        buf_add_str(line, ": ");
    print_escaped(line, reason);
    buf_add_char(line, '\n');
}

static void add_json(struct buf *line, const struct store_audit *audit, struct slice reason)
{
    buf_add_char(line, '{');
    json_add_i64(line, "id", audit->row.id);
    json_add_time(line, "at", audit->at);
    json_add_text(line, "actor", audit->actor);
    json_add_text(line, "act", slice_of(store_act_name(audit->act)));
    json_add_text(line, "key", audit->key);
    json_add_text(line, "tenant", audit->tenant);
    json_add_text(line, "rule", audit->rule);
    json_add_i64(line, "token", audit->token);
    json_add_text(line, "from", slice_of(record_status_name(audit->from)));
    json_add_text(line, "to", slice_of(result_name(audit)));
    json_add_known_i64(line, "http_code", audit->http_status);
    json_add_bool(line, "forced", audit->force);
    json_add_known_text(line, "reason", reason);
    buf_add_str(line, "}\n");
}

static int print_act(const struct keys_options *options, const struct store_audit *audit,
                     struct slice reason)
{
    BUF_AUTO struct buf line = buf_make(SIZE_MAX);
    if (options->json)
        add_json(&line, audit, reason);
    else
        add_text(&line, audit, reason);
    if (!buf_ok(&line))
        return EXIT_UNAVAILABLE;
    fwrite(line.at, 1, line.len, stdout);
    return EXIT_DONE;
}

/* Walks over all acts and prints those behind the first `skip`; `*ret_n`: how many there are. */
static int walk(struct keys_session *session, size_t skip, bool print, size_t *ret_n)
{
    struct piece piece = {.n = PIECE_MAX};
    size_t n = 0;
    int code = EXIT_DONE;
    while (code == EXIT_DONE && piece.n == PIECE_MAX) {
        code = read_piece(session, &piece);
        for (size_t i = 0; i < piece.n && code == EXIT_DONE; i++, n++)
            if (print && n >= skip)
                code = print_act(session->options, &piece.at[i], piece.reasons[i]);
    }
    arena_fini(&piece.arena);
    *ret_n = n;
    return code;
}

int keys_audit(const struct keys_options *options)
{
    KEYS_SESSION_AUTO struct keys_session session = {0};
    size_t n = 0;
    int code = keys_open(&session, options);
    if (code == EXIT_DONE)
        code = walk(&session, 0, false, &n);
    if (code == EXIT_DONE)
        code = walk(&session, n > options->limit ? n - options->limit : 0, true, &n);
    if (code == EXIT_DONE && n > options->limit)
        fprintf(stderr, "pawl keys audit: these are the last %zu of %zu; see --limit\n",
                options->limit, n);
    return code;
}
