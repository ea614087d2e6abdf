/* SPDX-License-Identifier: Apache-2.0 */
/* What a store may lose of what it acknowledged, as its backend last saw it: values only. */
#ifndef PAWL_STORE_WEAKNESS_H
#define PAWL_STORE_WEAKNESS_H

enum weakness_kind {
    WEAKNESS_NONE,
    WEAKNESS_LOSES,   /* a crash or failover loses it: refused at the start unless accepted */
    WEAKNESS_STANDBY, /* a standby that may lag is connected, and somebody may promote it */
    WEAKNESS_IMAGE,   /* it ends with its container */
    WEAKNESS_UNREAD,  /* nothing says: the server does not show its settings */
};

#define WEAKNESS_WHY_SIZE 288

struct weakness {
    enum weakness_kind kind;
    char why[WEAKNESS_WHY_SIZE]; /* one line: what it is, what that costs, what to do */
};

#endif
