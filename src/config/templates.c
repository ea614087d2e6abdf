/* SPDX-License-Identifier: Apache-2.0 */
/* Templates of options, and the time zones that they need (base/time/zones.h). */
#include "base/text/nearest.h"
#include "config/reader.h"

/* Read when the first template asks for one. NULL: no memory. */
static struct zones *zones_of(struct reader *reader)
{
    struct rule_set *set = reader->config->gateway.rules;
    if (set->zones)
        return set->zones;
    set->zones = arena_alloc(&set->arena, sizeof *set->zones);
    if (set->zones)
        set->zones->n = 0;
    return set->zones;
}

static void complain_of_zone(struct reader *reader, const struct node *node, struct slice name,
                             struct zones *zones)
{
    struct nearest nearest = {.given = name};
    zones_add_all(zones, reader->texts);
    for (size_t i = 0; i < zones->n; i++)
        nearest_try(&nearest, zones->at[i]->name);
    reader_complain(reader, node,
                    "there is no time zone \"%.*s\" in " ZONE_FOLDER "; the nearest is %.*s",
                    SLICE_ARG(name), SLICE_ARG(zones->n > 0 ? nearest.best : SLICE("UTC")));
}

/* Those that requests name are all there are: none is read while they wait. */
static bool add_zone(struct reader *reader, const struct node *node,
                     const struct template_part *part)
{
    struct zones *zones = zones_of(reader);
    if (!zones)
        return false;
    if (!template_part_asks_zone(part)) {
        if (zones_add(zones, part->text, reader->texts))
            return true;
        if (!reader->texts->failed)
            complain_of_zone(reader, node, part->text, zones);
        return false;
    }
    zones_add_all(zones, reader->texts);
    if (zones->n == 0)
        reader_complain(reader, node,
                        "there are no time zones in " ZONE_FOLDER " (expected those of the package "
                        "tzdata)");
    return zones->n > 0;
}

bool reader_template(struct reader *reader, const struct node *node, struct slice text,
                     enum template_use use, struct template *ret_template)
{
    struct slice problem = {NULL, 0};
    struct slice copy = arena_copy(reader->texts, text);
    if (!template_compile(copy, use, reader->texts, ret_template, &problem)) {
        reader_complain(reader, node, "%.*s", SLICE_ARG(problem));
        return false;
    }
    for (size_t i = 0; i < ret_template->n; i++) {
        const struct template_part *part = &ret_template->parts[i];
        if (template_part_is_clock(part) && part->text.len > 0 && !add_zone(reader, node, part))
            return false;
    }
    return true;
}
