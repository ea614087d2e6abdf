/* SPDX-License-Identifier: Apache-2.0 */
#include "http/resolver.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

static int ask_system(const char *host, const char *port, int flags, struct addrinfo **ret_found)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags};
    *ret_found = NULL;
    return getaddrinfo(host, port, &hints, ret_found);
}

#ifdef PAWL_HOOKS
#include "base/check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_SIZE 4096

/* The addresses of a line, in its order: each is a list of one. */
static void read_addresses(char *rest, const char *port, struct addrinfo **ret_found)
{
    struct addrinfo **end = ret_found;
    for (char *word; (word = strtok_r(NULL, " \n", &rest)); end = &(*end)->ai_next)
        CHECK(ask_system(word, port, AI_NUMERICHOST, end) == 0);
}

/* False: the file does not name it. */
static bool ask_file(const char *path, const char *host, const char *port,
                     struct addrinfo **ret_found)
{
    char line[LINE_SIZE];
    bool is_named = false;
    FILE *file = fopen(path, "re");
    *ret_found = NULL;
    while (file && !is_named && fgets(line, sizeof line, file)) {
        char *rest = NULL;
        const char *name = strtok_r(line, " \n", &rest);
        is_named = name && strcmp(name, host) == 0;
        if (is_named)
            read_addresses(rest, port, ret_found);
    }
    if (file)
        fclose(file);
    return is_named;
}

int resolver_ask(const char *host, const char *port, struct addrinfo **ret_found)
{
    const char *path = getenv("PAWL_TEST_HOSTS");
    if (path && ask_file(path, host, port, ret_found))
        return *ret_found ? 0 : EAI_NONAME;
    return ask_system(host, port, 0, ret_found);
}
#else
int resolver_ask(const char *host, const char *port, struct addrinfo **ret_found)
{
    return ask_system(host, port, 0, ret_found);
}
#endif
