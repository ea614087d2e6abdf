/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tasks/queue.h"

#include "base/check.h"
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
    CHECK(!session->store && session->kind);
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

static const struct tasks_kind of_store = {.name = TERMS_ACT_KIND};

/* By the first word of the command; `stats` is as `queue`. */
static const struct tasks_kind *kind_of(struct slice command)
{
    for (size_t i = 0; i < TASKS_KIND_COUNT; i++) {
        CHECK(tasks_kinds[i].name);
        if (slice_starts(command, slice_of(tasks_kinds[i].name)))
            return &tasks_kinds[i];
    }
    return slice_starts(command, SLICE("store")) ? &of_store : &tasks_kinds[TASKS_KIND_QUEUE];
}

static bool takes_id(const struct command *command)
{
    return slice_eq(slice_of(command->operand), SLICE("ID"));
}

/* What the command line says, once it was read. */
static int check_line(struct queue_session *session, const struct command *command)
{
    uint64_t number = 0;
    if (session->group && session->group[0] == '\0')
        return command_misused(session->command, "--group is empty");
    for (int i = 0; takes_id(command) && i < session->operands.n; i++)
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
    buf_fini(&session->actor);
    mem_free(session);
}

int queue_run(const struct command *command, struct operands at)
{
    CHECK(command->act && command->size >= sizeof(struct queue_session));
    struct queue_session *session = mem_zalloc(1, command->size);
    if (!session)
        return command_failed(command->name, EXIT_UNAVAILABLE, "out of memory");
    memcpy(session, command->options, command->size);
    session->command = command->name;
    session->kind = kind_of(slice_of(session->command));
    thread_parker_init(&session->parker);
    session->actor = buf_make(STORE_ACTOR_MAX);
    int code = command_read(command, &at, session);
    session->operands = at;
    session->operand = at.n > 0 ? at.at[0] : NULL;
    if (code == EXIT_DONE)
        code = check_line(session, command);
    if (code == EXIT_DONE)
        code = command->act(session);
    if (command->fini)
        command->fini(session);
    close_session(session);
    return code;
}

/* ---- the row ---- */

const struct command command_queue = {
    .name = "queue",
    .summary = "keep operations on disk until they can be sent",
    .synopsis = "SUBCOMMAND [OPTIONS]",
    .about = "Keeps operations on disk, each under a key of its own, until they can be sent; see "
             "what became of them, and settle what failed.",
    .is_group = true,
};
