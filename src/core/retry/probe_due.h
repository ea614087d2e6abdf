/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe_due: when a record in doubt is probed next, in store time, where its rule probes in the
 * background: by the schedule `background` of core/retry/retry.h from the moment the doubt arose
 * on, then hourly; and once at quiet_at, from which on "not found" is believed. It follows from
 * what is stored (the doubt, the last acquisition), so that all processes of a store know the same
 * moment, and a killed one forgets none.
 */
#ifndef PAWL_CORE_PROBE_DUE_H
#define PAWL_CORE_PROBE_DUE_H

#include "core/record.h"

int64_t probe_due(const struct record *record);

#endif
