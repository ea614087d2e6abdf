/* SPDX-License-Identifier: Apache-2.0 */
/* Under which names the store knows the operation: its key, in the rule's key space, and its once
 * value, which is the rule's own; each also as former names of the rule made it. */
#include "base/check.h"
#include "gateway/exchange/steps.h"

/* What a template gave under a former name of the rule, where {route} is that name. It gave a value
 * under the present one: what lacks now is memory. */
static bool read_as_former(struct exchange *x, const struct template *template, struct slice name,
                           struct slice *ret_text, struct template_clocks *ret_clocks)
{
    struct buf buf BUF_AUTO = buf_make(HTTP_HEADERS_SIZE_MAX);
    struct template_text text = {.buf = &buf};
    struct template_facts facts = x->found.facts;
    struct slice missing = {0};
    facts.route = name;
    if (template_value(template, &facts, x->arena, &text, &missing) != TEMPLATE_OK)
        return false;
    *ret_text = arena_copy(x->arena, buf_slice(&buf));
    *ret_clocks = text.clocks;
    return ret_text->at;
}

static bool name_former(struct exchange *x)
{
    const struct rule *rule = x->rule;
    const struct engine *engine = x->server->config->engine;
    struct attempt *attempt = &x->attempt;
    bool follows = !x->keyless && template_uses(&rule->key, TEMPLATE_ROUTE);
    struct template_clocks clocks;
    attempt->n_former = rule->n_formerly;
    for (size_t i = 0; i < rule->n_formerly; i++) {
        struct slice key = attempt->key;
        if (follows && !read_as_former(x, &rule->key, rule->formerly[i], &key, &clocks))
            return false;
        attempt->former[i] = engine_key_hash(engine, attempt->tenant, rule->formerly[i], key);
    }
    return true;
}

static bool name_former_once(struct exchange *x)
{
    const struct rule *rule = x->rule;
    if (rule->n_formerly == 0 || !template_uses(&rule->once.key, TEMPLATE_ROUTE))
        return true;
    struct store_former_value *values = arena_alloc(x->arena, rule->n_formerly * sizeof values[0]);
    for (size_t i = 0; values && i < rule->n_formerly; i++) {
        values[i].rule = rule->formerly[i];
        if (!read_as_former(x, &rule->once.key, values[i].rule, &values[i].text, &values[i].clocks))
            return false;
    }
    x->attempt.once.former_values = values;
    return values;
}

/* The value, and where the client sent no key the record's name made of it. */
static bool name_once(struct exchange *x)
{
    const struct rule_once *rule = &x->rule->once;
    struct attempt *attempt = &x->attempt;
    const struct engine *engine = x->server->config->engine;
    struct slice value = buf_slice(&x->once);
    attempt->has_once = true;
    attempt->once = (struct store_once){
        .reject = rule->duplicate == RULE_DUPLICATE_REJECT,
        .acknowledge = rule->duplicate == RULE_DUPLICATE_ACK,
        .any_payload = rule->any_payload,
        .keyless = x->keyless,
        .clocks = attempt->once.clocks,
        .template_id = rule->template_id,
    };
    if (!name_former_once(x))
        return false;
    engine_name_once(engine, attempt, value, x->rule->formerly, &attempt->once);
    if (attempt->once.keyless)
        attempt->key_hash = engine_value_hash(engine, attempt->tenant, attempt->rule, value);
    attempt->begin.once_ttl_us = rule->ttl_us;
    attempt->begin.once_window = template_window_us(&rule->key) > 0;
    attempt->begin.once_replay = rule->duplicate == RULE_DUPLICATE_REPLAY;
    return true;
}

bool identify_name(struct exchange *x)
{
    CHECK(x->attempt.rule.at);
    struct attempt *attempt = &x->attempt;
    attempt->key_hash = engine_key_hash(x->server->config->engine, attempt->tenant,
                                        rule_key_space(x->rule), attempt->key);
    return name_former(x) && (!x->rule->once.on || name_once(x));
}
