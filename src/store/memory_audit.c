/* SPDX-License-Identifier: Apache-2.0 */
/* The memory backend's audit: acts of operators, oldest first. */
#include "base/check.h"
#include "base/mem.h"
#include "store/memory_table.h"
#include <stdio.h>

#define AUDITS_FIRST ((size_t)16)

static char *keep_text(char *at, struct slice *text)
{
    if (text->len > 0)
        memcpy(at, text->at, text->len);
    *text = slice_make(at, text->len);
    return at + text->len;
}

static struct audit_row *new_row(const struct store_audit *from)
{
    size_t size = from->actor.len + from->tenant.len + from->rule.len + from->key.len;
    struct audit_row *row = mem_alloc(sizeof *row + size);
    if (!row)
        return NULL;
    row->store = *from;
    char *at = keep_text(row->storage, &row->store.actor);
    at = keep_text(at, &row->store.tenant);
    at = keep_text(at, &row->store.rule);
    keep_text(at, &row->store.key);
    return row;
}

static bool make_room(struct audits *audits)
{
    if (audits->n < audits->max)
        return true;
    size_t max = audits->max > 0 ? audits->max * 2 : AUDITS_FIRST;
    struct audit_row **at = mem_realloc(audits->at, max * sizeof *at);
    if (!at)
        return false;
    audits->at = at;
    audits->max = max;
    return true;
}

enum backend_status memory_add_audit(struct backend *backend, const struct store_audit *audit)
{
    struct audits *audits = &table_of(backend)->audits;
    CHECK(audits->n == 0 || audits->at[audits->n - 1]->store.id < audit->id);
    struct audit_row *row = new_row(audit);
    if (!row || !make_room(audits)) {
        mem_free(row);
        snprintf(backend->problem, sizeof backend->problem, "the memory store: out of memory");
        return BACKEND_NO_MEMORY;
    }
    audits->at[audits->n++] = row;
    return BACKEND_OK;
}

enum backend_status memory_list_audits(struct backend *backend, const struct store_audit_list *list)
{
    const struct audits *audits = &table_of(backend)->audits;
    size_t listed = 0;
    for (size_t i = audits->swept; i < audits->n && listed < list->limit; i++) {
        if (audits->at[i]->store.id <= list->after)
            continue;
        list->each(list->argument, &audits->at[i]->store);
        listed++;
    }
    return BACKEND_OK;
}

size_t memory_sweep_audits(struct table *table, int64_t now, size_t max)
{
    struct audits *audits = &table->audits;
    size_t from = audits->swept;
    while (audits->swept < audits->n && audits->swept - from < max &&
           audits->at[audits->swept]->store.at <= now - STORE_AUDIT_KEEP_US)
        audits->swept++;
    return audits->swept - from;
}

void memory_mark_audits(struct table *table)
{
    CHECK(table->audits.swept == 0);
    table->audits.n_then = table->audits.n;
}

void memory_undo_audits(struct table *table)
{
    struct audits *audits = &table->audits;
    while (audits->n > audits->n_then)
        mem_free(audits->at[--audits->n]);
    audits->swept = 0;
}

void memory_drop_audits(struct table *table)
{
    struct audits *audits = &table->audits;
    for (size_t i = 0; i < audits->swept; i++)
        mem_free(audits->at[i]);
    audits->n -= audits->swept;
    for (size_t i = 0; i < audits->n && audits->swept > 0; i++)
        audits->at[i] = audits->at[i + audits->swept];
    audits->swept = 0;
    audits->n_then = audits->n;
}

void memory_free_audits(struct table *table)
{
    table->audits.n_then = 0;
    memory_undo_audits(table);
    mem_free(table->audits.at);
}
