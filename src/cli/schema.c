/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl schema`: what a database needs before it can hold records. */
#include "cli/command/command.h"
#include "cli/lib/print.h"
#include "store/store.h"

static int run_schema(const struct command *command, struct operands at)
{
    int code = command_read(command, &at, NULL);
    if (code != EXIT_DONE)
        return code;
    if (at.n != 1 || strcmp(at.at[0], "postgres") != 0)
        return command_misused("schema", "the store is `postgres`");
    struct buf sql BUF_AUTO = buf_make(SIZE_MAX);
    store_schema(&sql);
    return print_buf("schema", &sql);
}

/* ---- the row ---- */

const struct command command_schema = {
    .name = "schema",
    .summary = "print the SQL that prepares a database for records",
    .synopsis = "postgres",
    .about = "Prints the SQL that turns a PostgreSQL database into a store; run it as the "
             "database's owner: `pawl schema postgres | psql`. It may be run again. The first "
             "`pawl serve` also runs it, if its role has the privilege.",
    .operand = "STORE",
    .operands = {0, 1},
    .exits = {{EXIT_USAGE, NULL}},
    .run = run_schema,
};
