/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of what lies outside: listen, admin_token, upstream, upstream_tls, store. */
#include "config/option.h"
#include "config/reader.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#define MEANT_MAX 512
#define AN_ADDRESS "HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080"
#define AN_UPSTREAM                                                                                \
    "http://HOST:PORT or https://HOST:PORT without a path, such as http://127.0.0.1:9000"
#define TLS_PARTS "{ca: FILE, cert: FILE, key: FILE, server_name: NAME}"
#define AN_AUTHORITY "HOST or HOST:PORT, such as api.example.com"
#define A_NETWORK "an address or a block of them, such as 10.0.0.0/8 or fd00::/8"
#define A_TOKEN "16 to 512 visible ASCII characters, ${NAME} or file:PATH"
#define PLACE_MAX ((size_t)4096 + 64)
#define TOKEN_LEAST 16
#define TOKEN_MOST 512
#define SECRET_MOST 4096 /* of a line in a file */
static_assert(TOKEN_LEAST <= TOKEN_MOST && TOKEN_MOST <= SECRET_MOST, "a file may hold a token");
#define A_STORE "sqlite:PATH, such as sqlite:./pawl.db, postgres://HOST/DATABASE, or file:PATH"

static void keep_address(struct reader *reader, struct url_authority address, void *field)
{
    address.host = arena_copy(&reader->config->arena, address.host);
    *(struct url_authority *)field = address;
}

/* A value that may be meant. */
struct guess {
    const char *before;
    struct slice text;
    bool (*is_valid)(struct slice whole);
};

/* Complains, and asks about the guess where that is valid. */
static void refuse_address(struct reader *reader, const struct node *node, const char *expected,
                           const struct guess *guess)
{
    BUF_AUTO struct buf meant = buf_make(MEANT_MAX);
    buf_add_str(&meant, guess->before);
    buf_add_slice(&meant, guess->text);
    if (!meant.failed && !guess->is_valid(buf_slice(&meant)))
        buf_clear(&meant);
    reader_expected_near(reader, node, expected, &meant);
}

static bool is_digits(struct slice text)
{
    return slice_digits(text) == text.len;
}

static bool is_listen(struct slice text)
{
    struct url_authority address;
    return url_read_authority(text, -1, &address);
}

/* `8080`, `:8080`, `*:8080`, `http://127.0.0.1:8080/`. */
static void refuse_listen(struct reader *reader, const struct node *node, struct slice text)
{
    if (slice_starts(text, SLICE("http://")))
        text = slice_skip(text, strlen("http://"));
    if (slice_starts(text, SLICE("*:")))
        text = slice_skip(text, 1);
    slice_cut(text, '/', &text);
    bool is_port = text.len > 0 && text.at[0] == ':';
    const char *before = is_port ? "0.0.0.0" : is_digits(text) ? "127.0.0.1:" : "";
    refuse_address(reader, node, AN_ADDRESS, &(struct guess){before, text, is_listen});
}

OPTION_READER(listen)
{
    struct slice text;
    struct url_authority address;
    if (!reader_scalar(reader, node, AN_ADDRESS, &text))
        return;
    if (url_read_authority(text, -1, &address))
        keep_address(reader, address, field);
    else
        refuse_listen(reader, node, text);
}

/* http://HOST[:PORT][/] or https:// of the same. */
static bool upstream_read(struct slice text, struct url *ret_url)
{
    const char *problem;
    return url_read(text, ret_url, &problem) && !ret_url->userinfo.at && !ret_url->query.at &&
           (ret_url->path.len == 0 || slice_eq(ret_url->path, SLICE("/")));
}

static bool is_upstream(struct slice text)
{
    struct url url;
    return upstream_read(text, &url);
}

/* `9000`, `127.0.0.1:9000`; a path is left to the message. */
static void refuse_upstream(struct reader *reader, const struct node *node, struct slice text)
{
    const char *before = is_digits(text) ? "http://127.0.0.1:" : "http://";
    refuse_address(reader, node, AN_UPSTREAM, &(struct guess){before, text, is_upstream});
}

OPTION_READER(upstream)
{
    struct slice text;
    struct url url;
    if (!reader_scalar(reader, node, AN_UPSTREAM, &text))
        return;
    if (!upstream_read(text, &url)) {
        refuse_upstream(reader, node, text);
        return;
    }
    keep_address(reader, url.at, field);
    reader->config->upstream_tls.on = url.tls;
}

static bool is_authority(struct slice text)
{
    struct url_authority address;
    return url_read_authority(text, 80, &address);
}

OPTION_READER(authority)
{
    static const struct reader_text wanted = {is_authority, AN_AUTHORITY, AN_AUTHORITY};
    reader_text(reader, node, &wanted, field);
}

/* ---- trust_forwarded ---- */

static bool is_network(struct slice text)
{
    struct network network;
    return network_read(text, &network);
}

OPTION_READER(networks)
{
    struct slice items[NETWORKS_MAX];
    struct reader_texts texts = {.max = NETWORKS_MAX, .at = items};
    struct networks networks = {0};
    if (!reader_list(reader, node, is_network, A_NETWORK, &texts))
        return;
    for (size_t i = 0; i < texts.n; i++) /* a text that no memory was there for is empty */
        networks.n += network_read(items[i], &networks.at[networks.n]);
    *(struct networks *)field = networks;
}

/* Paths are relative to the file that names them. */
static struct slice path_beside_config(struct reader *reader, struct slice path)
{
    const char *file = reader->errors->path;
    const char *slash = strrchr(file, '/');
    if (path.at[0] == '/' || !slash)
        return arena_copy(&reader->config->arena, path);
    while (slice_starts(path, SLICE("./")))
        path = slice_skip(path, 2);
    struct slice folder = slice_make(file, (size_t)(slash - file) + 1);
    char *at = arena_alloc(&reader->config->arena, folder.len + path.len + 1);
    if (!at)
        return slice_make(NULL, 0);
    memcpy(at, folder.at, folder.len);
    memcpy(at + folder.len, path.at, path.len);
    at[folder.len + path.len] = '\0';
    return slice_make(at, folder.len + path.len);
}

/* ---- upstream_tls ---- */

OPTION_READER(pem_file)
{
    struct config_file *file = field;
    BUF_AUTO struct buf at = buf_make(PLACE_MAX);
    struct slice text;
    if (!reader_scalar(reader, node, "the path of a PEM file", &text))
        return;
    if (text.len == 0) {
        reader_expected(reader, node, "the path of a PEM file");
        return;
    }
    buf_printf(&at, "%s:%zu:%zu", reader->errors->path, node->place.line, node->place.column);
    file->path = path_beside_config(reader, text);
    file->at = arena_copy(&reader->config->arena, buf_slice(&at));
}

OPTION_READER(server_name)
{
    static const char expected[] = "a host name or an address, such as api.example.com";
    static const struct reader_text wanted = {url_is_host, expected, expected};
    reader_text(reader, node, &wanted, field);
}

OPTION_READER(upstream_tls)
{
    const struct config_tls *tls = field;
    if (options_read_members(reader, option, node, TLS_PARTS, field) && reader->errors->n == 0 &&
        !tls->cert.path.at != !tls->key.path.at)
        reader_complain(reader, node,
                        "a certificate and its key go together (expected " TLS_PARTS ")");
}

bool reader_secret(struct reader *reader, const struct node *node, struct slice *text,
                   const char **ret_path)
{
    static const struct slice prefix = {"file:", 5};
    char line[SECRET_MOST + 2];
    *ret_path = NULL;
    if (reader->is_foreign || !slice_starts(*text, prefix) || text->len == prefix.len)
        return true;
    *ret_path = path_beside_config(reader, slice_skip(*text, prefix.len)).at;
    FILE *file = *ret_path ? fopen(*ret_path, "re") : NULL;
    bool read = file && fgets(line, sizeof line, file);
    if (!file)
        reader_complain(reader, node, "%s cannot be read: %s", *ret_path ? *ret_path : "it",
                        strerrordesc_np(errno));
    else if (!read)
        reader_complain(reader, node, "%s is empty", *ret_path);
    if (file)
        fclose(file);
    if (read)
        *text = arena_copy(reader->scratch, slice_make(line, strcspn(line, "\r\n")));
    return read;
}

static bool is_other_store(struct slice text)
{
    return slice_starts(text, SLICE("redis:")) || slice_starts(text, SLICE("rediss:"));
}

/* sqlite:PATH, of what names no scheme. */
static bool is_base_path(struct slice text)
{
    return text.len > strlen("sqlite:") && slice_find(slice_skip(text, strlen("sqlite:")), ':') < 0;
}

OPTION_READER(store)
{
    struct slice text;
    const char *path;
    if (!reader_scalar(reader, node, A_STORE, &text) || !reader_secret(reader, node, &text, &path))
        return;
    reader->config->store_is_postgres =
        slice_starts(text, SLICE("postgres://")) || slice_starts(text, SLICE("postgresql://"));
    if (reader->config->store_is_postgres)
        *(struct slice *)field = arena_copy(&reader->config->arena, text);
    else if (is_other_store(text))
        reader_complain(reader, node, "this store is not in this version (expected " A_STORE ")");
    else if (path && !slice_starts(text, SLICE("sqlite:"))) /* what it says may be a secret */
        reader_complain(reader, node, "the first line of %s is no store (expected " A_STORE ")",
                        path);
    else if (!slice_starts(text, SLICE("sqlite:")) || text.len == strlen("sqlite:"))
        refuse_address(reader, node, A_STORE, &(struct guess){"sqlite:", text, is_base_path});
    else
        *(struct slice *)field = path_beside_config(reader, slice_skip(text, strlen("sqlite:")));
}

static bool is_host_token(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] <= ' ' || text.at[i] > '~')
            return false;
    return text.len >= TOKEN_LEAST && text.len <= TOKEN_MOST;
}

/* By every user of this machine. */
static bool is_readable(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 && found.st_mode & S_IROTH;
}

/* A complaint never shows what was given: it may be the secret. */
OPTION_READER(token)
{
    struct slice text;
    const char *path;
    if (!reader_scalar(reader, node, A_TOKEN, &text) || !reader_secret(reader, node, &text, &path))
        return;
    if (path)
        reader->token_readable = is_readable(path);
    else if (slice_eq(text, node->written)) /* not the environment's */
        reader->token_readable = is_readable(reader->errors->path);
    if (is_host_token(text))
        *(struct slice *)field = arena_copy(&reader->config->arena, text);
    else
        reader_complain(reader, node, "is not a valid token (expected " A_TOKEN ")");
}
