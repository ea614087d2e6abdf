/* SPDX-License-Identifier: Apache-2.0 */
#include "inside/inside.h"

#include <assert.h>
#include <stdio.h>

enum pawl_error inside_fail(struct pawl *pawl, enum pawl_error error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(pawl->problem, sizeof pawl->problem, format, arguments);
    va_end(arguments);
    return error;
}

static const struct inside_ops *enter_call(struct pawl *pawl)
{
    pawl->problem[0] = 0;
    arena_reset(&pawl->texts);
    return pawl->ops;
}

const char *pawl_problem(const struct pawl *pawl)
{
    return pawl->problem;
}

void pawl_free(struct pawl *pawl)
{
    if (pawl)
        pawl->ops->close(pawl);
}

enum pawl_error pawl_install(struct pawl *pawl)
{
    return enter_call(pawl)->install(pawl);
}

enum pawl_error pawl_begin(struct pawl *pawl, const struct pawl_operation *operation,
                           struct pawl_begun *ret_begun)
{
    const struct inside_ops *ops = enter_call(pawl);
    *ret_begun = (struct pawl_begun){.token = 0};
    if ((unsigned)operation->duplicate > PAWL_DUPLICATE_ACK)
        return inside_fail(pawl, PAWL_INVALID, "duplicate must be replay, reject or ack");
    return ops->begin(pawl, operation, ret_begun);
}

enum pawl_error pawl_complete(struct pawl *pawl, int64_t token, const struct pawl_outcome *outcome,
                              bool *ret_already)
{
    bool already = false;
    enum pawl_error error = enter_call(pawl)->complete(pawl, token, outcome, &already);
    if (ret_already)
        *ret_already = already;
    return error;
}

enum pawl_error pawl_release(struct pawl *pawl, int64_t token, bool *ret_already)
{
    bool already = false;
    enum pawl_error error = enter_call(pawl)->release(pawl, token, &already);
    if (ret_already)
        *ret_already = already;
    return error;
}

enum pawl_error pawl_lock(struct pawl *pawl, const char *tenant, const char *rule,
                          const char *const *keys, size_t n)
{
    return enter_call(pawl)->lock(pawl, tenant, rule, keys, n);
}

enum pawl_error pawl_claim(struct pawl *pawl, const struct pawl_claim *claim,
                           struct pawl_claimed *ret_claimed)
{
    *ret_claimed = (struct pawl_claimed){.claimed = false};
    return enter_call(pawl)->claim(pawl, claim, ret_claimed);
}

enum pawl_error pawl_transition(struct pawl *pawl, const struct pawl_action *action,
                                struct pawl_transition *ret_transition)
{
    *ret_transition = (struct pawl_transition){.replayed = false};
    return enter_call(pawl)->transition(pawl, action, ret_transition);
}

enum pawl_error pawl_publish(struct pawl *pawl, const struct pawl_event *event, bool *ret_already)
{
    bool already = false;
    enum pawl_error error = enter_call(pawl)->publish(pawl, event, &already);
    if (ret_already)
        *ret_already = already;
    return error;
}

enum pawl_error pawl_receive(struct pawl *pawl, const struct pawl_incoming *incoming,
                             struct pawl_received *ret_received)
{
    *ret_received = (struct pawl_received){.result = NULL};
    return enter_call(pawl)->receive(pawl, incoming, ret_received);
}

const char *pawl_decision_name(enum pawl_decision decision)
{
    static const char *const names[] = {
        [PAWL_PROCEED] = "proceed",
        [PAWL_REPLAY] = "replay",
        [PAWL_OTHER_REQUEST] = "mismatch",
        [PAWL_IN_PROGRESS] = "in_progress",
        [PAWL_OUTCOME_UNKNOWN] = "outcome_unknown",
        [PAWL_RESULT_EXPIRED] = "result_expired",
        [PAWL_RESULT_NOT_KEPT] = "result_not_kept",
        [PAWL_REJECTED] = "duplicate",
        [PAWL_BEGUN_HERE] = "begun_here",
    };
    enum { N = COUNT_OF(names) };
    static_assert(N == PAWL_BEGUN_HERE + 1, "the last decision has a name");
    return (size_t)decision < N && names[decision] ? names[decision] : "none";
}

const char *pawl_move_name(enum pawl_move move)
{
    static const char *const names[] = {[PAWL_MOVED] = "moved",
                                        [PAWL_CONFLICT] = "conflict",
                                        [PAWL_OUTDATED] = "stale",
                                        [PAWL_OTHER_ACTION] = "mismatch"};
    enum { N = COUNT_OF(names) };
    static_assert(N == PAWL_OTHER_ACTION + 1, "the last move has a name");
    return (size_t)move < N && names[move] ? names[move] : "none";
}
