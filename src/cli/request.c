/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/request.h"

#include "base/ascii.h"
#include "base/base64.h"
#include "base/percent.h"
#include "cli/input.h"

#define ARENA_MAX (INPUT_MAX * 41) /* client_name_record */
#define USER_MAX ((size_t)8 * 1024)
#define FRESH_US (INT64_C(30) * CLOCK_US_PER_S)

void request_options_init(struct request_options *options, const char *command)
{
    options->command = command;
    options->data = buf_make(INPUT_MAX);
    options->user = buf_make(USER_MAX);
    options->arena = arena_make(ARENA_MAX);
}

void request_options_fini(struct request_options *options)
{
    buf_fini(&options->data);
    buf_fini(&options->user);
    arena_fini(&options->arena);
}

/* ---- flags ---- */

int request_take_header(void *to, const char *text)
{
    struct request_options *options = to;
    struct slice name, value = slice_cut(slice_of(text), ':', &name);
    if (!value.at || !header_is_valid(name, value))
        return command_misused(options->command, "--header wants `Name: value`");
    if (!headers_add(&options->headers, name, slice_trim(value)))
        return command_misused(options->command, "too many headers");
    return EXIT_DONE;
}

/* As curl does with a text file: line ends and NUL are left out. */
static void add_text(struct buf *data, struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] != '\r' && text.at[i] != '\n' && text.at[i] != '\0')
            buf_add_char(data, text.at[i]);
}

/* TEXT, or with an @ a file; several are joined by `between`. */
static int add_data(struct request_options *options, const char *text, const char *between,
                    void (*add)(struct buf *data, struct slice text))
{
    BUF_AUTO struct buf file = buf_make(0);
    bool is_file = text[0] == '@';
    int code = is_file ? input_read(options->command, text + 1, &file) : EXIT_DONE;
    if (code != EXIT_DONE)
        return code;
    if (options->has_data)
        buf_add_str(&options->data, between);
    options->has_data = true;
    if (is_file)
        add(&options->data, buf_slice(&file));
    else
        buf_add_str(&options->data, text);
    if (buf_ok(&options->data))
        return EXIT_DONE;
    return command_failed(options->command, EXIT_BAD_DATA, "the body is larger than %zu MiB",
                          INPUT_MAX / (1024 * 1024));
}

int request_take_data(void *to, const char *text)
{
    return add_data(to, text, "&", add_text);
}

int request_take_binary(void *to, const char *text)
{
    return add_data(to, text, "&", buf_add_slice);
}

int request_take_json(void *to, const char *text)
{
    struct request_options *options = to;
    options->is_json = true;
    return add_data(to, text, "", buf_add_slice);
}

static void authorize(struct request_options *options, struct slice user)
{
    buf_clear(&options->user);
    buf_add_str(&options->user, "Basic ");
    base64_add(&options->user, user);
}

int request_take_user(void *to, const char *text)
{
    struct request_options *options = to;
    if (slice_find(slice_of(text), ':') < 0)
        return command_misused(options->command, "--user wants USER:PASSWORD");
    authorize(options, slice_of(text));
    return EXIT_DONE;
}

/* ---- what is sent ---- */

/* Of the connection, of the framing, or pawl's own: nobody else sets them. */
static bool is_reserved(const struct headers *headers, struct slice name)
{
    static const struct slice own[] = {
        {"Content-Length", 14}, {"Idempotency-Token", 17}, {"Idempotency-Attempt", 19}};
    return SLICE_AMONG(name, own) || headers_is_hop_by_hop(headers, name);
}

static bool add_default(struct request_options *options, struct slice name, struct slice value)
{
    return headers_find(&options->headers, name) || headers_add(&options->sent, name, value);
}

static bool add_defaults(struct request_options *options)
{
    bool done = add_default(options, SLICE("User-Agent"), SLICE("pawl/" PAWL_VERSION)) &&
                add_default(options, SLICE("Accept"),
                            options->is_json ? SLICE("application/json") : SLICE("*/*"));
    if (options->has_data)
        done = done && add_default(options, SLICE("Content-Type"),
                                   options->is_json ? SLICE("application/json")
                                                    : SLICE("application/x-www-form-urlencoded"));
    if (options->user.len > 0)
        done = done && add_default(options, SLICE("Authorization"), buf_slice(&options->user));
    return done;
}

static int gather_headers(struct request_options *options)
{
    bool fits = add_defaults(options);
    for (size_t i = 0; i < options->headers.n; i++) {
        const struct header *given = &options->headers.at[i];
        if (is_reserved(&options->headers, given->name))
            return command_misused(options->command, "--header %.*s: it is set by pawl",
                                   SLICE_ARG(given->name));
        if (given->value.len > 0 && !slice_eq_nocase(given->name, SLICE("Idempotency-Key")))
            fits = fits && headers_add(&options->sent, given->name, given->value);
    }
    bool room = fits && options->sent.n + 2 <= HEADERS_MAX; /* for the key and the attempt */
    return room ? EXIT_DONE : command_misused(options->command, "too many headers");
}

/* ---- the operation ---- */

static int find_key(struct request_options *options, struct slice *ret_key)
{
    static const struct slice name = {"Idempotency-Key", 15};
    if (options->key && headers_find(&options->headers, name))
        return command_misused(options->command,
                               "--key and --header Idempotency-Key exclude each other");
    *ret_key = slice_of(options->key);
    if (!options->key) {
        enum key_header result =
            key_header_read(&options->headers, name, KEY_SYNTAX_LENIENT, &options->arena, ret_key);
        if (result == KEY_HEADER_ABSENT) {
            client_mint_key(options->minted);
            *ret_key = slice_of(options->minted);
        } else if (result != KEY_HEADER_OK) {
            return command_misused(options->command, "%s", key_header_text(result));
        }
    }
    if (client_is_key(*ret_key))
        return EXIT_DONE;
    return command_misused(options->command,
                           "a key has 1 to 255 bytes of printable ASCII, not more");
}

/* `http://user:secret@host/`. */
static int take_userinfo(struct request_options *options, const struct url *url)
{
    if (!url->userinfo.at)
        return EXIT_DONE;
    struct slice user = percent_decode(url->userinfo, false, &options->arena);
    if (!user.at && url->userinfo.len > 0)
        return command_failed(options->command, EXIT_UNAVAILABLE, "out of memory");
    if (options->user.len == 0)
        authorize(options, user);
    return EXIT_DONE;
}

static bool is_method(struct slice method)
{
    for (size_t i = 0; i < method.len; i++)
        if (ascii_is_lower(method.at[i]))
            return false;
    return header_is_token(method);
}

int request_make(struct request_options *options, struct client_operation *ret_operation)
{
    const char *problem;
    *ret_operation = (struct client_operation){
        .method = slice_of(options->method     ? options->method
                           : options->has_data ? "POST"
                                               : "GET"),
        .headers = &options->sent,
        .body = buf_slice(&options->data),
        .has_body = options->has_data || (options->method && strcmp(options->method, "GET") != 0 &&
                                          strcmp(options->method, "HEAD") != 0)};
    if (!url_read(slice_of(options->url), &ret_operation->url, &problem))
        return command_misused(options->command, "the URL %s", problem);
    if (!is_method(ret_operation->method))
        return command_misused(options->command, "a method is a word of capital letters, not `%s`",
                               options->method);
    int code = find_key(options, &ret_operation->key);
    if (code == EXIT_DONE)
        code = take_userinfo(options, &ret_operation->url);
    return code == EXIT_DONE ? gather_headers(options) : code;
}

/* ---- connections ---- */

static int read_tls(const struct request_options *options, struct tls_client **ret_tls)
{
    struct tls_config config = {.ca = options->ca,
                                .cert = options->cert,
                                .key = options->cert_key ? options->cert_key : options->cert,
                                .insecure = options->insecure};
    struct tls_complaint complaint;
    if (options->cert_key && !options->cert)
        return command_misused(options->command, "--cert-key needs --cert");
    *ret_tls = tls_client_new(&config, &complaint);
    if (*ret_tls)
        return EXIT_DONE;
    if (!complaint.file)
        return command_failed(options->command, EXIT_UNAVAILABLE, "out of memory");
    return command_failed(options->command, EXIT_USAGE, "%s: %s", complaint.file, complaint.text);
}

int request_connect(const struct request_options *options, const struct url *url,
                    struct http_origins **ret_origins)
{
    struct tls_client *tls = NULL;
    int code = url->tls ? read_tls(options, &tls) : EXIT_DONE;
    if (code != EXIT_DONE)
        return code;
    struct http_origins_config config = {.tls = tls,
                                         .unix_socket = options->unix_socket,
                                         .max = 1,
                                         .max_idle = 0, /* a kept one may have died unused */
                                         .fresh_us = FRESH_US};
    *ret_origins = http_origins_new(&config);
    tls_client_unref(tls);
    return *ret_origins ? EXIT_DONE
                        : command_failed(options->command, EXIT_UNAVAILABLE, "out of memory");
}
