/* SPDX-License-Identifier: Apache-2.0 */
/* SQLite's functions: of the library; in the loadable extension those of the program that loads it,
 * which may have an SQLite of its own. */
#ifndef PAWL_STORE_SQLITE_API_H
#define PAWL_STORE_SQLITE_API_H

#ifdef PAWL_EXTENSION
#include <sqlite3ext.h>
SQLITE_EXTENSION_INIT3
#else
#include <sqlite3.h>
#endif

#endif
