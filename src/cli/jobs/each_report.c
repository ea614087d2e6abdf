/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl each`: what is written of each item, and of all of them. */
#include "base/check.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/text/shell.h"
#include "base/time/timestamp.h"
#include "cli/jobs/each.h"
#include "cli/lib/print.h"
#include "cli/lib/store_path.h"
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_MAX_BYTES ((size_t)64 * 1024)
#define TEXT_SHOWN ((size_t)4096)
#define BAR_WIDTH 24
#define COMPLAINTS_MOST 10
#define VERB_MAX 120

static const char *const results[EACH_RESULTS] = {
    [EACH_RUN] = "run",     [EACH_SKIPPED] = "skipped", [EACH_FAILED] = "failed",
    [EACH_DOUBT] = "doubt", [EACH_CHANGED] = "changed", [EACH_BAD] = "bad",
    [EACH_LEFT] = "left",
};

/* ---- files ---- */

/* Emptying it would take away what is still to be read. */
static bool is_input(const struct each_session *session, const char *path)
{
    struct stat input, file;
    bool is_named = session->input && strcmp(session->input, "-") != 0;
    int error = is_named ? stat(session->input, &input) : fstat(STDIN_FILENO, &input);
    return error == 0 && S_ISREG(input.st_mode) && stat(path, &file) == 0 &&
           input.st_dev == file.st_dev && input.st_ino == file.st_ino;
}

static bool is_same_file(FILE *file, const char *path)
{
    struct stat one, other;
    return fstat(fileno(file), &one) == 0 && S_ISREG(one.st_mode) && stat(path, &other) == 0 &&
           one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

/* The store's file, or one beside it. */
static bool is_of_store(const struct each_session *session, FILE *file)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-journal", "-pawl"};
    char *path MEM_AUTO = store_path_find(session->options.store_path, true);
    BUF_AUTO struct buf beside = buf_make(TEXT_SHOWN);
    for (size_t i = 0; path && i < sizeof ends / sizeof *ends; i++) {
        buf_clear(&beside);
        buf_printf(&beside, "%s%s%c", path, ends[i], '\0');
        if (buf_ok(&beside) && is_same_file(file, beside.at))
            return true;
    }
    return false;
}

static int open_file(const struct each_session *session, const char *path, FILE **ret_file)
{
    if (!path || session->is_dry)
        return EXIT_DONE;
    if (is_input(session, path))
        return command_misused(EACH_NAME,
                               "--failed-to and --joblog cannot be the input, %s: copy it, and "
                               "read the copy",
                               path);
    *ret_file = fopen(path, "ae"); /* emptied when the run begins */
    if (!*ret_file)
        return command_failed(EACH_NAME, EXIT_USAGE, "cannot write %s: %s", path, strerror(errno));
    if (is_of_store(session, *ret_file))
        return command_misused(EACH_NAME, "--failed-to and --joblog cannot be the store, %s", path);
    return EXIT_DONE;
}

int each_open_files(struct each_session *session)
{
    CHECK(!session->joblog && !session->failed);
    int code = open_file(session, session->joblog_path, &session->joblog);
    if (code == EXIT_DONE)
        code = open_file(session, session->failed_path, &session->failed);
    if (code == EXIT_DONE && session->joblog && session->failed &&
        is_same_file(session->joblog, session->failed_path))
        code = command_misused(EACH_NAME, "--failed-to and --joblog cannot be one file");
    return code;
}

static void empty_file(FILE *file)
{
    int error = file ? ftruncate(fileno(file), 0) : 0;
    (void)error; /* a pipe cannot be emptied, and need not be */
}

void each_begin_files(const struct each_session *session)
{
    empty_file(session->joblog);
    empty_file(session->failed);
    if (session->joblog)
        fputs("Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n",
              session->joblog);
}

static bool close_file(const char *path, FILE **file)
{
    bool failed = *file && ferror(*file);
    bool written = !*file || (fclose(*file) == 0 && !failed);
    *file = NULL;
    if (!written)
        jobs_say(EXIT_DONE, "cannot write %s: %s", path, strerror(errno));
    return written;
}

bool each_close_files(struct each_session *session)
{
    bool joblog = close_file(session->joblog_path, &session->joblog);
    return close_file(session->failed_path, &session->failed) && joblog;
}

/* What is done for an item, as a shell reads it: the command; of a request method, URL, and its
 * headers and body as they would be given. */
static void add_each_command(const struct each_session *session, const struct each_item *item,
                             struct buf *line)
{
    const char *const *texts = item->texts;
    if (!session->send) {
        shell_add_line(line, texts, TEXT_SHOWN);
        return;
    }
    const struct headers *headers = &session->request.request.headers;
    const char *method = session->request.request.method;
    buf_printf(line, "%s ", method ? method : session->body ? "POST" : "GET");
    shell_add_word(line, slice_first(slice_of(texts[EACH_URL]), TEXT_SHOWN));
    for (size_t i = 0; i < headers->n; i++) {
        BUF_AUTO struct buf header = buf_make(LINE_MAX_BYTES);
        buf_printf(&header, "%.*s: %s", SLICE_ARG(headers->at[i].name), texts[EACH_HEADERS + i]);
        buf_add_str(line, " -H ");
        shell_add_word(line, slice_first(buf_slice(&header), TEXT_SHOWN));
    }
    if (!session->body)
        return;
    buf_add_str(line, " -d ");
    shell_add_word(line, slice_first(slice_of(texts[EACH_BODY]), TEXT_SHOWN));
}

/* As GNU parallel writes it (--joblog): nothing in it divides a line. */
static void write_joblog(const struct each_session *session, const struct each_end *end,
                         const struct each_how *how)
{
    BUF_AUTO struct buf line = buf_make(LINE_MAX_BYTES);
    add_each_command(session, end->item, &line);
    fprintf(session->joblog, "%llu\t:\t%.3f\t%.3f\t0\t0\t%d\t%d\t%.*s\n",
            (unsigned long long)end->item->number, (double)end->started_at / (double)CLOCK_US_PER_S,
            (double)end->took_us / (double)CLOCK_US_PER_S, how->signal > 0 ? 0 : how->code,
            how->signal, SLICE_ARG(buf_slice(&line)));
    fflush(session->joblog);
}

/* As it was read, so that it can be the input of another run. */
static void write_failed(const struct each_session *session, const struct each_item *item)
{
    fwrite(item->text.at, 1, item->text.len, session->failed);
    fputc(session->nul ? '\0' : '\n', session->failed);
    fflush(session->failed); /* it is there, whatever becomes of this process */
}

/* ---- lines ---- */

static void print_each_json(const struct each_session *session, const struct each_end *end,
                            const struct each_how *how)
{
    BUF_AUTO struct buf line = buf_make(LINE_MAX_BYTES), problem = buf_make(TEXT_SHOWN);
    const struct each_item *item = end->item;
    buf_add_char(&line, '{');
    if (item) {
        json_add_i64(&line, "item", (int64_t)item->number);
        json_add_text(&line, "key", item->key);
    }
    json_add_text(&line, "result", slice_of(results[end->result]));
    if (how->attempts > 0) {
        json_add_i64(&line, "exit_code", how->code);
        json_add_known_i64(&line, "http_code", how->http_status);
        json_add_i64(&line, "attempts", how->attempts);
        json_add_time(&line, "started_at", end->started_at);
        json_add_i64(&line, "took_ms", end->took_us / CLOCK_US_PER_MS);
    }
    if (how->timed_out)
        jobs_add_timeout(&session->options, &problem);
    if (how->timed_out || how->problem || end->problem.len > 0)
        json_add_text(&line, "problem",
                      how->timed_out ? buf_slice(&problem)
                      : how->problem ? slice_of(how->problem)
                                     : end->problem);
    buf_add_str(&line, "}\n");
    if (buf_ok(&line))
        printer_add(session->printer, CHILD_OUTPUT, buf_slice(&line));
}

/* Its status, and the beginning of what it says. */
static void add_each_response(const struct each_how *how, struct buf *line)
{
    buf_printf(line, "HTTP status %d", how->http_status);
    struct slice said = slice_trim(how->said);
    if (said.len == 0)
        return;
    buf_add_str(line, ": ");
    print_escaped(line, said);
}

static void add_failure(const struct each_session *session, const struct each_how *how,
                        struct buf *line)
{
    if (how->problem)
        buf_add_str(line, how->problem);
    else if (how->timed_out)
        jobs_add_timeout(&session->options, line);
    else if (how->http_status > 0)
        add_each_response(how, line);
    else if (how->signal > 0)
        buf_printf(line, "ended by signal %d", how->signal);
    else
        buf_printf(line, "exit code %d", how->code);
    if (how->attempts > 1)
        buf_printf(line, " after %lld attempts", (long long)how->attempts);
    if (how->is_out_of_budget)
        buf_add_str(line, "; not tried again: too many items fail");
}

/* The key of an item was used for another command line, or request. */
static void add_clash(const struct each_session *session, enum jobs_clash clash, struct buf *line)
{
    static const char *const texts[] = {
        [JOBS_IN_USE] = "the key is in use for another %s: of another item, or another run",
        [JOBS_IN_DOUBT] = "may have been done, with another %s: repeat that one, or settle it",
        [JOBS_DONE] = "ended before, with another %s (--payload ignore skips it without a word)",
    };
    buf_printf(line, texts[clash], session->send ? "request" : "command line");
}

static void add_reason(const struct each_session *session, const struct each_end *end,
                       const struct each_how *how, struct buf *line)
{
    if (end->result == EACH_CHANGED)
        add_clash(session, end->own ? how->clash : JOBS_DONE, line);
    else if (end->result == EACH_DOUBT)
        buf_add_str(line, session->options.job.unknown == RECORD_UNKNOWN_RETRY
                              ? "may have been done; the next run repeats it under its key"
                              : "may have been done, and is not repeated before somebody says "
                                "whether it was");
    else if (!end->own || how->attempts == 0)
        buf_add_str(line, "failed for good in an earlier run (--final)");
    else
        add_failure(session, how, line);
}

/* What is wrong with an item. Of those that need no look one by one only the first are listed. */
static void print_complaint(struct each_session *session, const struct each_end *end,
                            const struct each_how *how)
{
    BUF_AUTO struct buf line = buf_make(LINE_MAX_BYTES);
    bool all = end->result == EACH_FAILED || end->result == EACH_DOUBT;
    if (session->said[end->result]++ >= COMPLAINTS_MOST && !all)
        return;
    buf_add_str(&line, "pawl: ");
    if (end->item) {
        buf_printf(&line, "item %llu (key ", (unsigned long long)end->item->number);
        print_escaped(&line, end->item->key);
        if (end->result == EACH_DOUBT && how->token > 0)
            buf_printf(&line, ", token %lld", (long long)how->token);
        buf_add_str(&line, "): ");
        add_reason(session, end, how, &line);
    } else {
        print_escaped(&line, end->problem);
    }
    buf_add_char(&line, '\n');
    if (buf_ok(&line))
        printer_add(session->printer, CHILD_ERROR, buf_slice(&line));
}

/* --dry-run: what would become of it. */
static void print_plan(const struct each_session *session, const struct each_end *end)
{
    BUF_AUTO struct buf line = buf_make(LINE_MAX_BYTES);
    buf_printf(&line, "%s\t", end->result == EACH_LEFT ? "run" : results[end->result]);
    print_escaped(&line, end->item->key);
    buf_add_char(&line, '\t');
    add_each_command(session, end->item, &line);
    buf_add_char(&line, '\n');
    if (buf_ok(&line))
        printer_add(session->printer, CHILD_OUTPUT, buf_slice(&line));
}

static bool is_complained_of(const struct each_session *session, const struct each_end *end)
{
    bool wrong = end->result >= EACH_FAILED && end->result <= EACH_BAD;
    return wrong && !session->json && (!session->is_dry || !end->item);
}

void each_report(void *argument, const struct each_end *end)
{
    struct each_session *session = argument;
    struct each_how how = {0};
    if (end->own)
        session->how(end, &how);
    if (session->joblog && how.attempts > 0)
        write_joblog(session, end, &how);
    if (session->failed && end->result == EACH_FAILED)
        write_failed(session, end->item);
    if (session->json)
        print_each_json(session, end, &how);
    else if (session->is_dry && end->item)
        print_plan(session, end);
    if (is_complained_of(session, end))
        print_complaint(session, end, &how);
}

bool each_report_ask_room(void *argument, struct parker *parker)
{
    struct each_session *session = argument;
    session->waiter.parker = parker;
    return printer_ask_room(session->printer, &session->waiter);
}

void each_report_waits(void *argument, size_t n)
{
    struct each_session *session = argument;
    BUF_AUTO struct buf line = buf_make(LINE_MAX_BYTES);
    if (session->has_waited || session->json || session->silent)
        return;
    session->has_waited = true;
    buf_printf(&line,
               "pawl: waiting for %zu item%s in progress elsewhere; of a pawl that has died, it is "
               "15 s at most\n",
               n, n == 1 ? "" : "s");
    printer_add(session->printer, CHILD_ERROR, buf_slice(&line));
}

/* ---- all of them ---- */

static uint64_t count_ended(const struct each *each)
{
    uint64_t n = 0;
    for (size_t i = 0; i < EACH_RESULTS; i++)
        n += i == EACH_LEFT ? 0 : each->counts[i];
    return n;
}

/* How many there are, as far as the part of the input that was read says it. */
static uint64_t estimate_all(const struct each_session *session)
{
    const struct each *each = &session->each;
    if (each->input_ended || session->input_size == 0 || each->bytes_read == 0)
        return each->read;
    double part = (double)each->bytes_read / (double)session->input_size;
    return part >= 1 ? each->read : (uint64_t)((double)each->read / part);
}

void each_show_progress(struct each_session *session)
{
    char line[PRINTER_STATUS_MAX], bar[BAR_WIDTH + 1];
    const struct each *each = &session->each;
    double seconds = (double)(clock_boot_us() - session->started_at) / (double)CLOCK_US_PER_S;
    uint64_t n = count_ended(each), all = estimate_all(session);
    uint64_t worked = n - each->counts[EACH_SKIPPED];
    double rate = seconds > 0 ? (double)worked / seconds : 0;
    double left = rate > 0 && all > n ? (double)(all - n) / rate : 0;
    size_t full = all > 0 && n <= all ? (size_t)(BAR_WIDTH * n / all) : 0;
    for (size_t i = 0; i < BAR_WIDTH; i++)
        bar[i] = i < full ? '=' : i == full ? '>' : ' ';
    bar[BAR_WIDTH] = '\0';
    int len =
        snprintf(line, sizeof line, "[%s] %llu of %s%llu, %llu failed, %.0f/s, ETA %d:%02d:%02d",
                 bar, (unsigned long long)n, each->input_ended ? "" : "~", (unsigned long long)all,
                 (unsigned long long)each->counts[EACH_FAILED], rate, (int)(left / 3600),
                 (int)(left / 60) % 60, (int)left % 60);
    if (len > 0)
        printer_show_status(session->printer, slice_make(line, (size_t)len));
}

static void add_count(struct buf *line, uint64_t n, const char *what)
{
    if (n > 0)
        buf_printf(line, ", %llu %s", (unsigned long long)n, what);
}

static void sum_up_json(struct each_session *session)
{
    BUF_AUTO struct buf line = buf_make(LINE_MAX_BYTES);
    buf_add_char(&line, '{');
    json_add_i64(&line, "items", (int64_t)session->each.read);
    for (size_t i = 0; i < EACH_RESULTS; i++)
        json_add_i64(&line, results[i], (int64_t)session->each.counts[i]);
    buf_add_str(&line, "}\n");
    printer_add(session->printer, CHILD_OUTPUT, buf_slice(&line));
}

static void add_more(const struct each_session *session, enum each_result result, const char *what,
                     struct buf *text)
{
    uint64_t said = session->said[result];
    if (said > COMPLAINTS_MOST)
        buf_printf(text, "pawl: %llu more items %s (--json lists all)\n",
                   (unsigned long long)(said - COMPLAINTS_MOST), what);
}

/* How those are settled that are not repeated before they are: one by one, as other lists and runs
 * have the same rule; a list with a name of its own also at once. */
static void add_each_settling(const struct each_session *session, struct buf *text)
{
    const struct jobs_options *options = &session->options;
    static const struct slice word = {"KEY", 3};
    BUF_AUTO struct buf now = buf_make(TEXT_SHOWN);
    char verb[VERB_MAX];
    const char *how = session->send ? "--status 200" : "--exit-code 0";
    if (session->each.counts[EACH_DOUBT] == 0 || options->job.unknown == RECORD_UNKNOWN_RETRY)
        return;
    buf_add_str(text, "pawl: what may have been done is settled by its token:\n");
    buf_add_str(text, "pawl:   it was:      ");
    (void)snprintf(verb, sizeof verb, "resolve --token TOKEN %s", how);
    jobs_add_keys_command(options, verb, word, text);
    buf_add_str(text, "\npawl:   it was not:  ");
    jobs_add_keys_command(options, "release --token TOKEN", word, text);
    if (options->name) {
        timestamp_print(&now, clock_wall_us());
        buf_printf(text, "\npawl: all that is in doubt under --name %s at once:", options->name);
        buf_add_str(text, "\npawl:   it was:      ");
        (void)snprintf(verb, sizeof verb, "resolve --unknown --before %.*s %s",
                       SLICE_ARG(buf_slice(&now)), how);
        jobs_add_keys_command(options, verb, (struct slice){0}, text);
        buf_add_str(text, "\npawl:   it was not:  ");
        (void)snprintf(verb, sizeof verb, "release --unknown --before %.*s",
                       SLICE_ARG(buf_slice(&now)));
        jobs_add_keys_command(options, verb, (struct slice){0}, text);
    }
    buf_add_char(text, '\n');
}

static void add_unproved(const struct each_session *session, struct buf *text)
{
    uint64_t n = session->each.unproved;
    if (n > 0)
        buf_printf(
            text,
            "pawl: %llu item%s %s run although the store may lack their records (`pawl store "
            "restored`)%s\n",
            (unsigned long long)n, n == 1 ? "" : "s", n == 1 ? "was" : "were",
            session->send ? "" : ": without --unknown probe:CMD nobody is asked");
}

void each_sum_up(struct each_session *session)
{
    BUF_AUTO struct buf line = buf_make(LINE_MAX_BYTES);
    const struct each *each = &session->each;
    if (session->json) {
        sum_up_json(session);
        return;
    }
    add_more(session, EACH_CHANGED, "have keys that were used for something else", &line);
    add_more(session, EACH_BAD, "are malformed", &line);
    add_each_settling(session, &line);
    add_unproved(session, &line);
    buf_printf(&line, "pawl: %llu item%s: %llu %s", (unsigned long long)each->read,
               each->read == 1 ? "" : "s",
               (unsigned long long)each->counts[session->is_dry ? EACH_LEFT : EACH_RUN],
               session->is_dry ? "to be run" : "run");
    add_count(&line, each->counts[EACH_SKIPPED], "done before");
    add_count(&line, each->counts[EACH_FAILED], "failed");
    add_count(&line, each->counts[EACH_DOUBT], "in doubt");
    add_count(&line, each->counts[EACH_CHANGED], "changed");
    add_count(&line, each->counts[EACH_BAD], "malformed");
    if (!session->is_dry)
        add_count(&line, each->counts[EACH_LEFT], "left");
    if (!session->is_dry && !each->all_read)
        buf_add_str(&line, ", the rest of the input not read");
    buf_add_char(&line, '\n');
    if (!session->silent)
        printer_add(session->printer, CHILD_ERROR, buf_slice(&line));
}
