/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store: the records, for the code that uses them. To implement one, read store/backend.h.
 *
 * All work is an operation (struct store_op): the caller's memory, filled in, submitted, and left
 * alone until it has ended. One thread, the committer, takes what is queued, applies it in one
 * transaction, commits once, and then wakes the owners: nothing a batch decided is reported before
 * its commit returned (contract section 2, invariant 3). With several sessions there are as many
 * committers (committer/sessions.h).
 *
 *      store_submit            taken by the committer         its commit returned
 *   ------------------> queued ----------------------> taken -----------------------> ended
 *        | refused        |  ^                           |  a begin on a live lease        ^
 *        v                |  '---- record changed, ------'---> waiting (with wait_until) --|
 *      (ended)            '--- store_withdraw ---> ended  <--- store_withdraw ---'   own time over
 *
 * Limits: `max_queued` begins (finish, release, doubt are never refused: a begin that was admitted
 * reserved their place), `max_waiting` waiting begins, `max_waiting_per_key` for one key.
 * Deadlines are boot time; what records hold is store time (both microseconds).
 *
 * Beside store.c: committer/submit.c (the calls that any thread makes), committer/watch.c (counts),
 * committer/back.c (a store that went back).
 */
#ifndef PAWL_STORE_STORE_H
#define PAWL_STORE_STORE_H

#include "store/counts.h"
#include "store/op.h"
#include "store/settings.h"
#include "store/tables/audit.h"
#include "store/weakness.h"

struct backend;
struct store;

/* Defaults for everything but path and role; a weaker store is accepted where
 * $PAWL_ACCEPT_WEAKER is `true`. */
struct store_config store_config_default(void);

/* Opens (creates, migrates forward) a store and starts its committer. On failure `*ret_problem`
 * (mem_free) is one line: what was wrong with which file, and what to do. */
enum store_open_result store_open(const struct store_config *config, struct store **ret_store,
                                  char **ret_problem);

/* A store over an open backend, which it takes over whatever the result; see store_open. */
enum store_open_result store_open_over(const struct store_config *config, struct backend *backend,
                                       struct store **ret_store, char **ret_problem);

/* Ends the committer after everything queued; a begin that still waits ends as RECORD_IN_PROGRESS.
 * Accepts NULL. No operation may be submitted any more. */
void store_close(struct store *store);

/* Takes the memory that other limits need; it is never given back. False: there is none. */
bool store_make_room(struct store *store, const struct store_limits *limits);

/* New limits from now on, for which room was made, from any thread; begins that wait already go on
 * waiting. */
void store_configure(struct store *store, const struct store_limits *limits);

/* Hands it over. Always ends: perhaps at once, with a refusal as status. From any thread; never
 * blocks. */
void store_submit(struct store *store, struct store_op *op);

/* Takes a queued or waiting operation back, with `only_waiting` none that is queued: it has ended
 * as STORE_WITHDRAWN, and was not applied. False: it stays, is being applied or has ended. */
bool store_withdraw(struct store *store, struct store_op *op, bool only_waiting);

/* Parks until what was submitted with this parker has ended. Once the deadline is over it is
 * withdrawn, as soon as that is possible: what is being applied may end, or be put back. With a
 * parker that is interrupted only once it waits: what is about to be decided is decided for a
 * client that has left, too (contract section 2, invariant 4). */
void store_await(struct store *store, struct store_op *op, struct parker *parker,
                 int64_t deadline_us);

/* Submits it, awaits it, and says how it ended. */
enum store_status store_run(struct store *store, struct store_op *op, struct parker *parker,
                            int64_t deadline_us);

/* Store time now, without asking the store. */
int64_t store_now(const struct store *store);
/* The same at that moment of the boot clock, which was just read. */
int64_t store_now_at(const struct store *store, int64_t boot_us);

/* The secret that keys hashes of identities and credentials: 32 bytes, made with the store. */
struct slice store_secret(const struct store *store);
const struct digest_key *store_digest_key(const struct store *store);

/* Which record: the keyed hash of (tenant, rule, key). */
struct digest store_key_hash(const struct store *store, struct slice tenant, struct slice rule,
                             struct slice key);

/* For caches: a number that moves when a record was forgotten, by whichever process, and the boot
 * time at which the store was last seen to hold it. */
int64_t store_forgets(const struct store *store, int64_t *ret_seen_at);

/* Whether a new operation would be taken now: the store answers within its timeout, has its reserve
 * of space, and is not gone. While it is only short of space, what it holds is still replayed. */
bool store_is_up(const struct store *store);

/* How many other processes were seen to have it open when it was opened, by `counts_others`. */
size_t store_others(const struct store *store);

/* Whether no other process has the role of this one: what one of that role left undone, no one is
 * doing. False where several may have it. */
bool store_is_alone(const struct store *store);

/* As the last batch found them. From any thread. */
struct terms store_terms(struct store *store);

/* STORE_DONE, or why nothing is begun, claimed or added in it: an operator froze it (STORE_FROZEN),
 * or it lacks what it had acknowledged, nobody said yet what then, and this process does not accept
 * that (STORE_WENT_BACK). From any thread. */
enum store_status store_closed(struct store *store);
/* Appends the command that says so, with what this process knows of it. */
void store_restored_command(struct store *store, struct buf *buf);

/* What it may lose of what it acknowledged, as it was seen up to five seconds ago. */
struct weakness store_weakness(struct store *store);

/* Whether it has failed for good (STORE_DEAD): the process is to end with EXIT_FAIL_STOP. */
bool store_is_dead(const struct store *store);

/* Why it is not, or was not last: one line, for people, appended to `buf`. */
void store_problem(struct store *store, struct buf *buf);

/* Whether a path is the URL of a database, which may hold a password: store_place does not. */
bool store_is_url(const char *path);
/* Which store it is, for people. */
const char *store_place(const struct store *store);

/* Appends the SQL that turns a PostgreSQL database into a store. */
void store_schema(struct buf *sql);

/* What it holds, and what was done with it. From any thread. */
struct store_counts store_counts(struct store *store);

/* Appends how often each decision of the SQL functions was returned, up to five seconds ago: lines
 * of labels, as Prometheus writes them, and a count behind a space. From any thread. */
void store_decisions(struct store *store, struct buf *lines);

/* Appends which rows no pawl wrote, as they were up to five seconds ago: lines of a table and an
 * id, STORE_ODD_MOST of each table; those of store_hold_rows; and, as STORE_RECORDS, some of those
 * records that this process has met. From any thread. */
void store_odd_rows(struct store *store, struct buf *lines);

/* The same lines, of rows that a module cannot read: in place of those that it gave before. */
void store_hold_rows(struct store *store, struct slice lines);

/* The tables of all modules, NULL behind the last. */
const struct table *const *store_tables(void);

/* With no_thread: does one batch, wakes its owners; false when there was nothing to do. */
bool store_step(struct store *store);

#endif
