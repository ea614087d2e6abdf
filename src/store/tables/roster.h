/* SPDX-License-Identifier: Apache-2.0 */
/*
 * roster: who delivers what from a store, as rows (store/table.h). Each process that delivers has a
 * row in pawl_process, which says until when it is taken to live, and a row in pawl_serves for each
 * endpoint and source that its config declares: no URL, no secret. pawl_roster has one row for each
 * name that was ever declared, with what was declared last; it outlives the processes.
 */
#ifndef PAWL_STORE_ROSTER_H
#define PAWL_STORE_ROSTER_H

#include "store/table.h"

/* What it takes to make tasks for an endpoint; of a source nothing of it. */
struct store_terms {
    struct slice types;   /* a list (store_list_next) of patterns */
    struct slice tenants; /* a list; empty: of any */
    bool ordered;
    bool skips;
    int64_t retry;    /* enum retry_profile */
    int64_t envelope; /* row ids (store/tables/events.h); 0: of a source */
    int64_t endpoint;
    int64_t keep_us;     /* how long the id of an event is known, at least */
    struct slice former; /* a list: names that it had before */
};

struct store_process {
    struct table_row row; /* first */
    bool is_in_force;     /* all that it serves is written */
    int64_t started_at;   /* for people */
    int64_t lives_until;
};

struct store_serves {
    struct table_row row; /* first */
    int64_t process;      /* its row id */
    struct slice kind;    /* as in pawl_task */
    struct slice name;    /* the lane */
    struct store_terms terms;
};

enum store_roster_state {
    STORE_ROSTER_DECLARED = 1, /* events are for it, whoever lives */
    STORE_ROSTER_RETIRED,      /* the last config that had it took it out */
    STORE_ROSTER_REMOVED,      /* what is due there is dead */
};

/* The row without kind and name is the roster's own: it is touched whenever who serves what, or
 * what is declared, has changed. */
struct store_roster {
    struct table_row row; /* first */
    struct slice kind;
    struct slice name;
    enum store_roster_state state;
    struct store_terms terms;
    int64_t unserved_since; /* 0: somebody serves it, or nobody has looked */
    int64_t gone_at;        /* to be swept; CLOCK_NEVER: it is not removed */
};

extern const struct table process_table, serves_table, roster_table;

/* Lists of texts: each behind its length and a colon, and a comma behind it. */
struct buf;
void store_list_add(struct buf *list, struct slice text);
/* The next of what is left. False: there is none. */
bool store_list_next(struct slice *list, struct slice *ret_text);

#endif
