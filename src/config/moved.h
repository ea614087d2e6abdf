/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moved: what a reload takes from rules, by two configs alone, the one in force and the next: paths
 * that meet another rule by now, whose keys are its own, and what a rule compares of a target. How
 * a rule names its records is compared with the store (engine/identities.h). Pure.
 *
 * Each line is one path, of all that two patterns share: if any of them moved from the one rule to
 * the other, this one did.
 */
#ifndef PAWL_CONFIG_MOVED_H
#define PAWL_CONFIG_MOVED_H

#include "config/config.h"

/* Warnings, one for each pair of rules of which a path moved: what the earlier one has stored is
 * not found for it. At most 32; the last one then says that there are more. */
void moved_report_paths(const struct config *before, const struct config *after,
                        void (*report)(void *argument, struct slice line), void *argument);

/* Notes, one for each rule whose `query` or `headers` changed; at most 32, too. */
void moved_report_targets(const struct config *before, const struct config *after,
                          void (*report)(void *argument, struct slice line), void *argument);

#endif
