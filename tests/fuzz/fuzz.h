/* SPDX-License-Identifier: Apache-2.0 */
/* What every fuzz target has: libFuzzer's entry, which replay.c calls too. */
#ifndef PAWL_FUZZ_H
#define PAWL_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

#endif
