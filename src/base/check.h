/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assertions that stay on. CHECK states what this program believes of itself; it is never used on
 * bytes that came from outside (those get an error answer). A belief that proves wrong ends the
 * process with one line on stderr: a gateway that guards money stops rather than guesses.
 */
#ifndef PAWL_BASE_CHECK_H
#define PAWL_BASE_CHECK_H

/* Prints the place and the belief, then aborts. */
_Noreturn void check_failed(const char *file, int line, const char *belief);

#define CHECK(belief)                                                                              \
    do {                                                                                           \
        if (__builtin_expect(!(belief), 0))                                                        \
            check_failed(__FILE__, __LINE__, #belief);                                             \
    } while (0)

#define UNREACHABLE() check_failed(__FILE__, __LINE__, "unreachable code")

#endif
