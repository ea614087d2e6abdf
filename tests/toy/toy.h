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

#endif
