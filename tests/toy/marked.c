/* SPDX-License-Identifier: Apache-2.0 */
#include "marked.h"

#include "base/check.h"
#include <stdlib.h>

#define PARAMS_MAX ((size_t)4096)
#define ARRAY_HEAD 20 /* bytes of an array before its first element */
#define ITEM 12       /* and of each number in it: its size, itself */
#define NUMBERS_MAX (11 + 4 * (STORE_SESSIONS_MOST - 1))
#define KEPT_US (INT64_C(7) * 86400 * CLOCK_US_PER_S)

/* The mark of an exchange, as pawl.keep_mark takes it. */
struct sent_mark {
    int64_t numbers[NUMBERS_MAX];
    size_t n; /* 0: it has none */
};

static struct sent_mark queued; /* by postgres_queue_see_mark */
static int64_t seen;            /* what the server says of it */

/* ---- in place of a connection ---- */

static struct sent_mark read_mark(const struct postgres_params *params)
{
    struct sent_mark mark = {.n = params->n > 0 ? (size_t)params->elements : 0};
    CHECK(params->n <= 1 && mark.n <= NUMBERS_MAX && buf_ok(&params->bytes));
    for (size_t i = 0; i < mark.n; i++) {
        uint64_t wire;
        memcpy(&wire, params->bytes.at + ARRAY_HEAD + i * ITEM + 4, sizeof wire);
        mark.numbers[i] = (int64_t)__builtin_bswap64(wire);
    }
    return mark;
}

void __wrap_postgres_queue(struct postgres_backend *postgres, const char *sql,
                           const struct postgres_params *params);
void __wrap_postgres_queue(struct postgres_backend *postgres, const char *sql,
                           const struct postgres_params *params)
{
    (void)postgres;
    (void)sql;
    queued = read_mark(params);
}

int64_t __wrap_postgres_number(const PGresult *result, int row, int column);
int64_t __wrap_postgres_number(const PGresult *result, int row, int column)
{
    CHECK(!result && row == 0 && column == 0);
    return seen;
}

/* ---- the server ---- */

static struct marks_row *find_row(struct marks *marks, int64_t by)
{
    for (size_t i = marks->n; i-- > 0;)
        if (marks->rows[i].by == by)
            return &marks->rows[i];
    return NULL;
}

static bool is_between(const struct marks_row *row, int64_t low, int64_t high)
{
    return row && row->value >= low && row->value <= high;
}

/* The mark by which the store lacks what it had acknowledged; 0: none. */
static int64_t lacking(struct marks *marks, const struct sent_mark *mark)
{
    const int64_t *n = mark->numbers;
    if (mark->n == 0 || n[0] == 0)
        return 0;
    if (mark->n > 8 && n[8] != 0 && !is_between(find_row(marks, n[8]), n[9], n[10]))
        return n[8];
    for (size_t i = 11; i < mark->n; i += 4)
        if (!is_between(find_row(marks, n[i]), n[i + 1], INT64_MAX))
            return n[i];
    const struct marks_row *row = find_row(marks, n[0]);
    return (row ? is_between(row, n[1], n[2]) : n[7] == 1) ? 0 : n[0];
}

static void write_row(struct marks *marks, const struct sent_mark *mark, int64_t now)
{
    const int64_t *n = mark->numbers;
    if (mark->n == 0 || n[0] == 0)
        return;
    struct marks_row *row = find_row(marks, n[0]);
    if (!row) {
        CHECK(marks->n < MARKS_MAX);
        row = &marks->rows[marks->n++];
    }
    *row = (struct marks_row){n[0], n[3], now};
}

static void sweep(struct marks *marks, int64_t now)
{
    size_t left = 0;
    for (size_t i = 0; i < marks->n; i++)
        if (now - marks->rows[i].at < KEPT_US)
            marks->rows[left++] = marks->rows[i];
    marks->n = left;
}

/* ---- the backend ---- */

static struct marked *enter(struct backend *backend)
{
    struct marked *marked = (struct marked *)backend;
    marked->behind->self = backend->self;
    marked->postgres.failure = (struct postgres_failure){0};
    marked->postgres.backend.back = backend->back;
    return marked;
}

static enum backend_status leave(struct marked *marked, enum backend_status status)
{
    const struct backend *behind = marked->behind;
    marked->backend.back = marked->postgres.backend.back;
    marked->backend.clock = behind->clock;
    marked->backend.space = behind->space;
    marked->backend.checkpoints = behind->checkpoints;
    memcpy(marked->backend.problem, behind->problem, sizeof behind->problem);
    return status;
}

static enum backend_status refuse(struct marked *marked, int64_t by)
{
    const struct marks_row *row = find_row(marked->marks, by);
    marked->postgres.failure =
        (struct postgres_failure){.went_back = true, .since = row ? row->at : 0, .mark = by};
    marked->behind->ops->abandon(marked->behind);
    return BACKEND_BUSY;
}

static struct sent_mark see(struct marked *marked)
{
    postgres_queue_see_mark(&marked->postgres);
    const struct marks_row *row = find_row(marked->marks, queued.numbers[0]);
    seen = queued.n > 0 && row ? row->value : 0;
    return queued;
}

/* Behind the load, in its exchange. */
static enum backend_status see_loaded(struct marked *marked, const struct backend_read *read)
{
    struct postgres_backend *postgres = &marked->postgres;
    struct sent_mark mark = {.n = 0};
    postgres->mark.loaded = 0;
    if (postgres->must_commit)
        mark = see(marked);
    int64_t by = lacking(marked->marks, &mark);
    if (by != 0) {
        enum backend_status status = refuse(marked, by);
        postgres_mark_saved(postgres, status);
        return status;
    }
    postgres->mark.loaded = postgres->must_commit ? seen : 0;
    postgres->now = read->now;
    postgres->version = read->token;
    postgres->highest = read->token + read->n_tokens - 1;
    return BACKEND_OK;
}

static enum backend_status marked_load(struct backend *backend, struct backend_name *names,
                                       size_t n, struct arena *arena, struct backend_read *ret_read)
{
    struct marked *marked = enter(backend);
    struct backend *behind = marked->behind;
    struct hostile_faults *faults = hostile_faults(behind);
    void (*then)(void *) = faults->loaded;
    faults->loaded = NULL;
    enum backend_status status = behind->ops->load(behind, names, n, arena, ret_read);
    if (status == BACKEND_OK)
        status = see_loaded(marked, ret_read);
    if (status == BACKEND_OK && then)
        then(faults->argument);
    return leave(marked, status);
}

/* A stranger holds the row: another mark takes its place, or the save waits in vain. */
static bool is_blocked(struct marked *marked, const struct backend_save *save)
{
    struct postgres_backend *postgres = &marked->postgres;
    int64_t by = postgres->mark.by;
    if (!save->groups || !marked->held || !find_row(marked->marks, by))
        return false;
    marked->held = false;
    postgres_params_clear(&postgres->params);
    postgres_add_mark(postgres, &postgres->params);
    postgres_move_mark(postgres);
    return postgres->mark.by == by;
}

/* What postgres_save sends. */
static struct sent_mark mark_of(struct marked *marked, const struct backend_save *save)
{
    struct postgres_backend *postgres = &marked->postgres;
    if (!save->groups)
        return postgres->must_commit ? see(marked) : (struct sent_mark){.n = 0};
    postgres_params_clear(&postgres->params);
    postgres_add_mark(postgres, &postgres->params);
    return read_mark(&postgres->params);
}

static enum backend_status save_behind(struct marked *marked, struct backend_save *save)
{
    struct backend *behind = marked->behind;
    struct hostile_faults *faults = hostile_faults(behind);
    bool loses = save->groups && marked->loses;
    if (loses)
        atomic_store(&faults->next_save, BACKEND_BUSY);
    marked->loses &= !loses;
    enum backend_status status = behind->ops->save(behind, save);
    return loses && status == BACKEND_BUSY ? BACKEND_UNSURE : status;
}

static enum backend_status marked_save(struct backend *backend, struct backend_save *save)
{
    struct marked *marked = enter(backend);
    struct postgres_backend *postgres = &marked->postgres;
    const atomic_ullong *commits = &hostile_faults(marked->behind)->commits;
    if (is_blocked(marked, save)) {
        marked->behind->ops->abandon(marked->behind);
        return leave(marked, BACKEND_BUSY);
    }
    struct sent_mark mark = mark_of(marked, save);
    int64_t by = lacking(marked->marks, &mark);
    if (by != 0) {
        enum backend_status status = refuse(marked, by);
        postgres_mark_saved(postgres, status);
        return leave(marked, status);
    }
    bool brings = save->groups, commits_all = brings || postgres->must_commit;
    unsigned long long before = atomic_load(commits);
    marked->sent += brings;
    enum backend_status status = save_behind(marked, save);
    if (brings && atomic_load(commits) != before) {
        write_row(marked->marks, &mark, postgres->now);
        marked->written = marked->sent;
    }
    postgres->must_commit |= brings && status == BACKEND_UNSURE;
    if (brings || (commits_all && status != BACKEND_OK))
        postgres_mark_saved(postgres, status);
    if (status != BACKEND_OK || !commits_all)
        return leave(marked, status);
    postgres->must_commit = false;
    marked->acked = marked->written;
    if (!brings)
        postgres_mark_seen(postgres, NULL);
    return leave(marked, BACKEND_OK);
}

static enum backend_status marked_maintain(struct backend *backend, struct backend_chores *chores)
{
    struct marked *marked = enter(backend);
    if (chores->sweep_most > 0)
        sweep(marked->marks, marked->postgres.now);
    return leave(marked, marked->behind->ops->maintain(marked->behind, chores));
}

static void marked_abandon(struct backend *backend)
{
    struct marked *marked = enter(backend);
    marked->behind->ops->abandon(marked->behind);
}

static enum backend_status marked_outcome(struct backend *backend, const struct store_row *row,
                                          uint64_t most, struct outcome **ret_outcome,
                                          uint64_t *ret_size)
{
    struct marked *marked = enter(backend);
    struct backend *behind = marked->behind;
    return leave(marked, behind->ops->outcome(behind, row, most, ret_outcome, ret_size));
}

static enum backend_status marked_list(struct backend *backend, const struct store_list *list,
                                       const struct record_world *world, int64_t *ret_seen)
{
    struct marked *marked = enter(backend);
    return leave(marked, marked->behind->ops->list(marked->behind, list, world, ret_seen));
}

static enum backend_status marked_query(struct backend *backend, const struct table_query *query,
                                        int64_t now, int64_t *ret_next)
{
    struct marked *marked = enter(backend);
    return leave(marked, marked->behind->ops->query(marked->behind, query, now, ret_next));
}

static enum backend_status marked_look(struct backend *backend, struct backend_watch *watches,
                                       size_t n)
{
    struct marked *marked = enter(backend);
    return leave(marked, marked->behind->ops->look(marked->behind, watches, n));
}

static void marked_close(struct backend *backend)
{
    struct marked *marked = enter(backend);
    marked->behind->ops->close(marked->behind);
    postgres_params_fini(&marked->postgres.params);
    postgres_marks_leave(marked->postgres.marks);
    free(marked);
}

static struct marked *open_marked(struct backend *behind, struct marks *marks)
{
    static const struct backend_ops ops = {.load = marked_load,
                                           .maintain = marked_maintain,
                                           .save = marked_save,
                                           .abandon = marked_abandon,
                                           .outcome = marked_outcome,
                                           .list = marked_list,
                                           .query = marked_query,
                                           .look = marked_look,
                                           .close = marked_close};
    struct marked *marked = calloc(1, sizeof *marked);
    CHECK(marked);
    marked->backend = *behind;
    marked->backend.ops = &ops;
    marked->behind = behind;
    marked->marks = marks;
    marked->postgres.backend.self.role = STORE_SERVE; /* it keeps a mark, whatever its role here */
    marked->postgres.params = postgres_params_make(PARAMS_MAX);
    return marked;
}

struct backend *marked_over(struct backend *behind, struct marks *marks)
{
    struct marked *marked = open_marked(behind, marks);
    marked->postgres.number = 1;
    marked->postgres.marks = postgres_marks_make();
    CHECK(marked->postgres.marks);
    return &marked->backend;
}

struct backend *marked_beside(const struct backend *backend, size_t number)
{
    const struct marked *first = (const struct marked *)backend;
    CHECK(number > 1 && number <= STORE_SESSIONS_MOST);
    struct marked *marked = open_marked(hostile_toy(first->behind), first->marks);
    marked->postgres.number = number;
    marked->postgres.marks = postgres_marks_share(first->postgres.marks);
    return &marked->backend;
}
