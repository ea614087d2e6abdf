/* SPDX-License-Identifier: Apache-2.0 */
/* handover: what one committer gives to others (sessions.h). */
#ifndef PAWL_STORE_HANDOVER_H
#define PAWL_STORE_HANDOVER_H

#include "store/committer/batch.h"

/* Behind a commit, before its owners are woken: the keys of what ended in it, to those in which a
 * begin waits, or may be about to. */
void handover_ended(struct committer *c, const struct batch *batch);

/* It has no session, and the first one may: that one does what of its queue cannot have been
 * committed, and is given its keys meanwhile. */
void handover_queue(struct committer *c);

#endif
