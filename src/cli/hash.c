/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"
#include "cli/command.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/print.h"
#include "core/errors.h"
#include "core/key_header.h"
#include "core/payload.h"

/* JSON takes up to 32 times its size to read (base/json.h). */
#define HASH_ARENA_MAX (INPUT_MAX * 40)

static const char help[] =
    "usage: pawl hash [--canonical] [--content-type TYPE] [FILE]\n"
    "       pawl hash --key VALUE [--strict]\n\n"
    "Prints the payload hash of a body: SHA-256 of its canonical form, 64 hex digits. Reads\n"
    "standard input without FILE, or where it is `-`; at most 64 MiB.\n\n"
    "  -c, --canonical          print exactly the bytes that are hashed, and nothing more\n"
    "  -t, --content-type TYPE  as the request would say (default application/json)\n"
    "  -k, --key VALUE          print the key that this value of Idempotency-Key names\n"
    "      --strict             only a quoted string is a key (`key_syntax: strict`)\n"
    "  -h, --help               this text\n\n"
    "Where the raw bytes count though the type is JSON (a member name twice, a lone surrogate, a\n"
    "number beyond bounds, nesting too deep), a note on stderr says so.\n\n"
    "exit codes: 0 done, 2 usage, 65 not JSON, too large, or not a key\n";

struct hash_options {
    const char *content_type;
    const char *key;
    const char *file;
    bool canonical;
    bool strict;
};

static int hash_key(const struct hash_options *options)
{
    ARENA_AUTO struct arena arena = arena_make(INPUT_MAX);
    enum key_syntax syntax = options->strict ? KEY_SYNTAX_STRICT : KEY_SYNTAX_LENIENT;
    struct slice key;
    enum key_header result = key_value_read(slice_of(options->key), syntax, &arena, &key);
    if (result == KEY_HEADER_OK) {
        printf("%.*s\n", SLICE_ARG(key));
        return EXIT_DONE;
    }
    bool unquoted = options->strict && result == KEY_HEADER_MALFORMED && options->key[0] != '"';
    fprintf(stderr, "pawl hash: %s%s\n", key_header_text(result),
            unquoted ? " Strict syntax wants it in double quotes." : "");
    return result == KEY_HEADER_NO_MEMORY ? EXIT_UNAVAILABLE : EXIT_BAD_DATA;
}

/* Says why the bytes are not what their type promised; not JSON at all is no body to hash. */
static int judge(const struct payload *payload)
{
    if (payload->malformed_form || payload->malformed_multipart)
        fprintf(stderr, "pawl hash: note: not a well-formed %s: the raw bytes count\n",
                payload->malformed_form ? "form" : "multipart body");
    if (payload->problem == JSON_OK)
        return EXIT_DONE;
    if (json_error_is_refusal(payload->problem)) {
        fprintf(stderr, "pawl hash: note: %s at byte %zu: the raw bytes count\n",
                json_error_text(payload->problem), payload->problem_offset);
        return EXIT_DONE;
    }
    bool plain = payload->problem == JSON_SYNTAX;
    fprintf(stderr, "pawl hash: not JSON%s%s at byte %zu\n", plain ? "" : ": ",
            plain ? "" : json_error_text(payload->problem), payload->problem_offset);
    return EXIT_BAD_DATA;
}

static int no_memory(void)
{
    fputs("pawl hash: out of memory\n", stderr);
    return EXIT_UNAVAILABLE;
}

static int print_canonical(const struct payload *payload)
{
    static const struct payload_selection all = {.mode = PAYLOAD_ALL};
    BUF_AUTO struct buf bytes = buf_make(SIZE_MAX);
    if (!payload_canonical(payload, &all, &bytes))
        return no_memory();
    if (bytes.len > 0)
        fwrite(bytes.at, 1, bytes.len, stdout);
    return EXIT_DONE;
}

static int print_hash(const struct payload *payload)
{
    static const struct payload_selection all = {.mode = PAYLOAD_ALL};
    struct digest hash;
    char hex[DIGEST_HEX_SIZE + 1];
    if (!payload_hash(payload, &all, &hash))
        return no_memory();
    hex_encode(hash.bytes, DIGEST_SIZE, hex);
    puts(hex);
    return EXIT_DONE;
}

static int hash_body(const struct hash_options *options)
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
        return no_memory();
    code = judge(&payload);
    if (code != EXIT_DONE)
        return code;
    return options->canonical ? print_canonical(&payload) : print_hash(&payload);
}

/* Whether what was asked for fits together. */
static int review(const struct hash_options *options)
{
    if (options->strict && !options->key)
        return command_misused("hash", "--strict goes with --key");
    if (options->key && (options->file || options->canonical || options->content_type))
        return command_misused("hash", "--key reads no body: no FILE, no --canonical, no type");
    return EXIT_DONE;
}

/* An exit code, or -1: help was printed. */
static int parse(int argc, char **argv, struct hash_options *options)
{
    static const struct option longs[] = {
        {"canonical", no_argument, NULL, 'c'}, {"content-type", required_argument, NULL, 't'},
        {"key", required_argument, NULL, 'k'}, {"strict", no_argument, NULL, 's'},
        {"help", no_argument, NULL, 'h'},      {NULL, 0, NULL, 0}};
    int c;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":ct:k:h", longs, NULL)) != -1) {
        switch (c) {
        case 'c':
            options->canonical = true;
            break;
        case 't':
            options->content_type = optarg;
            break;
        case 'k':
            options->key = optarg;
            break;
        case 's':
            options->strict = true;
            break;
        case 'h':
            fputs(help, stdout);
            return -1;
        default:
            return options_refused("hash", longs, c, argv);
        }
    }
    if (argc - optind > 1)
        return command_misused("hash", "takes one FILE, not %d", argc - optind);
    options->file = argv[optind];
    return review(options);
}

int command_hash(int argc, char **argv)
{
    struct hash_options options = {0};
    int code = parse(argc, argv, &options);
    if (code != EXIT_DONE)
        return code < 0 ? print_flush("hash", EXIT_DONE) : code;
    if (!options.content_type)
        options.content_type = "application/json";
    return print_flush("hash", options.key ? hash_key(&options) : hash_body(&options));
}
