/* SPDX-License-Identifier: Apache-2.0 */
/*
 * census: the store's roster (store/tables/roster.h) as it was read last: which endpoints and
 * sources there are, who serves them, and so who is told of an event, whichever process publishes
 * or fans out. An endpoint of a config wants what any living declaration of it wants or, if none
 * lives, what was declared last; its order and profile are the newest declaration's, and so is
 * whether it is told under a former name or its new one. Read again where the roster's own row has
 * moved, where a process that counted may have died, and every CENSUS_EVERY_US.
 */
#ifndef PAWL_WEBHOOK_CENSUS_H
#define PAWL_WEBHOOK_CENSUS_H

#include "base/arena.h"
#include "core/retry/retry.h"
#include "store/rows.h"
#include "store/tables/events.h"
#include "store/tables/roster.h"

#define CENSUS_REMOVED_US (INT64_C(30) * 86400 * CLOCK_US_PER_S) /* how long that is known */
#define CENSUS_EVERY_US (INT64_C(30) * CLOCK_US_PER_S)

/* A name of the roster. */
struct census_entry {
    struct store_roster row;         /* id 0: of a declaration alone */
    struct table_row *const *living; /* of struct store_serves, the newest last */
    size_t n_living;
    struct census_entry *told_as; /* NULL; or it is another name, former or new, of this one, under
                                     which events are told, */
    struct census_entry *others;  /* as which these are told, */
    struct census_entry *next;    /* one of them behind the other */
    bool is_due;                  /* something waits there, and this process does not serve it */
};

#define CENSUS_STRAYS_MOST 24

struct census {
    struct arena arena;
    struct census_stray {
        struct slice kind;
        struct slice name;
    } strays[CENSUS_STRAYS_MOST]; /* lanes with something due that nobody ever declared */
    size_t n_strays;
    struct census_entry *entries; /* ordered by kind and name */
    size_t n;
    struct store_roster head;
    int64_t now;   /* store time at which it was read; 0: it was not */
    int64_t until; /* store time from which it may be wrong */
};

struct census census_make(void);
void census_fini(struct census *census);
#define CENSUS_AUTO __attribute__((cleanup(census_fini)))

/* Reads it, where it may have changed; what was read before is valid no more. */
enum store_status census_refresh(struct census *census, struct store *store, struct parker *parker);
/* Whatever it was. */
enum store_status census_read(struct census *census, struct store *store, struct parker *parker);

/* NULL: nobody ever declared it. */
struct census_entry *census_find(const struct census *census, struct slice kind, struct slice name);

/* Under which of its names it is told, former or new: itself, or another one. */
const struct census_entry *census_heir(const struct census_entry *entry);
/* Whether tasks are made for it. */
bool census_is_told(const struct census_entry *entry);
/* By any of the names that this endpoint has, or had. */
bool census_wants(const struct census_entry *entry, const struct store_event *event,
                  bool of_any_type);
/* Of its newest declaration. */
const struct store_terms *census_terms(const struct census_entry *entry);
enum retry_profile census_profile(const struct store_terms *terms);

/* Of a lane that this process does not serve: whether what is due there is to be ended. Else it is
 * marked as due. */
bool census_gives_up(struct census *census, struct slice kind, struct slice lane);
/* Its state, as the store says now. STORE_DONE: `*ret_state`; 0: nobody ever declared it. */
enum store_status census_ask(struct store *store, struct parker *parker, struct slice kind,
                             struct slice name, enum store_roster_state *ret_state);

/* Puts what removes it: what configs declared of it counts no more, and what is due there ends.
 * `now`: store time. */
void census_put_removed(struct census_entry *entry, int64_t now, struct rows *rows);
/* Puts what every change of the roster brings along: a change of `census->head`, made where it is
 * not there. */
void census_put_moved(struct census *census, struct rows *rows);

#endif
