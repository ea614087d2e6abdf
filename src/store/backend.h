/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backend: where rows are kept, for those that implement one. Included by backends and the
 * committer alone.
 *
 * A backend loads and saves; it never decides (core/record.h does, called from
 * store/committer/apply.c, on what a struct rowset holds). Plain blocking code, one caller at a
 * time. The calls of one batch:
 *
 *      [maintain ->] load -> { outcome | list | query } -> save -> rest
 *                                                            '-> abandon
 *
 * and of one that assumes what a load would find (committer/assume.c): pairs.
 *
 * What one save writes is atomic and, once it returned OK, durable. `load` may leave the backend
 * holding its lock: exactly one of save and abandon follows, and a save that fails has abandoned.
 * Whether maintain has a connection and a transaction of its own or those of its batch is the
 * backend's affair.
 *
 * What backends may call of the committer is in committer/backend.c; sqlite/open.c and
 * postgres/open.c open those of this product; postgres/schema.c
 * has a schema.
 */
#ifndef PAWL_STORE_BACKEND_H
#define PAWL_STORE_BACKEND_H

#include "store/counts.h"
#include "store/op.h"
#include "store/settings.h"
#include "store/tables/terms.h"
#include "store/weakness.h"

enum backend_status {
    BACKEND_OK,
    BACKEND_BUSY,      /* somebody else holds it: the batch is to be tried again */
    BACKEND_FULL,      /* no space: the transaction is rolled back; try again later */
    BACKEND_NO_MEMORY, /* the transaction may go on */
    BACKEND_AWAY,      /* the store cannot be reached: its file was replaced, its server is down */
    BACKEND_UNSURE,    /* save: whether it was committed nobody knows; it is applied again */
    BACKEND_FATAL,     /* I/O error, corruption: stop (invariant 8) */
};

/* What a load reads beside rows. */
struct backend_read {
    int64_t now;      /* store time: it never goes back */
    int64_t boot;     /* the boot time that goes with it */
    int64_t token;    /* the first of a block of tokens that nobody else draws, drawn after the rows
                         were read */
    int64_t n_tokens; /* of the block: a batch that uses them up goes on in the next one */
    int64_t forgets;  /* backend_counts.forgets */
    struct terms terms;
};

/* How many records there are, and how many were forgotten since the store was made. */
struct backend_counts {
    int64_t pending; /* released ones included */
    int64_t complete;
    int64_t failed;
    int64_t unknown;
    int64_t released; /* of the pending ones */
    int64_t forgets;
};

/* The last process that had a role: `serve`, drainer. */
struct backend_holder {
    int64_t incarnation; /* 0: none yet */
    int64_t since;       /* store time at which it took the life lock of that role */
    bool alive;          /* somebody holds that lock */
};

#define BACKEND_ODD_MOST STORE_ODD_MOST
/* A beat that is further ahead of the clock is none: no pawl wrote it. A server's clock that was
 * set back is not that far behind. SQL uses it, too. */
#define BACKEND_BEAT_AHEAD_MOST_US 86400000000

/* See struct store_counts. */
struct backend_gauges {
    int64_t stale;
    int64_t unknown_oldest;
    int64_t expired;
    int64_t expired_oldest;
};

/* A key that was bound to the record of another one (core/once.h). */
struct backend_bound {
    int64_t id; /* a token of its own */
    int64_t holder;
    int64_t expires_at; /* CLOCK_NEVER: with its holder */
    struct digest key_hash;
    struct slice key;
    struct slice recipe;
    struct digest payload_hash;
    struct digest target_hash;
    bool acknowledges;
};

/* A name of a record, and what load finds under it: rows and texts lie in the batch's arena. */
struct backend_name {
    struct digest hash;
    bool is_once; /* store_once_hash; else the hash of a key */
    int64_t hint; /* a row that may be the one meant; 0: none */

    struct store_row *row;       /* NULL: it leads nowhere */
    struct backend_bound *bound; /* the key is bound to that row; NULL: it is the row's own */
    struct store_row *hinted;    /* the row of `hint`, if its key is this one */
};

/* One row as it is to be, or one of the others. */
struct backend_change {
    struct backend_change *next; /* of its group */
    const struct store_row *row; /* RECORD_ABSENT: it goes, with all names that lead to it */
    enum record_status before;   /* as it was loaded; RECORD_ABSENT: it is new */
    bool was_released;           /* likewise */
    bool was_provisional;        /* likewise */
    bool was_odd;                /* likewise: in whatever table it was, and however counted */
    int64_t held_by;             /* likewise: the owner of its lease; 0: it had none */
    bool forgotten;              /* it is deleted because an operator said so */
    struct digest once_name;     /* by which row->once leads to it from now on; 0: none is new */
    struct slice once_before;    /* the value in place of which that one is; may be empty */
    struct outcome *outcome;     /* what is kept of a record that becomes final, or is filled in;
                                    NULL: nothing new */

    const struct backend_bound *bound; /* a key is bound */
    struct table_change *brought;      /* a row of a table: what does not fit is marked */
    const struct backend_name *seen;   /* nothing changes, but it must lead to where it led */
};

enum group_result {
    GROUP_OK,
    GROUP_CONFLICT, /* a row is not what load said, the id of a new one is taken: decide again */
    GROUP_LOCKED,   /* somebody's transaction holds a row: in progress */
    GROUP_HELD,     /* somebody's transaction holds the terms of a group that begins */
    GROUP_REFUSED,  /* it fits, and cannot be written as things are: what asks fails, and what
                       has happened is tried again */
};

/* Changes that are saved together or not at all. */
struct backend_group {
    struct backend_group *next;
    struct backend_change *changes; /* those brought come first, then rows that go */
    bool begins;                    /* only under the terms that it was decided under */
    enum group_result result;       /* GROUP_OK before a save; of one that committed */

    /* the rowset's own */
    struct backend_change *last;
    struct backend_group *joined; /* NULL, or the group that this one became part of: empty */
};

/* What is due beside operations. */
struct backend_chores {
    bool beat;         /* this process lives: where it holds leases, its row says so */
    size_t sweep_most; /* steps; 0: none: drops bodies past expires_at, rows past gone_at, released
                          rows past expires_at, rows of tables past TABLE_GONE */
    bool gauge;

    /* results, once the batch is saved */
    bool beaten;  /* it holds leases, and its row says so */
    bool missed;  /* it may hold leases, and its row does not say so yet: it is to beat soon */
    size_t swept; /* steps that were taken */
    struct backend_gauges gauges;
};

/* What a backend noticed: that the store lacks what this process saw committed. */
struct backend_back {
    uint64_t times;     /* since it was opened: raised by the load or save that found it, which
                           failed as BACKEND_BUSY or BACKEND_UNSURE */
    uint64_t incidents; /* of them: no other session of this process had noticed it */
    bool untold;        /* the store does not say so yet: until its caller has said so, by terms */
    /* Of what is untold, or was told last: */
    int64_t since;   /* what was acknowledged from then on may be missing; 0: all */
    int64_t above;   /* the highest token that this process drew by then */
    int64_t seen_at; /* store time up to which it saw commits */
    uint64_t blanks; /* times that this process may know less than it thinks it knows: those, and
                        others of which nothing can be said */
};

/* What a batch comes to. */
struct backend_save {
    struct backend_group *groups;
    int64_t drawn;      /* tokens of the block */
    bool registers;     /* this process has its role from now on */
    struct terms terms; /* those that the load of its batch read */
    const struct terms_change
        *sets; /* and what they are from now on, with its one group; NULL: the same */

    struct backend_counts counts; /* afterwards */
    int64_t version;              /* afterwards: of the rows that it wrote; 0: it has no pairs */
    int64_t at;                   /* afterwards, of pairs: when what it claimed has begun */
    bool changed;                 /* afterwards: anything was written, by its maintain or by it */
};

/* An acquisition whose end is waited for. */
struct backend_watch {
    struct digest key;
    int64_t row;
    int64_t token;
    bool ended; /* it does not hold the row any more, or its lease has lapsed */
};

struct arena;
struct backend;

struct backend_ops {
    /* Reads the time, draws tokens, finds what the names lead to; of a leased row its `lapsed_at`,
     * too. BACKEND_AWAY also where the store is another `serve`'s by now. Each row
     * and bound key is a copy in the arena, which decisions change; texts are there, too, or stay
     * as they are until save or abandon. One row may be given several times, for several names.
     * Anything but OK has abandoned already. */
    enum backend_status (*load)(struct backend *backend, struct backend_name *names, size_t n,
                                struct arena *arena, struct backend_read *ret_read);
    /* What is due beside operations; the load of its batch follows, and finds what this left. A
     * backend that holds its lock from load to save takes it here, and undoes with the batch what
     * was done. A backend that does not, leaves out what it cannot do now. Anything but OK has
     * abandoned. */
    enum backend_status (*maintain)(struct backend *backend, struct backend_chores *chores);
    /* Compares each group with what is there by now (only where load took no lock), those that
     * begin also with the terms, writes those that fit and says so in their results, and commits.
     * Anything but OK has abandoned. */
    enum backend_status (*save)(struct backend *backend, struct backend_save *save);
    void (*abandon)(struct backend *backend);
    /* load and save in one, for begins that assume that nothing has their key, and finishes that
     * assume their row as its last version. Their tokens are 1 and more; `read`, which has what the
     * last load or pairs read, gets what this one reads, and as `token` what 1 stands for. What is
     * claimed begins at save->at, by the store's clock, whatever was assumed. A group that is more
     * than that, or whose assumption is not so, is a GROUP_CONFLICT; where nothing could be tried,
     * all are, and `read` stays. It holds no lock afterwards. NULL: the backend has no such thing.
     */
    enum backend_status (*pairs)(struct backend *backend, struct backend_save *save,
                                 struct backend_read *read);
    /* After the owners of a committed batch were woken: what may wait. NULL: nothing does. */
    enum backend_status (*rest)(struct backend *backend);

    /* The kept outcome of a final row, its body as it is kept: a new reference, and its
     * outcome_size; one above `most` is not loaded, NULL. None is kept: NULL, and 0; or an empty
     * one. BACKEND_BUSY: the row is another one by now. */
    enum backend_status (*outcome)(struct backend *backend, const struct store_row *row,
                                   uint64_t most, struct outcome **ret_outcome, uint64_t *ret_size);

    /* Calls `each` for rows that match, oldest first. Looks at no clock but `now`. `*ret_seen`: up
     * to which id it looked; 0: to the end. */
    enum backend_status (*list)(struct backend *backend, const struct store_list *list,
                                const struct record_world *world, int64_t *ret_seen);

    /* The same with rows of a table. Of those that are due (table_query_due), `*ret_next`: when the
     * first one is due that was left out, for its time or for the limit; CLOCK_NEVER: none. */
    enum backend_status (*query)(struct backend *backend, const struct table_query *query,
                                 int64_t now, int64_t *ret_next);

    /* Outside a batch: which of these acquisitions have ended, by whomever, in one question for all
     * of them. It may leave out what this backend committed. */
    enum backend_status (*look)(struct backend *backend, struct backend_watch *watches, size_t n);
    /* Outside a batch: how many other processes that serve or drain are seen to have it open. NULL:
     * nobody knows. */
    size_t (*others)(struct backend *backend);
    /* One more session on the same store, for another thread: its `number` is 2 or more. It
     * connects once it is used. NULL: no memory. Without this call the store has one session. */
    struct backend *(*another)(const struct backend *backend, size_t number);
    void (*close)(struct backend *backend);
};

/* A process that holds leases: what it last said of itself. */
struct backend_owner {
    int64_t incarnation;
    enum store_role role; /* of a `serve` and a drainer: a life lock, by which its death is known */
    int64_t beat_at;      /* store time; 0: it did not beat yet */
};

/* What is odd about its clock: see struct store_counts. */
struct backend_clock {
    bool refused;
    int64_t jump_us;
    uint64_t jumps;
};

/* Of its file system, in bytes, as load last saw it. */
struct backend_space {
    uint64_t free; /* UINT64_MAX: not known */
    uint64_t size; /* 0: not known */
};

/* Row ids of records that no pawl wrote. */
#define BACKEND_ODD_RECORDS 256
struct backend_odd {
    int64_t ids[BACKEND_ODD_RECORDS];
    size_t n;
};

#define BACKEND_PROBLEM_SIZE 512

struct backend {
    const struct backend_ops *ops;
    const char *place;    /* for messages: which store it is */
    bool is_alone;        /* it holds the lock of its process's role */
    bool has_clock;       /* store time is its own, and not made of this machine's clocks */
    bool has_round_trips; /* a batch costs some, however small it is: it is worth while to wait */
    bool lacks_terms;     /* they are all 0, and cannot be set */
    bool lacks_pairs;     /* this process may not use them */
    unsigned char secret[DIGEST_SIZE];
    struct backend_back back;
    struct weakness weakness;           /* as it was seen last: at the start, or by a maintain with
                                           `gauge` */
    char problem[BACKEND_PROBLEM_SIZE]; /* what the last failure was, one line */
    uint64_t checkpoints;               /* since it was opened */
    size_t outcome_max;                 /* bytes of one outcome: a larger one is not kept */
    struct backend_owner self;          /* this process; beat_at: the backend's */
    struct backend_clock clock;
    struct backend_space space;
    struct backend_odd odd_records; /* that were read, and looked at again by a maintain with
                                       `gauge` */
    struct buf odd_rows;  /* lines of a table and an id, as the last maintain with `gauge` found
                             them, BACKEND_ODD_MOST of each table: see store_odd_rows */
    struct buf decisions; /* of SQL functions, as the last maintain with `gauge` read them: see
                             store_decisions */
};

/* What caches compare, where so many records were forgotten. */
static inline int64_t backend_memory(const struct backend *backend, int64_t forgets)
{
    return forgets + ((int64_t)(backend->back.blanks & 0x3fffff) << 40);
}

/* For backends: how long the lease of a record lasts (lease_until), and whether it has lapsed
 * (lapsed_at). It ends a lease after its owner's last beat or, of one that had a role whose last
 * holder is known, when it died. */
void backend_judge_lease(struct record *record, const struct backend_owner *owner,
                         const struct backend_holder *holder, int64_t now);

/* For backends: when the row of a final record, or before it its kept body, is to be swept. */
int64_t backend_sweep_at(const struct record *record, bool has_body);

/* For backends: a change that has no row to change fits nevertheless: it may have been saved
 * already. */
bool backend_may_miss(const struct table_change *change);

/* For backends: a change that was saved; a record that was swept. */
void backend_count(struct backend_counts *counts, const struct backend_change *change);
void backend_count_swept(struct backend_counts *counts, enum record_status status);

/* For backends: whether a pawl may have written a row, as it was read. */
bool backend_row_is_sound(const struct store_row *row);
/* For backends: no pawl wrote the row of this bound key. It is for ever, and of another request. */
void backend_hold_bound(struct backend_bound *bound);
/* For backends: no pawl wrote this row. It is held (record_hold), and noted. */
void backend_hold_row(struct backend *backend, struct store_row *row);
/* Appends those that are noted, as odd_rows has its own. */
void backend_write_odd(const struct backend *backend, struct buf *lines);

/* For backends at their opening: whether the config takes it with its weakness; else says so in
 * its problem. Commands that only look lose nothing. */
bool backend_check_weakness(struct backend *backend, const struct store_config *config);

/* Opens the SQLite backend. NULL: config problem in `*ret_problem` (mem_free). */
struct backend *sqlite_backend_open(const struct store_config *config,
                                    enum store_open_result *ret_result, char **ret_problem);

/* The same with the PostgreSQL backend, by its URL. */
struct backend *postgres_backend_open(const struct store_config *config,
                                      enum store_open_result *ret_result, char **ret_problem);
/* Appends the SQL that installs its schema, with these tables. */
void postgres_schema_write(const struct table *const *tables, size_t n, struct buf *sql);

#endif
