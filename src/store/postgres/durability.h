/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a PostgreSQL server may lose what it acknowledged, from what it says of itself: a pure
 * function. docs/decisions/0048-weaker-stores.md has the reasons. */
#ifndef PAWL_STORE_POSTGRES_DURABILITY_H
#define PAWL_STORE_POSTGRES_DURABILITY_H

#include "store/weakness.h"
#include <stdbool.h>

/* A setting: of one that cannot be read nothing is known. */
enum durability_setting { SETTING_UNREAD, SETTING_OFF, SETTING_ON };

struct durability {
    enum durability_setting fsync;
    enum durability_setting full_page_writes;
    enum durability_setting synchronous; /* whether a standby is named that commits wait for */
    bool follows;    /* the URL leads to whichever of several servers accepts writes */
    long n_standbys; /* that are connected; below 0: that cannot be read */
};

struct weakness durability_judge(const struct durability *seen);

#endif
