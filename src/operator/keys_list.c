/* SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"
#include "base/text/percent.h"
#include "operator/keys.h"
#include <assert.h>

#define FOUND_MAX ((size_t)256 * 1024 * 1024)
#define SLICE_ROWS 20000 /* looked at while the store is held: a few milliseconds */
#define LOOSE_ROWS 2000  /* the same where each row is read and compared here */

void keys_found_fini(struct keys_found *found)
{
    arena_fini(&found->arena);
}

void keys_found_cut(struct keys_found *found, size_t n)
{
    struct keys_row **end = &found->first;
    for (size_t i = 0; i < n && *end; i++)
        end = &(*end)->next;
    *end = NULL;
}

static void restart_keys_slice(void *argument)
{
    struct keys_found *found = argument;
    *(found->before ? &found->before->next : &found->first) = NULL;
    found->last = found->before;
    found->n = found->n_before;
}

/* ---- which rows ---- */

static bool is_tenant(const struct keys_found *found, struct slice tenant)
{
    char hex[LOG_KEYED_SIZE];
    struct slice wanted = found->wanted->tenant;
    if (!wanted.at || slice_eq(wanted, tenant))
        return true;
    log_keyed_hex("tenant_hash", found->digest_key, tenant, hex);
    return tenant.len > 0 && slice_eq(wanted, slice_of(hex));
}

static bool is_once(const struct keys_found *found, struct slice once)
{
    struct slice wanted = found->wanted->once;
    return !wanted.at || slice_eq(wanted, once) || percent_spells(once, false, wanted);
}

/* Of two statuses that are one to the store. */
static bool has_status(const struct record *record, enum keys_status status)
{
    bool released = record_is_released(record);
    return status == KEYS_PENDING ? !released : status != KEYS_RELEASED || released;
}

/* What the store does not pick. */
static bool is_wanted_record(const struct keys_found *found, const struct store_row *row,
                             enum record_lease lease)
{
    const struct keys_wanted *wanted = found->wanted;
    const struct record *record = &row->record;
    bool doubted = record_in_doubt(record, lease) && lease != RECORD_LEASE_LIVE &&
                   record->started_at < wanted->doubted_before;
    if (wanted->doubted_before > 0 ? !doubted : !has_status(record, wanted->status))
        return false;
    return !found->digest_key || (is_tenant(found, row->tenant) && is_once(found, row->once));
}

/* ---- listing ---- */

/* Runs on the committer's thread inside its transaction, so it only picks and copies. */
static bool add_found_row(void *argument, const struct store_row *row, enum record_lease lease)
{
    struct keys_found *found = argument;
    CHECK(found->n < found->wanted->limit); /* else it had ended the list */
    if (!is_wanted_record(found, row, lease))
        return true;
    struct keys_row *copy = arena_alloc(&found->arena, sizeof *copy);
    if (!copy)
        return false;
    *copy = (struct keys_row){.store = *row, .lease = lease};
    copy->store.tenant = arena_copy(&found->arena, row->tenant);
    copy->store.rule = arena_copy(&found->arena, row->rule);
    copy->store.key = arena_copy(&found->arena, row->key);
    copy->store.recipe = arena_copy(&found->arena, row->recipe);
    copy->store.fingerprint = arena_copy(&found->arena, row->fingerprint);
    copy->store.origin = arena_copy(&found->arena, row->origin);
    copy->store.once = arena_copy(&found->arena, row->once);
    copy->store.location = arena_copy(&found->arena, row->location);
    if (found->last)
        found->last->next = copy;
    else
        found->first = copy;
    found->last = copy;
    return ++found->n < found->wanted->limit;
}

static enum store_status run_list_op(struct store *store, struct store_op *op,
                                     struct parker *parker)
{
    return store_run(store, op, parker, clock_after(clock_boot_us(), KEYS_TIMEOUT_US));
}

enum store_status keys_scan(struct store *store, const struct store_list *list,
                            struct parker *parker, int64_t *ret_seen)
{
    struct store_op op = {.kind = STORE_LIST, .list = list};
    enum store_status status = run_list_op(store, &op, parker);
    if (status == STORE_DONE)
        *ret_seen = op.result.row;
    return status;
}

enum store_status keys_look(struct store *store, struct keys_row *row, struct parker *parker,
                            struct keys_view *ret_view)
{
    struct store_op op = {
        .kind = STORE_LOOK, .key_hash = row->store.key_hash, .row_hint = row->store.id};
    enum store_status status = run_list_op(store, &op, parker);
    if (status != STORE_DONE)
        return status;
    row->store.record = op.result.record;
    row->lease = op.result.lease;
    *ret_view =
        (struct keys_view){&row->store,         &row->store.record, op.result.lease,
                           op.result.store_now, op.result.found,    store_digest_key(store)};
    return STORE_DONE;
}

/* The row of a record that is named in full; 0: none, or only a scan finds it, as the key of a
 * window shows more than it is looked up by. */
static enum store_status find_named_record(struct store *store, const struct keys_wanted *wanted,
                                           struct parker *parker, int64_t *ret_row)
{
    *ret_row = 0;
    if (!wanted->tenant.at || !wanted->rule.at || !wanted->key.at || wanted->after != 0)
        return STORE_DONE;
    struct store_op op = {.kind = STORE_LOOK,
                          .key_hash =
                              store_key_hash(store, wanted->tenant, wanted->rule, wanted->key),
                          .record_alone = true};
    enum store_status status = run_list_op(store, &op, parker);
    if (status == STORE_DONE && op.result.record.status != RECORD_ABSENT)
        *ret_row = op.result.row;
    return status;
}

/* What the store picks; the rest is picked row by row. */
static struct store_list make_list(struct keys_found *found)
{
    static const unsigned statuses[] = {[KEYS_PENDING] = 1U << RECORD_PENDING,
                                        [KEYS_RELEASED] = 1U << RECORD_PENDING,
                                        [KEYS_COMPLETE] = 1U << RECORD_COMPLETE,
                                        [KEYS_FAILED] = 1U << RECORD_FAILED,
                                        [KEYS_UNKNOWN] = 1U << RECORD_UNKNOWN};
    static_assert(COUNT_OF(statuses) == KEYS_UNKNOWN + 1, "each has its own");
    const unsigned in_doubt = 1U << RECORD_PENDING | 1U << RECORD_UNKNOWN;
    const struct keys_wanted *wanted = found->wanted;
    bool loose = found->digest_key;
    return (struct store_list){.tenant = loose ? slice_of(NULL) : wanted->tenant,
                               .rule = wanted->rule,
                               .key = wanted->key,
                               .once = loose ? slice_of(NULL) : wanted->once,
                               .statuses =
                                   wanted->doubted_before > 0 ? in_doubt : statuses[wanted->status],
                               .lapsed_only = wanted->lapsed,
                               .most = loose ? LOOSE_ROWS : SLICE_ROWS,
                               .restart = restart_keys_slice,
                               .each = add_found_row,
                               .argument = found};
}

static enum store_status list_slices(struct store *store, struct keys_found *found,
                                     struct parker *parker)
{
    const struct keys_wanted *wanted = found->wanted;
    struct store_list list = make_list(found);
    size_t scans = 0;
    found->next = wanted->after;
    do {
        list.after = found->next;
        found->before = found->last;
        found->n_before = found->n;
        enum store_status status = keys_scan(store, &list, parker, &found->next);
        if (status != STORE_DONE)
            return status;
    } while (found->next != 0 && found->n < wanted->limit && ++scans != wanted->scans);
    return STORE_DONE;
}

/* The one row of that id; it is the last of its list. */
static enum store_status list_named(struct store *store, struct keys_found *found,
                                    struct parker *parker, int64_t id)
{
    struct store_list list = make_list(found);
    int64_t seen;
    CHECK(id > 0);
    list.after = id - 1;
    list.most = 1;
    return keys_scan(store, &list, parker, &seen);
}

static bool may_be_hash(struct slice tenant)
{
    for (size_t i = 0; i < tenant.len; i++)
        if (hex_digit(tenant.at[i]) < 0)
            return false;
    return tenant.len == LOG_KEYED_SIZE - 1;
}

static enum store_status list_all(struct store *store, struct keys_found *found,
                                  struct parker *parker)
{
    const struct keys_wanted *wanted = found->wanted;
    int64_t named;
    enum store_status status = find_named_record(store, wanted, parker, &named);
    if (status == STORE_DONE && named > 0)
        status = list_named(store, found, parker, named);
    /* Of a key in a space it may be the record of another rule. */
    if (status != STORE_DONE || found->n > 0 || wanted->by_name)
        return status;
    bool escaped = wanted->once.len > 0 && slice_find(wanted->once, '%') >= 0;
    if (!escaped)
        status = list_slices(store, found, parker);
    if (status != STORE_DONE || found->n > 0 ||
        !(wanted->once.len > 0 || may_be_hash(wanted->tenant)))
        return status;
    found->digest_key = store_digest_key(store);
    return list_slices(store, found, parker);
}

enum store_status keys_list(struct store *store, const struct keys_wanted *wanted,
                            struct parker *parker, struct keys_found *ret_found)
{
    CHECK(wanted->limit > 0 && wanted->after >= 0 && wanted->status <= KEYS_UNKNOWN);
    *ret_found = (struct keys_found){.arena = arena_make(FOUND_MAX), .wanted = wanted};
    enum store_status status = list_all(store, ret_found, parker);
    ret_found->wanted = NULL;
    return status == STORE_DONE && ret_found->arena.failed ? STORE_NO_MEMORY : status;
}

const char *keys_status_text(enum store_status status)
{
    if (status == STORE_DONE)
        return NULL;
    if (status == STORE_NO_MEMORY)
        return "out of memory";
    if (status == STORE_FROZEN)
        return "an operator froze the store: nothing is begun or added before `pawl store thaw`";
    if (status == STORE_WENT_BACK)
        return "the store went back, and nothing begins in it before `pawl store restored`";
    return status == STORE_DEAD ? "the store failed; check whether the change was stored"
                                : "the store did not respond in time; nothing was changed";
}

enum exit_code keys_status_code(enum store_status status)
{
    if (status == STORE_DONE)
        return EXIT_DONE;
    return status == STORE_DEAD     ? EXIT_FAIL_STOP
           : status == STORE_FROZEN ? EXIT_TRY_AGAIN
                                    : EXIT_UNAVAILABLE;
}
