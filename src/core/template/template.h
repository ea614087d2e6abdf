/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Templates of keys, tenants and probe targets (contract section 3), of the keys of jobs and items,
 * and of texts that are filled in from an item: literals and sources in braces, compiled once when
 * the config or the command line is read, evaluated once per operation. Pure.
 *
 * Sources: {header:NAME} {header:NAME?} {body:/json/pointer} {form:name} {path:param} {query:name}
 * {method} {route} {tenant} {payload}; in keys also {window:1h} {hour} {hour:Area/City}
 * {date:Area/City} {date:/pointer/to/zone}, {week:..} and {month:..} in the same two forms, in
 * probe targets {key}, in tenants {cookie:name}. A source of a key that clients fill may carry a
 * format: {body:/id|uuid4}, |uuid, |max:255 (bytes), |regex:PATTERN (core/request/pattern.h; braces
 * balanced); UUIDs are folded.
 *
 * The key of a job, which is one command: {date:Area/City} {week:Area/City} {month:Area/City}
 * {hour} {hour:Area/City} {window:1h} {env:NAME}. The key of an item, which is a line, a CSV record
 * or a JSON value of an input, also: {} the whole item, {name} a member or column (letters of any
 * script, digits, '_', '-' and '.', no digit first; the names of sources win: such a column is
 * written {/hour}), {/pointer} a JSON pointer into the item, and {date:/pointer}, {week:/pointer},
 * {month:/pointer}, {hour:/pointer}.
 *
 * Key text: values percent-encoded outside A-Za-z0-9._~/@+-, ':' where two sources touch, literals
 * as written. A literal between two sources must hold a character outside that set that is not '%'
 * either, so that one text never comes from two lists of values. Over 255 bytes, or where the text
 * itself has that form: "sha256-" and 64 hex digits. A template that is one header and nothing else
 * gives the key as the header spells it (key_header.h). {window:...} contributes nothing to the key
 * text evaluated here: it makes the record's expiry a window, and the store shows the begin time in
 * its place. {date:..} is the calendar date there at the time of the request, 2026-02-19, {week:..}
 * the ISO 8601 week of that date, 2026-W08 (2027-01-01 is in 2026-W53), {month:..} its month,
 * 2026-02, {hour} and {hour:..} that hour with its distance from UTC, 2026-02-19T14Z and
 * 2026-02-19T09-0500: the hour that comes twice when clocks go back is two. Each
 * has one length always, so that two values of one template can be compared but for them
 * (template_same_but_clocks); in the digest of a long text the first half of the digits is of all
 * else, and the second half of all.
 *
 * Probe targets: values percent-encoded outside A-Za-z0-9._~- ('/' would be a segment of its own,
 * '+' a space); path and query values keep the escapes they were sent with. Between two sources
 * stands a literal with a character outside that set, '+' and '%'. A JSON number has its digits as
 * they came. A target that servers would read in different ways (path_is_ambiguous: a key with '/'
 * in the path), or in which a value names nothing (core/request/filled.h), is not made: its 404
 * would say nothing.
 *
 * Texts that are filled in (template_fill) are the arguments of a command, and URLs, headers and
 * bodies of requests. What is a source there: {} {name} {/pointer} {date:..} {week:..} {month:..}
 * {hour} {hour:..} {env:NAME}, each without a quote, a brace, a control byte or, but for
 * {/pointer}, a space. {name|json} and {/pointer|json} are the value as JSON, an object or array,
 * too; of a CSV field what stands in it, which is JSON. "{{" is a '{'; every other '{' and every
 * '}' is itself, so that JSON and awk scripts are text. Any byte but NUL may be in it, and it may
 * be empty.
 *
 * Values: a header must come in exactly one line that Connection does not name, else it counts as
 * missing, with '?' too; {header:Idempotency-Key} is read as a key wherever it is. A query or
 * form name or a cookie that comes twice counts as missing. Query values and path parameters are
 * decoded for keys and tenants, so that two spellings are one. Of JSON, strings, numbers (by value)
 * and true or false count. A variable that is not set counts as missing, and in keys an empty one
 * and an empty item too.
 */
#ifndef PAWL_CORE_TEMPLATE_H
#define PAWL_CORE_TEMPLATE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/headers.h"
#include "base/time/zones.h"
#include "core/request/filled.h"
#include "core/request/key_header.h"
#include "core/request/payload.h"

#define TEMPLATE_PARTS_MAX 16
#define TEMPLATE_PATH_PARAMS_MAX 16

enum template_source {
    TEMPLATE_LITERAL,
    TEMPLATE_HEADER,
    TEMPLATE_BODY,
    TEMPLATE_FORM,
    TEMPLATE_PATH,
    TEMPLATE_QUERY,
    TEMPLATE_METHOD,
    TEMPLATE_ROUTE,
    TEMPLATE_TENANT,
    TEMPLATE_PAYLOAD,
    TEMPLATE_WINDOW,
    TEMPLATE_KEY,
    TEMPLATE_COOKIE,
    TEMPLATE_DATE,
    TEMPLATE_HOUR,
    TEMPLATE_WEEK,
    TEMPLATE_MONTH,
    TEMPLATE_ENV,
    TEMPLATE_ITEM,   /* {} */
    TEMPLATE_MEMBER, /* {name}; {/pointer} is TEMPLATE_BODY */
};

struct template_part {
    enum template_source source;
    struct slice text;    /* literal; or the name, pointer (of a member too), zone */
    struct slice written; /* literal, or what is between the braces, as the template has it */
    bool optional;        /* {header:X?} */
    bool as_json;         /* {name|json}, of a text */
    int64_t window_us;    /* TEMPLATE_WINDOW */
    const struct key_format *format; /* NULL: any value */
    size_t longest;                  /* bytes of a value; 0: any number */
};

struct template
{
    size_t n;
    struct template_part parts[TEMPLATE_PARTS_MAX];
};

enum template_use {
    TEMPLATE_FOR_KEY,    /* every source but {key}; no credential: a key is stored as it is */
    TEMPLATE_FOR_TENANT, /* header, cookie, path, query, literals */
    TEMPLATE_FOR_PROBE,  /* a target, "/path?query": every source but {window:}; {key} too */
    TEMPLATE_FOR_JOB,    /* the key of a job; it may be a literal alone */
    TEMPLATE_FOR_ITEM,   /* the key of an item */
    TEMPLATE_FOR_TEXT,   /* for template_fill */
};

/* Compiles `text`; what it makes lives in `arena`. False: `*ret_problem` gets one sentence that
 * says what is wrong, and the nearest valid source name where a name is unknown. */
bool template_compile(struct slice text, enum template_use use, struct arena *arena,
                      struct template *ret_template, struct slice *ret_problem);

/* Appends the template as it was written. */
void template_write(const struct template *template, struct buf *buf);

/* Whether the template is exactly {header:Idempotency-Key}-like: one header source and no more.
 * key_header_read says more precisely than template_key what is wrong with it. */
bool template_is_plain_header(const struct template *template);

/* Whether any part has this source. */
bool template_uses(const struct template *template, enum template_source source);

/* Whether any part is that header. */
bool template_reads_header(const struct template *template, struct slice name);

/* Whether one of its parts takes the same value of the request; may be absent. */
bool template_has_part(const struct template *template, const struct template_part *part);
bool template_has_optional(const struct template *template);

/* The header that holds the client's key: {header:Idempotency-Key}, else the first header source.
 * NULL: the client does not choose this key. */
const struct template_part *template_key_header(const struct template *template);

/* Appends what the value of a source lacks: "the value of body:/id is not a uuid4".
 * `source` as templates write it; `rules` is the rule's own format for the client's key. */
void template_describe_format(const struct template *template, struct slice source,
                              const struct key_format *rules, struct buf *buf);

/* The first part that reads what is not kept with a record (all but key, tenant, method, route and
 * payload hash); NULL: none does. */
const struct template_part *template_not_kept(const struct template *template);

/* Whether any part needs the body, or the item, understood (body, form, a member, a pointer to a
 * zone). */
bool template_needs_body(const struct template *template);

/* The window's length, 0 without {window:}. */
int64_t template_window_us(const struct template *template);

/* Whether the part is {date:..}, {week:..}, {month:..} or {hour..}, and where the request names its
 * zone: the pointer is the part's text. */
bool template_part_is_clock(const struct template_part *part);
bool template_part_asks_zone(const struct template_part *part);

/* Whether any part is one. */
bool template_has_clock(const struct template *template);

/* What a template may look at. */
struct template_path_param {
    struct slice name;
    struct slice value; /* of the normalised path, still percent-encoded */
};
struct template_facts {
    struct slice method; /* the one that counts (rule_find_request) */
    struct slice route;  /* the rule's name */
    struct slice query;  /* raw, without '?' */
    const struct headers *headers;
    size_t n_params;
    struct template_path_param params[TEMPLATE_PATH_PARAMS_MAX];
    const struct payload *payload; /* NULL: not read */
    struct slice payload_hex;      /* 64 digits, or empty */
    struct slice tenant;           /* as stored: of a credential its keyed hash */
    struct slice key;
    unsigned labels;            /* payload_labels: what else of the body's headers counts */
    enum key_syntax key_syntax; /* how {header:Idempotency-Key} is read */
    const struct key_format *key_format; /* of the client's key (template_key_header); NULL: any */
    int64_t now_us;                      /* wall time, for the clocks */
    const struct zones *zones;           /* those that the templates need; NULL: none */
    /* Of an item `payload` is its JSON value: kind and json are set. Of a CSV record that is an
     * object of strings. */
    struct slice item; /* its whole text */
    bool item_is_json; /* which is that of payload->json, not a line or CSV record */
    const char *(*env)(const char *name); /* getenv; NULL: no variable is set */
};

enum template_result {
    TEMPLATE_OK,
    TEMPLATE_MISSING, /* a source is absent or empty: *ret_missing names it */
    TEMPLATE_FORMAT,  /* a source's value lacks its format, or cannot be in a target's path or in a
                       text: *ret_missing names it */
    TEMPLATE_NO_MEMORY,
};

/* Where in a text {date:..}, {week:..}, {month:..} and {hour..} are. */
struct template_clocks {
    size_t n;
    struct {
        size_t at;
        size_t len;
    } range[TEMPLATE_PARTS_MAX];
};

/* Whether two texts of one template say the same but for their clocks, which in `b` are these. */
bool template_same_but_clocks(struct slice a, struct slice b, const struct template_clocks *clocks);

/* A text as it is made, with its clocks. */
struct template_text {
    struct buf *buf;
    struct template_clocks clocks;
};

/* Appends the text for a key. `*ret_missing` is the source as the template has
 * it, such as "body:/external_ref". template_value is template_key that also says where the clocks
 * are; `text->clocks` is empty before. */
enum template_result template_key(const struct template *template,
                                  const struct template_facts *facts, struct arena *arena,
                                  struct buf *buf, struct slice *ret_missing);
enum template_result template_value(const struct template *template,
                                    const struct template_facts *facts, struct arena *arena,
                                    struct template_text *text, struct slice *ret_missing);

/* Judges the client's key, the value of template_key_header, by the rule's format and the source's
 * own; `*key` is folded where they fold. */
enum template_result template_judge_key(const struct template *template,
                                        const struct template_facts *facts, struct arena *arena,
                                        struct slice *key);

/* Appends why a source counts as missing: ", which came twice". Nothing where it is
 * just not there. */
void template_explain_missing(const struct template *template, const struct template_facts *facts,
                              struct slice missing, struct buf *buf);

/* Appends the tenant: of a template that is one source, its value as sent; of any other the text as
 * for keys, at any length. So two tenants of one template never meet, and what is stored is what an
 * operator types. */
enum template_result template_tenant(const struct template *template,
                                     const struct template_facts *facts, struct arena *arena,
                                     struct buf *buf, struct slice *ret_missing);

/* How values are put into a text. */
enum template_filling {
    TEMPLATE_RAW,     /* as they are; a value with a NUL is TEMPLATE_FORMAT */
    TEMPLATE_IN_URL,  /* percent-encoded outside A-Za-z0-9._~-, and judged (core/request/filled.h):
                       * TEMPLATE_FORMAT where the URL would name something else */
    TEMPLATE_IN_FORM, /* percent-encoded likewise, and no more */
    TEMPLATE_IN_JSON, /* in a double-quoted string of the text as its content, with escapes; else as
                       * JSON: numbers, true and false as they are written, and the whole of an item
                       * that is JSON; all else as a string. TEMPLATE_FORMAT: a value is not UTF-8,
                       * or follows a '\' in a string */
};

/* Where the text goes; what is needed meanwhile lives in `arena`. */
struct template_output {
    struct arena *arena;
    struct buf *buf;
    enum filled_fault fault; /* of a URL; FILLED_GOOD: TEMPLATE_FORMAT has another reason */
};

/* Appends a probe target; with TEMPLATE_FORMAT `output` has the fault. */
enum template_result template_probe(const struct template *template,
                                    const struct template_facts *facts,
                                    struct template_output *output, struct slice *ret_missing);

/* Appends the text of a template for TEMPLATE_FOR_TEXT. Numbers are spelled as the item has them,
 * and nothing is put between two sources. An empty value is none that is missing; null, an object
 * and an array are. Unless the result is TEMPLATE_OK, the buffer is as before. */
enum template_result template_fill(const struct template *template,
                                   const struct template_facts *facts,
                                   enum template_filling filling, struct template_output *output,
                                   struct slice *ret_missing);

/* Whether the template names a credential: Authorization, Proxy-Authorization, Cookie, X-Api-Key,
 * any {cookie:...}. */
bool template_is_credential(const struct template *template);

#endif
