/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "cli/command.h"
#include "cli/demo.h"
#include "cli/print.h"
#include "cli/store_path.h"
#include "daemon/daemon.h"
#include <stdio.h>

struct options {
    const char *config;
    const char *store;
    bool test;
    bool demo;
};

static int take(void *to, enum flag_id flag, const struct flag_value *value)
{
    struct options *options = to;
    switch (flag) {
    case FLAG_CONFIG:
        options->config = value->text;
        break;
    case FLAG_TEST:
        options->test = true;
        break;
    case FLAG_SERVE_STORE:
        options->store = value->text;
        break;
    case FLAG_DEMO:
        options->demo = true;
        break;
    default:
        break;
    }
    return EXIT_DONE;
}

/* NULL: no home directory, or no memory. */
static char *store_path(const struct options *options, const struct config *config)
{
    bool in_config = !options->store && config->store.len > 0;
    char *found MEM_AUTO = in_config ? mem_copy(config->store.at, config->store.len)
                                     : store_path_find(options->store, true);
    return found ? store_path_real(found) : NULL;
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
    struct operands at = {argc, argv};
    struct options options = {0};
    int code = command_read(COMMAND_serve, &at, take, &options);
    if (code != EXIT_DONE)
        return command_end(COMMAND_serve, code);
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
    return print_flush("serve", code);
}
