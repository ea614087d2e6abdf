/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A refund, once: the key is the refund's own name, so that whoever runs this twice, or after a
 * crash, makes one refund.
 *
 *     cc send_once.c $(pkg-config --cflags --libs pawl) -o send_once
 *     ./send_once http://127.0.0.1:8080/refunds refund-4711 '{"amount":5}' refunds.db
 */
#include <pawl/client.h>

#include <stdio.h>
#include <string.h>

static void report(void *argument, const struct pawl_attempt *attempt)
{
    (void)argument;
    if (attempt->problem)
        fprintf(stderr, "attempt %d: %s\n", attempt->number, attempt->problem);
    else
        fprintf(stderr, "attempt %d: HTTP status %d %s\n", attempt->number, attempt->status,
                attempt->code);
}

static int explain(const struct pawl_response *response)
{
    if (!response) {
        fputs("out of memory\n", stderr);
        return 1;
    }
    if (response->verdict == PAWL_DONE)
        printf("%s%s\n", response->replayed ? "before: " : "", response->body);
    else
        fprintf(stderr, "%s: not known to be done (%d) %s\n", response->key, response->verdict,
                response->problem);
    return response->verdict;
}

int main(int argc, char **argv)
{
    char problem[256];
    if (argc != 5) {
        fputs("usage: send_once URL KEY JSON STORE\n", stderr);
        return PAWL_USAGE;
    }
    struct pawl_store *store = pawl_store_open(argv[4], problem, sizeof problem);
    if (!store) {
        fprintf(stderr, "%s\n", problem);
        return PAWL_UNAVAILABLE;
    }
    struct pawl_request request = {.url = argv[1],
                                   .key = argv[2],
                                   .body = argv[3],
                                   .body_size = strlen(argv[3]),
                                   .is_json = true,
                                   .store = store,
                                   .report = report};
    struct pawl_response *response = pawl_send(&request);
    int code = explain(response);
    pawl_response_free(response);
    pawl_store_close(store);
    return code;
}
