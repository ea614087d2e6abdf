/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/demo.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cli/command/command.h"
#include "daemon/resolve.h"
#include "demo/server.h"
#include "fiber/child.h"
#include "store/store.h"
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define START_US (INT64_C(10) * CLOCK_US_PER_S)
#define POLL_NS 20000000L
#define TEXT_MAX ((size_t)8192)

static int run_demo(const struct command *command, struct operands at)
{
    struct demo_config config = {.listen = "127.0.0.1:9000", .ledger = "ledger.jsonl"};
    int code = command_read(command, &at, &config);
    return code == EXIT_DONE ? demo_run(&config) : code;
}

static bool is_listening(const struct sockaddr_storage *address)
{
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool listening = fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof *address) == 0;
    if (fd >= 0)
        close(fd);
    return listening;
}

/* It outlives a killed gateway, and its terminal. */
static bool spawn_demo(const char *listen, const char *ledger)
{
    struct child_spec spec = {
        .program = "/proc/self/exe",
        .argv = (const char *const[]){"pawl", "demo", "--listen", listen, "--ledger", ledger, NULL},
        .input = CHILD_INPUT_NONE,
        .group = CHILD_GROUP_SESSION,
    };
    char *problem MEM_AUTO = NULL;
    bool spawned = child_spawn_detached(&spec, &problem);
    if (!spawned)
        fprintf(stderr, "pawl serve: %s\n", problem ? problem : "out of memory");
    return spawned;
}

static bool wait_until_listening(const struct sockaddr_storage *address)
{
    int64_t deadline = clock_boot_us() + START_US;
    while (!is_listening(address)) {
        if (clock_boot_us() >= deadline)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    }
    return true;
}

bool demo_ensure(const struct config *config, const char *store_path)
{
    const struct url_authority *address = &config->upstream;
    struct http_upstream where HTTP_UPSTREAM_AUTO = {0};
    char *problem MEM_AUTO = NULL;
    if (!config_has_gateway(config) || config->upstream_tls.on) {
        fputs("pawl serve: the demo upstream needs `upstream: http://HOST:PORT`, without TLS\n",
              stderr);
        return false;
    }
    if (!resolve_upstream(config, -1, &where, &problem)) {
        fprintf(stderr, "pawl serve: %s\n", problem ? problem : "out of memory");
        return false;
    }
    if (is_listening(&where.addresses.at[0])) {
        fprintf(stderr, "pawl serve: %.*s:%u is in use; no demo upstream is started\n",
                SLICE_ARG(address->host), (unsigned)address->port);
        return true;
    }
    struct buf listen BUF_AUTO = buf_make(TEXT_MAX);
    struct buf ledger BUF_AUTO = buf_make(TEXT_MAX);
    buf_printf(&listen, "%.*s:%u", SLICE_ARG(address->host), (unsigned)address->port);
    buf_add_char(&listen, '\0');
    buf_add_str(&ledger, store_is_url(store_path) ? "pawl-demo" : store_path);
    buf_add(&ledger, ".ledger", sizeof ".ledger");
    bool started = buf_ok(&listen) && buf_ok(&ledger) && spawn_demo(listen.at, ledger.at) &&
                   wait_until_listening(&where.addresses.at[0]);
    if (!started)
        fputs("pawl serve: the demo upstream did not start\n", stderr);
    return started;
}

void demo_print_lines(const struct url_authority *listen)
{
    static const char *const tries[][2] = {
        {"the first attempt makes a refund", "curl -i %s/refunds -H 'Idempotency-Key: k1' -d "
                                             "'{\"charge_id\":\"ch_1\",\"amount\":1000}'"},
        {"again: the same refund, Idempotency-Status: replayed",
         "curl -i %s/refunds -H 'Idempotency-Key: k1' -d "
         "'{\"charge_id\":\"ch_1\",\"amount\":1000}'"},
        {"the key used for something else: 409 payload_mismatch",
         "curl -i %s/refunds -H 'Idempotency-Key: k1' -d "
         "'{\"charge_id\":\"ch_1\",\"amount\":2000}'"},
        {"ten at once: one refund",
         "seq 10 | xargs -P10 -I{} curl -s %s/refunds -H 'Idempotency-Key: k2' -d "
         "'{\"charge_id\":\"ch_2\",\"amount\":500}'"},
        {"the response is lost after the effect: pawl probes the service, and responds with what "
         "it "
         "found",
         "curl -i %s/refunds -H 'Idempotency-Key: k3' -H 'Demo-Fault: lose' -d "
         "'{\"charge_id\":\"ch_3\",\"amount\":700}'"},
        {"what really happened", "curl %s/ledger"},
    };
    char address[300];
    snprintf(address, sizeof address, "%.*s:%u", SLICE_ARG(listen->host), (unsigned)listen->port);
    puts("Try, in another terminal:\n");
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        printf("  # %s\n  ", tries[i][0]);
        printf(tries[i][1], address);
        puts("\n");
    }
    fflush(stdout);
}

/* ---- the row ---- */

#define OPTIONS struct demo_config
const struct command command_demo = {
    .name = "demo",
    .summary = "run a small refund service to try the gateway with",
    .synopsis = "[--listen ADDRESS] [--ledger FILE] [--faults LIST]",
    .about = "Runs a small refund and payment service on loopback, to try the gateway with. It "
             "does not deduplicate: its ledger counts how often something really happened.",
    .flags = FLAGS(FLAG(listen, "listen", 0, "ADDRESS", ANY, "HOST:PORT (default 127.0.0.1:9000)"),
                   FLAG(ledger, "ledger", 0, "FILE", ANY, "default ledger.jsonl"),
                   FLAG(faults, "faults", 0, "LIST", ANY,
                        "faults of every POST, as in the Demo-Fault header: delay=MS, status=CODE, "
                        "lose, lose-before, half")),
    .exits = {{EXIT_FINAL_ERROR, "the ledger or the address cannot be used"}, {EXIT_USAGE, NULL}},
    .run = run_demo,
};
