/* SPDX-License-Identifier: Apache-2.0 */
/* Prints what core decides of a record in every state, a line of JSON each, for test_decisions.py
 * to ask the SQL functions the same. A transaction begins under `participant`, with no lease. */
#include "../unit/record_states.h"
#include "core/once.h"

#define COLUMNS(X)                                                                                 \
    X(status, status)                                                                              \
    X(token, token)                                                                                \
    X(attempts, attempts)                                                                          \
    X(created_at, created_at)                                                                      \
    X(started_at, started_at)                                                                      \
    X(lease_until, lease_until)                                                                    \
    X(lease_us, lease_us)                                                                          \
    X(owner, owner)                                                                                \
    X(probing, probing)                                                                            \
    X(doubt, doubt)                                                                                \
    X(cause, cause)                                                                                \
    X(windowed, window)                                                                            \
    X(kept, kept)                                                                                  \
    X(provisional, provisional)                                                                    \
    X(unknown, unknown)                                                                            \
    X(settle_us, settle_us)                                                                        \
    X(quiet_at, quiet_at)                                                                          \
    X(ttl_us, ttl_us)                                                                              \
    X(least_us, least_us)                                                                          \
    X(doubted_us, doubted_us)                                                                      \
    X(tombstone_us, tombstone_us)                                                                  \
    X(completed_at, completed_at)                                                                  \
    X(expires_at, expires_at)                                                                      \
    X(gone_at, gone_at)                                                                            \
    X(once_ttl_us, once_ttl_us)                                                                    \
    X(once_window, once_window)                                                                    \
    X(once_replay, once_replay)                                                                    \
    X(once_until, once_until)                                                                      \
    X(http_code, http_status)

static void print_record(const char *name, const struct record *record)
{
    const char *between = "";
    printf(", \"%s\": {", name);
#define X(column, field)                                                                           \
    printf("%s\"" #column "\": %lld", between, (long long)record->field);                          \
    between = ", ";
    COLUMNS(X)
#undef X
    printf("}");
}

enum hashes { SAME, OTHER_PAYLOAD, OTHER_TARGET, NONE_BROUGHT, NONE_KEPT, HASHES };

static const char *const verdicts[] = {
    [RECORD_PROCEED] = "proceed",
    [RECORD_PROBE] = "probe",
    [RECORD_INQUIRE] = "inquire",
    [RECORD_REPLAY] = "replay",
    [RECORD_MISMATCH] = "mismatch",
    [RECORD_IN_PROGRESS] = "in_progress",
    [RECORD_OUTCOME_UNKNOWN] = "outcome_unknown",
    [RECORD_RESULT_EXPIRED] = "result_expired",
    [RECORD_RESULT_NOT_KEPT] = "result_not_kept",
    [RECORD_DUPLICATE] = "duplicate",
    [RECORD_OTHER_RECIPE] = "other_recipe",
    [RECORD_KEY_EXPIRED] = "key_expired",
    [RECORD_KEY_AHEAD] = "key_ahead",
    [RECORD_UNPROVED] = "unproved",
};

static void begin_on(enum state state, enum hashes hashes, struct record record)
{
    static const struct digest none;
    struct record_begin begin = a_begin(RECORD_UNKNOWN_PARTICIPANT);
    struct record_world world = {.now = NOW, .self = -1};
    bool changed = false;
    begin.lease_us = SECOND;
    begin.doubted_us = TTL;
    begin.payload_hash = hashes == OTHER_PAYLOAD ? hash_of(9) : begin.payload_hash;
    begin.target_hash = hashes == OTHER_TARGET ? hash_of(9) : begin.target_hash;
    if (hashes == NONE_BROUGHT)
        begin.payload_hash = begin.target_hash = none;
    if (hashes == NONE_KEPT && state != ABSENT)
        record.payload_hash = record.target_hash = none;
    printf("{\"state\": \"%s\", \"act\": \"begin\", \"hashes\": %d", state_name(state), hashes);
    print_record("before", &record);
    enum record_verdict verdict = record_begin(&record, &begin, &world, NEXT, &changed);
    printf(", \"verdict\": \"%s\"", verdicts[verdict]);
    print_record("after", &record);
    printf("}\n");
}

enum act { COMPLETE_201, COMPLETE_422, RELEASE, ACTS };

static enum record_write write_on(struct record *record, enum act act, int64_t token)
{
    static const struct record_final finals[] = {{RECORD_COMPLETE, 201, true},
                                                 {RECORD_FAILED, 422, true}};
    return act == RELEASE ? record_release(record, token, NOW)
                          : record_complete(record, token, &finals[act], NOW);
}

static void print_write(enum state state, enum act act, int64_t token, struct record record)
{
    static const char *const acts[] = {"complete 201", "complete 422", "release"};
    static const char *const writes[] = {"written", "stale", "already"};
    printf("{\"state\": \"%s\", \"act\": \"%s\", \"presented\": %lld", state_name(state), acts[act],
           (long long)token);
    print_record("before", &record);
    enum record_write write = write_on(&record, act, token);
    printf(", \"verdict\": \"%s\"", writes[write]);
    print_record("after", &record);
    printf("}\n");
}

/* The record holds the once value that a begin under another key brings. */
static void begin_once_on(enum state state, enum hashes hashes, bool reject, int64_t once_until,
                          struct record holder)
{
    static const char *const acts[] = {"none", "take", "replace", "continue", "bind"};
    struct record_begin begin = a_begin(RECORD_UNKNOWN_PARTICIPANT);
    struct record_world world = {.now = NOW, .self = -1};
    begin.lease_us = SECOND;
    begin.doubted_us = begin.once_ttl_us = TTL;
    begin.once_replay = !reject;
    if (once_until > 0) {
        holder.once_ttl_us = TTL;
        holder.once_until =
            holder.status == RECORD_COMPLETE && !holder.provisional ? once_until : 0;
    }
    printf("{\"state\": \"%s\", \"act\": \"once\", \"hashes\": %d, \"reject\": %d",
           state_name(state), hashes, reject);
    print_record("before", &holder);
    struct once_question question = {.begin = &begin,
                                     .world = &world,
                                     .next_token = NEXT,
                                     .same = hashes != OTHER_PAYLOAD,
                                     .reject = reject};
    struct once_decision decision = once_decide(&holder, &question);
    bool begins = decision.act == ONCE_TAKE || decision.act == ONCE_REPLACE;
    printf(", \"verdict\": \"%s\", \"does\": \"%s\"",
           verdicts[begins ? RECORD_PROCEED : decision.verdict], acts[decision.act]);
    print_record("after", &holder);
    printf("}\n");
}

static void begin_once_each(enum state state, struct record holder)
{
    static const int64_t untils[] = {0, NOW, NOW + 1};
    for (size_t i = 0; i < 3; i++)
        for (int reject = 0; reject <= 1; reject++) {
            begin_once_on(state, SAME, reject, untils[i], holder);
            begin_once_on(state, OTHER_PAYLOAD, reject, untils[i], holder);
        }
}

/* A lease of one's own that the clock says is over: no transaction has one. */
static bool is_found(enum state state, enum record_unknown policy)
{
    bool own = state == OWN || state == OWN_PROBE || state == OWN_PROVISIONAL;
    return !own && (state != UNKNOWN || !record_repeats(policy));
}

int main(void)
{
    for (int state = 0; state < STATES; state++)
        for (int policy = 0; policy <= RECORD_UNKNOWN_PARTICIPANT; policy++) {
            if (!is_found((enum state)state, (enum record_unknown)policy))
                continue;
            struct record record = make((enum state)state, (enum record_unknown)policy);
            record.settle_us = state == ABSENT ? 0 : SETTLE;
            for (int hashes = 0; hashes < HASHES; hashes++)
                begin_on((enum state)state, (enum hashes)hashes, record);
            if (state != ABSENT)
                begin_once_each((enum state)state, record);
            for (int act = 0; act < ACTS && state != ABSENT; act++)
                for (int64_t token = TOKEN - 1; token <= TOKEN + 1; token++)
                    print_write((enum state)state, (enum act)act, token, record);
        }
    return 0;
}
