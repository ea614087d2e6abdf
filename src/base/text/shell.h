/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shell: words for a command line, quoted so that a shell reads them as they are and a terminal is
 * not steered by them.
 *
 *      safe              as it is       letters, digits and %+,-./:=@_^, beyond ASCII: UTF-8
 *      it's a word       'it'\''s a word'
 *      two<LF>lines      $'two\nlines'  control bytes, and those that are not UTF-8 (POSIX.1-2024)
 */
#ifndef PAWL_BASE_SHELL_H
#define PAWL_BASE_SHELL_H

#include "base/buf.h"

/* Appends one word. */
void shell_add_word(struct buf *buf, struct slice word);

/* Appends words with a space between two; `words` ends with NULL. Of a long line only the beginning
 * is written, `most` bytes of words or a little more, and " ..." behind it. */
void shell_add_line(struct buf *buf, const char *const *words, size_t most);

#endif
