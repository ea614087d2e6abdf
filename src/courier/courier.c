/* SPDX-License-Identifier: Apache-2.0 */
#include "courier/courier.h"

#include "base/buf.h"
#include "base/check.h"
#include "base/mem.h"
#include "courier/courier_priv.h"
#include "fiber/fiber.h"

#define PAGE 64                                     /* rows of one read */
#define POLL_US CLOCK_US_PER_S                      /* until other processes' additions are seen */
#define LOST_EVERY_US (INT64_C(2) * CLOCK_US_PER_S) /* between two looks for dead owners */

struct courier *courier_new(const struct courier_config *config)
{
    CHECK(config->owner != 0 && config->n_kinds > 0);
    struct courier *courier = mem_zalloc(1, sizeof *courier);
    if (!courier)
        return NULL;
    courier->config = *config;
    series_init(&courier->series);
    courier->paused_arena = arena_make(COURIER_ARENA_MAX);
    courier->turns = mem_zalloc(config->n_kinds, sizeof *courier->turns);
    courier->lanes = lanes_new(config->overall > 0 ? config->overall : LANES_OVERALL);
    if (!courier->lanes || !courier->turns) {
        courier_free(courier);
        return NULL;
    }
    for (size_t i = 0; i < config->n_kinds; i++) {
        const struct courier_kind *kind = config->kinds[i];
        CHECK(kind->name.len > 0 && kind->attempt && (kind->own_size == 0 || kind->claim));
        courier->turns[i] = buf_make(SIZE_MAX);
    }
    return courier;
}

void courier_free(struct courier *courier)
{
    if (!courier)
        return;
    CHECK(!courier->deliveries);
    for (size_t i = 0; courier->turns && i < courier->config.n_kinds; i++)
        buf_fini(&courier->turns[i]);
    mem_free(courier->turns);
    arena_fini(&courier->paused_arena);
    lanes_free(courier->lanes);
    series_fini(&courier->series);
    mem_free(courier);
}

void courier_wake(struct courier *courier)
{
    struct parker *parker = atomic_load(&courier->parker);
    atomic_store(&courier->is_woken, true);
    if (parker)
        parker_wake(parker);
}

void courier_drain(struct courier *courier)
{
    atomic_store(&courier->drains, true);
    courier_wake(courier);
}

struct courier_counts courier_count(const struct courier *courier)
{
    struct courier_counts counts = courier->counts;
    counts.lanes = lanes_count(courier->lanes, clock_boot_us());
    return counts;
}

void courier_write_series(struct courier *courier, struct buf *page)
{
    series_write(&courier->series, page);
}

static struct slice find_lane_label(const void *argument, struct slice kind, struct slice lane)
{
    const struct courier_config *config = argument;
    for (size_t i = 0; i < config->n_kinds; i++)
        if (slice_eq(config->kinds[i]->name, kind) && config->kinds[i]->label)
            return config->kinds[i]->label(config->kinds[i], lane);
    return SERIES_OTHER;
}

/* What only this thread may look at, for all others. */
static void show_lanes(struct courier *courier, int64_t now)
{
    const struct series_labels labels = {find_lane_label, &courier->config};
    if (now < courier->shown_at)
        return;
    series_show_lanes(&courier->series, courier->lanes, &labels, now);
    courier->shown_at = clock_after(now, POLL_US);
}

bool courier_serves(const struct courier_kind *kind, struct slice lane)
{
    return !kind->serves || kind->serves(kind, lane);
}

struct courier_limits courier_limits_of(const struct courier_kind *kind, struct slice lane)
{
    return kind->limits_of ? kind->limits_of(kind, lane) : kind->limits;
}

/* ---- one pass over all that is due ---- */

struct pass {
    struct courier *courier;
    const struct courier_kind *kind; /* the one it is at */
    int64_t wake_at;                 /* boot time: when to look again; POLL_US at most */
    bool began;                      /* a delivery */
    bool waits;                      /* something has a time, or is being sent elsewhere */
    uint64_t ended;                  /* of the courier, when it began */
};

/* Reads rows; they live in the arena. */
static enum store_status courier_find(struct courier *courier, const struct table_query *query,
                                      struct arena *arena, struct store_found *ret_found)
{
    struct rows rows = {.store = courier->config.store, .parker = fiber_parker(), .arena = arena};
    enum store_status status = rows_find(&rows, query, ret_found);
    courier->store_is_dead |= status == STORE_DEAD;
    return status;
}

static void look_again_at(struct pass *pass, int64_t boot)
{
    pass->wake_at = clock_first(pass->wake_at, boot);
}

/* What the store's clock says, by this one. */
static void look_again_when_due(struct pass *pass, const struct store_found *found)
{
    if (found->next_due == CLOCK_NEVER)
        return;
    pass->waits = true;
    look_again_at(pass, clock_after(clock_boot_us(), found->next_due - found->now));
}

/* ---- attempts whose owner died ---- */

/* Alone in its role, it knows that all others are dead; else their leases say so. */
static bool is_lost_task(const struct courier *courier, const struct store_task *stored,
                         int64_t now)
{
    if (stored->task.owner == courier->config.owner)
        return !delivery_is_under_way(courier, stored->row.id);
    return stored->task.lease_until <= now || store_is_alone(courier->config.store);
}

static enum store_status lose_some(struct pass *pass)
{
    struct courier *courier = pass->courier;
    ARENA_AUTO struct arena arena = arena_make(COURIER_ARENA_MAX);
    const struct store_task like = {.kind = pass->kind->name};
    const struct table_query query = {.table = &task_table,
                                      .by = TABLE_BY_INDEX,
                                      .like = &like.row,
                                      .index = &task_indexes[TASK_BY_LEASE],
                                      .prefix = 1,
                                      .is_sound_only = true,
                                      .limit = PAGE};
    struct store_found found;
    enum store_status status = courier_find(courier, &query, &arena, &found);
    for (size_t i = 0; status == STORE_DONE && i < found.n; i++) {
        const struct store_task *stored = (const struct store_task *)found.rows[i];
        if (is_lost_task(courier, stored, found.now))
            status = delivery_lose(courier, pass->kind, stored);
        else
            courier->others_send |= stored->task.owner != courier->config.owner;
        if (status != STORE_CONFLICT)
            continue;
        status = STORE_DONE; /* somebody else did, or it was added behind */
        courier->others_send = true;
    }
    return status;
}

/* ---- pauses ---- */

/* All of them, however many: one that is not known would be sent. */
static enum store_status find_paused(struct courier *courier)
{
    struct table_query query = {.table = &lane_table, .by = TABLE_BY_ID, .limit = PAGE};
    enum store_status status;
    int64_t now = clock_boot_us();
    if (now < courier->paused_at && !courier->is_closed) /* else nothing would see it opened */
        return STORE_DONE;
    for (;; query.limit *= 2) {
        arena_reset(&courier->paused_arena);
        status = courier_find(courier, &query, &courier->paused_arena, &courier->paused);
        if (status != STORE_DONE || courier->paused.n < query.limit)
            break;
    }
    courier->paused_at = status == STORE_DONE ? clock_after(now, POLL_US) : 0; /* none is known */
    return status;
}

/* The whole lane, or one order: of that lane, or wherever it goes. */
static bool is_paused_lane(const struct pass *pass, struct slice lane, struct slice ord,
                           int64_t now)
{
    for (size_t i = 0; i < pass->courier->paused.n; i++) {
        const struct store_lane *said = (const struct store_lane *)pass->courier->paused.rows[i];
        if (said->state == STORE_LANE_PAUSED && said->until > now &&
            slice_eq(said->kind, pass->kind->name) && slice_eq(said->ord, ord) &&
            (slice_eq(said->lane, lane) || (ord.len > 0 && said->lane.len == 0)))
            return true;
    }
    return false;
}

/* ---- lanes in turn ---- */

/* Begins one. False: there is no room in the lane any more. */
static bool start_delivery(struct pass *pass, struct slice lane_name,
                           const struct store_task *stored)
{
    struct courier *courier = pass->courier;
    struct lane_attempt attempt;
    int64_t now = clock_boot_us(), until = CLOCK_NEVER;
    struct lane *lane = lanes_find(courier->lanes, pass->kind->name, lane_name,
                                   courier_limits_of(pass->kind, lane_name).in_flight, now);
    if (!lane)
        return false;
    if (lanes_room(courier->lanes, lane, now, &until) == 0 ||
        !lanes_begin(courier->lanes, lane, stored->task.attempts > 0, now, &attempt)) {
        (void)lanes_room(courier->lanes, lane, now, &until);
        look_again_at(pass, until);
        return false;
    }
    if (!delivery_start(courier, pass->kind, stored, attempt)) {
        lanes_end(courier->lanes, &attempt, LANE_UNCOUNTED, now);
        return false;
    }
    pass->began = true;
    return true;
}

/* Reads as many as the lane has room for, beside those that are under way and still look due, and
 * those of orders that are paused. */
static enum store_status serve_lane(struct pass *pass, struct slice lane, int room, int in_flight)
{
    ARENA_AUTO struct arena arena = arena_make(COURIER_ARENA_MAX);
    const struct store_task like = {.kind = pass->kind->name, .lane = lane};
    const struct table_query query = {.table = &task_table,
                                      .by = TABLE_BY_INDEX,
                                      .like = &like.row,
                                      .index = &task_indexes[TASK_BY_LANE],
                                      .prefix = 2,
                                      .is_sound_only = true,
                                      .limit =
                                          (size_t)(room + in_flight) + pass->courier->paused.n};
    struct store_found found;
    enum store_status status = courier_find(pass->courier, &query, &arena, &found);
    for (size_t i = 0; status == STORE_DONE && i < found.n; i++) {
        const struct store_task *stored = (const struct store_task *)found.rows[i];
        if (delivery_is_under_way(pass->courier, stored->row.id) ||
            (stored->ord.len > 0 && is_paused_lane(pass, lane, stored->ord, found.now)))
            continue;
        pass->waits = true;
        if (!start_delivery(pass, lane, stored))
            break;
    }
    return status;
}

static enum store_status visit_lane(struct pass *pass, const struct store_task *first, int64_t now)
{
    struct courier *courier = pass->courier;
    int64_t boot = clock_boot_us(), until = CLOCK_NEVER;
    if (!courier_serves(pass->kind, first->lane) ||
        is_paused_lane(pass, first->lane, SLICE(""), now))
        return STORE_DONE;
    struct lane *lane = lanes_find(courier->lanes, pass->kind->name, first->lane,
                                   courier_limits_of(pass->kind, first->lane).in_flight, boot);
    if (!lane)
        return STORE_NO_MEMORY;
    int room = lanes_room(courier->lanes, lane, boot, &until);
    if (room > 0)
        return serve_lane(pass, first->lane, room, lane_in_flight(lane));
    pass->waits = true;
    look_again_at(pass, until);
    return STORE_DONE;
}

static void keep_name(struct buf *name, struct slice lane)
{
    buf_clear(name);
    buf_add_slice(name, lane);
}

static enum store_status visit_found(struct pass *pass, struct buf *turn,
                                     const struct store_found *found, struct buf *behind)
{
    enum store_status status = STORE_DONE;
    for (size_t i = 0; status == STORE_DONE && i < found->n; i++) {
        const struct store_task *first = (const struct store_task *)found->rows[i];
        if (lanes_are_full(pass->courier->lanes)) {
            keep_name(turn, buf_slice(behind)); /* the next pass begins here */
            return STORE_DONE;
        }
        status = visit_lane(pass, first, found->now);
        keep_name(behind, first->lane);
    }
    return status;
}

/* Lanes with something due, those behind `behind`, which becomes the last of them: a page. False in
 * `*ret_more`: there are no more, or no attempt has room. */
static enum store_status visit_page(struct pass *pass, struct buf *turn, struct buf *behind,
                                    bool *ret_more)
{
    ARENA_AUTO struct arena arena = arena_make(COURIER_ARENA_MAX);
    const struct store_task like = {.kind = pass->kind->name};
    const struct store_task from = {.kind = pass->kind->name, .lane = buf_slice(behind)};
    const struct table_query query = {.table = &task_table,
                                      .by = TABLE_BY_INDEX,
                                      .like = &like.row,
                                      .index = &task_indexes[TASK_BY_LANE],
                                      .prefix = 1,
                                      .behind = behind->len > 0 ? &from.row : NULL,
                                      .is_first_of_each = true,
                                      .is_sound_only = true,
                                      .limit = PAGE};
    struct store_found found;
    enum store_status status = courier_find(pass->courier, &query, &arena, &found);
    if (status != STORE_DONE)
        return status;
    look_again_when_due(pass, &found);
    status = visit_found(pass, turn, &found, behind);
    *ret_more = found.n == PAGE && turn->len == 0;
    return status;
}

static enum store_status visit_behind(struct pass *pass, struct buf *turn, struct buf *behind)
{
    enum store_status status;
    bool more = false;
    do
        status = visit_page(pass, turn, behind, &more);
    while (status == STORE_DONE && more);
    return status;
}

/* All lanes of the kind: none gets more than its room before all others had theirs. */
static enum store_status visit_lanes(struct pass *pass, struct buf *turn)
{
    BUF_AUTO struct buf behind = buf_make(SIZE_MAX);
    bool from_middle = turn->len > 0;
    keep_name(&behind, buf_slice(turn));
    buf_clear(turn);
    enum store_status status = visit_behind(pass, turn, &behind);
    buf_clear(&behind);
    if (status == STORE_DONE && from_middle && !lanes_are_full(pass->courier->lanes))
        status = visit_behind(pass, turn, &behind);
    return status;
}

static enum store_status visit_kind(struct pass *pass, size_t kind, bool looks_for_lost)
{
    struct courier *courier = pass->courier;
    pass->kind = courier->config.kinds[kind];
    enum store_status status = looks_for_lost ? lose_some(pass) : STORE_DONE;
    if (status != STORE_DONE || courier->is_closed)
        return status;
    return visit_lanes(pass, &courier->turns[kind]);
}

static enum store_status make_pass(struct courier *courier, struct pass *pass)
{
    int64_t now = clock_boot_us();
    bool looks_for_lost = now >= courier->lost_at;
    *pass = (struct pass){
        .courier = courier, .ended = courier->ended, .wake_at = clock_after(now, POLL_US)};
    show_lanes(courier, now);
    enum store_status status = find_paused(courier);
    courier->others_send = courier->others_send && !looks_for_lost;
    courier->is_closed = store_closed(courier->config.store) != STORE_DONE;
    for (size_t i = 0; status == STORE_DONE && i < courier->config.n_kinds; i++)
        status = visit_kind(pass, i, looks_for_lost);
    if (looks_for_lost && status == STORE_DONE)
        courier->lost_at = clock_after(now, LOST_EVERY_US);
    return status;
}

/* ---- until it is over ---- */

static void wait_for_deliveries(struct courier *courier)
{
    while (courier->deliveries) {
        struct parker *parker = fiber_parker();
        parker->park(parker, clock_after(clock_boot_us(), POLL_US));
    }
}

static bool is_pass_over(const struct courier *courier, enum courier_mode mode,
                         const struct pass *pass)
{
    bool is_stale = courier->ended != pass->ended; /* one may have freed its order meanwhile */
    if (courier->deliveries || pass->began || is_stale || mode == COURIER_FOLLOW)
        return false;
    if (courier->is_closed)
        return true;
    return mode == COURIER_ONCE || !(pass->waits || courier->others_send);
}

static enum courier_end run_courier_mode(struct courier *courier, enum courier_mode mode)
{
    struct parker *parker = fiber_parker();
    while (!atomic_load(&courier->drains)) {
        struct pass pass;
        atomic_store(&courier->is_woken, false);
        enum store_status status = make_pass(courier, &pass);
        if (courier->store_is_dead)
            return COURIER_STORE_DEAD;
        if (status == STORE_DONE && is_pass_over(courier, mode, &pass))
            return COURIER_FINISHED;
        int64_t again = clock_after(clock_boot_us(), COURIER_PAUSE_US);
        if (!atomic_load(&courier->drains) && !atomic_load(&courier->is_woken))
            parker->park(parker, status == STORE_DONE ? pass.wake_at : again);
    }
    return COURIER_DRAINED;
}

enum courier_end courier_run(struct courier *courier, enum courier_mode mode)
{
    CHECK(!atomic_load(&courier->parker) && !courier->deliveries);
    atomic_store(&courier->parker, fiber_parker());
    enum courier_end end = run_courier_mode(courier, mode);
    wait_for_deliveries(courier);
    atomic_store(&courier->parker, NULL);
    return end;
}
