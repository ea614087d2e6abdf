/* SPDX-License-Identifier: Apache-2.0 */
/* `once:`, the second identity of a rule (contract section 3). */
#include "base/crypto/digest.h"
#include "config/option.h"
#include "config/reader.h"

#define A_TEMPLATE "a template such as \"{body:/external_ref}\""
#define AN_ONCE "{key: TEMPLATE, ttl: DURATION, duplicate: reject}"

OPTION_READER(once_key)
{
    struct rule_once *once = READER_STRUCT(field, rule_once, key);
    struct slice text;
    if (!reader_scalar(reader, node, A_TEMPLATE, &text))
        return;
    (void)reader_template(reader, node, text, TEMPLATE_FOR_KEY, &once->key);
    struct digest digest = digest_of(text);
    memcpy(&once->template_id, digest.bytes, sizeof once->template_id);
}

OPTION_READER(once_duplicate)
{
    struct rule_once *once = READER_STRUCT(field, rule_once, duplicate);
    reader_duplicate(reader, node, &once->duplicate, &once->ack_status);
}

OPTION_READER(once)
{
    struct rule_once once = {0};
    size_t errors = reader->errors->n;
    if (!options_read_members(reader, option, node, AN_ONCE, &once))
        return;
    once.on = once.key.n > 0;
    if (!once.on && errors == reader->errors->n)
        reader_complain(reader, node, "has no key (expected " AN_ONCE ")");
    *(struct rule_once *)field = once;
}

/* ---- what does not fit ---- */

/* Two requests with two keys would never have the same hashes. */
static const struct template_part *key_in_payload(const struct rule *rule)
{
    for (size_t i = 0; i < rule->key.n; i++) {
        const struct template_part *part = &rule->key.parts[i];
        if (part->source == TEMPLATE_BODY && payload_counts(&rule->payload, part->text))
            return part;
    }
    return NULL;
}

void once_review(struct reader *reader, struct rule_draft *draft)
{
    struct rule *rule = &draft->rule;
    struct rule_once *once = &rule->once;
    const struct node *node = draft->set[OPTION_once];
    if (!node || !once->on)
        return;
    int64_t window = template_window_us(&once->key);
    if (window > 0 && once->ttl_us > 0)
        reader_complain(
            reader, node,
            "has both a ttl and a {window:..} (expected one of them: a window is the time)");
    if (rule->duplicate != RULE_DUPLICATE_REPLAY)
        reader_complain(
            reader, node,
            "the rule has a `duplicate` of its own (expected it inside `once`, and none in "
            "the rule)");
    const struct template_part *part = key_in_payload(rule);
    if (once->duplicate != RULE_DUPLICATE_REJECT && !once->any_payload && part)
        reader_complain(reader, node,
                        "requests under two keys never have the same payload, which contains the "
                        "key's {%.*s} (expected `payload: {exclude: [%.*s]}`, or `once: "
                        "{payload: ignore}`)",
                        SLICE_ARG(part->written), SLICE_ARG(part->text));
    if (window > 0 || once->ttl_us == 0)
        once->ttl_us = window > 0 ? window : rule->ttl_us;
}
