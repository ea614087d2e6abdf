/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "cli/command/command.h"
#include "cli/demo.h"
#include "cli/lib/store_path.h"
#include "daemon/check.h"
#include "daemon/daemon.h"
#include "daemon/parts/parts.h"
#include <stdio.h>
#include <stdlib.h>

struct options {
    const char *config;
    const char *store;
    bool test;
    bool strict;
    bool warned;
    bool demo;
};

/* NULL: no home directory, or no memory. */
static char *store_path(const struct options *options, const struct config *config)
{
    bool in_config = !options->store && config->store.len > 0;
    char *found MEM_AUTO = in_config ? mem_copy(config->store.at, config->store.len)
                                     : store_path_find(options->store, true);
    return found ? store_path_real(found) : NULL;
}

static int serve_config(const struct options *options, const struct config *config)
{
    char *path MEM_AUTO = store_path(options, config);
    if (!path)
        return command_misused("serve", "no store: use --store or $PAWL_STORE");
    if (options->demo && !demo_ensure(config, path))
        return EXIT_UNAVAILABLE;
    if (options->demo)
        demo_print_lines(&config->listen);
    return daemon_run(&(struct daemon_options){product_parts, options->config, config, path});
}

static void print_config_warning(void *argument, struct slice line)
{
    struct options *options = argument;
    options->warned = true;
    daemon_say_warning(NULL, line);
}

/* All that can be said without starting. The store of no name is made by whoever starts. */
static int test_config(struct options *options, const struct config *config)
{
    bool named = options->store || config->store.len > 0 || getenv("PAWL_STORE");
    char *path MEM_AUTO = named ? store_path(options, config) : NULL;
    char *problem MEM_AUTO = NULL;
    if ((named && !path) || !check_start(product_parts, config, path, &problem))
        return command_failed("serve", EXIT_UNAVAILABLE, "%s", problem ? problem : "out of memory");
    if (path && !check_identities_of(path, config, &problem))
        return command_failed("serve", EXIT_UNAVAILABLE, "%s", problem ? problem : "out of memory");
    if (path)
        check_store_of(path, config, print_config_warning, options);
    daemon_say_notes(config);
    if (options->strict && options->warned)
        return command_failed("serve", EXIT_FINAL_ERROR,
                              "%s: configuration has warnings; `allow:` takes those that are meant",
                              options->config);
    printf("%s: configuration OK\n", options->config);
    return EXIT_DONE;
}

static int run_serve(const struct command *command, struct operands at)
{
    struct options options = {0};
    int code = command_read(command, &at, &options);
    if (code != EXIT_DONE)
        return code;
    if (options.strict && !options.test)
        return command_misused("serve", "--strict goes with --test");
    char *complaints MEM_AUTO = NULL;
    struct config_sections sections = part_sections(product_parts);
    struct config *config = config_read(options.config, &sections, &complaints);
    options.warned = complaints && *complaints;
    if (options.warned)
        fprintf(stderr, "%s%s", config ? "pawl serve: warnings:\n" : "", complaints);
    if (!config)
        return EXIT_USAGE;
    code = options.test ? test_config(&options, config) : serve_config(&options, config);
    config_free(config);
    return code;
}

/* ---- the row ---- */

#define OPTIONS struct options
const struct command command_serve = {
    .name = "serve",
    .summary = "run the gateway, a reverse proxy that makes retried requests happen once",
    .synopsis = "-c FILE [-t [--strict]] [--store PATH] [--demo]",
    .about = "Runs the gateway. SIGTERM or SIGINT ends it once its running requests have ended, a "
             "second one at once. SIGHUP reloads the config; an invalid one changes nothing.",
    .needs_first = true,
    .flags = FLAGS(
        FLAG_CONFIG(config),
        SWITCH(
            test, "test", 't',
            "check the config, print its warnings, and exit; the store and ports are not tested"),
        SWITCH(strict, "strict", 0, "with --test: exit with 1 if there are warnings"),
        FLAG(store, "store", 0, "PATH", ANY,
             "the SQLite file of the records, or postgres://USER@HOST/DATABASE (default: store: of "
             "the config, $PAWL_STORE, $XDG_STATE_HOME/pawl/pawl.db)"),
        SWITCH(demo, "demo", 0,
               "also start `pawl demo` at the config's upstream address; it outlives the gateway, "
               "and the next start uses it")),
    .exits = {{EXIT_FINAL_ERROR, "a warning (--test --strict)"},
              {EXIT_USAGE, NULL},
              {EXIT_UNAVAILABLE, "the store or an address is not available"},
              {EXIT_FAIL_STOP, NULL}},
    .run = run_serve,
};
