/* SPDX-License-Identifier: Apache-2.0 */
#include "core/task.h"
#include "base/check.h"

/* ---- names ---- */

static const struct {
    struct slice name;
    const char *text;
} reasons[TASK_REASON_COUNT] = {
#define X(name, word, text) {{word, sizeof word - 1}, text},
    TASK_REASONS(X)
#undef X
};

struct slice task_reason_name(enum task_reason reason)
{
    CHECK(reason < TASK_REASON_COUNT);
    return reasons[reason].name;
}

const char *task_reason_text(enum task_reason reason)
{
    CHECK(reason < TASK_REASON_COUNT);
    return reasons[reason].text;
}

enum task_reason task_reason_of_end(enum exchange_end ended, enum retry_class class)
{
    static const enum task_reason without_response[] = {
        [EXCHANGE_NOT_SENT] = TASK_REASON_NOT_REACHED, [EXCHANGE_BROKE] = TASK_REASON_BROKE,
        [EXCHANGE_MALFORMED] = TASK_REASON_BROKE,      [EXCHANGE_TIMED_OUT] = TASK_REASON_TIMED_OUT,
        [EXCHANGE_TOKEN_STALE] = TASK_REASON_BROKE,    [EXCHANGE_PORTAL] = TASK_REASON_PORTAL,
    };
    CHECK(ended <= EXCHANGE_PORTAL);
    if (class == RETRY_DONE)
        return TASK_REASON_NONE;
    if (ended != EXCHANGE_RESPONDED)
        return without_response[ended];
    if (class == RETRY_FINAL || class == RETRY_IN_DOUBT)
        return TASK_REASON_FINAL;
    return class >= RETRY_BUSY ? TASK_REASON_IN_PROGRESS : TASK_REASON_NOT_DONE;
}

struct slice task_state_name(enum task_state state)
{
    static const char *const names[TASK_STATE_COUNT] = {"waiting", "sending", "done", "dead",
                                                        "dropped"};
    CHECK(state < TASK_STATE_COUNT);
    return slice_of(names[state]);
}

/* ---- which event may happen when ---- */

#define IN(state) (1U << TASK_##state)

static const unsigned allowed_in[TASK_EVENT_COUNT] = {
    [TASK_CLAIM] = IN(WAITING),
    [TASK_END] = IN(SENDING),
    [TASK_LOSE] = IN(SENDING),
    [TASK_PUT_OFF] = IN(WAITING),
    [TASK_SETTLE] = IN(WAITING) | IN(SENDING) | IN(DEAD) | IN(DROPPED),
    [TASK_DROP] = IN(WAITING) | IN(DEAD),
    [TASK_RETRY] = IN(WAITING) | IN(DEAD) | IN(DROPPED),
    [TASK_REPLAY] = IN(WAITING) | IN(DEAD) | IN(DROPPED) | IN(DONE),
    [TASK_EDIT] = IN(WAITING) | IN(DEAD),
};

bool task_allows(enum task_state state, enum task_event event)
{
    CHECK(state < TASK_STATE_COUNT && event < TASK_EVENT_COUNT);
    return (allowed_in[event] >> state & 1U) != 0;
}

bool task_is_due(const struct task *task, int64_t now)
{
    return task->state == TASK_WAITING && task->due_at <= now;
}

bool task_is_open(const struct task *task)
{
    return task->state == TASK_WAITING || task->state == TASK_SENDING || task->holds;
}

/* ---- what no pawl wrote ---- */

static int clamp_figure(int value, int most)
{
    return value < 0 ? 0 : value > most ? most : value;
}

void task_hold(struct task *task, bool holds)
{
    *task = (struct task){
        .state = TASK_DEAD,
        .holds = holds,
        .due_at = CLOCK_NEVER,
        .deadline_at = CLOCK_NEVER,
        .profile = task->profile < RETRY_PROFILE_COUNT ? task->profile : RETRY_PROFILE_webhook,
        .attempts = clamp_figure(task->attempts, TASK_ATTEMPTS_MOST),
        .tries = clamp_figure(task->tries, TASK_ATTEMPTS_MOST),
        .in_doubt = task->in_doubt || task->state == TASK_SENDING,
        .status = clamp_figure(task->status, TASK_STATUS_MOST),
        .reason = TASK_REASON_ODD_ROW,
        .created_at = task->created_at > 0 ? task->created_at : 0,
        .ended_at = task->ended_at > 0 ? task->ended_at : 1,
        .gone_at = CLOCK_NEVER,
    };
}

/* ---- moves ---- */

/* `most`: attempts; 0: as many as the schedule has. */
static struct retry_schedule schedule_of_task(const struct task *task,
                                              const struct retry_schedule *own, int most)
{
    struct retry_schedule schedule = own ? *own : *retry_profile_schedule(task->profile);
    if (!own && task->profile == RETRY_PROFILE_queue) {
        schedule.attempts = TASK_ATTEMPTS_MOST;
        schedule.total_us = TASK_QUEUE_LASTS_US;
    }
    schedule.attempts = most > 0 ? most : schedule.attempts;
    return schedule;
}

static void wait_until(struct task *task, int64_t due_at, enum task_reason reason)
{
    task->state = TASK_WAITING;
    task->due_at = due_at;
    task->reason = reason;
    task->lease_until = task->owner = 0;
}

static void stop_task(struct task *task, enum task_state state, enum task_reason reason,
                      const struct task_terms *terms, int64_t now)
{
    CHECK(terms->done_us >= 0 && terms->dead_us >= 0);
    wait_until(task, CLOCK_NEVER, reason);
    task->state = state;
    task->holds = state == TASK_DEAD && terms->holds;
    task->in_doubt = task->in_doubt && state != TASK_DONE;
    task->ended_at = now;
    task->gone_at = clock_after(now, state == TASK_DONE ? terms->done_us : terms->dead_us);
}

void task_claim(struct task *task, const struct task_claim *claim, int64_t now)
{
    CHECK(task_allows(task->state, TASK_CLAIM) && task_is_due(task, now));
    CHECK(claim->lease_us > 0 && claim->lasts_us >= 0);
    int64_t lasts_us = claim->lasts_us != 0 ? claim->lasts_us
                                            : schedule_of_task(task, claim->schedule, 0).total_us;
    if (task->first_at == 0 && task->deadline_at == CLOCK_NEVER)
        task->deadline_at = clock_after(now, lasts_us);
    task->first_at = task->first_at == 0 ? now : task->first_at;
    task->state = TASK_SENDING;
    task->due_at = CLOCK_NEVER;
    task->attempts++;
    task->tries++;
    task->owner = claim->owner;
    task->lease_until = clock_after(now, claim->lease_us);
}

/* ---- the end of an attempt ---- */

/* By try, too: an attempt that did not count is not repeated after the same delay by all. */
static uint64_t spread_seed(int64_t id, const struct task *task)
{
    return (uint64_t)id * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)task->tries;
}

static struct retry_next plan_next_attempt(struct task *task, int64_t id,
                                           const struct task_result *result,
                                           const struct task_terms *terms, int64_t now)
{
    const struct retry_schedule schedule = schedule_of_task(task, terms->schedule, terms->attempts);
    struct retry_course course = {
        .schedule = &schedule,
        .seed = spread_seed(id, task),
        .first_at = task->first_at,
        .deadline = task->deadline_at,
        .attempts = task->attempts > 0 ? task->attempts : 1,
        .busy_since = task->busy_since,
        .had_408 = true, /* a task's is retried by schedule */
    };
    struct retry_next next = retry_plan_next(&course, result->class, result->hint_us, now);
    task->busy_since = course.busy_since;
    return next;
}

/* The last attempt is at the deadline, whatever would be later. */
static int64_t due_after(const struct task *task, struct retry_next next)
{
    return next.end == RETRY_GOES_ON ? next.at : task->deadline_at;
}

static void schedule_next(struct task *task, int64_t id, const struct task_result *result,
                          const struct task_terms *terms, int64_t now)
{
    struct retry_next next = plan_next_attempt(task, id, result, terms, now);
    int64_t due_at = due_after(task, next);
    if (next.end == RETRY_ENDS_ATTEMPTS || due_at == CLOCK_NEVER)
        stop_task(task, TASK_DEAD, TASK_REASON_ATTEMPTS, terms, now);
    else if (now >= task->deadline_at)
        stop_task(task, TASK_DEAD, TASK_REASON_DEADLINE, terms, now);
    else
        wait_until(task, due_at, result->reason);
}

bool task_gives_back(const struct task *task, const struct task_result *result)
{
    return result->is_unreached && task->profile == RETRY_PROFILE_queue;
}

/* One that found the operation busy (`before` NULL) gives back itself alone. */
static void count_back(struct task *task, const struct task *before)
{
    CHECK(task->attempts > 0);
    task->attempts--;
    if (!before)
        return;
    task->first_at = before->first_at;
    task->deadline_at = before->deadline_at;
}

/* Until its deadline: then it is dead. */
static void wait_for_new_token(struct task *task, int64_t wait_us, const struct task_terms *terms,
                               int64_t now)
{
    CHECK(wait_us >= 0);
    task->busy_since = 0;
    if (now >= task->deadline_at)
        stop_task(task, TASK_DEAD, TASK_REASON_DEADLINE, terms, now);
    else
        wait_until(task, clock_first(clock_after(now, wait_us), task->deadline_at),
                   TASK_REASON_CREDENTIALS);
}

void task_end(struct task *task, int64_t id, const struct task_result *result,
              const struct task_terms *terms, int64_t now)
{
    CHECK(task_allows(task->state, TASK_END) && task->attempts > 0 && task->tries > 0);
    CHECK(!result->is_unreached || result->status == 0);
    task->status = result->status;
    task->in_doubt = (task->in_doubt && !result->is_settled) || result->is_in_doubt;
    if (result->class < RETRY_BUSY)
        task->busy_since = 0;
    enum retry_class class = retry_bound_busy(result->class, task->busy_since, task->in_doubt, now);
    if (task_gives_back(task, result))
        count_back(task, terms->before);
    else if (class == RETRY_BUSY || class == RETRY_CREDENTIALS)
        count_back(task, NULL);
    switch (class) {
    case RETRY_DONE:
        stop_task(task, TASK_DONE, TASK_REASON_NONE, terms, now);
        return;
    case RETRY_FINAL:
        stop_task(task, TASK_DEAD,
                  result->reason == TASK_REASON_NONE ? TASK_REASON_FINAL : result->reason, terms,
                  now);
        return;
    case RETRY_IN_DOUBT:
        stop_task(task, TASK_DEAD,
                  result->reason == TASK_REASON_HAPPENED ? result->reason : TASK_REASON_IN_DOUBT,
                  terms, now);
        return;
    case RETRY_CREDENTIALS:
        wait_for_new_token(task, result->hint_us, terms, now);
        return;
    case RETRY_LATER:
    case RETRY_AT_ONCE:
    case RETRY_BUSY:
    case RETRY_BUSY_A_WHILE:
        schedule_next(task, id, result, terms, now);
        return;
    }
    UNREACHABLE();
}

/* At once, but what was lost the time before may be what kills its senders: others have their turn.
 */
static int64_t due_once_lost(const struct task *task, const struct retry_schedule *schedule,
                             int64_t now)
{
    if (task->reason != TASK_REASON_LOST || schedule->form != RETRY_BACKOFF)
        return now;
    int64_t delay_us = retry_delay_us(schedule, task->attempts + 1, (uint64_t)task->tries);
    return clock_first(clock_after(now, delay_us), task->deadline_at);
}

void task_lose(struct task *task, const struct task_terms *terms, int64_t now)
{
    CHECK(task_allows(task->state, TASK_LOSE));
    const struct retry_schedule schedule = schedule_of_task(task, terms->schedule, terms->attempts);
    task->in_doubt = true;
    task->status = 0;
    if (task->attempts >= schedule.attempts)
        stop_task(task, TASK_DEAD, TASK_REASON_LOST, terms, now);
    else if (now > task->deadline_at)
        stop_task(task, TASK_DEAD, TASK_REASON_DEADLINE, terms, now);
    else
        wait_until(task, due_once_lost(task, &schedule, now), TASK_REASON_LOST);
}

void task_put_off(struct task *task, int64_t until, enum task_reason reason)
{
    CHECK(task_allows(task->state, TASK_PUT_OFF));
    int64_t due_at = clock_first(until, task->deadline_at);
    if (due_at > task->due_at)
        wait_until(task, due_at, reason);
}

bool task_wake(struct task *task, int64_t now)
{
    CHECK(task_allows(task->state, TASK_PUT_OFF));
    bool is_early = task->due_at > now && task->due_at != CLOCK_NEVER;
    task->due_at = is_early ? now : task->due_at;
    return is_early;
}

void task_settle(struct task *task, enum task_state state, enum task_reason reason,
                 const struct task_terms *terms, int64_t now)
{
    CHECK(task_allows(task->state, TASK_SETTLE) && (state == TASK_DONE || state == TASK_DEAD));
    stop_task(task, state, reason, terms, now);
}

/* ---- operators ---- */

const struct task_terms task_terms_of_acts = {TASK_KEEP_DONE_US, TASK_KEEP_DEAD_US, false};

void task_drop(struct task *task, const struct task_terms *terms, int64_t now)
{
    CHECK(task_allows(task->state, TASK_DROP));
    stop_task(task, TASK_DROPPED, TASK_REASON_DROPPED, terms, now);
}

void task_retry(struct task *task, bool is_replay, int64_t due_at)
{
    CHECK(task_allows(task->state, is_replay ? TASK_REPLAY : TASK_RETRY));
    wait_until(task, task_is_held(task) ? CLOCK_NEVER : due_at, TASK_REASON_NONE);
    task->attempts = 0;
    task->busy_since = 0;
    task->first_at = 0;
    task->deadline_at = CLOCK_NEVER;
    task->replay = is_replay;
    task->holds = false;
    task->ended_at = 0;
    task->gone_at = CLOCK_NEVER;
}

void task_edit(struct task *task, int64_t now)
{
    CHECK(task_allows(task->state, TASK_EDIT));
    task_retry(task, false, now);
    task->in_doubt = false;
    task->status = 0;
}
