/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain begins and finishes in one round trip, without a load: what pawl.pairs takes, and what it
 * says. Whatever is more than plain is left to load and save, and so is all of a batch that the
 * server refuses, for one row or for another one's lock: save_apart finds out which.
 */
#include "base/check.h"
#include "base/crash.h"
#include "store/postgres/postgres.h"

/* What pawl.pairs writes into the other columns of POSTGRES_READ. */
static bool is_plain_claim(const struct postgres_backend *postgres,
                           const struct backend_change *change)
{
    const struct store_row *row = change->row;
    const struct record *record = &row->record;
    return change->before == RECORD_ABSENT && record->status == RECORD_PENDING &&
           digest_is_none(&change->once_name) && row->once.len == 0 && row->location.len == 0 &&
           record->attempts == 1 && record->started_at == record->created_at &&
           record->owner == postgres->backend.self.incarnation && record->asking == 0 &&
           !record->probing && !record->doubt && record->cause == 0 && record->quiet_at == 0 &&
           record->once_ttl_us == 0 && record->completed_at == 0 && record->expires_at == 0 &&
           record->gone_at == 0 && !record->kept && record->http_status == 0;
}

/* An acquisition of this process that becomes final. */
static bool is_plain_end(const struct postgres_backend *postgres,
                         const struct backend_change *change)
{
    const struct record *record = &change->row->record;
    return change->before == RECORD_PENDING && change->row->version != 0 && !change->was_odd &&
           change->held_by == postgres->backend.self.incarnation &&
           record_is_final(record->status) && !record->provisional && record->once_ttl_us == 0;
}

/* The change of a group that is plain; NULL: it is not. */
static const struct backend_change *plain_change(const struct postgres_backend *postgres,
                                                 const struct backend_group *group, bool is_claim)
{
    const struct backend_change *change = group->changes;
    if (!change || change->next || !change->row)
        return NULL;
    bool fits = is_claim ? is_plain_claim(postgres, change) : is_plain_end(postgres, change);
    return fits ? change : NULL;
}

static void add_claim_row(struct postgres_params *params, const struct store_row *row)
{
    postgres_row_begin(params);
    postgres_column_number(params, row->id);
    postgres_column_number(params, postgres_lock_of(&row->key_hash));
    POSTGRES_CLAIM(POSTGRES_WRITE)
    postgres_row_end(params);
}

static void add_end_row(struct postgres_params *params, const struct backend_change *change)
{
    const struct store_row *row = change->row;
    postgres_row_begin(params);
    postgres_column_number(params, row->id);
    postgres_column_number(params, row->version);
    postgres_column_number(params, row->record.token);
    postgres_column_number(params, backend_sweep_at(&row->record, change->outcome));
    postgres_write_content(params, change->outcome);
    POSTGRES_ENDED(POSTGRES_WRITE)
    postgres_row_end(params);
}

static void add_plain(struct postgres_backend *postgres, const struct backend_group *groups,
                      bool is_claim)
{
    struct postgres_params *params = &postgres->params;
    postgres_array_begin(params, postgres->types[is_claim ? TYPE_claim : TYPE_ended]);
    for (const struct backend_group *group = groups; group; group = group->next) {
        const struct backend_change *change = plain_change(postgres, group, is_claim);
        if (!change)
            continue;
        if (is_claim)
            add_claim_row(params, change->row);
        else
            add_end_row(params, change);
    }
    postgres_array_end(params);
}

static int64_t longest_lease(const struct backend_group *groups)
{
    int64_t longest = 0;
    for (; groups; groups = groups->next)
        if (groups->changes && groups->changes->row)
            longest = clock_last(longest, groups->changes->row->record.lease_us);
    return longest;
}

static void queue_pairs(struct postgres_backend *postgres, const struct backend_save *save)
{
    struct postgres_params *params = &postgres->params;
    postgres_params_clear(params);
    postgres_add_number(params, postgres->backend.self.incarnation);
    postgres_add_number(params, postgres_counts_as(postgres));
    postgres_add_number(params, postgres_test_time());
    postgres_add_bytes(params, postgres_identity(postgres));
    postgres_add_terms(params, &save->terms);
    postgres_add_number(params, longest_lease(save->groups));
    postgres_add_number(params, postgres_is_beat_due(postgres));
    postgres_add_mark(postgres, params);
    add_plain(postgres, save->groups, true);
    add_plain(postgres, save->groups, false);
    postgres_queue_call(postgres, CALL_pairs);
}

/* What pawl.pairs returns, and behind it the counts and the terms. */
#define COUNTED(field) +1
enum {
    AT_BASE,
    AT_NOW,
    AT_BEATEN,
    AT_CLAIMED,
    AT_DONE,
    AT_COUNTS,
    AT_TERMS = AT_COUNTS POSTGRES_COUNTS(COUNTED)
};

/* A digit for each plain group, in order; false: not so many. */
static bool read_digits(struct postgres_backend *postgres, int column, bool is_claim,
                        struct backend_group *groups)
{
    struct slice digits = postgres_bytes(postgres->results[0], 0, column);
    size_t at = 0;
    for (struct backend_group *group = groups; group; group = group->next) {
        const struct backend_change *change = plain_change(postgres, group, is_claim);
        if (!change)
            continue;
        if (at >= digits.len)
            return false;
        if (digits.at[at++] != '0')
            continue;
        group->result = GROUP_OK;
        backend_count(&postgres->counts, change);
    }
    return at == digits.len;
}

static enum backend_status read_pairs(struct postgres_backend *postgres, struct backend_save *save,
                                      struct backend_read *read)
{
    const PGresult *result = postgres->results[0];
    int64_t now = postgres_number(result, 0, AT_NOW);
    postgres->now = clock_last(postgres->now, now);
    postgres->counts = postgres_read_counts(result, 0, AT_COUNTS);
    read->now = postgres->now;
    read->token = postgres_number(result, 0, AT_BASE) + 1;
    read->forgets = postgres->counts.forgets;
    read->terms = postgres_read_terms(result, AT_TERMS);
    postgres->version = save->version = read->token;
    save->at = now;
    postgres->backend.self.beat_at =
        clock_last(postgres->backend.self.beat_at, postgres_number(result, 0, AT_BEATEN));
    save->changed = true;
    postgres->highest = clock_last(postgres->highest, read->token + read->n_tokens - 1);
    if (!read_digits(postgres, AT_CLAIMED, true, save->groups) ||
        !read_digits(postgres, AT_DONE, false, save->groups))
        return postgres_distrust(postgres, BACKEND_FATAL);
    save->counts = postgres->counts;
    return BACKEND_OK;
}

/* For what one row is, or for somebody's lock: nothing was written, and the session goes on. */
static bool is_left_to_save(const struct postgres_backend *postgres, enum backend_status status)
{
    return status == BACKEND_BUSY && postgres->conn && postgres->failure.at == 0 &&
           !postgres->failure.went_back;
}

/* A claim that was unsure compares nothing that a load has seen, and may be on its way for long: it
 * finds another mark from here on. */
enum backend_status postgres_fence(struct postgres_backend *postgres)
{
    if (!postgres->must_fence)
        return BACKEND_OK;
    enum backend_status status = postgres_start_transaction(postgres);
    if (status != BACKEND_OK)
        return status;
    postgres_queue_limits(postgres, POSTGRES_SAVES);
    postgres_params_clear(&postgres->params);
    postgres_add_mark(postgres, &postgres->params);
    postgres_add_number(&postgres->params, postgres_test_time());
    postgres_queue(postgres, "SELECT pawl.keep_mark($1, $2)", &postgres->params);
    status = postgres_commit(postgres);
    postgres_mark_saved(postgres, status);
    postgres->must_fence = status != BACKEND_OK && !postgres->failure.went_back;
    return status == BACKEND_UNSURE ? BACKEND_BUSY : status;
}

static enum backend_status send_pairs(struct postgres_backend *postgres,
                                      const struct backend_save *save)
{
    enum backend_status status = postgres_start(postgres);
    if (status != BACKEND_OK)
        return status;
    queue_pairs(postgres, save);
    return postgres_finish(postgres);
}

enum backend_status postgres_pairs(struct backend *backend, struct backend_save *save,
                                   struct backend_read *read)
{
    struct postgres_backend *postgres = postgres_of(backend);
    bool any = false;
    for (struct backend_group *group = save->groups; group; group = group->next) {
        group->result = GROUP_CONFLICT;
        any |= plain_change(postgres, group, true) || plain_change(postgres, group, false);
    }
    CHECK(!backend->lacks_pairs);
    if (postgres->must_commit || postgres->must_fence || postgres->cannot_pair || !any)
        return BACKEND_OK;
    CRASH_POINT(before_commit);
    int64_t sent_at = clock_boot_us();
    enum backend_status status = send_pairs(postgres, save);
    if (postgres->failure.forgot) {
        sent_at = clock_boot_us();
        status = send_pairs(postgres, save);
    }
    if (is_left_to_save(postgres, status)) {
        postgres->cannot_pair = postgres->failure.unfit;
        postgres_mark_saved(postgres, status);
        return BACKEND_OK;
    }
    bool sure = status == BACKEND_OK ? !postgres->warned : postgres->failure.at == 0;
    if (!sure)
        status = BACKEND_UNSURE;
    postgres->must_fence = status == BACKEND_UNSURE;
    enum backend_status result = status;
    if (status == BACKEND_OK) {
        read->boot = sent_at;
        result = read_pairs(postgres, save, read);
    }
    postgres_mark_saved(postgres, status);
    return result;
}
