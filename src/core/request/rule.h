/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rule: the contract of one route, compiled from the config; rule_set: all of them, immutable and
 * reference-counted, so that an exchange ends under the rules it began with. Pure.
 *
 * The target hash is in target.c.
 */
#ifndef PAWL_CORE_RULE_H
#define PAWL_CORE_RULE_H

#include "base/thread.h"
#include "core/copied.h"
#include "core/emit.h"
#include "core/error_text.h"
#include "core/record.h"
#include "core/request/key_header.h"
#include "core/request/payload.h"
#include "core/retry/disposition.h"
#include "core/retry/retry.h"
#include "core/template/template.h"
#include <stdatomic.h>

#define RULE_LIST_MAX 16
#define RULE_FORMERLY_MAX 4

/* The methods that a rule takes, a bit each. */
enum rule_methods {
    RULE_POST = 1,
    RULE_PUT = 2,
    RULE_PATCH = 4,
    RULE_DELETE = 8,
    RULE_OTHER = 16, /* every other one but GET, HEAD, OPTIONS, CONNECT and TRACE */
    RULE_EVERY = 31, /* `*` */
};

/* `METHOD[,METHOD] /path/{param}/rest`, split when compiled. Segments are normalised. */
struct rule_match {
    unsigned methods;
    size_t n_segments;
    bool rest; /* the path ends in two stars: any segments may follow, or none */
    struct rule_segment {
        struct slice text; /* literal, or the parameter's name */
        bool is_param;
        struct slice before; /* literals round the parameter, as in v{n} and {id}:cancel */
        struct slice after;
    } segments[TEMPLATE_PATH_PARAMS_MAX];
};

enum rule_query {
    RULE_QUERY_ALL,
    RULE_QUERY_NONE,
    RULE_QUERY_NAMES,
};

/* What a duplicate of a `complete` record gets. */
enum rule_duplicate {
    RULE_DUPLICATE_REPLAY, /* the first response */
    RULE_DUPLICATE_REJECT, /* 409, and what the first response was */
    RULE_DUPLICATE_ACK,    /* a success without a body */
};

/* `once:`, the second identity (core/once.h). */
struct rule_once {
    bool on;
    struct template key;
    int64_t template_id; /* of its text: values of two templates are not compared */
    int64_t ttl_us;      /* with {window:} in the key: its length */
    enum rule_duplicate duplicate;
    int ack_status;   /* with RULE_DUPLICATE_ACK */
    bool any_payload; /* `payload: ignore` */
};

/* `retry:`, further tries of the gateway's own. */
struct rule_retry {
    bool on;
    enum retry_profile profile;     /* in metrics, too */
    struct retry_schedule schedule; /* the profile's, with the rule's own delays if it names any */
    bool own_delays;
    int64_t try_timeout_us; /* of each try; CLOCK_NEVER: the rule's timeout is all there is */
};

struct rule {
    struct slice name;
    size_t n_formerly;
    struct slice formerly[RULE_FORMERLY_MAX]; /* names under which older records stand */
    struct slice key_space; /* in which clients' keys are one key; empty: its own, the name */
    struct slice moved;     /* identity_digest of the one that it may leave; empty: none */
    struct rule_match match;
    bool protect; /* false: passes as if unruled */
    bool require;
    bool tenant_none; /* `tenant: none` */
    bool trust_tenant;
    bool secret; /* the tenant is a credential whatever its source: stored as its keyed hash */
    struct template tenant;
    struct template key;
    struct rule_once once;
    enum key_syntax key_syntax;
    const struct key_format *key_format; /* NULL: any */
    enum key_format_kind key_format_kind;
    struct slice key_pattern; /* with KEY_FORMAT_REGEX, as written */
    int64_t key_max_age_us;   /* how old a key may be that begins; 0: any, or it says no age */
    enum key_forward forward_key;
    bool body_json; /* the body is JSON whatever Content-Type says; payload.as_json follows it */
    struct payload_selection payload;
    struct slice recipe; /* payload_recipe_write of `payload` */
    enum rule_query query;
    size_t n_query_names;
    struct slice query_names[RULE_LIST_MAX];
    size_t n_headers; /* that count for the target hash */
    struct slice headers[RULE_LIST_MAX];
    int64_t ttl_us;
    int64_t tombstone_us;
    int64_t lease_us;
    int64_t timeout_us;
    int64_t in_progress_wait_us; /* 0: conflict at once */
    int64_t settle_us;
    enum record_unknown unknown;
    int64_t hold_us;             /* with RECORD_UNKNOWN_HOLD: 0: without an end */
    struct template probe;       /* target, with RECORD_UNKNOWN_PROBE; always GET */
    enum record_first first;     /* whether it is asked before the first send, too */
    int probe_status;            /* 0: the probe's own */
    bool probes_alone;           /* it is sent in the background, too, */
    struct slice probe_headers;  /*   with these lines */
    bool authorizes;             /* the service is asked before a request begins */
    struct template authorize;   /* with that: the target; always GET; no source of the body */
    struct slice authorize_host; /* and its Host, never empty then */
    struct remember_policy responses;
    struct body_conditions by_body;           /* come before these */
    struct remember_policy not_found;         /* of a probe's: SORT_NOT_DONE is "not found", */
    struct body_conditions not_found_by_body; /* and what says so, too */
    enum rule_duplicate duplicate;
    int ack_status;       /* with RULE_DUPLICATE_ACK: 200 or 204 */
    int mismatch_status;  /* 409, 422 or 400 */
    bool store_down_pass; /* while the store cannot decide: passes unprotected, not refused */
    uint64_t max_request_body;
    uint64_t max_response_body;
    uint64_t keep_request; /* bytes of the body that a pending record keeps */
    struct rule_retry retry;
    bool replay_cookies;
    struct copied_members copied;     /* into what is replayed */
    bool stream;                      /* responses pass live, and leave a tombstone */
    struct emit emit;                 /* the event that tells of its success */
    const struct error_texts *errors; /* bodies of pawl's own errors; NULL: problems */
    const struct inbox_source *inbox; /* what it receives (webhook/settings.h); NULL: nothing */
};

struct rule_set {
    atomic_int refs;
    struct arena arena; /* owns every text, and `rules` */
    size_t n;
    struct rule *rules;       /* in order: the first match wins */
    struct rule_index *index; /* over `rules`; NULL: none yet, no rule is met */
    struct zones *zones;      /* that keys need, in `arena`; NULL: none */
    struct rule_set *inboxes; /* whose rules come before these; NULL: none */
    struct rule_set *closed;  /* of paths that pawl alone asks for: by POST, whatever the method of
                                 the request; NULL: none */
    /* What alone changes: how the store saw it last (engine/identities.h). */
    struct mutex learning; /* of whoever changes them */
    uint64_t looks;        /* at the store, and */
    uint64_t learned;      /* the number of that one from which this is */
    atomic_llong epoch;
    atomic_bool *moved; /* of each rule; in `arena` */
    atomic_int *trials; /* the same (trial.h) */
};

/* An empty set with one reference, whose texts and rules take at most `arena_max` bytes; NULL: no
 * memory. Whoever fills it sets `rules` (in `arena`) and `n` and calls rule_set_index; then it is
 * shared and stays as it is. */
struct rule_set *rule_set_new(size_t arena_max);
/* Makes the rules findable. False: no memory. */
bool rule_set_index(struct rule_set *set);
struct rule_set *rule_set_ref(struct rule_set *set);
/* Accepts NULL. */
void rule_set_unref(struct rule_set *set);

/* What this response to its probe says: SAYS_NOT_DONE, there is no such operation; SAYS_IN_DOUBT,
 * there was no memory to read it. `body`: all of it, or empty. */
enum response_says rule_probe_says(const struct rule *rule, int status,
                                   const struct headers *headers, struct slice body);

/* In which key space the keys of its clients are. */
struct slice rule_key_space(const struct rule *rule);

/* The rule whose records have this name: by its name, present or old, else the only one that is in
 * the key space of that name. NULL: none does any more. */
const struct rule *rule_set_named(const struct rule_set *set, struct slice name);

/* Compiles `METHOD[,METHOD] /path`: POST, PUT, PATCH, DELETE, or `*` for every method but GET,
 * HEAD, OPTIONS, CONNECT and TRACE; {name} for one segment, two stars as the last segment for any
 * rest; a literal may be before or behind {name}. False: `*ret_problem` says what is wrong, and the
 * right spelling of a pattern. */
bool rule_match_compile(struct slice text, struct arena *arena, struct rule_match *ret_match,
                        struct slice *ret_problem);

/* Whether a segment of a normalised path fits, and the value of the parameter (of a literal:
 * empty). Literals are compared decoded; `raw`: as they are spelled, as servers do that decode no
 * escape. A parameter that has a literal beside it is not empty. */
bool rule_segment_takes(const struct rule_segment *segment, struct slice text, bool raw,
                        struct slice *ret_value);

/* Appends `METHOD[,METHOD] /path/{param}`, the path normalised. */
void rule_match_write(const struct rule_match *match, struct buf *buf);

/* The only method that is matched; `.at` NULL: there are several. */
struct slice rule_match_method(const struct rule_match *match);

/* Whether the tenant is a credential, by its source or because the rule says so. */
bool rule_hides_tenant(const struct rule *rule);

/* Whether it asks before the first send, always or while records may be missing. */
static inline bool rule_asks_first(const struct rule *rule)
{
    return rule->unknown == RECORD_UNKNOWN_PROBE && rule->first != RECORD_FIRST_OFF;
}

/* Whether the users of a key are known by name: `tenant: none` and one that may be absent are
 * anybody.
 */
bool rule_names_callers(const struct rule *rule);

/* Whether a probe has this line of its own, so that none is given for it. */
bool probe_owns_header(struct slice name);

/* The methods with which every request that `later` takes is taken by `earlier`: with all of its
 * methods covered, by one rule or by several, `later` can never be reached. */
unsigned rule_match_covers(const struct rule_match *earlier, const struct rule_match *later);

/* The header of the request that applications behind CGI, WSGI or Rack would take for one that the
 * rule judges by (key, tenant, authorize, probe, `headers`, a method override), because it has '_'
 * for '-'. NULL: none. */
const struct header *rule_look_alike(const struct rule *rule, const struct headers *headers);

/* The first {path:NAME} in `template` that `match` has no parameter for; `.at` NULL: none. */
struct slice rule_match_lacks(const struct rule_match *match, const struct template *template);

/* ---- which rule ---- */

enum rule_find {
    RULE_FOUND,
    RULE_NONE,             /* no rule: pass */
    RULE_PATH_AMBIGUOUS,   /* 400: the path could be read so that it meets another rule */
    RULE_METHOD_AMBIGUOUS, /* 400: so could the method */
    RULE_METHOD_REFUSED,   /* 405: CONNECT or TRACE */
    RULE_NO_MEMORY,
};

struct rule_request {
    struct slice method; /* as sent */
    struct slice path;   /* as sent, without '?' */
    const struct headers *headers;
};

struct rule_found {
    const struct rule *rule;
    struct slice path;           /* normalised */
    struct template_facts facts; /* method, route, headers, path parameters; the rest is zero */
};

/* The first rule for a method (compared without case, as some servers do) and a path; `*ret_found`
 * is written with RULE_FOUND.
 *
 * A path that is ambiguous (path_is_ambiguous) is refused unless every reading of it meets the same
 * rule, or none, and that rule takes nothing from the path ({path:}): a server may resolve ".." and
 * leave %2F, or the reverse. Other spellings are refused only where they would lead to another rule
 * than the path as written: ";parameters" dropped ("/refunds;x"), encoded control characters and
 * spaces and trailing dots dropped ("/refunds%0A"), escapes decoded once more ("/%2572efunds"),
 * %uXXXX and overlong UTF-8 decoded, the path ended at %3F or %23; and, whatever they lead to,
 * where the rule takes something from the path, which would be another key to them
 * (path_is_unclean). Where trying all readings would cost too much, the path is refused unread if
 * any rule has the method. What is not seen: servers that route without regard to case or by suffix
 * ("/Refunds", "/refunds.json"), and what stands outside path and method.
 *
 * Method-override headers (X-HTTP-Method-Override, X-HTTP-Method, X-Method-Override; '_' counts as
 * '-'): nobody here knows whether the upstream heeds them, so the sent method and every method that
 * they name must meet the same rule, or none. `facts.method` is what counts as the method: the sent
 * one, and behind a comma each what such headers say, so that no other request has the same target
 * hash. */
enum rule_find rule_find_request(const struct rule_set *set, const struct rule_request *request,
                                 struct arena *arena, struct rule_found *ret_found);

/* Whether a header of this name says another method than the request line. */
bool rule_is_override(struct slice name);

/* Whether the request is GET, HEAD or OPTIONS in every reading: what is not and meets no rule is
 * marked bypassed. */
bool rule_request_is_safe(const struct headers *headers, struct slice method);

/* target_hash (contract section 4): SHA-256 over "pawl1", method, normalised path, query, media
 * type (of a multipart/... that was not read by its parts all of Content-Type), the content coding
 * where it was not decoded, and the rule's headers, each after its length. A header that Connection
 * names does not count, as the upstream does not see it; of `query: [names]` the raw pairs of these
 * names count, in order. False: no memory. */
bool rule_target_hash(const struct rule *rule, const struct template_facts *facts,
                      struct slice path, struct arena *arena, struct digest *ret_hash);

#endif
