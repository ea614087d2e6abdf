/* SPDX-License-Identifier: Apache-2.0 */
#include "courier/lanes.h"

#include <assert.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"

#define WINDOW_PARTS 10 /* the window moves on by a tenth at a time */
#define WINDOW_PART_US (LANE_WINDOW_US / WINDOW_PARTS)
#define BUDGET_WAIT_US (RETRY_TOKEN / RETRY_BUDGET_PER_US) /* a token later */

static_assert(LANE_WINDOW_US % WINDOW_PARTS == 0, "its parts are the window");
static_assert(LANE_REST_LEAST_US <= LANE_REST_MOST_US, "a rest grows");
static_assert(LANES_IN_FLIGHT <= LANES_OVERALL, "one lane alone has its room");

struct window {
    int64_t part; /* number of the last one */
    unsigned attempts[WINDOW_PARTS];
    unsigned failed[WINDOW_PARTS];
};

struct lane {
    struct lane *next; /* of its bucket */
    struct slice kind; /* behind the struct */
    struct slice name;

    int most;    /* attempts at a time */
    int allowed; /* the same, while it grows again */
    int in_flight;
    int succeeded; /* since it grew last */
    struct window window;
    struct retry_budget budget;
    int64_t budget_until; /* no retry before */
    int64_t open_until;   /* 0: closed */
    bool is_probing;      /* half open: the probe is under way */
    unsigned phase;       /* another one whenever the breaker opens, probes or closes */
    int64_t rest_us;      /* the last rest; 0: it was reached since */
    int64_t rest_until;
    int64_t used_at;
};

#define BUCKETS 1024

struct lanes {
    int overall;
    int in_flight;
    size_t kept;
    uint64_t opened;
    size_t sweeps_at; /* bucket that is looked through next */
    struct lane *buckets[BUCKETS];
};

struct lanes *lanes_new(int overall)
{
    CHECK(overall > 0);
    struct lanes *lanes = mem_zalloc(1, sizeof *lanes);
    if (lanes)
        lanes->overall = overall;
    return lanes;
}

void lanes_free(struct lanes *lanes)
{
    if (!lanes)
        return;
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct lane *lane = lanes->buckets[i], *next; lane; lane = next) {
            next = lane->next;
            mem_free(lane);
        }
    mem_free(lanes);
}

/* ---- finding and forgetting ---- */

/* FNV-1a: names come from configs and operators' commands. */
static size_t bucket_of_lane(struct slice kind, struct slice name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < kind.len; i++)
        hash = (hash ^ (unsigned char)kind.at[i]) * UINT64_C(0x100000001b3);
    for (size_t i = 0; i < name.len; i++)
        hash = (hash ^ (unsigned char)name.at[i]) * UINT64_C(0x100000001b3);
    return (size_t)(hash ^ hash >> 32) % BUCKETS;
}

/* Another one of that name would do as well: nothing under way, and nothing of the last attempts
 * counts. */
static bool is_forgettable(const struct lane *lane, int64_t now)
{
    return lane->in_flight == 0 && lane->open_until == 0 && lane->rest_us == 0 &&
           now - lane->used_at > LANE_WINDOW_US;
}

static void forget_some(struct lanes *lanes, int64_t now)
{
    bool is_full = lanes->kept >= LANES_KEPT_MAX;
    struct lane **at = &lanes->buckets[lanes->sweeps_at++ % BUCKETS];
    while (*at) {
        struct lane *lane = *at;
        if (is_forgettable(lane, now) || (is_full && lane->in_flight == 0)) {
            *at = lane->next;
            lanes->kept--;
            mem_free(lane);
        } else {
            at = &lane->next;
        }
    }
}

static struct lane *make_lane(struct slice kind, struct slice name, int64_t now)
{
    struct lane *lane = mem_zalloc(1, sizeof *lane + kind.len + name.len);
    if (!lane)
        return NULL;
    char *text = (char *)(lane + 1);
    if (kind.len > 0)
        memcpy(text, kind.at, kind.len);
    if (name.len > 0)
        memcpy(text + kind.len, name.at, name.len);
    lane->kind = (struct slice){text, kind.len};
    lane->name = (struct slice){text + kind.len, name.len};
    lane->budget = retry_budget_make(now);
    lane->allowed = INT32_MAX;
    return lane;
}

struct lane *lanes_find(struct lanes *lanes, struct slice kind, struct slice name, int in_flight,
                        int64_t now)
{
    CHECK(in_flight > 0);
    forget_some(lanes, now);
    struct lane **bucket = &lanes->buckets[bucket_of_lane(kind, name)];
    struct lane *lane = *bucket;
    while (lane && !(slice_eq(lane->kind, kind) && slice_eq(lane->name, name)))
        lane = lane->next;
    if (!lane) {
        lane = make_lane(kind, name, now);
        if (!lane)
            return NULL;
        lane->next = *bucket;
        *bucket = lane;
        lanes->kept++;
    }
    lane->most = in_flight;
    lane->used_at = now;
    return lane;
}

/* ---- the window ---- */

static void move_window(struct window *window, int64_t now)
{
    int64_t part = now / WINDOW_PART_US;
    int64_t passed = part - window->part;
    if (passed <= 0)
        return;
    for (int64_t i = 1; i <= passed && i <= WINDOW_PARTS; i++) {
        size_t at = (size_t)((window->part + i) % WINDOW_PARTS);
        window->attempts[at] = window->failed[at] = 0;
    }
    window->part = part;
}

static void count_attempt(struct window *window, bool failed, int64_t now)
{
    move_window(window, now);
    size_t at = (size_t)(window->part % WINDOW_PARTS);
    window->attempts[at]++;
    window->failed[at] += failed;
}

static bool is_failing(const struct window *window)
{
    unsigned attempts = 0, failed = 0;
    for (size_t i = 0; i < WINDOW_PARTS; i++) {
        attempts += window->attempts[i];
        failed += window->failed[i];
    }
    CHECK(failed <= attempts);
    return attempts >= LANE_OPENS_AT && failed * 100 >= attempts * LANE_OPENS_PERCENT;
}

/* ---- whether an attempt may begin ---- */

enum lane_breaker lane_breaker(const struct lane *lane, int64_t now)
{
    if (lane->open_until == 0)
        return LANE_CLOSED;
    return now < lane->open_until ? LANE_OPEN : LANE_HALF_OPEN;
}

int lane_in_flight(const struct lane *lane)
{
    return lane->in_flight;
}

static int lane_limit(const struct lane *lane, int64_t now)
{
    CHECK(lane->most > 0 && lane->allowed > 0);
    if (lane_breaker(lane, now) == LANE_HALF_OPEN)
        return lane->is_probing ? lane->in_flight : lane->in_flight + 1;
    if (lane->rest_us != 0)
        return 1;
    return lane->allowed < lane->most ? lane->allowed : lane->most;
}

static int64_t closed_until(const struct lane *lane)
{
    int64_t until = lane->open_until;
    until = lane->rest_until > until ? lane->rest_until : until;
    return lane->budget_until > until ? lane->budget_until : until;
}

int lanes_room(const struct lanes *lanes, const struct lane *lane, int64_t now, int64_t *ret_until)
{
    *ret_until = closed_until(lane);
    if (now < *ret_until)
        return 0;
    *ret_until = CLOCK_NEVER;
    CHECK(lane->in_flight >= 0 && lane->in_flight <= lanes->in_flight);
    int room = lane_limit(lane, now) - lane->in_flight;
    int overall = lanes->overall - lanes->in_flight;
    room = room < overall ? room : overall;
    return room > 0 ? room : 0;
}

bool lanes_are_full(const struct lanes *lanes)
{
    return lanes->in_flight >= lanes->overall;
}

bool lanes_begin(struct lanes *lanes, struct lane *lane, bool is_retry, int64_t now,
                 struct lane_attempt *ret_attempt)
{
    int64_t until;
    CHECK(lanes_room(lanes, lane, now, &until) > 0);
    if (is_retry && !retry_budget_take(&lane->budget, now)) {
        lane->budget_until = clock_after(now, BUDGET_WAIT_US);
        return false;
    }
    if (!is_retry)
        retry_budget_add_request(&lane->budget, now);
    if (lane_breaker(lane, now) == LANE_HALF_OPEN) {
        lane->is_probing = true;
        lane->phase++;
    }
    lane->in_flight++;
    lane->used_at = now;
    lanes->in_flight++;
    *ret_attempt = (struct lane_attempt){lane, lane->phase};
    return true;
}

/* ---- what an end says of the lane ---- */

static void open_breaker(struct lanes *lanes, struct lane *lane, int64_t now)
{
    lane->open_until = clock_after(now, LANE_OPEN_US);
    lane->is_probing = false;
    lane->phase++;
    lanes->opened++;
}

static void close_breaker(struct lane *lane)
{
    lane->open_until = 0;
    lane->is_probing = false;
    lane->phase++;
    lane->allowed = 1;
    lane->succeeded = 0;
    memset(lane->window.attempts, 0, sizeof lane->window.attempts);
    memset(lane->window.failed, 0, sizeof lane->window.failed);
}

/* As many successes as attempts were allowed at a time: twice as many are. */
static void grow_lane(struct lane *lane)
{
    if (lane->allowed >= lane->most || ++lane->succeeded < lane->allowed)
        return;
    lane->succeeded = 0;
    lane->allowed *= 2;
}

/* Those that were under way when the rest began say no more than the first of them. */
static void rest_lane(struct lane *lane, int64_t now)
{
    if (now < lane->rest_until)
        return;
    int64_t longer = lane->rest_us * 2;
    lane->rest_us = clock_first(longer == 0 ? LANE_REST_LEAST_US : longer, LANE_REST_MOST_US);
    lane->rest_until = clock_after(now, lane->rest_us);
}

static void judge_failure(struct lanes *lanes, struct lane *lane, int64_t now)
{
    lane->succeeded = 0;
    if (lane->allowed < lane->most)
        lane->allowed = 1;
    if (lane->is_probing || is_failing(&lane->window))
        open_breaker(lanes, lane, now);
}

static void judge_lane(struct lanes *lanes, struct lane *lane, enum lane_end end, int64_t now)
{
    count_attempt(&lane->window, end != LANE_SUCCEEDED, now);
    if (end == LANE_UNREACHED)
        rest_lane(lane, now);
    else
        lane->rest_us = lane->rest_until = 0;
    if (end != LANE_SUCCEEDED)
        judge_failure(lanes, lane, now);
    else if (lane->is_probing)
        close_breaker(lane);
    else
        grow_lane(lane);
}

void lanes_end(struct lanes *lanes, const struct lane_attempt *attempt, enum lane_end end,
               int64_t now)
{
    struct lane *lane = attempt->lane;
    CHECK(lane->in_flight > 0 && lanes->in_flight > 0 && attempt->phase <= lane->phase);
    lane->in_flight--;
    lanes->in_flight--;
    lane->used_at = now;
    if (attempt->phase != lane->phase)
        return;
    if (end == LANE_UNCOUNTED)
        lane->is_probing = false; /* the next one is the probe */
    else
        judge_lane(lanes, lane, end, now);
}

void lanes_visit(const struct lanes *lanes, int64_t now, lanes_visitor visit, void *argument)
{
    for (size_t i = 0; i < BUCKETS; i++)
        for (const struct lane *lane = lanes->buckets[i]; lane; lane = lane->next)
            visit(argument, lane->kind, lane->name, lane_breaker(lane, now));
}

struct lanes_counts lanes_count(const struct lanes *lanes, int64_t now)
{
    struct lanes_counts counts = {
        .kept = lanes->kept, .in_flight = lanes->in_flight, .opened = lanes->opened};
    for (size_t i = 0; i < BUCKETS; i++)
        for (const struct lane *lane = lanes->buckets[i]; lane; lane = lane->next)
            counts.open += lane_breaker(lane, now) != LANE_CLOSED;
    return counts;
}
