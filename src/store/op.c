/* SPDX-License-Identifier: Apache-2.0 */
#include "store/op.h"

struct digest store_once_hash(const struct digest_key *key, struct slice tenant, struct slice rule,
                              struct slice text)
{
    /* A fourth part: no key has this hash. */
    const struct slice parts[] = {SLICE("once"), tenant, rule, text};
    return digest_keyed(key, parts, 4);
}
