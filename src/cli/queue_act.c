/* SPDX-License-Identifier: Apache-2.0 */
/* What an operator does to queued operations, and to where they go. */
#include "cli/print.h"
#include "cli/queue.h"
#include "client/queue_steps.h"
#include <stdio.h>

#define LANE_MAX ((size_t)1024)

/* ---- retry, drop ---- */

static int report(const struct queue_session *session, const struct tasks_acted *acted,
                  const char *done)
{
    const char *noun = session->words->noun;
    long long id = (long long)session->id;
    switch (acted->end) {
    case TASKS_ACTED:
        printf("%s %lld %s\n", noun, id, done);
        return EXIT_DONE;
    case TASKS_NOT_FOUND:
        return command_failed(session->command, EXIT_FINAL_ERROR, "there is no %s %lld", noun, id);
    case TASKS_NOT_ALLOWED:
        return command_failed(session->command, EXIT_FINAL_ERROR,
                              "%s %lld is %.*s; nothing was changed", noun, id,
                              SLICE_ARG(task_state_name(acted->state)));
    case TASKS_DISABLED:
        return command_failed(session->command, EXIT_FINAL_ERROR,
                              "the endpoint of %s %lld is disabled; nothing was changed (enable "
                              "it, or use --force)",
                              noun, id);
    case TASKS_LATE:
        return command_failed(session->command, EXIT_FINAL_ERROR,
                              "%s %lld was first handled more than 7 days ago, and its handler may "
                              "not know the key any more; nothing was changed (--force)",
                              noun, id);
    case TASKS_LINKED: /* act_on_list */
        break;
    case TASKS_SENDING:
        return command_failed(session->command, EXIT_TRY_AGAIN,
                              "%s %lld is being sent; nothing was changed", noun, id);
    }
    return EXIT_UNAVAILABLE;
}

/* A step of a list, or its reverse: only where it parked the list. */
static int act_on_list(struct queue_session *session, enum tasks_act act, const char *done)
{
    struct queue_steps_acted acted = {0};
    enum queue_steps_act wanted = act == TASKS_RETRY ? QUEUE_STEPS_RETRY : QUEUE_STEPS_DROP;
    const struct queue_steps_wish wish = {session->id, wanted, queue_actor(session)};
    int code = queue_complain(
        session, queue_steps_act(session->store, &wish, &session->parker.parker, &acted));
    if (code != EXIT_DONE)
        return code;
    if (acted.end != QUEUE_STEPS_ACTED)
        return command_failed(session->command, EXIT_FINAL_ERROR,
                              "operation %lld is a step of list %lld, which is %.*s; only what "
                              "parked a list can be retried or dropped, and nothing was changed",
                              (long long)session->id, (long long)acted.list,
                              SLICE_ARG(steps_state_name(acted.state)));
    printf("operation %lld %s\n", (long long)session->id, done);
    return EXIT_DONE;
}

static int act(struct queue_session *session, enum tasks_act act, const char *done)
{
    struct tasks_acted acted = {0};
    const struct tasks_wish wish = {.id = session->id, .act = act, .actor = queue_actor(session)};
    int code = queue_open(session, STORE_COMMAND, false);
    if (code == EXIT_DONE)
        code = queue_complain(session, tasks_act(&session->source, &wish, &acted));
    if (code != EXIT_DONE)
        return code;
    return acted.end == TASKS_LINKED ? act_on_list(session, act, done)
                                     : report(session, &acted, done);
}

int queue_run_retry(struct queue_session *session)
{
    return act(session, TASKS_RETRY, "waits again, under its key");
}

int queue_run_drop(struct queue_session *session)
{
    return act(session, TASKS_DROP, "is dropped");
}

/* ---- replay ---- */

/* Those of the command line, at once. */
static int replay_given(struct queue_session *session)
{
    int code = EXIT_DONE;
    for (int i = 0; i < session->operands.n && code == EXIT_DONE; i++) {
        struct tasks_acted acted = {0};
        uint64_t number = 0;
        (void)slice_to_u64(slice_of(session->operands.at[i]), INT64_MAX, &number);
        session->id = (int64_t)number;
        const struct tasks_wish wish = {
            .id = session->id, .act = TASKS_REPLAY, .actor = queue_actor(session)};
        code = queue_complain(session, tasks_act(&session->source, &wish, &acted));
        if (code == EXIT_DONE)
            code = report(session, &acted, "is sent again");
    }
    return code;
}

/* All that are dead, so many a second. One that somebody else was at is left. */
static int replay_dead(struct queue_session *session)
{
    struct tasks_wanted wanted = {.has_state = true,
                                  .state = TASK_DEAD,
                                  .lane = slice_of(session->lane),
                                  .since = session->since};
    size_t n = 0, refused = 0;
    int code = EXIT_DONE;
    do {
        TASKS_PAGE_AUTO struct tasks_page page = {0};
        code = queue_complain(session, tasks_list(&session->source, &wanted, &page));
        for (size_t i = 0; i < page.n && code == EXIT_DONE; i++) {
            struct tasks_acted acted = {0};
            const struct tasks_wish wish = {.id = page.rows[i].stored->row.id,
                                            .act = TASKS_REPLAY,
                                            .actor = queue_actor(session),
                                            .after_us =
                                                (int64_t)(n * CLOCK_US_PER_S / session->rate)};
            code = queue_complain(session, tasks_act(&session->source, &wish, &acted));
            n += code == EXIT_DONE && acted.end == TASKS_ACTED;
            refused += acted.end == TASKS_DISABLED || acted.end == TASKS_LATE;
        }
        wanted.after = page.next;
    } while (code == EXIT_DONE && wanted.after != 0);
    if (code == EXIT_DONE)
        printf("sent again: %zu\n", n);
    if (refused > 0)
        fprintf(stderr, "pawl %s: %zu were left, which need --force; see one by its ID\n",
                session->command, refused);
    return code;
}

int queue_run_replay(struct queue_session *session)
{
    bool all = session->dead;
    if (all == (session->operands.n > 0))
        return command_misused(session->command, "needs IDs or --dead");
    if (!all && (session->since != 0 || session->lane))
        return command_misused(session->command, "--since, --endpoint and --source go with --dead");
    int code = queue_open(session, STORE_COMMAND, false);
    if (code != EXIT_DONE)
        return code;
    return all ? replay_dead(session) : replay_given(session);
}

/* ---- pause, resume ---- */

/* Which lane, or which group in all lanes. */
static int read_lane(const struct queue_session *session, struct buf *lane)
{
    struct url url;
    const char *problem;
    if (!session->operand == !session->group)
        return command_misused(session->command, "needs a URL or --group G");
    if (session->group)
        return EXIT_DONE;
    if (!url_read(slice_of(session->operand), &url, &problem))
        return command_misused(session->command, "the URL %s", problem);
    url_write_origin(lane, &url);
    return EXIT_DONE;
}

static int switch_lane(struct queue_session *session, bool resume)
{
    BUF_AUTO struct buf text = buf_make(LANE_MAX);
    bool changed = false;
    int code = read_lane(session, &text);
    if (code == EXIT_DONE)
        code = queue_open(session, STORE_COMMAND, false);
    if (code != EXIT_DONE)
        return code;
    struct store_lane lane = {.lane = buf_slice(&text),
                              .ord = slice_of(session->group),
                              .state = STORE_LANE_PAUSED,
                              .until = CLOCK_NEVER};
    const struct store_actor actor = queue_actor(session);
    code = queue_complain(session, tasks_pause(&session->source, &lane, resume, &actor, &changed));
    if (code != EXIT_DONE)
        return code;
    BUF_AUTO struct buf name = buf_make(SIZE_MAX);
    print_escaped(&name, session->group ? lane.ord : lane.lane);
    printf("%s%.*s is %s%s\n", session->group ? "group " : "", SLICE_ARG(buf_slice(&name)),
           changed ? "" : "already ", resume ? "resumed" : "paused");
    return EXIT_DONE;
}

int queue_run_pause(struct queue_session *session)
{
    return switch_lane(session, false);
}

int queue_run_resume(struct queue_session *session)
{
    return switch_lane(session, true);
}
