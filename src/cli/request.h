/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The request that a command line describes, with curl's options where they overlap: what is sent,
 * under which key, and how its target is reached.
 */
#ifndef PAWL_CLI_REQUEST_H
#define PAWL_CLI_REQUEST_H

#include "cli/command.h"
#include "client/operation.h"
#include "http/origins.h"

/* The first member of the options of a command; zeroed. Large: not for the stack. */
struct request_options {
    const char *command;
    const char *url;
    const char *method; /* NULL: POST with a body, else GET */
    const char *key;    /* NULL: of --header, else a new one */
    const char *ca;
    const char *cert;
    const char *cert_key;
    const char *unix_socket;
    bool insecure;
    bool has_data;
    bool is_json;
    struct buf data;
    struct buf user;        /* of -u: the value of Authorization */
    struct headers headers; /* as given; an empty value takes a default away */

    /* What request_make adds. */
    struct headers sent;
    struct arena arena;
    char minted[CLIENT_KEY_SIZE];
};

void request_options_init(struct request_options *options, const char *command);
void request_options_fini(struct request_options *options);

/* The readers of the flags in REQUEST_PLACES, for command_read. */
int request_take_header(void *options, const char *text);
int request_take_data(void *options, const char *text);
int request_take_binary(void *options, const char *text);
int request_take_json(void *options, const char *text);
int request_take_user(void *options, const char *text);

#define REQUEST_PLACES                                                                             \
    [FLAG_METHOD] = FLAG_PLACE(struct request_options, method),                                    \
    [FLAG_REQUEST_KEY] = FLAG_PLACE(struct request_options, key),                                  \
    [FLAG_CACERT] = FLAG_PLACE(struct request_options, ca),                                        \
    [FLAG_CERT] = FLAG_PLACE(struct request_options, cert),                                        \
    [FLAG_CERT_KEY] = FLAG_PLACE(struct request_options, cert_key),                                \
    [FLAG_UNIX_SOCKET] = FLAG_PLACE(struct request_options, unix_socket),                          \
    [FLAG_INSECURE] = FLAG_PLACE(struct request_options, insecure),                                \
    [FLAG_REQUEST_HEADER] = {FLAG_IS_TAKEN, .take = request_take_header},                          \
    [FLAG_DATA] = {FLAG_IS_TAKEN, .take = request_take_data},                                      \
    [FLAG_DATA_BINARY] = {FLAG_IS_TAKEN, .take = request_take_binary},                             \
    [FLAG_DATA_JSON] = {FLAG_IS_TAKEN, .take = request_take_json},                                 \
    [FLAG_USER] = {FLAG_IS_TAKEN, .take = request_take_user}

/* Puts the operation together, with curl's defaults, and mints its key where none was given. It
 * borrows from the options. An exit code; anything but 0 was explained. */
int request_make(struct request_options *options, struct client_operation *ret_operation);

/* The connections to its URL. An exit code; anything but 0 was explained. */
int request_connect(const struct request_options *options, const struct url *url,
                    struct http_origins **ret_origins);

#endif
