/* SPDX-License-Identifier: Apache-2.0 */
/* The flags that describe a request, with curl's names where they overlap. */
#ifndef PAWL_CLI_REQUEST_H
#define PAWL_CLI_REQUEST_H

#include "cli/command/command.h"
#include "client/request.h"
#include "core/retry/retry.h"

#define REQUEST_ARENA_MAX ((size_t)16 * 1024 * 1024)
#define REQUEST_ANSWERS_MAX ((size_t)16 * 1024)

/* A member of the options of a command. Large: not for the stack. */
struct request_options {
    const char *command;
    struct client_request request; /* once all flags were read: request_options_end */
    struct client_route route;
    struct buf data;
    struct arena arena;       /* of the headers that are read from files */
    const char *headers_file; /* the last one that headers were read from; NULL: none was */
    struct retry_choices choices;
    struct buf answers;   /* the same in lines, as they are stored */
    unsigned key_version; /* 0, 1: UUIDv4; 2: UUIDv7 */
    bool keeps_files; /* of -H @FILE a line named "@" is kept: the file is read when it is sent */
};

/* Before any flag was read. */
#define REQUEST_OPTIONS(of_command, ...)                                                           \
    {                                                                                              \
        .command = of_command, .data = {.max = CLIENT_BODY_MAX},                                   \
        .arena = {.max = REQUEST_ARENA_MAX}, .answers = {.max = REQUEST_ANSWERS_MAX}, __VA_ARGS__  \
    }
void request_options_fini(struct request_options *options);

/* Whether a new key is to say when it was made. */
static inline bool request_dates_key(const struct request_options *options)
{
    return options->key_version == 2;
}

/* Says what is sent, once all flags were read. */
void request_options_end(struct request_options *options, const char *url);

/* The readers of these flags, of a struct request_options. */
int request_take_header(void *request_options, const char *text);
int request_take_data(void *request_options, const char *text);
int request_take_binary(void *request_options, const char *text);
int request_take_json(void *request_options, const char *text);
int request_take_user(void *request_options, const char *text);
int request_take_done(void *request_options, const char *text);
int request_take_later(void *request_options, const char *text);
int request_take_not_done(void *request_options, const char *text);
int request_take_wait_on(void *request_options, const char *text);
int request_take_final_on(void *request_options, const char *text);

/* Flags of a request; `of`: the member of OPTIONS that takes them. */
#define REQUEST_FLAGS(of)                                                                          \
    FLAG(of.request.method, "request", 'X', "METHOD", ANY,                                         \
         "the method (default POST with a body, else GET)"),                                       \
        FLAG_BY(of, request_take_data, "data", 'd', "DATA", LIST(0),                               \
                "the body; @FILE reads it from a file without its line ends, @- from standard "    \
                "input; several are joined with &"),                                               \
        FLAG_BY(of, request_take_binary, "data-binary", 0, "DATA", LIST(0),                        \
                "the same, but a file is sent as it is"),                                          \
        FLAG_BY(of, request_take_json, "json", 0, "DATA", LIST(0),                                 \
                "the same, as application/json; several are sent one behind the other"),           \
        FLAG_BY(of, request_take_header, "header", 'H', "H", LIST(0),                              \
                "a header, `Name: value`; `Name:` without a value removes the header that pawl "   \
                "would send; @FILE: such lines")
#define ACCOUNT_FLAGS(of)                                                                          \
    FLAG_BY(of, request_take_user, "user", 'u', "USER:PASSWORD", ANY, "Basic authentication"),     \
        FLAG(of.request.key, "key", 0, "K", ANY,                                                   \
             "the idempotency key (default: a new UUID, which is printed)")
#define ROUTE_FLAGS(of)                                                                            \
    FLAG(of.ca, "cacert", 0, "FILE", ANY,                                                          \
         "the CA certificates to trust, PEM (default: the system's)"),                             \
        FLAG(of.cert, "cert", 'E', "FILE", ANY, "the client certificate, PEM"),                    \
        FLAG(of.cert_key, "cert-key", 0, "FILE", ANY,                                              \
             "its private key, PEM (default: in the same file; curl calls it --key)"),             \
        SWITCH(of.insecure, "insecure", 'k', "accept any certificate of the server"),              \
        FLAG(of.unix_socket, "unix-socket", 0, "PATH", ANY, "connect to this socket")
#define ANSWER_FLAGS(of)                                                                           \
    FLAG_BY(of, request_take_done, "done", 0, "CODES", ANY,                                        \
            "statuses (409 or 409,410) by which this service says that it was done before"),       \
        FLAG_BY(of, request_take_later, "later", 0, "CODES", ANY,                                  \
                "statuses (423 or 409,423) by which this service says: later"),                    \
        FLAG_BY(of, request_take_not_done, "not-done", 0, "CONDITION", LIST(0),                    \
                "what says that it was not done, and is sent again, whatever the status: "         \
                "`/errors/0/code=THROTTLED` of a JSON body, or `Name: value`; may be repeated")
#define FLAG_KEY_VERSION(of)                                                                       \
    FLAG(                                                                                          \
        of.key_version, "key-version", 0, "V", WORDS("4|7"),                                       \
        "the version of a new UUID; 7 says when it was made, for `key_format: uuid7` (default 4)")

#define FLAG_MAX_TIME(member)                                                                      \
    FLAG(member, "max-time", 'm', "SECONDS", SECONDS, "for one attempt (default 30)")
#define FLAG_REMEMBER(member)                                                                      \
    FLAG(member, "remember", 0, "D", SPAN(1, FOREVER),                                             \
         "how long a success is remembered (default 7d)")

#endif
