/* SPDX-License-Identifier: Apache-2.0 */
/* template_clock: the sources of the time, {date:..}, {week:..} and {hour..}
 * (core/template/template.h). */
#ifndef PAWL_CORE_TEMPLATE_CLOCK_H
#define PAWL_CORE_TEMPLATE_CLOCK_H

#include "core/template/template.h"

/* The value of such a part. Missing: the request names no zone, or one that there is not. */
enum template_result template_clock_value(const struct template_facts *facts,
                                          const struct template_part *part, struct arena *arena,
                                          struct slice *ret_value);

/* Appends why that was missing. */
void template_clock_explain(const struct template_facts *facts, const struct template_part *part,
                            struct buf *buf);

#endif
