/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The toy backend: what a backend has to do (store/backend.h) and nothing else, as an array of rows
 * behind a mutex. It holds no lock between load and save, so that save compares. Several backends
 * over one array stand for several processes; the array goes with the last of them.
 */
#ifndef PAWL_TESTS_TOY_H
#define PAWL_TESTS_TOY_H

#include "store/backend.h"

/* Over the array of `with`; NULL: over one of its own. */
struct backend *toy_open(struct backend *with);

/* What the array has now, to be put in its place later, as often as wanted: a store that goes back.
 * Time goes on, no token and no version comes again (both stores lift them to the clock), and which
 * processes live is known as it was: that is in no store. */
struct toy_copy;
struct toy_copy *toy_keep(struct backend *backend);
void toy_put_back(struct backend *backend, const struct toy_copy *copy);
/* Accepts NULL. */
void toy_drop(struct toy_copy *copy);

#endif
