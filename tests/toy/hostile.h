/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostile: a backend in front of another one, that fails as it is told, and with a seed at random:
 * groups that conflict or are locked, saves that are unsure, written or not.
 */
#ifndef PAWL_TESTS_HOSTILE_H
#define PAWL_TESTS_HOSTILE_H

#include "store/backend.h"

/* Takes over `behind`. `waits`: what is tried again after a while happens, too, and not only
 * conflicts; a store that stands still would not get on. */
struct backend *hostile_over(struct backend *behind, uint64_t seed, bool waits);

#endif
