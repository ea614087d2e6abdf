/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node: the YAML of a config as a tree that remembers places. The one user of libyaml.
 *
 * A small YAML on purpose: one document; no anchors, aliases, merge keys or tags, which would let a
 * value come from somewhere else than where it is read; no name twice in a map. `${VAR}` in a value
 * is the environment's, put in after parsing, so that it can add no structure.
 */
#ifndef PAWL_CONFIG_NODE_H
#define PAWL_CONFIG_NODE_H

#include "config/complaints.h"

#define NODE_DEPTH_MAX 16
#define NODE_MEMBERS_MAX 100 /* of one map */
/* What `config explain` prints of 1000 rules, twice. */
#define NODE_TEXT_MAX (4 * 1024 * 1024)

enum node_kind {
    NODE_SCALAR,
    NODE_LIST,
    NODE_MAP,
    NODE_BAD, /* complained about already */
};

struct node {
    enum node_kind kind;
    bool is_null;         /* scalar: nothing, `~` or `null`, without quotes */
    bool is_plain;        /* scalar: without quotes, so that 5 is a number and true is no text */
    bool is_secret;       /* the value of an OPTION_SECRET, once that is read */
    struct slice text;    /* scalar: its value */
    struct slice written; /* scalar: as in the file, before the environment; fit for messages */
    struct slice key;     /* its name in the map that holds it; an item has its list's */
    struct place place;
    struct place key_place;
    struct node *first; /* list, map */
    struct node *next;  /* sibling */
    size_t count;
};

/* Reads `text`; the tree lives in `arena`. NULL: not YAML, or no memory (arena->failed). A tree may
 * come with complaints too. An empty text is an empty map. */
struct node *node_read(struct slice text, struct arena *arena, struct complaints *complaints);

/* The same of a text that others than the operator may have written: `${VAR}` stays as it is. */
struct node *node_read_foreign(struct slice text, struct arena *arena,
                               struct complaints *complaints);

/* The one of that name. NULL: there is none. */
const struct node *node_member(const struct node *map, struct slice key);

#endif
