/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PostgreSQL backend, for its own files: connection.c (libpq), params.c (bytes on the wire),
 * session.c, open.c, schema.c, settings.c, load.c, save.c, mark.c, chores.c, scan.c (lists, who
 * waits), tables.c and queries.c (rows of modules). docs/decisions/0023-postgresql.md has the
 * reasons.
 *
 * A batch is two round trips, each one pipeline of statements with one Sync behind it, so that no
 * transaction ever waits for this process:
 *
 *      load    limits, pawl.load(names), pawl.draw()         takes no lock
 *      save    BEGIN, limits, pawl.save(groups), COMMIT      waits for none but that of terms.h
 *
 * or, of plain begins and finishes, one (pairs.c), which its Sync commits:
 *
 *      pairs   pawl.pairs(claims, ends)                      waits for none
 *
 * What statements do lies in functions of the schema (schema/), whose plans the server keeps. They
 * are unnamed where a session may be lent for a transaction at a time (session.c). Whoever
 * writes compares: rows by their versions, names by where they led. A version is the first token
 * of the block that its load drew: no other save has it. Time is the server's.
 *
 * A connection that is lost behind a COMMIT that was sent leaves the save unsure; whatever the next
 * one writes then waits for its own COMMIT, and so for all before it.
 */
#ifndef PAWL_STORE_POSTGRES_H
#define PAWL_STORE_POSTGRES_H

#include "base/arena.h"
#include "store/backend.h"
#include "store/postgres/columns.h"
#include "store/postgres/params.h"

/* A field of PostgreSQL ends at 1 GiB, and a message, which has a batch of them, too. */
#define POSTGRES_OUTCOME_MAX ((size_t)256 * 1024 * 1024)
#define POSTGRES_MESSAGE_MAX ((size_t)1000 * 1024 * 1024)
#define POSTGRES_STATEMENTS_MAX 24 /* of one pipeline */
#define POSTGRES_TABLES_MAX 24
#define POSTGRES_TABLE_SQL_MAX 32768

/* Types of the schema, whose numbers differ from database to database: X(name). */
#define POSTGRES_TYPES(X)                                                                          \
    X(seen_name)                                                                                   \
    X(seen_row)                                                                                    \
    X(saved_row)                                                                                   \
    X(saved_outcome)                                                                               \
    X(saved_bound)                                                                                 \
    X(saved_unheld)                                                                                \
    X(saved_brought)                                                                               \
    X(saved_value)                                                                                 \
    X(saved_tally)                                                                                 \
    X(saved_hold)                                                                                  \
    X(saved_asking)                                                                                \
    X(claim)                                                                                       \
    X(ended)

enum postgres_type {
#define X(name) TYPE_##name,
    POSTGRES_TYPES(X)
#undef X
        TYPE_COUNT
};

struct postgres_failure {
    size_t at;      /* the statement; behind the last one: that is not known */
    bool refused;   /* for what a row is, and so it would be again */
    bool blocked;   /* it waited too long for a lock */
    bool unfit;     /* so are the transactions of this session */
    bool went_back; /* the store lacks what this process saw committed, */
    int64_t since;  /* and may from then on, */
    int64_t mark;   /* by this one's mark */
    bool forgot;    /* the session, what it was told: the same again does without */
};

/* The row of pawl.mark that this process alone writes: docs/model/marks.pml. */
struct postgres_mark {
    int64_t by;     /* 0: none */
    int64_t low;    /* its value in the last save that was seen committed; 0: none was */
    int64_t high;   /* in the last one that was sent, */
    int64_t unsure; /* and in the last one that ended unsure */
    int64_t loaded; /* if a save was unsure: its value, as the last load found it; else 0 */
};

/* What a session shows the others of its process: what it last saw committed. */
struct postgres_shown {
    int64_t by, low; /* 0: nothing */
    int64_t token;   /* the first one when the mark was made, */
    int64_t at;      /* store time then, */
    int64_t seen_at; /* when it was last seen committed, */
    int64_t written_at;
    int64_t highest; /* token that it drew */
    bool is_lost;    /* a session noticed that the store lacks it */
};

/* Shared by the sessions of a process; the last one frees it. */
struct postgres_marks {
    struct mutex mutex;
    size_t sessions;
    size_t telling; /* of them: they noticed something of which the store does not say it yet */
    struct postgres_shown shown[STORE_SESSIONS_MOST];
};

struct postgres_backend {
    struct backend backend; /* first: the two are cast into each other */
    char *url;
    char *place; /* the same without a password */
    const struct table *tables[POSTGRES_TABLES_MAX];
    size_t n_tables;
    size_t number;  /* of the sessions of its process */
    int timeout_ms; /* without an answer the connection counts as lost */

    PGconn *conn;           /* NULL: none */
    int64_t retry_at;       /* boot time: not before */
    int64_t backoff_us;     /* of the next failure */
    Oid types[TYPE_COUNT];  /* of this database */
    bool may_find_odd;      /* the schema has the indexes of odd rows, as this version has them */
    bool lacks_schema;      /* as it was found last: it may be installed */
    bool knows_secret;      /* which store it is, since it was first connected */
    struct digest identity; /* of the secret: each batch says which store it means */
    bool warned;            /* the server warned at the last statement of the last exchange */
    struct postgres_failure failure; /* of the last exchange */
    bool names_session;              /* its URL says target_session_attrs */
    bool follows;        /* so it leads to whichever of several servers accepts writes */
    bool hides_standbys; /* from this role */
    bool must_commit;    /* a save was unsure: the next one writes something */
    bool must_fence;     /* a pairs was unsure: the next load writes the mark before it */
    bool owns_session;   /* nobody else has it, and it was told our statements: session.c */
    bool cannot_pair;    /* the transactions of this session are not as pawl.pairs wants them */
    unsigned n_blocked;  /* tries of this save that waited too long for a lock */
    const struct backend_save *saving; /* the save under way */
    int64_t counts_as; /* 0; or in place of the incarnation in pawl.tally: of a further session, or
                          since a stranger held a row of that */
    struct postgres_mark mark;
    struct postgres_mark held_mark; /* whose place that one is to take, since a stranger holds it */
    struct postgres_marks *marks;
    bool tells;                                        /* it counts there */
    struct postgres_shown others[STORE_SESSIONS_MOST]; /* as the last save compared them, */
    struct postgres_shown lost[STORE_SESSIONS_MOST];   /* and those that the store lacked */
    int64_t mark_token; /* the first one when it was made; 0: nothing is drawn yet, */
    int64_t mark_at;    /* store time then, */
    int64_t marked_at;  /* when it was last seen committed, */
    int64_t written_at; /* and written, which its row is kept for some days from */
    int64_t highest;    /* token that was drawn, of all */
    int64_t lift;       /* 0; or those drawn behind the next save are above it */
    PGresult *results[POSTGRES_STATEMENTS_MAX]; /* of the last exchange */
    size_t n_results;                           /* statements of it that were sent */
    struct postgres_params params;

    PGresult *found;  /* what the last load found: rows borrow from it until the next one */
    int64_t now;      /* store time of the last load */
    int64_t version;  /* first token of its block */
    int64_t removals; /* what counted them when that was drawn */
    struct backend_counts counts;     /* after the last exchange that read them */
    const struct backend_name *names; /* of the load under way */
    size_t n_names;
    bool maintained; /* since the last save: something was written */
};

static inline struct postgres_backend *postgres_of(struct backend *backend)
{
    return (struct postgres_backend *)backend;
}

static inline struct slice postgres_identity(const struct postgres_backend *postgres)
{
    return slice_make((const char *)postgres->identity.bytes, DIGEST_SIZE);
}

/* Whose changes of the counts it writes. */
static inline int64_t postgres_counts_as(const struct postgres_backend *postgres)
{
    return postgres->counts_as != 0 ? postgres->counts_as : postgres->backend.self.incarnation;
}

/* Whoever takes leases says once a second that it lives. */
static inline bool postgres_is_beat_due(const struct postgres_backend *postgres)
{
    return postgres->now - postgres->backend.self.beat_at >= CLOCK_US_PER_S;
}

/* The advisory lock of a name. */
static inline int64_t postgres_lock_of(const struct digest *hash)
{
    uint64_t lock;
    memcpy(&lock, hash->bytes, sizeof lock);
    return (int64_t)__builtin_bswap64(lock);
}

/* ---- connection.c ---- */

/* Connects where it is not. AWAY: there is no server now, or no schema of ours. */
enum backend_status postgres_connect(struct postgres_backend *postgres);
void postgres_disconnect(struct postgres_backend *postgres);
/* An exchange: statements are queued, sent together, and all answered. `params` NULL: none. */
enum backend_status postgres_start(struct postgres_backend *postgres);
void postgres_queue(struct postgres_backend *postgres, const char *sql,
                    const struct postgres_params *params);
enum backend_status postgres_finish(struct postgres_backend *postgres);
/* The statement of that name, with the parameters of the backend; and what tells a session what it
 * is. Both for session.c. */
void postgres_queue_named(struct postgres_backend *postgres, const char *name);
void postgres_queue_parse(struct postgres_backend *postgres, const char *name, const char *sql);
/* The same for a transaction: between BEGIN and COMMIT. UNSURE: it may have happened. */
enum backend_status postgres_start_transaction(struct postgres_backend *postgres);
enum backend_status postgres_commit(struct postgres_backend *postgres);
/* The time that the store has in a test that moves it; 0: the server's. */
int64_t postgres_test_time(void);

/* A connection of its own, as it is; NULL: no memory. */
PGconn *postgres_open_conn(const struct postgres_backend *postgres);
/* One line of what went wrong; and what an operator can do about it, after that. */
void postgres_explain(struct postgres_backend *postgres, const char *what);
void postgres_advise(struct postgres_backend *postgres, const char *advice);
/* The server returns what none of our functions does: says so, and returns the status. */
enum backend_status postgres_distrust(struct postgres_backend *postgres,
                                      enum backend_status status);

/* ---- session.c ---- */

/* The limits of a statement, to be queued first: how long it waits for a lock, and whether its
 * commit is to be durable. */
enum postgres_limits { POSTGRES_READS, POSTGRES_CHORES, POSTGRES_SAVES };
void postgres_queue_limits(struct postgres_backend *postgres, enum postgres_limits limits);

/* What batches call, and the limits in front of it. */
#define POSTGRES_CALLS(X)                                                                          \
    X(reads, READ_LIMITS)                                                                          \
    X(saves, SAVE_LIMITS)                                                                          \
    X(load, "SELECT * FROM pawl.load($1, $2, $3, $4)")                                             \
    X(draw, "SELECT * FROM pawl.draw($1, $2)")                                                     \
    X(save, "SELECT * FROM pawl.save($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14," \
            " $15, $16, $17, $18, $19, $20, $21)")                                                 \
    X(pairs, "SELECT * FROM pawl.pairs($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)")

enum postgres_call {
#define X(name, sql) CALL_##name,
    POSTGRES_CALLS(X)
#undef X
};

/* Queues one, with the parameters of the backend. */
void postgres_queue_call(struct postgres_backend *postgres, enum postgres_call call);
/* Tells a new session what it is to remember, if it is ours alone. Not OK: it is lost. */
enum backend_status postgres_own_session(struct postgres_backend *postgres);
/* Whether that error says that it does not remember, or that what it remembers is no more so. */
bool postgres_is_forgotten(const struct postgres_backend *postgres, const char *state);

/* ---- schema.c ---- */

/* Whether the database has our schema, and its types and secret. */
enum backend_status postgres_schema_check(struct postgres_backend *postgres);
/* schema/, one file after the other. */
extern const char postgres_schema_sql[];

/* ---- settings.c ---- */

/* What may lose acknowledged commits, into backend.weakness: asked of a new connection, and as a
 * statement of another exchange. */
enum backend_status postgres_check_durability(struct postgres_backend *postgres);
void postgres_queue_durability(struct postgres_backend *postgres);
void postgres_read_durability(struct postgres_backend *postgres, const PGresult *result);

/* ---- load.c ---- */

/* Reads a row whose columns begin at `at` (id, version, those of columns.h); its texts lie in the
 * result. `beat_at`: of its owner. */
void postgres_read_row(struct postgres_backend *postgres, const PGresult *result, int row, int at,
                       struct store_row *ret_row);
void postgres_judge(const struct postgres_backend *postgres, struct record *record,
                    int64_t beat_at);
/* The six counts from that column on. */
struct backend_counts postgres_read_counts(const PGresult *result, int row, int at);

/* ---- pairs.c ---- */

/* In front of a load: what was unsure without one is there by now, or never will be. */
enum backend_status postgres_fence(struct postgres_backend *postgres);

/* ---- save.c, for pairs.c ---- */

/* packed, headers, body; NULL: what is kept is that there was a response. */
void postgres_write_content(struct postgres_params *params, const struct outcome *outcome);
/* NULL: none. */
void postgres_add_terms(struct postgres_params *params, const struct terms *terms);

/* Of the first row, from that column on. */
struct terms postgres_read_terms(const PGresult *result, int at);

/* ---- the operations ---- */

enum backend_status postgres_load(struct backend *backend, struct backend_name *names, size_t n,
                                  struct arena *arena, struct backend_read *ret_read);
enum backend_status postgres_save(struct backend *backend, struct backend_save *save);
enum backend_status postgres_pairs(struct backend *backend, struct backend_save *save,
                                   struct backend_read *read);
enum backend_status postgres_maintain(struct backend *backend, struct backend_chores *chores);
enum backend_status postgres_outcome(struct backend *backend, const struct store_row *row,
                                     uint64_t most, struct outcome **ret_outcome,
                                     uint64_t *ret_size);
enum backend_status postgres_list(struct backend *backend, const struct store_list *list,
                                  const struct record_world *world, int64_t *ret_seen);
enum backend_status postgres_query(struct backend *backend, const struct table_query *query,
                                   int64_t now, int64_t *ret_next);
enum backend_status postgres_look(struct backend *backend, struct backend_watch *watches, size_t n);

/* ---- mark.c ---- */

struct postgres_marks *postgres_marks_make(void); /* NULL: no memory */
/* Of another session of the process; and its end. */
struct postgres_marks *postgres_marks_share(struct postgres_marks *marks);
void postgres_marks_leave(struct postgres_marks *marks);
/* The mark of the save that is about to be sent, as pawl.keep_mark takes it: empty, if this process
 * keeps none and lifts nothing. */
void postgres_add_mark(struct postgres_backend *postgres, struct postgres_params *params);
/* What the end of that save, or of a load that saw the mark, says of it. */
void postgres_mark_saved(struct postgres_backend *postgres, enum backend_status status);
/* The same for a transaction that brings no group, and for a load that it follows: reads it. */
void postgres_queue_see_mark(struct postgres_backend *postgres);
void postgres_mark_seen(struct postgres_backend *postgres, const PGresult *result);
/* Its row is held: another one takes its place with the next save. Not if a save was unsure. */
void postgres_move_mark(struct postgres_backend *postgres);

/* ---- chores.c ---- */

size_t postgres_others(struct backend *backend);

/* Queues a beat, which waits for nobody; and whether it was written, or not needed without leases.
 */
void postgres_queue_beat(struct postgres_backend *postgres);
enum postgres_beat { BEAT_WRITTEN, BEAT_MISSED, BEAT_NEEDLESS };
enum postgres_beat postgres_read_beat(struct postgres_backend *postgres, const PGresult *result);

/* ---- tables.c ---- */

/* What is left of the name of a module's table in the schema `pawl`. */
const char *postgres_table_name(const struct table *table);
void postgres_tables_write(const struct table *const *tables, size_t n, struct buf *sql);
/* The condition that a column of it is set. */
void postgres_table_is_set(const struct table_column *column, struct buf *sql);
/* The statement that writes a change, and its values as columns of rows (place, value). */
void postgres_table_statement(const struct table_change *change, struct buf *sql);
void postgres_table_values(const struct table_change *change, int64_t place,
                           struct postgres_params *params);
/* Queues what looks for rows that no pawl wrote: lines of a table and an id. */
void postgres_tables_odd(struct postgres_backend *postgres);
/* Queues what sweeps the table. */
void postgres_table_sweep(struct postgres_backend *postgres, const struct table *table,
                          size_t most);

#endif
