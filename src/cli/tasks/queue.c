/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tasks/queue.h"

#include "base/mem.h"
#include "cli/lib/actor.h"
#include "cli/lib/opener.h"
#include "operator/endpoints.h"
#include "operator/terms_act.h"
#include "webhook/fanout.h"
#include "webhook/handler.h"

/* ---- the store ---- */

int queue_open(struct queue_session *session, enum store_role role, bool create)
{
    struct store_config config = store_config_default();
    bool adds_requests = create && session->kind == &tasks_kinds[TASKS_KIND_QUEUE];
    config.path = session->store_path;
    config.read_only_file = !create;
    config.may_be_foreign = role == STORE_COMMAND && !adds_requests;
    config.role = role;
    int code = opener_open_store(session->command, config, &session->store);
    session->source = (struct tasks_source){session->store, &session->parker.parker,
                                            slice_of(session->kind->name)};
    return code;
}

struct store_actor queue_actor(struct queue_session *session)
{
    buf_clear(&session->actor);
    struct store_actor actor = actor_of(session->reason, &session->actor);
    actor.force = session->force;
    return actor;
}

int queue_complain(const struct queue_session *session, enum store_status status)
{
    return opener_complain(session->command, session->store, status);
}

/* ---- the command line ---- */

#define PLACE(member) FLAG_PLACE(struct queue_session, member)
static const struct flag_place places[FLAG_COUNT] = {
    REQUEST_PLACES(struct queue_session, request),
    [FLAG_WAIT_ON] = FLAG_TAKEN(struct queue_session, request, request_take_wait_on),
    [FLAG_FINAL_ON] = FLAG_TAKEN(struct queue_session, request, request_take_final_on),
    [FLAG_STORE] = PLACE(store_path),
    [FLAG_JSON] = PLACE(json),
    [FLAG_LINKED] = PLACE(linked),
    [FLAG_GROUP] = PLACE(group),
    [FLAG_LISTED_GROUP] = PLACE(group),
    [FLAG_PAUSED_GROUP] = PLACE(group),
    [FLAG_ON_FAILURE] = PLACE(on_failure),
    [FLAG_QUEUE_DEADLINE] = PLACE(lasts_us),
    [FLAG_QUEUE_ATTEMPTS] = PLACE(attempts),
    [FLAG_REMEMBER] = PLACE(remember_us),
    [FLAG_DRAIN_NEW] = PLACE(only_new),
    [FLAG_ALL_DEAD] = PLACE(dead),
    [FLAG_ALL_PARKED] = PLACE(parked),
    [FLAG_ALL_HOLDING] = PLACE(parked),
    [FLAG_ALL_SINCE] = PLACE(since),
    [FLAG_ALL_UNTIL] = PLACE(until),
    [FLAG_ALL_TO] = PLACE(to),
    [FLAG_ALL_DRY_RUN] = PLACE(dry_run),
    [FLAG_SETTLE_DONE] = PLACE(settles_done),
    [FLAG_SETTLE_NOT] = PLACE(settles_undone),
    [FLAG_DEDUPE] = PLACE(dedupe_us),
    [FLAG_MOST] = PLACE(most),
    [FLAG_EDIT_FORCE] = PLACE(force),
    [FLAG_EDIT_TO] = PLACE(to),
    [FLAG_EDIT_URL] = PLACE(url),
    [FLAG_DROP_LIST] = PLACE(lists),
    [FLAG_KEEP_DONE] = PLACE(keep),
    [FLAG_SETTLE_RESPONSE] = PLACE(response),
    [FLAG_STATE] = PLACE(state),
    [FLAG_DEAD] = PLACE(dead),
    [FLAG_REPLAY_DEAD] = PLACE(dead),
    [FLAG_LIMIT] = PLACE(limit),
    [FLAG_PROMETHEUS] = PLACE(prometheus),
    [FLAG_DRAIN_ONCE] = PLACE(once),
    [FLAG_FOLLOW] = PLACE(follow),
    [FLAG_IN_FLIGHT] = PLACE(in_flight),
    [FLAG_MAX_TIME] = PLACE(max_time_us),
    [FLAG_PUBLISH_ID] = PLACE(event_id),
    [FLAG_EVENT_DATA] = FLAG_TAKEN(struct queue_session, request, request_take_data),
    [FLAG_EVENT_TENANT] = PLACE(tenant),
    [FLAG_EVENT_TIME] = PLACE(event_time),
    [FLAG_SINCE] = PLACE(since),
    [FLAG_RATE] = PLACE(rate),
    [FLAG_ENDPOINT] = PLACE(lane),
    [FLAG_SOURCE] = PLACE(lane),
    [FLAG_ENDPOINT_NAME] = PLACE(endpoint.name),
    [FLAG_ENDPOINT_URL] = PLACE(endpoint.url),
    [FLAG_ENDPOINT_TYPES] = PLACE(endpoint.types),
    [FLAG_ENDPOINT_SECRET] = PLACE(endpoint.secrets),
    [FLAG_ENDPOINT_OPTION] = PLACE(endpoint.options),
    [FLAG_OVERLAP] = PLACE(endpoint.overlap_us),
    [FLAG_FORGET_ENDPOINT] = PLACE(force),
    [FLAG_REPLAY_DISABLED] = PLACE(force),
    [FLAG_REPLAY_LATE] = PLACE(force),
    [FLAG_ACT_REASON] = PLACE(reason),
};

static int (*const acts[COMMAND_COUNT])(struct queue_session *session) = {
    [COMMAND_queue_add] = queue_run_add,
    [COMMAND_queue_list] = queue_run_list,
    [COMMAND_queue_show] = queue_run_show,
    [COMMAND_queue_edit] = queue_run_edit,
    [COMMAND_queue_retry] = queue_run_retry,
    [COMMAND_queue_drop] = queue_run_drop,
    [COMMAND_queue_settle] = queue_run_settle,
    [COMMAND_queue_pause] = queue_run_pause,
    [COMMAND_queue_resume] = queue_run_resume,
    [COMMAND_queue_drain] = queue_run_drain,
    [COMMAND_queue_audit] = queue_run_audit,
    [COMMAND_stats] = stats_run,
    [COMMAND_webhook_publish] = webhook_run_publish,
    [COMMAND_webhook_endpoint] = webhook_run_endpoint,
    [COMMAND_webhook_list] = queue_run_list,
    [COMMAND_webhook_show] = queue_run_show,
    [COMMAND_webhook_replay] = queue_run_replay,
    [COMMAND_webhook_drop] = queue_run_drop,
    [COMMAND_webhook_audit] = queue_run_audit,
    [COMMAND_inbox_list] = queue_run_list,
    [COMMAND_inbox_show] = queue_run_show,
    [COMMAND_inbox_replay] = queue_run_replay,
    [COMMAND_inbox_drop] = queue_run_drop,
    [COMMAND_inbox_remove] = inbox_run_remove,
    [COMMAND_inbox_audit] = queue_run_audit,
    [COMMAND_store_audit] = queue_run_audit,
};

static const struct tasks_kind of_store = {.name = TERMS_ACT_KIND};

/* By the first word of the command; `stats` is as `queue`. */
static const struct tasks_kind *kind_of(struct slice command)
{
    for (size_t i = 0; i < TASKS_KIND_COUNT; i++)
        if (slice_starts(command, slice_of(tasks_kinds[i].name)))
            return &tasks_kinds[i];
    return slice_starts(command, SLICE("store")) ? &of_store : &tasks_kinds[TASKS_KIND_QUEUE];
}

static bool takes_id(enum command_id id)
{
    return slice_eq(slice_of(command_at(id)->operand), SLICE("ID"));
}

/* What the command line says, once it was read. */
static int check_line(struct queue_session *session, enum command_id id)
{
    uint64_t number = 0;
    if (session->group && session->group[0] == '\0')
        return command_misused(session->command, "--group is empty");
    for (int i = 0; takes_id(id) && i < session->operands.n; i++)
        if (!slice_to_u64(slice_of(session->operands.at[i]), INT64_MAX, &number) || number == 0)
            return command_misused(session->command, "an ID is a number, not `%s`",
                                   session->operands.at[i]);
    session->id = (int64_t)number;
    return EXIT_DONE;
}

static void close_session(struct queue_session *session)
{
    if (session->store)
        store_close(session->store);
    thread_parker_fini(&session->parker);
    request_options_fini(&session->request);
    buf_fini(&session->actor);
    mem_free(session);
}

int command_queue(enum command_id id, struct operands at)
{
    struct queue_session *session = mem_zalloc(1, sizeof *session);
    if (!session)
        return command_failed(command_at(id)->name, EXIT_UNAVAILABLE, "out of memory");
    session->command = command_at(id)->name;
    session->kind = kind_of(slice_of(session->command));
    session->rate = QUEUE_RATE_DEFAULT;
    session->limit = QUEUE_LIMIT_DEFAULT;
    session->max_time_us = QUEUE_MAX_TIME_US;
    session->endpoint.overlap_us = ENDPOINTS_OVERLAP_US;
    request_options_init(&session->request, session->command);
    session->request.keeps_files = true;
    thread_parker_init(&session->parker);
    session->actor = buf_make(STORE_ACTOR_MAX);
    int code = command_read(id, &at, places, session);
    session->operands = at;
    session->operand = at.n > 0 ? at.at[0] : NULL;
    if (code == EXIT_DONE)
        code = check_line(session, id);
    if (code == EXIT_DONE)
        code = acts[id](session);
    close_session(session);
    return code;
}
