/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/limits.h"

#include "gateway/gateway.h"
#include "gateway/plan.h"
#include "http/server.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#define DESCRIPTORS_OF_A_LOOP 4 /* listener, epoll, eventfd, and one to spare */
#define DESCRIPTORS_OTHER 128   /* store, log, signals, admin listener, libraries */
#define MAPPINGS_OTHER 2048     /* the program, its libraries, allocators */
#define MAPPINGS_OF_A_FIBER 2   /* stack and guard page */
#define FIBERS_OF_A_LOOP (16 + HTTP_TURNED_AWAY_MAX)
#define MAP_COUNT "/proc/sys/vm/max_map_count"
#define PROBLEM_MAX ((size_t)512)

static bool complain_of_limit(char **ret_problem, size_t needed, uint64_t given, const char *what)
{
    struct buf text = buf_make(PROBLEM_MAX);
    buf_printf(&text, what, needed, (unsigned long long)given);
    *ret_problem = buf_take(&text);
    return false;
}

static bool descriptors_fit(const struct config *config, char **ret_problem)
{
    struct rlimit limit;
    const struct gateway_settings *gateway = &config->gateway;
    size_t needed =
        gateway->max_connections + HTTP_SLOTS_SPARE + gateway->max_in_flight +
        gateway_loops(gateway) * (PLAN_IDLE_MAX + DESCRIPTORS_OF_A_LOOP + HTTP_TURNED_AWAY_MAX) +
        DESCRIPTORS_OTHER;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return true;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max == RLIM_INFINITY || needed <= limit.rlim_max)
        return true;
    return complain_of_limit(
        ret_problem, needed, limit.rlim_max,
        "max_connections, max_in_flight and threads need up to %zu open files, and "
        "this process may have %llu (lower them, or raise `ulimit -Hn`, LimitNOFILE= "
        "of systemd)");
}

/* 0: not known. */
static unsigned long long mappings_allowed(void)
{
    char text[32] = "";
    FILE *file = fopen(MAP_COUNT, "re");
    if (!file)
        return 0;
    bool got = fgets(text, sizeof text, file);
    fclose(file);
    return got ? strtoull(text, NULL, 10) : 0;
}

static bool mappings_fit(const struct config *config, char **ret_problem)
{
    unsigned long long allowed = mappings_allowed();
    size_t fibers = config->gateway.max_connections + HTTP_SLOTS_SPARE +
                    gateway_loops(&config->gateway) * FIBERS_OF_A_LOOP;
    size_t needed = fibers * MAPPINGS_OF_A_FIBER + MAPPINGS_OTHER;
    if (allowed == 0 || needed <= allowed)
        return true;
    return complain_of_limit(
        ret_problem, needed, allowed,
        "max_connections needs up to %zu memory mappings, and a process may have %llu "
        "(lower it, or raise `sysctl vm.max_map_count`)");
}

bool limits_fit(const struct config *config, char **ret_problem)
{
    return !config_has_gateway(config) ||
           (mappings_fit(config, ret_problem) && descriptors_fit(config, ret_problem));
}
