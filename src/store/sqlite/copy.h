/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy: copies the file of an SQLite store beside the processes that use it, as it is at one
 * moment.
 *
 *      TO.partial --all pages, sync--> named TO, sync of the folder
 *
 * So TO is whole or not there, and what is there already is never replaced. An interrupted copy
 * leaves TO.partial, which the next one writes anew; of two at a time the second is refused. All
 * pages are read in one transaction: writers go on meanwhile, but their write-ahead log cannot
 * begin anew before it ends, and grows.
 *
 * What was acknowledged before `time` of a copy is in it, by the store's own clock.
 */
#ifndef PAWL_STORE_SQLITE_COPY_H
#define PAWL_STORE_SQLITE_COPY_H

#include <stdbool.h>
#include <stdint.h>

#define SQLITE_COPY_PROBLEM_SIZE 512

enum sqlite_copy_result {
    SQLITE_COPY_MADE,
    SQLITE_COPY_IN_USE, /* another one writes it */
    SQLITE_COPY_FAILED,
};

struct sqlite_copy {
    int64_t bytes;
    int64_t token;                          /* the last one that was given out, */
    int64_t time;                           /* and store time, as the copy has them */
    char problem[SQLITE_COPY_PROBLEM_SIZE]; /* one line, where it was not made */
};

/* Copies the store `from`, of any format that this pawl reads. */
enum sqlite_copy_result sqlite_copy_store(const char *from, const char *to,
                                          struct sqlite_copy *ret_copy);

/* What the copy of a store is called that was made before its format changed, for the caller to
 * free: PATH.before-FORMAT. NULL: no memory. */
char *sqlite_copy_name(const char *path, int64_t format);

/* Copies before the store is changed for good, by whoever keeps all writers out. What is there
 * already is taken for the copy if it is of this very moment: of one that was stopped in between.
 */
enum sqlite_copy_result sqlite_copy_keep(const char *from, const char *to,
                                         struct sqlite_copy *ret_copy);

#endif
