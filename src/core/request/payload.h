/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The payload hash: what distinguishes "the same request again" from "the key reused for something
 * else" (contract section 4). Pure.
 *
 *   payload_hash = SHA-256(canonical bytes)
 *
 * Canonical bytes, after gzip or deflate was decoded, by media type and selection:
 *
 *   JSON, all        RFC 8785, save that numbers count by their decimal value (base/text/number.h)
 *   JSON, exclude    the same without what the pointers name (of an array: its later elements move
 *                    up); nothing at all when the whole is excluded
 *   JSON, include    RFC 8785 of an array with one array for each pointer, in the recipe's
 *                    order: [pointer, value], or [pointer] where it names nothing, such as
 *                    [["/a",{"b":1}],["/gone"]]
 *   form, all        core/web/form.h
 *   multipart, all   core/web/multipart.h
 *   anything, ignore nothing
 *   all others       the bytes themselves: no JSON media type; JSON that is broken, ambiguous
 *                    or beyond bounds; pointers on what is not canonical JSON; an unknown
 *                    content coding, still encoded
 *
 * Two bodies of one media type under one recipe have the same canonical bytes only when they have
 * the same content. Within JSON and within forms, bytes that count raw are never a canonical form,
 * and a canonical form is its own; multipart/form-data escapes (core/web/multipart.h). Across media
 * types the target hash distinguishes them; across recipes nothing is compared, as a record keeps
 * its own. A body in an unknown coding has the canonical bytes of its encoded bytes sent plain: the
 * target hash distinguishes them.
 *
 * How a recipe is stored with its record is in recipe.c.
 */
#ifndef PAWL_CORE_PAYLOAD_H
#define PAWL_CORE_PAYLOAD_H

#include "base/crypto/digest.h"
#include "base/json/json.h"

enum payload_mode {
    PAYLOAD_ALL,     /* the whole canonical body */
    PAYLOAD_INCLUDE, /* only what the pointers name */
    PAYLOAD_EXCLUDE, /* all but what the pointers name */
    PAYLOAD_RAW,     /* the bytes, after content decoding, without canonical form */
    PAYLOAD_IGNORE,  /* nothing: every body is the same */
};

#define PAYLOAD_POINTERS_MAX 32

/* The recipe of all of a body, which needs no config. */
#define PAYLOAD_RECIPE_ALL "2 all"
/* The recipe of a job: what is compared is its command line (job/job.h). */
#define PAYLOAD_RECIPE_JOB "job1"

/* A rule's choice of what counts. Pointers are RFC 6901, checked when the config was read. */
struct payload_selection {
    enum payload_mode mode;
    bool as_json; /* `body: json`: JSON whatever Content-Type says */
    int version;  /* of the recipe; 0: the present one */
    size_t n_pointers;
    struct slice pointers[PAYLOAD_POINTERS_MAX];
};

/* "all", "include", "exclude", "raw", "ignore". */
const char *payload_mode_name(enum payload_mode mode);

/* Whether the hash counts what the pointer names. */
bool payload_counts(const struct payload_selection *selection, struct slice pointer);

/* The recipe: version and selection as one line of text, stored with a record so that a later
 * attempt is hashed the same way, whatever the config says by then. "2 all", "2 raw", "2 ignore",
 * "2 include /a /b" (in pointers '%', space and control bytes percent-encoded); "2 json all" where
 * the body is JSON whatever Content-Type says. Records of version 1 go on under it: their target
 * hash lacks payload_labels, and the upstream knows them by the key as the client spelled it. */
void payload_recipe_write(const struct payload_selection *selection, struct buf *buf);

/* Reads a recipe, of version 1 or 2; the slices point into `arena`. False: it is none. */
bool payload_recipe_read(struct slice recipe, struct arena *arena,
                         struct payload_selection *ret_selection);

/* Whether the recipe is of version 1. */
bool payload_recipe_is_old(struct slice recipe);

/* How the canonical bytes came to be. */
enum payload_kind {
    PAYLOAD_IS_JSON,
    PAYLOAD_IS_FORM,
    PAYLOAD_IS_MULTIPART,
    PAYLOAD_IS_RAW,
};

/* One request's body, decoded and understood once, for hash, key templates and pointers. */
struct payload {
    enum payload_kind kind;
    struct slice bytes;       /* after content decoding */
    const struct json *json;  /* with PAYLOAD_IS_JSON */
    struct slice boundary;    /* with PAYLOAD_IS_MULTIPART */
    enum json_error problem;  /* why bytes of a JSON media type are raw; JSON_OK otherwise */
    size_t problem_offset;    /* the byte of `bytes` where it was seen */
    bool malformed_form;      /* a form by its type, but broken: kind is raw */
    bool malformed_multipart; /* multipart/form-data by its type, but broken: kind is raw */
    bool coding_unknown;      /* Content-Encoding is none of identity, gzip, deflate: kind is raw */
};

enum payload_error {
    PAYLOAD_OK,
    PAYLOAD_TOO_LARGE,  /* decoded, the body would pass `max_decoded` */
    PAYLOAD_BAD_CODING, /* the gzip or deflate stream is broken */
    PAYLOAD_NO_MEMORY,
};

struct payload_input {
    struct slice body;
    struct slice content_type;     /* the field's value; empty: absent */
    struct slice content_encoding; /* likewise */
    size_t max_decoded;            /* bytes after content decoding */
    bool as_json;                  /* JSON whatever `content_type` says */
};

/* Understands a body by its Content-Type and Content-Encoding. JSON is application/json and any
 * +json type, or everything under `as_json`. Everything made lives in `arena`; JSON may need 32
 * times the body's size, and an arena with less room is PAYLOAD_NO_MEMORY. */
enum payload_error payload_read(struct arena *arena, const struct payload_input *input,
                                struct payload *ret_payload);

/* Appends the canonical bytes of what `selection` takes. False: no memory or buf's max. */
bool payload_canonical(const struct payload *payload, const struct payload_selection *selection,
                       struct buf *buf);

/* The payload hash. False: no memory. */
bool payload_hash(const struct payload *payload, const struct payload_selection *selection,
                  struct digest *ret_hash);

/* What of Content-Type and Content-Encoding counts beside the media type, because the bytes alone
 * do not say what they mean: for the target hash. */
enum {
    PAYLOAD_LABEL_TYPE = 1,   /* all of a multipart/... value: the body was not read part by part */
    PAYLOAD_LABEL_CODING = 2, /* the body counts as it was coded */
};
unsigned payload_labels(const struct payload *payload, const struct payload_selection *selection);

/* The decoded value of form field `name` (the first one), allocated in `arena`; `.at` NULL: absent
 * or not a form. */
struct slice payload_form_value(const struct payload *payload, struct arena *arena,
                                struct slice name);

#endif
