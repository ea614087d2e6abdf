/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/identities.h"

#include "base/mem.h"
#include "base/time/timestamp.h"
#include "core/identity.h"
#include "engine/engine.h"
#include "store/rows.h"
#include "store/tables/identity.h"

#define ARENA_MAX ((size_t)256 * 1024 * 1024)
#define TEXT_MAX ((size_t)64 * 1024)
#define PROBLEM_MAX ((size_t)4096)
#define PAGE ((size_t)24) /* rows of one commit */
#define SLICE_ROWS 2000   /* records that one look at the store passes */
#define TRIES_MOST 1000   /* somebody else was first, or more rules move */

enum adopt_identity_step {
    ADOPT_CHECKS,  /* changes nothing */
    ADOPT_JUDGES,  /* ends what a process that died left open, where the rule is refused */
    ADOPT_CHANGES, /* what no rule of the set was refused for */
};

struct adopting {
    struct store *store;
    struct rule_set *set;
    struct parker *parker;
    char **ret_problem;
    enum adopt_identity_step step;
    /* As it was read last. */
    struct arena arena;
    struct terms terms; /* not after the rows */
    struct store_found known;
};

/* What one rule needs. */
struct need {
    const struct rule *rule;
    struct slice identity;
    const struct store_identity *row;  /* the store's; NULL: none */
    const struct store_identity *from; /* whose records are this rule's, too: `row`, or that of an
                                          old name; NULL: none */
    unsigned moves;                    /* identity_moves, from `from` */
};

static struct rows rows_of_adopting(struct adopting *adopting)
{
    return (struct rows){
        .store = adopting->store, .parker = adopting->parker, .arena = &adopting->arena};
}

static bool fail_adopting(const struct adopting *adopting, struct buf *line)
{
    *adopting->ret_problem = buf_take(line);
    return false;
}

static bool fail_store(const struct adopting *adopting, enum store_status status)
{
    struct buf line = buf_make(PROBLEM_MAX);
    buf_add_str(&line, status == STORE_FULL
                           ? "the store has no space for what the rules' keys are made of"
                           : "the store did not respond in time, so that it is not known what its "
                             "records' keys were made of; try again once it does");
    return fail_adopting(adopting, &line);
}

/* ---- what the store has ---- */

/* Terms that are older than the rows make a change conflict, and are not those of the next try. */
static enum store_status read_rows(struct adopting *adopting)
{
    struct rows rows = rows_of_adopting(adopting);
    arena_fini(&adopting->arena);
    adopting->arena = arena_make(ARENA_MAX);
    adopting->terms = store_terms(adopting->store);
    return rows_find_all(&rows, &identity_table, &adopting->known);
}

static const struct store_identity *find_identity_row(const struct adopting *adopting,
                                                      struct slice name)
{
    for (size_t i = 0; i < adopting->known.n; i++) {
        const struct store_identity *row = (const struct store_identity *)adopting->known.rows[i];
        if (slice_eq(row->rule, name))
            return row;
    }
    return NULL;
}

static struct slice identity_of(struct arena *arena, const struct rule *rule)
{
    BUF_AUTO struct buf text = buf_make(TEXT_MAX);
    identity_write(rule, &text);
    return arena_copy_buf(arena, &text);
}

/* The row of a name under which the records of a new rule may be. */
static const struct store_identity *find_old_name(const struct adopting *adopting,
                                                  const struct rule *rule)
{
    const struct store_identity *row = NULL;
    for (size_t i = 0; i < rule->n_formerly && !row; i++)
        row = find_identity_row(adopting, rule->formerly[i]);
    return row ? row : find_identity_row(adopting, rule_key_space(rule));
}

/* Of an old name only what its keys are made of is this rule's, too. */
static unsigned moves_from_old_name(const struct need *need)
{
    unsigned parts =
        1U << IDENTITY_TEXTS | 1U << IDENTITY_TENANT | 1U << IDENTITY_SECRET | 1U << IDENTITY_KEY;
    return identity_moves(need->from->made_of, need->identity, need->rule->name) & parts;
}

static struct need need_of(struct adopting *adopting, const struct rule *rule)
{
    struct need need = {.rule = rule, .identity = identity_of(&adopting->arena, rule)};
    need.row = need.from = find_identity_row(adopting, rule->name);
    if (need.row) {
        need.moves = identity_moves(need.row->made_of, need.identity, rule->name);
        return need;
    }
    need.from = find_old_name(adopting, rule);
    need.moves = need.from ? moves_from_old_name(&need) : 0;
    return need;
}

static bool is_adopted_need(const struct need *need)
{
    return need->row && need->row->becomes.len == 0 && slice_eq(need->row->made_of, need->identity);
}

/* Whether it may begin something: processes may differ in the former names that they look up. */
static bool is_in_force(const struct need *need)
{
    return need->row && need->row->becomes.len == 0 &&
           identity_names_alike(need->row->made_of, need->identity);
}

/* ---- the records that it would leave behind ---- */

struct left {
    const struct need *need;
    int64_t now;
    size_t n;
    size_t n_doubt;
    int64_t until; /* CLOCK_NEVER: somebody must settle one first */
    /* Of the slice under way. */
    size_t slice_n, slice_doubt;
    int64_t slice_until;
};

static void restart_left(void *argument)
{
    struct left *left = argument;
    left->slice_n = left->slice_doubt = 0;
    left->slice_until = 0;
}

/* Whether the records of that rule's name are among those that the change leaves. */
static bool is_left(const struct need *need, struct slice name)
{
    struct slice before = need->from->made_of;
    bool is_own = slice_eq(name, need->from->rule);
    bool is_former = false;
    for (struct slice line, label, rest = before; slice_next(&rest, '\n', &line);) {
        struct slice former = slice_cut(line, ' ', &label);
        is_former |= slice_eq(label, SLICE("formerly")) && slice_eq(former, name);
    }
    bool is_space = slice_eq(name, identity_value(before, IDENTITY_SPACE));
    if (need->moves == 1U << IDENTITY_FORMERLY)
        return is_former && !slice_is_among(name, need->rule->formerly, need->rule->n_formerly);
    bool only_once = need->moves == 1U << IDENTITY_ONCE;
    return is_own || is_former || (need->row && is_space && !only_once);
}

/* On the committer's thread. */
static bool note_record(void *argument, const struct store_row *row, enum record_lease lease)
{
    struct left *left = argument;
    const struct record *record = &row->record;
    (void)lease;
    if (!is_left(left->need, row->rule) || record_is_absent(record, left->now))
        return true;
    bool is_final = record_is_final(record->status);
    int64_t until = is_final ? record->gone_at : CLOCK_NEVER;
    left->slice_n++;
    left->slice_doubt += !is_final;
    if (until > left->slice_until)
        left->slice_until = until;
    return true;
}

static enum store_status count_left(const struct adopting *adopting, const struct need *need,
                                    struct left *left)
{
    *left = (struct left){.need = need, .now = store_now(adopting->store)};
    struct store_list list = {
        .most = SLICE_ROWS, .restart = restart_left, .each = note_record, .argument = left};
    do {
        struct store_op op = {.kind = STORE_LIST, .list = &list};
        store_run(adopting->store, &op, adopting->parker,
                  clock_after(clock_boot_us(), ROWS_WITHIN_US));
        if (op.result.status != STORE_DONE)
            return op.result.status;
        left->n += left->slice_n;
        left->n_doubt += left->slice_doubt;
        left->until = left->slice_until > left->until ? left->slice_until : left->until;
        restart_left(left);
        list.after = op.result.row;
    } while (list.after != 0);
    return STORE_DONE;
}

/* ---- refusing ---- */

static void add_until(struct buf *line, const struct left *left)
{
    if (left->until == CLOCK_NEVER) {
        buf_add_str(line, " without an end");
        return;
    }
    buf_add_str(line, " until ");
    timestamp_print(line, left->until);
}

static void add_remedy(struct buf *line, const struct need *need)
{
    char digest[IDENTITY_DIGEST_SIZE];
    identity_digest(need->from->made_of, digest);
    if (need->moves == 1U << IDENTITY_SPACE)
        buf_printf(line, "keep them with key_space: %.*s, ",
                   SLICE_ARG(identity_value(need->from->made_of, IDENTITY_SPACE)));
    else
        buf_add_str(line, "take it back, ");
    buf_printf(line,
               "wait until they are gone, or accept this one change with `moved: %s` in the rule",
               digest);
}

static bool refuse_identity(const struct adopting *adopting, const struct need *need,
                            const struct left *left)
{
    struct buf line = buf_make(PROBLEM_MAX);
    buf_printf(&line, "rule '%.*s' moves its keys (", SLICE_ARG(need->rule->name));
    identity_write_parts(need->moves, &line);
    buf_printf(&line, "), and the store holds %zu record%s of them%s", left->n,
               left->n == 1 ? "" : "s", left->n_doubt > 0 ? ", " : "");
    if (left->n_doubt > 0)
        buf_printf(&line, "%zu without an outcome", left->n_doubt);
    buf_add_str(&line, ",");
    add_until(&line, left);
    buf_add_str(&line, need->moves == 1U << IDENTITY_ONCE
                           ? ": their once values would not count, and the same operation under "
                             "another key would run again; "
                           : ": they would not be found, and their retries would run again; ");
    add_remedy(&line, need);
    return fail_adopting(adopting, &line);
}

/* ---- writing ---- */

/* The row as it is from now on, in one commit with the epoch, if requests have other names by it.
 */
static enum store_status save_identity_row(struct adopting *adopting, struct store_identity *row,
                                           struct slice made_of, struct slice becomes)
{
    bool raises =
        row->becomes.len > 0 || becomes.len > 0 || !identity_names_alike(row->made_of, made_of);
    row->made_of = made_of;
    row->becomes = becomes;
    struct terms_change terms = {adopting->terms, adopting->terms};
    struct rows rows = rows_of_adopting(adopting);
    terms.wanted.epoch++;
    rows.terms = raises ? &terms : NULL;
    rows_put(&rows, TABLE_UPDATE, &identity_table, &row->row, NULL);
    enum store_status status = rows_save(&rows);
    if (status == STORE_DONE && raises)
        adopting->terms = terms.wanted;
    return status;
}

/* Others know of it once it is told, and begin nothing: what is found then is all. */
static enum store_status tell_and_look(struct adopting *adopting, const struct need *need,
                                       struct store_identity *row, struct left *left)
{
    struct slice before = row->made_of;
    enum store_status status = save_identity_row(adopting, row, before, need->identity);
    if (status != STORE_DONE)
        return status;
    status = count_left(adopting, need, left);
    if (status == STORE_DONE && left->n == 0)
        return STORE_DONE;
    enum store_status taken_back = save_identity_row(adopting, row, before, (struct slice){0});
    return status == STORE_DONE ? taken_back : status;
}

/* A change that was told, and did not come: its process was refused, and could not say so. */
static enum store_status take_back(struct adopting *adopting, const struct store_identity *row)
{
    if (!row || row->becomes.len == 0)
        return STORE_DONE;
    struct store_identity open = *row;
    return save_identity_row(adopting, &open, row->made_of, (struct slice){0});
}

/* False: `*ret_problem` says why. STORE_CONFLICT: another process was first. */
static bool change_row(struct adopting *adopting, const struct need *need, bool must_look,
                       enum store_status *ret_status)
{
    struct store_identity row = *need->row;
    struct left left = {0};
    *ret_status = must_look ? tell_and_look(adopting, need, &row, &left) : STORE_DONE;
    if (*ret_status == STORE_DONE && left.n > 0)
        return refuse_identity(adopting, need, &left);
    if (*ret_status == STORE_DONE)
        *ret_status = save_identity_row(adopting, &row, need->identity, (struct slice){0});
    return true;
}

static bool store_accepts(const struct need *need)
{
    char digest[IDENTITY_DIGEST_SIZE];
    identity_digest(need->from->made_of, digest);
    return slice_eq(need->rule->moved, slice_of(digest));
}

/* One rule that has a row of its own, or an old name's. True with STORE_DONE: nothing refuses it.
 */
static bool adopt_rule(struct adopting *adopting, const struct need *need,
                       enum store_status *ret_status)
{
    bool must_look = need->moves && !store_accepts(need);
    struct left left = {0};
    *ret_status = must_look ? count_left(adopting, need, &left) : STORE_DONE;
    if (*ret_status != STORE_DONE)
        return true;
    if (left.n > 0 && adopting->step != ADOPT_CHECKS)
        *ret_status = take_back(adopting, need->row);
    if (*ret_status != STORE_DONE)
        return true;
    if (left.n > 0)
        return refuse_identity(adopting, need, &left);
    if (adopting->step != ADOPT_CHANGES || !need->row)
        return true;
    return change_row(adopting, need, must_look, ret_status);
}

static enum store_status insert_rows(struct adopting *adopting, const struct need *needs, size_t n)
{
    struct store_identity inserted[PAGE];
    struct table_change changes[PAGE];
    struct rows rows = rows_of_adopting(adopting);
    enum store_status status = STORE_DONE;
    rows.changes = changes;
    rows.most = PAGE;
    for (size_t i = 0; i < n && status == STORE_DONE; i++) {
        if (!needs[i].row) {
            struct store_identity *row = &inserted[rows.n];
            *row =
                (struct store_identity){.rule = needs[i].rule->name, .made_of = needs[i].identity};
            rows_put(&rows, TABLE_INSERT, &identity_table, &row->row, NULL);
        }
        if (rows.n == PAGE || i + 1 == n) {
            status = rows_save(&rows);
            rows.n = 0;
        }
    }
    return status;
}

/* ---- all of them ---- */

static bool has_identity(const struct rule *rule)
{
    return rule->protect;
}

static struct need *gather_needs(struct adopting *adopting, size_t *ret_n)
{
    const struct rule_set *set = adopting->set;
    struct need *needs = arena_alloc(&adopting->arena, (set->n + 1) * sizeof *needs);
    *ret_n = 0;
    for (size_t i = 0; needs && i < set->n; i++) {
        if (!has_identity(&set->rules[i]))
            continue;
        needs[*ret_n] = need_of(adopting, &set->rules[i]);
        *ret_n += !is_adopted_need(&needs[*ret_n]);
    }
    return adopting->arena.failed ? NULL : needs;
}

/* One rule that moves, or all that are new. STORE_DONE with `*ret_done`: nothing is left to do. */
static bool adopt_some(struct adopting *adopting, enum store_status *ret_status, bool *ret_done)
{
    size_t n = 0;
    *ret_status = read_rows(adopting);
    if (*ret_status != STORE_DONE)
        return true;
    const struct need *needs = gather_needs(adopting, &n);
    if (!needs)
        return false;
    *ret_done = n == 0 || adopting->step != ADOPT_CHANGES;
    for (size_t i = 0; i < n; i++) {
        if (!needs[i].from)
            continue;
        if (!adopt_rule(adopting, &needs[i], ret_status) || *ret_status != STORE_DONE)
            return *ret_status != STORE_DONE;
        if (needs[i].row && adopting->step == ADOPT_CHANGES)
            return true;
    }
    if (!*ret_done)
        *ret_status = insert_rows(adopting, needs, n);
    return true;
}

static bool adopt_identity_step(struct adopting *adopting)
{
    enum store_status status = STORE_CONFLICT;
    bool done = false;
    for (int try = 0; try < TRIES_MOST && !done; try++) {
        if (!adopt_some(adopting, &status, &done))
            return false;
        if (status != STORE_DONE && adopting->step == ADOPT_CHECKS)
            return true;
        if (status != STORE_DONE && status != STORE_CONFLICT)
            return fail_store(adopting, status);
        done &= status == STORE_DONE;
    }
    if (!done)
        return fail_store(adopting, STORE_DOWN);
    atomic_store(&adopting->set->epoch, adopting->terms.epoch);
    return true;
}

static bool adopt_identities(struct adopting adopting, enum adopt_identity_step first,
                             enum adopt_identity_step last)
{
    bool settled = true;
    *adopting.ret_problem = NULL;
    for (adopting.step = first; settled && adopting.step <= last; adopting.step++)
        settled = adopt_identity_step(&adopting);
    arena_fini(&adopting.arena);
    return settled;
}

bool identities_adopt(struct store *store, struct rule_set *set, struct parker *parker,
                      char **ret_problem)
{
    return adopt_identities((struct adopting){store, set, parker, ret_problem}, ADOPT_JUDGES,
                            ADOPT_CHANGES);
}

bool identities_check(struct store *store, struct rule_set *set, struct parker *parker,
                      char **ret_problem)
{
    return adopt_identities((struct adopting){store, set, parker, ret_problem}, ADOPT_CHECKS,
                            ADOPT_CHECKS);
}

/* ---- while it serves ---- */

static const struct rule *rule_named(const struct rule_set *set, struct slice name, size_t *ret_at)
{
    for (*ret_at = 0; *ret_at < set->n; ++*ret_at)
        if (slice_eq(set->rules[*ret_at].name, name))
            return &set->rules[*ret_at];
    return NULL;
}

static bool is_as(struct arena *arena, const struct rule_set *set, const struct rule *rule)
{
    size_t at;
    const struct rule *other = rule_named(set, rule->name, &at);
    return other && has_identity(other) && !atomic_load(&set->moved[at]) &&
           slice_eq(identity_of(arena, rule), identity_of(arena, other));
}

bool identities_inherit(struct rule_set *set, const struct rule_set *from)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    int64_t epoch = atomic_load(&from->epoch); /* before `moved`: it is stored behind that */
    for (size_t i = 0; i < set->n; i++)
        if (has_identity(&set->rules[i]) && !is_as(&arena, from, &set->rules[i]))
            return false;
    atomic_store(&set->epoch, epoch);
    return !arena.failed;
}

static uint64_t begin_look(struct rule_set *set)
{
    mutex_lock(&set->learning);
    uint64_t look = ++set->looks;
    mutex_unlock(&set->learning);
    return look;
}

/* What was read before another one learned more is dropped. The epoch may be a lower one: of a
 * store that went back. */
static void note_moved(struct adopting *adopting, uint64_t look, const bool *moved)
{
    struct rule_set *set = adopting->set;
    mutex_lock(&set->learning);
    if (look > set->learned) {
        set->learned = look;
        for (size_t i = 0; i < set->n; i++)
            atomic_store(&set->moved[i], moved[i]);
        atomic_store(&set->epoch, adopting->terms.epoch);
    }
    mutex_unlock(&set->learning);
}

static enum store_status compare_rows(struct adopting *adopting, uint64_t look)
{
    const struct rule_set *set = adopting->set;
    bool *moved = arena_alloc(&adopting->arena, set->n + 1);
    for (size_t i = 0; moved && i < set->n; i++) {
        const struct need need = need_of(adopting, &set->rules[i]);
        moved[i] = has_identity(need.rule) && !is_in_force(&need);
    }
    if (adopting->arena.failed)
        return STORE_NO_MEMORY;
    note_moved(adopting, look, moved);
    return STORE_DONE;
}

enum store_status identities_learn(struct store *store, struct rule_set *set, struct parker *parker)
{
    struct adopting adopting = {.store = store, .set = set, .parker = parker};
    uint64_t look = begin_look(set);
    enum store_status status = read_rows(&adopting);
    if (status == STORE_DONE)
        status = compare_rows(&adopting, look);
    arena_fini(&adopting.arena);
    return status;
}

bool identities_name(const struct rule_set *set, const struct rule *rule, struct attempt *attempt)
{
    attempt->has_epoch = set->n > 0 && rule >= set->rules && rule < set->rules + set->n;
    attempt->epoch = attempt->has_epoch ? atomic_load(&set->epoch) : 0;
    return !attempt->has_epoch || !atomic_load(&set->moved[rule - set->rules]);
}
