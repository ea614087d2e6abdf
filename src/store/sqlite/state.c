/* SPDX-License-Identifier: Apache-2.0 */
/* What the file says of the whole store, in the one row of pawl_state: store time, the last token,
 * which `serve` has it, how many records there are. */
#include "store/sqlite/sqlite.h"
#include <stdio.h>

/* Ahead of the mark by more than this: the wall clock was set, or the store was left alone. */
#define JUMP_US (7 * INT64_C(86400) * CLOCK_US_PER_S)

/* By what the store holds: every process of one boot comes to the same. Only while the store is
 * held, and the wall clock first: a boot time from before a wait would put that wait on top of the
 * store's time, and the next process adds its own. */
static void read_state_time(struct sqlite_backend *sqlite)
{
    struct sqlite_state *state = &sqlite->state;
    struct backend_clock *clock = &sqlite->backend.clock;
    int64_t wall = clock_wall_us();
    int64_t boot = clock_boot_us();
    bool same_boot =
        sqlite->boot_id != 0 && sqlite->boot_id == state->boot_id && boot > state->time_boot;
    int64_t passed = same_boot ? boot - state->time_boot : 0;
    int64_t now = record_store_time(wall, state->time, passed);
    int64_t own =
        sqlite->clock_offset + boot; /* as of the last load, which may have saved nothing */
    int64_t expected = state->time + passed > own ? state->time + passed : own;
    state->boot = boot;
    state->now = now > own ? now : own;
    sqlite->clock_offset = state->now - boot;
    clock->refused = wall > RECORD_TIME_MOST;
    if (state->time != 0 && now - expected > JUMP_US) {
        clock->jump_us = now - expected;
        clock->jumps++;
    }
}

/* The clock may stand at a time that was wrong once: it never goes back by itself, but an operator
 * may set it. And the life lock may have been got round (its file was removed, the file system does
 * not keep locks): the process that took the store took the records that run here for orphans. */
static void check_state(struct sqlite_backend *sqlite)
{
    const struct sqlite_state *state = &sqlite->state;
    char *problem = sqlite->backend.problem;
    bool sane = state->time >= 0 && state->time_boot >= 0 && state->time <= RECORD_TIME_MOST &&
                state->token >= 0 && state->token < RECORD_TOKEN_MOST;
    bool taken = sqlite->serve != 0 && state->serve.incarnation != sqlite->serve;
    if (!sane)
        snprintf(problem, sizeof sqlite->backend.problem,
                 "%s: its store time is past the year 2200, a wall clock was wrong once; "
                 "docs/guide/operating.md, \"The clock was wrong\", says how to set it back",
                 sqlite->path);
    else if (taken)
        snprintf(
            problem, sizeof sqlite->backend.problem,
            "another `pawl serve` took this store; stop one of the two, and restart the other");
    if (!sane || taken)
        sqlite->status = BACKEND_AWAY;
}

#define READ_STATE(kind, column, field) field = sqlite3_column_int64(s, at++);
#define BIND_STATE(kind, column, field) sqlite_bind_number(&binding, field);

/* They come first; how many they are. */
static int read_state_terms(struct sqlite_backend *sqlite, sqlite3_stmt *s)
{
    struct terms *terms = &sqlite->state.terms;
    int at = 0;
    if (sqlite->is_foreign)
        return at;
#define X(name) terms->name = sqlite3_column_int64(s, at++);
    TERMS(X)
#undef X
    return at;
}

/* Only where what they come with was written. */
static bool sets_terms(const struct backend_save *save)
{
    return save->sets && save->groups && save->groups->result == GROUP_OK;
}

static void write_terms(struct sqlite_backend *sqlite, const struct backend_save *save)
{
    if (!sets_terms(save))
        return;
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_TERMS_WRITE);
#define X(name) sqlite_bind_number(&binding, save->sets->wanted.name);
    TERMS(X)
#undef X
    sqlite_run(&binding);
}

/* Tokens only grow: an older copy of the file was put in its place. An application's own file goes
 * back together with what the application did. */
static void check_token(struct sqlite_backend *sqlite)
{
    struct backend_back *back = &sqlite->backend.back;
    const struct sqlite_state *state = &sqlite->state;
    int64_t seen = sqlite->token_seen;
    sqlite->token_seen = state->token;
    if (state->token >= seen || sqlite->is_foreign)
        return;
    back->times++;
    back->incidents++;
    back->untold = true;
    back->blanks++;
    back->since = state->time;
    back->above = back->above < seen ? seen : back->above;
    back->seen_at = state->now;
    snprintf(sqlite->backend.problem, sizeof sqlite->backend.problem,
             "%s: the store lacks what it had acknowledged", sqlite->path);
    sqlite->status = BACKEND_BUSY;
}

void sqlite_read_state(struct sqlite_backend *sqlite)
{
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_STATE_READ);
    sqlite3_stmt *s = binding.statement;
    struct sqlite_state *state = &sqlite->state;
    struct sqlite_key_marks read, *marks = &read;
    const struct backend_counts *counts = &state->counts;
    state->serve.alive = store_lock_life_held(&sqlite->lock, STORE_SERVE);
    if (sqlite_step(&binding)) {
        int at = read_state_terms(sqlite, s);
        state->token = sqlite3_column_int64(s, at++);
        SQLITE_STATE(READ_STATE)
        check_state(sqlite);
    } else {
        sqlite_fail(sqlite, SQLITE_CORRUPT);
    }
    sqlite3_reset(s);
    if (sqlite_ok(sqlite))
        check_token(sqlite);
    if (!sqlite_ok(sqlite))
        return;
    read_state_time(sqlite);
    sqlite->owner = (struct backend_owner){.incarnation = 0};
    sqlite_keys_begin(sqlite, marks,
                      counts->pending + counts->complete + counts->failed + counts->unknown);
}

/* No row is above the last token, unless somebody wrote into the file by hand. */
static void lift_token(struct sqlite_state *state, const struct store_row *row)
{
    if (row && row->record.token > state->token)
        state->token = row->record.token;
}

void sqlite_fill_read(struct sqlite_backend *sqlite, const struct backend_name *names, size_t n,
                      struct backend_read *ret_read)
{
    struct sqlite_state *state = &sqlite->state;
    for (size_t i = 0; i < n; i++) {
        lift_token(state, names[i].row);
        lift_token(state, names[i].hinted);
    }
    if (state->token < sqlite->backend.back.above)
        state->token = sqlite->backend.back.above;
    int64_t token = record_next_token(state->token, state->now);
    *ret_read = (struct backend_read){.now = state->now,
                                      .boot = state->boot,
                                      .token = token,
                                      .n_tokens = RECORD_TOKEN_MOST - token,
                                      .forgets = state->counts.forgets,
                                      .terms = state->terms};
}

void sqlite_write_state(struct sqlite_backend *sqlite, const struct backend_save *save)
{
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_STATE_WRITE);
    struct sqlite_state *state = &sqlite->state;
    const struct sqlite_key_marks *marks = &sqlite->keys.marks;
    if (save->drawn > 0)
        state->token = record_next_token(state->token, state->now) + save->drawn - 1;
    if (sets_terms(save) && state->token < save->sets->above)
        state->token = save->sets->above;
    state->time = state->now;
    state->time_boot = state->boot;
    state->boot_id = sqlite->boot_id;
    if (save->registers && sqlite->lock.role == STORE_SERVE) {
        state->serve.incarnation = sqlite->backend.self.incarnation;
        state->serve.since = state->now;
    }
    sqlite_bind_number(&binding, state->token);
    SQLITE_STATE(BIND_STATE)
    sqlite_run(&binding);
    write_terms(sqlite, save);
}

void sqlite_state_committed(struct sqlite_backend *sqlite, struct backend_save *save)
{
    if (save->registers && sqlite->lock.role == STORE_SERVE)
        sqlite->serve = sqlite->backend.self.incarnation;
    if (save->changed)
        sqlite->token_seen = sqlite->state.token;
    save->counts = sqlite->state.counts;
}
