/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl each`: a command for each item. */
#include "base/mem.h"
#include "cli/jobs/each.h"

struct own {
    struct job job;
    struct each_session *session;
    bool is_used; /* the job of an item before */
};

static struct each_item *name(void *argument, const struct item *read, struct arena *scratch,
                              struct buf *problem)
{
    struct each_session *session = argument;
    struct each_item item;
    if (!each_fill(session, read, scratch, &item, problem))
        return NULL;
    if (!session->options.ignores_payload)
        item.payload_hash = job_payload_of(item.texts);
    return each_item_new(&item);
}

static void *open_own(void *argument)
{
    struct own *own = mem_zalloc(1, sizeof *own);
    if (own)
        own->session = argument;
    return own;
}

static void clear_command_own(struct own *own)
{
    if (own->is_used)
        job_fini(&own->job);
    own->job = (struct job){0};
    own->is_used = false;
}

static void close_own(void *at)
{
    struct own *own = at;
    clear_command_own(own);
    mem_free(own);
}

static struct runner *prepare(void *at, const struct each_item *item)
{
    struct own *own = at;
    clear_command_own(own);
    own->job.process.argv = item->texts;
    own->job.process.key = item->key;
    own->job.process.input = CHILD_INPUT_NONE;
    own->is_used = true;
    bool ready = job_prepare(&own->job, &own->session->options.job, item->payload_hash);
    return ready ? &own->job.runner : NULL;
}

static void signal_own(void *at, int number)
{
    struct own *own = at;
    process_signal(&own->job.process, number);
}

void each_command_how(const struct each_end *end, struct each_how *ret_how)
{
    const struct own *own = end->own;
    bool ran = own->job.runner.course.attempts > 0;
    const struct store_result *result = &own->job.runner.attempt.result;
    *ret_how = (struct each_how){.clash = jobs_clash_of(result),
                                 .token = result->record.token,
                                 .code = job_exit_code(&own->job, end->runner_result),
                                 .signal = ran ? own->job.process.signal : 0,
                                 .timed_out = ran && own->job.process.timed_out,
                                 .problem = own->job.process.problem,
                                 .attempts = own->job.runner.course.attempts,
                                 .is_out_of_budget = end->runner_result == RUNNER_ENDED &&
                                                     own->job.runner.ended_by == RETRY_ENDS_BUDGET};
}

const struct each_kind each_of_commands = {
    .check = each_check,
    .name = name,
    .open = open_own,
    .close = close_own,
    .prepare = prepare,
    .report = each_report,
    .ask_room = each_report_ask_room,
    .waits = each_report_waits,
    .signal = signal_own,
};
