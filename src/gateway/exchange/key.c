/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/exchange/key.h"

#include "base/check.h"
#include "core/key_header.h"

static struct slice with_window(struct exchange *x, struct slice key)
{
    if (!x->attempt.begin.window)
        return key;
    buf_clear(&x->shown_key);
    if (key.len > 0) {
        buf_add_slice(&x->shown_key, key);
        buf_add_char(&x->shown_key, ':');
    }
    buf_add_i64(&x->shown_key, x->attempt.result.record.created_at);
    return buf_slice(&x->shown_key);
}

struct slice operation_key(struct exchange *x)
{
    return with_window(x, buf_slice(&x->key));
}

struct slice holder_key(struct exchange *x)
{
    return x->holder_key ? with_window(x, slice_of(x->holder_key)) : operation_key(x);
}

struct slice upstream_key(struct exchange *x)
{
    if (payload_recipe_is_old(x->attempt.recipe) && !x->holder_key)
        return x->client_key.at ? x->client_key : operation_key(x);
    buf_clear(&x->sent_key);
    key_value_write(holder_key(x), x->rule->forward_key, x->rule->key_syntax, &x->sent_key);
    return buf_slice(&x->sent_key);
}
