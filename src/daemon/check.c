/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/check.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/thread.h"
#include "client/operation.h"
#include "config/warnings.h"
#include "daemon/limits.h"
#include "engine/identities.h"
#include "job/job.h"
#include "operator/keys.h"
#include "store/store.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define PROBLEM_MAX ((size_t)1024)
#define LOOKED_AT 1000 /* records at either end of the store */
#define LOST_MAX 8
#define NAME_MAX_BYTES 128

/* ---- whether it could start ---- */

static bool folder_is_there(const char *path, char **ret_problem)
{
    const char *slash = strrchr(path, '/');
    char *folder MEM_AUTO = slash ? mem_copy(path, (size_t)(slash - path) + 1) : mem_copy(".", 1);
    if (!folder)
        return false;
    if (store_is_url(path) || access(path, F_OK) == 0 || access(folder, W_OK | X_OK) == 0)
        return true;
    struct buf text = buf_make(PROBLEM_MAX);
    buf_printf(&text, "%s: its folder %s: %s", path, folder, strerrordesc_np(errno));
    *ret_problem = buf_take(&text);
    return false;
}

bool check_store_fits(const struct config *config, const char *store_path, char **ret_problem)
{
    const struct rule_set *rules = config->gateway.rules;
    size_t i = 0;
    while (i < rules->n &&
           !(rules->rules[i].protect && rules->rules[i].unknown == RECORD_UNKNOWN_PARTICIPANT))
        i++;
    if (i == rules->n || (store_path && store_is_url(store_path)))
        return true;
    struct buf text = buf_make(PROBLEM_MAX);
    buf_printf(&text,
               "rule '%.*s' says unknown: participant, which needs the database in which the "
               "service commits its effects, and the store is %s (expected --store or store: "
               "postgres://USER@HOST/DATABASE)",
               SLICE_ARG(rules->rules[i].name), store_path ? store_path : "the default file");
    *ret_problem = buf_take(&text);
    return false;
}

bool check_start(const struct part *const *parts, const struct config *config,
                 const char *store_path, char **ret_problem)
{
    bool can = limits_fit(config, ret_problem);
    for (; can && *parts; parts++)
        can = !part_is_wanted(*parts, config) || !(*parts)->check ||
              (*parts)->check(config, ret_problem);
    can = can && check_store_fits(config, store_path, ret_problem);
    return can && (!store_path || folder_is_there(store_path, ret_problem));
}

/* ---- what the store may lose ---- */

static const struct {
    bool has_class;
    enum warning warning;
} weakness_classes[] = {
    [WEAKNESS_NONE] = {0},
    [WEAKNESS_LOSES] = {0},
    [WEAKNESS_STANDBY] = {true, WARNING_ASYNC_STANDBY},
    [WEAKNESS_IMAGE] = {true, WARNING_STORE_IN_IMAGE},
    [WEAKNESS_UNREAD] = {true, WARNING_DURABILITY_UNKNOWN},
};
static_assert(COUNT_OF(weakness_classes) == WEAKNESS_UNREAD + 1, "a row for each kind");

bool check_weakness_is_told(const struct weakness *weakness, const struct config *config)
{
    CHECK(weakness->kind <= WEAKNESS_UNREAD);
    bool allowed = weakness_classes[weakness->kind].has_class &&
                   warning_is_allowed(config->allowed, weakness_classes[weakness->kind].warning);
    return weakness->kind != WEAKNESS_NONE && !allowed;
}

void check_weakness_write(const struct weakness *weakness, struct buf *line)
{
    CHECK(weakness->kind != WEAKNESS_NONE && weakness->kind <= WEAKNESS_UNREAD);
    buf_add_str(line, weakness->why);
    if (weakness_classes[weakness->kind].has_class)
        buf_printf(line, " [%s]", warning_name(weakness_classes[weakness->kind].warning));
    else
        buf_add_str(line, " (accept_weaker: true)");
}

/* ---- rules that the config does not have ---- */

struct lost {
    const struct rule_set *rules;
    size_t n;
    size_t lens[LOST_MAX];
    char names[LOST_MAX][NAME_MAX_BYTES];
};

static bool is_known(const struct rule_set *rules, struct slice name)
{
    for (size_t i = 0; i < rules->n; i++) {
        const struct rule *rule = &rules->rules[i];
        if (slice_eq(rule->name, name) || slice_eq(rule->key_space, name) ||
            slice_is_among(name, rule->formerly, rule->n_formerly))
            return true;
    }
    return false;
}

/* Commands keep records of their own, which no gateway has rules for. */
static bool is_of_a_command(const struct store_row *row)
{
    bool named = slice_eq(row->rule, SLICE(CLIENT_RULE)) || slice_eq(row->rule, SLICE(JOB_RULE));
    return row->tenant.len == 0 && (named || slice_eq(row->recipe, SLICE(PAYLOAD_RECIPE_JOB)));
}

/* Runs on the committer's thread, for a batch perhaps twice. */
static bool note_name(void *argument, const struct store_row *row, enum record_lease lease)
{
    struct lost *lost = argument;
    CHECK(lost->n <= LOST_MAX);
    (void)lease;
    for (size_t i = 0; i < lost->n; i++)
        if (slice_eq(slice_make(lost->names[i], lost->lens[i]), row->rule))
            return true;
    if (lost->n == LOST_MAX || row->rule.len > NAME_MAX_BYTES || is_of_a_command(row) ||
        is_known(lost->rules, row->rule))
        return lost->n < LOST_MAX;
    memcpy(lost->names[lost->n], row->rule.at, row->rule.len);
    lost->lens[lost->n++] = row->rule.len;
    return lost->n < LOST_MAX;
}

/* Whether there is more, at the other end. */
static bool look_at_records(struct store *store, struct lost *lost, bool newest)
{
    struct store_list list = {
        .most = LOOKED_AT, .newest = newest, .each = note_name, .argument = lost};
    int64_t seen = 0;
    struct thread_parker own;
    thread_parker_init(&own);
    (void)keys_scan(store, &list, &own.parker, &seen);
    thread_parker_fini(&own);
    return seen != 0 && lost->n < LOST_MAX;
}

static void report_lost(const struct lost *lost, void (*report)(void *, struct slice),
                        void *argument)
{
    for (size_t i = 0; i < lost->n; i++) {
        struct buf line BUF_AUTO = buf_make(PROBLEM_MAX);
        struct slice name = slice_make(lost->names[i], lost->lens[i]);
        buf_printf(
            &line,
            "the store holds records of a rule '%.*s', which is not in the config: their retries "
            "run again (if you renamed it, add formerly: [%.*s] or key_space: %.*s to the rule) "
            "[%s]",
            SLICE_ARG(name), SLICE_ARG(name), SLICE_ARG(name), warning_name(WARNING_RULE_RENAMED));
        if (buf_ok(&line))
            report(argument, buf_slice(&line));
    }
}

void check_rules_known(struct store *store, const struct config *config,
                       void (*report)(void *argument, struct slice line), void *argument)
{
    struct lost lost = {.rules = config->gateway.rules};
    if (!config_has_gateway(config) || warning_is_allowed(config->allowed, WARNING_RULE_RENAMED))
        return;
    if (look_at_records(store, &lost, false))
        (void)look_at_records(store, &lost, true);
    report_lost(&lost, report, argument);
}

/* Only to read it; NULL: there is none, or it does not open. */
static struct store *open_to_read(const char *store_path)
{
    struct store_config wanted = store_config_default();
    struct store *store = NULL;
    char *problem MEM_AUTO = NULL;
    wanted.path = store_path;
    wanted.read_only_file = true;
    bool there = store_is_url(store_path) || access(store_path, F_OK) == 0;
    return there && store_open(&wanted, &store, &problem) == STORE_OPENED ? store : NULL;
}

void check_store_of(const char *store_path, const struct config *config,
                    void (*report)(void *argument, struct slice line), void *argument)
{
    struct store *store = open_to_read(store_path);
    if (!store)
        return;
    check_rules_known(store, config, report, argument);
    check_lanes_served(store, config, report, argument);
    store_close(store);
}

/* ---- what keys are made of ---- */

bool check_adopt_identities(struct store *store, const struct config *config,
                            const struct config *before, char **ret_problem)
{
    struct rule_set *rules = config->gateway.rules;
    struct thread_parker own;
    if (!config_has_gateway(config) || (before && identities_inherit(rules, before->gateway.rules)))
        return true;
    thread_parker_init(&own);
    bool settled = identities_adopt(store, rules, &own.parker, ret_problem);
    thread_parker_fini(&own);
    return settled;
}

bool check_identities_of(const char *store_path, const struct config *config, char **ret_problem)
{
    struct store *store = config_has_gateway(config) ? open_to_read(store_path) : NULL;
    struct thread_parker own;
    if (!store)
        return true;
    thread_parker_init(&own);
    bool good = identities_check(store, config->gateway.rules, &own.parker, ret_problem);
    thread_parker_fini(&own);
    store_close(store);
    return good;
}
