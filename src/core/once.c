/* SPDX-License-Identifier: Apache-2.0 */
#include "core/once.h"

static struct once_decision decide_verdict(enum record_verdict verdict)
{
    return (struct once_decision){.act = ONCE_NOTHING, .verdict = verdict};
}

static struct once_decision decide_complete(struct record *holder,
                                            const struct once_question *question)
{
    int64_t now = question->world->now;
    if (holder->provisional && record_lease(holder, question->world, NULL) == RECORD_LEASE_LIVE)
        return decide_verdict(RECORD_IN_PROGRESS);
    /* A record from before the rule had `once` blocks for as long as its keys live. */
    if (now >= (holder->once_ttl_us > 0 ? holder->once_until : holder->gone_at))
        return (struct once_decision){.act = ONCE_TAKE};
    if (question->reject)
        return decide_verdict(RECORD_DUPLICATE);
    if (question->recipe_differs)
        return decide_verdict(RECORD_OTHER_RECIPE);
    if (!question->same)
        return decide_verdict(RECORD_MISMATCH);
    record_freeze(holder, now);
    struct once_decision decision = {.act = ONCE_BIND, .verdict = RECORD_REPLAY, .changed = true};
    if (now >= record_body_until(holder))
        decision.verdict = RECORD_RESULT_EXPIRED;
    else if (!holder->kept)
        decision.verdict = RECORD_RESULT_NOT_KEPT;
    return decision;
}

/* As for the holder's own key, whose hashes these are. */
static struct once_decision decide_as_own(struct record *holder,
                                          const struct once_question *question)
{
    struct once_decision decision = {.act = ONCE_NOTHING};
    struct record_begin begin = *question->begin;
    begin.payload_hash = holder->payload_hash;
    begin.target_hash = holder->target_hash;
    decision.verdict =
        record_begin(holder, &begin, question->world, question->next_token, &decision.changed);
    if (record_verdict_acquires(decision.verdict))
        decision.act = ONCE_CONTINUE;
    return decision;
}

/* Lapsed, unknown, or released in doubt: it may have happened, under the holder's key. */
static struct once_decision decide_in_doubt(struct record *holder,
                                            const struct once_question *question)
{
    if (record_policy(holder, question->begin->unknown) == RECORD_UNKNOWN_HOLD)
        return decide_as_own(holder, question);
    if (question->recipe_differs)
        return decide_verdict(RECORD_OTHER_RECIPE);
    return question->same ? decide_as_own(holder, question)
                          : decide_verdict(RECORD_OUTCOME_UNKNOWN);
}

static struct once_decision decide_by_holder(struct record *holder,
                                             const struct once_question *question)
{
    if (record_is_absent(holder, question->world->now) || holder->status == RECORD_FAILED)
        return (struct once_decision){.act = ONCE_TAKE};
    if (holder->status == RECORD_COMPLETE)
        return decide_complete(holder, question);
    enum record_lease lease = record_lease(holder, question->world, NULL);
    bool same_attempt =
        memcmp(holder->attempt_id, question->begin->attempt_id, RECORD_ATTEMPT_ID_SIZE) == 0;
    if (lease != RECORD_LEASE_NONE && same_attempt)
        return decide_verdict(record_acquired_for(holder));
    if (lease == RECORD_LEASE_LIVE)
        return decide_verdict(RECORD_IN_PROGRESS);
    bool is_free = !record_in_doubt(holder, lease) ||
                   question->world->now >= record_held_until(holder, question->begin, lease);
    return is_free ? (struct once_decision){.act = ONCE_REPLACE}
                   : decide_in_doubt(holder, question);
}

struct once_decision once_decide(struct record *holder, const struct once_question *question)
{
    struct once_decision decision = decide_by_holder(holder, question);
    bool begins = decision.act == ONCE_TAKE || decision.act == ONCE_REPLACE;
    if (!begins)
        return decision;
    if (question->begin->spent)
        return decide_verdict(RECORD_OUTCOME_UNKNOWN);
    enum record_verdict judged =
        question->key_lives ? RECORD_PROCEED : record_judge_start(question->begin, question->world);
    return judged == RECORD_PROCEED ? decision : decide_verdict(judged);
}
