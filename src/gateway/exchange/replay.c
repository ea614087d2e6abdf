/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/exchange/replay.h"

#include "base/check.h"
#include "core/request/condition.h"
#include "gateway/exchange/bodies.h"
#include "gateway/exchange/steps.h"

#define HTTP_PARTIAL 206

/* Runs on a worker for large bodies: touches the exchange alone. */
struct copying {
    struct exchange *x;
    struct arena arena; /* of the response's tree */
    struct buf body;    /* as it is sent; empty: as it was kept */
    bool no_room;
};

/* A part of a body keeps its length, which Content-Range says. */
static bool is_whole_json(const struct outcome *outcome)
{
    struct slice type = SLICE("");
    (void)slice_cut(outcome_field(outcome->fields, SLICE("Content-Type")), ';', &type);
    return outcome->status != HTTP_PARTIAL && json_is_type(slice_trim(type)) &&
           !outcome_field(outcome->fields, SLICE("Content-Encoding")).at;
}

static void copy_members(void *argument)
{
    struct copying *copying = argument;
    struct exchange *x = copying->x;
    struct copied_text response = {.bytes = x->attempt.result.found->body};
    struct json *root = NULL;
    copying->no_room = identify_open_payload(x, x->rule->body_json) != PAYLOAD_OK;
    if (copying->no_room || !x->payload.json)
        return;
    enum json_error error = json_parse(&copying->arena, response.bytes, &root, NULL);
    copying->no_room = error == JSON_NO_MEMORY && !copying->arena.too_large;
    if (error != JSON_OK)
        return;
    response.json = root;
    struct copied_text request = {x->payload.bytes, x->payload.json};
    (void)copied_write(&x->rule->copied, &request, &response, &copying->body);
    copying->no_room = !buf_ok(&copying->body);
}

static bool replace_found(struct exchange *x, struct slice body)
{
    const struct outcome *found = x->attempt.result.found;
    BUF_AUTO struct buf fields = buf_make(found->fields.len);
    outcome_keep_others(found->fields, &fields);
    struct outcome *own = buf_ok(&fields)
                              ? outcome_new(found->status, found->failed, buf_slice(&fields), body)
                              : NULL;
    return own && attempt_replace_found(&x->attempt, own);
}

bool replay_copy_members(struct exchange *x)
{
    const struct outcome *found = x->attempt.result.found;
    CHECK(x->step == EXCHANGE_DECIDE && found && x->attempt.result.holds && x->has_body);
    if (x->rule->copied.n == 0 || !is_whole_json(found))
        return true;
    uint64_t most = x->plan->settings.max_buffered;
    struct copying copying = {
        .x = x,
        .arena = arena_make_counted(most < CONDITION_ARENA_MAX ? most : CONDITION_ARENA_MAX,
                                    &x->server->shared->buffered, most),
        .body = buf_make(found->body.len + COPIED_MAX * COPIED_VALUE_MAX)};
    bool large = found->body.len >= OFFLOAD_LEAST || identify_takes_long(x);
    exchange_work(x, large, copy_members, &copying);
    identify_close_payload(x);
    arena_fini(&copying.arena);
    bool ready =
        !copying.no_room && (copying.body.len == 0 || replace_found(x, buf_slice(&copying.body)));
    buf_fini(&copying.body);
    return ready;
}
