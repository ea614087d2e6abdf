/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of what decides on responses: which are kept, what duplicates get, which pages may read.
 */
#include "config/option.h"
#include "config/reader.h"

#define MEANT_MAX 1024
#define AN_ORIGIN                                                                                  \
    "an origin as browsers send it, such as https://shop.example, in lower case and without its "  \
    "usual port, or *"
#define A_PUBLIC_URL "http://HOST or https://HOST, such as https://api.shop.example"

bool reader_duplicate(struct reader *reader, const struct node *node,
                      enum rule_duplicate *ret_duplicate, int *ret_ack_status)
{
    static const enum rule_duplicate all[] = {RULE_DUPLICATE_REPLAY, RULE_DUPLICATE_REJECT,
                                              RULE_DUPLICATE_ACK};
    static const struct slice ack_statuses[] = {{"200", 3}, {"204", 3}};
    size_t index;
    if (node->kind != NODE_MAP) {
        if (node->kind == NODE_SCALAR && SLICE_AMONG(node->text, ack_statuses)) {
            reader_meant_member(reader, node, "ack", "replay, reject, ack or {ack: STATUS}");
            return false;
        }
        if (!reader_choice(reader, node, "replay|reject|ack|{ack: STATUS}", &index))
            return false;
        *ret_duplicate = all[index];
        *ret_ack_status = 200;
        return true;
    }
    const struct node *ack = reader_only_member(reader, node, "ack", &index);
    if (!ack || !reader_choice(reader, ack, "200|204", &index))
        return false;
    *ret_duplicate = RULE_DUPLICATE_ACK;
    *ret_ack_status = index == 0 ? 200 : 204;
    return true;
}

OPTION_READER(duplicate)
{
    reader_duplicate(reader, node, field, &reader->draft->rule.ack_status);
}

/* ---- cors ---- */

static bool is_origin_or_any(struct slice text)
{
    return slice_eq(text, SLICE("*")) || cors_is_origin(text);
}

/* `*` among others makes the others needless. */
OPTION_READER(origins)
{
    struct cors_policy *cors = READER_STRUCT(field, cors_policy, origins);
    struct reader_texts texts = {.max = CORS_ORIGINS_MAX, .at = cors->origins};
    if (!reader_list(reader, node, is_origin_or_any, AN_ORIGIN, &texts))
        return;
    cors->n = texts.n;
    for (size_t i = 0; i < texts.n; i++)
        if (slice_eq(texts.at[i], SLICE("*")))
            cors->any = true;
}

OPTION_READER(cors)
{
    struct cors_policy cors = {0};
    size_t errors = reader->errors->n;
    static const char expected[] = "{origins: [https://shop.example], credentials: false}";
    if (!options_read_members(reader, option, node, expected, &cors))
        return;
    if (errors == reader->errors->n && !cors_is_on(&cors))
        reader_complain(reader, node, "has no origins (expected origins: [" AN_ORIGIN "])");
    else if (cors.any && cors.credentials)
        reader_complain(reader, node,
                        "browsers refuse credentials for every origin (expected origins by name)");
    else
        *(struct cors_policy *)field = cors;
}

/* ---- public_url ---- */

/* What follows http:// or https://. */
static bool is_url_text(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] <= ' ' || text.at[i] > '~' || strchr("?#\"<>\\^`{|}@", text.at[i]))
            return false;
    return text.len > 0 && text.at[0] != '/';
}

static void refuse_public_url(struct reader *reader, const struct node *node, struct slice text)
{
    BUF_AUTO struct buf meant = buf_make(MEANT_MAX);
    if (is_url_text(text) && !memmem(text.at, text.len, "://", 3))
        buf_printf(&meant, "https://%.*s", SLICE_ARG(text));
    reader_expected_near(reader, node, A_PUBLIC_URL, &meant);
}

OPTION_READER(public_url)
{
    struct slice text, rest;
    if (!reader_scalar(reader, node, A_PUBLIC_URL, &text))
        return;
    while (text.len > 0 && text.at[text.len - 1] == '/')
        text.len--;
    bool tls = slice_starts(text, SLICE("https://"));
    rest = tls || slice_starts(text, SLICE("http://")) ? slice_skip(text, tls ? 8 : 7) : SLICE("");
    if (is_url_text(rest))
        *(struct slice *)field = arena_copy(reader->texts, text);
    else
        refuse_public_url(reader, node, text);
}
