/* SPDX-License-Identifier: Apache-2.0 */
/* What an operator does to queued operations, and to where they go. */
#include "base/check.h"
#include "base/text/url.h"
#include "cli/lib/print.h"
#include "cli/tasks/queue_lists.h"
#include <stdio.h>
#include <unistd.h>

#define LANE_MAX ((size_t)1024)
#define RATE_DEFAULT 10

/* Of acts on one, or on all that are so. */
struct many_options {
    struct queue_session session;
    bool dead;
    bool parked;
    bool dry_run;
    bool keep;        /* drop --list */
    int64_t since;    /* ended (parked: added) then or later; 0: whenever */
    int64_t until;    /* the same: not later */
    const char *to;   /* below this URL; NULL: any */
    const char *lane; /* endpoint or source; NULL: any */
    size_t rate;      /* replay: so many a second */
};

/* ---- retry, drop ---- */

int queue_report_act(const struct queue_session *session, const struct tasks_acted *acted,
                     const char *done)
{
    CHECK(session->id > 0);
    const char *noun = session->kind->noun;
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
    case TASKS_LINKED: /* queue_lists.h */
        break;
    case TASKS_CHANGED: /* asked for by act_on_many alone */
    case TASKS_END_COUNT:
        break;
    case TASKS_SENDING:
        return command_failed(session->command, EXIT_TRY_AGAIN,
                              "%s %lld is being sent; nothing was changed", noun, id);
    }
    return EXIT_UNAVAILABLE;
}

static int act_open(struct queue_session *session, enum tasks_act act, const char *done)
{
    struct tasks_acted acted = {0};
    const struct tasks_wish wish = {.id = session->id, .act = act, .actor = queue_actor(session)};
    int code = queue_complain(session, tasks_act(&session->source, &wish, &acted));
    if (code != EXIT_DONE)
        return code;
    if (acted.end == TASKS_LINKED)
        return queue_lists_act(session, act == TASKS_RETRY ? STEPS_RETRY : STEPS_DROP, done);
    return queue_report_act(session, &acted, done);
}

static int act_on_one(struct queue_session *session, enum tasks_act act, const char *done)
{
    CHECK(session->id > 0);
    int code = queue_open(session, STORE_COMMAND, false);
    return code == EXIT_DONE ? act_open(session, act, done) : code;
}

/* ---- many ---- */

static void show_acts_progress(void *argument, size_t n)
{
    (void)argument;
    fprintf(stderr, "\r%zu ", n);
}

static int report_many(const struct many_options *options, const size_t n[TASKS_END_COUNT],
                       const char *done)
{
    size_t left = n[TASKS_SENDING] + n[TASKS_CHANGED] + n[TASKS_NOT_ALLOWED] + n[TASKS_NOT_FOUND];
    printf("%s%s: %zu\n", options->dry_run ? "not yet " : "", done, n[TASKS_ACTED]);
    if (n[TASKS_LINKED] > 0)
        fprintf(stderr, "pawl %s: %zu steps of lists were left out; see each by its ID\n",
                options->session.command, n[TASKS_LINKED]);
    if (left == 0)
        return EXIT_DONE;
    return command_failed(options->session.command, EXIT_TRY_AGAIN,
                          "%zu were left, which are being sent, or changed meanwhile; run it again",
                          left);
}

/* What is parked is held by what is dead: that is sent again. */
static int act_on_many(struct many_options *options, enum tasks_act act, const char *done)
{
    struct queue_session *session = &options->session;
    size_t n[TASKS_END_COUNT] = {0};
    bool retries = act == TASKS_RETRY, shows = isatty(STDERR_FILENO);
    CHECK(options->dead != options->parked && session->operands.n == 0);
    struct tasks_many many = {.wanted = {.ord = slice_of(session->group),
                                         .lane = slice_of(options->lane),
                                         .to = slice_of(options->to),
                                         .since = options->since,
                                         .until = options->until},
                              .wish = {.act = act, .actor = queue_actor(session)},
                              .rate = retries ? RATE_DEFAULT : 0,
                              .holding = retries && options->parked,
                              .dry_run = options->dry_run,
                              .each = shows ? show_acts_progress : NULL};
    tasks_want_state(&many.wanted,
                     options->dead || retries ? (size_t)TASK_DEAD : TASKS_STATE_PARKED);
    int code = queue_open(session, STORE_COMMAND, false);
    if (code != EXIT_DONE)
        return code;
    code = queue_complain(session, tasks_act_on_many(&session->source, &many, n));
    if (shows)
        fputs("\r\033[K", stderr);
    int reported = report_many(options, n, done);
    return code != EXIT_DONE ? code : reported;
}

static bool selects_operations(const struct many_options *options)
{
    return options->since != 0 || options->until != 0 || options->session.group || options->lane ||
           options->to || options->dry_run;
}

/* Either one by its ID, or many. */
static int act_on_given(struct many_options *options, enum tasks_act act, const char *done,
                        const char *done_to_many)
{
    struct queue_session *session = &options->session;
    bool many = options->dead || options->parked;
    if (options->dead && options->parked)
        return command_misused(session->command, "--dead and --parked exclude each other");
    if (many == (session->operands.n > 0))
        return command_misused(session->command, "needs an ID, --dead or --parked");
    if (!many && selects_operations(options))
        return command_misused(session->command,
                               "what selects among many goes with --dead or --parked");
    return many ? act_on_many(options, act, done_to_many) : act_on_one(session, act, done);
}

static int retry_operation(void *given)
{
    struct many_options *options = given;
    return act_on_given(options, TASKS_RETRY, "waits again, under its key", "retried");
}

static int drop_task(void *given)
{
    struct many_options *options = given;
    struct queue_session *session = &options->session;
    if (options->keep && !session->lists)
        return command_misused(session->command, "--keep goes with --list");
    if (session->lists && (session->operands.n > 0 || options->dead || options->parked))
        return command_misused(session->command, "--list goes without an ID, --dead and --parked");
    return session->lists ? queue_lists_drop(session, options->keep)
                          : act_on_given(options, TASKS_DROP, "is dropped", "dropped");
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
            code = queue_report_act(session, &acted, "is sent again");
    }
    return code;
}

/* All that are dead, so many a second. One that somebody else was at is left. */
static int replay_dead(struct many_options *options)
{
    struct queue_session *session = &options->session;
    CHECK(options->dead && options->rate > 0);
    struct tasks_wanted wanted = {.has_state = true,
                                  .state = TASK_DEAD,
                                  .lane = slice_of(options->lane),
                                  .since = options->since};
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
                                                (int64_t)(n * CLOCK_US_PER_S / options->rate)};
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

static int replay_task(void *given)
{
    struct many_options *options = given;
    struct queue_session *session = &options->session;
    bool all = options->dead;
    if (all == (session->operands.n > 0))
        return command_misused(session->command, "needs IDs or --dead");
    if (!all && (options->since != 0 || options->lane))
        return command_misused(session->command, "--since, --endpoint and --source go with --dead");
    int code = queue_open(session, STORE_COMMAND, false);
    if (code != EXIT_DONE)
        return code;
    return all ? replay_dead(options) : replay_given(session);
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

static int pause_lane(void *given)
{
    struct queue_session *session = given;
    return switch_lane(session, false);
}

static int resume_lane(void *given)
{
    struct queue_session *session = given;
    return switch_lane(session, true);
}

/* ---- the rows ---- */

#define FLAG_ALL_DEAD(member) SWITCH(member, "dead", 0, "all that failed finally")
#define FLAG_ALL_PARKED(member)                                                                    \
    SWITCH(member, "parked", 0, "all that wait behind one that failed finally")
#define WHEN_FLAGS                                                                                 \
    FLAG(since, "since", 0, "T", TIME,                                                             \
         "only those that ended (parked: were added) at T (2026-01-31T12:00:00Z) or later"),       \
        FLAG(until, "until", 0, "T", TIME, "the same, at T or earlier")
#define FLAG_ALL_TO(member)                                                                        \
    FLAG(member, "to", 0, "PREFIX", ANY, "of these only those for this URL or one below it")
#define FLAG_ALL_DRY_RUN(member) SWITCH(member, "dry-run", 0, "count them, and change nothing")
#define FLAG_REPLAY_DEAD(member) SWITCH(member, "dead", 0, "all that have failed finally")
#define FLAG_SINCE(member)                                                                         \
    FLAG(member, "since", 0, "T", TIME,                                                            \
         "with --dead: only those that ended at T (2026-01-31T12:00:00Z) or later")
#define FLAG_RATE(member)                                                                          \
    FLAG(member, "rate", 0, "N", INT(1, 1000000), "with --dead: N a second (default 10)")
#define FLAG_PAUSED_GROUP(member)                                                                  \
    FLAG(member, "group", 0, "G", ANY, "this group, instead of a target")
#define SOME_LEFT EXIT_TRY_AGAIN, "it is being sent; of many: some were left, run it again"
#define ABOUT_MANY                                                                                 \
    "With --dead or --parked it does so to all of them, one after the other, each as by its ID, "  \
    "and counts; steps of lists are left out."

#define OPTIONS struct many_options
const struct command command_queue_retry = {
    .name = "queue retry",
    .summary = "send an operation that failed finally again, under its key",
    .synopsis = "ID [--reason TEXT]\n"
                "--dead | --parked [OPTIONS]",
    .about = "Makes an operation that is dead or dropped wait again, under the same key; its "
             "attempts count from the start.\n\n" ABOUT_MANY
             " They are sent again at most ten a second to each target.",
    .operand = "ID",
    .operands = {0, 1},
    .flags = FLAGS(
        FLAG_ALL_DEAD(dead),
        SWITCH(parked, "parked", 0,
               "all that failed finally and hold their group: what is parked behind them follows"),
        WHEN_FLAGS, FLAG_LISTED_GROUP(session.group), FLAG_ALL_TO(to), FLAG_ALL_DRY_RUN(dry_run),
        FLAG_ACT_REASON(session.reason), FLAG_STORE(session.store_path)),
    .exits = {{NO_OPERATION}, {EXIT_USAGE, NULL}, {NO_STORE}, {SOME_LEFT}},
    ACTS(queue_run, retry_operation),
};

const struct command command_queue_drop = {
    .name = "queue drop",
    .summary = "give an operation up; its group goes on",
    .synopsis = "ID [--force] [--reason TEXT]\n"
                "--dead | --parked [OPTIONS]\n"
                "--list NAME [--keep] [--force] [--reason TEXT]",
    .about =
        "Drops an operation that waits or is dead. It is kept in the list as dropped; what waited "
        "behind it in its group goes on.\n\n" ABOUT_MANY "\n\n"
        "The list that a step parked is undone; in doubt that needs --force, and it is partial. An "
        "undo is given up, and its list partial. With --list what is done of a list is undone, or "
        "with --keep stays; one that is being undone stops, and is partial.",
    .operand = "ID",
    .operands = {0, 1},
    .flags = FLAGS(
        FLAG(session.lists, "list", 0, "NAME", ANY, "a whole list, by its number or its name"),
        SWITCH(keep, "keep", 0, "with --list: leave what is done as it is"),
        FLAG_EDIT_FORCE(session.force), FLAG_ALL_DEAD(dead), FLAG_ALL_PARKED(parked), WHEN_FLAGS,
        FLAG_LISTED_GROUP(session.group), FLAG_ALL_TO(to), FLAG_ALL_DRY_RUN(dry_run),
        FLAG_ACT_REASON(session.reason), FLAG_STORE(session.store_path)),
    .exits = {{NO_OPERATION},
              {EXIT_USAGE, NULL},
              {NO_STORE},
              {SOME_LEFT},
              {EXIT_OUTCOME_UNKNOWN, "an attempt may have taken effect"}},
    ACTS(queue_run, drop_task),
};

const struct command command_queue_pause = {
    .name = "queue pause",
    .summary = "send nothing more to a target, or of a group",
    .synopsis = "URL [--reason TEXT]\n"
                "--group G [--reason TEXT]",
    .about = "Sends nothing more to the target of URL (scheme, host and port), or of a group, "
             "until `pawl queue resume`. What is being sent goes on.",
    .operand = "URL",
    .operands = {0, 1},
    .flags = FLAGS(FLAG_PAUSED_GROUP(session.group), FLAG_ACT_REASON(session.reason),
                   FLAG_STORE(session.store_path)),
    .exits = {{EXIT_USAGE, NULL}, {NO_STORE}},
    ACTS(queue_run, pause_lane),
};

const struct command command_queue_resume = {
    .name = "queue resume",
    .summary = "send again to a target, or of a group",
    .synopsis = "URL [--reason TEXT]\n"
                "--group G [--reason TEXT]",
    .about = "Ends a `pawl queue pause`.",
    .operand = "URL",
    .operands = {0, 1},
    .flags = FLAGS(FLAG_PAUSED_GROUP(session.group), FLAG_ACT_REASON(session.reason),
                   FLAG_STORE(session.store_path)),
    .exits = {{EXIT_USAGE, NULL}, {NO_STORE}},
    ACTS(queue_run, resume_lane),
};

const struct command command_webhook_replay = {
    .name = "webhook replay",
    .summary = "deliver again, under the same event id",
    .synopsis = "ID... [--force]\n"
                "--dead [--since T] [--endpoint NAME] [--rate N] [--force]",
    .about =
        "Makes deliveries wait again, under the event's id, with a new timestamp and the secrets "
        "of that moment; their attempts count from the start, and do not count for the breaker. "
        "With --dead it does so with all that have failed finally, --rate of them a second.",
    .operand = "ID",
    .operands = {0, 1000},
    .flags = FLAGS(FLAG_REPLAY_DEAD(dead), FLAG_SINCE(since), FLAG_ENDPOINT(lane), FLAG_RATE(rate),
                   SWITCH(session.force, "force", 0, "also to an endpoint that is disabled"),
                   FLAG_ACT_REASON(session.reason), FLAG_STORE(session.store_path)),
    .exits = {{NO_DELIVERY}, {EXIT_USAGE, NULL}, {NO_STORE}, {EXIT_TRY_AGAIN, "it is being sent"}},
    ACTS(queue_run, replay_task, .rate = RATE_DEFAULT),
};

const struct command command_webhook_drop = {
    .name = "webhook drop",
    .summary = "give a delivery up",
    .synopsis = "ID [--reason TEXT]\n"
                "--dead | --parked [OPTIONS]",
    .about = "Drops a delivery that waits or is dead. It is kept in the list as dropped; what "
             "waited behind it at an ordered endpoint goes on.\n\n" ABOUT_MANY,
    .operand = "ID",
    .operands = {0, 1},
    .flags = FLAGS(FLAG_ALL_DEAD(dead), FLAG_ALL_PARKED(parked), WHEN_FLAGS, FLAG_ENDPOINT(lane),
                   FLAG_ALL_DRY_RUN(dry_run), FLAG_ACT_REASON(session.reason),
                   FLAG_STORE(session.store_path)),
    .exits = {{NO_DELIVERY}, {EXIT_USAGE, NULL}, {NO_STORE}, {SOME_LEFT}},
    ACTS(queue_run, drop_task),
};

const struct command command_inbox_replay = {
    .name = "inbox replay",
    .summary = "have an event handled again, under the same key",
    .synopsis = "ID... [--force]\n"
                "--dead [--since T] [--source NAME] [--rate N] [--force]",
    .about = "Makes events wait for their handler again, under the same key; their attempts count "
             "from the start, and do not count for the breaker. With --dead it does so with all "
             "whose handling has failed finally, --rate of them a second.",
    .operand = "ID",
    .operands = {0, 1000},
    .flags = FLAGS(
        FLAG_REPLAY_DEAD(dead), FLAG_SINCE(since), FLAG_SOURCE(lane), FLAG_RATE(rate),
        SWITCH(session.force, "force", 0,
               "also 7 days after the first attempt, when its handler may know the key no more"),
        FLAG_ACT_REASON(session.reason), FLAG_STORE(session.store_path)),
    .exits = {{NO_EVENT}, {EXIT_USAGE, NULL}, {NO_STORE}, {EXIT_TRY_AGAIN, "it is being handled"}},
    ACTS(queue_run, replay_task, .rate = RATE_DEFAULT),
};

const struct command command_inbox_drop = {
    .name = "inbox drop",
    .summary = "give the handling of an event up",
    .synopsis = "ID [--reason TEXT]\n"
                "--dead | --parked [OPTIONS]",
    .about = "Drops an event whose handling waits or is dead. It is kept in the list as dropped, "
             "and its id is known; what waited behind it in its order goes on.\n\n" ABOUT_MANY,
    .operand = "ID",
    .operands = {0, 1},
    .flags = FLAGS(FLAG_ALL_DEAD(dead), FLAG_ALL_PARKED(parked), WHEN_FLAGS, FLAG_SOURCE(lane),
                   FLAG_ALL_DRY_RUN(dry_run), FLAG_ACT_REASON(session.reason),
                   FLAG_STORE(session.store_path)),
    .exits = {{NO_EVENT}, {EXIT_USAGE, NULL}, {NO_STORE}, {SOME_LEFT}},
    ACTS(queue_run, drop_task),
};
