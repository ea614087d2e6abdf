/* SPDX-License-Identifier: Apache-2.0 */
/* Saving the groups of a batch: what pawl.save takes, and what it says. */
#include "base/check.h"
#include "base/crash.h"
#include "store/postgres/postgres.h"

/* Calls `write` for every change, with the number of its group. */
typedef void write_change(struct postgres_backend *postgres, const struct backend_change *change,
                          int64_t group);

static void add_changes(struct postgres_backend *postgres, const struct backend_group *groups,
                        enum postgres_type type, write_change *write)
{
    int64_t number = 0;
    postgres_array_begin(&postgres->params, postgres->types[type]);
    for (const struct backend_group *group = groups; group; group = group->next, number++)
        for (const struct backend_change *change = group->changes; change; change = change->next)
            write(postgres, change, number);
    postgres_array_end(&postgres->params);
}

static struct slice digest_bytes(const struct digest *digest)
{
    return slice_make((const char *)digest->bytes, DIGEST_SIZE);
}

static bool is_new(const struct backend_change *change)
{
    return change->row && change->before == RECORD_ABSENT;
}

static bool takes_once(const struct backend_change *change)
{
    return change->row && !digest_is_none(&change->once_name);
}

static bool record_stays(const struct backend_change *change)
{
    return change->row && change->row->record.status != RECORD_ABSENT;
}

/* ---- names ---- */

/* As it was loaded; NULL: nobody asked for it. */
static const struct backend_name *find_saved_name(const struct postgres_backend *postgres,
                                                  const struct digest *hash)
{
    for (size_t i = 0; i < postgres->n_names; i++)
        if (postgres->names[i].hash.bytes[0] == hash->bytes[0] &&
            digest_eq(&postgres->names[i].hash, hash))
            return &postgres->names[i];
    return NULL;
}

/* -1: it leads wherever it likes. */
static int64_t leads_to(const struct backend_name *name)
{
    if (!name)
        return -1;
    return name->bound ? name->bound->id : name->row ? name->row->id : 0;
}

struct use {
    const struct digest *hash;
    const struct backend_name *name;
    bool is_once;
    bool is_claimed;
};

/* The names that a change takes or looked at: at most two. */
static size_t uses_of(const struct postgres_backend *postgres, const struct backend_change *change,
                      struct use *ret_uses)
{
    size_t n = 0;
    if (change->seen)
        ret_uses[n++] =
            (struct use){&change->seen->hash, change->seen, change->seen->is_once, false};
    if (change->bound)
        ret_uses[n++] = (struct use){&change->bound->key_hash, NULL, false, true};
    if (is_new(change))
        ret_uses[n++] = (struct use){&change->row->key_hash, NULL, false, true};
    if (takes_once(change))
        ret_uses[n++] = (struct use){&change->once_name, NULL, true, true};
    for (size_t i = 0; i < n; i++)
        if (!ret_uses[i].name)
            ret_uses[i].name = find_saved_name(postgres, ret_uses[i].hash);
    return n;
}

static void write_saved_names(struct postgres_backend *postgres,
                              const struct backend_change *change, int64_t group)
{
    struct postgres_params *params = &postgres->params;
    struct use uses[3];
    size_t n = uses_of(postgres, change, uses);
    for (size_t i = 0; i < n; i++) {
        postgres_row_begin(params);
        postgres_column_number(params, group);
        postgres_column_bytes(params, digest_bytes(uses[i].hash));
        postgres_column_number(params, postgres_lock_of(uses[i].hash));
        postgres_column_number(params, uses[i].is_once);
        postgres_column_number(params, uses[i].is_claimed);
        postgres_column_number(params, leads_to(uses[i].name));
        postgres_row_end(params);
    }
}

static void write_seen_row(struct postgres_params *params, int64_t group,
                           const struct store_row *row)
{
    postgres_row_begin(params);
    postgres_column_number(params, group);
    postgres_column_number(params, row->id);
    postgres_column_number(params, row->version);
    postgres_row_end(params);
}

/* The row itself, and those to which its names led. */
static void write_seen_rows(struct postgres_backend *postgres, const struct backend_change *change,
                            int64_t group)
{
    struct use uses[3];
    size_t n = uses_of(postgres, change, uses);
    if (change->row && !is_new(change))
        write_seen_row(&postgres->params, group, change->row);
    for (size_t i = 0; i < n; i++)
        if (uses[i].name && uses[i].name->row)
            write_seen_row(&postgres->params, group, uses[i].name->row);
}

/* ---- rows ---- */

static void write_saved_row(struct postgres_backend *postgres, const struct backend_change *change,
                            int64_t group)
{
    struct postgres_params *params = &postgres->params;
    const struct store_row *row = change->row;
    if (!row)
        return;
    postgres_row_begin(params);
    postgres_column_number(params, group);
    postgres_column_number(params, is_new(change));
    postgres_column_number(params, row->id);
    if (takes_once(change))
        postgres_column_bytes(params, digest_bytes(&change->once_name));
    else
        postgres_column_null(params, POSTGRES_BYTEA);
    POSTGRES_RECORD(POSTGRES_WRITE)
    postgres_row_end(params);
}

/* Of what was begun under a hold that has an end. */
static void write_hold(struct postgres_backend *postgres, const struct backend_change *change,
                       int64_t group)
{
    struct postgres_params *params = &postgres->params;
    if (!record_stays(change) || change->row->record.hold_us == 0)
        return;
    postgres_row_begin(params);
    postgres_column_number(params, group);
    postgres_column_number(params, change->row->id);
    postgres_column_number(params, change->row->record.hold_us);
    postgres_row_end(params);
}

/* Of what asks before its first send, and of what may have done so until now. */
static void write_asking(struct postgres_backend *postgres, const struct backend_change *change,
                         int64_t group)
{
    struct postgres_params *params = &postgres->params;
    if (!record_stays(change))
        return;
    const struct record *record = &change->row->record;
    bool may_have = !is_new(change) && record->status == RECORD_PENDING &&
                    record->lease_until != 0 && record->unknown == RECORD_UNKNOWN_PROBE;
    if (record->asking == 0 && !may_have)
        return;
    postgres_row_begin(params);
    postgres_column_number(params, group);
    postgres_column_number(params, change->row->id);
    postgres_column_number(params, record->asking);
    postgres_row_end(params);
}

void postgres_write_content(struct postgres_params *params, const struct outcome *outcome)
{
    bool packed = outcome && outcome->packed.len > 0;
    postgres_column_number(params, packed);
    if (outcome) {
        postgres_column_bytes(params, outcome->fields);
        postgres_column_bytes(params, packed ? buf_slice(&outcome->packed) : outcome->body);
        return;
    }
    postgres_column_null(params, POSTGRES_BYTEA);
    postgres_column_null(params, POSTGRES_BYTEA);
}

/* One that was final already may only last longer. */
static void write_outcome(struct postgres_backend *postgres, const struct backend_change *change,
                          int64_t group)
{
    struct postgres_params *params = &postgres->params;
    if (!record_stays(change) || !record_is_final(change->row->record.status))
        return;
    const struct record *record = &change->row->record;
    bool filled_in = change->was_provisional && !record->kept;
    bool is_whole = !record_is_final(change->before) || change->outcome || filled_in;
    postgres_row_begin(params);
    postgres_column_number(params, group);
    postgres_column_number(params, change->row->id);
    postgres_column_number(params, is_whole);
    postgres_column_number(params,
                           backend_sweep_at(record, is_whole ? !!change->outcome : record->kept));
    postgres_write_content(params, change->outcome);
    postgres_row_end(params);
}

static void write_bound(struct postgres_backend *postgres, const struct backend_change *change,
                        int64_t group)
{
    struct postgres_params *params = &postgres->params;
    const struct backend_bound *bound = change->bound;
    if (!bound)
        return;
    postgres_row_begin(params);
    postgres_column_number(params, group);
    postgres_column_number(params, bound->id);
    postgres_column_number(params, bound->holder);
    postgres_column_number(params, bound->expires_at);
    postgres_column_number(params, bound->acknowledges);
    postgres_column_bytes(params, digest_bytes(&bound->key_hash));
    postgres_column_bytes(params, bound->key);
    postgres_column_bytes(params, bound->recipe);
    postgres_column_bytes(params, digest_bytes(&bound->payload_hash));
    postgres_column_bytes(params, digest_bytes(&bound->target_hash));
    postgres_row_end(params);
}

static void write_unheld(struct postgres_backend *postgres, const struct backend_change *change,
                         int64_t group)
{
    struct postgres_params *params = &postgres->params;
    if (!record_stays(change))
        return;
    const struct record *record = &change->row->record;
    bool released = record_is_released(record), unknown = record->status == RECORD_UNKNOWN;
    bool was = change->was_released || change->before == RECORD_UNKNOWN;
    if (!released && !unknown && !was)
        return;
    postgres_row_begin(params);
    postgres_column_number(params, group);
    postgres_column_number(params, change->row->id);
    postgres_column_number(params, released || unknown ? (int64_t)record->status : 0);
    postgres_column_number(params,
                           released ? record->expires_at : record->quiet_at - record->settle_us);
    postgres_row_end(params);
}

/* ---- rows of modules ---- */

static void add_brought(struct postgres_backend *postgres, const struct backend_group *groups)
{
    struct postgres_params *params = &postgres->params;
    struct buf sql BUF_AUTO = buf_make(POSTGRES_TABLE_SQL_MAX);
    int64_t number = 0, place = 0;
    postgres_array_begin(params, postgres->types[TYPE_saved_brought]);
    for (const struct backend_group *group = groups; group; group = group->next, number++)
        for (const struct backend_change *change = group->changes; change; change = change->next) {
            const struct table_change *brought = change->brought;
            if (!brought)
                continue;
            buf_clear(&sql);
            postgres_table_statement(brought, &sql);
            CHECK(!sql.too_large);
            params->bytes.failed |= !buf_ok(&sql);
            postgres_row_begin(params);
            postgres_column_number(params, number);
            postgres_column_number(params, place++);
            postgres_column_number(params, backend_may_miss(brought));
            postgres_column_text(params, buf_slice(&sql));
            postgres_row_end(params);
        }
    postgres_array_end(params);
}

static void add_saved_values(struct postgres_backend *postgres, const struct backend_group *groups)
{
    int64_t place = 0;
    postgres_array_begin(&postgres->params, postgres->types[TYPE_saved_value]);
    for (const struct backend_group *group = groups; group; group = group->next)
        for (const struct backend_change *change = group->changes; change; change = change->next)
            if (change->brought)
                postgres_table_values(change->brought, place++, &postgres->params);
    postgres_array_end(&postgres->params);
}

/* ---- counts ---- */

struct leases {
    int64_t taken; /* less those that ended */
    int64_t longest_us;
    bool any;
};

static void write_tally(struct postgres_params *params, int64_t group, int64_t owner,
                        const struct leases *leases, const struct backend_counts *counts)
{
    postgres_row_begin(params);
    postgres_column_number(params, group);
    postgres_column_number(params, owner);
    postgres_column_number(params, leases->taken);
    postgres_column_number(params, leases->longest_us);
#define WRITE_COUNT(field) postgres_column_number(params, counts->field);
    POSTGRES_COUNTS(WRITE_COUNT)
#undef WRITE_COUNT
    postgres_row_end(params);
}

/* A lease that was another process's ends there; those of this one are added up. */
static void count_lease(struct postgres_backend *postgres, const struct backend_change *change,
                        int64_t group, struct leases *own)
{
    static const struct backend_counts none;
    static const struct leases one_less = {.taken = -1};
    const struct record *record = &change->row->record;
    int64_t self = postgres->backend.self.incarnation, holder = record_holder(record);
    if (holder == change->held_by)
        return;
    own->any = true;
    own->taken += (holder == self) - (change->held_by == self);
    if (holder == self && own->longest_us < record->lease_us)
        own->longest_us = record->lease_us;
    if (change->held_by != 0 && change->held_by != self)
        write_tally(&postgres->params, group, change->held_by, &one_less, &none);
}

static bool add_tallies(struct postgres_backend *postgres, const struct backend_group *groups)
{
    static const struct backend_counts none;
    static const struct leases no_leases;
    struct postgres_params *params = &postgres->params;
    int64_t number = 0;
    bool takes = false;
    postgres_array_begin(params, postgres->types[TYPE_saved_tally]);
    for (const struct backend_group *group = groups; group; group = group->next, number++) {
        struct backend_counts counts = {0};
        struct leases own = {0};
        for (const struct backend_change *change = group->changes; change; change = change->next) {
            backend_count(&counts, change);
            if (change->row)
                count_lease(postgres, change, number, &own);
        }
        if (memcmp(&counts, &none, sizeof counts) != 0)
            write_tally(params, number, 0, &no_leases, &counts);
        if (own.any && (own.taken != 0 || own.longest_us != 0))
            write_tally(params, number, postgres->backend.self.incarnation, &own, &none);
        takes |= own.longest_us > 0;
    }
    postgres_array_end(params);
    return takes;
}

/* ---- the operation ---- */

static size_t count_groups(const struct backend_group *groups)
{
    size_t n = 0;
    for (; groups; groups = groups->next)
        n++;
    return n;
}

/* ---- terms ---- */

static void add_begins(struct postgres_params *params, const struct backend_group *groups)
{
    int64_t number = 0;
    postgres_array_begin(params, POSTGRES_INT8);
    for (const struct backend_group *group = groups; group; group = group->next, number++)
        if (group->begins)
            postgres_item_number(params, number);
    postgres_array_end(params);
}

void postgres_add_terms(struct postgres_params *params, const struct terms *terms)
{
    postgres_array_begin(params, POSTGRES_INT8);
#define X(name)                                                                                    \
    if (terms)                                                                                     \
        postgres_item_number(params, terms->name);
    TERMS(X)
#undef X
    postgres_array_end(params);
}

/* Whether leases are taken. */
static bool queue_save(struct postgres_backend *postgres, const struct backend_group *groups)
{
    struct postgres_params *params = &postgres->params;
    const struct terms_change *sets = postgres->saving->sets;
    postgres_params_clear(params);
    postgres_add_number(params, postgres_counts_as(postgres));
    postgres_add_number(params, postgres_test_time());
    postgres_add_number(params, postgres->version);
    postgres_add_number(params, (int64_t)count_groups(groups));
    add_changes(postgres, groups, TYPE_seen_name, write_saved_names);
    add_changes(postgres, groups, TYPE_seen_row, write_seen_rows);
    add_changes(postgres, groups, TYPE_saved_row, write_saved_row);
    add_changes(postgres, groups, TYPE_saved_outcome, write_outcome);
    add_changes(postgres, groups, TYPE_saved_bound, write_bound);
    add_changes(postgres, groups, TYPE_saved_unheld, write_unheld);
    add_brought(postgres, groups);
    add_saved_values(postgres, groups);
    bool takes = add_tallies(postgres, groups);
    postgres_add_bytes(params, postgres_identity(postgres));
    add_begins(params, groups);
    postgres_add_terms(params, &postgres->saving->terms);
    postgres_add_terms(params, sets ? &sets->wanted : NULL);
    postgres_add_number(params, postgres->removals);
    postgres_add_mark(postgres, params);
    add_changes(postgres, groups, TYPE_saved_hold, write_hold);
    add_changes(postgres, groups, TYPE_saved_asking, write_asking);
    postgres_queue_call(postgres, CALL_save);
    return takes;
}

/* A row of nobody's, which is folded: no stranger can hold it. */
#define MARK "INSERT INTO pawl.tally VALUES (nextval('pawl.token'), 0, 0, 0, 0, 0, 0, 0, 0, 0)"

/* results, stale: a digit each. What cannot be read is committed. */
static enum backend_status read_results(struct postgres_backend *postgres, const PGresult *result,
                                        struct backend_group *groups)
{
    static const enum group_result results[] = {GROUP_OK, GROUP_CONFLICT, GROUP_LOCKED, GROUP_HELD};
    struct slice of_groups = postgres_bytes(result, 0, 0), stale = postgres_bytes(result, 0, 1);
    size_t at = 0, place = 0;
    for (struct backend_group *group = groups; group; group = group->next) {
        if (at >= of_groups.len || of_groups.at[at] < '0' || of_groups.at[at] > '3')
            return postgres_distrust(postgres, BACKEND_FATAL);
        group->result = results[of_groups.at[at++] - '0'];
        for (struct backend_change *change = group->changes; change; change = change->next)
            if (change->brought)
                change->brought->is_stale = place < stale.len && stale.at[place++] == '1';
    }
    postgres->counts = postgres_read_counts(result, 0, 3);
    return BACKEND_OK;
}

/* Tries that find two held rows among 64 groups; where more fail, somebody holds a table. */
#define BLOCKED_MOST 14

enum { AT_SAVE = 2 }; /* among the statements of a save: BEGIN and limits come first */

/* Whatever it writes waits for the commits before it: of one that was unsure, too. `ret_beat`: the
 * statement that is a beat; 0: none. */
static enum backend_status send_save(struct postgres_backend *postgres,
                                     const struct backend_group *groups, size_t *ret_beat)
{
    bool may_beat = postgres_is_beat_due(postgres);
    enum backend_status status = postgres_start_transaction(postgres);
    *ret_beat = 0;
    if (status != BACKEND_OK)
        return status;
    postgres_params_clear(&postgres->params);
    postgres_queue_call(postgres, CALL_saves);
    bool takes = groups && queue_save(postgres, groups);
    if (!groups)
        postgres_queue_see_mark(postgres);
    if (postgres->must_commit)
        postgres_queue(postgres, MARK, NULL);
    if (takes && may_beat) {
        *ret_beat = postgres->n_results;
        postgres_queue_beat(postgres);
    }
    return postgres_commit(postgres);
}

static enum backend_status try_commit(struct postgres_backend *postgres,
                                      struct backend_group *groups)
{
    size_t beat = 0;
    enum backend_status status = send_save(postgres, groups, &beat);
    if (status == BACKEND_BUSY && postgres->failure.forgot)
        status = send_save(postgres, groups, &beat);
    postgres->must_commit |= status == BACKEND_UNSURE;
    if (groups || status != BACKEND_OK)
        postgres_mark_saved(postgres, status);
    if (status != BACKEND_OK)
        return status;
    postgres->must_commit = false;
    if (!groups) {
        postgres_mark_seen(postgres, postgres->results[AT_SAVE]);
        return BACKEND_OK;
    }
    if (beat > 0)
        (void)postgres_read_beat(postgres, postgres->results[beat]);
    return read_results(postgres, postgres->results[AT_SAVE], groups);
}

/* By what a group writes, or a constraint that is looked at in the end; or a stranger holds what
 * belongs to a record of it. */
static bool is_for_one_group(const struct postgres_backend *postgres, enum backend_status status)
{
    const struct postgres_failure *failure = &postgres->failure;
    if (status == BACKEND_OK)
        return false;
    return failure->at == AT_SAVE ? failure->refused || failure->blocked
                                  : failure->refused && status == BACKEND_UNSURE;
}

/* A group that failed alone. If what it is counted in, or the mark, is held, this process has
 * another row from now on; but not of a mark under which a save was unsure. */
static enum backend_status save_group_alone(struct postgres_backend *postgres,
                                            struct backend_group *group)
{
    int64_t counted_as = postgres->counts_as;
    struct postgres_mark mark = postgres->mark, held_mark = postgres->held_mark;
    bool refused = postgres->failure.refused;
    if (!refused) {
        postgres->counts_as = postgres->version;
        postgres_move_mark(postgres);
        enum backend_status status = try_commit(postgres, group);
        if (!is_for_one_group(postgres, status))
            return status;
        postgres->counts_as = counted_as;
        postgres->mark = mark;
        postgres->held_mark = held_mark;
        refused = postgres->failure.refused;
    }
    group->result = refused ? GROUP_REFUSED : GROUP_LOCKED;
    return BACKEND_OK;
}

/* A batch with a row that the server refuses, or that somebody holds, is halved until that row is
 * alone. What was committed of it by then stands, so that a failure of the rest leaves the whole
 * unsure. */
static enum backend_status save_apart(struct postgres_backend *postgres,
                                      struct backend_group *groups, size_t n)
{
    enum backend_status status = try_commit(postgres, groups);
    if (n == 0 || !is_for_one_group(postgres, status))
        return status;
    if (postgres->failure.blocked && ++postgres->n_blocked > BLOCKED_MOST)
        return status;
    if (n == 1)
        return save_group_alone(postgres, groups);
    struct backend_group *last = groups;
    for (size_t i = 1; i < n / 2; i++)
        last = last->next;
    struct backend_group *rest = last->next;
    last->next = NULL;
    status = save_apart(postgres, groups, n / 2);
    last->next = rest;
    if (status != BACKEND_OK)
        return status;
    status = save_apart(postgres, rest, n - n / 2);
    return status == BACKEND_OK ? BACKEND_OK : BACKEND_UNSURE;
}

enum backend_status postgres_save(struct backend *backend, struct backend_save *save)
{
    struct postgres_backend *postgres = postgres_of(backend);
    enum backend_status status = BACKEND_OK;
    CRASH_POINT(before_commit);
    postgres->n_blocked = 0;
    postgres->saving = save;
    if (save->sets && save->sets->above > postgres->lift)
        postgres->lift = save->sets->above;
    if (save->groups || postgres->must_commit)
        status = save_apart(postgres, save->groups, count_groups(save->groups));
    save->changed = save->groups || postgres->maintained;
    save->version = postgres->version;
    postgres->maintained = false;
    save->counts = postgres->counts;
    return status;
}
