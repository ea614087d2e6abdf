/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl schema`: what a database needs before it can hold records. */
#include "cli/command/command.h"
#include "cli/lib/print.h"
#include "store/store.h"

int command_schema(enum command_id id, struct operands at)
{
    static const struct flag_place places[FLAG_COUNT];
    int code = command_read(id, &at, places, NULL);
    if (code != EXIT_DONE)
        return code;
    if (at.n != 1 || strcmp(at.at[0], "postgres") != 0)
        return command_misused("schema", "the store is `postgres`");
    struct buf sql BUF_AUTO = buf_make(SIZE_MAX);
    store_schema(&sql);
    return print_buf("schema", &sql);
}
