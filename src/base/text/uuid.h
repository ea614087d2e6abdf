/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a UUID (RFC 9562). */
#ifndef PAWL_BASE_UUID_H
#define PAWL_BASE_UUID_H

#include <stdint.h>

#define UUID_SIZE 37

/* Of these bits, but those of version and variant. */
void uuid_format(unsigned version, uint64_t high, uint64_t low, char ret_text[UUID_SIZE]);

/* A random one, of version 4. */
void uuid_make(char ret_text[UUID_SIZE]);

#endif
