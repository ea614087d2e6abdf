/* SPDX-License-Identifier: Apache-2.0 */
/*
 * identity: what the names of each rule's records are made of (core/identity.h), a row for each
 * rule that a gateway on this store ever had. A change of `made_of` is two commits, each of which
 * raises the epoch (store/tables/terms.h; docs/model/moved.pml):
 *
 *      made_of A             ->  made_of A, becomes B    nobody begins anything by this rule
 *      made_of A, becomes B  ->  made_of B               no record of A was found by then
 *                            ->  made_of A               there was one, or its process died
 */
#ifndef PAWL_STORE_IDENTITY_H
#define PAWL_STORE_IDENTITY_H

#include "store/table.h"

struct store_identity {
    struct table_row row; /* first */
    struct slice rule;
    struct slice made_of;
    struct slice becomes; /* empty: it stays */
};

extern const struct table identity_table;

#endif
