/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"
#include "base/json/json.h"
#include "cli/command/command.h"
#include "cli/lib/input.h"
#include "core/request/key_header.h"
#include "core/request/payload.h"
#include <stdio.h>

/* JSON takes up to 32 times its size to read (base/json/json.h). */
#define HASH_ARENA_MAX (INPUT_MAX * 40)

struct hash_options {
    const char *content_type;
    const char *key;
    const char *file;
    bool canonical;
    bool strict;
    bool json;
};

static int fail_hash(void)
{
    return command_failed("hash", EXIT_UNAVAILABLE, "out of memory");
}

/* A line, or a JSON object whose only member is `name`. */
static int print_result(const struct hash_options *options, const char *name, struct slice text)
{
    BUF_AUTO struct buf line = buf_make(SIZE_MAX);
    if (options->json) {
        buf_add_char(&line, '{');
        json_add_text(&line, name, text);
        buf_add_char(&line, '}');
    } else {
        buf_add_slice(&line, text);
    }
    if (!buf_ok(&line))
        return fail_hash();
    printf("%.*s\n", SLICE_ARG(buf_slice(&line)));
    return EXIT_DONE;
}

static int hash_key(const struct hash_options *options)
{
    ARENA_AUTO struct arena arena = arena_make(INPUT_MAX);
    enum key_syntax syntax = options->strict ? KEY_SYNTAX_STRICT : KEY_SYNTAX_LENIENT;
    struct slice key;
    enum key_header result = key_value_read(slice_of(options->key), syntax, &arena, &key);
    if (result == KEY_HEADER_OK) {
        return print_result(options, "key", key);
    }
    bool unquoted = options->strict && result == KEY_HEADER_MALFORMED && options->key[0] != '"';
    fprintf(stderr, "pawl hash: %s%s\n", key_header_text(result),
            unquoted ? "; the strict syntax requires double quotes" : "");
    return result == KEY_HEADER_NO_MEMORY ? EXIT_UNAVAILABLE : EXIT_BAD_DATA;
}

/* Says why the bytes are not what their type promised; not JSON at all is no body to hash. */
static int judge_payload(const struct payload *payload)
{
    if (payload->malformed_form || payload->malformed_multipart)
        fprintf(stderr, "pawl hash: note: not a well-formed %s: hashing the raw bytes\n",
                payload->malformed_form ? "form" : "multipart body");
    if (payload->problem == JSON_OK)
        return EXIT_DONE;
    if (json_error_is_refusal(payload->problem)) {
        fprintf(stderr, "pawl hash: note: %s at byte %zu: hashing the raw bytes\n",
                json_error_text(payload->problem), payload->problem_offset);
        return EXIT_DONE;
    }
    bool plain = payload->problem == JSON_SYNTAX;
    fprintf(stderr, "pawl hash: not JSON%s%s at byte %zu\n", plain ? "" : ": ",
            plain ? "" : json_error_text(payload->problem), payload->problem_offset);
    return EXIT_BAD_DATA;
}

static int print_canonical(const struct payload *payload)
{
    static const struct payload_selection all = {.mode = PAYLOAD_ALL};
    BUF_AUTO struct buf bytes = buf_make(SIZE_MAX);
    if (!payload_canonical(payload, &all, &bytes))
        return fail_hash();
    if (bytes.len > 0)
        fwrite(bytes.at, 1, bytes.len, stdout);
    return EXIT_DONE;
}

static int print_hash(const struct hash_options *options, const struct payload *payload)
{
    static const struct payload_selection all = {.mode = PAYLOAD_ALL};
    struct digest hash;
    char hex[DIGEST_HEX_SIZE + 1];
    if (!payload_hash(payload, &all, &hash))
        return fail_hash();
    hex_encode(hash.bytes, DIGEST_SIZE, hex);
    return print_result(options, "payload_hash", slice_of(hex));
}

static int print_body_hash(const struct hash_options *options)
{
    BUF_AUTO struct buf body = buf_make(0);
    ARENA_AUTO struct arena arena = arena_make(HASH_ARENA_MAX);
    struct payload payload;
    int code = input_read("hash", options->file, &body);
    if (code != EXIT_DONE)
        return code;
    if (payload_read(&arena,
                     &(struct payload_input){buf_slice(&body), slice_of(options->content_type),
                                             SLICE(""), INPUT_MAX},
                     &payload) != PAYLOAD_OK)
        return fail_hash();
    code = judge_payload(&payload);
    if (code != EXIT_DONE)
        return code;
    return options->canonical ? print_canonical(&payload) : print_hash(options, &payload);
}

/* Whether the options fit together. */
static int review_hash_options(const struct hash_options *options)
{
    if (options->strict && !options->key)
        return command_misused("hash", "--strict needs --key");
    if (options->key && (options->file || options->canonical || options->content_type))
        return command_misused("hash", "--key takes no FILE, --canonical or --content-type");
    if (options->canonical && options->json)
        return command_misused("hash", "--canonical and --json exclude each other");
    return EXIT_DONE;
}

static int run_hash(const struct command *command, struct operands at)
{
    struct hash_options options = {0};
    int code = command_read(command, &at, &options);
    options.file = at.n > 0 ? at.at[0] : NULL;
    if (code == EXIT_DONE)
        code = review_hash_options(&options);
    if (code != EXIT_DONE)
        return code;
    if (!options.content_type)
        options.content_type = "application/json";
    return options.key ? hash_key(&options) : print_body_hash(&options);
}

/* ---- the row ---- */

#define OPTIONS struct hash_options
const struct command command_hash = {
    .name = "hash",
    .summary = "print the payload hash of a body, or the key in a header value",
    .synopsis = "[--canonical] [--content-type TYPE] [--json] [FILE]\n"
                "--key VALUE [--strict] [--json]",
    .about = "Prints the payload hash of a body: SHA-256 of its canonical form, as 64 hex digits. "
             "Reads FILE, or standard input if FILE is missing or `-`; at most 64 MiB.",
    .operand = "FILE",
    .operands = {0, 1},
    .flags = FLAGS(
        SWITCH(canonical, "canonical", 'c', "print the bytes that are hashed"),
        FLAG(content_type, "content-type", 't', "TYPE", ANY,
             "Content-Type of the body (default application/json)"),
        FLAG(key, "key", 'k', "VALUE", ANY,
             "print the key in this value of an Idempotency-Key header"),
        SWITCH(strict, "strict", 0, "accept only a quoted string as a key (`key_syntax: strict`)"),
        FLAG_JSON(json)),
    .exits = {{EXIT_FINAL_ERROR, "cannot write"},
              {EXIT_USAGE, "usage, or FILE cannot be read"},
              {EXIT_BAD_DATA, "not JSON, no key, or too large"}},
    .run = run_hash,
};
