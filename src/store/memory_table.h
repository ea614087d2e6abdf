/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory backend, for its own files: memory.c (table, undo log, transactions), memory_rows.c
 * (one record, many records), memory_names.c (once values, bound keys), memory_audit.c (acts of
 * operators).
 */
#ifndef PAWL_STORE_MEMORY_TABLE_H
#define PAWL_STORE_MEMORY_TABLE_H

#include "base/thread.h"
#include "store/memory.h"

struct row {
    struct row *next;        /* in its bucket */
    struct store_row store;  /* its slices point into storage; location into location */
    bool linked;             /* in its bucket */
    bool keyed;              /* its key leads to it, and to no later row */
    bool holds;              /* its once value does */
    struct digest once_hash; /* with a once value */
    char *once;              /* the text of a value that it got later */
    int64_t holder;          /* of a bound key, which is no record: the row it leads to; else 0 */
    bool acknowledges;       /* of a bound key */
    struct outcome *outcome; /* kept answer; NULL: none */
    char *location;
    char *origin;     /* store.origin points into it; NULL: into storage */
    int64_t sweep_at; /* final, bound key */
    char storage[];
};

enum undo_kind { UNDO_INSERT, UNDO_CHANGE, UNDO_REMOVE };

struct undo {
    enum undo_kind kind;
    struct row *row;
    struct record record; /* change: as it was, with what follows */
    bool keyed;
    bool holds;
    struct digest once_hash;
    struct slice once;
    int64_t once_template;
    bool replaced_once; /* change: by another text than */
    char *once_text;
    struct outcome *outcome;
    int64_t sweep_at;
    bool replaced_origin; /* change: by another text than */
    char *origin;
    struct slice origin_was;
};

struct audit_row {
    struct store_audit store; /* its slices point into storage */
    char storage[];
};

/* Acts, oldest first. A transaction appends at the end and sweeps at the front. */
struct audits {
    struct audit_row **at;
    size_t n;
    size_t max;
    size_t swept;  /* of them, from the front: gone once committed */
    size_t n_then; /* when the open transaction began */
};

struct table {
    struct mutex mutex;
    unsigned refs;
    struct backend_state state;
    unsigned char secret[DIGEST_SIZE];
    uint64_t commits; /* that changed anything, by whichever backend */
    struct row **buckets;
    size_t n_buckets;
    size_t n_rows;
    struct undo *undo; /* of the open transaction */
    size_t n_undo;
    size_t max_undo;
    struct audits audits;
};

struct memory_backend {
    struct backend backend; /* first: the two are cast into each other */
    struct table *table;
    struct memory_faults faults;
    uint64_t own_commits;
    uint64_t foreign_seen; /* commits of others, at the last look */
};

static inline struct memory_backend *memory_of(struct backend *backend)
{
    return (struct memory_backend *)backend;
}

static inline struct table *table_of(struct backend *backend)
{
    return memory_of(backend)->table;
}

/* The row that a key leads to, or NULL; the one that `store` is a copy of; puts a row into its
 * bucket; takes it out. */
struct row *memory_find_row(struct table *table, const struct digest *key);
struct row *memory_find_hinted(struct table *table, const struct digest *key, int64_t id);
struct row *memory_row_of(struct table *table, const struct store_row *store);
void memory_link(struct table *table, struct row *row);
void memory_unlink(struct table *table, struct row *row);

/* Doubles the buckets when there are more rows; without memory the chains just grow longer. */
void memory_grow(struct table *table);

/* Makes a row, not linked, with copies of all texts; NULL: no memory. */
struct row *memory_new_row(const struct store_row *from);

/* Notes that memory has run out. */
enum backend_status memory_no_memory(struct backend *backend);

/* Calls `visit` for each row; it may unlink rows. */
enum backend_status memory_each(struct table *table,
                                enum backend_status (*visit)(void *argument, struct row *row),
                                void *argument);

/* Before a change: what it takes to undo it. False: no memory, nothing may be changed. */
bool memory_log(struct table *table, enum undo_kind kind, struct row *row);

/* Names beside the key (core/once.h): memory_names.c. */
enum backend_status memory_find_once(struct backend *backend, const struct digest *once,
                                     struct store_row *ret_row);
enum backend_status memory_hold(struct backend *backend, struct store_row *from,
                                const struct store_once *once);
enum backend_status memory_bind(struct backend *backend, const struct backend_bound *bound);
enum backend_status memory_lengthen(struct backend *backend, const struct store_row *from);
/* What the row's names led to before is overtaken by it. False: no memory. */
bool memory_name_row(struct table *table, struct row *row);
/* Takes away the keys bound to it. False: no memory. */
bool memory_unbind(struct table *table, const struct row *row);
/* What a row shows of itself: of a bound key, the record that it leads to. */
struct store_row memory_show(struct table *table, const struct row *row);
/* Whether a bound key of this text leads to the row. */
bool memory_is_bound(struct table *table, const struct row *row, struct slice key);

/* The operations of one row and of many (backend.h). */
enum backend_status memory_find(struct backend *backend, const struct digest *key, int64_t hint,
                                struct store_row *ret_row);
enum backend_status memory_insert(struct backend *backend, const struct store_row *from);
enum backend_status memory_update(struct backend *backend, const struct store_row *from);
enum backend_status memory_finish(struct backend *backend, const struct store_row *from,
                                  const struct outcome *outcome);
enum backend_status memory_remove(struct backend *backend, const struct store_row *from);
enum backend_status memory_outcome(struct backend *backend, const struct store_row *from,
                                   uint64_t most, struct outcome **ret_outcome, uint64_t *ret_size);
enum backend_status memory_heartbeat(struct backend *backend, int64_t owner, int64_t now,
                                     size_t *ret_renewed);
enum backend_status memory_sweep(struct backend *backend, int64_t now, size_t max,
                                 struct backend_state *state, size_t *ret_steps);
enum backend_status memory_list(struct backend *backend, const struct store_list *list,
                                const struct record_world *world);
enum backend_status memory_gauge(struct backend *backend, const struct record_world *world,
                                 struct backend_gauges *ret_gauges);
enum backend_status memory_add_audit(struct backend *backend, const struct store_audit *audit);
enum backend_status memory_list_audits(struct backend *backend,
                                       const struct store_audit_list *list);

/* Sweeps at most `max` acts that are too old; how many. */
size_t memory_sweep_audits(struct table *table, int64_t now, size_t max);

/* At a transaction's begin, its rollback, its commit; and at the table's end. */
void memory_mark_audits(struct table *table);
void memory_undo_audits(struct table *table);
void memory_drop_audits(struct table *table);
void memory_free_audits(struct table *table);

#endif
