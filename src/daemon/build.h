/* SPDX-License-Identifier: Apache-2.0 */
/*
 * build: which build of pawl this is. Each build has scripts/version look; what is linked with the
 * answer is made again when it has changed, and only the program is: PAWL_VERSION, which the
 * compiler is given, is the number alone, as services and receivers of events see it.
 */
#ifndef PAWL_DAEMON_BUILD_H
#define PAWL_DAEMON_BUILD_H

struct build {
    const char *version; /* "0.2.0", between releases "0.2.0-dev+COMMIT" */
    const char *commit;  /* 40 hex digits, or "unknown" */
};

extern const struct build this_build;

#endif
