/* SPDX-License-Identifier: Apache-2.0 */
#include "core/once.h"

static struct once_answer say(enum record_verdict verdict)
{
    return (struct once_answer){.act = ONCE_NOTHING, .verdict = verdict};
}

static struct once_answer decide_complete(struct record *holder,
                                          const struct once_question *question)
{
    int64_t now = question->world->now;
    if (holder->provisional && record_lease(holder, question->world, NULL) == RECORD_LEASE_LIVE)
        return say(RECORD_IN_PROGRESS);
    /* A record from before the rule had `once` blocks for as long as its keys live. */
    if (now >= (holder->once_ttl_us > 0 ? holder->once_until : holder->gone_at))
        return (struct once_answer){.act = ONCE_TAKE};
    if (question->reject)
        return say(RECORD_DUPLICATE);
    if (question->recipe_differs)
        return say(RECORD_OTHER_RECIPE);
    if (!question->same)
        return say(RECORD_MISMATCH);
    record_freeze(holder, now);
    struct once_answer answer = {.act = ONCE_BIND, .verdict = RECORD_REPLAY, .changed = true};
    if (now >= record_body_until(holder))
        answer.verdict = RECORD_RESULT_EXPIRED;
    else if (!holder->kept)
        answer.verdict = RECORD_RESULT_NOT_KEPT;
    return answer;
}

/* As for the holder's own key, whose hashes these are. */
static struct once_answer decide_as_own(struct record *holder, const struct once_question *question)
{
    struct once_answer answer = {.act = ONCE_NOTHING};
    struct record_begin begin = *question->begin;
    begin.payload_hash = holder->payload_hash;
    begin.target_hash = holder->target_hash;
    answer.verdict =
        record_begin(holder, &begin, question->world, question->next_token, &answer.changed);
    if (answer.verdict == RECORD_PROCEED || answer.verdict == RECORD_ASK)
        answer.act = ONCE_CONTINUE;
    return answer;
}

/* Lapsed, unknown, or released in doubt: it may have happened, under the holder's key. */
static struct once_answer decide_in_doubt(struct record *holder,
                                          const struct once_question *question)
{
    if (record_policy(holder, question->begin->unknown) == RECORD_UNKNOWN_HOLD)
        return decide_as_own(holder, question);
    if (question->recipe_differs)
        return say(RECORD_OTHER_RECIPE);
    return question->same ? decide_as_own(holder, question) : say(RECORD_OUTCOME_UNKNOWN);
}

static struct once_answer decide(struct record *holder, const struct once_question *question)
{
    if (record_is_gone(holder, question->world->now) || holder->status == RECORD_FAILED)
        return (struct once_answer){.act = ONCE_TAKE};
    if (holder->status == RECORD_COMPLETE)
        return decide_complete(holder, question);
    enum record_lease lease = record_lease(holder, question->world, NULL);
    bool same_attempt =
        memcmp(holder->attempt_id, question->begin->attempt_id, RECORD_ATTEMPT_ID_SIZE) == 0;
    if (lease != RECORD_LEASE_NONE && same_attempt)
        return say(holder->probing ? RECORD_ASK : RECORD_PROCEED);
    if (lease == RECORD_LEASE_LIVE)
        return say(RECORD_IN_PROGRESS);
    if (record_in_doubt(holder, lease))
        return decide_in_doubt(holder, question);
    return (struct once_answer){.act = ONCE_REPLACE};
}

struct once_answer once_decide(struct record *holder, const struct once_question *question)
{
    struct once_answer answer = decide(holder, question);
    bool begins = answer.act == ONCE_TAKE || answer.act == ONCE_REPLACE;
    return begins && question->begin->spent ? say(RECORD_OUTCOME_UNKNOWN) : answer;
}
