/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backend: a place where records stand, for those who implement one. Included by backends, the
 * committer and apply.c alone.
 *
 * A backend stores and finds; it never decides (core/record.h does, called from store/apply.c).
 * Plain blocking code, one caller at a time. The calls of one batch, in order:
 *
 *      begin  { find | insert | update | finish | remove | outcome | heartbeat | sweep | list
 *             | add_audit | list_audits | gauge }*
 *      (commit rest) | rollback
 *
 * Every change between begin and commit is atomic and, once commit returned OK, durable.
 */
#ifndef PAWL_STORE_BACKEND_H
#define PAWL_STORE_BACKEND_H

#include "store/store.h"

enum backend_status {
    BACKEND_OK,
    BACKEND_BUSY,      /* somebody else holds it: the batch is to be tried again */
    BACKEND_FULL,      /* no space: the transaction is rolled back; try again later */
    BACKEND_NO_MEMORY, /* the transaction may go on */
    BACKEND_GONE,      /* the file was removed or replaced */
    BACKEND_FATAL,     /* I/O error, corruption: stop (invariant 8) */
};

/* What every batch reads first and writes last. */
struct backend_state {
    int64_t token;     /* last one given out */
    int64_t time;      /* high-water mark of store time */
    int64_t time_boot; /* boot time when it was marked, in the boot `boot_id` */
    int64_t boot_id;   /* clock_boot_id */
    int64_t next_row;  /* row ids never repeat */
    int64_t forgets;
    int64_t serve;       /* incarnation of the last `serve`; 0: none yet */
    int64_t serve_since; /* store time at which it took the life lock */
    int64_t pending;     /* released ones included */
    int64_t complete;
    int64_t failed;
    int64_t unknown;
    int64_t released; /* of the pending ones */
};

/* See struct store_counts. */
struct backend_gauges {
    int64_t stale;
    int64_t unknown_oldest;
    int64_t expired;
    int64_t expired_oldest;
};

/* A key that was bound to the record of another one (core/once.h). */
struct backend_bound {
    int64_t id; /* of the same numbers as rows */
    int64_t holder;
    int64_t expires_at; /* CLOCK_NEVER: with its holder */
    struct digest key_hash;
    struct slice key;
    struct slice recipe;
    struct digest payload_hash;
    struct digest target_hash;
    bool acknowledges;
};

struct backend;

struct backend_ops {
    /* Starts a transaction that may write, and reads the state. */
    enum backend_status (*begin)(struct backend *backend, struct backend_state *ret_state);
    /* Writes the state when `changed` says so, and commits; on anything but OK it is rolled back.
     */
    enum backend_status (*commit)(struct backend *backend, const struct backend_state *state,
                                  bool changed);
    void (*rollback)(struct backend *backend);
    /* After the owners of a committed batch were woken: what may wait (checkpoint, locks). */
    enum backend_status (*rest)(struct backend *backend);

    /* Finds the row of a key, or the one that it is bound to; `hint` is a row id or 0.
     * `ret_row->record.status` is RECORD_ABSENT when there is none. Slices are valid until the next
     * call that finds or reads. */
    enum backend_status (*find)(struct backend *backend, const struct digest *key, int64_t hint,
                                struct store_row *ret_row);
    /* A new row, pending; its key, and its once value, lead to it from now on. Copies all texts.
     */
    enum backend_status (*insert)(struct backend *backend, const struct store_row *row);
    /* A row that was pending or unknown and still is. */
    enum backend_status (*update)(struct backend *backend, const struct store_row *row);
    /* A row that was pending or unknown becomes final; `outcome` NULL: nothing is kept. A packed
     * body is kept packed, and no other one is. */
    enum backend_status (*finish)(struct backend *backend, const struct store_row *row,
                                  const struct outcome *outcome);
    /* With all its names that still lead to it. */
    enum backend_status (*remove)(struct backend *backend, const struct store_row *row);

    /* Finds the row that a once value leads to; as find. */
    enum backend_status (*find_once)(struct backend *backend, const struct digest *once,
                                     struct store_row *ret_row);
    /* A pending row gets its once value, in place of the one that it may have had: it leads to the
     * row from now on, under the row's own rule name. Its times and template are for update. */
    enum backend_status (*hold)(struct backend *backend, struct store_row *row,
                                const struct store_once *once);
    /* A key leads to the record of another one from now on. Copies all texts. */
    enum backend_status (*bind)(struct backend *backend, const struct backend_bound *bound);
    /* A final row whose keys live longer (record_lengthen). */
    enum backend_status (*lengthen)(struct backend *backend, const struct store_row *row);
    /* The kept answer of a final row, its body as it is kept: a new reference, and its
     * outcome_size; one above `most` is not loaded, NULL. */
    enum backend_status (*outcome)(struct backend *backend, const struct store_row *row,
                                   uint64_t most, struct outcome **ret_outcome, uint64_t *ret_size);

    /* Renews every lease of `owner` in one statement: lease_until = max(lease_until, now + its
     * lease). `*ret_renewed`: how many there are. */
    enum backend_status (*heartbeat)(struct backend *backend, int64_t owner, int64_t now,
                                     size_t *ret_renewed);
    /* Takes at most `max` steps: drops bodies past expires_at, rows past gone_at, released rows
     * past expires_at, acts older than STORE_AUDIT_KEEP_US; keeps the counts of `state`.
     * `*ret_steps`: how many. */
    enum backend_status (*sweep)(struct backend *backend, int64_t now, size_t max,
                                 struct backend_state *state, size_t *ret_steps);
    /* Calls `each` for rows that match, oldest first. Looks at no clock but `now`. */
    enum backend_status (*list)(struct backend *backend, const struct store_list *list,
                                const struct record_world *world);

    /* Keeps one act of an operator, under the id it comes with. Copies all texts. */
    enum backend_status (*add_audit)(struct backend *backend, const struct store_audit *audit);
    enum backend_status (*list_audits)(struct backend *backend,
                                       const struct store_audit_list *list);

    /* Looks at no more rows than store.h says (in memory: at all). */
    enum backend_status (*gauge)(struct backend *backend, const struct record_world *world,
                                 struct backend_gauges *ret_gauges);

    /* Outside a batch: `*ret_changed` when another process committed since the last look. */
    enum backend_status (*look)(struct backend *backend, bool *ret_changed);
    /* Whether a `serve` holds the life lock (this process or another). */
    bool (*serve_alive)(struct backend *backend);
    /* Free bytes where it stands, and the size of that place. False: not known. */
    bool (*space)(struct backend *backend, uint64_t *ret_free, uint64_t *ret_size);
    void (*close)(struct backend *backend);
};

struct backend {
    const struct backend_ops *ops;
    const char *place; /* for messages: which store it is */
    unsigned char secret[DIGEST_SIZE];
    char problem[256];    /* what the last failure was, one line */
    uint64_t checkpoints; /* since it was opened */
    size_t outcome_max;   /* bytes of one outcome: a larger one is not kept */
};

/* What a batch is applied with. */
struct apply {
    struct backend *backend;
    struct backend_state state;
    struct record_world world;
    int64_t boot;   /* boot time, read before world.now */
    bool may_write; /* false: begins that would write are refused (disk reserve, outcomes wait) */
    bool changed;   /* the state or a row changed */
    struct outcome *shared; /* the kept answer read last: a thousand duplicates share one */
    int64_t shared_row;
};

/* Drops what the batch shared. */
void apply_fini(struct apply *apply);

/* Gives back what was found for an operation of a batch that was not committed. */
void apply_forget(struct store_op *op);

/* The kept body of a row is not what was kept: says so, BACKEND_FATAL. */
enum backend_status backend_condemn(struct backend *backend, int64_t row);

/* Applies one operation to the open batch: core decides, the backend stores. Fills in the results
 * of `op`. `*ret_touched`: its record changed, so that who waits for its key decides again. */
enum backend_status apply_op(struct apply *apply, struct store_op *op, bool *ret_touched);

/* Opens the SQLite backend. NULL: config problem in `*ret_problem` (mem_free). */
struct backend *sqlite_backend_open(const struct store_config *config,
                                    enum store_open_result *ret_result, char **ret_problem);

/* A store over an open backend, which it takes over whatever the result; see store_open. */
enum store_open_result store_open_over(const struct store_config *config, struct backend *backend,
                                       struct store **ret_store, char **ret_problem);

/* The memory backend; NULL: no memory. */
struct backend *memory_backend_open(void);

#endif
