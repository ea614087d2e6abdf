/* SPDX-License-Identifier: Apache-2.0 */
/* Random bytes from the kernel (getrandom), small numbers of them in advance, a thread and a
 * process for itself. Ends the process when the kernel has none to give. */
#ifndef PAWL_BASE_RANDOM_H
#define PAWL_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

void random_bytes(void *ret_bytes, size_t n);
uint64_t random_u64(void);
/* For what is told apart by a number: above 0, and hardly ever the same twice. */
int64_t random_id(void);

#endif
