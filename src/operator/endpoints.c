/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/endpoints.h"

#include "base/check.h"
#include "base/crypto/random.h"
#include "base/json/json.h"
#include "base/text/base64.h"
#include "core/request/canonical.h"
#include "webhook/endpoints/census.h"

#define MEMBERS_MAX ((size_t)16 * 1024) /* of what is stored, but for the secrets */
#define MAP_MAX ((size_t)64 * 1024)
#define SECRET_BYTES 32
#define SECRET_SHOWN 4
#define KIND SLICE(WEBHOOK_KIND) /* in the audit, and in the roster */

static const char *const act_names[] = {[ENDPOINTS_ENABLE] = "enable",
                                        [ENDPOINTS_DISABLE] = "disable",
                                        [ENDPOINTS_ROTATE] = "rotate",
                                        [ENDPOINTS_REMOVE] = "remove"};

/* What one act writes. */
struct acting {
    const struct endpoints_source *source;
    struct rows rows;
    struct endpoints_acted *acted;
    struct census census; /* of who is told of events: an act may change it */
};

static struct acting begin_act(const struct endpoints_source *source, struct arena *arena,
                               struct endpoints_acted *acted)
{
    return (struct acting){
        .source = source,
        .rows = {.store = source->store, .parker = source->parker, .arena = arena},
        .acted = acted,
        .census = census_make()};
}

static struct slice state_name(bool is_disabled)
{
    return is_disabled ? SLICE("disabled") : SLICE("enabled");
}

/* ---- secrets ---- */

static struct slice mint_secret(struct arena *arena)
{
    unsigned char bytes[SECRET_BYTES];
    BUF_AUTO struct buf text = buf_make(SIZE_MAX);
    random_bytes(bytes, sizeof bytes);
    buf_add_str(&text, "whsec_");
    base64_add(&text, slice_make((const char *)bytes, sizeof bytes));
    return arena_copy_buf(arena, &text);
}

static void add_secret(struct buf *secrets, struct slice text, int64_t until)
{
    buf_printf(secrets, "%lld %.*s\n", (long long)until, SLICE_ARG(text));
}

/* ---- making one ---- */

/* The lines of `secret`: one, several, or one that is minted. */
static const char *read_new_secrets(struct acting *acting, const struct json *secret,
                                    struct slice *ret_secrets)
{
    BUF_AUTO struct buf lines = buf_make(MAP_MAX);
    const struct json *one = secret;
    if (secret && secret->type == JSON_ARRAY)
        one = secret->first;
    if (!one) {
        acting->acted->secret = mint_secret(acting->rows.arena);
        add_secret(&lines, acting->acted->secret, 0);
    }
    for (; one; one = one == secret ? NULL : one->next) {
        if (one->type != JSON_STRING || slice_find(one->text, '\n') >= 0)
            return "secret: expected whsec_ or whsk_ and base64";
        add_secret(&lines, one->text, 0);
    }
    *ret_secrets = arena_copy_buf(acting->rows.arena, &lines);
    return NULL;
}

/* Name, secrets, and the rest in canonical form. NULL: it can be made; else what is wrong. */
static const char *read_map(struct acting *acting, struct slice map, struct slice *ret_name,
                            struct store_endpoint_settings *ret_settings)
{
    BUF_AUTO struct buf members = buf_make(MEMBERS_MAX);
    struct json *root = NULL;
    enum json_error error = json_parse(acting->rows.arena, map, &root, NULL);
    if (error != JSON_OK || root->type != JSON_OBJECT)
        return error != JSON_OK ? json_error_text(error) : "not an object";
    const struct json *name = json_at_as(root, SLICE("/name"), JSON_STRING);
    const struct json *secret = json_at(root, SLICE("/secret"));
    const struct json *const apart[] = {name, secret};
    const struct json_set without = {2, apart};
    struct canonical canonical = {.buf = &members};
    if (!name)
        return "name: expected a name such as \"billing\"";
    if (!canonical_add_json(&canonical, root, without) || !canonical_end(&canonical))
        return "it is longer than 16KiB";
    *ret_name = name->text;
    ret_settings->settings = arena_copy_buf(acting->rows.arena, &members);
    return read_new_secrets(acting, secret, &ret_settings->secrets);
}

/* As every process that delivers will read it. NULL: it can. */
static const char *try_read_endpoint(const struct acting *acting,
                                     const struct registry_entry *entry, int64_t now)
{
    BUF_AUTO struct buf map = buf_make(MAP_MAX);
    struct webhook_endpoint endpoint;
    int64_t until;
    registry_add_map(entry, now, &map, &until);
    if (!buf_ok(&map))
        return "it is longer than 16KiB";
    return acting->source->read(buf_slice(&map), acting->rows.arena, &endpoint);
}

static enum store_status read_both(struct acting *acting, struct registry *ret_registry)
{
    const struct endpoints_source *source = acting->source;
    enum store_status status =
        registry_read(source->store, source->parker, acting->rows.arena, ret_registry);
    return status == STORE_DONE ? census_read(&acting->census, source->store, source->parker)
                                : status;
}

static enum store_status try_add(struct acting *acting, struct store_endpoint *endpoint,
                                 struct store_endpoint_settings *settings,
                                 const struct store_actor *actor)
{
    struct registry registry;
    enum store_status status = read_both(acting, &registry);
    if (status != STORE_DONE)
        return status;
    if (registry_find(&registry, endpoint->name)) {
        acting->acted->end = ENDPOINTS_TAKEN;
        return STORE_DONE;
    }
    if (registry.n_stored >= REGISTRY_MOST) {
        acting->acted->end = ENDPOINTS_BAD;
        acting->acted->problem = "there are 1000 endpoints (remove one first)";
        return STORE_DONE;
    }
    endpoint->changed_at = settings->created_at = registry.now;
    struct store_task_audit audit = {.at = registry.now,
                                     .actor = actor->name,
                                     .act = SLICE("add"),
                                     .kind = KIND,
                                     .lane = endpoint->name,
                                     .to = state_name(false)};
    rows_put(&acting->rows, TABLE_INSERT, &endpoint_table, &endpoint->row, NULL);
    rows_put(&acting->rows, TABLE_INSERT, &endpoint_settings_table, &settings->row, &endpoint->row);
    store_audit_put(&audit, actor, &acting->rows);
    census_put_moved(&acting->census, &acting->rows);
    acting->acted->end = ENDPOINTS_DONE;
    return rows_save(&acting->rows);
}

enum store_status endpoints_add(const struct endpoints_source *source, struct slice map,
                                const struct store_actor *actor, struct arena *arena,
                                struct endpoints_acted *ret_acted)
{
    struct acting acting = begin_act(source, arena, ret_acted);
    struct store_endpoint endpoint = {0};
    struct store_endpoint_settings settings = {0};
    const struct registry_entry entry = {&endpoint, &settings};
    *ret_acted = (struct endpoints_acted){.end = ENDPOINTS_BAD};
    ret_acted->problem = read_map(&acting, map, &endpoint.name, &settings);
    if (!ret_acted->problem)
        ret_acted->problem = try_read_endpoint(&acting, &entry, store_now(source->store));
    if (arena->failed)
        return STORE_NO_MEMORY;
    ret_acted->name = endpoint.name;
    enum store_status status = ret_acted->problem ? STORE_DONE : STORE_CONFLICT;
    while (rows_try_again(&acting.rows, &status))
        status = try_add(&acting, &endpoint, &settings, actor);
    census_fini(&acting.census);
    return status;
}

/* ---- acts ---- */

/* Where it has another name now, nobody asks for the state of this one. */
static bool refuse_renamed(struct acting *acting, struct slice name)
{
    const struct census_entry *entry = census_find(&acting->census, KIND, name);
    if (!entry || !entry->told_as)
        return false;
    acting->acted->end = ENDPOINTS_RENAMED;
    acting->acted->heir = arena_copy(acting->rows.arena, census_heir(entry)->row.name);
    return true;
}

static bool set_state(struct acting *acting, struct store_endpoint *state, bool disabled)
{
    if (refuse_renamed(acting, state->name))
        return false;
    if (state->is_disabled == disabled) {
        acting->acted->end = ENDPOINTS_ALREADY;
        return false;
    }
    state->is_disabled = disabled;
    state->why = disabled ? SLICE("by an operator") : SLICE("");
    state->failing_since = 0;
    rows_put(&acting->rows, TABLE_UPDATE, &endpoint_table, &state->row, NULL);
    census_put_moved(&acting->census, &acting->rows);
    return true;
}

/* What configs declared of it counts no more. */
static void end_declarations(struct acting *acting, struct census_entry *declared, int64_t now)
{
    if (declared && declared->row.row.id != 0)
        census_put_removed(declared, now, &acting->rows);
    census_put_moved(&acting->census, &acting->rows);
}

static bool remove_endpoint(struct acting *acting, const struct registry_entry *entry,
                            struct store_endpoint *state, bool force)
{
    struct census_entry *declared = census_find(&acting->census, KIND, state->name);
    bool is_served = declared && declared->n_living > 0;
    if (!entry->settings && (is_served || !force)) {
        acting->acted->end = is_served ? ENDPOINTS_SERVED : ENDPOINTS_OF_CONFIG;
        return false;
    }
    rows_put(&acting->rows, TABLE_REMOVE, &endpoint_table, &state->row, NULL);
    end_declarations(acting, declared, state->changed_at);
    return true;
}

/* Appends those that sign yet, until the overlap is over. NULL; else why `new` cannot follow them.
 */
static const char *retire_secrets(struct buf *lines, struct slice secrets, struct slice new,
                                  const struct endpoints_wish *wish, int64_t now)
{
    struct registry_secret secret;
    size_t n = 1;
    while (registry_next_secret(&secrets, &secret)) {
        int64_t ends = clock_after(now, wish->overlap_us);
        if (wish->secret.len == 0 && slice_starts(secret.text, SLICE("whsk_")))
            return "it signs with an Ed25519 key (expected the new one, whsk_..)";
        if (slice_eq(secret.text, new))
            return "it signs with that secret already (expected another)";
        if (secret.until != 0)
            ends = clock_first(ends, secret.until);
        if (ends <= now)
            continue;
        add_secret(lines, secret.text, ends);
        n++;
    }
    return n > SIGNATURE_SECRETS_MAX
               ? "8 secrets sign yet (wait until one of them ends, or use a shorter overlap)"
               : NULL;
}

/* The new one first: it is the one that stays. */
static bool rotate_secret(struct acting *acting, const struct registry_entry *entry,
                          const struct endpoints_wish *wish, int64_t now)
{
    BUF_AUTO struct buf lines = buf_make(MAP_MAX);
    struct store_endpoint_settings *settings = arena_alloc(acting->rows.arena, sizeof *settings);
    if (!entry->settings) {
        acting->acted->end = ENDPOINTS_OF_CONFIG;
        return false;
    }
    bool is_minted = wish->secret.len == 0;
    struct slice new = is_minted ? mint_secret(acting->rows.arena) : wish->secret;
    add_secret(&lines, new, 0);
    const char *problem = retire_secrets(&lines, entry->settings->secrets, new, wish, now);
    if (!settings)
        return false;
    *settings = *entry->settings;
    settings->secrets = arena_copy_buf(acting->rows.arena, &lines);
    const struct registry_entry rotated = {entry->state, settings};
    if (!problem)
        problem = try_read_endpoint(acting, &rotated, now);
    if (problem) {
        acting->acted->end = ENDPOINTS_BAD;
        acting->acted->problem = problem;
        return false;
    }
    acting->acted->secret = is_minted ? new : SLICE("");
    rows_put(&acting->rows, TABLE_UPDATE, &endpoint_settings_table, &settings->row, NULL);
    return true;
}

/* What the act changes. False: nothing, and acted->end says why. */
static bool apply_endpoint_wish(struct acting *acting, const struct registry_entry *entry,
                                struct store_endpoint *state, const struct endpoints_wish *wish)
{
    switch (wish->act) {
    case ENDPOINTS_ENABLE:
        return set_state(acting, state, false);
    case ENDPOINTS_DISABLE:
        return set_state(acting, state, true);
    case ENDPOINTS_ROTATE:
        return rotate_secret(acting, entry, wish, state->changed_at);
    case ENDPOINTS_REMOVE:
        return remove_endpoint(acting, entry, state, wish->actor.force);
    }
    UNREACHABLE();
}

static enum store_status try_endpoint_act(struct acting *acting, const struct endpoints_wish *wish)
{
    struct registry registry;
    enum store_status status = read_both(acting, &registry);
    if (status != STORE_DONE)
        return status;
    const struct registry_entry *entry = registry_find(&registry, wish->name);
    *acting->acted = (struct endpoints_acted){.end = entry ? ENDPOINTS_DONE : ENDPOINTS_NOT_FOUND,
                                              .name = wish->name};
    if (!entry)
        return STORE_DONE;
    struct store_endpoint state = *entry->state;
    state.changed_at = registry.now;
    bool changes = apply_endpoint_wish(acting, entry, &state, wish);
    if (acting->rows.arena->failed || !changes)
        return acting->rows.arena->failed ? STORE_NO_MEMORY : STORE_DONE;
    struct store_task_audit audit = {
        .at = registry.now,
        .actor = wish->actor.name,
        .act = slice_of(act_names[wish->act]),
        .kind = KIND,
        .lane = wish->name,
        .from = state_name(entry->state->is_disabled),
        .to = wish->act == ENDPOINTS_REMOVE ? SLICE("") : state_name(state.is_disabled),
        .force = wish->actor.force};
    store_audit_put(&audit, &wish->actor, &acting->rows);
    return rows_save(&acting->rows);
}

enum store_status endpoints_act(const struct endpoints_source *source,
                                const struct endpoints_wish *wish, struct arena *arena,
                                struct endpoints_acted *ret_acted)
{
    struct acting acting = begin_act(source, arena, ret_acted);
    enum store_status status = STORE_CONFLICT;
    while (rows_try_again(&acting.rows, &status)) {
        status = try_endpoint_act(&acting, wish);
        /* Made or removed between the registry's two tables, it looks like one of a config. */
        if (acting.rows.tries == 1 && status == STORE_DONE && ret_acted->end == ENDPOINTS_OF_CONFIG)
            status = STORE_CONFLICT;
    }
    census_fini(&acting.census);
    return status;
}

/* ---- JSON ---- */

struct slice endpoints_secret_end(struct slice secret)
{
    return slice_skip(secret, secret.len > SECRET_SHOWN ? secret.len - SECRET_SHOWN : 0);
}

static void add_secret_lines(struct buf *buf, struct slice secrets, int64_t now)
{
    struct registry_secret secret;
    json_open(buf, "secrets", '[');
    while (registry_next_secret(&secrets, &secret)) {
        if (!registry_secret_signs(&secret, now))
            continue;
        json_next_item(buf);
        buf_add_char(buf, '{');
        json_add_text(buf, "ends_with", endpoints_secret_end(secret.text));
        json_add_time(buf, "until", secret.until);
        buf_add_char(buf, '}');
    }
    buf_add_char(buf, ']');
}

void endpoints_add_json(struct buf *buf, const struct registry_entry *entry, int64_t now)
{
    const struct store_endpoint *state = entry->state;
    buf_add_char(buf, '{');
    json_add_text(buf, "name", state->name);
    json_add_text(buf, "origin", entry->settings ? SLICE("stored") : SLICE("config"));
    json_add_bool(buf, "enabled", !state->is_disabled);
    json_add_known_text(buf, "reason", state->why);
    json_add_time(buf, "failing_since", state->failing_since);
    json_add_time(buf, "changed_at", state->changed_at);
    if (entry->settings) {
        json_add_time(buf, "created_at", entry->settings->created_at);
        add_secret_lines(buf, entry->settings->secrets, now);
        json_add_name(buf, "settings");
        buf_add_slice(buf, entry->settings->settings);
    }
    buf_add_char(buf, '}');
}
