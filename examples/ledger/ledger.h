/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger: the commands of the credit ledger, as a table. A command is one SQL statement that makes
 * its rows and returns the response, JSON; service.c runs it in a transaction with its record
 * (tier 1) and its row of the audit.
 *
 * Parameters: $1 the merchant, then the fields in their order, as text.
 */
#ifndef LEDGER_H
#define LEDGER_H

#include <stdint.h>

#define FIELDS_MAX 5

/* By what a duplicate is known. */
enum pattern {
    NATURAL_KEY,  /* A, C: the field `key`, for ever: the first response again */
    EXPLICIT_KEY, /* B: idempotency_key, for 24 hours: the first response again */
    CONSTRAINT,   /* tier 2: a unique constraint: an error with the row that is there */
    REPEATABLE,   /* tier 2: a second time changes nothing: the row as it is */
};

struct command {
    const char *name;
    enum pattern pattern;
    const char *key;                /* NATURAL_KEY: which field */
    const char *fields[FIELDS_MAX]; /* all are required; NULL behind the last */
    const char *sql;                /* returns one row: the response; none: it cannot be done */
    const char *existing;           /* then: the row that is in the way; none: 404 */
    const char *after; /* $1 the response: in a transaction of its own, once that has committed */
    const char *live;  /* $1 the response: status and seconds left, told beside it as of now */
};

/* NULL behind the last name. */
extern const struct command commands[];

#endif
