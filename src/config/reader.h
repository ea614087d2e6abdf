/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reader: a config while it is read, and the readers of option values. A reader that does not like
 * its value complains and leaves the field as it was; the config is refused in the end.
 *
 * Beside reader.c: response_values.c and condition_values.c (what responses mean and duplicates
 * get), templates.c (templates and patterns), rules.c (from the draft of a rule to the
 * rule), review.c and spaces.c (checks across all rules), risks.c (checks of one rule).
 */
#ifndef PAWL_CONFIG_READER_H
#define PAWL_CONFIG_READER_H

#include "config/contents.h"
#include "config/node.h"
#include "config/options.h"
#include "config/warnings.h"

#define DRAFT_STATUSES_MAX 64

/* A rule before its last checks; first the table's defaults, then the file's, then its own. */
struct rule_draft {
    struct rule rule; /* the recipe comes at the end */
    bool has_tenant;
    bool says_first;  /* `unknown` has a `first` of its own */
    unsigned allowed; /* a bit for each class of warnings that is not shown */
    enum remember remember;
    struct draft_statuses {
        size_t n;
        int at[DRAFT_STATUSES_MAX];
        struct response_conditions conditions;
    } not_done, in_doubt, not_found;
    const struct node *set[OPTION_COUNT]; /* the node that set it; NULL: the table's default */
};

/* Whether its lease is the one of participants, and not the table's. */
static inline bool rule_draft_has_short_lease(const struct rule_draft *draft)
{
    return draft->rule.unknown == RECORD_UNKNOWN_PARTICIPANT && !draft->set[OPTION_lease];
}

struct reader {
    struct config *config;
    struct rule_draft *draft; /* what is filled now */
    struct complaints *errors;
    struct complaints *warnings;
    struct complaints *notes; /* what to know, even of a good config */
    bool token_readable;      /* by every user of this machine */
    struct arena *scratch;    /* lives as long as the reading */
    bool is_foreign;          /* it is not the operator's file: no file is read for it */
    struct arena *texts;      /* what the finished rules, endpoints and sources point to */
    const struct node *section_nodes[CONFIG_SECTIONS_MAX]; /* NULL: it is not in the file */
    /* What `config explain` shows, once all was read. */
    const struct rule_draft *base; /* the top and `defaults` */
    struct rule_draft *const *drafts;
    size_t n_drafts;
};

/* Complains `KEY: TEXT` at the node. */
void reader_complain(struct reader *reader, const struct node *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Complains `KEY: 'VALUE' is wrong (expected EXPECTED)`. */
void reader_expected(struct reader *reader, const struct node *node, const char *expected);

/* The same, with the value that was probably meant; empty: none. */
void reader_expected_near(struct reader *reader, const struct node *node, const char *expected,
                          const struct buf *meant);

/* The same where the value was probably meant to be that of `member`, in a map. */
void reader_meant_member(struct reader *reader, const struct node *node, const char *member,
                         const char *expected);

/* The text of a scalar. False: it is none, and that was complained about. */
bool reader_scalar(struct reader *reader, const struct node *node, const char *expected,
                   struct slice *ret_text);

/* The number of the one among `choices` (divided by '|') that the scalar says; those in brackets
 * are other forms that the value could have, named for the message. */
bool reader_choice(struct reader *reader, const struct node *node, const char *choices,
                   size_t *ret_index);

/* Whether a scalar is a JSON pointer with what elsewhere is a wildcard: it would name nothing,
 * without a word. Then it complained. */
bool reader_refuse_wild(struct reader *reader, const struct node *node);

/* The only member of a map, whose name is one of `choices` (divided by '|'). NULL: it complained.
 */
const struct node *reader_only_member(struct reader *reader, const struct node *map,
                                      const char *choices, size_t *ret_index);

/* Complains of what is no list, or one of more than `most` items; each is `expected`. */
void reader_not_a_list(struct reader *reader, const struct node *node, size_t most,
                       const char *expected);

/* A text, where the rules' texts are. */
struct reader_text {
    bool (*is_good)(struct slice text);
    const char *a_text;   /* what was expected of what is no text, */
    const char *expected; /* and of one that is not good */
};
void reader_text(struct reader *reader, const struct node *node, const struct reader_text *wanted,
                 struct slice *field);

/* The items of a list, each accepted by `is_good`; copied to where the rules' texts are. False: it
 * complained. */
struct reader_texts {
    size_t n;
    size_t max;
    struct slice *at;
};
bool reader_list(struct reader *reader, const struct node *node, bool (*is_good)(struct slice),
                 const char *expected, struct reader_texts *texts);

/* Whether it may be the name of a rule, endpoint or source. */
bool reader_is_name(struct slice text);

/* Where the text names a file (`file:PATH`), that file's first line. `*ret_path`: of the file, or
 * NULL. False: it complained. */
bool reader_secret(struct reader *reader, const struct node *node, struct slice *text,
                   const char **ret_path);

/* Complains of a member whose name is none of `names`, with the nearest of them, or all. */
void reader_unknown_name(struct reader *reader, const struct node *node, const struct slice *names,
                         size_t n);

/* Warns at `node` (NULL: does nothing), unless the draft that is read now allows that class. */
void reader_warn(struct reader *reader, enum warning warning, const struct node *node,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));

#define READER_UNUSED __attribute__((unused))
#define READER_NAMED(function)                                                                     \
    void function(struct reader *reader READER_UNUSED, const struct option *option READER_UNUSED,  \
                  const struct node *node READER_UNUSED, void *field READER_UNUSED)
#define OPTION_READER(name) READER_NAMED(read_##name)

#define X(name, where, owner, field, reader, ...) READER_NAMED(read_##reader);
CONFIG_OPTIONS(X)
CONFIG_PARTS(X)
#undef X

/* The struct that holds the member which `field` is: for a reader that fills more than that. */
#define READER_STRUCT(field, owner, member)                                                        \
    ((struct owner *)(void *)((char *)(field)-offsetof(struct owner, member)))

OPTION_READER(name);

/* A list of delays, as retry_schedule_set_delays takes it, where the rules' texts are. 0: it
 * complained, or there is no memory. */
int reader_delays(struct reader *reader, const struct option *option, const struct node *node,
                  const int64_t **ret_list);

/* The times of an endpoint's attempts: a word, or delays. */
OPTION_READER(schedule);

/* One of several words: values.c. */
OPTION_READER(on_failure);
OPTION_READER(hash);
OPTION_READER(encoding);
OPTION_READER(inbox_mismatch);
OPTION_READER(first);

/* Complains of sources of `inbox` (at `node`) that cannot be, and makes their rules, once all
 * others are there. */
void inbox_compile(struct reader *reader, const struct node *node);

/* Compiles what the scalar at `node` says, and reads the time zones that it needs. False: it
 * complained, or there is no memory. */
bool reader_template(struct reader *reader, const struct node *node, struct slice text,
                     enum template_use use, struct template *ret_template);

/* Complains of an `once` that does not fit the rule, and takes from the rule what it leaves open.
 */
void once_review(struct reader *reader, struct rule_draft *draft);

/* Complains of a `retry` of the rule's own whose times do not fit into the rule's. */
void retry_review(struct reader *reader, const struct rule_draft *base);

/* One sort of duplicate, as `duplicate` and `once` say it. False: it complained. */
bool reader_duplicate(struct reader *reader, const struct node *node,
                      enum rule_duplicate *ret_duplicate, int *ret_ack_status);

/* Whether an option of this rule has an effect there; one that has none is refused. */
bool option_counts(const struct rule_draft *draft, enum option_id id);

/* Compiles the rules of the list `node` (NULL: none) into the config's rule set. `base`: what they
 * begin with. */
void rules_compile(struct reader *reader, const struct node *node, const struct rule_draft *base);

/* Complains of what one protected rule cannot mean, and warns of what it seldom means. */
void rule_review(struct reader *reader, struct rule_draft *draft);

/* Whether the target of its probe says whose operation is meant. */
bool rule_probe_names_tenant(const struct rule *rule);

/* The same of all rules, and of what is wrong between them. */
void rules_review(struct reader *reader, struct rule_draft *const *drafts, size_t n);

/* Complains of rules that are to share their keys (`key_space`), and would not make the same ones.
 */
void spaces_review(struct reader *reader, struct rule_draft *const *drafts, size_t n);

#endif
