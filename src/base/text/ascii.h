/* SPDX-License-Identifier: Apache-2.0 */
/* ASCII characters by their class, whatever the locale is. */
#ifndef PAWL_BASE_ASCII_H
#define PAWL_BASE_ASCII_H

#include <stdbool.h>

static inline bool ascii_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline bool ascii_is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static inline bool ascii_is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

static inline bool ascii_is_letter(char c)
{
    return ascii_is_lower(c) || ascii_is_upper(c);
}

static inline bool ascii_is_control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7F;
}

static inline char ascii_lower(char c)
{
    return ascii_is_upper(c) ? (char)(c - 'A' + 'a') : c;
}

#endif
