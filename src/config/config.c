/* SPDX-License-Identifier: Apache-2.0 */
#include "config/config.h"
#include "base/check.h"
#include "base/compress/container.h"
#include "base/mem.h"
#include "config/explain.h"
#include "config/option.h"
#include "config/reader.h"
#include "core/request/policy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#define SCRATCH_MAX (32 * 1024 * 1024)
#define TEXTS_MAX (1024 * 1024)
#define RULES_SIZE_MAX (16 * 1024 * 1024)
#define FILE_COMPLAINT_MAX ((size_t)8192)
#define FILE_ROOM ((size_t)NODE_TEXT_MAX + 1)

/* `rules` and `defaults` are read after everything they build on, wherever they stand. */
static void check_section(struct reader *reader, const struct node *node, enum node_kind kind,
                          const char *expected)
{
    bool is_empty = node->kind == NODE_SCALAR && node->is_null;
    if (node->kind != kind && node->kind != NODE_BAD && !is_empty)
        reader_complain(reader, node, "expected %s", expected);
}

OPTION_READER(rules)
{
    check_section(reader, node, NODE_LIST, "a list of rules");
}

OPTION_READER(defaults)
{
    check_section(reader, node, NODE_MAP, "a map of options");
}

/* As the listener itself judges it once the name is resolved; here with its place in the file. */
static bool is_loopback(struct slice host)
{
    return slice_eq_nocase(host, SLICE("localhost")) || slice_starts(host, SLICE("127.")) ||
           slice_eq(host, SLICE("::1"));
}

static void check_admin(struct reader *reader, const struct node *node)
{
    const struct config *config = reader->config;
    if (node && config->admin.host.len > 0 && !is_loopback(config->admin.host) &&
        !reader->draft->set[OPTION_admin_token])
        reader_complain(reader, node,
                        "others can reach it (expected admin_token: with it, or a loopback address "
                        "such as 127.0.0.1:8081)");
}

static bool is_any(struct slice host)
{
    static const struct slice any[] = {{"0.0.0.0", 7}, {"::", 2}, {"0", 1}};
    return SLICE_AMONG(host, any);
}

/* Whether a connection to one may arrive at the other, as far as the text says. */
static bool may_meet(const struct url_authority *a, const struct url_authority *b)
{
    static const struct slice localhost = {"localhost", 9};
    bool local = is_loopback(a->host) && is_loopback(b->host);
    bool named = slice_eq_nocase(a->host, localhost) || slice_eq_nocase(b->host, localhost);
    if (a->port != b->port || a->port == 0)
        return false;
    return slice_eq_nocase(a->host, b->host) || (local && named) ||
           (is_any(a->host) && (is_any(b->host) || is_loopback(b->host))) ||
           (is_any(b->host) && is_loopback(a->host));
}

/* The port would be taken by pawl itself, each request come back to it, or the operator's interface
 * be open to clients. */
static void check_apart(struct reader *reader, enum option_id id,
                        const struct url_authority *address, const char *other,
                        const struct url_authority *theirs)
{
    const struct node *node = reader->draft->set[id];
    if (node && theirs->host.len > 0 && may_meet(address, theirs))
        reader_complain(reader, node, "the same address as `%s` (expected another)", other);
}

/* By others than its owner. That a group may read what is root's, packages arrange for services. */
static bool is_exposed(const char *path)
{
    struct stat found;
    mode_t others = S_IROTH;
    if (!path || stat(path, &found) != 0)
        return false;
    if (found.st_uid != 0)
        others |= S_IRGRP;
    return found.st_mode & others;
}

static void check_addresses(struct reader *reader)
{
    const struct config *config = reader->config;
    check_admin(reader, reader->draft->set[OPTION_admin]);
    check_apart(reader, OPTION_admin, &config->admin, "listen", &config->listen);
    check_apart(reader, OPTION_upstream, &config->upstream, "listen", &config->listen);
    check_apart(reader, OPTION_upstream, &config->upstream, "admin", &config->admin);
    if (!config->upstream_tls.on && reader->draft->set[OPTION_upstream_tls])
        complaints_add(reader->errors, reader->draft->set[OPTION_upstream_tls]->place,
                       SLICE("upstream_tls"),
                       "the upstream is not https (expected https://HOST:PORT)");
    if (reader->token_readable)
        reader_warn(reader, WARNING_TOKEN_READABLE, reader->draft->set[OPTION_admin_token],
                    "every user of this machine can read the file that holds it (chmod o-r)");
    if (is_exposed(config->upstream_tls.key.path.at))
        reader_warn(reader, WARNING_TLS_KEY_READABLE, reader->draft->set[OPTION_upstream_tls],
                    "others than its owner can read the private key (chmod go-r)");
}

/* Rules that protect ask for their own; where none does, the config says whose keys these are all
 * the same, before there is the first record (contract section 3). */
static void check_tenant(struct reader *reader, const struct node *root,
                         const struct rule_draft *base)
{
    const struct rule_set *set = reader->config->gateway.rules;
    for (size_t i = 0; i < set->n; i++)
        if (set->rules[i].protect)
            return;
    if (!base->has_tenant && reader->errors->n == 0)
        complaints_add(reader->errors, root->place, SLICE("tenant"),
                       "missing (expected a template such as \"{header:X-Merchant-Id}\", or none)");
}

/* Without an upstream there is no gateway, and nothing of what it would need: it delivers webhooks
 * only. */
static void check_upstream(struct reader *reader, const struct node *root)
{
    const struct rule_draft *base = reader->draft;
    enum option_id id = 0;
    if (base->set[OPTION_upstream])
        return;
    while (id < OPTION_COUNT && !(base->set[id] && option_at(id)->where & OPTION_GATEWAY))
        id++;
    if (base->set[OPTION_webhooks] && id < OPTION_COUNT)
        complaints_add(reader->errors, root->place, SLICE("upstream"),
                       "missing (expected http://HOST:PORT; or, to deliver webhooks only, no `%s`)",
                       option_at(id)->name.at);
    else if (!base->set[OPTION_webhooks])
        complaints_add(reader->errors, root->place, SLICE("upstream"),
                       "missing (expected http://HOST:PORT; or, to deliver webhooks only, "
                       "`webhooks:`)");
    reader->config->listen = (struct url_authority){0};
}

/* What the config allows itself in a container that has less. */
static void check_memory(struct reader *reader)
{
    const struct config *config = reader->config;
    const struct node *bodies = reader->draft->set[OPTION_max_buffered];
    const struct node *node = bodies ? bodies : reader->draft->set[OPTION_cache];
    uint64_t limit = container_read().memory, wanted = config->gateway.max_buffered + config->cache;
    if (node && limit > 0 && wanted > limit)
        reader_warn(reader, WARNING_MEMORY_LIMIT, node,
                    "with max_buffered and cache pawl may use %" PRIu64 " bytes, and its container "
                    "has %" PRIu64 ": the system would kill it (lower them, or leave them at auto)",
                    wanted, limit);
}

static void read_sections(struct reader *reader, const struct node *root)
{
    struct rule_draft *base = reader->draft;
    CHECK(base == reader->base);
    options_read_map(reader, root, OPTION_TOP);
    check_upstream(reader, root);
    check_addresses(reader);
    check_memory(reader);
    reader->config->allowed = base->allowed;
    const struct node *defaults = base->set[OPTION_defaults];
    if (defaults && defaults->kind == NODE_MAP)
        options_read_map(reader, defaults, OPTION_DEFAULTS);
    reader->config->gateway.errors = base->rule.errors;
    rules_compile(reader, base->set[OPTION_rules], base);
    reader->draft = base;
    inbox_compile(reader, base->set[OPTION_inbox]);
    if (base->set[OPTION_upstream])
        check_tenant(reader, root, base);
}

/* The published policy is bounded: lists in `defaults` are in it once for each rule. */
static void check_policy(struct reader *reader)
{
    const struct node *node = reader->draft->set[OPTION_rules];
    BUF_AUTO struct buf page = buf_make(POLICY_MAX);
    CHECK(reader->draft == reader->base); /* no rule's */
    if (!node || reader->config->gateway.policy_off || reader->errors->n > 0)
        return;
    policy_write(reader->config->gateway.rules, &page);
    if (page.too_large)
        reader_complain(reader, node,
                        "takes more than 8MiB to publish (expected fewer or shorter rules, or "
                        "`policy: off`)");
    else if (!buf_ok(&page))
        reader->scratch->failed = true;
}

static void read_config_text(struct reader *reader, struct slice text)
{
    const struct node *root = node_read(text, reader->scratch, reader->errors);
    if (!root)
        return;
    if (root->kind != NODE_MAP) {
        complaints_add(reader->errors, root->place, SLICE("config"),
                       "not a map (expected options such as upstream:)");
        return;
    }
    reader->draft = arena_alloc(reader->scratch, sizeof *reader->draft);
    if (!reader->draft)
        return;
    memset(reader->draft, 0, sizeof *reader->draft);
    reader->base = reader->draft;
    options_read_fallbacks(reader);
    struct rule_draft *base = reader->draft;
    read_sections(reader, root);
    reader->draft = base;
    check_policy(reader);
}

static struct config *config_new(const struct config_sections *sections)
{
    CHECK(!sections || sections->n <= CONFIG_SECTIONS_MAX);
    struct config *config = mem_zalloc(1, sizeof *config);
    if (!config)
        return NULL;
    if (sections)
        config->sections = *sections;
    config->arena = arena_make_secret(TEXTS_MAX);
    config->gateway.rules = rule_set_new(RULES_SIZE_MAX);
    if (config->gateway.rules)
        return config;
    config_free(config);
    return NULL;
}

const void *config_section(const struct config *config, const struct option *section)
{
    size_t i = 0;
    while (i < config->sections.n && config->sections.at[i] != section)
        i++;
    CHECK(i < config->sections.n);
    return config->section_values[i];
}

void config_free(struct config *config)
{
    if (!config)
        return;
    rule_set_unref(config->gateway.rules);
    arena_fini(&config->arena);
    mem_free(config);
}

static bool ran_out(const struct reader *reader)
{
    return reader->scratch->failed || reader->config->arena.failed ||
           reader->config->gateway.rules->arena.failed;
}

/* Prints the complaints. True: there is no error. */
static bool conclude_reading(struct reader *reader, char **ret_complaints)
{
    struct complaints *shown = reader->errors->n ? reader->errors : reader->warnings;
    if (ran_out(reader) && !reader->errors->n) {
        complaints_add(reader->errors, (struct place){1, 1}, SLICE("config"),
                       "too large, or out of memory");
        shown = reader->errors;
    }
    char *complaints = complaints_print(shown);
    *ret_complaints = complaints;
    return complaints && shown == reader->warnings;
}

/* Notes live as long as the config. */
static void keep_notes(struct reader *reader)
{
    char *lines MEM_AUTO = complaints_print(reader->notes);
    if (lines)
        reader->config->notes = arena_copy(&reader->config->arena, slice_of(lines));
    else
        reader->scratch->failed = true;
}

/* `explain`: explains it while its nodes are there; NULL: nothing to explain. */
static struct config *parse_config(const char *path, struct slice text,
                                   const struct config_sections *sections,
                                   const struct explain *explain, char **ret_complaints)
{
    ARENA_AUTO struct arena scratch = arena_make_secret(SCRATCH_MAX);
    struct complaints errors, warnings, notes;
    struct config *config = config_new(sections);
    *ret_complaints = NULL;
    if (!config)
        return NULL;
    complaints_init(&errors, path);
    complaints_init(&warnings, path);
    complaints_init(&notes, path);
    struct reader reader = {.config = config,
                            .errors = &errors,
                            .warnings = &warnings,
                            .notes = &notes,
                            .scratch = &scratch,
                            .texts = &config->gateway.rules->arena};
    read_config_text(&reader, text);
    keep_notes(&reader);
    bool good = conclude_reading(&reader, ret_complaints);
    if (good && explain)
        explain_read(explain, &reader);
    complaints_fini(&errors);
    complaints_fini(&warnings);
    complaints_fini(&notes);
    if (good)
        return config;
    config_free(config);
    return NULL;
}

struct config *config_parse(const char *path, struct slice text, char **ret_complaints)
{
    return parse_config(path, text, NULL, NULL, ret_complaints);
}

/* All of the file, as far as a config may be long, and a byte more, into `room`. An errno, 0: it is
 * there. */
static int read_config_file(const char *path, char *room, struct slice *ret_text)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return errno;
    (void)setvbuf(file, NULL, _IONBF, 0); /* no copy of it stays */
    *ret_text = slice_make(room, fread(room, 1, FILE_ROOM, file));
    int error = ferror(file) ? errno : 0;
    fclose(file);
    return error;
}

static struct config *read_and_parse(const char *path, const struct config_sections *sections,
                                     const struct explain *explain, char **ret_complaints)
{
    char *room = mem_secret_new(FILE_ROOM);
    struct slice text = {NULL, 0};
    struct config *config = NULL;
    int error = room ? read_config_file(path, room, &text) : ENOMEM;
    if (error == 0) {
        config = parse_config(path, text, sections, explain, ret_complaints);
    } else {
        struct buf why = buf_make(FILE_COMPLAINT_MAX);
        buf_printf(&why, "%s: cannot be read: %s\n", path, strerrordesc_np(error));
        *ret_complaints = buf_take(&why);
    }
    mem_secret_free(room, FILE_ROOM);
    return config;
}

struct config *config_read(const char *path, const struct config_sections *sections,
                           char **ret_complaints)
{
    return read_and_parse(path, sections, NULL, ret_complaints);
}

bool explain_text(const struct explain *explain, const char *path, struct slice text,
                  char **ret_complaints)
{
    struct config *config = parse_config(path, text, NULL, explain, ret_complaints);
    config_free(config);
    return config;
}

bool explain_config(const struct explain *explain, const char *path, char **ret_complaints)
{
    struct config *config = read_and_parse(path, &explain->sections, explain, ret_complaints);
    config_free(config);
    return config;
}
