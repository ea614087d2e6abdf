/* SPDX-License-Identifier: Apache-2.0 */
/* The flags that describe a request, with curl's names where they overlap. */
#ifndef PAWL_CLI_REQUEST_H
#define PAWL_CLI_REQUEST_H

#include "cli/command/command.h"
#include "client/request.h"
#include "core/retry/retry.h"

/* A member of the options of a command; zeroed. Large: not for the stack. */
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

void request_options_init(struct request_options *options, const char *command);
void request_options_fini(struct request_options *options);

/* Whether a new key is to say when it was made. */
static inline bool request_dates_key(const struct request_options *options)
{
    return options->key_version == 2;
}

/* Says what is sent, once all flags were read. */
void request_options_end(struct request_options *options, const char *url);

/* The readers of flags in REQUEST_PLACES, of a struct request_options. */
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

/* Where the flags of a request go: `member` of the options of a command, a struct
 * request_options. */
#define REQUEST_PLACES(options, member)                                                            \
    [FLAG_METHOD] = FLAG_PLACE(options, member.request.method),                                    \
    [FLAG_REQUEST_KEY] = FLAG_PLACE(options, member.request.key),                                  \
    [FLAG_KEY_VERSION] = FLAG_PLACE(options, member.key_version),                                  \
    [FLAG_CACERT] = FLAG_PLACE(options, member.route.ca),                                          \
    [FLAG_CERT] = FLAG_PLACE(options, member.route.cert),                                          \
    [FLAG_CERT_KEY] = FLAG_PLACE(options, member.route.cert_key),                                  \
    [FLAG_UNIX_SOCKET] = FLAG_PLACE(options, member.route.unix_socket),                            \
    [FLAG_INSECURE] = FLAG_PLACE(options, member.route.insecure),                                  \
    [FLAG_REQUEST_HEADER] = FLAG_TAKEN(options, member, request_take_header),                      \
    [FLAG_DATA] = FLAG_TAKEN(options, member, request_take_data),                                  \
    [FLAG_DATA_BINARY] = FLAG_TAKEN(options, member, request_take_binary),                         \
    [FLAG_DATA_JSON] = FLAG_TAKEN(options, member, request_take_json),                             \
    [FLAG_USER] = FLAG_TAKEN(options, member, request_take_user),                                  \
    [FLAG_DONE] = FLAG_TAKEN(options, member, request_take_done),                                  \
    [FLAG_LATER] = FLAG_TAKEN(options, member, request_take_later),                                \
    [FLAG_NOT_DONE] = FLAG_TAKEN(options, member, request_take_not_done)

#endif
