/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unserved: endpoints and sources that no living process has. What is due there waits; once it has
 * been so for `roster_gone`, and this process has lived for UNSERVED_LOOK_US of it, the name is
 * removed from the roster, and what is due there ends as dead. Until then the log says so once,
 * and metrics show them: pawl_roster_unserved by `name`, at most UNSERVED_MOST. The delivering loop
 * tends them; a scrape reads what it left under a mutex.
 */
#ifndef PAWL_WEBHOOK_UNSERVED_H
#define PAWL_WEBHOOK_UNSERVED_H

#include "base/log.h"
#include "base/thread.h"
#include "webhook/endpoints/census.h"
#include "webhook/endpoints/roster.h"

#define UNSERVED_MOST 200
#define UNSERVED_LOOK_US (INT64_C(3600) * CLOCK_US_PER_S)

struct unserved {
    struct store *store;
    struct log *log; /* NULL: nobody reads it */
    struct mutex mutex;
    struct buf lines; /* of the page; under the mutex */
};

void unserved_init(struct unserved *unserved, struct store *store, struct log *log);
void unserved_fini(struct unserved *unserved);

/* What is so now. */
struct unserved_look {
    struct parker *parker;
    struct census *census;
    const struct roster *roster; /* whose stored endpoints every process has */
    int64_t since;               /* store time from which this process has looked */
    int64_t gone_us;             /* roster_gone */
};

/* Writes down what came to be unserved, is served again, or is to be removed. */
enum store_status unserved_tend(struct unserved *unserved, const struct unserved_look *look);

/* Shows what is so. */
void unserved_show(struct unserved *unserved, const struct unserved_look *look);
/* Appends the series. From any thread. */
void unserved_write(struct unserved *unserved, struct buf *page);

#endif
