/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/jobs/jobs.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/text/nearest.h"
#include "base/text/shell.h"
#include "base/time/duration.h"
#include "base/time/timestamp.h"
#include "cli/lib/opener.h"
#include "engine/host.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define ARENA_MAX ((size_t)16 * 1024 * 1024)
#define KEEP_OUTPUT ((size_t)1024 * 1024)
#define KEEP_OUTPUT_MOST ((uint64_t)64 * 1024 * 1024)
#define TEXT_MAX ((size_t)4096)
#define VERB_MAX 80
#define DAY_US (INT64_C(24) * 3600 * CLOCK_US_PER_S)
#define TTL_US DAY_US

void jobs_init(struct jobs_options *options, const char *command)
{
    options->command = command;
    options->job.rule = SLICE(JOB_RULE);
    options->job.profile = RETRY_PROFILE_COUNT;
    options->job.unknown = RECORD_UNKNOWN_RETRY;
    options->job.ttl_us = TTL_US;
    options->job.timeout_us = CLOCK_NEVER;
    options->job.process.keep_output = KEEP_OUTPUT;
    options->arena = arena_make(ARENA_MAX);
    options->client = buf_make(TEXT_MAX);
}

int jobs_say(enum exit_code code, const char *format, ...)
{
    va_list arguments;
    fputs("pawl: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return (int)code;
}

/* ---- flags ---- */

int jobs_take_unknown(void *options, const char *text)
{
    struct jobs_options *jobs = options;
    static const char probe[] = "probe:";
    bool probes = strncmp(text, probe, sizeof probe - 1) == 0 && text[sizeof probe - 1];
    if (probes)
        jobs->job.process.probe = text + sizeof probe - 1;
    if (!probes && strcmp(text, "retry") != 0 && strcmp(text, "hold") != 0)
        return command_misused(jobs->command,
                               "--unknown must be retry, hold or probe:CMD, not `%s`", text);
    jobs->job.unknown = probes           ? RECORD_UNKNOWN_PROBE
                        : text[0] == 'h' ? RECORD_UNKNOWN_HOLD
                                         : RECORD_UNKNOWN_RETRY;
    return EXIT_DONE;
}

/* `3` or `64-78`. */
static bool read_codes(struct slice text, uint64_t *ret_first, uint64_t *ret_last)
{
    struct slice first;
    struct slice last = slice_cut(text, '-', &first);
    if (!slice_to_u64(first, PROCESS_CODES - 1, ret_first))
        return false;
    *ret_last = *ret_first;
    return (!last.at || slice_to_u64(last, PROCESS_CODES - 1, ret_last)) && *ret_first > 0 &&
           *ret_first <= *ret_last;
}

int jobs_take_final(void *options, const char *text)
{
    struct jobs_options *jobs = options;
    struct slice rest = slice_of(strcmp(text, "all") == 0 ? "1-255" : text), item;
    while (slice_next(&rest, ',', &item)) {
        uint64_t first, last;
        if (!read_codes(item, &first, &last))
            return command_misused(
                jobs->command, "--final wants exit codes, such as 2,64-78, or all, not `%s`", text);
        for (uint64_t code = first; code <= last; code++)
            jobs->job.process.final[code] = true;
    }
    return EXIT_DONE;
}

int jobs_take_keep(void *options, const char *text)
{
    struct jobs_options *jobs = options;
    uint64_t bytes;
    if (!size_parse(slice_of(text), &bytes) || bytes > KEEP_OUTPUT_MOST)
        return command_misused(
            jobs->command, "--keep-output wants a size up to 64MiB, such as 1MiB, not `%s`", text);
    jobs->job.process.keep_output = (size_t)bytes;
    return EXIT_DONE;
}

/* ---- the key ---- */

static int no_zone(struct jobs_options *options, struct slice name)
{
    struct nearest nearest = {.given = name};
    zones_add_all(&options->zones, &options->arena);
    for (size_t i = 0; i < options->zones.n; i++)
        nearest_try(&nearest, options->zones.at[i]->name);
    struct slice meant = nearest_name(&nearest);
    if (meant.at)
        return command_misused(options->command,
                               "there is no time zone `%.*s`; did you mean `%.*s`?",
                               SLICE_QUOTED(name), SLICE_ARG(meant));
    if (options->zones.n > 0)
        return command_misused(options->command, "there is no time zone `%.*s`",
                               SLICE_QUOTED(name));
    return command_failed(options->command, EXIT_UNAVAILABLE,
                          "time zones cannot be read from " ZONE_FOLDER "; install tzdata");
}

int jobs_read_zones(struct jobs_options *options, const struct template *template)
{
    for (size_t i = 0; i < template->n; i++) {
        const struct template_part *part = &template->parts[i];
        if (!template_part_is_clock(part) || part->text.len == 0)
            continue;
        if (template_part_asks_zone(part))
            zones_add_all(&options->zones, &options->arena);
        else if (!zones_add(&options->zones, part->text, &options->arena))
            return no_zone(options, part->text);
    }
    return EXIT_DONE;
}

int jobs_check_variables(const struct jobs_options *options, const struct template *template,
                         const char *what)
{
    for (size_t i = 0; i < template->n; i++) {
        const struct template_part *part = &template->parts[i];
        const char *value = part->source == TEMPLATE_ENV ? getenv(part->text.at) : "set";
        bool is_key = template == &options->key_template;
        if (!value || (is_key && !*value))
            return command_misused(options->command, "%s: the environment variable %.*s is %s",
                                   what, SLICE_QUOTED(part->text), value ? "empty" : "not set");
    }
    return EXIT_DONE;
}

/* A date, a week or a month in a key is one job until it is over: a day may have 25 hours. */
static void lengthen_ttl(struct jobs_options *options)
{
    const struct template *template = &options->key_template;
    int64_t least = template_uses(template, TEMPLATE_MONTH)  ? 32 * DAY_US
                    : template_uses(template, TEMPLATE_WEEK) ? 8 * DAY_US
                    : template_uses(template, TEMPLATE_DATE) ? 2 * DAY_US
                                                             : 0;
    if (options->ttl_us > 0)
        options->job.ttl_us = options->ttl_us;
    else if (options->job.ttl_us < least)
        options->job.ttl_us = least;
}

int jobs_prepare(struct jobs_options *options, enum template_use use)
{
    struct slice problem;
    CHECK(options->key && options->key_template.n == 0);
    CHECK(options->job.timeout_us > 0 && options->job.wait_us >= 0 && options->ttl_us >= 0);
    if (!template_compile(slice_of(options->key), use, &options->arena, &options->key_template,
                          &problem))
        return command_misused(options->command, "--key: %.*s", SLICE_ARG(problem));
    if (options->name && !slice_is_word(slice_of(options->name), "._/-"))
        return command_misused(options->command,
                               "--name is made of letters, digits and ._/-, not `%s`",
                               options->name);
    if (options->name)
        options->job.rule = slice_of(options->name);
    options->instant_us = clock_wall_us();
    if (options->at && !timestamp_parse_instant(slice_of(options->at), &options->instant_us))
        return command_misused(options->command,
                               "--at wants an instant with its distance from UTC, such as "
                               "2026-02-19T22:00:00-05:00, not `%s`",
                               options->at);
    lengthen_ttl(options);
    if (template_window_us(&options->key_template) > 0) {
        options->job.is_window = true;
        options->job.ttl_us = template_window_us(&options->key_template);
    }
    host_write(&options->client);
    options->job.client = buf_slice(&options->client);
    int code = jobs_read_zones(options, &options->key_template);
    return code == EXIT_DONE ? jobs_check_variables(options, &options->key_template, "--key")
                             : code;
}

static const char *read_variable(const char *name)
{
    return getenv(name);
}

int jobs_make_key(const struct jobs_options *options, struct template_facts *facts,
                  struct arena *arena, struct slice *ret_key, struct buf *problem)
{
    BUF_AUTO struct buf text = buf_make(TEXT_MAX);
    struct slice missing = {0};
    facts->now_us = options->instant_us;
    facts->zones = &options->zones;
    facts->env = read_variable;
    switch (template_key(&options->key_template, facts, arena, &text, &missing)) {
    case TEMPLATE_OK:
        *ret_key = arena_copy(arena, buf_slice(&text));
        if (ret_key->at)
            return EXIT_DONE;
        break;
    case TEMPLATE_MISSING:
    case TEMPLATE_FORMAT:
        buf_printf(problem, "--key: {%.*s} has no value", SLICE_QUOTED(missing));
        template_explain_missing(&options->key_template, facts, missing, problem);
        return EXIT_BAD_DATA;
    case TEMPLATE_NO_MEMORY:
        break;
    }
    buf_add_str(problem, "out of memory");
    return EXIT_UNAVAILABLE;
}

/* ---- the store ---- */

int jobs_open(struct jobs_options *options)
{
    CHECK(!options->store && !options->job.engine);
    struct store_config config = store_config_default();
    char *problem MEM_AUTO = NULL;
    config.path = options->store_path;
    int code = opener_try_store(options->command, config, &options->store, &problem);
    if (code == EXIT_USAGE)
        return code;
    if (code != EXIT_DONE)
        return jobs_say((enum exit_code)code, "%s", problem ? problem : "out of memory");
    options->job.engine = engine_new(options->store, 0);
    return options->job.engine ? EXIT_DONE : jobs_say(EXIT_UNAVAILABLE, "out of memory");
}

void jobs_close(struct jobs_options *options)
{
    engine_free(options->job.engine);
    if (options->store)
        store_close(options->store);
    arena_fini(&options->arena);
    buf_fini(&options->client);
}

/* ---- what is said ---- */

void jobs_add_timeout(const struct jobs_options *options, struct buf *buf)
{
    buf_add_str(buf, "timed out after ");
    duration_print(buf, options->job.timeout_us);
    buf_add_str(buf, " (--timeout)");
}

/* Of a store that is no file the URL may hold a password. */
static void add_store(const struct jobs_options *options, struct buf *buf)
{
    if (!options->store_path)
        return;
    buf_add_str(buf, " --store ");
    if (strstr(options->store_path, "://"))
        buf_add_str(buf, "URL");
    else
        shell_add_word(buf, slice_of(options->store_path));
}

void jobs_add_keys_command(const struct jobs_options *options, const char *verb, struct slice key,
                           struct buf *buf)
{
    buf_printf(buf, "pawl keys %s", verb);
    add_store(options, buf);
    buf_add_str(buf, " --rule ");
    shell_add_word(buf, options->job.rule);
    if (!key.at)
        return;
    bool is_flag = slice_starts(key, SLICE("-"));
    buf_add_str(buf, is_flag ? " -- " : " ");
    shell_add_word(buf, key);
}

void jobs_add_settling(const struct jobs_options *options, struct slice key, int64_t token,
                       struct buf *buf)
{
    char verb[VERB_MAX];
    CHECK(key.at);
    (void)snprintf(verb, sizeof verb, "resolve --token %lld --exit-code 0", (long long)token);
    buf_add_str(buf, "pawl:   it did:      ");
    jobs_add_keys_command(options, verb, key, buf);
    (void)snprintf(verb, sizeof verb, "release --token %lld", (long long)token);
    buf_add_str(buf, "\npawl:   it did not:  ");
    jobs_add_keys_command(options, verb, key, buf);
    buf_add_char(buf, '\n');
}

enum jobs_clash jobs_clash_of(const struct store_result *result)
{
    if (record_is_final(result->record.status))
        return JOBS_DONE;
    return result->lease == RECORD_LEASE_LIVE ? JOBS_IN_USE : JOBS_IN_DOUBT;
}

/* ---- kept output ---- */

bool jobs_print_kept(struct printer *printer, struct outcome *outcome)
{
    COMPRESS_AUTO struct compress compress = {0};
    if (outcome_unpack(outcome, &compress) != OUTCOME_UNPACKED)
        return false;
    struct slice body = outcome->body, bytes;
    enum child_stream stream;
    if (output_exit_code(outcome) == OUTPUT_NO_CODE) { /* a response, not what a command wrote */
        printer_add(printer, CHILD_OUTPUT, body);
        return true;
    }
    while (output_next(&body, &stream, &bytes))
        printer_add(printer, stream, bytes);
    static const char *const cuts[] = {
        "pawl: standard output was longer: only its beginning was kept (--keep-output)\n",
        "pawl: standard error was longer: only its beginning was kept (--keep-output)\n"};
    for (stream = 0; stream < OUTPUT_STREAMS; stream++)
        if (output_was_cut(outcome, stream))
            printer_add(printer, CHILD_ERROR, slice_of(cuts[stream]));
    return body.len == 0;
}
