/* SPDX-License-Identifier: Apache-2.0 */
#include "store/postgres/durability.h"
#include "base/check.h"
#include <stdio.h>
#include <string.h>

static struct weakness weakness_of(enum weakness_kind kind, const char *why)
{
    struct weakness weakness = {.kind = kind};
    CHECK(strlen(why) < sizeof weakness.why);
    snprintf(weakness.why, sizeof weakness.why, "%s", why);
    return weakness;
}

struct weakness durability_judge(const struct durability *seen)
{
    bool follows_none = seen->follows && seen->synchronous == SETTING_OFF;
    bool unread = seen->fsync == SETTING_UNREAD || seen->full_page_writes == SETTING_UNREAD ||
                  seen->synchronous == SETTING_UNREAD;
    if (seen->fsync == SETTING_OFF)
        return weakness_of(WEAKNESS_LOSES,
                           "the server runs with fsync = off: a power cut would lose "
                           "responses that clients already got; set fsync = on");
    if (seen->full_page_writes == SETTING_OFF)
        return weakness_of(
            WEAKNESS_LOSES,
            "the server runs with full_page_writes = off: a power cut would damage pages, "
            "and lose responses that clients already got; set full_page_writes = on");
    if (follows_none)
        return weakness_of(
            WEAKNESS_LOSES,
            "a failover would lose responses that clients already got, because no standby "
            "is synchronous; set synchronous_standby_names on the server "
            "(docs/guide/postgresql.md#failover)");
    if (unread || (seen->synchronous == SETTING_OFF && seen->n_standbys < 0))
        return weakness_of(
            WEAKNESS_UNREAD,
            "this role may not read the server's settings (fsync, full_page_writes, "
            "synchronous_standby_names, pg_stat_replication), so that nothing says whether "
            "a crash or failover would lose responses; GRANT pg_monitor to it");
    if (seen->synchronous == SETTING_OFF && seen->n_standbys > 0)
        return weakness_of(
            WEAKNESS_STANDBY,
            "a standby is connected, and none is synchronous: promoted, it would lack "
            "responses that clients already got; set synchronous_standby_names on the "
            "server (docs/guide/postgresql.md#failover), or promote none");
    return weakness_of(WEAKNESS_NONE, "");
}
