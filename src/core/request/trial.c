/* SPDX-License-Identifier: Apache-2.0 */
#include "core/request/trial.h"

enum trial trial_of(const struct rule_set *set, const struct rule *rule)
{
    return (enum trial)atomic_load(&set->trials[rule - set->rules]);
}

bool trial_is_possible(const struct rule *rule)
{
    return template_uses(&rule->probe, TEMPLATE_KEY) && !template_not_kept(&rule->probe);
}

bool trial_is_due(const struct rule_set *set, const struct rule *rule)
{
    return trial_of(set, rule) == TRIAL_DUE && trial_is_possible(rule);
}

static enum trial judge_trial(struct trial_end end)
{
    int status = end.status;
    if (end.end != EXCHANGE_RESPONDED)
        return TRIAL_DUE;
    if (!end.not_found && status >= 200 && status < 300)
        return TRIAL_FAILED;
    bool is_of_now = status >= 500 || status == 401 || status == 403 || status == 407 ||
                     status == 408 || status == 429;
    return end.not_found || !is_of_now ? TRIAL_PASSED : TRIAL_DUE;
}

void trial_ends(struct rule_set *set, const struct rule *rule, struct trial_end end,
                struct log *log)
{
    enum trial trial = judge_trial(end);
    struct log_line line;
    atomic_store(&set->trials[rule - set->rules], (int)trial);
    if (trial == TRIAL_DUE || end.not_found)
        return;
    log_line_start(&line, trial == TRIAL_FAILED ? LOG_LEVEL_ERROR : LOG_LEVEL_WARN, "probe_tried");
    log_line_str(&line, "rule", rule->name);
    log_line_i64(&line, "status", end.status);
    log_line_str(
        &line, "problem",
        trial == TRIAL_FAILED
            ? SLICE("the probe finds a key that cannot exist: nothing it finds is believed")
            : SLICE("for a key that cannot exist the response is neither 404 nor what "
                    "`not_found` names"));
    log_line_end(log, &line);
}
