/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl webhook sign`, `verify` and `listen`: core/web/signature.h on a command line. */
#include "base/clock.h"
#include "base/text/base64.h"
#include "cli/command/command.h"
#include "cli/lib/input.h"
#include "core/web/signature.h"
#include "demo/receiver.h"
#include <stdio.h>

#define ARENA_MAX ((size_t)4 * 1024 * 1024)
#define VALUE_MAX ((size_t)64 * 1024)

struct webhook_options {
    const char *command;
    unsigned scheme; /* from 1; 0: standard */
    const char *id;
    int64_t timestamp; /* Unix time in seconds; 0: now */
    bool headers;      /* sign: print all of them */
    const char *listen;
    int status; /* listen: of the response */
    int64_t tolerance_us;
    struct flag_texts secrets;
    struct headers received;

    struct arena arena;
    const struct signature_scheme *as;
    struct signature_secret read[SIGNATURE_SECRETS_MAX];
    struct signature_keys keys;
    struct slice body;
};

/* ---- the command line ---- */

/* ---- secrets ---- */

static int read_webhook_secrets(struct webhook_options *options)
{
    const char *problem;
    for (size_t i = 0; i < options->secrets.n; i++) {
        struct slice text;
        int code =
            input_read_secret(options->command, options->secrets.at[i], &options->arena, &text);
        if (code != EXIT_DONE)
            return code;
        if (!signature_secret_read(options->as, text, &options->arena, &options->read[i], &problem))
            return command_failed(options->command, EXIT_BAD_DATA, "the secret %s", problem);
    }
    options->keys = (struct signature_keys){options->read, options->secrets.n};
    return EXIT_DONE;
}

/* ---- sign ---- */

static void print_header(struct slice name, struct slice value)
{
    printf("%.*s: %.*s\n", SLICE_ARG(name), SLICE_ARG(value));
}

static int sign_webhook(struct webhook_options *options)
{
    const struct signature_scheme *scheme = options->as;
    const struct signature_message message = {slice_of(options->id), options->timestamp,
                                              options->body};
    const char *problem;
    BUF_AUTO struct buf value = buf_make(VALUE_MAX), seconds = buf_make(VALUE_MAX);
    if (!signature_may_sign(scheme, &options->keys, &message, &problem))
        return command_misused(options->command, "%s", problem);
    buf_add_i64(&seconds, message.seconds);
    if (!signature_sign(scheme, &options->keys, &message, &value))
        return command_failed(options->command, EXIT_UNAVAILABLE, "out of memory");
    if (!options->headers) {
        printf("%.*s\n", SLICE_ARG(buf_slice(&value)));
        return EXIT_DONE;
    }
    if (scheme->id.len > 0)
        print_header(scheme->id, message.id);
    if (scheme->timestamp.len > 0 && header_is_token(scheme->timestamp))
        print_header(scheme->timestamp, buf_slice(&seconds));
    print_header(scheme->header, buf_slice(&value));
    return EXIT_DONE;
}

/* ---- verify ---- */

static enum signature_verdict judge_webhook_signature(const struct webhook_options *options,
                                                      const struct signature_keys *keys,
                                                      struct slice body)
{
    const struct signature_received received = {
        &options->received, body, options->timestamp * CLOCK_US_PER_S, options->tolerance_us};
    return signature_verify(options->as, keys, &received);
}

/* The key as another scheme would take it: base64 behind `whsec_`, or the text as it is. */
static bool read_otherwise(struct webhook_options *options, const char *given,
                           struct signature_secret *ret_secret)
{
    BUF_AUTO struct buf bytes = buf_make(VALUE_MAX);
    struct slice text;
    *ret_secret = (struct signature_secret){.key = SLICE("")};
    if (input_read_secret(options->command, given, &options->arena, &text) != EXIT_DONE)
        return false;
    if (options->as->is_standard) {
        ret_secret->key = text;
        return true;
    }
    if (slice_starts(text, SLICE("whsec_")))
        text = slice_skip(text, 6);
    if (!base64_read(text, &bytes) || bytes.len == 0)
        return false;
    ret_secret->key = arena_copy(&options->arena, buf_slice(&bytes));
    return true;
}

/* What often goes wrong, where it would have matched otherwise. */
static const char *hint_of_mismatch(struct webhook_options *options)
{
    struct slice body = options->body;
    if (body.len > 0 && body.at[body.len - 1] == '\n') {
        body.len--;
        if (judge_webhook_signature(options, &options->keys, body) == SIGNATURE_GOOD)
            return "; it matches without the line end behind the body";
    }
    for (size_t i = 0; i < options->secrets.n; i++) {
        struct signature_secret other;
        const struct signature_keys keys = {&other, 1};
        if (read_otherwise(options, options->secrets.at[i], &other) &&
            judge_webhook_signature(options, &keys, options->body) == SIGNATURE_GOOD)
            return options->as->is_standard
                       ? "; it matches with the secret as it is: its sender does not decode it"
                       : "; it matches with the secret decoded from base64";
    }
    return "";
}

static int verify_webhook(struct webhook_options *options)
{
    enum signature_verdict verdict =
        judge_webhook_signature(options, &options->keys, options->body);
    if (verdict == SIGNATURE_GOOD) {
        puts("good");
        return EXIT_DONE;
    }
    const char *tip = verdict == SIGNATURE_MISMATCH ? hint_of_mismatch(options) : "";
    enum exit_code code = verdict == SIGNATURE_NO_MEMORY ? EXIT_UNAVAILABLE : EXIT_FINAL_ERROR;
    return command_failed(options->command, code, "%s: the request %s%s",
                          signature_verdict_name(verdict), signature_verdict_text(verdict), tip);
}

/* ---- listen ---- */

static int listen_for(const struct webhook_options *options)
{
    const struct receiver_config config = {.listen = options->listen,
                                           .scheme = options->as,
                                           .keys = options->keys,
                                           .tolerance_us = options->tolerance_us,
                                           .status = options->status};
    return receiver_run(&config);
}

/* ---- all ---- */

static int act_on_webhook(const struct command *command, struct webhook_options *options)
{
    BUF_AUTO struct buf body = buf_make(0);
    size_t scheme = options->scheme > 0 ? options->scheme - 1 : 0;
    options->as = signature_scheme_find(signature_scheme_name(scheme));
    if (options->timestamp == 0)
        options->timestamp = clock_wall_us() / CLOCK_US_PER_S;
    if (options->secrets.n == 0 && command != &command_webhook_listen)
        return command_misused(options->command, "needs --secret");
    int code = read_webhook_secrets(options);
    if (code == EXIT_DONE && command == &command_webhook_listen)
        return listen_for(options);
    if (code == EXIT_DONE)
        code = input_read(options->command, NULL, &body);
    if (code != EXIT_DONE)
        return code;
    options->body = buf_slice(&body);
    return command == &command_webhook_sign ? sign_webhook(options) : verify_webhook(options);
}

static int run_webhook(const struct command *command, struct operands at)
{
    struct webhook_options options = {.command = command->name,
                                      .listen = "127.0.0.1:9001",
                                      .status = 200,
                                      .tolerance_us = SIGNATURE_TOLERANCE_US,
                                      .arena = arena_make(ARENA_MAX)};
    int code = command_read(command, &at, &options);
    if (code == EXIT_DONE)
        code = act_on_webhook(command, &options);
    arena_fini(&options.arena);
    return code;
}

/* ---- the rows ---- */

#define FLAG_SECRET(member)                                                                        \
    FLAG(member, "secret", 0, "SECRET", LIST(SIGNATURE_SECRETS_MAX),                               \
         "the secret as the sender shows it, or file:PATH; may be repeated while secrets rotate")
#define FLAG_SCHEME(member)                                                                        \
    FLAG(member, "scheme", 0, "NAME", WORDS("standard|stripe|github|slack|shopify"),               \
         "whose signatures they are (default standard: Standard Webhooks)")

const struct command command_webhook = {
    .name = "webhook",
    .summary = "publish events, see their deliveries; sign and verify",
    .synopsis = "SUBCOMMAND [OPTIONS]",
    .about = "Publishes events for the endpoints of `webhooks:`, shows what became of their "
             "deliveries, and sends them again. Signs a webhook as its sender does, and verifies "
             "one as its receiver does.",
    .is_group = true,
};

#define OPTIONS struct webhook_options
const struct command command_webhook_sign = {
    .name = "webhook sign",
    .summary = "print the signature of a body",
    .synopsis = "--secret SECRET... --id ID [--timestamp T] [--scheme NAME] [--headers]",
    .about = "Reads the body from standard input and prints the value of its signature header. "
             "With several secrets it has a signature of each, where the scheme has room for them. "
             "`whsec_` secrets sign with HMAC-SHA256 (v1), `whsk_` ones with Ed25519 (v1a).",
    .flags = FLAGS(
        FLAG_SECRET(secrets),
        FLAG(id, "id", 0, "ID", ANY,
             "the event's id, which `--scheme standard` signs and requires; the others ignore it"),
        FLAG(timestamp, "timestamp", 0, "T", INT(1, 253402300799),
             "the timestamp to sign, in seconds since 1970 (default: now)"),
        FLAG_SCHEME(scheme), SWITCH(headers, "headers", 0, "print whole header lines")),
    .exits = {{EXIT_USAGE, NULL}, {EXIT_BAD_DATA, "the secret cannot be read"}},
    .run = run_webhook,
};

const struct command command_webhook_verify = {
    .name = "webhook verify",
    .summary = "say whether a body was signed with a secret, and if not why",
    .synopsis = "--secret SECRET... -H H... [--timestamp T] [--tolerance D] [--scheme NAME]",
    .about = "Reads the body from standard input, byte for byte as it was received, and prints "
             "`good`; or says what is wrong: a header that is missing, a timestamp beyond the "
             "tolerance, no signature that matches.",
    .flags = FLAGS(FLAG_SECRET(secrets),
                   FLAG(received, "header", 'H', "H", LIST(0),
                        "a header of the request, `Name: value`; repeat it for each"),
                   FLAG(timestamp, "timestamp", 0, "T", INT(1, 253402300799),
                        "verify as of this time, in seconds since 1970 (default: now)"),
                   FLAG(tolerance_us, "tolerance", 0, "D", SPAN(0, FOREVER),
                        "how far the request's timestamp may be from --timestamp, in either "
                        "direction (default 5m)"),
                   FLAG_SCHEME(scheme)),
    .exits = {{EXIT_FINAL_ERROR, "no valid signature, or a timestamp beyond the tolerance"},
              {EXIT_USAGE, NULL},
              {EXIT_BAD_DATA, "the secret cannot be read"}},
    .run = run_webhook,
};

const struct command command_webhook_listen = {
    .name = "webhook listen",
    .summary = "receive webhooks while you develop: verify and print them",
    .synopsis = "[--listen ADDRESS] [--secret SECRET]... [--scheme NAME] [--status CODE]",
    .about = "Receives webhooks on loopback until SIGINT or SIGTERM, and prints each as a line of "
             "JSON. With --secret it verifies them and responds 401 to what is not signed. "
             "--status tries what a sender does when its receiver fails.",
    .flags = FLAGS(
        FLAG(listen, "listen", 0, "ADDRESS", ANY, "loopback HOST:PORT (default 127.0.0.1:9001)"),
        FLAG_SECRET(secrets), FLAG_SCHEME(scheme),
        FLAG(tolerance_us, "tolerance", 0, "D", SPAN(0, FOREVER),
             "how far a request's timestamp may be from now, in either direction (default 5m)"),
        FLAG(status, "status", 0, "CODE", INT(200, 599),
             "the status of the response to what is signed (default 200)")),
    .exits = {{EXIT_FINAL_ERROR, "the address cannot be used"},
              {EXIT_USAGE, NULL},
              {EXIT_BAD_DATA, "the secret cannot be read"}},
    .run = run_webhook,
};
