/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl webhook endpoint`: who is told of events, beside those of a config, and how it goes. */
#include "base/check.h"
#include "base/json/json.h"
#include "base/time/timestamp.h"
#include "cli/lib/input.h"
#include "cli/lib/print.h"
#include "cli/tasks/queue.h"
#include "config/webhook_values.h"
#include "operator/endpoints.h"
#include <assert.h>
#include <stdio.h>

#define ARENA_MAX ((size_t)64 * 1024 * 1024)

struct endpoint_options {
    struct queue_session session;
    const char *name;
    const char *url;
    const char *types; /* divided by commas */
    struct flag_texts secrets;
    struct flag_texts options; /* NAME=VALUE */
    int64_t overlap_us;
};

/* ---- list, show ---- */

static void add_secrets_text(struct buf *text, struct slice secrets, int64_t now)
{
    struct registry_secret secret;
    while (registry_next_secret(&secrets, &secret)) {
        if (!registry_secret_signs(&secret, now))
            continue;
        buf_add_str(text, "  secret: ..");
        print_escaped(text, endpoints_secret_end(secret.text));
        if (secret.until != 0) {
            buf_add_str(text, ", until ");
            (void)timestamp_print(text, secret.until);
        }
        buf_add_char(text, '\n');
    }
}

static void add_endpoint_line(struct buf *text, const struct registry_entry *entry)
{
    const struct store_endpoint *state = entry->state;
    print_escaped(text, state->name);
    buf_add_str(text, entry->settings ? "  stored" : "  config");
    buf_add_str(text, state->is_disabled ? "  disabled" : "  enabled");
    if (state->is_disabled && state->why.len > 0) {
        buf_add_str(text, ": ");
        print_escaped(text, state->why);
    }
    if (state->failing_since != 0) {
        buf_add_str(text, "; fails since ");
        (void)timestamp_print(text, state->failing_since);
    }
    buf_add_char(text, '\n');
}

static void add_endpoint_text(struct buf *text, const struct queue_session *session,
                              const struct registry_entry *entry, int64_t now, bool whole)
{
    if (session->json) {
        endpoints_add_json(text, entry, now);
        buf_add_char(text, '\n');
        return;
    }
    add_endpoint_line(text, entry);
    if (!whole || !entry->settings)
        return;
    buf_add_str(text, "  settings: ");
    print_escaped(text, entry->settings->settings);
    buf_add_char(text, '\n');
    add_secrets_text(text, entry->settings->secrets, now);
}

static int print_found(struct queue_session *session, struct slice name)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    BUF_AUTO struct buf text = buf_make(SIZE_MAX);
    struct registry registry;
    bool is_one = name.len > 0;
    int code = queue_complain(
        session, registry_read(session->store, &session->parker.parker, &arena, &registry));
    if (code != EXIT_DONE)
        return code;
    const struct registry_entry *one = is_one ? registry_find(&registry, name) : NULL;
    if (is_one && !one)
        return command_failed(session->command, EXIT_FINAL_ERROR, "there is no endpoint `%.*s`",
                              SLICE_ARG(name));
    for (size_t i = 0; i < registry.n; i++)
        if (!is_one || one == &registry.at[i])
            add_endpoint_text(&text, session, &registry.at[i], registry.now, is_one);
    return print_buf(session->command, &text);
}

/* ---- what came of an act ---- */

static int report_endpoint_act(const struct queue_session *session,
                               const struct endpoints_acted *acted, const char *done)
{
    BUF_AUTO struct buf name = buf_make(SIZE_MAX), heir = buf_make(SIZE_MAX);
    print_escaped(&name, acted->name);
    print_escaped(&heir, acted->heir);
    struct slice shown = buf_slice(&name);
    switch (acted->end) {
    case ENDPOINTS_DONE:
    case ENDPOINTS_ALREADY:
        printf("endpoint %.*s is %s%s\n", SLICE_ARG(shown),
               acted->end == ENDPOINTS_DONE ? "" : "already ", done);
        if (acted->secret.len > 0)
            printf("its secret, which is not shown again: %.*s\n", SLICE_ARG(acted->secret));
        return EXIT_DONE;
    case ENDPOINTS_NOT_FOUND:
        return command_failed(session->command, EXIT_FINAL_ERROR,
                              "the store knows no endpoint `%.*s`; those of a config it knows from "
                              "the first `pawl serve` on",
                              SLICE_ARG(shown));
    case ENDPOINTS_TAKEN:
        return command_failed(session->command, EXIT_BAD_DATA,
                              "there is an endpoint `%.*s`; nothing was changed", SLICE_ARG(shown));
    case ENDPOINTS_OF_CONFIG:
        return command_failed(session->command, EXIT_BAD_DATA,
                              "`%.*s` is an endpoint of a config, and is changed there; nothing "
                              "was changed (`remove --force` forgets one that no config has)",
                              SLICE_ARG(shown));
    case ENDPOINTS_SERVED:
        return command_failed(session->command, EXIT_BAD_DATA,
                              "`%.*s` is an endpoint of a config that is in force; nothing was "
                              "changed (take it out of the config of every `pawl serve` first)",
                              SLICE_ARG(shown));
    case ENDPOINTS_RENAMED:
        return command_failed(session->command, EXIT_BAD_DATA,
                              "`%.*s` is called `%.*s` now; nothing was changed (give that name)",
                              SLICE_ARG(shown), SLICE_ARG(buf_slice(&heir)));
    case ENDPOINTS_BAD:
        return command_failed(session->command, EXIT_BAD_DATA, "%s", acted->problem);
    }
    return EXIT_UNAVAILABLE;
}

static struct endpoints_source endpoints_of_session(struct queue_session *session)
{
    return (struct endpoints_source){session->store, &session->parker.parker, config_read_endpoint};
}

/* ---- add ---- */

static void add_map_list(struct buf *map, const char *name, struct slice items)
{
    struct slice item;
    json_open(map, name, '[');
    while (slice_next(&items, ',', &item)) {
        json_next_item(map);
        json_add_string(map, slice_trim(item));
    }
    buf_add_char(map, ']');
}

/* NAME=VALUE, the value as JSON or as text. */
static int add_endpoint_option(const struct queue_session *session, struct buf *map,
                               const char *text, struct arena *arena)
{
    struct slice name, value = slice_cut(slice_of(text), '=', &name);
    struct json *root;
    if (!value.at || name.len == 0)
        return command_misused(session->command, "--option wants NAME=VALUE, not `%s`", text);
    bool is_json = json_parse(arena, value, &root, NULL) == JSON_OK;
    json_next_item(map);
    json_add_string(map, name);
    buf_add_char(map, ':');
    if (is_json)
        buf_add_slice(map, value);
    else
        json_add_string(map, value);
    return EXIT_DONE;
}

static int write_map(const struct endpoint_options *options, struct buf *map, struct arena *arena)
{
    int code = EXIT_DONE;
    buf_add_char(map, '{');
    json_add_text(map, "name", slice_of(options->name));
    json_add_text(map, "url", slice_of(options->url));
    add_map_list(map, "types", slice_of(options->types));
    if (options->secrets.n > 0)
        json_open(map, "secret", '[');
    for (size_t i = 0; i < options->secrets.n && code == EXIT_DONE; i++) {
        struct slice secret;
        code = input_read_secret(options->session.command, options->secrets.at[i], arena, &secret);
        json_next_item(map);
        json_add_string(map, code == EXIT_DONE ? secret : SLICE(""));
    }
    if (options->secrets.n > 0)
        buf_add_char(map, ']');
    for (size_t i = 0; i < options->options.n && code == EXIT_DONE; i++)
        code = add_endpoint_option(&options->session, map, options->options.at[i], arena);
    buf_add_char(map, '}');
    return code;
}

static int add_endpoint(struct endpoint_options *options)
{
    struct queue_session *session = &options->session;
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    BUF_AUTO struct buf map = buf_make(INPUT_MAX);
    const struct store_actor actor = queue_actor(session);
    struct endpoints_acted acted;
    if (session->operands.n > 1 || !options->name || !options->url || !options->types)
        return command_misused(session->command, "add needs --name, --url and --types");
    int code = write_map(options, &map, &arena);
    if (code == EXIT_DONE)
        code = queue_open(session, STORE_COMMAND, true);
    if (code != EXIT_DONE)
        return code;
    const struct endpoints_source source = endpoints_of_session(session);
    code = queue_complain(session, endpoints_add(&source, buf_slice(&map), &actor, &arena, &acted));
    return code == EXIT_DONE ? report_endpoint_act(session, &acted, "added") : code;
}

/* ---- enable, disable, rotate, remove ---- */

static int act_on_endpoint(struct endpoint_options *options, enum endpoints_act act)
{
    struct queue_session *session = &options->session;
    static const char *const done[] = {[ENDPOINTS_ENABLE] = "enabled",
                                       [ENDPOINTS_DISABLE] = "disabled",
                                       [ENDPOINTS_ROTATE] = "rotated",
                                       [ENDPOINTS_REMOVE] = "removed"};
    static_assert(sizeof done / sizeof *done == ENDPOINTS_REMOVE + 1, "a word for each act");
    CHECK(options->session.operands.n == 2 && options->overlap_us >= 0);
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    const struct endpoints_source source = endpoints_of_session(session);
    struct endpoints_wish wish = {.name = slice_of(session->operands.at[1]),
                                  .act = act,
                                  .actor = queue_actor(session),
                                  .overlap_us = options->overlap_us};
    struct endpoints_acted acted;
    int code = EXIT_DONE;
    if (options->secrets.n > 1)
        return command_misused(session->command, "rotate takes one --secret");
    if (options->secrets.n == 1)
        code = input_read_secret(session->command, options->secrets.at[0], &arena, &wish.secret);
    if (code == EXIT_DONE)
        code = queue_complain(session, endpoints_act(&source, &wish, &arena, &acted));
    return code == EXIT_DONE ? report_endpoint_act(session, &acted, done[act]) : code;
}

static int run_endpoint_act(void *given)
{
    struct endpoint_options *options = given;
    struct queue_session *session = &options->session;
    ptrdiff_t act_at = slice_item(SLICE(ENDPOINTS_ACT_NAMES), '|', slice_of(session->operand));
    bool is_list = slice_eq(slice_of(session->operand), SLICE("list"));
    bool is_show = slice_eq(slice_of(session->operand), SLICE("show"));
    if (slice_eq(slice_of(session->operand), SLICE("add")))
        return add_endpoint(options);
    if (!is_list && !is_show && act_at < 0)
        return command_misused(session->command,
                               "wants add, list, show, enable, disable, rotate or remove, not `%s`",
                               session->operand);
    if (is_list == (session->operands.n > 1))
        return command_misused(session->command,
                               is_list ? "`list` takes no name" : "needs the name of an endpoint");
    int code = queue_open(session, STORE_COMMAND, false);
    if (code != EXIT_DONE)
        return code;
    if (is_list || is_show)
        return print_found(session, is_list ? SLICE("") : slice_of(session->operands.at[1]));
    return act_on_endpoint(options, (enum endpoints_act)act_at);
}

/* ---- the row ---- */

#define OPTIONS struct endpoint_options
const struct command command_webhook_endpoint = {
    .name = "webhook endpoint",
    .summary = "list, add, remove, enable or disable endpoints",
    .synopsis =
        "add --name NAME --url URL --types A,B [--secret SECRET]... [--option NAME=VALUE]...\n"
        "list [--json]\n"
        "show NAME [--json]\n"
        "enable NAME\n"
        "disable NAME\n"
        "rotate NAME [--secret SECRET] [--overlap D]\n"
        "remove NAME [--force]",
    .about = "Endpoints are those of `webhooks:` in the config, and those that `add` puts into the "
             "store; a running `pawl serve` starts to send to these within a second. Without "
             "--secret a new one is made, and shown once. Deliveries to an endpoint that is "
             "disabled (by an operator, by a 410, or as it failed for 7 days) or removed are dead; "
             "once it is enabled, `pawl webhook replay --dead --endpoint NAME` sends them.",
    .operand = "add|list|show|enable|disable|rotate|remove",
    .operands = {1, 2},
    .flags = FLAGS(
        FLAG_ACT_REASON(session.reason),
        FLAG(name, "name", 0, "NAME", ANY, "add: what it is called"),
        FLAG(url, "url", 0, "URL", ANY, "add: where events are sent"),
        FLAG(types, "types", 0, "A,B", ANY, "add: types of events that it wants, such as refund.*"),
        FLAG(secrets, "secret", 0, "SECRET", LIST(SIGNATURE_SECRETS_MAX),
             "add, rotate: the secret to sign with, or file:PATH (default: a new one, "
             "which is shown once); add takes several"),
        FLAG(options, "option", 0, "NAME=VALUE", LIST(FLAG_TEXTS_MAX),
             "add: another option of an endpoint (ordered=true, timeout=5s, "
             "tenants=[\"m1\"]); may be repeated"),
        FLAG(overlap_us, "overlap", 0, "D", SPAN(0, FOREVER - 1),
             "rotate: how long the secrets before still sign (default 24h)"),
        SWITCH(session.force, "force", 0,
               "remove: forget the name and state of one that no config has any more"),
        FLAG_JSON(session.json), FLAG_STORE(session.store_path)),
    .exits = {{EXIT_FINAL_ERROR, "there is no such endpoint"},
              {EXIT_USAGE, NULL},
              {EXIT_BAD_DATA, "an invalid endpoint, or the name is taken"},
              {NO_STORE}},
    ACTS(queue_run, run_endpoint_act, .overlap_us = ENDPOINTS_OVERLAP_US),
};
