/* SPDX-License-Identifier: Apache-2.0 */
/* The demo upstream as a process of its own, for `pawl serve --demo`. */
#ifndef PAWL_CLI_DEMO_H
#define PAWL_CLI_DEMO_H

#include "config/config.h"

/* Sees to a demo at `address`: one that listens already is used again, else one is started in a
 * session of its own, with its ledger beside the store. False: it did not come up; said on stderr.
 */
bool demo_ensure(const struct config *config, const char *store_path);

/* Prints the curl lines to try against the gateway at `listen`. */
void demo_print_lines(const struct url_authority *listen);

#endif
