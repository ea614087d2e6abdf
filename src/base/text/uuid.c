/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/uuid.h"

#include "base/crypto/random.h"
#include <stdio.h>

void uuid_format(unsigned version, uint64_t high, uint64_t low, char ret_text[UUID_SIZE])
{
    high = (high & ~UINT64_C(0xf000)) | (uint64_t)version << 12;
    low = (low & ~(UINT64_C(3) << 62)) | UINT64_C(2) << 62;
    snprintf(ret_text, UUID_SIZE, "%08x-%04x-%04x-%04x-%012llx", (unsigned)(high >> 32),
             (unsigned)(high >> 16 & 0xffff), (unsigned)(high & 0xffff), (unsigned)(low >> 48),
             (unsigned long long)(low & UINT64_C(0xffffffffffff)));
}

void uuid_make(char ret_text[UUID_SIZE])
{
    uuid_format(4, random_u64(), random_u64(), ret_text);
}
