/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "cli/command.h"
#include "cli/demo.h"
#include "core/errors.h"
#include "daemon/daemon.h"
#include <getopt.h>
#include <stdio.h>
#include <string.h>

static const char help[] =
    "usage: pawl serve -c FILE [-t] [--store PATH] [--demo]\n\n"
    "Runs the gateway. SIGTERM and SIGINT stop accepting, let running requests end, and exit 0; a\n"
    "second one ends it at once. SIGHUP reads the config again; a bad one is refused, and the old\n"
    "one goes on.\n\n"
    "  -c, --config FILE  the config, YAML\n"
    "  -t, --test         check the config, print its warnings, and exit\n"
    "      --store PATH   the SQLite file of the records (default: `store:` of the config,\n"
    "                     $PAWL_STORE, $XDG_STATE_HOME/pawl/pawl.db)\n"
    "      --demo         also start `pawl demo` at the config's upstream address; it outlives\n"
    "                     the gateway and is found again at the next start\n"
    "  -h, --help         this text\n\n"
    "exit codes: 0 done, 2 usage or config, 69 store or address not available, 74 stopped after a\n"
    "disk error\n";

struct options {
    const char *config;
    const char *store;
    bool test;
    bool demo;
};

static int parse(int argc, char **argv, struct options *options)
{
    static const struct option longs[] = {
        {"config", required_argument, NULL, 'c'}, {"test", no_argument, NULL, 't'},
        {"store", required_argument, NULL, 's'},  {"demo", no_argument, NULL, 'd'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};
    int c;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":c:th", longs, NULL)) != -1) {
        switch (c) {
        case 'c':
            options->config = optarg;
            break;
        case 't':
            options->test = true;
            break;
        case 's':
            options->store = optarg;
            break;
        case 'd':
            options->demo = true;
            break;
        case 'h':
            fputs(help, stdout);
            return -1;
        case ':':
            return command_misused("serve", "%s needs a value", argv[optind - 1]);
        default:
            return command_misused("serve", "there is no option %s", argv[optind - 1]);
        }
    }
    if (optind < argc)
        return command_misused("serve", "takes no argument `%s`", argv[optind]);
    if (!options->config)
        return command_misused("serve", "needs a config: -c FILE");
    return EXIT_DONE;
}

static char *store_path(const struct options *options, const struct config *config)
{
    if (!options->store && config->store.len > 0)
        return mem_copy(config->store.at, config->store.len);
    return command_store_path(options->store, true);
}

static int run(const struct options *options, const struct config *config)
{
    char *path MEM_AUTO = store_path(options, config);
    if (!path)
        return command_misused("serve", "no place for the store: give --store or $PAWL_STORE");
    if (options->demo && !demo_ensure(&config->upstream, path))
        return EXIT_UNAVAILABLE;
    if (options->demo)
        demo_print_lines(&config->listen);
    return daemon_run(&(struct daemon_options){options->config, config, path});
}

static void say_good(const char *path, const struct config *config)
{
    printf("%s: the config is good\n", path);
    if (config->reminders.len > 0)
        fprintf(stderr, "pawl serve: to think of:\n%.*s", SLICE_ARG(config->reminders));
}

int command_serve(int argc, char **argv)
{
    struct options options = {0};
    int code = parse(argc, argv, &options);
    if (code != EXIT_DONE)
        return code < 0 ? EXIT_DONE : code;
    char *complaints MEM_AUTO = NULL;
    struct config *config = config_read(options.config, &complaints);
    if (complaints && *complaints)
        fprintf(stderr, "%s%s", config ? "pawl serve: warnings:\n" : "", complaints);
    if (!config)
        return EXIT_USAGE;
    if (options.test)
        say_good(options.config, config);
    else
        code = run(&options, config);
    config_free(config);
    return code;
}
