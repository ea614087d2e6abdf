/* SPDX-License-Identifier: Apache-2.0 */
/* `retry:`, the further tries of the gateway's own (contract section 6). */
#include "base/check.h"
#include "base/time/duration.h"
#include "config/option.h"
#include "config/reader.h"
#include <assert.h>

#define DELAYS_MAX (RETRY_ATTEMPTS_MAX - 1)
#define SPAN_MAX 32
#define PROFILES "user_facing|api|background|scheduled|webhook"
#define A_MAP "{profile: api, try_timeout: 5s, schedule: [1s, 5s]}"
/* Those that rules may have, in their order; `queue` has no end of its own. */
static_assert(RETRY_PROFILE_webhook == 4, "in the order of core/retry/retry_profiles.h");

OPTION_READER(retry_profile)
{
    size_t index;
    if (reader_choice(reader, node, PROFILES, &index))
        *(enum retry_profile *)field = (enum retry_profile)index;
}

int reader_delays(struct reader *reader, const struct option *option, const struct node *node,
                  const int64_t **ret_list)
{
    int64_t delays[DELAYS_MAX];
    size_t n = 0, errors = reader->errors->n;
    if (node->kind != NODE_LIST || node->count > DELAYS_MAX) {
        reader_not_a_list(reader, node, DELAYS_MAX, "a delay such as 5s");
        return 0;
    }
    for (const struct node *item = node->first; item; item = item->next)
        read_duration(reader, option, item, &delays[n++]);
    if (n == 0)
        reader_complain(reader, node,
                        "is empty (expected the delay before each further attempt, such "
                        "as [1s, 5s])");
    if (reader->errors->n > errors)
        return 0;
    int64_t *list = arena_alloc(reader->texts, n * sizeof *list);
    if (!list)
        return 0;
    memcpy(list, delays, n * sizeof *list);
    *ret_list = list;
    return (int)n;
}

OPTION_READER(delays)
{
    struct rule_retry *retry = READER_STRUCT(field, rule_retry, schedule);
    const int64_t *list;
    int n = reader_delays(reader, option, node, &list);
    if (n == 0)
        return;
    retry->schedule = (struct retry_schedule){.list = list, .attempts = n + 1};
    retry->own_delays = true;
}

/* Complains of a member that takes `us`, of the `most_us` that `whose` is. */
static void complain_of_span(struct reader *reader, const struct node *node, int64_t us,
                             int64_t most_us, const char *whose)
{
    BUF_AUTO struct buf span = buf_make(SPAN_MAX), most = buf_make(SPAN_MAX);
    duration_print(&span, us);
    duration_print(&most, most_us);
    reader->scratch->failed |= !buf_ok(&span) || !buf_ok(&most);
    reader_complain(reader, node, "takes %.*s, and %s is %.*s (expected less)",
                    SLICE_ARG(buf_slice(&span)), whose, SLICE_ARG(buf_slice(&most)));
}

/* The last of the tries could never begin. */
static void check_delays(struct reader *reader, const struct node *map,
                         const struct rule_retry *retry, int64_t most_us, const char *whose)
{
    int64_t sum = 0;
    for (int i = 0; retry->own_delays && i < retry->schedule.attempts - 1; i++)
        sum = clock_after(sum, retry->schedule.list[i]);
    if (retry->own_delays && sum >= most_us)
        complain_of_span(reader, node_member(map, SLICE("schedule")), sum, most_us, whose);
}

static void set_profile(struct rule_retry *retry, enum retry_profile profile)
{
    CHECK(profile <= RETRY_PROFILE_webhook);
    struct retry_schedule own = retry->schedule;
    retry->on = true;
    retry->profile = profile;
    retry->schedule = *retry_profile_schedule(profile);
    if (retry->own_delays)
        retry_schedule_set_delays(&retry->schedule, own.list, own.attempts - 1);
}

static void read_retry_map(struct reader *reader, const struct option *option,
                           const struct node *node, struct rule_retry *ret_retry)
{
    struct rule_retry retry = {.try_timeout_us = CLOCK_NEVER};
    size_t errors = reader->errors->n;
    if (node->count == 0)
        reader_complain(reader, node, "is empty (expected " A_MAP ")");
    (void)options_read_members(reader, option, node, A_MAP, &retry);
    if (reader->errors->n > errors)
        return;
    set_profile(&retry, retry.profile);
    check_delays(reader, node, &retry, retry.schedule.total_us, "the time of its profile");
    *ret_retry = retry;
}

OPTION_READER(retry)
{
    struct rule_retry *retry = field;
    int64_t us;
    size_t index;
    if (node->kind == NODE_MAP) {
        read_retry_map(reader, option, node, retry);
    } else if (node->kind == NODE_SCALAR && duration_parse(node->text, &us)) {
        reader_meant_member(reader, node, "try_timeout", "none, a profile or " A_MAP);
    } else if (reader_choice(reader, node, "none|" PROFILES "|" A_MAP, &index)) {
        *retry = (struct rule_retry){.try_timeout_us = CLOCK_NEVER};
        if (index > 0)
            set_profile(retry, (enum retry_profile)(index - 1));
    }
}

void retry_review(struct reader *reader, const struct rule_draft *base)
{
    const struct rule *rule = &reader->draft->rule;
    const struct node *node = reader->draft->set[OPTION_retry];
    static const char whose[] = "the rule's `timeout`, for all attempts together,";
    if (!node || node == base->set[OPTION_retry] || node->kind != NODE_MAP || !rule->retry.on)
        return;
    check_delays(reader, node, &rule->retry, rule->timeout_us, whose);
    const struct node *try_timeout = node_member(node, SLICE("try_timeout"));
    if (try_timeout && rule->retry.try_timeout_us >= rule->timeout_us)
        complain_of_span(reader, try_timeout, rule->retry.try_timeout_us, rule->timeout_us, whose);
}
