/* SPDX-License-Identifier: Apache-2.0 */
/*
 * orders: tasks that stay in sequence. Of an order only the first unfinished one has a time at
 * which it is due; those behind it are held, so that nothing looks through what waits.
 *
 *      added   behind the last one, which is touched: its end then sees that something waits
 *      due     but an earlier one is unfinished again: held, and that one is touched
 *      ended   the first of those that are left is freed, or touched where it was not held
 *
 * A task that is moved by what another one of its order is brings that one, too: of two that look
 * at each other one conflicts, and looks again. Else each of two that end together would leave it
 * to the other one to free what waits behind both.
 */
#ifndef PAWL_STORE_ORDERS_H
#define PAWL_STORE_ORDERS_H

#include "store/rows.h"
#include "store/tables/tasks.h"

/* Of a task that waits: it has no time any more; or, where it had none, it is due now. Its own
 * wait, for its next attempt or because somebody said when, is no hold, and stays. False: it is as
 * it was. */
bool order_hold(struct store_task *task);
bool order_free(struct store_task *task, int64_t now);

/* Unfinished tasks of the order that `stored` is in, or is to be added to. `ret_task->row.id` 0:
 * there is none. */

/* The first one, where it comes before `stored`. */
enum store_status order_find_earlier(struct rows *rows, const struct store_task *stored,
                                     struct store_task *ret_task);
/* The last one. */
enum store_status order_find_last(struct rows *rows, const struct store_task *stored,
                                  struct store_task *ret_task);

/* Puts the first one but `stored`, which ends: it is to be saved with that end. */
enum store_status order_put_next(struct rows *rows, const struct store_task *stored);

#endif
