/* SPDX-License-Identifier: Apache-2.0 */
#include "core/identity.h"

#include "base/crypto/digest.h"
#include "base/text/ascii.h"

/* To be raised whenever a template gives another text than it did. */
#define TEXTS "1"

static const struct slice labels[] = {
#define X(name, label) [IDENTITY_##name] = {label, sizeof label - 1},
    IDENTITY_PARTS(X)
#undef X
};

/* ---- the text ---- */

static void start_line(struct buf *buf, enum identity_part part)
{
    buf_add_slice(buf, labels[part]);
    buf_add_char(buf, ' ');
}

static void add_identity_line(struct buf *buf, enum identity_part part, struct slice value)
{
    start_line(buf, part);
    buf_add_slice(buf, value);
    buf_add_char(buf, '\n');
}

static void add_lower(struct buf *buf, struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        buf_add_char(buf, ascii_lower(text.at[i]));
}

static void add_param(struct buf *buf, const struct rule_match *match, struct slice name)
{
    size_t i = 0;
    while (i < match->n_segments &&
           !(match->segments[i].is_param && slice_eq(match->segments[i].text, name)))
        i++;
    buf_printf(buf, "%zu", i);
    const struct rule_segment *param = i < match->n_segments ? &match->segments[i] : NULL;
    if (param && param->before.len + param->after.len > 0)
        buf_printf(buf, " %.*s{}%.*s", SLICE_ARG(param->before), SLICE_ARG(param->after));
}

static bool folds_case(const struct rule *rule, const struct template *template,
                       const struct template_part *part)
{
    const struct key_format *format = part->format;
    if (!format && template == &rule->key && part == template_key_header(&rule->key))
        format = rule->key_format;
    return format && key_format_folds(format);
}

/* A literal comes behind its length, as it may look like a source. */
static void add_identity_part(struct buf *buf, const struct rule *rule,
                              const struct template *template, const struct template_part *part)
{
    if (part->source == TEMPLATE_LITERAL) {
        buf_printf(buf, "%zu:", part->text.len);
        buf_add_slice(buf, part->text);
        return;
    }
    buf_printf(buf, "{%d", (int)part->source);
    if (part->text.len > 0)
        buf_add_char(buf, ' ');
    if (part->source == TEMPLATE_HEADER)
        add_lower(buf, part->text);
    else if (part->source == TEMPLATE_PATH)
        add_param(buf, &rule->match, part->text);
    else
        buf_add_slice(buf, part->text);
    if (part->source == TEMPLATE_PAYLOAD) {
        buf_printf(buf, " %d ", rule->body_json);
        buf_add_slice(buf, rule->recipe);
    }
    buf_add_str(buf, folds_case(rule, template, part) ? " folded}" : "}");
}

/* A window gives no text to the key, but makes it one of several parts. */
static void add_identity_template(struct buf *buf, const struct rule *rule,
                                  const struct template *template)
{
    buf_add_str(buf, template_is_plain_header(template) ? "plain " : "");
    for (size_t i = 0; i < template->n; i++)
        if (template->parts[i].source != TEMPLATE_WINDOW)
            add_identity_part(buf, rule, template, &template->parts[i]);
    buf_add_char(buf, '\n');
}

void identity_write(const struct rule *rule, struct buf *buf)
{
    add_identity_line(buf, IDENTITY_TEXTS, SLICE(TEXTS));
    add_identity_line(buf, IDENTITY_SPACE, rule_key_space(rule));
    start_line(buf, IDENTITY_TENANT);
    if (rule->tenant_none)
        buf_add_str(buf, "none\n");
    else
        add_identity_template(buf, rule, &rule->tenant);
    add_identity_line(buf, IDENTITY_SECRET, rule_hides_tenant(rule) ? SLICE("yes") : SLICE("no"));
    start_line(buf, IDENTITY_KEY);
    add_identity_template(buf, rule, &rule->key);
    start_line(buf, IDENTITY_ONCE);
    if (rule->once.on) {
        buf_printf(buf, "%lld ", (long long)rule->once.template_id);
        add_identity_template(buf, rule, &rule->once.key);
    } else {
        buf_add_str(buf, "none\n");
    }
    for (size_t i = 0; i < rule->n_formerly; i++)
        add_identity_line(buf, IDENTITY_FORMERLY, rule->formerly[i]);
}

/* ---- its digest ---- */

void identity_digest(struct slice identity, char ret_hex[IDENTITY_DIGEST_SIZE])
{
    struct digest digest = digest_of(identity);
    hex_encode(digest.bytes, (IDENTITY_DIGEST_SIZE - 1) / 2, ret_hex);
}

bool identity_is_digest(struct slice hex)
{
    for (size_t i = 0; i < hex.len; i++)
        if (hex_digit(hex.at[i]) < 0 || ascii_lower(hex.at[i]) != hex.at[i])
            return false;
    return hex.len == IDENTITY_DIGEST_SIZE - 1;
}

/* ---- what moves ---- */

/* The value of the next line of that label. False: there is none. */
static bool next_identity_value(struct slice *rest, enum identity_part part,
                                struct slice *ret_value)
{
    for (struct slice line, label; slice_next(rest, '\n', &line);) {
        *ret_value = slice_cut(line, ' ', &label);
        if (slice_eq(label, labels[part]))
            return true;
    }
    return false;
}

struct slice identity_value(struct slice identity, enum identity_part part)
{
    struct slice value;
    return next_identity_value(&identity, part, &value) ? value : (struct slice){0};
}

static bool has_former(struct slice identity, struct slice name)
{
    for (struct slice former; next_identity_value(&identity, IDENTITY_FORMERLY, &former);)
        if (slice_eq(former, name))
            return true;
    return false;
}

static bool drops_former(struct slice before, struct slice after, struct slice name)
{
    for (struct slice former; next_identity_value(&before, IDENTITY_FORMERLY, &former);)
        if (!slice_eq(former, name) && !has_former(after, former))
            return true;
    return false;
}

/* The key has become a once value. */
static bool has_key_as_value(struct slice before, struct slice after)
{
    struct slice id;
    struct slice value = slice_cut(identity_value(after, IDENTITY_ONCE), ' ', &id);
    return value.at && slice_eq(value, identity_value(before, IDENTITY_KEY));
}

unsigned identity_moves(struct slice before, struct slice after, struct slice name)
{
    unsigned moves = 0;
    for (enum identity_part part = 0; part < IDENTITY_FORMERLY; part++) {
        struct slice was = identity_value(before, part);
        bool is_added = part == IDENTITY_ONCE && slice_eq(was, SLICE("none"));
        if (!is_added && !slice_eq(was, identity_value(after, part)))
            moves |= 1U << part;
    }
    if (has_key_as_value(before, after))
        moves &= ~(1U << IDENTITY_KEY);
    /* Its own old space is found by a former name. */
    if (has_former(after, identity_value(before, IDENTITY_SPACE)))
        moves &= ~(1U << IDENTITY_SPACE);
    return moves | (unsigned)drops_former(before, after, name) << IDENTITY_FORMERLY;
}

bool identity_names_alike(struct slice one, struct slice other)
{
    for (enum identity_part part = 0; part < IDENTITY_FORMERLY; part++)
        if (!slice_eq(identity_value(one, part), identity_value(other, part)))
            return false;
    return true;
}

void identity_write_parts(unsigned parts, struct buf *buf)
{
    const char *between = "";
    for (enum identity_part part = 0; part < IDENTITY_PART_COUNT; part++) {
        if (!(parts & 1U << part))
            continue;
        buf_add_str(buf, between);
        buf_add_slice(buf, labels[part]);
        between = ", ";
    }
}
