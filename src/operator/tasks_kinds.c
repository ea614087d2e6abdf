/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/tasks.h"

const struct tasks_kind tasks_kinds[TASKS_KIND_COUNT] = {
    [TASKS_KIND_QUEUE] = {.name = QUEUE_KIND,
                          .noun = "operation",
                          .nouns = "operations",
                          .lane = "target",
                          .order = "group",
                          .key = "key",
                          .column = "KEY",
                          .heading = "GROUP  REQUEST"},
    [TASKS_KIND_WEBHOOK] = {.name = WEBHOOK_KIND,
                            .noun = "delivery",
                            .nouns = "deliveries",
                            .lane = "endpoint",
                            .order = "order",
                            .key = "event",
                            .column = "EVENT",
                            .heading = "ENDPOINT"},
    [TASKS_KIND_INBOX] = {.name = INBOX_KIND,
                          .noun = "event",
                          .nouns = "events",
                          .lane = "source",
                          .order = "order",
                          .key = "event",
                          .column = "EVENT",
                          .heading = "ORDER  HANDLER"},
};
