/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes hold leases: a row each, in which it says that it lives and how many they are.
 * What takes a lease or ends one counts it, so that nothing looks for leases among the records.
 */
#include "store/sqlite/sqlite.h"

#define FORMER_DRAINER 3 /* in place of a role: another one has started since, at its `beat_at` */

/* Of the owner that was found, if it is a drainer: there is no other one after it, or there is. */
static void note_drainer(struct sqlite_backend *sqlite, bool is_former)
{
    if (sqlite->owner.role != STORE_DRAINER)
        return;
    sqlite->drainer = (struct backend_holder){.since = sqlite->owner.beat_at, .alive = true};
    if (is_former)
        return;
    sqlite->drainer.incarnation = sqlite->owner.incarnation;
    sqlite->drainer.alive = store_lock_life_held(&sqlite->lock, STORE_DRAINER);
}

static void find_owner(struct sqlite_backend *sqlite, int64_t incarnation)
{
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_OWNER_FIND);
    sqlite_bind_number(&binding, incarnation);
    sqlite->owner = (struct backend_owner){.incarnation = incarnation};
    if (sqlite_step(&binding)) {
        int kind = sqlite3_column_int(binding.statement, 0);
        sqlite->owner.beat_at = sqlite3_column_int64(binding.statement, 1);
        sqlite->owner.role = kind == FORMER_DRAINER ? STORE_DRAINER : (enum store_role)kind;
        note_drainer(sqlite, kind == FORMER_DRAINER);
    }
    sqlite3_reset(binding.statement);
}

bool sqlite_judge_lease(struct sqlite_backend *sqlite, struct record *record)
{
    int64_t holder = record_holder(record);
    if (holder == 0)
        return sqlite_ok(sqlite);
    const struct backend_owner *self = &sqlite->backend.self;
    bool own = holder == self->incarnation;
    if (sqlite->is_guest) { /* the transaction is the lease: any other than this one has ended */
        record->lapsed_at = own ? 0 : sqlite->state.now;
        return sqlite_ok(sqlite);
    }
    if (!own && holder != sqlite->owner.incarnation)
        find_owner(sqlite, holder);
    const struct backend_owner *owner = own ? self : &sqlite->owner;
    const struct backend_holder this_one = {.incarnation = holder, .alive = true};
    const struct backend_holder *drainer = own ? &this_one : &sqlite->drainer;
    const struct backend_holder *last =
        owner->role == STORE_DRAINER ? drainer : &sqlite->state.serve;
    backend_judge_lease(record, owner, last, sqlite->state.now);
    return sqlite_ok(sqlite);
}

/* Subtracts `n` leases of the owner; with the last one its row is deleted. */
static void end_leases(struct sqlite_backend *sqlite, int64_t holder, int64_t n)
{
    static const enum sqlite_statement one_of[] = {SQL_OWNER_DROP, SQL_OWNER_FEWER};
    bool done = false;
    for (size_t i = 0; i < sizeof one_of / sizeof *one_of && !done; i++) {
        struct sqlite_binding binding = sqlite_bind(sqlite, one_of[i]);
        sqlite_bind_number(&binding, holder);
        sqlite_bind_number(&binding, n);
        done = sqlite_change(&binding);
    }
}

void sqlite_count_lease(struct sqlite_backend *sqlite, struct sqlite_leases *own,
                        const struct backend_change *change)
{
    const struct record *record = &change->row->record;
    int64_t self = sqlite->backend.self.incarnation, holder = record_holder(record);
    if (holder == change->held_by || sqlite->is_guest)
        return;
    own->taken += holder == self;
    own->ended += change->held_by == self;
    if (holder == self && own->longest_us < record->lease_us)
        own->longest_us = record->lease_us;
    if (change->held_by != 0 && change->held_by != self)
        end_leases(sqlite, change->held_by, 1);
}

/* A process that takes a lease is alive, too. What is remembered of that is shown to this process
 * alone, which never takes itself for dead: it may be of a transaction that is rolled back. */
void sqlite_save_leases(struct sqlite_backend *sqlite, const struct sqlite_leases *own)
{
    struct backend_owner *self = &sqlite->backend.self;
    if (own->taken > 0 && sqlite_ok(sqlite)) {
        struct sqlite_binding more = sqlite_bind(sqlite, SQL_OWNER_MORE);
        sqlite_bind_number(&more, self->incarnation);
        sqlite_bind_number(&more, self->role);
        sqlite_bind_number(&more, self->beat_at = sqlite->state.now);
        sqlite_bind_number(&more, own->longest_us);
        sqlite_bind_number(&more, own->taken);
        sqlite_run(&more);
    }
    if (own->ended > 0)
        end_leases(sqlite, self->incarnation, own->ended);
}

void sqlite_register_owner(struct sqlite_backend *sqlite)
{
    static const char sql[] =
        "DELETE FROM pawl_owner WHERE incarnation NOT IN"
        " (SELECT owner FROM pawl_pending WHERE lease_until > 0);"
        "INSERT INTO pawl_owner(incarnation, is_serve, beat_at, lease_us, leases)"
        " SELECT owner, 0, 0, max(lease_us), count(*) FROM pawl_pending WHERE lease_until > 0"
        " GROUP BY owner ON CONFLICT(incarnation) DO UPDATE SET leases=excluded.leases"
        " WHERE leases<>excluded.leases";
    if (sqlite->is_foreign)
        return; /* a lease there ended with the transaction that took it */
    sqlite_note(sqlite, sqlite3_exec(sqlite->db, sql, NULL, NULL, NULL));
    if (sqlite->lock.role != STORE_DRAINER)
        return;
    struct sqlite_binding former = sqlite_bind(sqlite, SQL_OWNER_LOSE);
    sqlite_bind_number(&former, sqlite->state.now);
    sqlite_run(&former);
}

bool sqlite_beat(struct sqlite_backend *sqlite)
{
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_OWNER_BEAT);
    sqlite_bind_number(&binding, sqlite->backend.self.incarnation);
    sqlite_bind_number(&binding, sqlite->state.now);
    sqlite->backend.self.beat_at = sqlite->state.now;
    return sqlite_change(&binding);
}
