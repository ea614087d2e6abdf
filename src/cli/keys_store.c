/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "cli/command.h"
#include "cli/keys.h"
#include "cli/print.h"
#include "core/errors.h"

#define PATIENCE_US (10 * CLOCK_US_PER_S)
#define FOUND_MAX ((size_t)256 * 1024 * 1024)
#define CANDIDATES_MAX 20
#define SLICE_ROWS 20000 /* looked at while the store is held: a few milliseconds */

int keys_open(struct keys_session *session, const struct keys_options *options)
{
    char *path MEM_AUTO = command_store_path(options->store, false);
    char *problem MEM_AUTO = NULL;
    session->options = options;
    if (!path)
        return command_misused(options->command, "which store? give --store or $PAWL_STORE");
    struct store_config config = store_config_default();
    config.path = path;
    config.read_only_file = true;
    if (store_open(&config, &session->store, &problem) != STORE_OPENED) {
        fprintf(stderr, "pawl %s: %s\n", options->command, problem ? problem : "out of memory");
        session->store = NULL;
        return EXIT_UNAVAILABLE;
    }
    thread_parker_init(&session->parker);
    return EXIT_DONE;
}

void keys_close(struct keys_session *session)
{
    if (!session->store)
        return;
    store_close(session->store);
    thread_parker_fini(&session->parker);
    session->store = NULL;
}

int keys_run(struct keys_session *session, struct store_op *op)
{
    store_run(session->store, op, &session->parker.parker,
              clock_after(clock_boot_us(), PATIENCE_US));
    const char *what = NULL;
    switch (op->status) {
    case STORE_DONE:
        return EXIT_DONE;
    case STORE_NO_MEMORY:
        what = "out of memory";
        break;
    case STORE_DEAD:
        what = "the store failed; look again what it holds";
        break;
    case STORE_DOWN:
    case STORE_FULL:
    case STORE_LIMITED:
    case STORE_WITHDRAWN:
        what = "the store did not answer in time; nothing was changed";
        break;
    }
    fprintf(stderr, "pawl %s: %s\n", session->options->command, what);
    return op->status == STORE_DEAD ? EXIT_FAIL_STOP : EXIT_UNAVAILABLE;
}

void keys_found_fini(struct keys_found *found)
{
    arena_fini(&found->arena);
}

void keys_found_cut(struct keys_found *found, size_t n)
{
    struct keys_row **end = &found->first;
    for (size_t i = 0; i < n && *end; i++)
        end = &(*end)->next;
    *end = NULL;
}

static struct slice keep(struct keys_found *found, struct slice text)
{
    struct slice copy = arena_copy(&found->arena, text);
    found->no_memory |= !copy.at;
    return copy;
}

static void drop_slice(struct keys_found *found)
{
    struct keys_row **end = &found->first;
    found->last = NULL;
    for (found->n = 0; *end && (*end)->store.id <= found->after; found->n++) {
        found->last = *end;
        end = &(*end)->next;
    }
    *end = NULL;
}

/* Runs on the committer's thread inside its transaction, so it only copies. */
static void add_row(void *argument, const struct store_row *row, enum record_lease lease)
{
    struct keys_found *found = argument;
    /* Ids ascend: one that does not belongs to a batch that is applied again from its start. */
    if (found->last && row->id <= found->last->store.id)
        drop_slice(found);
    struct keys_row *copy = arena_alloc(&found->arena, sizeof *copy);
    if (!copy) {
        found->no_memory = true;
        return;
    }
    *copy = (struct keys_row){.store = *row, .lease = lease};
    copy->store.tenant = keep(found, row->tenant);
    copy->store.rule = keep(found, row->rule);
    copy->store.key = keep(found, row->key);
    copy->store.recipe = keep(found, row->recipe);
    copy->store.location = keep(found, row->location);
    if (found->last)
        found->last->next = copy;
    else
        found->first = copy;
    found->last = copy;
    found->n++;
}

int keys_collect(struct keys_session *session, size_t limit, struct keys_found *ret_found)
{
    const struct keys_options *options = session->options;
    struct store_list list = {.tenant = options->tenant,
                              .rule = options->rule,
                              .key = options->key,
                              .status = options->status,
                              .lapsed_only = options->lapsed,
                              .each = add_row,
                              .argument = ret_found};
    struct store_op op = {.kind = STORE_LIST, .list = &list, .row = SLICE_ROWS};
    int code = EXIT_DONE;
    *ret_found = (struct keys_found){.arena = arena_make(FOUND_MAX)};
    while (code == EXIT_DONE && list.up_to < op.row && ret_found->n < limit) {
        list.after = ret_found->after = list.up_to;
        list.up_to += SLICE_ROWS;
        list.limit = limit - ret_found->n;
        op = (struct store_op){.kind = STORE_LIST, .list = &list};
        code = keys_run(session, &op);
    }
    if (code == EXIT_DONE && ret_found->no_memory) {
        fprintf(stderr, "pawl %s: too much to list at once; use --limit\n", options->command);
        return EXIT_UNAVAILABLE;
    }
    return code;
}

static int not_found(const struct keys_options *options)
{
    BUF_AUTO struct buf key = buf_make(SIZE_MAX);
    print_escaped(&key, options->key);
    bool narrowed = options->tenant.at || options->rule.at;
    fprintf(stderr, "pawl %s: there is no record of key \"%.*s\"%s\n", options->command,
            SLICE_ARG(buf_slice(&key)), narrowed ? " under that tenant and rule" : "");
    return EXIT_FINAL_ERROR;
}

int keys_find(struct keys_session *session, struct keys_found *found, struct keys_row **ret_row)
{
    int code = keys_collect(session, CANDIDATES_MAX + 1, found);
    if (code != EXIT_DONE)
        return code;
    if (found->n == 0)
        return not_found(session->options);
    if (found->n == 1) {
        *ret_row = found->first;
        return EXIT_DONE;
    }
    keys_print_table(stderr, found, store_now(session->store));
    return command_misused(session->options->command,
                           "%s%zu records have this key; say which with --tenant and --rule",
                           found->n > CANDIDATES_MAX ? "at least " : "", found->n);
}
