/* SPDX-License-Identifier: Apache-2.0 */
/* Where this loop has no idle session, another is asked to end one of its own, and the newcomer
 * waits a moment. */
#include "http/server_priv.h"

#include "base/check.h"
#include "base/clock.h"

#define SLOT_US (20 * CLOCK_US_PER_MS) /* to wait for a slot that another loop makes */

/* ---- moves ---- */

#define TO(state) (1U << HTTP_SESSION_##state)

static const unsigned moves[] = {
    [HTTP_SESSION_NEW] = TO(IDLE),
    [HTTP_SESSION_IDLE] = TO(READING) | TO(ENDING),
    [HTTP_SESSION_READING] = TO(BUSY) | TO(ENDING),
    [HTTP_SESSION_BUSY] = TO(IDLE) | TO(ENDING),
    [HTTP_SESSION_ENDING] = TO(LINGERING),
    [HTTP_SESSION_LINGERING] = TO(ENDING),
};

/* It waits for a request, has not sent the whole header section of one, or lingers behind its
 * response. */
static bool is_idle(const struct http_session *session)
{
    return ((TO(IDLE) | TO(READING) | TO(LINGERING)) >> session->state & 1) && !session->leaving;
}

static void put_in(struct http_session *session)
{
    struct http_idle *idle = &session->door->idle;
    session->newer = NULL;
    session->older = idle->newest;
    *(idle->newest ? &idle->newest->newer : &idle->oldest) = session;
    idle->newest = session;
}

static void take_out(struct http_session *session)
{
    struct http_idle *idle = &session->door->idle;
    CHECK(idle->oldest);
    *(session->newer ? &session->newer->older : &idle->newest) = session->older;
    *(session->older ? &session->older->newer : &idle->oldest) = session->newer;
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
    bool was_idle = is_idle(session);
    if (was_idle)
        take_out(session);
    session->state = next;
    if (is_idle(session))
        put_in(session);
    if (was_idle && !is_idle(session))
        atomic_fetch_sub(&session->door->idle.n, 1);
    else if (!was_idle && is_idle(session))
        atomic_fetch_add(&session->door->idle.n, 1);
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

/* Its fiber sees the end of the stream, as in a drain. A request that came at this moment is
 * served, and the connection closed behind it. The caller counts it as leaving. */
static bool make_room(struct http_door *door)
{
    struct http_session *going = door->idle.oldest;
    if (going) {
        take_out(going);
        atomic_fetch_sub(&door->idle.n, 1);
    } else if (door->server->config.cut_busy)
        going = oldest_busy(door);
    if (!going)
        return false;
    (void)shutdown(going->conn.io.fd, is_idle(going) ? SHUT_RD : SHUT_RDWR);
    going->leaving = going->makes_room = true;
    door->idle.n_leaving++;
    return true;
}

/* On the thread of the loop that was asked. */
static void make_room_here(void *argument)
{
    struct http_door *door = argument;
    atomic_store(&door->idle.asked, false);
    if (door->idle.n_leaving < HTTP_LEAVING_MAX && make_room(door))
        return;
    atomic_fetch_sub(&door->server->leaving, 1);
    wake_waiting(door->server);
}

void http_slots_init(struct http_door *door)
{
    door->idle.make_room = (struct loop_post){.run = make_room_here, .argument = door};
}

static void ask(struct http_door *other)
{
    if (atomic_exchange(&other->idle.asked, true))
        return;
    atomic_fetch_add(&other->server->leaving, 1);
    loop_post(other->loop, &other->idle.make_room);
}

/* Whether a slot will be free in a moment: one that was asked for before, or of the next loop that
 * has an idle session. A door that asked twice would lose the slot it got to its second question.
 */
static bool is_coming(const struct http_door *door)
{
    struct http_server *server = door->server;
    size_t self = (size_t)(door - server->doors);
    if (atomic_load(&server->connections) <
        server->config.max_connections + atomic_load(&server->leaving))
        return true;
    for (size_t i = 1; i < server->n_doors; i++) {
        struct http_door *other = &server->doors[(self + i) % server->n_doors];
        if (atomic_load(&other->idle.n) == 0)
            continue;
        ask(other);
        return true;
    }
    return false;
}

static bool take(struct http_door *door)
{
    struct http_server *server = door->server;
    size_t max = server->config.max_connections;
    size_t before = atomic_fetch_add(&server->connections, 1);
    if (before < max)
        return true;
    if (before < max + HTTP_SLOTS_SPARE && make_room(door)) {
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
    while (!(taken = take(door)) && is_coming(door))
        if (!door->acceptor->park(door->acceptor, deadline))
            break;
    atomic_fetch_sub(&door->server->needs_slot, 1);
    atomic_store(&door->needs_slot, false);
    return taken;
}

bool http_slots_take(struct http_door *door)
{
    return take(door) || wait_for_slot(door);
}
