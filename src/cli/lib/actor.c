/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/lib/actor.h"

#include <pwd.h>
#include <unistd.h>

static void add_name(struct buf *buf)
{
    const struct passwd *user = getpwuid(getuid());
    buf_add_str(buf, "cli:");
    if (user)
        buf_add_str(buf, user->pw_name);
    else
        buf_add_i64(buf, getuid());
}

struct store_actor actor_of(struct slice reason, struct buf *name)
{
    add_name(name);
    return (struct store_actor){.name = buf_ok(name) ? buf_slice(name) : SLICE("cli"),
                                .reason = reason};
}
