/* SPDX-License-Identifier: Apache-2.0 */
/* shared: what the committers of a store have in common; sessions.h says what each does. */
#ifndef PAWL_STORE_SHARED_H
#define PAWL_STORE_SHARED_H

#include "base/crypto/digest.h"
#include "store/settings.h"
#include <stdatomic.h>

#define HANDED_MOST 64

struct committer;

/* Keys of records that others have ended, for begins that wait. Not locked. */
struct handed {
    struct digest keys[HANDED_MOST];
    size_t n;
    bool all; /* more than there was room for: every begin decides again */
};

struct store {
    struct store_config config; /* its limits as they were at first */
    struct digest_key key;
    int64_t self;  /* incarnation of this process */
    size_t others; /* when it was opened: store_others */
    size_t n;      /* committers */
    struct committer *committers[STORE_SESSIONS_MOST];
    size_t started;             /* of them; the first one's thread */
    size_t level;               /* in flight, smoothed (sessions.c); the same */
    atomic_size_t active;       /* of them that keys go to */
    atomic_llong timeout_us;    /* store_limits, as of now */
    atomic_ullong disk_reserve; /* the same */
    atomic_llong offset;        /* store time minus boot time, after the last batch */
    atomic_llong epoch_seen;    /* the highest, ever */
    atomic_llong lost_up_to;    /* token: see backend_back.above; 0: nothing was lost */
};

/* Raises a value that several threads raise. */
static inline void shared_raise(atomic_llong *highest, int64_t value)
{
    long long seen = atomic_load(highest);
    while (seen < value && !atomic_compare_exchange_weak(highest, &seen, value))
        ;
}

#endif
