/* SPDX-License-Identifier: Apache-2.0 */
/* Where this loop has no session that can make room, another is asked to end one of its own, and
 * the newcomer waits a moment. */
#include "http/server_priv.h"

#include "base/check.h"
#include "base/clock.h"
#include <sys/ioctl.h>

#define SLOT_US (20 * CLOCK_US_PER_MS) /* to wait for a slot that another loop makes */
#define STALL_US CLOCK_US_PER_S        /* over which a body is judged */

/* ---- moves ---- */

#define TO(state) (1U << HTTP_SESSION_##state)

static const unsigned moves[] = {
    [HTTP_SESSION_NEW] = TO(IDLE),
    [HTTP_SESSION_IDLE] = TO(READING) | TO(ENDING),
    [HTTP_SESSION_READING] = TO(BUSY) | TO(ENDING),
    [HTTP_SESSION_BUSY] = TO(IDLE) | TO(OWING) | TO(PASSING) | TO(ENDING),
    [HTTP_SESSION_OWING] = TO(BUSY) | TO(ENDING),
    [HTTP_SESSION_PASSING] = TO(BUSY) | TO(ENDING),
    [HTTP_SESSION_ENDING] = TO(LINGERING),
    [HTTP_SESSION_LINGERING] = TO(ENDING),
};

/* Where it waits to make room; NULL: it does not. */
static struct http_queue *queue_of(const struct http_session *session)
{
    static const enum http_queue_kind kinds[] = {[HTTP_SESSION_IDLE] = HTTP_QUEUE_IDLE,
                                                 [HTTP_SESSION_READING] = HTTP_QUEUE_IDLE,
                                                 [HTTP_SESSION_LINGERING] = HTTP_QUEUE_IDLE,
                                                 [HTTP_SESSION_OWING] = HTTP_QUEUE_OWING,
                                                 [HTTP_SESSION_PASSING] = HTTP_QUEUE_PASSING};
    const unsigned can = TO(IDLE) | TO(READING) | TO(LINGERING) | TO(OWING) | TO(PASSING);
    if (!(can >> session->state & 1) || session->leaving)
        return NULL;
    return &session->door->idle.queues[kinds[session->state]];
}

static bool owes_body(const struct http_session *session)
{
    return session->state == HTTP_SESSION_OWING || session->state == HTTP_SESSION_PASSING;
}

static void note_oldest(struct http_queue *queue)
{
    const struct http_session *oldest = queue->oldest;
    int64_t from = !oldest             ? CLOCK_NEVER
                   : owes_body(oldest) ? clock_after(oldest->queued_at, STALL_US)
                                       : oldest->queued_at;
    atomic_store(&queue->from, from);
}

static void put_in(struct http_queue *queue, struct http_session *session)
{
    session->queued_at = clock_boot_us();
    session->queued_got = session->conn.received;
    session->newer = NULL;
    session->older = queue->newest;
    *(queue->newest ? &queue->newest->newer : &queue->oldest) = session;
    queue->newest = session;
    note_oldest(queue);
}

static void take_out(struct http_queue *queue, struct http_session *session)
{
    CHECK(queue->oldest);
    *(session->newer ? &session->newer->older : &queue->newest) = session->older;
    *(session->older ? &session->older->newer : &queue->oldest) = session->newer;
    note_oldest(queue);
}

/* The loops that wait for a slot try again. */
static void wake_waiting(struct http_server *server)
{
    for (size_t i = 0; i < server->n_doors && atomic_load(&server->needs_slot) > 0; i++)
        if (atomic_load(&server->doors[i].needs_slot))
            parker_wake(server->doors[i].acceptor);
}

/* It is waited for no longer: it has ended, or a request came at the last moment. */
static void stop_leaving(struct http_session *session)
{
    struct http_door *door = session->door;
    CHECK(door->idle.n_leaving > 0);
    session->makes_room = false;
    door->idle.n_leaving--;
    atomic_fetch_sub(&door->server->leaving, 1);
    parker_wake(door->acceptor);
    wake_waiting(door->server);
}

void http_slots_move(struct http_session *session, enum http_session_state next)
{
    CHECK(moves[session->state] >> next & 1);
    struct http_queue *queue = queue_of(session);
    if (queue)
        take_out(queue, session);
    session->state = next;
    queue = queue_of(session);
    if (queue)
        put_in(queue, session);
    if (next == HTTP_SESSION_BUSY && session->makes_room)
        stop_leaving(session);
}

void http_slots_leave(struct http_session *session)
{
    struct http_server *server = session->door->server;
    if (session->makes_room)
        stop_leaving(session);
    atomic_fetch_sub(&server->connections, 1);
    wake_waiting(server);
}

/* ---- making room ---- */

void http_slots_wait(const struct http_door *door)
{
    while (door->idle.n_leaving >= HTTP_LEAVING_MAX)
        door->acceptor->park(door->acceptor, CLOCK_NEVER);
}

static struct http_session *oldest_busy(const struct http_door *door)
{
    struct http_session *oldest = NULL;
    for (struct http_session *at = door->sessions; at; at = at->next)
        if (!at->leaving)
            oldest = at;
    return oldest;
}

/* Since it was judged last the client sent less than its rate, and nothing of that waits here. */
static bool session_stalls(const struct http_session *session, int64_t now)
{
    int unread = 0;
    if (ioctl(session->conn.io.fd, FIONREAD, &unread) == 0 && unread > 0)
        return false;
    uint64_t got = session->conn.received - session->queued_got;
    int64_t passed = (now - session->queued_at) / CLOCK_US_PER_S;
    return got < (uint64_t)passed * HTTP_BODY_RATE_LEAST;
}

/* The oldest that may go. A body that comes is judged anew a second later. */
static struct http_session *oldest_of(struct http_queue *queue, int64_t now)
{
    while (now >= atomic_load(&queue->from)) {
        struct http_session *oldest = queue->oldest;
        if (!owes_body(oldest) || session_stalls(oldest, now))
            return oldest;
        take_out(queue, oldest);
        put_in(queue, oldest);
    }
    return NULL;
}

/* Whether some other loop may have one of this kind; the next of them. */
static struct http_door *find_other(const struct http_door *door, enum http_queue_kind kind)
{
    struct http_server *server = door->server;
    size_t self = (size_t)(door - server->doors);
    int64_t now = clock_boot_us();
    for (size_t i = 1; i < server->n_doors; i++) {
        struct http_door *other = &server->doors[(self + i) % server->n_doors];
        if (now >= atomic_load(&other->idle.queues[kind].from))
            return other;
    }
    return NULL;
}

static bool others_have_better(const struct http_door *door)
{
    return find_other(door, HTTP_QUEUE_IDLE) || find_other(door, HTTP_QUEUE_OWING);
}

/* NULL: none, or it is better that another loop's goes. */
static struct http_session *find_going(struct http_door *door)
{
    struct http_queue *queues = door->idle.queues;
    int64_t now = clock_boot_us();
    struct http_session *idle = oldest_of(&queues[HTTP_QUEUE_IDLE], now);
    struct http_session *owing = oldest_of(&queues[HTTP_QUEUE_OWING], now);
    if (idle && owing)
        return idle->queued_at <= owing->queued_at ? idle : owing;
    if (idle || owing || others_have_better(door))
        return idle ? idle : owing;
    return oldest_of(&queues[HTTP_QUEUE_PASSING], now);
}

/* Its fiber sees the end of the stream, as in a drain. A request that came at this moment is
 * served, and the connection closed behind it. The caller counts it as leaving. */
static bool make_slot_room(struct http_door *door)
{
    struct http_session *going = find_going(door);
    bool waits = going;
    if (!waits && door->server->config.cut_busy)
        going = oldest_busy(door);
    if (!going)
        return false;
    struct http_queue *queue = queue_of(going);
    CHECK(queue || !waits);
    if (queue)
        take_out(queue, going);
    (void)shutdown(going->conn.io.fd, waits ? SHUT_RD : SHUT_RDWR);
    going->leaving = going->makes_room = true;
    door->idle.n_leaving++;
    return true;
}

/* On the thread of the loop that was asked. */
static void make_room_here(void *argument)
{
    struct http_door *door = argument;
    atomic_store(&door->idle.asked, false);
    if (door->idle.n_leaving < HTTP_LEAVING_MAX && make_slot_room(door))
        return;
    atomic_fetch_sub(&door->server->leaving, 1);
    wake_waiting(door->server);
}

void http_slots_init(struct http_door *door)
{
    for (size_t i = 0; i < HTTP_QUEUES; i++)
        atomic_store(&door->idle.queues[i].from, CLOCK_NEVER);
    door->idle.make_room = (struct loop_post){.run = make_room_here, .argument = door};
}

static void ask_for_slot(struct http_door *other)
{
    if (atomic_exchange(&other->idle.asked, true))
        return;
    atomic_fetch_add(&other->server->leaving, 1);
    loop_post(other->loop, &other->idle.make_room);
}

/* Whether a slot will be free in a moment: one that was asked for before, or of the next loop that
 * has a session for it. A door that asked twice would lose the slot it got to its second question.
 */
static bool is_coming(const struct http_door *door)
{
    struct http_server *server = door->server;
    if (atomic_load(&server->connections) <
        server->config.max_connections + atomic_load(&server->leaving))
        return true;
    for (enum http_queue_kind kind = 0; kind < HTTP_QUEUES; kind++) {
        struct http_door *other = find_other(door, kind);
        if (other)
            ask_for_slot(other);
        if (other)
            return true;
    }
    return false;
}

static bool take_slot(struct http_door *door)
{
    struct http_server *server = door->server;
    size_t max = server->config.max_connections;
    size_t before = atomic_fetch_add(&server->connections, 1);
    if (before < max)
        return true;
    if (before < max + HTTP_SLOTS_SPARE && make_slot_room(door)) {
        atomic_fetch_add(&server->leaving, 1);
        return true;
    }
    atomic_fetch_sub(&server->connections, 1);
    return false;
}

/* It says that it waits before it looks: a slot that comes free in between wakes it. */
static bool wait_for_slot(struct http_door *door)
{
    int64_t deadline = clock_after(clock_boot_us(), SLOT_US);
    bool taken;
    atomic_store(&door->needs_slot, true);
    atomic_fetch_add(&door->server->needs_slot, 1);
    while (!(taken = take_slot(door)) && is_coming(door))
        if (!door->acceptor->park(door->acceptor, deadline))
            break;
    atomic_fetch_sub(&door->server->needs_slot, 1);
    atomic_store(&door->needs_slot, false);
    return taken;
}

bool http_slots_take(struct http_door *door)
{
    return take_slot(door) || wait_for_slot(door);
}
