/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kept connections are a list by age: `newest` is lent first, as it is the least likely to be
 * closed by the upstream at that moment; `oldest` is closed first.
 */
#include "http/pool.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include <errno.h>

struct member {
    struct http_conn conn; /* first: the two are cast into each other */
    struct member *newer;
    struct member *older;
    int64_t since_us; /* idle since */
};

struct http_pool {
    size_t refs;
    struct http_upstream upstream;
    size_t max_idle;
    int64_t idle_us;
    struct member *newest;
    struct member *oldest;
    size_t n_idle;
    size_t n_lent;
};

struct http_pool *http_pool_new(const struct http_upstream *upstream, size_t max_idle,
                                int64_t idle_us)
{
    struct http_pool *pool = mem_zalloc(1, sizeof *pool);
    if (pool == NULL)
        return NULL;
    pool->refs = 1;
    pool->upstream = *upstream;
    pool->max_idle = max_idle;
    pool->idle_us = idle_us;
    return pool;
}

static void member_close(struct member *member)
{
    http_conn_close(&member->conn);
    mem_free(member);
}

/* ---- the list ---- */

static void keep(struct http_pool *pool, struct member *member)
{
    member->since_us = clock_boot_us();
    member->newer = NULL;
    member->older = pool->newest;
    *(pool->newest != NULL ? &pool->newest->newer : &pool->oldest) = member;
    pool->newest = member;
    pool->n_idle++;
}

static struct member *unlink_member(struct http_pool *pool, struct member *member)
{
    *(member->newer != NULL ? &member->newer->older : &pool->newest) = member->older;
    *(member->older != NULL ? &member->older->newer : &pool->oldest) = member->newer;
    pool->n_idle--;
    return member;
}

static void close_expired(struct http_pool *pool)
{
    int64_t now_us = clock_boot_us();
    while (pool->oldest != NULL && now_us >= clock_after(pool->oldest->since_us, pool->idle_us))
        member_close(unlink_member(pool, pool->oldest));
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
    const struct http_upstream *own = &pool->upstream;
    return pool->idle_us == idle_us && own->address_len == upstream->address_len &&
           memcmp(&own->address, &upstream->address, own->address_len) == 0 &&
           own->other_len == upstream->other_len &&
           memcmp(&own->other, &upstream->other, own->other_len) == 0;
}

void http_pool_unref(struct http_pool *pool)
{
    if (pool == NULL || --pool->refs > 0)
        return;
    CHECK(pool->n_lent == 0);
    while (pool->oldest != NULL)
        member_close(unlink_member(pool, pool->oldest));
    CHECK(pool->n_idle == 0);
    mem_free(pool);
}

/* ---- take and give ---- */

static struct member *take_kept(struct http_pool *pool)
{
    close_expired(pool);
    while (pool->newest != NULL) {
        struct member *member = unlink_member(pool, pool->newest);
        if (http_conn_is_silent(&member->conn))
            return member;
        member_close(member);
    }
    return NULL;
}

static int connect_upstream(const struct http_upstream *upstream, struct http_conn *conn,
                            int64_t deadline_us)
{
    int failed = http_conn_connect(conn, (const struct sockaddr *)&upstream->address,
                                   upstream->address_len, deadline_us);
    if (failed == 0 || upstream->other_len == 0 || clock_boot_us() >= deadline_us)
        return failed;
    return http_conn_connect(conn, (const struct sockaddr *)&upstream->other, upstream->other_len,
                             deadline_us) == 0
               ? 0
               : failed;
}

static int connect_new(struct http_pool *pool, int64_t deadline_us, struct member **ret_member)
{
    struct member *member = mem_zalloc(1, sizeof *member);
    if (member == NULL)
        return -ENOMEM;
    int failed = connect_upstream(&pool->upstream, &member->conn, deadline_us);
    if (failed != 0) {
        mem_free(member);
        return failed;
    }
    *ret_member = member;
    return 0;
}

int http_pool_take(struct http_pool *pool, bool fresh, int64_t deadline_us,
                   struct http_conn **ret_conn)
{
    struct member *member = fresh ? NULL : take_kept(pool);
    /* Counted before it may park: a fiber that connects uses the pool. */
    pool->n_lent++;
    int failed = member != NULL ? 0 : connect_new(pool, deadline_us, &member);
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
    close_expired(pool);
    reusable = reusable && conn->io.fd >= 0 && !http_conn_body_left(conn) && pool->max_idle > 0;
    if (reusable)
        http_conn_next(conn);
    if (!reusable || conn->io.hung_up || conn->in.len > 0) {
        member_close(member);
        return;
    }
    if (pool->n_idle == pool->max_idle)
        member_close(unlink_member(pool, pool->oldest));
    keep(pool, member);
}
