/* SPDX-License-Identifier: Apache-2.0 */
/* opener: the store of a command. Exit codes; anything but 0 was explained in the name of
 * `command`: 69 where the store cannot be used, and 75 where another process has it in the role
 * that was asked for, as a second drain finds. */
#ifndef PAWL_CLI_OPENER_H
#define PAWL_CLI_OPENER_H

#include "store/store.h"

/* Opens a store. `config.path` is what --store says, or NULL (store_path.h); unless
 * `read_only_file` it is made where there is none. */
int opener_open_store(const char *command, struct store_config config, struct store **ret_store);

/* The same, but the caller says why it cannot be used: `*ret_problem` (mem_free), one line. */
int opener_try_store(const char *command, struct store_config config, struct store **ret_store,
                     char **ret_problem);

/* What a look or an act came to. */
int opener_complain(const char *command, struct store *store, enum store_status status);

#endif
