/* SPDX-License-Identifier: Apache-2.0 */
/* What a config means on this machine: what `serve` would fail on, and what its store holds. */
#ifndef PAWL_DAEMON_CHECK_H
#define PAWL_DAEMON_CHECK_H

#include "daemon/part.h"
#include "store/store.h"

/* Whether `serve` could start: limits fit, each part could, and the store (NULL: the default one)
 * is in a folder that is there. Nothing is opened or made. False: `*ret_problem` (mem_free) is one
 * line that says why. */
bool check_start(const struct part *const *parts, const struct config *config,
                 const char *store_path, char **ret_problem);

/* Whether the rules can be kept with the store (NULL: the default one): a participant needs a
 * database. False: as check_start. */
bool check_store_fits(const struct config *config, const char *store_path, char **ret_problem);

/* Whether it is to be told of: there is one, and the config does not `allow` its class. */
bool check_weakness_is_told(const struct weakness *weakness, const struct config *config);
/* Appends what it is and its class; or how it was accepted. */
void check_weakness_write(const struct weakness *weakness, struct buf *line);

/* Calls `report` with a line for each rule that the store has records of and that the config
 * neither has nor names `formerly`: their retries run again. Looks at the oldest and the newest
 * records only, so that it takes the same time however many there are. From a thread that may
 * block. */
void check_rules_known(struct store *store, const struct config *config,
                       void (*report)(void *argument, struct slice line), void *argument);

/* Whether the records of the store are named by what the rules' keys are made of, or may be from
 * now on: engine/identities.h. `before` (NULL: none) is the config in force: where nothing of it
 * changes the store is not asked. From a thread that may block. False: as check_start. */
bool check_adopt_identities(struct store *store, const struct config *config,
                            const struct config *before, char **ret_problem);

/* Whether it would be, by a store that nobody has open here; no store, or none that opens: true. */
bool check_identities_of(const char *store_path, const struct config *config, char **ret_problem);

/* Calls `report` with a line for each endpoint that deliveries wait for, and each source whose
 * events do, that neither the config nor any living process has: at most 8 of each. From a thread
 * that may block. */
void check_lanes_served(struct store *store, const struct config *config,
                        void (*report)(void *argument, struct slice line), void *argument);

/* The same as both, of a store file that nobody has open here; no file, or none that opens:
 * nothing. */
void check_store_of(const char *store_path, const struct config *config,
                    void (*report)(void *argument, struct slice line), void *argument);

#endif
