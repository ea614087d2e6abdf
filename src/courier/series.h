/* SPDX-License-Identifier: Apache-2.0 */
/*
 * series: what metrics show of a courier (contract section 10). Its loop's thread fills them in,
 * and the thread that serves the page reads them, under a mutex of their own, so that a scrape
 * looks at no lane.
 *
 * pawl_task_wait_seconds  how long each attempt waited from when it was due to its first byte: for
 *                         room in its lane, for a pause or an open breaker to end, for a
 *                         connection. An attempt of which no byte left has no wait.
 * pawl_breaker_open       by `lane`: how many breakers under that label are not closed. A lane with
 *                         a label of its own has 0 or 1, for as long as it is remembered; the kind
 *                         says which (courier_kind.label), and all beyond SERIES_LABELS_MAX share
 *                         SERIES_OTHER. Lanes of two kinds that have one label are added up.
 */
#ifndef PAWL_COURIER_SERIES_H
#define PAWL_COURIER_SERIES_H

#include "base/arena.h"
#include "base/thread.h"
#include "courier/lanes.h"
#include "observe/page.h"

#define SERIES_LABELS_MAX 256
#define SERIES_OTHER SLICE("(other)")

/* Upper bounds of the buckets of waits: seconds. From what a loop takes to what an outage takes. */
#define SERIES_WAITS(X)                                                                            \
    X(0.005) X(0.025) X(0.1) X(0.5) X(1) X(5) X(30) X(120) X(600) X(3600) X(21600) X(86400)

enum {
#define X(seconds) +1
    SERIES_WAIT_COUNT = SERIES_WAITS(X)
#undef X
};

struct series {
    struct mutex mutex;                    /* of all that follows */
    uint64_t waits[SERIES_WAIT_COUNT + 1]; /* the last one takes the rest */
    uint64_t waited_us;
    struct series_label {
        struct slice name;
        uint64_t open;
    } labels[SERIES_LABELS_MAX + 1];
    size_t n_labels;
    struct arena arena; /* of their names */
};

void series_init(struct series *series);
void series_fini(struct series *series);

/* An attempt's first byte left so long after it was due; below 0 counts as 0. */
void series_add_wait(struct series *series, int64_t wait_us);

/* What a lane is called; valid until the next call. Waits for nothing. */
struct series_labels {
    struct slice (*find)(const void *argument, struct slice kind, struct slice lane);
    const void *argument;
};

/* From now on these are shown, as they are at boot time `now`. */
void series_show_lanes(struct series *series, const struct lanes *lanes,
                       const struct series_labels *labels, int64_t now);

/* Appends all of them. From any thread. */
void series_write(struct series *series, struct buf *page);

#endif
