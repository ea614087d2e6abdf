/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl config explain`: the table of options, or what a config makes of it. */
#include "base/mem.h"
#include "cli/command/command.h"
#include "config/explain.h"
#include "daemon/parts/parts.h"
#include <stdio.h>

#define TEXT_MAX ((size_t)64 * 1024 * 1024)

struct explain_options {
    const char *config;
    bool json;
};

static int find_option(const char *name, const struct option **ret_option)
{
    struct config_sections sections = part_sections(product_parts);
    struct slice nearest = {NULL, 0};
    *ret_option = explain_find(&sections, slice_of(name), &nearest);
    if (*ret_option)
        return EXIT_DONE;
    if (nearest.at)
        return command_misused("config explain", "there is no option `%s`; did you mean `%.*s`?",
                               name, SLICE_ARG(nearest));
    return command_misused("config explain", "there is no option `%s`", name);
}

static int print_explained(const struct explain *explain)
{
    if (!buf_ok(explain->to))
        return command_failed("config explain", EXIT_UNAVAILABLE, "out of memory");
    printf("%.*s%s", SLICE_ARG(buf_slice(explain->to)), explain->json ? "\n" : "");
    return EXIT_DONE;
}

static int explain_in_config(const struct explain_options *options, const struct option *option)
{
    BUF_AUTO struct buf text = buf_make(TEXT_MAX);
    char *complaints MEM_AUTO = NULL;
    struct explain explain = {.option = option,
                              .sections = part_sections(product_parts),
                              .json = options->json,
                              .to = &text};
    if (!options->config) {
        explain_reference(&explain);
        return print_explained(&explain);
    }
    bool good = explain_config(&explain, options->config, &complaints);
    if (!good)
        fputs(complaints ? complaints : "pawl config explain: out of memory\n", stderr);
    return good ? print_explained(&explain) : EXIT_USAGE;
}

static int run_explain(const struct command *command, struct operands at)
{
    struct explain_options options = {0};
    const struct option *option = NULL;
    int code = command_read(command, &at, &options);
    if (code == EXIT_DONE && at.n > 0)
        code = find_option(at.at[0], &option);
    return code == EXIT_DONE ? explain_in_config(&options, option) : code;
}

/* ---- the rows ---- */

const struct command command_config = {
    .name = "config",
    .summary = "describe options, or print the effective configuration",
    .synopsis = "SUBCOMMAND [OPTIONS]",
    .about = "Describes the options of the config, or prints the effective configuration.",
    .is_group = true,
};

#define OPTIONS struct explain_options
const struct command command_config_explain = {
    .name = "config explain",
    .summary = "describe options, or print the effective configuration",
    .synopsis = "[-c FILE] [--json] [OPTION]",
    .about = "Without FILE: prints every option with its default and description, as YAML, or "
             "everything about one OPTION.\n\n"
             "With FILE: prints the effective value of every option, for each rule, and the line "
             "that sets it, as YAML that means the same as FILE; with OPTION, of that option "
             "alone. Environment variables are printed unexpanded, as ${NAME}.",
    .operand = "OPTION",
    .operands = {0, 1},
    .flags = FLAGS(FLAG_CONFIG(config), FLAG_JSON(json)),
    .exits = {{EXIT_USAGE, NULL}},
    .run = run_explain,
};
