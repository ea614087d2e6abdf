/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tenant: what is stored for one that is a credential (contract section 3): `credential:` and its
 * keyed hash. People read that, in lists and in the database, so no plain tenant may begin so: who
 * has read it would be that tenant. Pure.
 */
#ifndef PAWL_CORE_TENANT_H
#define PAWL_CORE_TENANT_H

#include "base/slice.h"

#define TENANT_HIDDEN "credential:"

/* Whether a plain tenant would be read as a hidden one. */
static inline bool tenant_is_reserved(struct slice tenant)
{
    return slice_starts(tenant, SLICE(TENANT_HIDDEN));
}

#endif
