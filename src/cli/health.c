/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl health`: what the admin listener of a gateway says of it, as an exit code: for a container
 * that has no other program in it. */
#include "base/arena.h"
#include "base/check.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/command/command.h"
#include "cli/lib/print.h"
#include "fiber/fiber.h"
#include "http/call/origins.h"
#include <stdio.h>
#include <stdlib.h>

#define NAME "health"
#define ADMIN "http://127.0.0.1:8081"
#define TIMEOUT_US (5 * CLOCK_US_PER_S)
#define REQUEST_MAX ((size_t)4096)
#define RESPONSE_MAX ((size_t)16 * 1024)
#define ARENA_MAX ((size_t)1024 * 1024)

struct health_options {
    bool ready;
};

/* Too large for a fiber's stack. */
struct health {
    struct url url; /* with the path of the page */
    struct http_origins *origins;
    struct http_call call; /* closed */
    struct buf request;
    struct buf body;
    const char *problem; /* why there is no response; NULL: there is */
    int status;
};

/* ---- the exchange ---- */

static const char *silence_of(const struct http_call *call, enum http_call_result result)
{
    switch (result) {
    case HTTP_CALL_DONE:
        return NULL;
    case HTTP_CALL_TIMEOUT:
        return "no response within 5 s";
    case HTTP_CALL_NO_MEMORY:
        return "out of memory";
    case HTTP_CALL_BROKEN:
        return "the connection broke off";
    case HTTP_CALL_MALFORMED:
    case HTTP_CALL_TOO_LARGE:
        return "what responds there is not pawl's admin listener";
    case HTTP_CALL_REFUSED:
    case HTTP_CALL_UNREACHABLE:
    case HTTP_CALL_LATE:      /* nothing has such a limit, */
    case HTTP_CALL_FORBIDDEN: /*   no guard */
    case HTTP_CALL_TLS:       /*   and no TLS */
        break;
    }
    CHECK(call->unreached);
    return call->unreached;
}

static enum http_call_result call_listener(struct health *health)
{
    struct http_call *call = &health->call;
    int64_t until = clock_after(clock_boot_us(), TIMEOUT_US);
    struct http_call_limits limits = {until, until, RESPONSE_MAX};
    enum http_call_result result =
        http_origins_find(health->origins, &health->url, until, &call->pool, &call->unreached);
    if (result != HTTP_CALL_DONE)
        return result;
    call->method = SLICE("GET");
    call->headers = buf_slice(&health->request);
    return http_call_run(call, &limits, &health->body);
}

static void ask_in_fiber(void *argument)
{
    struct health *health = argument;
    health->problem = silence_of(&health->call, call_listener(health));
    health->status = health->call.response.status;
    http_call_close(&health->call);
    http_pool_unref(health->call.pool);
}

static void ask_listener(struct health *health)
{
    const struct http_origins_config config = {.max = 1, .fresh_us = CLOCK_NEVER};
    struct headers *headers MEM_AUTO = mem_zalloc(1, sizeof *headers);
    struct loop *loop = loop_new(1);
    health->origins = http_origins_new(&config);
    health->problem = "out of memory";
    if (headers)
        http_origins_write(&health->request,
                           &(struct http_origins_request){SLICE("GET"), &health->url, headers});
    if (headers && loop && health->origins && buf_ok(&health->request) &&
        fiber_spawn(loop, NAME, ask_in_fiber, health)) {
        loop_stop(loop);
        loop_run(loop);
    }
    http_origins_free(health->origins);
    loop_free(loop);
}

/* ---- what it said ---- */

/* The reason in a response of pawl's own form; else all of it. */
static void add_complaint_of_listener(const struct health *health, struct buf *line)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct json *root;
    const struct json *detail = NULL;
    if (!json_parse(&arena, buf_slice(&health->body), &root, NULL))
        detail = json_at_as(root, SLICE("/detail"), JSON_STRING);
    print_escaped(line, detail ? detail->text : slice_trim(buf_slice(&health->body)));
}

static int say_health(const struct health *health)
{
    BUF_AUTO struct buf line = buf_make(RESPONSE_MAX * 4);
    if (!health->problem && health->status == 200)
        return EXIT_DONE;
    buf_add_str(&line, "http://");
    url_write_authority(&line, &health->url);
    buf_add_slice(&line, health->url.path);
    buf_add_str(&line, ": ");
    if (health->problem) {
        buf_add_str(&line, health->problem);
    } else {
        buf_printf(&line, "%d, ", health->status);
        add_complaint_of_listener(health, &line);
    }
    return command_failed(NAME, EXIT_FINAL_ERROR, "%.*s", SLICE_ARG(buf_slice(&line)));
}

/* ---- all of it ---- */

static int read_address(const char *text, bool ready, struct url *ret_url)
{
    const char *problem = NULL;
    if (!url_read(slice_of(text), ret_url, &problem))
        return command_misused(NAME, "the URL `%s` %s", text, problem);
    bool bare = ret_url->path.len == 0 || slice_eq(ret_url->path, SLICE("/"));
    if (ret_url->tls || ret_url->userinfo.at || ret_url->query.at || !bare)
        return command_misused(NAME, "`%s` is not the URL of an admin listener, such as " ADMIN,
                               text);
    ret_url->path = ready ? SLICE("/readyz") : SLICE("/livez");
    return EXIT_DONE;
}

static int run_health(const struct command *command, struct operands at)
{
    struct health_options options = {0};
    int code = command_read(command, &at, &options);
    if (code != EXIT_DONE)
        return code;
    const char *named = getenv("PAWL_ADMIN");
    struct health *health MEM_AUTO = mem_zalloc(1, sizeof *health);
    if (!health)
        return command_failed(NAME, EXIT_FINAL_ERROR, "out of memory");
    code = read_address(at.n > 0 ? at.at[0] : named ? named : ADMIN, options.ready, &health->url);
    if (code != EXIT_DONE)
        return code;
    health->request = buf_make(REQUEST_MAX);
    health->body = buf_make(RESPONSE_MAX);
    ask_listener(health);
    code = say_health(health);
    buf_fini(&health->request);
    buf_fini(&health->body);
    return code;
}

/* ---- the row ---- */

#define OPTIONS struct health_options
const struct command command_health = {
    .name = "health",
    .summary = "say by the exit code whether a gateway lives, or is ready",
    .synopsis = "[--ready] [URL]",
    .about = "Asks the admin listener of a gateway whether its process is alive, within 5 s, and "
             "with --ready whether it should get traffic, and says why not. It is for the "
             "HEALTHCHECK of a container. URL is where the listener is (`admin:` of the config): "
             "http://HOST:PORT; by default it is $PAWL_ADMIN, or " ADMIN ".",
    .operand = "URL",
    .operands = {0, 1},
    .flags = FLAGS(SWITCH(ready, "ready", 0, "ask whether it is ready, in place of alive")),
    .exits = {{EXIT_FINAL_ERROR, "it is not, or nothing responds there"}, {EXIT_USAGE, NULL}},
    .run = run_health,
};
