/* SPDX-License-Identifier: Apache-2.0 */
#include "core/retry/retry.h"
#include "base/check.h"

/* ---- profiles ---- */

#define MS(n) (INT64_C(n) * CLOCK_US_PER_MS)
#define S(n) (INT64_C(n) * CLOCK_US_PER_S)

static const int64_t webhook_offsets[RETRY_ATTEMPTS_MAX] = {
    0, S(5), S(30), S(120), S(600), S(1800), S(3600), S(21600), S(43200), S(86400)};

static const struct {
    struct slice name;
    struct retry_schedule schedule;
} profiles[RETRY_PROFILE_COUNT] = {
#define X(name, form, jitter, part, attempts, total, base, cap, list, by_delay)                    \
    {{#name, sizeof(#name) - 1},                                                                   \
     {RETRY_##form, RETRY_JITTER_##jitter, part, attempts, total, base, cap, list, by_delay}},
    RETRY_PROFILES(X)
#undef X
};

struct slice retry_profile_name(enum retry_profile profile)
{
    CHECK(profile < RETRY_PROFILE_COUNT);
    return profiles[profile].name;
}

const struct retry_schedule *retry_profile_schedule(enum retry_profile profile)
{
    CHECK(profile < RETRY_PROFILE_COUNT);
    return &profiles[profile].schedule;
}

bool retry_profile_find(struct slice name, enum retry_profile *ret_profile)
{
    for (size_t i = 0; i < RETRY_PROFILE_COUNT; i++)
        if (slice_eq(name, profiles[i].name)) {
            *ret_profile = (enum retry_profile)i;
            return true;
        }
    return false;
}

/* ---- delays ---- */

static int64_t percent_of(int64_t us, int percent)
{
    return us / 100 * percent;
}

void retry_schedule_set_delays(struct retry_schedule *schedule, const int64_t *delays, int n)
{
    CHECK(n >= 1 && n < RETRY_ATTEMPTS_MAX);
    schedule->form = RETRY_DELAYS;
    schedule->jitter = RETRY_JITTER_UPWARD;
    schedule->part_percent = RETRY_DELAYS_SPREAD_PERCENT;
    schedule->attempts = n + 1;
    schedule->list = delays;
    schedule->cap_us = CLOCK_NEVER;
}

int64_t retry_schedule_most_us(const struct retry_schedule *schedule)
{
    int64_t most = 0;
    if (schedule->form != RETRY_DELAYS)
        return schedule->total_us;
    for (int i = 0; i < schedule->attempts - 1; i++)
        most = clock_after(most, schedule->list[i] +
                                     percent_of(schedule->list[i], schedule->part_percent));
    return most;
}

/* splitmix64 (Steele, Lea, Flood 2014), its n-th number under this seed. */
static uint64_t draw_number(uint64_t seed, int n)
{
    uint64_t z = seed + (uint64_t)n * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Whole milliseconds, 0 to `most_us`. */
static int64_t draw_us(uint64_t seed, int n, int64_t most_us)
{
    uint64_t choices = (uint64_t)(most_us / CLOCK_US_PER_MS) + 1;
    return (int64_t)(draw_number(seed, n) % choices) * CLOCK_US_PER_MS;
}

/* What chance adds to the delay before `attempt`. */
static int64_t jitter_us(const struct retry_schedule *schedule, int attempt, int64_t delay,
                         uint64_t seed)
{
    switch (schedule->jitter) {
    case RETRY_JITTER_NONE:
        return 0;
    case RETRY_JITTER_FULL:
        return draw_us(seed, attempt, delay) - delay;
    case RETRY_JITTER_SPREAD:
        return draw_us(seed, attempt, delay);
    case RETRY_JITTER_UPWARD:
        return draw_us(seed, attempt, percent_of(delay, schedule->part_percent));
    case RETRY_JITTER_ADDED:
        return draw_us(seed, attempt, schedule->base_us);
    }
    UNREACHABLE();
}

/* When attempt `attempt` is due after the first. */
static int64_t jittered_us(const struct retry_schedule *schedule, int attempt, uint64_t seed)
{
    const int64_t *at = &schedule->list[attempt - 1];
    if (attempt == 1 || attempt == schedule->attempts)
        return *at;
    return *at + jitter_us(schedule, attempt, at[0] - at[-1], seed);
}

static int64_t doubled_us(int64_t base, int times)
{
    return times >= 62 || base > (CLOCK_NEVER >> times) ? CLOCK_NEVER : base << times;
}

int64_t retry_delay_us(const struct retry_schedule *schedule, int attempt, uint64_t seed)
{
    CHECK(attempt >= 2 && attempt <= schedule->attempts);
    if (schedule->form == RETRY_OFFSETS)
        return jittered_us(schedule, attempt, seed) - jittered_us(schedule, attempt - 1, seed);
    int64_t delay = schedule->form == RETRY_DELAYS ? schedule->list[attempt - 2]
                                                   : doubled_us(schedule->base_us, attempt - 2);
    delay = clock_first(delay, schedule->cap_us);
    return clock_first(clock_after(delay, jitter_us(schedule, attempt, delay, seed)),
                       schedule->cap_us);
}

/* ---- what an attempt's end means ---- */

#define ANY 0, RETRY_STATUS_MOST
#define ONLY(status) status, status
/* Where a response says no more than its status, and without one. */
static const struct {
    enum exchange_end end;
    int least;
    int most;
    enum retry_class call;
    enum retry_class webhook;
} classes[] = {
    /* the first row that fits:            call and handler, webhook */
    {EXCHANGE_NOT_SENT, ANY, RETRY_LATER, RETRY_LATER},
    {EXCHANGE_BROKE, ANY, RETRY_LATER, RETRY_LATER},
    {EXCHANGE_MALFORMED, ANY, RETRY_LATER, RETRY_LATER},
    {EXCHANGE_TIMED_OUT, ANY, RETRY_LATER, RETRY_LATER},
    /* decided anew: no retry of this one. No token leaves to receivers of webhooks */
    {EXCHANGE_TOKEN_STALE, ANY, RETRY_FINAL, RETRY_LATER},
    {EXCHANGE_PORTAL, ANY, RETRY_LATER, RETRY_LATER},
    {EXCHANGE_RESPONDED, 200, 299, RETRY_DONE, RETRY_DONE},
    {EXCHANGE_RESPONDED, ONLY(408), RETRY_AT_ONCE, RETRY_LATER},
    {EXCHANGE_RESPONDED, ONLY(410), RETRY_FINAL, RETRY_FINAL},
    {EXCHANGE_RESPONDED, ONLY(425), RETRY_LATER, RETRY_LATER},
    {EXCHANGE_RESPONDED, ONLY(429), RETRY_LATER, RETRY_LATER},
    {EXCHANGE_RESPONDED, ONLY(501), RETRY_FINAL, RETRY_LATER},
    {EXCHANGE_RESPONDED, ONLY(505), RETRY_FINAL, RETRY_LATER},
    {EXCHANGE_RESPONDED, 500, RETRY_STATUS_MOST, RETRY_LATER, RETRY_LATER},
    {EXCHANGE_RESPONDED, ANY, RETRY_FINAL, RETRY_LATER},
};

static enum retry_class class_of_status(enum retry_column column, const struct retry_answer *answer)
{
    for (size_t i = 0; i < COUNT_OF(classes); i++)
        if (answer->end == classes[i].end && answer->status >= classes[i].least &&
            answer->status <= classes[i].most)
            return column == RETRY_BY_WEBHOOK ? classes[i].webhook : classes[i].call;
    return RETRY_FINAL;
}

bool retry_leaves_doubt(int status)
{
    return status >= 500 && status != 501 && status != 503 && status != 505 && status != 508;
}

static bool is_success(int status)
{
    return status >= 200 && status <= 299;
}

bool retry_answer_leaves_doubt(const struct retry_answer *answer)
{
    if (is_success(answer->status))
        return answer->success == RETRY_SUCCESS_UNSURE;
    return retry_leaves_doubt(answer->status) ||
           slice_eq(answer->code, SLICE("CONFLICT.idempotency.outcome_unknown"));
}

static enum retry_class class_of_answer(const struct retry_answer *answer, bool in_doubt)
{
    return in_doubt || retry_answer_leaves_doubt(answer) ? RETRY_IN_DOUBT : RETRY_FINAL;
}

static bool is_about_sender(enum retry_column column, const struct retry_answer *answer)
{
    bool is_handler = column == RETRY_BY_HANDLER;
    if (answer->status == 403)
        return is_handler;
    return (answer->status == 401 || answer->status == 407) &&
           (is_handler || !slice_eq(answer->code, SLICE("AUTH.signature")));
}

static bool ends_with(struct slice text, struct slice end)
{
    return text.len >= end.len && slice_eq(slice_skip(text, text.len - end.len), end);
}

/* What services say of a request whose key is in use: known by both code and status. */
static bool is_known_as_busy(const struct retry_answer *answer)
{
    static const struct {
        int status;
        const char *code;
    } words[] = {
        {409, "CONCURRENT_REQUEST"},
        {409, "idempotency_key_in_use"},
        {409, "PREVIOUS_REQUEST_IN_PROGRESS"},
        {409, "704"},
        {422, "704"},
        {429, "lock_timeout"},
    };
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (answer->status == words[i].status && slice_eq(answer->code, slice_of(words[i].code)))
            return true;
    return answer->status == 409 && answer->is_outstanding;
}

/* In that order; RETRY_LATER where it says nothing, and `*ret_says` false. */
static enum retry_class class_of_words(const struct retry_answer *answer, bool in_doubt,
                                       bool *ret_says)
{
    bool is_4xx = answer->status >= 400 && answer->status <= 499;
    *ret_says = true;
    if (slice_eq(answer->code, SLICE("CONFLICT.idempotency.duplicate")))
        return RETRY_FINAL;
    if (is_known_as_busy(answer) ||
        (is_4xx && ends_with(answer->code, SLICE("idempotency.in_progress"))))
        return RETRY_BUSY;
    if (is_4xx && ends_with(answer->code, SLICE(".in_progress")))
        return RETRY_BUSY_A_WHILE;
    if (answer->advice == RETRY_ADVICE_AGAIN)
        return answer->status == 409 ? RETRY_BUSY : RETRY_LATER;
    if (answer->advice == RETRY_ADVICE_NEVER)
        return class_of_answer(answer, in_doubt);
    *ret_says = false;
    return RETRY_LATER;
}

static enum retry_class judge_response(enum retry_column column, const struct retry_answer *answer,
                                       enum retry_choice choice, bool in_doubt)
{
    bool says, succeeds = is_success(answer->status);
    if (answer->is_not_done || (succeeds && answer->success != RETRY_SUCCESS_STANDS))
        return RETRY_LATER;
    if (succeeds || slice_eq(answer->code, SLICE("PROVIDER.duplicate")))
        return RETRY_DONE;
    if (choice == RETRY_CHOICE_WAIT)
        return RETRY_CREDENTIALS;
    if (choice != RETRY_CHOICE_FINAL && is_about_sender(column, answer))
        return column == RETRY_BY_HANDLER ? RETRY_LATER : RETRY_CREDENTIALS;
    enum retry_class class = class_of_words(answer, in_doubt, &says);
    if (says)
        return class;
    if (choice == RETRY_CHOICE_DONE || choice == RETRY_CHOICE_LATER)
        return choice == RETRY_CHOICE_DONE ? RETRY_DONE : RETRY_LATER;
    if (choice == RETRY_CHOICE_FINAL)
        return class_of_answer(answer, in_doubt);
    if (answer->status == 403 && answer->is_limited)
        return RETRY_LATER;
    if (answer->status == 409 && in_doubt)
        return RETRY_BUSY_A_WHILE;
    class = class_of_status(column, answer);
    return class == RETRY_FINAL ? class_of_answer(answer, in_doubt) : class;
}

enum retry_class retry_judge(enum retry_column column, const struct retry_answer *answer,
                             const struct retry_choices *choices, bool in_doubt)
{
    enum retry_choice choice = RETRY_CHOICE_NONE;
    if (column == RETRY_BY_WEBHOOK || answer->end != EXCHANGE_RESPONDED)
        return class_of_status(column, answer);
    if (choices && answer->status <= RETRY_STATUS_MOST)
        choice = (enum retry_choice)choices->of[answer->status];
    return judge_response(column, answer, choice, in_doubt);
}

enum retry_class retry_bound_busy(enum retry_class class, int64_t busy_since, bool in_doubt,
                                  int64_t now)
{
    if (class != RETRY_BUSY_A_WHILE)
        return class;
    if (busy_since == 0 || now - busy_since < RETRY_BUSY_MOST_US)
        return RETRY_BUSY;
    return in_doubt ? RETRY_IN_DOUBT : RETRY_FINAL;
}

/* ---- what a caller has chosen ---- */

/* Whether other credentials may mend it: not what says that the service is busy. */
static bool may_wait_on(uint64_t status)
{
    return status / 100 == 4 && status != 408 && status != 409 && status != 425 && status != 429;
}

bool retry_choose(struct retry_choices *choices, struct slice list, enum retry_choice choice)
{
    struct slice one;
    uint64_t status;
    if (list.len == 0 || list.at[list.len - 1] == ',')
        return false;
    while (list.len > 0 && slice_next(&list, ',', &one)) {
        if (one.len != 3 || !slice_to_u64(one, RETRY_STATUS_MOST, &status) || status < 300)
            return false;
        if (choice == RETRY_CHOICE_WAIT && !may_wait_on(status))
            return false;
        if (choices->of[status] != RETRY_CHOICE_NONE && choices->of[status] != choice)
            return false;
        choices->of[status] = (unsigned char)choice;
    }
    return true;
}

bool retry_choose_not_done(struct retry_choices *choices, struct slice condition)
{
    if (choices->n_not_done == RETRY_CONDITIONS_MOST ||
        !condition_read(condition, &choices->not_done[choices->n_not_done]))
        return false;
    choices->n_not_done++;
    return true;
}

#define SECONDS_MOST ((uint64_t)(CLOCK_NEVER / CLOCK_US_PER_S))

bool retry_choices_read(struct retry_choices *choices, struct slice lines)
{
    struct slice line, name;
    while (lines.len > 0 && slice_next(&lines, '\n', &line)) {
        struct slice list = slice_cut(line, '=', &name);
        uint64_t attempts = 0, seconds = 0;
        if (slice_eq(name, SLICE("not-done")) && retry_choose_not_done(choices, list))
            continue;
        if (slice_eq(name, SLICE("attempts")) &&
            slice_to_u64(list, RETRY_CHOICE_ATTEMPTS_MOST, &attempts)) {
            choices->attempts = (int)attempts;
            continue;
        }
        if (slice_eq(name, SLICE("remember")) && slice_to_u64(list, SECONDS_MOST, &seconds)) {
            choices->remember_us = (int64_t)seconds * CLOCK_US_PER_S;
            continue;
        }
        enum retry_choice choice = slice_eq(name, SLICE("done"))       ? RETRY_CHOICE_DONE
                                   : slice_eq(name, SLICE("later"))    ? RETRY_CHOICE_LATER
                                   : slice_eq(name, SLICE("wait-on"))  ? RETRY_CHOICE_WAIT
                                   : slice_eq(name, SLICE("final-on")) ? RETRY_CHOICE_FINAL
                                                                       : RETRY_CHOICE_NONE;
        if (choice == RETRY_CHOICE_NONE || !retry_choose(choices, list, choice))
            return false;
    }
    return true;
}

/* ---- the next attempt ---- */

struct retry_course retry_course_make(const struct retry_schedule *schedule, uint64_t seed,
                                      int64_t now, int64_t deadline)
{
    CHECK(schedule->attempts >= 1 && schedule->attempts <= RETRY_ATTEMPTS_MAX);
    return (struct retry_course){
        .schedule = schedule,
        .seed = seed,
        .first_at = now,
        .deadline = clock_first(deadline, clock_after(now, schedule->total_us)),
        .attempts = 1,
    };
}

int retry_course_sent(const struct retry_course *course)
{
    return course->attempts + course->uncounted;
}

/* The first offset that lies ahead; CLOCK_NEVER: there is none. */
static int64_t next_offset(const struct retry_course *course, int64_t now)
{
    for (int n = course->attempts + 1; n <= course->schedule->attempts; n++) {
        int64_t at = clock_after(course->first_at, jittered_us(course->schedule, n, course->seed));
        if (at > now)
            return at;
    }
    return CLOCK_NEVER;
}

static int64_t next_by_schedule(struct retry_course *course, enum retry_class class, int64_t now)
{
    bool at_once =
        class == RETRY_AT_ONCE && !course->had_408 && !course->schedule->timeout_by_delay;
    course->had_408 |= class == RETRY_AT_ONCE;
    if (at_once)
        return now;
    if (course->schedule->form == RETRY_OFFSETS)
        return next_offset(course, now);
    return clock_after(now, retry_delay_us(course->schedule, course->attempts + 1, course->seed));
}

/* By how much a hint is spread at most. */
static int64_t hint_spread(int64_t hint_us)
{
    int64_t part = percent_of(hint_us, RETRY_HINT_SPREAD_PERCENT);
    int64_t whole = clock_first(hint_us, RETRY_HINT_SPREAD_US);
    return part > whole ? part : whole;
}

/* A hint, spread upward, but not by that beyond the deadline. */
static int64_t next_by_hint(const struct retry_course *course, int64_t hint_us, int64_t now)
{
    if (course->deadline == CLOCK_NEVER)
        hint_us = clock_first(hint_us, RETRY_HINT_MOST_US);
    int64_t at = clock_after(now, hint_us);
    if (at >= course->deadline)
        return at;
    int64_t spread = clock_first(hint_spread(hint_us), course->deadline - at);
    return clock_after(at, draw_us(course->seed, retry_course_sent(course) + 1, spread));
}

/* Doubled is what has passed since it was busy first. */
static struct retry_next plan_busy(struct retry_course *course, int64_t hint_us, int64_t now)
{
    if (course->busy_since == 0)
        course->busy_since = now;
    int64_t wait_us = clock_first(now - course->busy_since, RETRY_BUSY_LAST_US);
    wait_us = wait_us < RETRY_BUSY_FIRST_US ? RETRY_BUSY_FIRST_US : wait_us;
    if (hint_us != RETRY_NO_HINT)
        wait_us = hint_us < RETRY_BUSY_LEAST_US ? RETRY_BUSY_LEAST_US : hint_us;
    int64_t at = next_by_hint(course, wait_us, now);
    course->attempts--;
    course->uncounted++;
    if (at <= course->deadline && at != CLOCK_NEVER)
        return (struct retry_next){RETRY_GOES_ON, at};
    return (struct retry_next){hint_us == RETRY_NO_HINT ? RETRY_ENDS_DEADLINE : RETRY_ENDS_HINT, 0};
}

struct retry_next retry_plan_next(struct retry_course *course, enum retry_class class,
                                  int64_t hint_us, int64_t now)
{
    CHECK(class >= RETRY_LATER);
    CHECK(hint_us >= RETRY_NO_HINT && course->attempts >= 1);
    if (class >= RETRY_BUSY)
        return plan_busy(course, hint_us, now);
    course->busy_since = 0;
    if (course->attempts >= course->schedule->attempts)
        return (struct retry_next){RETRY_ENDS_ATTEMPTS, 0};
    int64_t at = next_by_schedule(course, class, now);
    if (at > course->deadline || at == CLOCK_NEVER)
        return (struct retry_next){RETRY_ENDS_DEADLINE, 0};
    if (hint_us != RETRY_NO_HINT) {
        int64_t hinted = next_by_hint(course, hint_us, now);
        if (hinted > course->deadline)
            return (struct retry_next){RETRY_ENDS_HINT, 0};
        at = hinted > at ? hinted : at;
    }
    return (struct retry_next){RETRY_GOES_ON, at};
}

/* ---- the budget ---- */

struct retry_budget retry_budget_make(int64_t now)
{
    return (struct retry_budget){.tokens = RETRY_BUDGET_MOST, .at = now};
}

static void add_tokens(struct retry_budget *budget, int64_t tokens)
{
    budget->tokens = clock_first(budget->tokens + tokens, RETRY_BUDGET_MOST);
}

/* What time brings: as much as requests did not bring already. */
static void refill_by_time(struct retry_budget *budget, int64_t now)
{
    if (now <= budget->at)
        return;
    int64_t most = RETRY_BUDGET_MOST / RETRY_BUDGET_PER_US;
    int64_t passed = now - budget->at;
    int64_t earned = (passed < 0 || passed > most ? most : passed) * RETRY_BUDGET_PER_US;
    int64_t brought = clock_first(earned, budget->ahead);
    budget->ahead -= brought;
    budget->at = now;
    add_tokens(budget, earned - brought);
}

void retry_budget_add_request(struct retry_budget *budget, int64_t now)
{
    refill_by_time(budget, now);
    add_tokens(budget, RETRY_BUDGET_PER_REQUEST);
    budget->ahead =
        clock_first(budget->ahead + RETRY_BUDGET_PER_REQUEST, RETRY_BUDGET_PER_US * CLOCK_US_PER_S);
}

bool retry_budget_take(struct retry_budget *budget, int64_t now)
{
    refill_by_time(budget, now);
    if (budget->tokens < RETRY_TOKEN)
        return false;
    budget->tokens -= RETRY_TOKEN;
    return true;
}
