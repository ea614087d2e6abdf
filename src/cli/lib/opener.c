/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/lib/opener.h"

#include "base/check.h"
#include "base/mem.h"
#include "cli/command/command.h"
#include "cli/lib/store_path.h"
#include "operator/keys.h"

#define PROBLEM_MAX ((size_t)512)

int opener_try_store(const char *command, struct store_config config, struct store **ret_store,
                     char **ret_problem)
{
    CHECK(config.role != STORE_SERVE && (config.role != STORE_DRAINER || !config.read_only_file));
    char *path MEM_AUTO = store_path_find(config.path, !config.read_only_file);
    if (!path)
        return command_misused(command, "no store: use --store or $PAWL_STORE");
    config.path = path;
    config.owns_sqlite = true;
    struct store *store;
    enum store_open_result result = store_open(&config, &store, ret_problem);
    if (result != STORE_OPENED)
        return result == STORE_OPEN_IN_USE ? EXIT_TRY_AGAIN : EXIT_UNAVAILABLE;
    *ret_store = store;
    return EXIT_DONE;
}

int opener_open_store(const char *command, struct store_config config, struct store **ret_store)
{
    char *problem MEM_AUTO = NULL;
    int code = opener_try_store(command, config, ret_store, &problem);
    if (code == EXIT_DONE || code == EXIT_USAGE)
        return code;
    return command_failed(command, (enum exit_code)code, "%s", problem ? problem : "out of memory");
}

int opener_complain(const char *command, struct store *store, enum store_status status)
{
    if (status == STORE_DONE)
        return EXIT_DONE;
    BUF_AUTO struct buf problem = buf_make(PROBLEM_MAX);
    if (status == STORE_DEAD) {
        store_problem(store, &problem);
        buf_add_str(&problem, ": ");
    }
    return command_failed(command, keys_status_code(status), "%.*s%s",
                          SLICE_ARG(buf_slice(&problem)), keys_status_text(status));
}
