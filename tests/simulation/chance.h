/* SPDX-License-Identifier: Apache-2.0 */
/* Chance of the simulations: the same in each run of a seed (splitmix64). */
#ifndef PAWL_TESTS_SIMULATION_CHANCE_H
#define PAWL_TESTS_SIMULATION_CHANCE_H

#include <stdint.h>

/* One of 0 to n - 1; `*random` goes on. */
static inline uint64_t chance_draw(uint64_t *random, uint64_t n)
{
    *random += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = *random;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % n;
}

#endif
