/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/part.h"
#include "base/check.h"

struct config_sections part_sections(const struct part *const *parts)
{
    struct config_sections sections = {0};
    for (; *parts; parts++) {
        if (!(*parts)->section)
            continue;
        CHECK(sections.n < CONFIG_SECTIONS_MAX);
        sections.at[sections.n++] = (*parts)->section;
    }
    return sections;
}

void part_reload_service(void *self, const struct config *config)
{
    service_reload(self, config);
}
