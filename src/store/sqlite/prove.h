/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a file is a whole SQLite store, and what it holds: of a backup (copy.h) or one in use. */
#ifndef PAWL_STORE_SQLITE_PROVE_H
#define PAWL_STORE_SQLITE_PROVE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#define SQLITE_PROOF_PROBLEM_SIZE 512
#define SQLITE_PROOF_IDENTITY_SIZE 17

struct sqlite_proof {
    int64_t format;
    bool is_today; /* today's format: only then its records are known */
    int64_t bytes;
    int64_t token;
    int64_t time;
    char identity[SQLITE_PROOF_IDENTITY_SIZE]; /* the same of all copies of one store */
    int64_t running;                           /* records: an owner has them, */
    int64_t released;                          /* known not to be done, */
    int64_t unknown;
    int64_t complete;
    int64_t failed;
    int64_t lost;  /* that their keys do not lead to: a repeat would run again */
    int64_t tasks; /* of queue, deliveries and events to handle */
    char problem[SQLITE_PROOF_PROBLEM_SIZE]; /* one line: why it is none that is whole */
};

/* Reads all of a file, which may be in use, and changes nothing in it. Whether it is a whole store.
 */
bool sqlite_prove(const char *path, struct sqlite_proof *ret_proof);

/* Opens a store only to read it, for the caller to close. A copy that nobody uses is read as it is,
 * so that nothing is made beside it. NULL: it cannot be opened. */
sqlite3 *sqlite_prove_open(const char *path);

#endif
