/* SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"
#include "cli/command/command.h"
#include "cli/keys/keys.h"
#include "cli/lib/opener.h"
#include "cli/lib/print.h"

#define CANDIDATES_MAX 20

int keys_open(struct keys_session *session, const struct keys_options *options)
{
    CHECK(!session->store && options->command);
    struct store_config config = store_config_default();
    config.path = options->store;
    config.read_only_file = true;
    config.may_be_foreign = !options->owns;
    config.counts_others = options->counts_others;
    session->options = options;
    int code = opener_open_store(options->command, config, &session->store);
    if (code == EXIT_DONE)
        thread_parker_init(&session->parker);
    return code;
}

void keys_close(struct keys_session *session)
{
    if (!session->store)
        return;
    store_close(session->store);
    thread_parker_fini(&session->parker);
    session->store = NULL;
}

int keys_complain(const struct keys_session *session, enum store_status status)
{
    return opener_complain(session->options->command, session->store, status);
}

int keys_collect(struct keys_session *session, struct keys_wanted wanted,
                 struct keys_found *ret_found)
{
    const struct keys_options *options = session->options;
    CHECK(session->store && wanted.limit > 0);
    CHECK(!wanted.tenant.at && !wanted.rule.at && !wanted.key.at && !wanted.once.at);
    wanted.tenant = options->tenant;
    wanted.rule = options->rule;
    wanted.key = options->key;
    wanted.once = options->once;
    enum store_status status =
        keys_list(session->store, &wanted, &session->parker.parker, ret_found);
    if (!ret_found->arena.failed)
        return keys_complain(session, status);
    return command_failed(options->command, EXIT_UNAVAILABLE,
                          "too many records to list at once; use --limit");
}

static int not_found(const struct keys_options *options)
{
    BUF_AUTO struct buf key = buf_make(SIZE_MAX);
    print_escaped(&key, options->key.at ? options->key : options->once);
    bool narrowed = options->tenant.at || options->rule.at;
    return command_failed(options->command, EXIT_FINAL_ERROR, "there is no record of %s \"%.*s\"%s",
                          options->key.at ? "key" : "once value", SLICE_ARG(buf_slice(&key)),
                          narrowed ? " under that tenant and rule" : "");
}

static int find_one(struct keys_session *session, struct keys_found *found,
                    struct keys_row **ret_row)
{
    int code = keys_collect(session, (struct keys_wanted){.limit = CANDIDATES_MAX + 1}, found);
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
                           "%s%zu records match; select one with --tenant and --rule",
                           found->n > CANDIDATES_MAX ? "at least " : "", found->n);
}

int keys_open_one(struct keys_session *session, const struct keys_options *options,
                  struct keys_found *found, struct keys_row **ret_row)
{
    if (!options->key.at && !options->once.at)
        return command_misused(options->command, "needs a KEY or --once VALUE");
    int code = keys_open(session, options);
    return code == EXIT_DONE ? find_one(session, found, ret_row) : code;
}
