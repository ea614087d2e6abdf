/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floor: what a first attempt costs when nothing is done for it but what cannot be left out.
 * Beside pawl's row it says how much of pawl's work the promise itself takes.
 *
 *      request --> claim --synced--> forward --> response --synced--> told to the client
 *
 * As pawl has it: one loop a core, each with its own listener (SO_REUSEPORT), epoll and kept
 * connections to the upstream; one thread for the store, which makes one transaction and one sync
 * of all that is queued; SQLite with a write-ahead log, synchronous=FULL, checkpoints at 1000
 * pages, and pawl's own VFS, which writes the log of a batch in one call. A key that is claimed is
 * refused (409), one that has its response is told it again, the same bytes, and both outlive `kill
 * -9`.
 *
 * The table is a log: a claim is a row with a key, a response is another row with the same key.
 * Rows are appended and never change, so a batch dirties the last pages of one tree. What a key
 * names stands in memory alone (24 bytes a place, half of them free), read from the table at the
 * start: a million keys take 50 MiB and more.
 *
 * Left out, and pawl has it: other requests with a known key (payloads are not compared), tenants
 * and rules, what became of an attempt that ended without a response (its key is refused for ever),
 * expiry and sweeping, several processes at one store, a cache of responses, duplicates that wait,
 * heads written anew (bytes go on as they came), bodies without a length or beyond 8 KiB, pipelined
 * requests, timeouts and limits, TLS, a log, metrics, reload, drain. What the store does not do
 * ends the process.
 *
 *   floor PORT UPSTREAM FILE     both ports on 127.0.0.1
 */
#include "base/check.h"
#include "base/crypto/digest.h"
#include "base/mem.h"
#include "base/thread.h"
#include "store/sqlite/vfs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOOPS_MAX 64
#define EVENTS_MAX 64
#define MESSAGE_MAX ((size_t)8 * 1024)
#define KEY_SIZE 16 /* of its SHA-256 */
#define PLACES_FIRST ((size_t)1 << 16)

struct loop;

/* What epoll watches; first in its owner: the two are cast into each other. Its owner is freed by
 * `ready` alone, as another event of the same turn may be its. */
struct source {
    void (*ready)(struct source *source);
    struct loop *loop;
    int fd;
};

struct message {
    char bytes[MESSAGE_MAX];
    size_t have;
};

enum step { STEP_CLAIM, STEP_FORWARD, STEP_STORE, STEP_RESPOND, STEP_REFUSE };

struct client {
    struct source source;
    bool busy;           /* its loop's alone; the rest has one owner at a time, loop or store */
    enum step step;      /* of a busy one */
    struct client *next; /* in a queue */
    unsigned char key[KEY_SIZE];
    struct message request, response;
};

/* A connection to the upstream. */
struct upstream {
    struct source source;
    struct client *client; /* whose response is awaited; NULL: idle */
    struct upstream *next; /* of those that are idle */
};

struct queue {
    struct client *first, **end;
};

struct loop {
    struct source listener, inbox;
    int epoll;
    struct upstream *idle;
    struct queue to_store; /* of this turn */
    struct mutex mutex;
    struct queue ended; /* mutex; by the store's thread */
};

/* What a key names. */
struct place {
    unsigned char key[KEY_SIZE];
    int64_t row; /* of its response; CLAIMED: it has none yet; 0: the place is free */
};
#define CLAIMED (-1)

static struct {
    size_t n_loops;
    struct loop loops[LOOPS_MAX];
    struct sockaddr_in upstream;
    struct mutex mutex;
    struct cond cond;
    struct queue queue; /* mutex */
    /* the store's thread */
    sqlite3 *db;
    sqlite3_stmt *begin, *insert, *select, *commit;
    struct place *places;
    size_t n_places, used;
} floor_of;

static void queue_init(struct queue *queue)
{
    *queue = (struct queue){.end = &queue->first};
}

static void queue_push(struct queue *queue, struct client *client)
{
    client->next = NULL;
    *queue->end = client;
    queue->end = &client->next;
}

/* Moves all of `from` behind what `to` has; true: `to` was empty. */
static bool queue_move(struct queue *to, struct queue *from)
{
    bool was_empty = !to->first;
    if (from->first) {
        *to->end = from->first;
        to->end = from->end;
    }
    queue_init(from);
    return was_empty;
}

/* ---- the store ---- */

/* Where the key is, or where it would be. */
static struct place *find_place(const unsigned char *key)
{
    size_t at;
    memcpy(&at, key, sizeof at);
    for (at &= floor_of.n_places - 1; floor_of.places[at].row != 0;
         at = (at + 1) & (floor_of.n_places - 1))
        if (memcmp(floor_of.places[at].key, key, KEY_SIZE) == 0)
            break;
    return &floor_of.places[at];
}

static void grow_places(size_t n)
{
    struct place *old = floor_of.places;
    size_t n_old = floor_of.n_places;
    floor_of.places = mem_zalloc(n, sizeof *old);
    floor_of.n_places = n;
    CHECK(floor_of.places);
    for (size_t i = 0; i < n_old; i++)
        if (old[i].row != 0)
            *find_place(old[i].key) = old[i];
    mem_free(old);
}

static void name_row(const unsigned char *key, int64_t row)
{
    struct place *place = find_place(key);
    if (place->row == 0)
        floor_of.used++;
    memcpy(place->key, key, KEY_SIZE);
    place->row = row;
    if (2 * floor_of.used > floor_of.n_places)
        grow_places(2 * floor_of.n_places);
}

static void run_statement(sqlite3_stmt *statement)
{
    CHECK(sqlite3_step(statement) == SQLITE_DONE);
    sqlite3_reset(statement);
}

/* A row: of a claim without, of a response with its bytes. */
static void append_row(const struct client *client, const struct message *response)
{
    sqlite3_bind_blob(floor_of.insert, 1, client->key, KEY_SIZE, SQLITE_STATIC);
    sqlite3_bind_blob(floor_of.insert, 2, response ? response->bytes : NULL,
                      response ? (int)response->have : 0, SQLITE_STATIC);
    run_statement(floor_of.insert);
    name_row(client->key, response ? sqlite3_last_insert_rowid(floor_of.db) : CLAIMED);
}

static void read_response(struct message *ret_response, int64_t row)
{
    sqlite3_bind_int64(floor_of.select, 1, row);
    CHECK(sqlite3_step(floor_of.select) == SQLITE_ROW);
    ret_response->have = (size_t)sqlite3_column_bytes(floor_of.select, 0);
    CHECK(ret_response->have <= MESSAGE_MAX);
    memcpy(ret_response->bytes, sqlite3_column_blob(floor_of.select, 0), ret_response->have);
    sqlite3_reset(floor_of.select);
}

static void apply_step(struct client *client)
{
    int64_t row = find_place(client->key)->row;
    if (client->step == STEP_STORE) {
        append_row(client, &client->response);
        client->step = STEP_RESPOND;
    } else if (row == 0) {
        append_row(client, NULL);
        client->step = STEP_FORWARD;
    } else if (row != CLAIMED) {
        read_response(&client->response, row);
        client->step = STEP_RESPOND;
    } else {
        client->step = STEP_REFUSE;
    }
}

/* Back to their loops, each woken at most once. */
static void return_clients(struct queue *batch)
{
    static struct queue by_loop[LOOPS_MAX];
    for (size_t i = 0; i < floor_of.n_loops; i++)
        queue_init(&by_loop[i]);
    for (struct client *client = batch->first, *next; client; client = next) {
        next = client->next;
        queue_push(&by_loop[client->source.loop - floor_of.loops], client);
    }
    for (size_t i = 0; i < floor_of.n_loops; i++) {
        struct loop *loop = &floor_of.loops[i];
        if (!by_loop[i].first)
            continue;
        mutex_lock(&loop->mutex);
        bool wakes = queue_move(&loop->ended, &by_loop[i]);
        mutex_unlock(&loop->mutex);
        CHECK(!wakes || eventfd_write(loop->inbox.fd, 1) == 0);
    }
}

static void run_store(void *unused)
{
    struct queue batch;
    queue_init(&batch);
    for ((void)unused;;) {
        mutex_lock(&floor_of.mutex);
        while (!floor_of.queue.first)
            cond_wait(&floor_of.cond, &floor_of.mutex);
        queue_move(&batch, &floor_of.queue);
        mutex_unlock(&floor_of.mutex);
        run_statement(floor_of.begin);
        for (struct client *client = batch.first; client; client = client->next)
            apply_step(client);
        run_statement(floor_of.commit);
        return_clients(&batch);
        queue_init(&batch);
    }
}

static sqlite3_stmt *prepare(const char *sql)
{
    sqlite3_stmt *statement = NULL;
    CHECK(sqlite3_prepare_v2(floor_of.db, sql, -1, &statement, NULL) == SQLITE_OK);
    return statement;
}

static void open_store(const char *path)
{
    static const char setup[] = "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
                                "PRAGMA wal_autocheckpoint=1000; PRAGMA cache_size=-4096;"
                                "CREATE TABLE IF NOT EXISTS log(id INTEGER PRIMARY KEY,"
                                " key BLOB NOT NULL, response BLOB)";
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    CHECK(sqlite3_open_v2(path, &floor_of.db, flags, sqlite_vfs_name()) == SQLITE_OK);
    CHECK(sqlite3_exec(floor_of.db, setup, NULL, NULL, NULL) == SQLITE_OK);
    floor_of.begin = prepare("BEGIN");
    floor_of.insert = prepare("INSERT INTO log(key, response) VALUES(?, ?)");
    floor_of.select = prepare("SELECT response FROM log WHERE id = ?");
    floor_of.commit = prepare("COMMIT");
    grow_places(PLACES_FIRST);
    sqlite3_stmt *all = prepare("SELECT key, iif(response IS NULL, -1, id) FROM log ORDER BY id");
    while (sqlite3_step(all) == SQLITE_ROW)
        name_row(sqlite3_column_blob(all, 0), sqlite3_column_int64(all, 1));
    sqlite3_finalize(all);
}

/* ---- messages ---- */

static bool has_name(const char *line, size_t size, struct slice name)
{
    return size > name.len && line[name.len] == ':' && strncasecmp(line, name.at, name.len) == 0;
}

/* Bytes of the whole message, or 0: its head is not complete. The key, where it has one. */
static size_t parse_message(const struct message *message, struct slice *ret_key)
{
    const char *end = memmem(message->bytes, message->have, "\r\n\r\n", 4);
    size_t body = 0;
    *ret_key = slice_make(NULL, 0);
    for (const char *line = message->bytes, *next; end && line < end; line = next + 2) {
        next = memmem(line, (size_t)(end - line) + 2, "\r\n", 2);
        size_t size = (size_t)(next - line);
        struct slice length = SLICE("Content-Length"), key = SLICE("Idempotency-Key");
        if (has_name(line, size, length))
            body = strtoul(line + length.len + 1, NULL, 10);
        else if (has_name(line, size, key))
            *ret_key = slice_make(line + key.len + 1, size - key.len - 1);
    }
    return end ? (size_t)(end - message->bytes) + 4 + body : 0;
}

/* False: the other end closed, or sent more than there is room for. */
static bool receive_more(int fd, struct message *message)
{
    ssize_t got = recv(fd, message->bytes + message->have, MESSAGE_MAX - message->have, 0);
    if (got > 0)
        message->have += (size_t)got;
    return got > 0 || (got < 0 && errno == EAGAIN);
}

static bool send_all(int fd, const void *bytes, size_t size)
{
    return send(fd, bytes, size, MSG_NOSIGNAL) == (ssize_t)size;
}

/* ---- a loop ---- */

static void watch_source(struct source *source)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = source};
    CHECK(epoll_ctl(source->loop->epoll, EPOLL_CTL_ADD, source->fd, &event) == 0);
}

static void submit_client(struct client *client, enum step step)
{
    client->busy = true;
    client->step = step;
    queue_push(&client->source.loop->to_store, client);
}

static void tell_client(struct client *client, const void *bytes, size_t size)
{
    client->request.have = client->response.have = 0;
    client->busy = false;
    if (!send_all(client->source.fd, bytes, size))
        shutdown(client->source.fd, SHUT_RDWR); /* which makes it ready */
}

static void refuse_client(struct client *client, const char *status)
{
    char text[80];
    int size = snprintf(text, sizeof text, "HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n", status);
    tell_client(client, text, (size_t)size);
}

/* Whoever closes or sends meanwhile is seen once its own request has ended. */
static void client_ready(struct source *source)
{
    struct client *client = (struct client *)source;
    struct slice key;
    if (client->busy)
        return;
    bool open = receive_more(source->fd, &client->request);
    size_t size = parse_message(&client->request, &key);
    if (!open || (size > 0 && (client->request.have > size || key.len == 0))) {
        close(source->fd);
        mem_free(client);
    } else if (size > 0 && client->request.have == size) {
        struct digest digest = digest_of(key);
        memcpy(client->key, digest.bytes, KEY_SIZE);
        submit_client(client, STEP_CLAIM);
    }
}

static void close_upstream(struct upstream *upstream)
{
    struct upstream **at = &upstream->source.loop->idle;
    while (*at && *at != upstream)
        at = &(*at)->next;
    if (*at)
        *at = upstream->next;
    if (upstream->client)
        refuse_client(upstream->client, "502 Bad Gateway");
    close(upstream->source.fd);
    mem_free(upstream);
}

static void upstream_ready(struct source *source)
{
    struct upstream *upstream = (struct upstream *)source;
    struct client *client = upstream->client;
    struct slice key;
    if (!client || !receive_more(source->fd, &client->response)) {
        close_upstream(upstream);
        return;
    }
    size_t size = parse_message(&client->response, &key);
    if (size == 0 || client->response.have < size)
        return;
    upstream->client = NULL;
    upstream->next = source->loop->idle;
    source->loop->idle = upstream;
    submit_client(client, STEP_STORE);
}

/* The one that was used last, or a new one. */
static struct upstream *take_upstream(struct loop *loop)
{
    struct upstream *upstream = loop->idle;
    if (upstream) {
        loop->idle = upstream->next;
        return upstream;
    }
    upstream = mem_zalloc(1, sizeof *upstream);
    CHECK(upstream);
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    upstream->source = (struct source){upstream_ready, loop, fd};
    CHECK(connect(fd, (struct sockaddr *)&floor_of.upstream, sizeof floor_of.upstream) == 0);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    watch_source(&upstream->source);
    return upstream;
}

static void forward_request(struct client *client)
{
    struct upstream *upstream = take_upstream(client->source.loop);
    upstream->client = client;
    /* What did not leave is seen where its response is awaited: the connection is closed. */
    send_all(upstream->source.fd, client->request.bytes, client->request.have);
}

static void listener_ready(struct source *source)
{
    int on = 1, fd = accept4(source->fd, NULL, NULL, SOCK_NONBLOCK);
    if (fd < 0)
        return;
    struct client *client = mem_zalloc(1, sizeof *client);
    CHECK(client);
    client->source = (struct source){client_ready, source->loop, fd};
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    watch_source(&client->source);
}

static void inbox_ready(struct source *source)
{
    struct queue ended;
    eventfd_t n;
    CHECK(eventfd_read(source->fd, &n) == 0);
    queue_init(&ended);
    mutex_lock(&source->loop->mutex);
    queue_move(&ended, &source->loop->ended);
    mutex_unlock(&source->loop->mutex);
    for (struct client *client = ended.first, *next; client; client = next) {
        next = client->next;
        if (client->step == STEP_FORWARD)
            forward_request(client);
        else if (client->step == STEP_RESPOND)
            tell_client(client, client->response.bytes, client->response.have);
        else
            refuse_client(client, "409 Conflict");
    }
}

static void run_loop(void *argument)
{
    struct loop *loop = argument;
    struct epoll_event events[EVENTS_MAX];
    for (;;) {
        int n = epoll_wait(loop->epoll, events, EVENTS_MAX, -1);
        for (int i = 0; i < n; i++) {
            struct source *source = events[i].data.ptr;
            source->ready(source);
        }
        if (!loop->to_store.first)
            continue;
        mutex_lock(&floor_of.mutex);
        bool wakes = queue_move(&floor_of.queue, &loop->to_store);
        mutex_unlock(&floor_of.mutex);
        if (wakes)
            cond_signal(&floor_of.cond);
    }
}

/* ---- the start ---- */

static struct sockaddr_in address_of(const char *port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)strtoul(port, NULL, 10)),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void open_loop(struct loop *loop, const struct sockaddr_in *address)
{
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    CHECK(bind(fd, (const struct sockaddr *)address, sizeof *address) == 0);
    CHECK(listen(fd, 1024) == 0);
    loop->epoll = epoll_create1(0);
    loop->listener = (struct source){listener_ready, loop, fd};
    loop->inbox = (struct source){inbox_ready, loop, eventfd(0, EFD_NONBLOCK)};
    watch_source(&loop->listener);
    watch_source(&loop->inbox);
    mutex_init(&loop->mutex);
    queue_init(&loop->ended);
    queue_init(&loop->to_store);
}

int main(int n_words, char **words)
{
    if (n_words != 4)
        return fprintf(stderr, "usage: floor PORT UPSTREAM FILE\n"), 2;
    struct sockaddr_in address = address_of(words[1]);
    struct thread thread;
    floor_of.upstream = address_of(words[2]);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    floor_of.n_loops = cores < LOOPS_MAX ? (size_t)cores : LOOPS_MAX;
    open_store(words[3]);
    mutex_init(&floor_of.mutex);
    cond_init(&floor_of.cond);
    queue_init(&floor_of.queue);
    for (size_t i = 0; i < floor_of.n_loops; i++)
        open_loop(&floor_of.loops[i], &address);
    for (size_t i = 0; i < floor_of.n_loops; i++)
        CHECK(thread_start(&thread, "floor-loop", run_loop, &floor_of.loops[i]));
    CHECK(thread_start(&thread, "floor-store", run_store, NULL));
    thread_join(&thread);
    return 0;
}
