/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inside: the calls of include/pawl/pawl.h, inside a transaction that is the application's.
 *
 *      pawl.c       the calls themselves: what is the same on both databases
 *      sqlite.c     on SQLite: the operations of store/direct.h; sqlite_rows.c: those on rows
 * beside records (machines, events) postgres.c   on PostgreSQL: the schema's functions headers.c
 * headers as JSON, and as the lines that are stored names.c      what a key, a rule, an id may be
 *
 * What a call returns in pointers lies in `texts` until the next call.
 */
#ifndef PAWL_INSIDE_INSIDE_H
#define PAWL_INSIDE_INSIDE_H

#include "base/arena.h"
#include <pawl/pawl.h>

#define INSIDE_PROBLEM_SIZE 512

struct inside_ops {
    enum pawl_error (*install)(struct pawl *pawl);
    enum pawl_error (*begin)(struct pawl *pawl, const struct pawl_operation *operation,
                             struct pawl_begun *ret_begun);
    enum pawl_error (*complete)(struct pawl *pawl, int64_t token,
                                const struct pawl_outcome *outcome, bool *ret_already);
    enum pawl_error (*release)(struct pawl *pawl, int64_t token, bool *ret_already);
    enum pawl_error (*lock)(struct pawl *pawl, const char *tenant, const char *rule,
                            const char *const *keys, size_t n);
    enum pawl_error (*claim)(struct pawl *pawl, const struct pawl_claim *claim,
                             struct pawl_claimed *ret_claimed);
    enum pawl_error (*transition)(struct pawl *pawl, const struct pawl_action *action,
                                  struct pawl_transition *ret_transition);
    enum pawl_error (*publish)(struct pawl *pawl, const struct pawl_event *event,
                               bool *ret_already);
    enum pawl_error (*receive)(struct pawl *pawl, const struct pawl_incoming *incoming,
                               struct pawl_received *ret_received);
    void (*close)(struct pawl *pawl);
};

/* Begins what each of the two is. */
struct pawl {
    const struct inside_ops *ops;
    struct arena texts;
    char problem[INSIDE_PROBLEM_SIZE];
};

/* Notes what is wrong, cut off, and returns `error`. */
enum pawl_error inside_fail(struct pawl *pawl, enum pawl_error error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
