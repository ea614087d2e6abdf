/* SPDX-License-Identifier: Apache-2.0 */
#include "http/call/resolver.h"

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
#include "base/slice.h"
#include <stdio.h>
#include <stdlib.h>

#define LINE_SIZE 4096
#define ADDRESS_SIZE 64

static void ask_address(struct slice text, const char *port, struct addrinfo **ret_found)
{
    char address[ADDRESS_SIZE];
    snprintf(address, sizeof address, "%.*s", SLICE_ARG(text));
    CHECK(ask_system(address, port, AI_NUMERICHOST, ret_found) == 0);
}

/* False: the file does not name it. The addresses of its line, in their order: each is a list of
 * one. */
static bool ask_file(const char *path, const char *host, const char *port,
                     struct addrinfo **ret_found)
{
    char line[LINE_SIZE];
    bool is_named = false;
    struct addrinfo **end = ret_found;
    FILE *file = fopen(path, "re");
    *ret_found = NULL;
    while (file && !is_named && fgets(line, sizeof line, file)) {
        struct slice word, rest;
        slice_cut(slice_of(line), '\n', &rest);
        rest = slice_cut(rest, ' ', &word);
        is_named = slice_eq(word, slice_of(host));
        while (is_named && rest.len > 0) {
            rest = slice_cut(rest, ' ', &word);
            ask_address(word, port, end);
            end = &(*end)->ai_next;
        }
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
