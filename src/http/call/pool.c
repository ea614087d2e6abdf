/* SPDX-License-Identifier: Apache-2.0 */
#include "http/call/pool.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include <errno.h>

struct member {
    struct http_conn conn; /* first: the two are cast into each other */
    int64_t since_us;      /* idle since */
};

struct http_pool {
    size_t refs;
    struct http_upstream upstream;
    size_t max_idle;
    int64_t idle_us;
    size_t n_lent;
    size_t n_idle;
    /* By age: the last is lent first, as it is the least likely to be closed by the upstream at
     * that moment; the first is closed first. */
    struct member *idle[];
};

void http_upstream_drop(struct http_upstream *upstream)
{
    http_name_unref(upstream->name);
    tls_client_unref(upstream->tls);
}

struct http_pool *http_pool_new(const struct http_upstream *upstream, size_t max_idle,
                                int64_t idle_us)
{
    struct http_pool *pool = mem_zalloc(1, sizeof *pool + max_idle * sizeof *pool->idle);
    if (!pool)
        return NULL;
    pool->refs = 1;
    pool->upstream = *upstream;
    http_name_ref(upstream->name);
    tls_client_ref(upstream->tls);
    pool->max_idle = max_idle;
    pool->idle_us = idle_us;
    return pool;
}

static void member_close(struct member *member)
{
    http_conn_close(&member->conn);
    mem_free(member);
}

static void close_oldest(struct http_pool *pool, size_t n)
{
    for (size_t i = 0; i < n; i++)
        member_close(pool->idle[i]);
    pool->n_idle -= n;
    if (n > 0)
        memmove(pool->idle, pool->idle + n, pool->n_idle * sizeof *pool->idle);
}

/* Gives what the time is. */
static int64_t close_expired(struct http_pool *pool)
{
    int64_t now_us = clock_boot_us();
    size_t n = 0;
    while (n < pool->n_idle && now_us >= clock_after(pool->idle[n]->since_us, pool->idle_us))
        n++;
    close_oldest(pool, n);
    return now_us;
}

struct http_pool *http_pool_ref(struct http_pool *pool)
{
    CHECK(pool->refs > 0);
    pool->refs++;
    return pool;
}

bool http_pool_serves(const struct http_pool *pool, const struct http_upstream *upstream,
                      int64_t idle_us)
{
    const struct http_addresses *ours = &pool->upstream.addresses, *theirs = &upstream->addresses;
    return pool->idle_us == idle_us && pool->upstream.tls == upstream->tls &&
           http_name_equals(pool->upstream.name, upstream->name) && ours->n == theirs->n &&
           memcmp(ours->at, theirs->at, ours->n * sizeof *ours->at) == 0;
}

const char *http_pool_refusal(const struct http_pool *pool)
{
    struct http_addresses now = {0};
    if (pool->upstream.name)
        http_name_addresses(pool->upstream.name, &now);
    return now.refused;
}

void http_pool_unref(struct http_pool *pool)
{
    if (!pool || --pool->refs > 0)
        return;
    CHECK(pool->n_lent == 0);
    close_oldest(pool, pool->n_idle);
    http_upstream_drop(&pool->upstream);
    mem_free(pool);
}

/* ---- take and give ---- */

static struct member *take_kept_connection(struct http_pool *pool)
{
    close_expired(pool);
    while (pool->n_idle > 0) {
        struct member *member = pool->idle[--pool->n_idle];
        if (http_conn_stays_silent(&member->conn))
            return member;
        member_close(member);
    }
    return NULL;
}

/* Each address has its share of the time, so that one that does not answer leaves some to others.
 * The first is tried in any case: what takes no time may succeed. */
static int connect_any(const struct http_addresses *addresses, struct http_conn *conn,
                       int64_t deadline_us)
{
    int first = -ETIMEDOUT;
    for (size_t i = 0; i < addresses->n; i++) {
        int64_t now_us = clock_boot_us();
        if (i > 0 && now_us >= deadline_us)
            break;
        int64_t share_us = (deadline_us - now_us) / (int64_t)(addresses->n - i);
        int failed = http_conn_connect(conn, &addresses->at[i], now_us + share_us);
        if (failed == 0)
            return 0;
        if (i == 0)
            first = failed;
    }
    return first;
}

static int connect_now(const struct http_upstream *upstream, struct http_conn *conn,
                       int64_t deadline_us, const char **ret_problem)
{
    struct http_addresses now = upstream->addresses;
    if (upstream->name)
        http_name_addresses(upstream->name, &now);
    if (now.refused) {
        *ret_problem = now.refused;
        return -HTTP_POOL_FORBIDDEN;
    }
    int failed = connect_any(&now, conn, deadline_us);
    if (failed != 0 || !upstream->tls)
        return failed;
    return http_conn_secure(conn, upstream->tls, deadline_us, ret_problem);
}

/* An old address may belong to another host by now. */
static int connect_upstream(const struct http_upstream *upstream, struct http_conn *conn,
                            int64_t deadline_us, const char **ret_problem)
{
    int failed = connect_now(upstream, conn, deadline_us, ret_problem);
    if (failed != 0 && upstream->name)
        http_name_failed(upstream->name);
    return failed;
}

static int connect_new(struct http_pool *pool, int64_t deadline_us, struct member **ret_member,
                       const char **ret_problem)
{
    struct member *member = mem_zalloc(1, sizeof *member);
    if (!member)
        return -ENOMEM;
    int failed = connect_upstream(&pool->upstream, &member->conn, deadline_us, ret_problem);
    if (failed != 0) {
        mem_free(member);
        return failed;
    }
    *ret_member = member;
    return 0;
}

int http_pool_take(struct http_pool *pool, bool fresh, int64_t deadline_us,
                   struct http_conn **ret_conn, const char **ret_problem)
{
    /* Counted before it may park: a fiber that looks or connects uses the pool. */
    pool->n_lent++;
    struct member *member = fresh ? NULL : take_kept_connection(pool);
    int failed = member ? 0 : connect_new(pool, deadline_us, &member, ret_problem);
    if (failed != 0) {
        pool->n_lent--;
        return failed;
    }
    *ret_conn = &member->conn;
    return 0;
}

void http_pool_give(struct http_pool *pool, struct http_conn *conn, bool reusable)
{
    struct member *member = (struct member *)conn;
    CHECK(pool->n_lent > 0);
    pool->n_lent--;
    member->since_us = close_expired(pool);
    reusable = reusable && conn->io.fd >= 0 && !http_conn_body_left(conn) && pool->max_idle > 0;
    if (reusable)
        http_conn_next(conn);
    if (!reusable || conn->io.hung_up || conn->in.len > 0) {
        member_close(member);
        return;
    }
    if (pool->n_idle == pool->max_idle)
        close_oldest(pool, 1);
    pool->idle[pool->n_idle++] = member;
}
