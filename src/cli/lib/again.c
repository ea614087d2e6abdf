/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/lib/again.h"

#include "base/check.h"
#include "cli/command/command.h"
#include "cli/lib/actor.h"
#include "operator/keys.h"

static bool is_same_attempt(const struct again *again, const struct record *record)
{
    const struct record_begin *same = again->same;
    return !same || (!digest_differs(&record->payload_hash, &same->payload_hash) &&
                     !digest_differs(&record->target_hash, &same->target_hash));
}

static bool is_remembered(const struct again *again, const struct keys_row *row)
{
    const struct record *record = &row->store.record;
    bool failed = again->failed && record->status == RECORD_FAILED;
    return (record->status == RECORD_COMPLETE || failed) && is_same_attempt(again, record);
}

static enum store_status forget_record(struct again *again, const struct keys_row *row,
                                       struct parker *parker)
{
    BUF_AUTO struct buf name = buf_make(STORE_ACTOR_MAX);
    const struct store_actor by = actor_of(slice_of(again->reason), &name);
    KEYS_ACT_AUTO struct keys_act act = {.row = row,
                                         .kind = KEYS_FORGET,
                                         .token = row->store.record.token,
                                         .actor = by.name,
                                         .reason = by.reason};
    enum store_status status = keys_act(again->store, &act, parker);
    if (status == STORE_DONE)
        again->forgotten_at = row->store.record.completed_at;
    return status;
}

static enum store_status find_and_forget(struct again *again, struct parker *parker)
{
    KEYS_FOUND_AUTO struct keys_found found = {0};
    struct keys_wanted wanted = {
        .tenant = SLICE(""), .rule = again->rule, .key = again->key, .limit = 1};
    enum store_status status = keys_list(again->store, &wanted, parker, &found);
    if (status != STORE_DONE || !found.first || !is_remembered(again, found.first))
        return status;
    return forget_record(again, found.first, parker);
}

int again_forget(struct again *again)
{
    CHECK(again->store && again->command && again->key.len > 0 && again->rule.len > 0);
    struct thread_parker parker;
    thread_parker_init(&parker);
    enum store_status status = find_and_forget(again, &parker.parker);
    thread_parker_fini(&parker);
    if (status == STORE_DONE)
        return EXIT_DONE;
    return command_failed(again->command, EXIT_UNAVAILABLE, "%s", keys_status_text(status));
}
