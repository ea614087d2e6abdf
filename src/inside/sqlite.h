/* SPDX-License-Identifier: Apache-2.0 */
/* sqlite: what the calls on SQLite share. sqlite.c: a connection, and operations under a key;
 * sqlite_rows.c: machines and events. */
#ifndef PAWL_INSIDE_SQLITE_H
#define PAWL_INSIDE_SQLITE_H

#include "inside/inside.h"
#include "store/direct.h"
#include <assert.h>

/* Of calls that add a row every so many first removes rows whose time is over: twice as many. */
#define INSIDE_SWEEP_EACH 16
#define INSIDE_SWEEP (2 * INSIDE_SWEEP_EACH)
static_assert(INSIDE_SWEEP > INSIDE_SWEEP_EACH, "rows whose time is over become fewer");

struct backend;

/* A record that was there before this transaction began it again. */
struct inside_renewed {
    int64_t token;
    int64_t row;
    struct digest key_hash;
};

struct inside_sqlite {
    struct pawl pawl;        /* first: the two are cast into each other */
    struct backend *backend; /* of `direct` */
    struct direct *direct;
    struct digest_key key;
    unsigned char secret[DIGEST_SIZE]; /* of which `key` was made */

    /* What this transaction has begun: tokens from `first` to `last` are its own. */
    int64_t self;
    int64_t first; /* 0: none */
    int64_t last;
    int64_t row; /* of the last one: where it is looked for first */
    struct digest key_hash;
    struct buf renewed; /* of struct inside_renewed: those whose row is not their token's */

    unsigned added; /* calls that add a row, so far */
};
static_assert(offsetof(struct inside_sqlite, pawl) == 0, "pawl is the first member");

static inline struct inside_sqlite *inside_sqlite_of(struct pawl *pawl)
{
    return (struct inside_sqlite *)pawl;
}

/* Before the operations of a call: whether the open transaction can have them. */
enum pawl_error inside_sqlite_enter(struct inside_sqlite *on);

/* Runs one of them. */
enum pawl_error inside_sqlite_run(struct inside_sqlite *on, struct store_op *op);
/* The same of one that adds a row; sometimes it sweeps before. */
enum pawl_error inside_sqlite_add(struct inside_sqlite *on, struct store_op *op);

/* The calls on rows beside records; see <pawl/pawl.h>. */
enum pawl_error inside_sqlite_transition(struct pawl *pawl, const struct pawl_action *action,
                                         struct pawl_transition *ret_transition);
enum pawl_error inside_sqlite_publish(struct pawl *pawl, const struct pawl_event *event,
                                      bool *ret_already);
enum pawl_error inside_sqlite_receive(struct pawl *pawl, const struct pawl_incoming *incoming,
                                      struct pawl_received *ret_received);

#endif
