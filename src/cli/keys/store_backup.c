/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl store backup` and `pawl store check`: a copy beside running gateways, and its proof. */
#include "base/check.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/time/timestamp.h"
#include "cli/command/command.h"
#include "cli/lib/print.h"
#include "cli/lib/store_path.h"
#include "store/sqlite/copy.h"
#include "store/sqlite/prove.h"
#include "store/store.h"

struct backup_options {
    const char *store;
    bool json;
};

/* Where the store is a database, its own tools copy and check it. */
static int refuse_url(const char *command, const char *tools)
{
    return command_misused(command,
                           "a store in PostgreSQL is %s by PostgreSQL's own tools "
                           "(docs/guide/postgresql.md#back-up-and-restore)",
                           tools);
}

/* ---- backup ---- */

static int say_copied(const char *command, const struct backup_options *options, const char *to,
                      const struct sqlite_copy *copy)
{
    BUF_AUTO struct buf text = buf_make(SIZE_MAX);
    if (options->json) {
        buf_add_char(&text, '{');
        json_add_text(&text, "file", slice_of(to));
        json_add_time(&text, "as_of", copy->time);
        json_add_i64(&text, "token", copy->token);
        json_add_i64(&text, "bytes", copy->bytes);
        buf_add_str(&text, "}\n");
    } else {
        buf_printf(&text, "%s: the store as of ", to);
        timestamp_print(&text, copy->time);
        buf_printf(&text, ", %lld bytes\n", (long long)copy->bytes);
    }
    return print_buf(command, &text);
}

static int run_backup(const struct command *command, struct operands at)
{
    struct backup_options options = {.store = NULL};
    int code = command_read(command, &at, &options);
    if (code != EXIT_DONE)
        return code;
    CHECK(at.n == 1);
    char *path MEM_AUTO = store_path_find(options.store, false);
    if (!path)
        return command_misused(command->name, "no store: use --store or $PAWL_STORE");
    if (store_is_url(path))
        return refuse_url(command->name,
                          "copied, while gateways run, with pg_basebackup and the WAL, or "
                          "pg_dump --format=custom --schema=pawl --file=FILE DATABASE,");
    struct sqlite_copy copy;
    enum sqlite_copy_result result = sqlite_copy_store(path, at.at[0], &copy);
    if (result == SQLITE_COPY_MADE)
        return say_copied(command->name, &options, at.at[0], &copy);
    return command_failed(command->name,
                          result == SQLITE_COPY_IN_USE ? EXIT_TRY_AGAIN : EXIT_UNAVAILABLE, "%s",
                          copy.problem);
}

/* ---- check ---- */

static void add_proof_json(struct buf *text, const struct sqlite_proof *proof)
{
    buf_add_char(text, '{');
    json_add_bool(text, "whole", true);
    json_add_i64(text, "format", proof->format);
    json_add_text(text, "identity", slice_of(proof->identity));
    json_add_time(text, "as_of", proof->time);
    json_add_i64(text, "token", proof->token);
    json_add_i64(text, "bytes", proof->bytes);
    json_add_i64(text, "complete", proof->complete);
    json_add_i64(text, "failed", proof->failed);
    json_add_i64(text, "unknown", proof->unknown);
    json_add_i64(text, "running", proof->running);
    json_add_i64(text, "released", proof->released);
    json_add_known_i64(text, "tasks", proof->is_today ? proof->tasks : 0);
    buf_add_str(text, "}\n");
}

static void add_proof_text(struct buf *text, const char *path, const struct sqlite_proof *proof)
{
    buf_printf(text, "%s: a whole store of format %lld\n", path, (long long)proof->format);
    print_fact(text, "identity", slice_of(proof->identity));
    print_fact_moment(text, "as of", proof->time);
    print_fact_number(text, "last token", proof->token);
    print_fact_number(text, "complete", proof->complete);
    print_fact_number(text, "failed", proof->failed);
    print_fact_number(text, "in doubt", proof->unknown);
    print_fact_number(text, "running then", proof->running);
    print_fact_number(text, "released", proof->released);
    if (proof->is_today)
        print_fact_number(text, "tasks", proof->tasks);
    buf_add_str(text, proof->is_today ? ""
                                      : "It is of an older pawl: this one brings it forward "
                                        "when it opens it.\n");
    buf_add_str(text, "In its place it lacks what was acknowledged later: a repeat of that runs "
                      "again, unless its rule asks first. Before the first gateway starts:\n"
                      "  pawl store restored --since ");
    timestamp_print(text, proof->time);
    buf_add_str(text, " --store STORE\n");
}

static int run_check(const struct command *command, struct operands at)
{
    struct backup_options options = {.store = NULL};
    int code = command_read(command, &at, &options);
    if (code != EXIT_DONE)
        return code;
    CHECK(at.n == 1);
    const char *path = at.at[0];
    if (store_is_url(path))
        return refuse_url(command->name, "checked, and its backups with pg_verifybackup or by a "
                                         "pg_restore into an empty database,");
    struct sqlite_proof proof;
    if (!sqlite_prove(path, &proof))
        return command_failed(command->name, EXIT_FINAL_ERROR, "%s", proof.problem);
    BUF_AUTO struct buf text = buf_make(SIZE_MAX);
    if (options.json)
        add_proof_json(&text, &proof);
    else
        add_proof_text(&text, path, &proof);
    return print_buf(command->name, &text);
}

/* ---- the rows ---- */

#define OPTIONS struct backup_options
const struct command command_store_backup = {
    .name = "store backup",
    .summary = "copy a SQLite store while gateways use it",
    .synopsis = "[--json] [--store PATH] FILE",
    .about = "Copies the file of a store, as it is at one moment, beside running gateways. FILE "
             "appears when it is whole and synced; until then the copy is FILE.partial, which an "
             "interrupted one leaves and the next one writes anew. A FILE that is there already is "
             "not replaced. It holds responses and tenants: only its owner may read it.\n\n"
             "PostgreSQL has tools of its own, which the command names.",
    .operand = "FILE",
    .operands = {1, 1},
    .flags = FLAGS(FLAG_JSON(json), FLAG_STORE(store)),
    .exits = {{EXIT_USAGE, "usage, or a store in PostgreSQL"},
              {EXIT_UNAVAILABLE, "nothing was copied; the message says why"},
              {EXIT_TRY_AGAIN, "another copy is being made there"}},
    .run = run_backup,
};

const struct command command_store_check = {
    .name = "store check",
    .summary = "prove that a SQLite store or a copy is whole; say what it holds",
    .synopsis = "[--json] FILE",
    .about = "Reads all of FILE, a backup or a store in use, and changes nothing: SQLite's own "
             "check, and whether each record that lives is found by its key. Prints its format, "
             "its identity, which is the same for all copies of one store, the moment that it is "
             "of, what it holds, and the command to run when it is put in the store's place.",
    .operand = "FILE",
    .operands = {1, 1},
    .flags = FLAGS(FLAG_JSON(json)),
    .exits = {{EXIT_FINAL_ERROR, "it is no whole store; the message says why"},
              {EXIT_USAGE, "usage, or a store in PostgreSQL"}},
    .run = run_check,
};
