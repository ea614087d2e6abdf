/* SPDX-License-Identifier: Apache-2.0 */
/*
 * held: a stored endpoint that this version cannot read, as a newer one or a person wrote it. Its
 * deliveries are made, and wait for whoever can read it; so that they are those that it wants, in
 * its order, of its settings is read what can be. What cannot be read of them is as if it wanted
 * all, one after the other: what it does not want ends when it is met.
 */
#ifndef PAWL_WEBHOOK_HELD_H
#define PAWL_WEBHOOK_HELD_H

#include "base/arena.h"
#include "webhook/settings.h"

/* Its name, types, tenants, order and profile; texts are in the arena or in `settings`. False: no
 * memory. */
bool held_endpoint_read(struct slice name, struct slice settings, struct arena *arena,
                        struct webhook_endpoint *ret_endpoint);

#endif
