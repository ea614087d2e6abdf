/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trial: whether what the probe of a rule finds is believed. A list responds 200 to a filter that
 * nothing fits, and such a service finds whatever it is asked for. So before a process believes
 * what a probe finds, it asks once, for a key that cannot exist:
 *
 *    due --not found, or anything else of the key--> passed
 *      `-- found -----------------------------------> failed: nothing it finds is believed
 *
 * A response that is about the caller or the moment (401, 403, 407, 408, 429, 5xx, none) says
 * nothing, and the next probe tries again. A rule of another config is tried anew.
 */
#ifndef PAWL_CORE_TRIAL_H
#define PAWL_CORE_TRIAL_H

#include "base/log.h"
#include "core/request/rule.h"

enum trial {
    TRIAL_DUE,
    TRIAL_PASSED,
    TRIAL_FAILED,
};

/* `rule` is one of `set`, here and below. */
enum trial trial_of(const struct rule_set *set, const struct rule *rule);

/* Not where the target of the probe has no {key}, or a value of the request beside it, by which the
 * service may find what exists. */
bool trial_is_possible(const struct rule *rule);

/* It is, and was not tried yet. */
bool trial_is_due(const struct rule_set *set, const struct rule *rule);

/* How the service responded to it. */
struct trial_end {
    enum exchange_end end;
    int status;
    bool not_found;
};

/* Notes it, and logs it unless nothing was found. */
void trial_ends(struct rule_set *set, const struct rule *rule, struct trial_end end,
                struct log *log);

#endif
