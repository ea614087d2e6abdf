/* SPDX-License-Identifier: Apache-2.0 */
#include "job/groups.h"

#include "base/check.h"
#include "base/mem.h"

struct group {
    struct group *next; /* of its bucket */
    struct groups_item *first, *last;
    size_t len;
    char name[];
};

static size_t group_bucket_of(struct slice name)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (size_t i = 0; i < name.len; i++)
        hash = (hash ^ (unsigned char)name.at[i]) * UINT64_C(1099511628211);
    return hash % GROUPS_BUCKETS;
}

/* The link that leads to it, or to where it would be. */
static struct group **find_group(struct groups *groups, struct slice name)
{
    struct group **link = &groups->buckets[group_bucket_of(name)];
    while (*link && !slice_eq(slice_make((*link)->name, (*link)->len), name))
        link = &(*link)->next;
    return link;
}

enum groups_result groups_begin(struct groups *groups, struct groups_item *item)
{
    if (item->group.len == 0)
        return GROUPS_MAY_RUN;
    struct group **link = find_group(groups, item->group), *group = *link;
    item->next = NULL;
    if (!group) {
        *link = group = mem_alloc(sizeof *group + item->group.len);
        if (!group)
            return GROUPS_NO_MEMORY;
        *group = (struct group){.len = item->group.len};
        memcpy(group->name, item->group.at, item->group.len);
        return GROUPS_MAY_RUN;
    }
    if (group->last)
        group->last->next = item;
    else
        group->first = item;
    group->last = item;
    groups->waiting++;
    return GROUPS_WAITS;
}

/* The next item of a group, which is forgotten where there is none. */
static struct groups_item *take_next_item(struct groups *groups, struct group **link)
{
    struct group *group = *link;
    struct groups_item *next = group->first;
    if (!next) {
        *link = group->next;
        mem_free(group);
        return NULL;
    }
    CHECK(groups->waiting > 0 && group->last);
    group->first = next->next;
    if (!group->first)
        group->last = NULL;
    next->next = NULL;
    groups->waiting--;
    return next;
}

struct groups_item *groups_end(struct groups *groups, const struct groups_item *item)
{
    if (item->group.len == 0)
        return NULL;
    struct group **link = find_group(groups, item->group);
    CHECK(*link);
    return take_next_item(groups, link);
}

struct groups_item *groups_take_any(struct groups *groups)
{
    for (size_t i = 0; i < GROUPS_BUCKETS; i++)
        while (groups->buckets[i]) {
            struct groups_item *item = take_next_item(groups, &groups->buckets[i]);
            if (item)
                return item;
        }
    return NULL;
}
